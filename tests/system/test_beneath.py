"""Which devices lie beneath a directory: on machines made of files."""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.system import layers
from blklab.system.layers import beneath, filesystem_devices
from blklab.system.mounts import mounts
from blklab.trace.record.checks import RecordedDevice, check_apart, check_kernel, check_untraced, ready_debugfs
from tests.system.machine import Machine

LivesOn = Callable[[str], None]


@pytest.fixture
def lives_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LivesOn:
    """Says on which device number a directory is."""

    def set_number(number: str) -> None:
        true = layers.number_of

        def number_of(device: int) -> str:
            return number if device == tmp_path.stat().st_dev else true(device)

        monkeypatch.setattr(layers, "number_of", number_of)

    return set_number


def device(name: str, number: str) -> RecordedDevice:
    return RecordedDevice(f"/dev/{name}", name, number)


def test_beneath_a_volume_are_array_members_and_disks(machine: Machine) -> None:
    everything = {"253:0", "9:127", "8:1", "8:17", "8:0", "8:16"}
    assert beneath("253:0", machine.roots) == everything
    assert beneath("8:33", machine.roots) == {"8:33", "8:32"}
    assert beneath("99:9", machine.roots) == {"99:9"}


@pytest.mark.parametrize(
    ("traced", "number"), [("dm-0", "253:0"), ("md127", "9:127"), ("sda1", "8:1"), ("sdb", "8:16")]
)
def test_writing_onto_a_traced_device_is_refused(
    machine: Machine, lives_on: LivesOn, tmp_path: Path, traced: str, number: str
) -> None:
    lives_on("253:0")
    with pytest.raises(UsageError, match=f"is on /dev/{traced}"):
        check_apart([device(traced, number)], tmp_path, machine.roots)


def test_other_disks_are_fine(machine: Machine, lives_on: LivesOn, tmp_path: Path) -> None:
    lives_on("253:0")
    assert check_apart([device("sdc", "8:32")], tmp_path, machine.roots) == []


def test_a_shared_disk_is_told(machine: Machine, lives_on: LivesOn, tmp_path: Path) -> None:
    machine.device("sda2", "8:2", parent="sda")
    lives_on("8:2")
    notes = check_apart([device("md127", "9:127")], tmp_path, machine.roots)
    assert notes == ["the trace is also written to sda, below the recorded devices"]


def test_btrfs_is_on_all_its_devices(machine: Machine, lives_on: LivesOn, tmp_path: Path) -> None:
    members = machine.roots.sys / "fs/btrfs/uuid/devices"
    members.mkdir(parents=True)
    for name in ("sdb1", "sdc1"):
        (members / name).symlink_to(machine.roots.sys / "class/block" / name)
    machine.mount("0:45", tmp_path, "btrfs", "/dev/sdc1", "rw,space_cache=v2")
    lives_on("0:45")
    assert filesystem_devices(tmp_path, machine.roots) == ({"8:17", "8:33"}, "")
    with pytest.raises(UsageError, match="is on /dev/sdb"):
        check_apart([device("sdb", "8:16")], tmp_path, machine.roots)


def test_an_overlay_is_where_it_writes(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    upper, merged = tmp_path / "upper", tmp_path / "merged"
    upper.mkdir()
    merged.mkdir()
    numbers = iter(["0:50", "8:33"])
    monkeypatch.setattr(layers, "number_of", lambda _device: next(numbers))
    machine.mount("0:50", merged, "overlay", "overlay", f"rw,lowerdir=/l,upperdir={upper},workdir=/w")
    assert filesystem_devices(merged, machine.roots) == ({"8:33"}, "")


def test_a_loop_device_is_on_its_file(machine: Machine, lives_on: LivesOn, tmp_path: Path) -> None:
    node = machine.device("loop0", "7:0")
    (node / "loop").mkdir()
    (node / "loop/backing_file").write_text(f"{tmp_path}/image\n")
    lives_on("8:33")
    assert beneath("7:0", machine.roots) == {"7:0", "8:33", "8:32"}


def test_memory_is_on_no_device_and_the_unknown_is_said(machine: Machine, lives_on: LivesOn, tmp_path: Path) -> None:
    lives_on("0:25")
    machine.mount("0:25", tmp_path, "tmpfs", "tmpfs")
    assert filesystem_devices(tmp_path, machine.roots) == (set(), "")
    machine.mounted.clear()
    machine.mount("0:25", tmp_path, "zfs", "tank/data")
    notes = check_apart([device("sda", "8:0")], tmp_path, machine.roots)
    assert notes == [f"cannot find out which devices {tmp_path} is on: {tmp_path} is zfs on tank/data"]


def test_mount_points_with_spaces(machine: Machine) -> None:
    machine.mount("8:1", Path("/mnt/a\\040b"), "ext4", "/dev/sda1")
    assert mounts(machine.roots)[0].point == "/mnt/a b"


def test_debugfs_that_is_mounted_is_used(machine: Machine) -> None:
    machine.mount("0:7", Path("/sys/kernel/debug"), "debugfs", "debugfs")
    with ready_debugfs(machine.roots) as debugfs:
        assert debugfs == "/sys/kernel/debug"


@pytest.mark.parametrize("fails", [False, True])
def test_debugfs_is_mounted_for_the_recording_only(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    ran: list[str] = []

    def run(command: Sequence[str], **_options: object) -> subprocess.CompletedProcess[str]:
        ran.append(command[0])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    with suppress(BlklabError), ready_debugfs(machine.roots) as debugfs:
        assert (debugfs, ran) == ("/sys/kernel/debug", ["mount"])
        if fails:
            raise BlklabError("the kernel refuses to trace")
    assert ran == ["mount", "umount"]


def test_a_device_that_is_traced_already(tmp_path: Path) -> None:
    check_untraced([device("sda", "8:0")], str(tmp_path))
    (tmp_path / "block/sda").mkdir(parents=True)
    (tmp_path / "block/sda/dropped").write_text("0\n")
    with pytest.raises(BlklabError, match=r"already traced.*8:0/trace/enable"):
        check_untraced([device("sda", "8:0")], str(tmp_path))


def test_a_kernel_without_blktrace(machine: Machine) -> None:
    check_kernel([device("sda", "8:0")], machine.roots)
    (machine.roots.sys / "devices/block/sda/trace").rmdir()
    with pytest.raises(EnvironmentLacks, match="CONFIG_BLK_DEV_IO_TRACE"):
        check_kernel([device("sda", "8:0")], machine.roots)
