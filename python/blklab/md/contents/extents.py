"""Where a file lies, and whose some bytes of a filesystem are: two questions to the kernel.

Sources: include/uapi/linux/fiemap.h and Documentation/filesystems/fiemap.rst;
include/uapi/linux/fsmap.h, ioctl_getfsmap(2), fs/ext4/fsmap.h, fs/xfs/libxfs/xfs_fs.h, Linux 6.1.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

FIEMAP: Final = 0xC020660B
"""FS_IOC_FIEMAP, _IOWR('f', 11, struct fiemap): the same number on every architecture."""
FSMAP: Final = 0xC0C0583B
"""FS_IOC_GETFSMAP, _IOWR('X', 59, struct fsmap_head)."""

EXTENT: Final = struct.Struct("=QQQ16xI12x")
HEAD: Final = struct.Struct("=QQIIII")
RECORD: Final = struct.Struct("=IIQQQQ24x")
MANY: Final = 256
"""Extents that are asked for at once."""

LAST: Final = 0x1
NOWHERE: Final = 0x2 | 0x4 | 0x8 | 0x200
"""Not known, not yet written, encoded, or within the inode: no place on the disk is told."""
SHARED: Final = 0x2000

SPECIAL: Final = 0x10
ALL: Final = (1 << 64) - 1
FREE: Final = 1
UNKNOWN: Final = 2

XFS: Final = {
    1: "the filesystem's own metadata",
    2: "journal",
    3: "the filesystem's own metadata",
    4: "index of inodes",
    5: "inodes",
    6: "reference counts",
    7: "copies that are being made",
    8: "known as defective",
}
"""FMR_OWNER('X', …), by both filesystems."""
EXT4: Final = {
    1: "group descriptors",
    2: "room for group descriptors",
    3: "block bitmap",
    4: "inode bitmap",
}
"""FMR_OWNER('f', …)."""


class Extent(NamedTuple):
    """A piece of a file; bytes."""

    offset: int
    begin: int
    bytes: int
    shared: bool
    """Other files have it as well."""


class OwnedExtent(NamedTuple):
    """A piece of a filesystem; bytes."""

    begin: int
    end: int
    what: str
    """Free space, or which metadata; of an inode what of it is not the content of a file."""
    inode: int | None
    """None if it is nobody's, or if the filesystem does not know whose it is."""
    offset: int | None
    """In the inode's file."""

    @property
    def unknown(self) -> bool:
        """Whether the filesystem does not tell."""
        return self.inode is None and not self.what


def of_file(descriptor: int) -> Iterator[Extent]:
    """Yields the extents of an open file that are on the disk. Raises OSError.

    Nothing is written back for it: what is only in memory has no place yet.
    """
    room = bytearray(HEAD.size + MANY * EXTENT.size)
    start = 0
    while True:
        HEAD.pack_into(room, 0, start, ALL - start, 0, 0, MANY, 0)
        fcntl.ioctl(descriptor, FIEMAP, room, True)
        many = HEAD.unpack_from(room)[3]
        before = start
        flags = LAST
        for at in range(min(many, MANY)):
            offset, begin, length, flags = EXTENT.unpack_from(room, HEAD.size + at * EXTENT.size)
            start = offset + length
            if not flags & NOWHERE:
                yield Extent(offset, begin, length, bool(flags & SHARED))
        if flags & LAST or start <= before:
            return


def of_filesystem(descriptor: int, device: int, begin: int, end: int) -> Iterator[OwnedExtent]:
    """Yields whose the bytes of a filesystem are, of which a file or directory is open.

    `device` is its number. ext4 knows what is free or its own metadata; XFS with reverse mapping
    (rmapbt) the inodes as well, for root. Raises OSError: older than 4.12 (XFS) or 4.14 (ext4).
    """
    # The kernel's encoding of device numbers, include/linux/kdev_t.h (new_encode_dev).
    major, minor = os.major(device), os.minor(device)
    number = minor & 0xFF | major << 8 | (minor & ~0xFF) << 12
    start = begin
    while start < end:
        room = bytearray(64 + (2 + MANY) * RECORD.size)
        struct.pack_into("=IIII", room, 0, 0, 0, MANY, 0)
        RECORD.pack_into(room, 64, number, 0, start, 0, 0, 0)
        RECORD.pack_into(room, 64 + RECORD.size, number, ALL >> 32, end - 1, ALL, ALL, 0)
        fcntl.ioctl(descriptor, FSMAP, room, True)
        (many,) = struct.unpack_from("=I", room, 12)
        before = start
        for at in range(min(many, MANY)):
            place = 64 + (2 + at) * RECORD.size
            where, flags, physical, owner, offset, length = RECORD.unpack_from(room, place)
            first, last = max(physical, begin), min(physical + length, end)
            start = max(start, physical + length)
            if where == number and first < last:
                yield _owned(first, last, flags, owner, offset + first - physical)
        if many < MANY or start <= before:
            return


def _owned(begin: int, end: int, flags: int, owner: int, offset: int) -> OwnedExtent:
    if not flags & SPECIAL:
        what = "extended attributes" if flags & 0x2 else "extent map" if flags & 0x4 else ""
        return OwnedExtent(begin, end, what, owner, None if what else offset)
    kind, code = owner >> 32, owner & 0xFFFFFFFF
    if kind == 0:
        what = {FREE: "free space", UNKNOWN: ""}.get(code, "the filesystem's own metadata")
    else:
        named = XFS if kind == ord("X") else EXT4
        what = named.get(code, "the filesystem's own metadata")
    return OwnedExtent(begin, end, what, None, None)
