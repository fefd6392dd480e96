"""What may be written to: on real loop devices, some with what must not be lost on them."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.restore import restore
from blklab.runners.host.target_locations import claim
from blklab.system.identity import of_number
from blklab.system.layers import beneath, filesystem_devices
from blklab.system.roots import Roots
from blklab.system.users import uses
from tests.runners.host.conftest import MIB, Loops
from tests.runners.host.signatures import partition_table, run, signed


@pytest.fixture
def journal(here: Roots, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostJournal]:
    """A journal; all directories that it announced must be gone afterwards."""
    with HostJournal(here) as made:
        directories: list[Path] = []
        announce = made.directory

        def directory(parent: Path, name: str) -> int:
            directories.append(parent / name)
            return announce(parent, name)

        monkeypatch.setattr(made, "directory", directory)
        yield made
    assert list(here.state.glob("journal-*")) == []
    assert [path for path in directories if path.exists()] == []


def named(file: Path) -> list[str]:
    return [f"file:{file}"]


def test_a_blank_device_that_is_named(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    device = loops.attach(file)
    with claim(device, journal, writes=True, destroy=named(file)) as held:
        held.verify()
        assert held.warnings == ()
        assert held.path.stat().st_rdev == Path(device).stat().st_rdev
        assert held.path.parent.stat().st_mode & 0o777 == 0o700
        with pytest.raises(OSError, match="busy"):
            os.open(device, os.O_RDONLY | os.O_EXCL)
        held.path.write_bytes(b"x" * 4096)
    assert file.read_bytes()[:4096] == b"x" * 4096
    os.close(os.open(device, os.O_RDONLY | os.O_EXCL))


def test_a_link_to_the_device_is_the_device(loops: Loops, journal: HostJournal, tmp_path: Path) -> None:
    file = loops.file("a ..b\tc")
    device = loops.attach(file)
    (tmp_path / "x").mkdir()
    link = tmp_path / "x/.." / "link"
    link.symlink_to(device)
    with claim(str(link), journal, writes=True, destroy=named(file)) as held:
        assert held.device.name == Path(device).name
    with claim(f"file:{file}", journal, writes=True, destroy=named(file)) as held:
        assert held.device.path == device


@pytest.mark.parametrize("other", [(), ("ata-OTHER_123",), ("file:/elsewhere",), ("wwn-0x1",)])
def test_what_is_not_named_is_not_written_to(loops: Loops, journal: HostJournal, other: tuple[str, ...]) -> None:
    file = loops.file()
    device = loops.attach(file)
    with (
        pytest.raises(UsageError, match=f"`destroy` does not name it.*'file:{file}'"),
        claim(device, journal, writes=True, destroy=other, yes_destroy=named(file)),
    ):
        pass


def test_a_bare_name_is_refused_with_the_ids_to_use(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    device = loops.attach(file)
    for bare in (device, device.removeprefix("/dev/"), "/dev/disk/by-path/pci-0"):
        with (
            pytest.raises(UsageError, match=f"'{bare}' is a name that can change.*file:{file}"),
            claim(device, journal, writes=True, destroy=[*named(file), bare]),
        ):
            pass


def test_an_id_of_two_devices_names_none(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    first, second = loops.attach(file), loops.attach(file)
    with (
        pytest.raises(BlklabError, match=f"is the id of .* and of {Path(second).name}"),
        claim(first, journal, writes=True, destroy=named(file)),
    ):
        pass


@pytest.mark.parametrize("kind", ["swap", "ext4", "linux_raid_member", "LVM2_member", "dos"])
def test_signatures_need_the_id_once_more(loops: Loops, journal: HostJournal, kind: str) -> None:
    file = loops.file()
    signed(kind, file)
    device = loops.attach(file)
    before = file.read_bytes()
    with (
        pytest.raises(BlklabError, match=f"found .*{kind}.*--yes-destroy file:{file}"),
        claim(device, journal, writes=True, destroy=named(file), yes_destroy=["file:/other"]),
    ):
        pass
    assert file.read_bytes() == before
    with claim(device, journal, writes=True, destroy=named(file), yes_destroy=named(file)) as held:
        held.verify()


def test_signatures_on_partitions_count(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    swap = loops.file("swap", 16 * MIB)
    signed("swap", swap)
    file.write_bytes(partition_table().ljust(MIB, b"\0") + swap.read_bytes() + b"\0" * MIB)
    device = loops.attach(file, "--partscan")
    part = Path(f"{device}p1")
    if not part.exists():  # a kernel that does not read such tables
        run("addpart", device, 1, 2048, 32768)
    with file.open("r+b") as opened:  # the table goes, and the kernel still knows the partition
        opened.write(b"\0" * 512)
    run("blockdev", "--flushbufs", device)
    with (
        pytest.raises(BlklabError, match=f"found 1 partition.*swap.* on {part.name}"),
        claim(device, journal, writes=True, destroy=named(file)),
    ):
        pass


def test_what_is_mounted_is_never_written_to(loops: Loops, journal: HostJournal, tmp_path: Path) -> None:
    file = loops.file()
    signed("ext4", file)
    device = loops.attach(file)
    point = tmp_path / "a b"
    point.mkdir()
    run("mount", device, point)
    try:
        with (
            pytest.raises(BlklabError, match=f"in use.*is mounted at {point}"),
            claim(device, journal, writes=True, destroy=named(file), yes_destroy=named(file)),
        ):
            pass
        with claim(device, journal, writes=False) as held:
            assert "is mounted at" in held.warnings[0]
    finally:
        run("umount", point)


def test_what_another_namespace_mounted(loops: Loops, journal: HostJournal, tmp_path: Path) -> None:
    file = loops.file()
    signed("ext4", file)
    device = loops.attach(file)
    script = f"mount {device} {tmp_path} && echo ready && exec sleep 60"
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as other:
        try:
            if other.stdout is None or other.stdout.readline() != "ready\n":
                pytest.skip("no mount namespaces here")
            with (
                pytest.raises(BlklabError, match=f"is mounted at {tmp_path}"),
                claim(device, journal, writes=True, destroy=named(file), yes_destroy=named(file)),
            ):
                pass
        finally:
            other.kill()


def test_swap_in_use(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    signed("swap", file)
    device = loops.attach(file)
    try:
        run("swapon", device)
    except subprocess.CalledProcessError:
        pytest.skip("no swap here")
    try:
        with (
            pytest.raises(BlklabError, match="is used as swap"),
            claim(device, journal, writes=True, destroy=named(file), yes_destroy=named(file)),
        ):
            pass
    finally:
        run("swapoff", device)


def test_the_disk_of_the_root_filesystem(here: Roots) -> None:
    devices, untold = filesystem_devices(Path("/"), here)
    if untold or not devices:
        pytest.skip("root is on no device that can be seen")
    for number in {lower for device in devices for lower in beneath(device, here)}:
        device = of_number(number, here)
        assert f"the root filesystem is on {device.name}: blklab never writes to it" in uses(device, here)


def test_a_program_that_writes_is_seen_and_one_that_reads_is_said(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    device = loops.attach(file)
    script = "import sys,os; os.open(sys.argv[1], int(sys.argv[2])); print(flush=True); input()"
    for flags in (os.O_RDWR, os.O_RDONLY):
        with subprocess.Popen(
            [sys.executable, "-c", script, device, str(flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            try:
                assert other.stdout is not None
                other.stdout.readline()
                pid = other.pid
                if flags == os.O_RDWR:
                    with (
                        pytest.raises(BlklabError, match=rf"pid {pid}\) has .* open for writing"),
                        claim(device, journal, writes=True, destroy=named(file)),
                    ):
                        pass
                else:
                    with claim(device, journal, writes=True, destroy=named(file)) as held:
                        assert f"(pid {pid})" in held.warnings[0]
            finally:
                other.kill()


def test_a_loop_device_over_the_device(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    lower = loops.attach(file)
    upper = loops.attach(Path(lower))
    name = Path(lower).name
    with (
        pytest.raises(BlklabError, match=rf"{name} is the file of {Path(upper).name}"),
        claim(lower, journal, writes=True, destroy=named(file)),
    ):
        pass
    loops.detach(upper)


def test_a_file_by_two_names(loops: Loops, journal: HostJournal, tmp_path: Path) -> None:
    """Two loop devices over one file, by a hard link: the other may be mounted."""
    backing = loops.file("disk")
    device = loops.attach(backing)
    (tmp_path / "other").hardlink_to(backing)
    other = loops.attach(tmp_path / "other")
    with (
        pytest.raises(BlklabError, match=f"{Path(other).name} uses the same file"),
        claim(device, journal, writes=True, destroy=[f"file:{backing}"]),
    ):
        pass


def test_two_cannot_claim_the_same(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    device = loops.attach(file)
    with (
        claim(device, journal, writes=True, destroy=named(file)),
        pytest.raises(BlklabError, match="it is mounted, swap, or part of"),
        claim(device, journal, writes=True, destroy=named(file)),
    ):
        pass


def test_another_file_in_the_same_loop_device_is_detected(loops: Loops, journal: HostJournal) -> None:
    first, second = loops.file("first"), loops.file("second")
    device = loops.attach(first)
    with claim(device, journal, writes=False) as held:
        # While it is held, the kernel lets it go only when the last one closes it.
        run("losetup", "-d", device)
        with pytest.raises(subprocess.CalledProcessError):
            run("losetup", device, second)
        held.verify()
        os.close(held.descriptor)
        loops.attach_at(device, second)
        # As if it had been taken from us: another descriptor in its place.
        again = os.open(device, os.O_RDONLY)
        os.dup2(again, held.descriptor)
        if again != held.descriptor:
            os.close(again)
        with pytest.raises(BlklabError, match="the disk was replaced"):
            held.verify()
    loops.attached.remove(device)


def test_a_replaced_node_is_detected(loops: Loops, journal: HostJournal) -> None:
    files = [loops.file("a"), loops.file("b")]
    device, other = (loops.attach(file) for file in files)
    with claim(device, journal, writes=True, destroy=named(files[0])) as held:
        held.path.unlink()
        os.mknod(held.path, 0o60600, Path(other).stat().st_rdev)
        with pytest.raises(BlklabError, match="now leads to another device"):
            held.verify()
        held.path.unlink()
        with pytest.raises(BlklabError, match="disappeared"):
            held.verify()


def test_read_only_devices_can_only_be_read(loops: Loops, journal: HostJournal) -> None:
    file = loops.file()
    device = loops.attach(file, "--read-only")
    with pytest.raises(BlklabError, match="read-only"), claim(device, journal, writes=True, destroy=named(file)):
        pass
    with claim(device, journal, writes=False) as held:
        assert held.path.read_bytes()[:1] == b"\0"


def test_without_the_tools_nothing_is_written(
    loops: Loops, journal: HostJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = loops.file()
    device = loops.attach(file)
    real = shutil.which
    for missing in ("wipefs", "blkid"):

        def which(name: str, path: str, missing: str = missing) -> str | None:
            return None if name == missing else real(name, path=path)

        monkeypatch.setattr(shutil, "which", which)
        with (
            pytest.raises(EnvironmentLacks, match=f"{missing} is not installed.*util-linux"),
            claim(device, journal, writes=True, destroy=named(file)),
        ):
            pass


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/dev/null", "not a block device"),
        ("/dev/blklab-none", "No such file"),
        ("/dev/../etc/passwd", "not a block device"),
        ("/dev/disk/by-id/../../../etc/\nshadow\0", "null byte"),
        ("../" * 40 + "dev/null", "not a block device"),
        ("ata-NO_SUCH_DISK", "no device has this id"),
        ("sda; rm -rf x", "no device has this id"),
    ],
)
def test_what_is_no_device(journal: HostJournal, target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), claim(target, journal, writes=False):
        pass


def test_a_node_left_by_a_killed_process_is_removed(loops: Loops, here: Roots) -> None:
    file = loops.file()
    device = loops.attach(file)
    script = f"""
import os, signal
from pathlib import Path
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.target_locations import claim
from blklab.system.identity import of_number
from blklab.system.layers import beneath, filesystem_devices
from blklab.system.roots import Roots
from blklab.system.users import uses
with HostJournal(Roots(state=Path({str(here.state)!r}))) as journal:
    with claim({device!r}, journal, writes=True, destroy=["file:{file}"]) as held:
        print(held.path, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    node = Path(done.stdout.strip())
    assert node.is_block_device()
    restored = restore(here)
    assert restored.done == [f"{node.parent}: removed"]
    assert restored.problems == []
    assert not node.parent.exists()
    assert list(here.state.glob("journal-*")) == []
