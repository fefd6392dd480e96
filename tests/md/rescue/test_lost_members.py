"""Disks that may be missing members: a wiped superblock, a partition table over a member, metadata of firmware."""

import struct
from pathlib import Path

import pytest

from blklab.md.images import read_images
from blklab.md.rescue.lost_members import ArrayNote, find_lost_members, list_unknown_images
from blklab.md.rescue.old_superblocks import IMSM
from tests.md.rescue.test_saved_metadata import members

__all__ = ["members"]

IMAGES = Path(__file__).parents[3] / "examples/images"


@pytest.fixture
def mirror(tmp_path: Path) -> list[Path]:
    """Returns the two images of the README: a RAID-1 with metadata 1.2."""
    paths = []
    for name in ("sda1.img", "sdb1.img"):
        path = tmp_path / name
        path.write_bytes((IMAGES / name).read_bytes())
        paths.append(path)
    return paths


def find(paths: list[Path]) -> list[ArrayNote]:
    inventory = read_images(paths)
    return find_lost_members(inventory, list_unknown_images(inventory))


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_a_wiped_superblock_leaves_a_disk_of_the_right_size(members: list[Path]) -> None:
    size = members[3].stat().st_size
    overwrite(members[3], size - (128 << 10), bytes(128 << 10))
    (lost,) = find(members)
    assert lost.array_name
    assert str(members[3]) in lost.sentence
    assert "exactly the size of the members: it may be the member of slot" in lost.sentence
    assert lost.sentence.endswith("Write nothing to it.")


def test_a_partition_table_over_a_member_is_recognised(mirror: list[Path]) -> None:
    header = bytearray(512)
    struct.pack_into("<8s", header, 0, b"EFI PART")
    overwrite(mirror[1], 512, bytes(header) + bytes(32 * 512))
    (lost,) = find(mirror)
    assert "it may be the member of slot 1" in lost.sentence


def test_a_disk_of_another_size_is_not_suspected(mirror: list[Path]) -> None:
    with mirror[1].open("r+b") as file:
        file.truncate(file.seek(0, 2) + 4096)
    overwrite(mirror[1], 4096, bytes(4096))
    assert find(mirror) == []


def test_a_superblock_of_a_lost_partition_is_named_with_its_array(mirror: list[Path], tmp_path: Path) -> None:
    """The whole disk is here, and its partition table is gone: the member began at sector 2048."""
    disk = tmp_path / "sdc.img"
    disk.write_bytes(bytes(2048 * 512) + mirror[1].read_bytes())
    (lost,) = find([mirror[0], disk])
    assert lost.array_name == read_images([mirror[0]]).arrays[0].name
    assert "has a remaining superblock of this array, slot 1: superblock 1.2" in lost.sentence
    assert "its member begins at sector 2048" in lost.sentence


def test_a_raid_of_firmware_is_named(tmp_path: Path) -> None:
    disk = tmp_path / "sda.img"
    disk.write_bytes(bytes(4 << 20))
    overwrite(disk, (4 << 20) - 1024, IMSM)
    (lost,) = find([disk])
    assert (lost.array_name, "Intel IMSM" in lost.sentence) == ("", True)


def test_a_complete_array_has_no_lost_members(members: list[Path]) -> None:
    assert find(members) == []
