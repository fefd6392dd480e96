"""What the filesystem on an array says about it: when it was made, and how large it is. Reads one block of one member.

A filesystem that is older than its array shows that someone used `--create` over older data; one that is larger than
its array, that the array has another geometry than it had.
"""

import os
import struct
from collections.abc import Iterable

from blklab.md.model import Array
from blklab.md.rescue.diagnosis import ContentFacts, describe_by_superblocks, find_current, is_stopped
from blklab.md.superblocks import SectorRange
from blklab.system.roots import open_descriptor
from blklab.units import SECTOR

FIRST = SectorRange(0, 8)  # The first 4 KiB of a member's data
# Byte of the superblock, and what it has at 0x38 (fs/ext4/ext4.h, ext4_super_block)
EXT = 1024
EXT_MAGIC = b"\x53\xef"
EXT_64BIT = 0x80  # s_feature_incompat: block numbers have 64 bits
XFS_MAGIC = b"XFSB"  # At its beginning (fs/xfs/libxfs/xfs_format.h, xfs_dsb)


def read_contents(arrays: Iterable[Array]) -> dict[str, ContentFacts]:
    """Returns what filesystems say, by the names of arrays that do not run.

    Arrays without a filesystem that is known here, or of which no member has the first block, are left out.
    """
    contents = {}
    for array in arrays:
        if is_stopped(array) and not array.external:
            facts = _read_content(describe_by_superblocks(array))
            if facts is not None:
                contents[array.name] = facts
    return contents


def _read_content(array: Array) -> ContentFacts | None:
    for member in find_current(array):
        if member.superblock is None or member.slot is None:
            continue
        pieces = array.map_pieces(member.slot, FIRST)
        if pieces and pieces[0].sector == 0:
            return read_filesystem(member.path, member.superblock.data_offset * SECTOR)
    return None


def read_filesystem(path: str, offset: int) -> ContentFacts | None:
    """Returns what the filesystem at a byte of a device or image says; None if there is none that is known here."""
    try:
        with open_descriptor(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            content = os.pread(descriptor, FIRST.sectors * SECTOR, offset)
    except OSError:
        return None
    if len(content) < FIRST.sectors * SECTOR:
        return None
    if content.startswith(XFS_MAGIC):
        block, blocks = struct.unpack_from(">IQ", content, 4)  # sb_blocksize, sb_dblocks
        return ContentFacts("xfs", None, block * blocks)
    superblock = content[EXT : EXT + 1024]
    if superblock[0x38:0x3A] != EXT_MAGIC:
        return None
    (blocks,) = struct.unpack_from("<I", superblock, 0x04)  # s_blocks_count_lo
    (scale,) = struct.unpack_from("<I", superblock, 0x18)  # s_log_block_size
    (features,) = struct.unpack_from("<I", superblock, 0x60)  # s_feature_incompat
    (creation_time,) = struct.unpack_from("<I", superblock, 0x108)  # s_mkfs_time
    if features & EXT_64BIT:
        blocks |= struct.unpack_from("<I", superblock, 0x150)[0] << 32  # s_blocks_count_hi
    size = blocks * (1024 << scale) if scale <= 6 else None  # At most 64 KiB
    return ContentFacts("ext", creation_time or None, size)
