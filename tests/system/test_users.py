"""What uses a device, by its number: the name and the place of its node do not matter."""

import os
from pathlib import Path

import pytest

from blklab.md import command_lines
from blklab.md.model import Array, ArrayPart
from blklab.md.recipes import stop_users
from blklab.system import layers, mounts, users
from blklab.system.identity import of_number
from blklab.system.users import Opener, openers, uses
from tests.system.machine import Machine

SDA = "8:0"
MOUNTS = (
    "22 1 0:5 / /dev rw shared:1 - devtmpfs udev rw\n"
    "23 1 8:99 / / rw shared:1 - ext4 /dev/root rw\n"
    "24 1 0:49 / /mnt/dev rw shared:1 - nfs4 server:/ rw\n"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Nodes are files in `dev`; those whose name has a number of a device are block devices of this number."""
    made = Machine(tmp_path)
    made.device("sda", SDA)
    made.device("sda1", "8:1", parent="sda")
    numbers = {"sda": SDA, "sda1": "8:1", "node": SDA}

    def block_device(path: Path, _roots: object) -> str | None:
        target = str(path.readlink()) if path.is_symlink() else str(path)
        if "/mnt/" in target:
            raise AssertionError(f"{target} would hang")
        return numbers.get(target.removesuffix(" (deleted)").rpartition("/")[2])

    monkeypatch.setattr(layers, "block_device", block_device)
    return made


def process(machine: Machine, pid: int, *files: tuple[str, int, int], maps: str = "") -> None:
    """Makes a process with open files: their paths, mounts and flags."""
    machine.proc(f"{pid}/comm", "program")
    machine.proc(f"{pid}/mountinfo", MOUNTS)
    machine.proc(f"{pid}/maps", maps)
    (machine.roots.proc / f"{pid}/fd").mkdir()
    for at, (path, mount, flags) in enumerate(files):
        (machine.roots.proc / f"{pid}/fd/{at}").symlink_to(path)
        machine.proc(f"{pid}/fdinfo/{at}", f"pos:\t0\nflags:\t{flags:o}\nmnt_id:\t{mount}")


def found(machine: Machine, number: str = SDA) -> list[Opener]:
    return openers(of_number(number, machine.roots), machine.roots)


def test_a_node_outside_of_dev(machine: Machine) -> None:
    process(machine, 70, ("/tmp/node", 23, os.O_RDWR))
    process(machine, 71, ("/dev/sda1", 22, os.O_RDONLY))
    process(machine, 72, ("/dev/null", 22, os.O_RDWR), ("socket:[1]", 9, os.O_RDWR), ("/tmp/file", 23, os.O_RDWR))
    assert found(machine) == [Opener(70, "program", "sda", writes=True), Opener(71, "program", "sda1", writes=False)]
    # A partition is not open because its disk is.
    assert found(machine, "8:1") == [Opener(71, "program", "sda1", writes=False)]


def test_a_shared_mapping_whose_file_is_closed(machine: Machine) -> None:
    lines = (
        "7f00-7f10 rw-p 00000000 00:05 512    /dev/sda\n"
        "7f20-7f30 rw-s 00000000 00:05 512    /dev/sda1 (deleted)\n"
        "7f40-7f50 rw-s 00000000 00:01 7    /memfd:x (deleted)\n"
        "7f60-7f70 rw-p 00000000 00:00 0\n"
    )
    process(machine, 70, maps=lines)
    assert found(machine) == [Opener(70, "program", "sda1", writes=True)]
    (machine.roots.proc / "70/map_files").mkdir()
    (machine.roots.proc / "70/map_files/7f20-7f30").symlink_to("/tmp/node")
    assert found(machine) == [Opener(70, "program", "sda", writes=True)]


def test_files_of_network_filesystems_are_not_asked(machine: Machine) -> None:
    """Its server may be gone: each question would hang. The path has /dev/, and is not there."""
    lines = "7f20-7f30 rw-s 00000000 00:31 512    /mnt/dev/node\n"
    process(machine, 70, ("/mnt/dev/node", 24, os.O_RDWR), maps=lines)
    (machine.roots.proc / "70/map_files").mkdir()
    (machine.roots.proc / "70/map_files/7f20-7f30").symlink_to("/mnt/dev/node")
    assert found(machine) == []


def test_blklab_and_the_kernel_are_no_users(machine: Machine) -> None:
    process(machine, os.getpid(), ("/dev/sda", 22, os.O_RDWR))
    process(machine, 2)
    machine.proc("3/comm", "kworker/0:0")  # Its files cannot be read
    assert found(machine) == []


def test_a_loop_device_uses_the_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.device("loop0", "7:0", loop__backing_file="/tmp/node")
    assert uses(of_number(SDA, machine.roots), machine.roots) == ["sda is the file of loop0"]
    # Its name was given to another file; the kernel knows the number.
    machine.write(machine.roots.sys / "block/loop0", {"loop__backing_file": "/tmp/renamed"})
    monkeypatch.setattr(layers, "loop_device_behind", lambda *_: SDA)
    assert uses(of_number(SDA, machine.roots), machine.roots) == ["sda is the file of loop0"]


def test_sockets_cost_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has tens of thousands of them: neither their flags nor their kinds are read."""
    process(machine, 100, *[("socket:[1]", 9, os.O_RDWR), ("pipe:[2]", 9, 0), ("anon_inode:[eventfd]", 9, 0)] * 40)
    read: list[Path] = []
    monkeypatch.setattr(users, "read_text", read.append)
    assert found(machine) == []
    assert not [path for path in read if "fdinfo" in path.parts]


def array_of(part: ArrayPart, *used_by: str) -> Array:
    return Array("md0", "/dev/md0", "", "raid1", 0, 0, 2, "1.2", True, (), parts=(part,), users=used_by)


def test_mounts_of_another_namespace_are_named_and_not_unmounted(machine: Machine) -> None:
    """The directory of the same name here may be another filesystem."""
    (machine.roots.proc / "self/ns").mkdir()
    (machine.roots.proc / "self/ns/mnt").symlink_to("mnt:[1]")
    machine.mount("9:0", Path("/home"), "ext4", "/dev/md0")
    machine.proc("77/mountinfo", "9 1 9:0 / /srv rw - ext4 /dev/md0 rw")
    (machine.roots.proc / "77/ns").mkdir()
    (machine.roots.proc / "77/ns/mnt").symlink_to("mnt:[2]")
    here, there = mounts.list_all_mounts(machine.roots)
    assert (here.place, there.place) == ("/home", "/srv in another mount namespace (of process 77)")
    part = ArrayPart("md0", "/dev/md0", 0, (here.point,), (there.place,))
    lines = stop_users(array_of(part, f"md0 is mounted at {here.place}", f"md0 is mounted at {there.place}", "a VM"))
    assert [line for line in lines if not line.startswith("#")] == ["umount /home"]
    assert "process 77" in lines[1]
    assert lines[0] == "# It is also used by a VM."


@pytest.mark.parametrize("name", ["/srv/\x1b[2K/", "/srv/a\nreboot", "/srv/\u202egnp", "/srv/\udcff"])
def test_names_that_cannot_be_typed_are_in_no_command(name: str) -> None:
    lines = stop_users(array_of(ArrayPart("md0", "/dev/md0", 0, (name,)), f"swap at {name}"))
    assert all(line.startswith("#") and "\n" not in line and "\x1b" not in line for line in lines)
    assert "umount" in lines[-1]
    assert command_lines.fix_add("/dev/md0", name).startswith("# Not a command")


def test_names_are_one_word() -> None:
    (line,) = stop_users(array_of(ArrayPart("md0", "/dev/md0", 0, ("/srv/$(reboot); x'",))))
    assert line == "umount '/srv/$(reboot); x'\"'\"''"
