"""Finds the files in some bytes of a mounted filesystem.

It first asks the filesystem which bytes are free or metadata. If others remain, it asks the kernel for the extents of
every file. It writes nothing, and keeps access times if the kernel allows it (for root or the owner).
"""

import fcntl
import os
import stat
import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from blklab.errors import BlklabError
from blklab.system.spans import Span, spans_without

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

KINDS = {"ext2", "ext3", "ext4", "xfs"}
"""Filesystems whose extents are bytes of their device; those of btrfs, for example, are not."""

UNREACHED = "in use, but in no file that was found"
"""Trees of extents, deleted files that are open, files hidden by another mount."""

Advance = Callable[[int], None]


FIEMAP = 0xC020660B  # FS_IOC_FIEMAP, _IOWR('f', 11, struct fiemap): the same number on every architecture
FSMAP = 0xC0C0583B  # FS_IOC_GETFSMAP, _IOWR('X', 59, struct fsmap_head)
EXTENT = struct.Struct("=QQQ16xI12x")
HEAD = struct.Struct("=QQIIII")
RECORD = struct.Struct("=IIQQQQ24x")
EXTENTS_PER_CALL = 256

LAST_EXTENT = 0x1  # FIEMAP_EXTENT_LAST
SHARED = 0x2000  # FIEMAP_EXTENT_SHARED
NOT_ON_DISK = 0x2 | 0x4 | 0x8 | 0x200  # Unknown, not yet written, encoded, or inside the inode

SPECIAL = 0x10  # FMR_OF_SPECIAL_OWNER
FREE = 1  # FMR_OWN_FREE
UNKNOWN = 2  # FMR_OWN_UNKNOWN
MAX_U64 = (1 << 64) - 1

XFS = {  # FMR_OWNER('X', …), by both filesystems
    2: "journal",
    4: "index of inodes",
    5: "inodes",
    6: "reference counts",
    7: "copy-on-write staging",
    8: "marked as defective",
}
EXT4 = {1: "group descriptors", 2: "reserved for group descriptors", 3: "block bitmap", 4: "inode bitmap"}
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
    purpose: str  # `free space`, or the kind of metadata; empty for a file's content
    inode: int | None  # None if no inode owns it, or if the owner is unknown
    offset: int | None  # Position in the file of the inode


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
            offset, begin, length, flags = EXTENT.unpack_from(buffer, HEAD.size + index * EXTENT.size)
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
        RECORD.pack_into(buffer, 64 + RECORD.size, number, MAX_U64 >> 32, end - 1, MAX_U64, MAX_U64, 0)
        fcntl.ioctl(descriptor, FSMAP, buffer, True)
        (count,) = struct.unpack_from("=I", buffer, 12)
        before = start
        for index in range(min(count, EXTENTS_PER_CALL)):
            position = 64 + (2 + index) * RECORD.size
            on, flags, physical, owner, offset, length = RECORD.unpack_from(buffer, position)
            first, last = max(physical, begin), min(physical + length, end)
            start = max(start, physical + length)
            if on == number and first < last:
                yield _make_owned_extent(first, last, flags, owner, offset + first - physical)
        if count < EXTENTS_PER_CALL or start <= before:
            return


def _make_owned_extent(begin: int, end: int, flags: int, owner: int, offset: int) -> OwnedExtent:
    if not flags & SPECIAL:
        purpose = ""
        if flags & 0x2:
            purpose = "extended attributes"
        elif flags & 0x4:
            purpose = "extent map"
        return OwnedExtent(begin, end, purpose, owner, None if purpose else offset)
    owner_kind, code = owner >> 32, owner & 0xFFFFFFFF
    if owner_kind == 0:
        purpose = {FREE: "free space", UNKNOWN: ""}.get(code, "the filesystem's own metadata")
    else:
        names = XFS if owner_kind == ord("X") else EXT4
        purpose = names.get(code, "the filesystem's own metadata")
    return OwnedExtent(begin, end, purpose, None, None)


class FilesFound(NamedTuple):
    """The content of some bytes of a device."""

    begin: int
    end: int
    path: str  # Path of the file or directory; empty if there is none
    offset: int | None  # Bytes from the start of the file; None if unknown, or not its content
    purpose: str  # `free space`, `journal`…; empty for a file's content


@dataclass
class _FileSearch:
    device: int
    unknown: list[Span]  # Bytes in use whose owner the filesystem does not report, not yet found in a file
    extents_by_inode: dict[
        int, list[OwnedExtent]
    ]  # Bytes by the inode that the filesystem reports, not yet found in a file
    initial_spans: tuple[Span, ...] = ()  # All of `unknown` as it was at the start, in order
    files: list[FilesFound] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    shared: bool = False  # Several files share some bytes, so all files must be examined

    def is_done(self) -> bool:
        """Whether the files of all bytes are known."""
        return not (self.shared or self.unknown or self.extents_by_inode)

    def take(self, span: Span) -> None:
        """Removes bytes from `unknown`, which is in order."""
        first = bisect_right(self.unknown, span.begin, key=lambda unknown: unknown.end)
        behind = bisect_left(self.unknown, span.end, key=lambda unknown: unknown.begin)
        self.unknown[first:behind] = spans_without(self.unknown[first:behind], [(span.begin, span.end)])

    def find_spans(self, begin: int, end: int) -> Iterator[Span]:
        """Yields the parts of `initial_spans` between two bytes."""
        first = bisect_right(self.initial_spans, begin, key=lambda span: span.end)
        for index in range(first, len(self.initial_spans)):
            span = self.initial_spans[index]
            if span.begin >= end:
                return
            if piece := span.within(begin, end):
                yield piece


def find_files(
    point: str, device: int, spans: Sequence[Span], advance: Advance
) -> tuple[list[FilesFound], Counter[str]]:
    """Returns the content of spans of the filesystem that is mounted on `point`.

    Also returns the number of files that could not be examined, by reason. Names a file with
    several names once. Raises OSError or BlklabError if nothing can be read.
    """
    with _open_file(point, OPEN | os.O_DIRECTORY) as root:
        if os.fstat(root).st_dev != device:
            raise BlklabError("another filesystem is mounted over it")
        search = _FileSearch(device, [], {})
        owned_extents: list[OwnedExtent] = []
        for span in spans:
            with suppress(OSError):  # not supported: the extents of files have to show it
                owned_extents += list(read_owned_extents(root, device, span.begin, span.end))
        for piece in owned_extents:
            if piece.inode is not None:
                search.extents_by_inode.setdefault(piece.inode, []).append(piece)
            elif piece.purpose:
                search.files.append(FilesFound(piece.begin, piece.end, "", None, piece.purpose))
        reported_ranges = [
            (piece.begin, piece.end) for piece in owned_extents if piece.inode is not None or piece.purpose
        ]
        search.unknown = sorted(spans_without(spans, reported_ranges))
        search.initial_spans = tuple(search.unknown)
        if not search.is_done():
            _walk(root, point, search, advance)
    for pieces in search.extents_by_inode.values():
        search.files += [FilesFound(span.begin, span.end, "", None, UNREACHED) for span in pieces]
    search.files += [FilesFound(span.begin, span.end, "", None, UNREACHED) for span in search.unknown]
    return search.files, search.failures


def _walk(root: int, point: str, search: _FileSearch, advance: Advance) -> None:
    """Examines every file and directory of one filesystem, the root directory first."""
    entry_count = 0
    linked_inodes: set[int] = set()
    waiting = [""]
    _add_owned(os.fstat(root).st_ino, point, search)
    _add_extents(root, point, search)
    while waiting and not search.is_done():
        parent = waiting.pop()
        for entry in _listing(root, parent, search):
            path = os.path.join(parent, entry.name)  # noqa: PTH118  # byte for byte
            name = os.path.join(point, path)  # noqa: PTH118
            entry_count += 1
            if entry_count % 512 == 0:
                advance(entry_count)
            try:
                inode = entry.inode()
                directory = entry.is_dir(follow_symlinks=False)
                _add_owned(inode, name, search)
                if directory:
                    waiting.append(path)
                # Pipes, devices and links are not opened; XFS reports the owner of their blocks.
                elif not entry.is_file(follow_symlinks=False):
                    continue
                if search.initial_spans and inode not in linked_inodes:
                    with _open_file(path, OPEN, root) as descriptor:
                        if _add_extents(descriptor, name, search):
                            linked_inodes.add(inode)
            except OSError as error:
                search.failures[error_reason(error)] += 1
            if search.is_done():
                return


def _add_owned(inode: int, name: str, search: _FileSearch) -> None:
    """Adds the extents that the filesystem reported for an inode, with its name."""
    for extent in search.extents_by_inode.pop(inode, ()):
        search.files.append(FilesFound(extent.begin, extent.end, name, extent.offset, extent.purpose))


def _add_extents(descriptor: int, name: str, search: _FileSearch) -> bool:
    """Adds the wanted extents of a file; returns whether it has other names."""
    status = os.fstat(descriptor)
    regular = stat.S_ISREG(status.st_mode)
    if status.st_dev != search.device or not (regular or stat.S_ISDIR(status.st_mode)):
        return False
    try:
        for piece in read_file_extents(descriptor) if search.initial_spans else ():
            for span in search.find_spans(piece.begin, piece.begin + piece.bytes):
                offset = piece.offset + span.begin - piece.begin
                search.files.append(FilesFound(span.begin, span.end, name, offset, ""))
                search.shared = search.shared or piece.shared
                search.take(span)
    except OSError:
        if regular:  # XFS does not support FIEMAP of directories
            raise
        return False
    return regular and status.st_nlink > 1


def _listing(root: int, directory: str, search: _FileSearch) -> Iterator["os.DirEntry[str]"]:
    try:
        with _open_file(directory or ".", OPEN | os.O_DIRECTORY, root) as descriptor:
            if os.fstat(descriptor).st_dev == search.device:
                with os.scandir(descriptor) as listing:
                    yield from listing
    except OSError as error:
        search.failures[error_reason(error)] += 1


@contextmanager
def _open_file(path: str, flags: int, root: int | None = None) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | os.O_NOATIME, dir_fd=root)
    except PermissionError:  # only the owner and root may use O_NOATIME
        descriptor = os.open(path, flags, dir_fd=root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def error_reason(error: OSError) -> str:
    """Returns why a file could not be examined, for messages."""
    return (error.strerror or str(error)).lower()
