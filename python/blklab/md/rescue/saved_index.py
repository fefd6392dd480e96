"""The index of saved metadata, `members.json`: `md rescue --save-metadata` writes it, `md fix metadata` reads it.

What it says is checked completely before anything is done with it: it may be damaged, or of another machine.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from blklab import output
from blklab.errors import BlklabError, SystemErrors
from blklab.system.roots import open_descriptor
from blklab.system.spans import Span, spans_without

INDEX = "members.json"
FORMAT_VERSION: Literal[1] = 1
PIECE = 64 << 10  # Bytes of one read
MOST_INDEX = 16 << 20  # Bytes of an index
MOST_ENTRIES = 4096  # Members, or disks
MOST_RANGES = 64  # Of one of them
MOST_UNREAD = 1000  # Parts of a range
MOST_LENGTH = 1 << 30  # Bytes of a range
MOST_SIZE = 1 << 62  # Bytes of a device


class UnreadPart(msgspec.Struct, frozen=True):
    """A part of a range that could not be read: it is zeros in the file."""

    offset_bytes: int  # On the device
    length_bytes: int


class SavedRange(msgspec.Struct, frozen=True):
    """A range of a device, and the file with its content."""

    device: str  # The path of the device or image, as it was then
    offset_bytes: int
    length_bytes: int
    file: str  # Its name in the directory
    sha256: str
    unread: tuple[UnreadPart, ...]


class ReplacedBy(msgspec.Struct, frozen=True):
    """The superblock that a restore has put over the saved content."""

    array_uuid: str
    device_uuid: str | None
    version: str
    events: int


class SavedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """What finds a device or an image again, and its ranges."""

    path: str  # As it was then; disks are never found by it, images are
    ids: tuple[str, ...]  # Stable ids; empty for an image
    image: bool  # Whether it is a regular file
    size_bytes: int | None  # None if it could not be opened
    ranges: tuple[SavedRange, ...]


class SavedMember(SavedDevice, frozen=True, kw_only=True):
    """A member. The values of its superblock are None if it had none."""

    array_uuid: str | None
    device_uuid: str | None
    slot: int | None
    events: int | None
    version: str | None
    replaced_by: ReplacedBy | None = None  # Only in what a restore saves, to undo it


class SavedDisk(SavedDevice, frozen=True, kw_only=True):
    """The disk of a partition that is a member: its partition table."""

    replaced: bool = False  # Only in what a restore saves: the table that is on the disk now replaced it


class SavedIndex(msgspec.Struct, frozen=True, kw_only=True):
    format_version: Literal[1]
    saved: str  # When, ISO 8601
    members: tuple[SavedMember, ...]
    disks: tuple[SavedDisk, ...]


DECODER = msgspec.json.Decoder(SavedIndex)
"""Made once, with the module: msgspec 0.22 crashes if two threads look at the same class for the first time."""


def write_index(directory: Path, members: Sequence[SavedMember], disks: Sequence[SavedDisk]) -> None:
    """Writes the index of a directory, and syncs both."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    index = SavedIndex(format_version=FORMAT_VERSION, saved=now, members=tuple(members), disks=tuple(disks))
    document = json.dumps(msgspec.to_builtins(index), indent=2) + "\n"
    output.write(directory / INDEX, document.encode(), mode=0o600)
    with SystemErrors(BlklabError, directory), open_descriptor(directory, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def read_index(directory: Path) -> SavedIndex:
    """Returns the index of a directory. Raises BlklabError if it cannot be read, or if a value of it is impossible."""
    path = directory / INDEX
    expectation = "expected the index that `blklab md rescue --save-metadata` writes"
    with SystemErrors(BlklabError, path, f"; {expectation}"), _open_file(path) as descriptor:
        if os.fstat(descriptor).st_size > MOST_INDEX:
            raise BlklabError(f"{path}: larger than {MOST_INDEX:,} bytes: {expectation}")
        content = os.read(descriptor, MOST_INDEX)
    try:
        index = DECODER.decode(content)
        _check_index(index)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise BlklabError(f"{path}: damaged: {reason}; {expectation}") from None
    return index


def _check_index(index: SavedIndex) -> None:
    """Raises ValueError for values that no device can have."""
    if len(index.members) > MOST_ENTRIES or len(index.disks) > MOST_ENTRIES:
        raise ValueError(f"more than {MOST_ENTRIES:,} members or disks")
    devices: list[SavedDevice] = [*index.members, *index.disks]
    for device in devices:
        _check_device(device)
    files = [saved_range.file for device in devices for saved_range in device.ranges]
    if len(set(files)) < len(files):
        raise ValueError("two ranges have the same file")


def _check_device(device: SavedDevice) -> None:
    """Raises ValueError for ranges outside of the device, or that overlap."""
    if not device.path or "\0" in device.path or len(device.path) > 4096:
        raise ValueError("a path is empty, too long or has a NUL")
    if device.image and device.ids:
        raise ValueError(f"{device.path!r} is an image and has ids of a disk")
    if len(device.ranges) > MOST_RANGES:
        raise ValueError(f"{device.path!r} has more than {MOST_RANGES} ranges")
    size = device.size_bytes or 0
    if not 0 <= size <= MOST_SIZE:
        raise ValueError(f"{device.path!r} has a size of {size} bytes")
    for saved_range in device.ranges:
        _check_range(saved_range, size)
    places = sorted(
        (saved_range.offset_bytes, saved_range.offset_bytes + saved_range.length_bytes) for saved_range in device.ranges
    )
    for (_, end), (begin, _) in pairwise(places):
        if begin < end:
            raise ValueError(f"ranges of {device.path!r} overlap at byte {begin}")


def _check_range(saved_range: SavedRange, size: int) -> None:
    begin = saved_range.offset_bytes
    end = saved_range.offset_bytes + saved_range.length_bytes
    if begin < 0 or not 0 < saved_range.length_bytes <= MOST_LENGTH or end > size:
        raise ValueError(f"{saved_range.file!r} is of bytes {begin} to {end} of a device of {size} bytes")
    if (
        saved_range.file in {"", ".", "..", INDEX}
        or re.search(r"[/\0]", saved_range.file)
        or len(saved_range.file) > 255
    ):
        raise ValueError(f"{saved_range.file!r} is no name of a file in the directory")
    if not re.fullmatch(r"[0-9a-f]{64}", saved_range.sha256):
        raise ValueError(f"the SHA-256 of {saved_range.file!r} is none")
    if len(saved_range.unread) > MOST_UNREAD:
        raise ValueError(f"{saved_range.file!r} has more than {MOST_UNREAD:,} unread parts")
    for part in saved_range.unread:
        if part.offset_bytes < begin or part.length_bytes <= 0 or part.offset_bytes + part.length_bytes > end:
            raise ValueError(f"{saved_range.file!r} has an unread part outside of its range")


def find_known_spans(device: SavedDevice) -> list[Span]:
    """Returns the parts of a device whose content was read when it was saved."""
    spans = []
    for saved_range in device.ranges:
        span = Span(
            saved_range.offset_bytes, saved_range.offset_bytes + saved_range.length_bytes, saved_range.offset_bytes
        )
        unread = [(part.offset_bytes, part.offset_bytes + part.length_bytes) for part in saved_range.unread]
        spans += spans_without([span], unread)
    return sorted(spans)


@contextmanager
def load_device(directory: Path, device: SavedDevice) -> Iterator[int]:
    """Checks all files of a device, and yields a file in memory that is the device as it was saved.

    It is as large as the device; what was not saved is zeros. Raises BlklabError if a file is not as in the index.
    """
    memory = os.memfd_create("saved-metadata", os.MFD_CLOEXEC)
    try:
        with SystemErrors(BlklabError, f"{directory / INDEX}: {device.path}: cannot make a copy in memory"):
            os.ftruncate(memory, device.size_bytes or 0)
        for saved_range in device.ranges:
            _load_range(directory / saved_range.file, saved_range, memory)
        yield memory
    finally:
        os.close(memory)


def _load_range(path: Path, saved_range: SavedRange, memory: int) -> None:
    """Copies a file to its place. Raises BlklabError if its length or its SHA-256 is not that of the index."""
    digest = hashlib.sha256()
    with SystemErrors(BlklabError, f"{path}: cannot be read"), _open_file(path) as descriptor:
        length = os.fstat(descriptor).st_size
        if length != saved_range.length_bytes:
            raise BlklabError(
                f"{path}: it has {length:,} bytes, expected {saved_range.length_bytes:,}: use another copy"
            )
        done = 0
        while done < length:
            piece = os.pread(descriptor, min(PIECE, length - done), done)
            if not piece:
                raise BlklabError(f"{path}: it became shorter while it was read: nothing was changed")
            digest.update(piece)
            if piece.count(0) < len(piece):  # zeros need no memory
                os.pwrite(memory, piece, saved_range.offset_bytes + done)
            done += len(piece)
    if digest.hexdigest() != saved_range.sha256:
        raise BlklabError(f"{path}: its SHA-256 is not that in {INDEX}: it is damaged, use another copy")


@contextmanager
def _open_file(path: Path) -> Iterator[int]:
    """Opens a regular file for reading; raises OSError or BlklabError for anything else, also for a link."""
    with open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BlklabError(f"{path}: not a regular file")
        yield descriptor
