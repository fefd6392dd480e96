"""Which files of a mounted filesystem lie in some bytes of it: the kernel is asked, file by file.

The filesystem says first what is free or metadata: if that is all, no file is looked at. Nothing
is written, and access times stay as they are where the kernel allows it (root, or the owner).
"""

import os
import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from blklab.errors import BlklabError
from blklab.md.contents import extents
from blklab.md.contents.extents import OwnedExtent
from blklab.md.contents.spans import Span, without

OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

UNREACHED: Final = "in use, and in no file that was found"
"""Extents' trees, deleted files that are open, files beneath another mount."""

Tell = Callable[[int], None]


class FilesFound(NamedTuple):
    """What lies in some bytes of a device."""

    begin: int
    end: int
    path: str
    """Of the file, or directory; empty if it is none's."""
    offset: int | None
    """Bytes in the file; None of what is not its content, or not told."""
    what: str
    """`free space`, `journal`…; empty of a file's content."""


@dataclass
class _FileSearch:
    device: int
    unknown: list[Span]
    """Bytes that the filesystem says are in use, and not whose."""
    owned: dict[int, list[OwnedExtent]]
    """Bytes that are of an inode that it names."""
    wanted: tuple[Span, ...] = ()
    """Those bytes as they were at first, in order."""
    files: list[FilesFound] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    shared: bool = False
    """Some bytes are of several files: all have to be looked at."""

    def done(self) -> bool:
        """Whether nothing is left to be looked for."""
        return not (self.shared or self.unknown or self.owned)

    def asked(self, begin: int, end: int) -> Iterator[Span]:
        """Yields what of the bytes between two is asked for."""
        first = bisect_right(self.wanted, begin, key=lambda span: span.end)
        for at in range(first, len(self.wanted)):
            span = self.wanted[at]
            if span.begin >= end:
                return
            if piece := span.within(begin, end):
                yield piece


def find(
    point: str, device: int, spans: Sequence[Span], tell: Tell
) -> tuple[list[FilesFound], Counter[str]]:
    """Returns what lies in spans of the filesystem that is mounted on `point`.

    And how often something could not be looked at, by reason. A file with several names is told by
    one of them. Raises OSError or BlklabError if nothing can be.
    """
    with _opened(point, OPEN | os.O_DIRECTORY) as root:
        if os.fstat(root).st_dev != device:
            raise BlklabError("something else is mounted over it")
        search = _FileSearch(device, [], {})
        known = []
        for span in spans:
            known += _whose(root, device, span)
        for piece in known:
            if piece.inode is not None:
                search.owned.setdefault(piece.inode, []).append(piece)
            elif piece.what:
                search.files.append(FilesFound(piece.begin, piece.end, "", None, piece.what))
        reported = [(piece.begin, piece.end) for piece in known if not piece.unknown]
        search.unknown = without(spans, reported)
        search.wanted = tuple(sorted(search.unknown))
        if not search.done():
            _walk(root, point, search, tell)
    for pieces in search.owned.values():
        search.files += [FilesFound(span.begin, span.end, "", None, UNREACHED) for span in pieces]
    search.files += [
        FilesFound(span.begin, span.end, "", None, UNREACHED) for span in search.unknown
    ]
    return search.files, search.failures


def _whose(root: int, device: int, span: Span) -> list[OwnedExtent]:
    try:
        return list(extents.of_filesystem(root, device, span.begin, span.end))
    except OSError:
        return []  # the kernel does not tell: files will


def _walk(root: int, point: str, search: _FileSearch, tell: Tell) -> None:
    """Looks at every file and directory of one filesystem, the root's own first."""
    looked = 0
    linked: set[int] = set()
    waiting = [""]
    _claimed(os.fstat(root).st_ino, point, search)
    _look(root, point, search)
    while waiting and not search.done():
        parent = waiting.pop()
        for entry in _listing(root, parent, search):
            path = os.path.join(parent, entry.name)  # noqa: PTH118  # as it is, byte for byte
            name = os.path.join(point, path)  # noqa: PTH118
            looked += 1
            if looked % 512 == 0:
                tell(looked)
            try:
                inode, directory = entry.inode(), entry.is_dir(follow_symlinks=False)
                _claimed(inode, name, search)
                if directory:
                    waiting.append(path)
                # What else there is (pipes, devices, links) is not opened: XFS names their blocks.
                elif not entry.is_file(follow_symlinks=False):
                    continue
                if search.wanted and inode not in linked:
                    with _opened(path, OPEN, root) as descriptor:
                        if _look(descriptor, name, search):
                            linked.add(inode)
            except OSError as error:
                search.failures[reason(error)] += 1
            if search.done():
                return


def _claimed(inode: int, name: str, search: _FileSearch) -> None:
    """Gives what the filesystem says is of an inode its name."""
    for extent in search.owned.pop(inode, ()):
        search.files.append(FilesFound(extent.begin, extent.end, name, extent.offset, extent.what))


def _look(descriptor: int, name: str, search: _FileSearch) -> bool:
    """Adds what of a file lies where it is asked for; returns whether it has other names."""
    status = os.fstat(descriptor)
    regular = stat.S_ISREG(status.st_mode)
    if status.st_dev != search.device or not (regular or stat.S_ISDIR(status.st_mode)):
        return False
    try:
        for piece in extents.of_file(descriptor) if search.wanted else ():
            for at in search.asked(piece.begin, piece.begin + piece.bytes):
                offset = piece.offset + at.begin - piece.begin
                search.files.append(FilesFound(at.begin, at.end, name, offset, ""))
                search.shared = search.shared or piece.shared
                search.unknown = without(search.unknown, [(at.begin, at.end)])
    except OSError:
        if regular:  # XFS does not tell of directories
            raise
        return False
    return regular and status.st_nlink > 1


def _listing(root: int, directory: str, search: _FileSearch) -> Iterator["os.DirEntry[str]"]:
    try:
        with _opened(directory or ".", OPEN | os.O_DIRECTORY, root) as descriptor:
            if os.fstat(descriptor).st_dev == search.device:
                with os.scandir(descriptor) as listing:
                    yield from listing
    except OSError as error:
        search.failures[reason(error)] += 1


@contextmanager
def _opened(path: str, flags: int, root: int | None = None) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | os.O_NOATIME, dir_fd=root)
    except PermissionError:  # O_NOATIME is the owner's and root's
        descriptor = os.open(path, flags, dir_fd=root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Returns why something could not be looked at, for a message."""
    return (error.strerror or str(error)).lower()
