"""Copies the metadata of members to files: what is needed to undo a mistake. Reads the members, and writes no device.

Of each member, the beginning up to the data (superblock 1.1 and 1.2, bitmap, bad-block list) and the end behind the
data (superblock 0.90 and 1.0) are copied; of the disk of a partition, its first and last MiB (partition tables).
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from blklab import output
from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md.member_devices import whole_disk
from blklab.md.model import Array, ArrayMember
from blklab.md.rescue.diagnosis import known_members
from blklab.system import identity
from blklab.system.layers import beneath, filesystem_devices, number_of
from blklab.system.roots import Roots
from blklab.units import SECTOR, format_size

LEAST = 1 << 20  # Bytes at each end that are copied at least
MOST = 256 << 20  # Bytes at each end that are copied at most: data offsets of mdadm are up to 128 MiB
PIECE = 64 << 10  # Bytes of one read: as much is lost to a bad sector
MOST_UNREAD = 100  # Pieces: each can take a disk several seconds
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SavedRange:
    """A range of a device, and the file with its content; parts that could not be read are zeros there."""

    device: str  # The path of the device or image
    offset: int  # Bytes
    length: int  # Bytes
    file: str  # Its name in the directory
    sha256: str
    unread: tuple[tuple[int, int], ...]  # Parts that could not be read: offset on the device and length, bytes


def save(arrays: Sequence[Array], directory: Path, roots: Roots) -> list[str]:
    """Copies the metadata of all members into a new directory; returns a line for each device.

    Every range is read again and compared. Raises UsageError for a directory on one of the disks, and BlklabError for
    one that is full, or after the last member if a part could not be read.
    """
    members = list({member.path: member for array in arrays for member in known_members(array)}.values())
    if not members:
        raise UsageError("--save-metadata: no array here has to be saved: all of them run")
    warnings = _check_directory(directory, members, roots)
    with SystemErrors(UsageError, directory):
        directory.mkdir(mode=0o700)
    lines, failed, described = [], [], []
    for number, member in enumerate(members, 1):
        ranges = []
        try:
            for name, device, offset, length in _plan_ranges(member, roots):
                file = directory / f"{number}-{Path(member.path).name}.{name}"
                ranges.append(_copy(device, offset, length, file))
        except ReadFailed as error:
            failed.append(str(error))
        for saved in ranges:
            if saved.unread:
                size = format_size(sum(length for _, length in saved.unread))
                failed.append(f"{saved.device}: {size} cannot be read, from byte {saved.unread[0][0]:,} on")
        total = sum(saved.length for saved in ranges)
        lines.append(f"{member.path}: {format_size(total)} saved in {plural_files(len(ranges))}")
        described.append(_describe(member, ranges, roots))
    document = {
        "format_version": FORMAT_VERSION,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "members": described,
    }
    output.write(directory / "members.json", (json.dumps(document, indent=2) + "\n").encode(), mode=0o600)
    lines.append(f"{directory}: every range was read twice and compared; members.json says which file is what")
    if failed:
        raise BlklabError("; ".join([*failed, f"what could be read is in {directory}"]))
    return [*lines, *warnings]


class ReadFailed(Exception):
    """A device cannot be read at all, or is not the same at two readings."""


def plural_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _check_directory(directory: Path, members: Sequence[ArrayMember], roots: Roots) -> list[str]:
    """Returns warnings. Raises UsageError for a directory that exists, or that is on a disk of a member."""
    if os.path.lexists(directory):
        raise UsageError(f"--save-metadata {directory}: exists, expected a new directory")
    parent = directory.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"--save-metadata {directory}: {parent} is not a directory")
    devices = {member.path: number for member in members if (number := _number(Path(member.path)))}
    if not devices:
        return []  # All of them are images
    numbers, problem = filesystem_devices(parent, roots)
    if problem:
        raise UsageError(f"--save-metadata {directory}: cannot find out on which disk it is: {problem}")
    below = numbers.union(*(beneath(number, roots) for number in numbers))
    for path, number in devices.items():
        disks = {number, *beneath(number, roots)}
        with suppress(BlklabError):
            disk = whole_disk(identity.of_number(number, roots).node)
            if disk is not None:
                disks.add(identity.of_node(disk, roots).number)
        if disks & below:
            raise UsageError(
                f"--save-metadata {directory}: is on the disk of {path}, a member: "
                "choose a directory on another disk, such as a USB stick"
            )
    if not numbers:
        return [f"{directory} is on no disk: if it is in memory, copy it to a disk before you restart the machine"]
    return []


def _number(path: Path) -> str | None:
    """Returns `major:minor` of a block device; None for an image."""
    with suppress(OSError):
        if path.is_block_device():
            return number_of(path.stat().st_rdev)
    return None


def _plan_ranges(member: ArrayMember, roots: Roots) -> Iterator[tuple[str, str, int, int]]:
    """Yields what to copy of a member: the end of a file's name, device, offset and length in bytes."""
    path = Path(member.path)
    size = _size(path)
    superblock = member.superblock
    begin, end = LEAST, size - LEAST
    if superblock is not None:
        data_begin = superblock.data_offset * SECTOR
        data_end = data_begin + superblock.data_size * SECTOR
        begin = max(begin, min(data_begin, MOST))
        end = min(end, max(data_end, size - MOST))
    begin = min(begin, size)
    end = max(begin, end)
    yield "head", member.path, 0, begin
    if end < size:
        yield "tail", member.path, end, size - end
    number = _number(path)
    if number is None:
        return
    with suppress(BlklabError):
        node = identity.of_number(number, roots).node
        disk = whole_disk(node)
        if disk is not None and disk != node:
            device = identity.of_node(disk, roots)
            yield "disk-head", device.path, 0, min(LEAST, device.size)
            yield "disk-tail", device.path, max(0, device.size - LEAST), min(LEAST, device.size)


def _size(path: Path) -> int:
    """Returns the bytes of a device or an image. Raises ReadFailed if it cannot be opened."""
    try:
        with path.open("rb", buffering=0) as file:
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise ReadFailed(f"{path}: cannot be opened: {error.strerror}") from error


def _copy(device: str, offset: int, length: int, target: Path) -> SavedRange:
    """Copies a range to a new file, and compares it with a second reading.

    Raises ReadFailed if the device cannot be opened or changes meanwhile, BlklabError if the file cannot be written.
    """
    checksum, unread = _read_range(device, offset, length, target)
    again, still_unread = _read_range(device, offset, length, None)
    if unread == still_unread and again != checksum:
        raise ReadFailed(f"{device}: two readings differ: something writes to it")
    return SavedRange(device, offset, length, target.name, checksum, tuple(unread))


def _read_range(device: str, offset: int, length: int, target: Path | None) -> tuple[str, list[tuple[int, int]]]:
    """Reads a range, and writes it to a file if there is one; returns its SHA-256, and what could not be read."""
    digest = hashlib.sha256()
    unread: list[tuple[int, int]] = []
    try:
        source = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ReadFailed(f"{device}: cannot be opened: {error.strerror}") from error
    try:
        os.posix_fadvise(source, offset, length, os.POSIX_FADV_DONTNEED)  # The second reading is from the disk
        with SystemErrors(BlklabError, target or Path(device)), _open_copy(target) as file:
            for begin in range(offset, offset + length, PIECE):
                wanted = min(PIECE, offset + length - begin)
                piece = _read_piece(source, begin, wanted)
                if piece is None:
                    unread.append((begin, wanted))
                    if len(unread) > MOST_UNREAD:
                        raise ReadFailed(f"{device}: more than {MOST_UNREAD} parts cannot be read: copy the disk first")
                    piece = bytes(wanted)
                digest.update(piece)
                if file:
                    file.write(piece)
            if file:
                file.flush()
                os.fsync(file.fileno())
    finally:
        os.close(source)
    return digest.hexdigest(), unread


def _open_copy(target: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    """Opens a new file that only its owner can read; nothing without a target."""
    if target is None:
        return nullcontext()
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _read_piece(source: int, offset: int, length: int) -> bytes | None:
    """Returns the bytes of a range; None if they cannot all be read."""
    parts = []
    while length:
        try:
            part = os.pread(source, length, offset)
        except OSError:
            return None
        if not part:
            return None
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def _describe(member: ArrayMember, ranges: Sequence[SavedRange], roots: Roots) -> dict[str, object]:
    """Returns what identifies a member later, when names have changed, and where its ranges are."""
    superblock = member.superblock
    number = _number(Path(member.path))
    ids: tuple[str, ...] = ()
    if number is not None:
        with suppress(BlklabError):
            ids = identity.of_number(number, roots).ids
    return {
        "path": member.path,
        "ids": list(ids),
        "array_uuid": superblock.uuid if superblock else None,
        "device_uuid": superblock.device or None if superblock else None,
        "slot": superblock.slot if superblock else None,
        "events": superblock.events if superblock else None,
        "version": superblock.version if superblock else None,
        "ranges": [
            {
                "device": saved.device,
                "offset_bytes": saved.offset,
                "length_bytes": saved.length,
                "file": saved.file,
                "sha256": saved.sha256,
                "unread": [{"offset_bytes": offset, "length_bytes": length} for offset, length in saved.unread],
            }
            for saved in ranges
        ],
    }
