"""Superblocks that are left where no member is any more, on crafted disks."""

import struct
import zlib
from pathlib import Path
from random import Random

import pytest

from blklab.errors import BlklabError
from blklab.md.rescue.old_superblocks import DDF, IMSM, OldSuperblock, find_old_superblocks
from blklab.md.superblocks import read_superblocks
from tests.md.rescue.dealt_arrays import overwrite_with_created
from tests.md.rescue.test_saved_metadata import members

__all__ = ["members"]

DISK = 64 << 20
SECTOR = 512


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(DISK)
    return path


def superblock_1(disk: Path, *, super_offset: int) -> bytes:
    """Returns a superblock of version 1 that says it is at this sector of its member."""
    made = disk.with_name("made.img")
    with made.open("wb") as file:
        file.truncate(8 << 20)
    overwrite_with_created(made, 1, 4, Random(3), data_offset=2048)
    head = bytearray(made.read_bytes()[4096:8192])
    struct.pack_into("<Q", head, 144, super_offset)
    head[216:220] = bytes(4)
    total = sum(struct.unpack_from("<128I", head))
    struct.pack_into("<I", head, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    return bytes(head)


def put(disk: Path, at: int, content: bytes) -> None:
    with disk.open("r+b") as file:
        file.seek(at)
        file.write(content)


def write_gpt(disk: Path, first: int, last: int) -> None:
    """Writes a GPT with one partition of these sectors."""
    entries = bytearray(128 * 128)
    struct.pack_into("<16s16s2Q", entries, 0, b"L" * 16, b"U" * 16, first, last)
    header = bytearray(SECTOR)
    struct.pack_into("<8s4I", header, 0, b"EFI PART", 0x10000, 92, 0, 0)
    struct.pack_into("<4Q16sQ3I", header, 24, 1, DISK // SECTOR - 1, 34, DISK // SECTOR - 34, b"G" * 16, 2, 128, 128,
                     zlib.crc32(entries))  # fmt: skip
    struct.pack_into("<I", header, 16, zlib.crc32(header[:92]))
    put(disk, SECTOR, bytes(header))
    put(disk, 2 * SECTOR, bytes(entries))


def only(found: list[OldSuperblock]) -> OldSuperblock:
    assert len(found) == 1, [str(old) for old in found]
    return found[0]


def test_an_empty_disk_has_none(disk: Path) -> None:
    assert find_old_superblocks(disk) == []


@pytest.mark.parametrize(("kind", "super_offset"), [("1.1", 0), ("1.2", 8), ("1.0", (DISK // SECTOR - 16) // 8 * 8)])
def test_the_superblock_of_the_disk_is_in_its_place(disk: Path, kind: str, super_offset: int) -> None:
    put(disk, super_offset * SECTOR, superblock_1(disk, super_offset=super_offset))
    old = only(find_old_superblocks(disk))
    assert (old.kind, old.position, old.member_begin) == (kind, super_offset * SECTOR, 0)
    assert old.checksum_holds
    assert old.place_agrees
    assert old.superblock is not None
    assert (old.superblock.name, old.superblock.raid_disks, old.superblock.slot) == ("host:wrong", 4, 1)


def test_a_wrong_checksum_is_said(disk: Path) -> None:
    content = bytearray(superblock_1(disk, super_offset=8))
    content[200] ^= 1
    put(disk, 4096, bytes(content))
    old = only(find_old_superblocks(disk))
    assert not old.checksum_holds
    assert "its checksum is WRONG" in str(old)


@pytest.mark.parametrize("first", [63, 2048])
def test_a_member_in_a_lost_partition_is_found(disk: Path, first: int) -> None:
    put(disk, first * SECTOR + 4096, superblock_1(disk, super_offset=8))
    old = only(find_old_superblocks(disk))
    assert (old.kind, old.member_begin, old.place_agrees) == ("1.2", first * SECTOR, False)
    assert f"its member begins at sector {first}" in str(old)
    assert "neither the disk nor a partition of it has its superblock there now" in str(old)


def test_a_member_in_a_partition_agrees(disk: Path) -> None:
    """The partition ends far from both ends that are searched."""
    first, last = 2048, 65535
    write_gpt(disk, first, last)
    super_offset = (last - first + 1 - 16) // 8 * 8
    put(disk, (first + super_offset) * SECTOR, superblock_1(disk, super_offset=super_offset))
    found = find_old_superblocks(disk)
    old = only([each for each in found if each.kind == "1.0"])
    assert (old.member_begin, old.place_agrees, old.checksum_holds) == (first * SECTOR, True, True)


def test_a_gpt_over_the_superblock_is_said(disk: Path) -> None:
    put(disk, 4096, superblock_1(disk, super_offset=8))
    write_gpt(disk, 2048, 100_000)
    old = only(find_old_superblocks(disk))
    assert old.kind == "partition entries"
    assert str(old).startswith("the place of the 1.2 superblock holds partition entries")


def test_a_copied_superblock_does_not_agree(disk: Path) -> None:
    """A superblock of the end of a larger disk, copied with the disk: it says another sector."""
    put(disk, DISK - 8192, superblock_1(disk, super_offset=1 << 20))
    old = only(find_old_superblocks(disk))
    assert (old.kind, old.member_begin, old.place_agrees) == ("1.0", None, False)
    assert old.checksum_holds


def test_superblocks_0_90_of_both_byte_orders_are_found(members: list[Path], disk: Path) -> None:
    (expected,) = read_superblocks(members[0]).members
    content = members[0].read_bytes()[expected.offset : expected.offset + 4096]
    put(disk, DISK - 65536, content)
    little = only(find_old_superblocks(disk))
    assert (little.kind, little.place_agrees, little.big_endian) == ("0.90", True, False)
    put(disk, DISK - 65536, bytes(4096))
    put(disk, 4 << 20, to_big_endian(content))
    big = only(find_old_superblocks(disk))
    assert (big.kind, big.place_agrees, big.big_endian) == ("0.90", False, True)
    for old in (little, big):
        assert old.checksum_holds
        assert old.superblock is not None
        assert (old.superblock.uuid, old.superblock.events) == (expected.uuid, expected.events)


def to_big_endian(content: bytes) -> bytes:
    """Returns a superblock 0.90 as a big-endian machine writes it: high words of the event counts first."""
    words = list(struct.unpack("<1024I", content))
    words[39], words[40], words[41], words[42] = words[40], words[39], words[42], words[41]
    return struct.pack(">1024I", *words)


def test_foreign_metadata_are_named(disk: Path) -> None:
    put(disk, DISK - 2 * SECTOR, IMSM)
    put(disk, DISK - SECTOR, struct.pack(">I", DDF))
    assert [str(old) for old in find_old_superblocks(disk)] == [
        f"Intel IMSM metadata at byte {DISK - 1024}",
        f"DDF metadata at byte {DISK - 512}",
    ]


def test_a_magic_without_a_superblock_is_left_out(disk: Path) -> None:
    put(disk, 8192, struct.pack("<2I", 0xA92B4EFC, 7))
    put(disk, 12288 + 100, superblock_1(disk, super_offset=8))
    assert find_old_superblocks(disk) == []


def test_absurd_offsets_are_not_followed(disk: Path) -> None:
    put(disk, 1 << 20, superblock_1(disk, super_offset=1 << 60))
    old = only(find_old_superblocks(disk))
    assert (old.superblock, old.checksum_holds, old.place_agrees) == (None, False, False)


@pytest.mark.parametrize("size", [0, 100, 512, 4096, 70_000])
def test_small_files_are_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "small.img"
    path.write_bytes(bytes(size))
    assert find_old_superblocks(path) == []


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match=r"gone.img: No such file or directory: expected a device or an image"):
        find_old_superblocks(tmp_path / "gone.img")
