"""Where the data of members can move: a reshape without a backup file needs space before or behind them.

mdadm 4.2: super1.c, `getinfo_super1` (the space), Grow.c, `compute_backup_blocks` and `set_new_data_offset`.
"""

from dataclasses import dataclass
from math import lcm

from blklab.md.model import Array, ArrayMember
from blklab.md.superblocks import Superblock
from blklab.units import SECTOR

SUPERBLOCK_SECTORS = 72  # What mdadm keeps free behind the start of a superblock of 1.1 and 1.2
BITMAP_HEADER_BYTES = 256
BITMAP_BLOCK = 4096  # A bitmap is as long as a multiple of it


@dataclass(frozen=True)
class FreeSpace:
    """Unused sectors of members: the smallest of all members."""

    before: int
    after: int


def find_free_space(array: Array) -> FreeSpace | None:
    """Returns the space before and behind the data of all members; None if a superblock or a size is unknown."""
    spaces = []
    for member in array.members:
        if "faulty" in member.states:
            continue
        superblock = member.superblock
        if superblock is None:
            return None
        space = _find_space(superblock, member)
        if space is None:
            return None
        spaces.append(space)
    if not spaces:
        return None
    return FreeSpace(min(space.before for space in spaces), min(space.after for space in spaces))


def count_needed_sectors(old_chunk: int, new_chunk: int, old_data: int, new_data: int) -> int:
    """Returns by how many sectors data must move, so that a reshape overwrites nothing that it still needs.

    Chunks are bytes, `old_data` and `new_data` data disks of the array with parity.
    """
    blocks = lcm(old_chunk // SECTOR * old_data, new_chunk // SECTOR * new_data)
    return blocks // old_data


def count_critical_sectors(old_chunk: int, new_chunk: int, old_data: int, new_data: int) -> int:
    """Returns the sectors of the array that a backup must hold at a time: whole old and whole new stripes."""
    return lcm(old_chunk // SECTOR * old_data, new_chunk // SECTOR * new_data)


def _find_space(superblock: Superblock, member: ArrayMember) -> FreeSpace | None:
    if superblock.version == "0.90":
        return FreeSpace(0, 0)
    position = superblock.offset // SECTOR
    offset = superblock.data_offset
    # The device's data size is what RAID-0 and linear use (super1.c: `sb->data_size`).
    size = superblock.size if superblock.level > 0 else superblock.data_size
    if offset < position:  # 1.0
        end = position
        if superblock.bad_blocks:
            end = min(end, superblock.bad_blocks.sector)
        if superblock.bitmap_superblock:
            end = min(end, superblock.bitmap_superblock.offset // SECTOR)
        return FreeSpace(offset, max(0, end - size - offset))
    earliest = position + SUPERBLOCK_SECTORS
    if superblock.bitmap_superblock:
        bitmap = superblock.bitmap_superblock
        bits = -(-bitmap.sync_size * SECTOR // bitmap.chunk)
        length = -(-(-(-bits // 8) + BITMAP_HEADER_BYTES) // BITMAP_BLOCK) * BITMAP_BLOCK
        earliest = max(earliest, bitmap.offset // SECTOR - position + length // SECTOR)
    if superblock.bad_blocks:
        earliest = max(earliest, superblock.bad_blocks.sector + superblock.bad_blocks.sectors)
    if member.size is None:
        return None
    after = member.size // SECTOR - size - offset
    return FreeSpace(max(0, offset - earliest), max(0, after))
