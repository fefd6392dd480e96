"""Copies the metadata of members to files: what is needed to undo a mistake. Reads the members, and writes no device.

Of each member, the beginning up to the data (superblock 1.1 and 1.2, bitmap, bad-block list) and the end behind the
data (superblock 0.90 and 1.0) are copied; of the disk of a partition, its first and last MiB (partition tables).
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md.member_devices import whole_disk
from blklab.md.model import Array, ArrayMember
from blklab.md.rescue.diagnosis import list_all_members
from blklab.md.rescue.saved_index import PIECE, SavedDisk, SavedMember, SavedRange, UnreadPart, write_index
from blklab.md.superblocks import newest_superblock, read_superblocks
from blklab.system import identity
from blklab.system.identity import BlockDevice
from blklab.system.layers import beneath, filesystem_devices, number_of
from blklab.system.roots import Roots
from blklab.units import SECTOR, format_size

LEAST = 1 << 20  # Bytes at each end that are copied at least
MOST = 256 << 20  # Bytes at each end that are copied at most: data offsets of mdadm are up to 128 MiB
MOST_UNREAD = 100  # Pieces: each can take a disk several seconds


def save(arrays: Sequence[Array], directory: Path, roots: Roots) -> list[str]:
    """Copies the metadata of all members into a new directory; returns a line for each device.

    Every range is read again and compared. Raises UsageError for a directory on one of the disks, and BlklabError for
    one that is full, or after the last member if a part could not be read.
    """
    members = list({member.path: member for array in arrays for member in list_all_members(array)}.values())
    if not members:
        raise UsageError("--save-metadata: no array here has to be saved: all of them run")
    return save_members(members, directory, roots)


def save_members(members: Sequence[ArrayMember], directory: Path, roots: Roots) -> list[str]:
    """Copies the metadata of members, or the ends of devices without a superblock; as `save`."""
    warnings = check_directory(directory, members, roots)
    _check_free(directory, members)
    with SystemErrors(UsageError, directory):
        directory.mkdir(mode=0o700)
    lines: list[str] = []
    failures: list[str] = []
    saved_members = []
    for number, member in enumerate(members, 1):
        prefix = f"{number}-{Path(member.path).name}"
        ranges = _save_ranges(member.path, _plan_ranges(member), directory / prefix, lines, failures)
        saved_members.append(_describe(member, ranges, roots))
    saved_disks = []
    for device in _find_disks(members, roots):
        prefix = f"disk-{device.name}"
        ranges = _save_ranges(device.path, _plan_disk(device), directory / prefix, lines, failures)
        saved_disks.append(
            SavedDisk(path=device.path, ids=device.ids, image=False, size_bytes=device.size, ranges=tuple(ranges))
        )
    write_index(directory, saved_members, saved_disks)
    lines.append(f"{directory}: every range was read twice and compared; members.json says which file is what")
    if failures:
        raise BlklabError("; ".join([*failures, f"what could be read is in {directory}"]))
    return [*lines, *warnings]


def save_overlay_metadata(pairs: Sequence[tuple[ArrayMember, str]], directory: Path, roots: Roots) -> None:
    """Copies the metadata that are on overlays into a new directory, as those of the members below them.

    Each pair is a member and the path of its overlay. Raises BlklabError if an overlay has no superblock, or a part
    cannot be read.
    """
    with SystemErrors(UsageError, directory):
        directory.mkdir(mode=0o700)
    lines: list[str] = []
    failures: list[str] = []
    saved_members = []
    for number, (member, overlay) in enumerate(pairs, 1):
        superblock = newest_superblock(read_superblocks(Path(overlay)))
        if superblock is None:
            raise BlklabError(f"{overlay}: it has no md superblock, expected that of the array on the overlays")
        overlay_member = replace(member, path=overlay, superblock=superblock)
        prefix = f"{number}-{member.name.replace('/', '!')}"
        ranges = _save_ranges(overlay, _plan_ranges(overlay_member), directory / prefix, lines, failures)
        saved_member = _describe(replace(member, superblock=superblock), ranges, roots)
        renamed_ranges = tuple(
            msgspec.structs.replace(saved_range, device=member.path) for saved_range in saved_member.ranges
        )
        saved_members.append(msgspec.structs.replace(saved_member, ranges=renamed_ranges))
    write_index(directory, saved_members, [])
    if failures:
        raise BlklabError("; ".join(failures))


def _save_ranges(
    path: str, range_plan: Iterable[tuple[str, int, int]], prefix: Path, lines: list[str], failures: list[str]
) -> list[SavedRange]:
    """Copies ranges of a device; adds a line about it, and to `failures` what could not be read."""
    ranges = []
    try:
        for name, offset, length in range_plan:
            ranges.append(_copy(path, offset, length, prefix.with_name(f"{prefix.name}.{name}")))
    except ReadFailed as error:
        failures.append(str(error))
    for saved_range in ranges:
        if saved_range.unread:
            size = format_size(sum(part.length_bytes for part in saved_range.unread))
            failures.append(f"{path}: {size} cannot be read, from byte {saved_range.unread[0].offset_bytes:,} on")
    total = sum(saved_range.length_bytes for saved_range in ranges)
    lines.append(f"{path}: {format_size(total)} saved in {plural_files(len(ranges))}")
    return ranges


class ReadFailed(Exception):
    """A device cannot be read at all, or is not the same at two readings."""


def plural_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def check_directory(
    directory: Path, members: Sequence[ArrayMember], roots: Roots, *, option: str = "--save-metadata"
) -> list[str]:
    """Returns warnings. Raises UsageError for a directory that exists, or that is on a disk of a member."""
    if os.path.lexists(directory):
        raise UsageError(f"{option} {directory}: exists, expected a new directory")
    return check_place(directory, option, [member.path for member in members], roots)


def check_place(target: Path, option: str, paths: Sequence[str], roots: Roots) -> list[str]:
    """Returns warnings. Raises UsageError if a file or directory would be on a disk of these devices."""
    parent = target.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} {target}: {parent} is not a directory")
    devices = {}
    for path in paths:
        number = _number(Path(path))
        if number:
            devices[path] = number
    if not devices:
        return []  # All of them are images
    numbers, problem = filesystem_devices(parent, roots)
    if problem:
        raise UsageError(f"{option} {target}: cannot find out on which disk it is: {problem}")
    below = numbers.union(*(beneath(number, roots) for number in numbers))
    for path, number in devices.items():
        disks = {number, *beneath(number, roots)}
        with suppress(BlklabError):
            disk = whole_disk(identity.of_number(number, roots).node)
            if disk is not None:
                disks.add(identity.of_node(disk, roots).number)
        if disks & below:
            raise UsageError(
                f"{option} {target}: is on the disk of {path}, a member: "
                "choose a directory on another disk, such as a USB stick"
            )
    if not numbers:
        return [f"{target} is on no disk: if it is in memory, copy it to a disk before you restart the machine"]
    return []


def _check_free(directory: Path, members: Sequence[ArrayMember]) -> None:
    """Raises UsageError if there is less space than the copies need."""
    min_bytes = 0
    for member in members:
        with suppress(ReadFailed):
            min_bytes += sum(length for _, _, length in _plan_ranges(member))
    parent = directory.absolute().parent
    with SystemErrors(UsageError, parent):
        status = os.statvfs(parent)
    free = status.f_bavail * status.f_frsize
    if free < min_bytes:
        raise UsageError(
            f"{directory}: {format_size(free)} are free, and the metadata need {format_size(min_bytes)}: "
            "choose a directory on another disk"
        )


def _number(path: Path) -> str | None:
    """Returns `major:minor` of a block device; None for an image."""
    with suppress(OSError):
        if path.is_block_device():
            return number_of(path.stat().st_rdev)
    return None


def _plan_ranges(member: ArrayMember) -> Iterator[tuple[str, int, int]]:
    """Yields what to copy of a member: the end of a file's name, offset and length in bytes."""
    size = _size(Path(member.path))
    superblock = member.superblock
    begin = LEAST
    end = size - LEAST
    if superblock is not None:
        data_begin = superblock.data_offset * SECTOR
        data_end = data_begin + superblock.data_size * SECTOR
        begin = max(begin, min(data_begin, MOST))
        end = min(end, max(data_end, size - MOST))
    begin = min(begin, size)
    end = max(begin, end)
    yield "head", 0, begin
    if end < size:
        yield "tail", end, size - end


def _find_disks(members: Iterable[ArrayMember], roots: Roots) -> list[BlockDevice]:
    """Returns the disks of members that are partitions."""
    disks: dict[str, BlockDevice] = {}
    for member in members:
        number = _number(Path(member.path))
        if number is None:
            continue
        with suppress(BlklabError):
            node = identity.of_number(number, roots).node
            disk = whole_disk(node)
            if disk is not None and disk != node:
                disks[disk.name] = identity.of_node(disk, roots)
    return list(disks.values())


def _plan_disk(disk: BlockDevice) -> Iterator[tuple[str, int, int]]:
    """Yields the same of a disk: where its partition tables are."""
    begin = min(LEAST, disk.size)
    end = max(begin, disk.size - LEAST)
    yield "head", 0, begin
    if end < disk.size:
        yield "tail", end, disk.size - end


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
    checksum, unread = read_range(device, offset, length, target)
    again, still_unread = read_range(device, offset, length, None)
    if unread == still_unread and again != checksum:
        raise ReadFailed(f"{device}: two readings differ: something writes to it")
    parts = tuple(UnreadPart(begin, missing) for begin, missing in unread)
    return SavedRange(device, offset, length, target.name, checksum, parts)


def read_range(device: str, offset: int, length: int, target: Path | None) -> tuple[str, list[tuple[int, int]]]:
    """Reads a range, and writes it to a file if there is one; returns its SHA-256, and what could not be read.

    A bad sector loses a whole piece.
    """
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
                size = min(PIECE, offset + length - begin)
                piece = _read_piece(source, begin, size)
                if piece is None:
                    unread.append((begin, size))
                    if len(unread) > MOST_UNREAD:
                        raise ReadFailed(f"{device}: more than {MOST_UNREAD} parts cannot be read: copy the disk first")
                    piece = bytes(size)
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


def _describe(member: ArrayMember, ranges: Sequence[SavedRange], roots: Roots) -> SavedMember:
    """Returns what identifies a member later, when names have changed, and where its ranges are."""
    superblock = member.superblock
    path = Path(member.path)
    number = _number(path)
    ids: tuple[str, ...] = ()
    if number is not None:
        with suppress(BlklabError):
            ids = identity.of_number(number, roots).ids
    size = None
    with suppress(ReadFailed):
        size = _size(path)
    return SavedMember(
        path=str(path.absolute()),
        ids=ids,
        image=path.is_file(),
        size_bytes=size,
        array_uuid=superblock.uuid if superblock else None,
        device_uuid=superblock.device or None if superblock else None,
        slot=superblock.slot if superblock else None,
        events=superblock.events if superblock else None,
        version=superblock.version if superblock else None,
        ranges=tuple(ranges),
    )
