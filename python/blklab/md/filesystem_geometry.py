"""Reads from superblocks of filesystems which chunk and stripe they assume.

Sources: fs/ext4/ext4.h (`struct ext4_super_block`: s_magic 0x38, s_log_block_size 0x18,
s_raid_stride 0x164, s_raid_stripe_width 0x170), fs/xfs/libxfs/xfs_format.h (`struct xfs_dsb`,
big-endian: sb_blocksize 4, sb_unit 184, sb_width 188), Linux 6.1.
"""

import os
import struct
from pathlib import Path

from blklab.md.model import Geometry


def read_geometry(path: Path) -> tuple[Geometry | None, str]:
    """Returns the geometry of a filesystem on a device, or None, and why it cannot be read."""
    try:
        # O_NONBLOCK: the path may be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.pread(descriptor, 4096, 0)
        finally:
            os.close(descriptor)
    except PermissionError:
        return None, "permission denied: run blklab as root"
    except OSError as error:
        return None, (error.strerror or str(error)).lower()
    return parse_geometry(head, str(path)), ""


def parse_geometry(head: bytes, device: str) -> Geometry | None:
    """Returns the geometry in the first 4,096 bytes of an ext4 or XFS; None for other content."""
    if len(head) < 4096:
        return None
    if head[1024 + 0x38 : 1024 + 0x3A] == b"\x53\xef":
        (power,) = struct.unpack_from("<I", head, 1024 + 0x18)
        if power > 6:
            return None
        block = 1024 << power
        (stride,) = struct.unpack_from("<H", head, 1024 + 0x164)
        (width,) = struct.unpack_from("<I", head, 1024 + 0x170)
        return Geometry("ext4", device, block, stride * block, width * block)
    if head[:4] == b"XFSB":
        block, unit, width = (struct.unpack_from(">I", head, at)[0] for at in (4, 184, 188))
        return Geometry("xfs", device, block, unit * block, width * block)
    return None
