"""What a bitmap says about the time since a member left."""

from dataclasses import replace
from pathlib import Path

from blklab.md.images import read_images
from blklab.md.model import ArrayMember
from blklab.md.rescue.diagnosis import ArrayRescue, diagnose
from blklab.md.rescue.metadata_places import BITMAP_HEADER
from blklab.md.rescue.written_since import count_chunks, describe_written, find_written
from tests.md.rescue.test_restored_metadata import overwrite, recorded


def read_member(path: Path) -> ArrayMember:
    (array,) = read_images([path]).arrays
    return array.members[0]


def mark(path: Path, first: int, count: int) -> None:
    """Marks chunks as written; the first one must begin a byte."""
    superblock = read_member(path).superblock
    assert superblock is not None and superblock.bitmap_superblock is not None
    content = ((1 << count) - 1).to_bytes(-(-count // 8), "little")
    overwrite(path, superblock.bitmap_superblock.offset + BITMAP_HEADER + first // 8, content)


def test_marked_chunks_are_counted(tmp_path: Path) -> None:
    path = recorded("raid1-12-bitmap", tmp_path)[0]
    superblock = read_member(path).superblock
    assert superblock is not None and superblock.bitmap_superblock is not None
    total = -(-superblock.bitmap_superblock.sync_size * 512 // superblock.bitmap_superblock.chunk)
    overwrite(path, superblock.bitmap_superblock.offset + BITMAP_HEADER, bytes(-(-total // 8)))
    assert count_chunks(read_member(path)) == (0, total)
    mark(path, 0, min(3, total))
    assert count_chunks(read_member(path)) == (min(3, total), total)


def test_bits_behind_the_last_chunk_do_not_count(tmp_path: Path) -> None:
    path = recorded("raid1-12-bitmap", tmp_path)[0]
    counted = count_chunks(read_member(path))
    assert counted is not None
    total = counted[1]
    mark(path, 0, -(-total // 8) * 8)
    assert count_chunks(read_member(path)) == (total, total)


def test_an_array_without_a_bitmap_says_nothing(tmp_path: Path) -> None:
    path = recorded("raid1-12-bitmap", tmp_path)[0]
    member = read_member(path)
    assert member.superblock is not None
    assert count_chunks(replace(member, superblock=None)) is None
    (array,) = read_images([path]).arrays
    assert describe_written(replace(array, members=())) == ""


def test_only_arrays_whose_members_left_get_the_sentence(tmp_path: Path) -> None:
    path = recorded("raid1-12-bitmap", tmp_path)[0]
    (rescue,) = diagnose(read_images([path]))
    assert find_written([rescue]) == []
    left = [replace_condition(rescue, condition) for condition in ("degraded", "behind")]
    notes = find_written(left)
    assert len(notes) == 2
    assert "was written since the first of these members left" in notes[0].sentence


def replace_condition(rescue: ArrayRescue, condition: str) -> ArrayRescue:
    return replace(rescue, condition=condition)  # type: ignore[arg-type]
