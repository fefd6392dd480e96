"""How filesystems believe that they lie on an array: out of their superblocks, which are only read.

Sources: fs/ext4/ext4.h (`struct ext4_super_block`: s_magic 0x38, s_log_block_size 0x18,
s_raid_stride 0x164, s_raid_stripe_width 0x170), fs/xfs/libxfs/xfs_format.h (`struct xfs_dsb`,
big-endian: sb_blocksize 4, sb_unit 184, sb_width 188), Linux 6.1.
"""

import os
import struct
from pathlib import Path

from blklab.md.model import Geometry


def geometry(path: Path) -> tuple[Geometry | None, str]:
    """Returns what a filesystem on a device says, or None; and why it could not be read, if so."""
    try:
        # Nothing is waited for, should the name be that of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.pread(descriptor, 4096, 0)
        finally:
            os.close(descriptor)
    except PermissionError:
        return None, "permission denied: as root more is seen"
    except OSError as error:
        return None, (error.strerror or str(error)).lower()
    return parse(head, str(path)), ""


def parse(head: bytes, device: str) -> Geometry | None:
    """Returns what the first 4,096 bytes of a filesystem say; None if it is neither ext4 nor
    XFS.
    """
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
