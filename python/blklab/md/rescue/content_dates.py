"""When the filesystem on an array was made: if it is older than the array, someone used `--create` over older data.

Only ext2, ext3 and ext4 say this (`s_mkfs_time`, fs/ext4/ext4.h). Reads one block of one member.
"""

import os
import struct
from collections.abc import Iterable

from blklab.md.model import Array
from blklab.md.rescue.diagnosis import describe_by_superblocks, find_current, is_stopped
from blklab.md.superblocks import SectorRange
from blklab.system.roots import opened
from blklab.units import SECTOR

FIRST = SectorRange(0, 8)  # The first 4 KiB of a member's data
SUPERBLOCK, MAGIC, MADE = 1024, 0x38, 0x108  # Offsets in bytes: ext4_super_block, s_magic, s_mkfs_time


def read_content_dates(arrays: Iterable[Array]) -> dict[str, int]:
    """Returns when filesystems were made, in seconds since 1970, by the names of arrays that do not run.

    Arrays without such a filesystem, or of which no member has the first block, are left out.
    """
    dates = {}
    for array in arrays:
        if is_stopped(array) and not array.external:
            made = _read_content_date(describe_by_superblocks(array))
            if made is not None:
                dates[array.name] = made
    return dates


def _read_content_date(array: Array) -> int | None:
    for member in find_current(array):
        if member.superblock is None or member.slot is None:
            continue
        pieces = array.map_pieces(member.slot, FIRST)
        if pieces and pieces[0].sector == 0:
            return read_mkfs_time(member.path, member.superblock.data_offset * SECTOR)
    return None


def read_mkfs_time(path: str, offset: int) -> int | None:
    """Returns when the ext filesystem at a byte of a device or image was made; None if there is none, or no date."""
    try:
        with opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            content = os.pread(descriptor, 1024, offset + SUPERBLOCK)
    except OSError:
        return None
    if len(content) < 1024 or content[MAGIC : MAGIC + 2] != b"\x53\xef":
        return None
    (made,) = struct.unpack_from("<I", content, MADE)
    return made or None
