import os
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.qemu import MOST_DISKS, RESULTS, VirtualDisks, VirtualDiskShape


def test_files_without_names_that_are_gone_after(tmp_path: Path) -> None:
    shapes = [VirtualDiskShape("fast", 1 << 20), VirtualDiskShape("slow", 2 << 20), VirtualDiskShape("fast", 1 << 20)]
    with VirtualDisks(shapes, tmp_path / "lab") as made:
        fast, slow, results = made.every()
        assert (fast.serial, slow.serial, results.serial) == ("fast", "slow", RESULTS)
        assert [item.id for item in made.every()] == ["disk0", "disk1", "disk2"]
        assert list((tmp_path / "lab").iterdir()) == []
        assert os.fstat(slow.descriptor).st_size == 2 << 20
        descriptors = [item.descriptor for item in made.every()]
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)


def test_a_disk_is_cleared_and_read(tmp_path: Path) -> None:
    with VirtualDisks([VirtualDiskShape("a", 4096)], tmp_path) as made:
        disk = made.disks[VirtualDiskShape("a", 4096)]
        os.pwrite(disk.descriptor, b"abc", 4000)
        assert disk.read(4000, 4) == b"abc\0"
        with pytest.raises(BlklabError, match="disk a: ends at 4096, expected 4 more bytes"):
            disk.read(4000, 100)
        disk.clear()
        assert disk.read(0, 4096) == bytes(4096)


def test_serial_numbers_are_short_and_each_is_there_once(tmp_path: Path) -> None:
    long = "a-very-long-name-of-a-disk"
    shapes = [
        VirtualDiskShape(long + "1", 512),
        VirtualDiskShape(long + "2", 512),
        VirtualDiskShape("same", 512),
        VirtualDiskShape("same", 1024),
        VirtualDiskShape(RESULTS, 512),
    ]
    with VirtualDisks(shapes, tmp_path) as made:
        assert [disk.serial for disk in made.every()] == [
            "a-very-long-name-of-",
            "a-very-long-name-o-2",
            "same",
            "same-2",
            f"{RESULTS}-2",
            RESULTS,
        ]


def test_more_disks_than_a_guest_has(tmp_path: Path) -> None:
    shapes = [VirtualDiskShape(f"d{number}", 512) for number in range(MOST_DISKS)]
    with pytest.raises(BlklabError, match="160 disks: a guest has 159 at most"):
        VirtualDisks(shapes, tmp_path).__enter__()


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "LEAST_FREE", 1 << 60)
    with pytest.raises(EnvironmentLacks, match="the guest's disks need at least 1 EiB; free"):
        VirtualDisks([VirtualDiskShape("a", 512)], tmp_path).__enter__()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "lab").touch()
    with pytest.raises(EnvironmentLacks, match="cannot make a disk: File exists; set XDG_CACHE"):
        VirtualDisks([VirtualDiskShape("a", 512)], tmp_path / "lab").__enter__()


def test_a_filesystem_that_takes_no_such_file(tmp_path: Path) -> None:
    made = VirtualDisks([VirtualDiskShape("a", 512), VirtualDiskShape("b", 1 << 62)], tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(EnvironmentLacks, match=r"cannot make a disk: .*; set XDG_CACHE_HOME to a"):
        made.__enter__()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
