"""Asks the kernel for the extents of a file (FIEMAP) and for the owners of bytes (GETFSMAP).

Sources: include/uapi/linux/fiemap.h and Documentation/filesystems/fiemap.rst;
include/uapi/linux/fsmap.h, ioctl_getfsmap(2), fs/ext4/fsmap.h, fs/xfs/libxfs/xfs_fs.h, Linux 6.1.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

FIEMAP: Final = 0xC020660B  # FS_IOC_FIEMAP, _IOWR('f', 11, struct fiemap): the same number on every architecture
FSMAP: Final = 0xC0C0583B  # FS_IOC_GETFSMAP, _IOWR('X', 59, struct fsmap_head)
EXTENT: Final = struct.Struct("=QQQ16xI12x")
HEAD: Final = struct.Struct("=QQIIII")
RECORD: Final = struct.Struct("=IIQQQQ24x")
EXTENTS_PER_CALL: Final = 256

LAST_EXTENT: Final = 0x1
NOT_ON_DISK: Final = 0x2 | 0x4 | 0x8 | 0x200  # Unknown, not yet written, encoded, or inside the inode
SHARED: Final = 0x2000

SPECIAL: Final = 0x10
MAX_U64: Final = (1 << 64) - 1
FREE: Final = 1
UNKNOWN: Final = 2

XFS: Final = {  # FMR_OWNER('X', …), by both filesystems
    1: "the filesystem's own metadata",
    2: "journal",
    3: "the filesystem's own metadata",
    4: "index of inodes",
    5: "inodes",
    6: "reference counts",
    7: "copy-on-write staging",
    8: "marked as defective",
}
EXT4: Final = {1: "group descriptors", 2: "reserved for group descriptors", 3: "block bitmap", 4: "inode bitmap"}
"""FMR_OWNER('f', …)."""


class Extent(NamedTuple):
    """A piece of a file; bytes."""

    offset: int
    begin: int
    bytes: int
    shared: bool  # Other files share it


class OwnedExtent(NamedTuple):
    """A piece of a filesystem; bytes."""

    begin: int
    end: int
    what: str  # `free space`, or the kind of metadata; empty for a file's content
    inode: int | None  # None if no inode owns it, or if the owner is unknown
    offset: int | None  # Position in the file of the inode

    @property
    def unknown(self) -> bool:
        """Whether the filesystem does not report the owner."""
        return self.inode is None and not self.what


def read_file_extents(descriptor: int) -> Iterator[Extent]:
    """Yields the extents of an open file that are on the disk. Raises OSError.

    It does not write back the page cache: data that are only in memory have no extent.
    """
    buffer = bytearray(HEAD.size + EXTENTS_PER_CALL * EXTENT.size)
    start = 0
    while True:
        HEAD.pack_into(buffer, 0, start, MAX_U64 - start, 0, 0, EXTENTS_PER_CALL, 0)
        fcntl.ioctl(descriptor, FIEMAP, buffer, True)
        count = HEAD.unpack_from(buffer)[3]
        before = start
        flags = LAST_EXTENT
        for index in range(min(count, EXTENTS_PER_CALL)):
            position = HEAD.size + index * EXTENT.size
            offset, begin, length, flags = EXTENT.unpack_from(buffer, position)
            start = offset + length
            if not flags & NOT_ON_DISK:
                yield Extent(offset, begin, length, bool(flags & SHARED))
        if flags & LAST_EXTENT or start <= before:
            return


def read_owned_extents(descriptor: int, device: int, begin: int, end: int) -> Iterator[OwnedExtent]:
    """Yields the owners of bytes of a filesystem, given an open file or directory of it.

    `device` is its number. ext4 reports free space and metadata; XFS with reverse mapping (rmapbt)
    also inodes, for root. Raises OSError on Linux before 4.12 (XFS) or 4.14 (ext4).
    """
    # The kernel's encoding of device numbers, include/linux/kdev_t.h (new_encode_dev).
    major, minor = os.major(device), os.minor(device)
    number = minor & 0xFF | major << 8 | (minor & ~0xFF) << 12
    start = begin
    while start < end:
        buffer = bytearray(64 + (2 + EXTENTS_PER_CALL) * RECORD.size)
        struct.pack_into("=IIII", buffer, 0, 0, 0, EXTENTS_PER_CALL, 0)
        RECORD.pack_into(buffer, 64, number, 0, start, 0, 0, 0)
        highest = (number, MAX_U64 >> 32, end - 1, MAX_U64, MAX_U64, 0)
        RECORD.pack_into(buffer, 64 + RECORD.size, *highest)
        fcntl.ioctl(descriptor, FSMAP, buffer, True)
        (count,) = struct.unpack_from("=I", buffer, 12)
        before = start
        for index in range(min(count, EXTENTS_PER_CALL)):
            position = 64 + (2 + index) * RECORD.size
            on, flags, physical, owner, offset, length = RECORD.unpack_from(buffer, position)
            first, last = max(physical, begin), min(physical + length, end)
            start = max(start, physical + length)
            if on == number and first < last:
                yield _owned_extent(first, last, flags, owner, offset + first - physical)
        if count < EXTENTS_PER_CALL or start <= before:
            return


def _owned_extent(begin: int, end: int, flags: int, owner: int, offset: int) -> OwnedExtent:
    if not flags & SPECIAL:
        what = "extended attributes" if flags & 0x2 else "extent map" if flags & 0x4 else ""
        return OwnedExtent(begin, end, what, owner, None if what else offset)
    kind, code = owner >> 32, owner & 0xFFFFFFFF
    if kind == 0:
        what = {FREE: "free space", UNKNOWN: ""}.get(code, "the filesystem's own metadata")
    else:
        names = XFS if kind == ord("X") else EXT4
        what = names.get(code, "the filesystem's own metadata")
    return OwnedExtent(begin, end, what, None, None)
