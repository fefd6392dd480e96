"""Puts saved metadata back: `blklab md fix metadata`, after a wrong `--create`, `--zero-superblock` or a new GPT.

Only what md or a partition table has on a disk is written, never data. Everything is checked before the first write,
and the content of before is saved first, in the same format: the same command puts it back.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md.repair.perform import SignalDeferral
from blklab.md.rescue.metadata_places import (
    BLOCKS,
    MAGIC,
    SUPERBLOCK_BYTES,
    find_data,
    find_metadata,
    find_reserved_for_tables,
    find_superblock,
    find_tables,
    intersect_spans,
    span_of,
    subtract_spans,
)
from blklab.md.rescue.saved_index import (
    ReplacedBy,
    SavedDevice,
    SavedDisk,
    SavedMember,
    SavedRange,
    find_known_spans,
    load_device,
    read_index,
    write_index,
)
from blklab.md.superblocks import Superblock, SuperblockReading, newest_superblock, read_superblocks
from blklab.system import identity
from blklab.system.identity import BlockDevice
from blklab.system.layers import loop_file, number_of
from blklab.system.roots import Roots, entries, open_descriptor, read_text
from blklab.system.signatures import locate_signatures
from blklab.system.spans import Span
from blklab.system.users import openers, uses
from blklab.units import format_size

PIECE = 4096  # Bytes that are written at once, if one of them differs
CONTENT_IDS = ("lvm-pv-uuid-", "md-uuid-", "md-name-", "dm-name-")  # Ids that change with what is on a disk
MOST_DIRECTORIES = 1000  # With what was there before

Report = Callable[[str], object]


@dataclass(frozen=True)
class RestoredPart:
    """A part of a device, and what was saved of it."""

    begin: int  # Bytes
    content: bytes


@dataclass(frozen=True)
class DeviceRestore:
    """What is done to a device. It is refused if it has a reason, which is one sentence."""

    saved: SavedMember | SavedDisk
    path: str  # What it is called now; the name of then if it was not found
    number: str | None = None  # `major:minor`; None for an image
    ids: tuple[str, ...] = ()
    what: str = ""  # What is put back, for people
    parts: tuple[RestoredPart, ...] = ()  # In the order of writing
    differing: int = 0  # Bytes in pieces that differ now
    superblock: Superblock | None = None  # That says where the metadata of a member are; None for a disk
    refused: str = ""
    notes: tuple[str, ...] = ()  # What stays as it is, and why

    @property
    def size(self) -> int:
        return self.saved.size_bytes or 0

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "device": self.path,
            "saved_as": self.saved.path,
            "what": self.what,
            "bytes": sum(len(part.content) for part in self.parts),
            "differing_bytes": self.differing,
            "refused": self.refused or None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class MetadataPlan:
    """What a directory with saved metadata puts back."""

    directory: Path
    devices: tuple[DeviceRestore, ...]

    @property
    def refused(self) -> list[DeviceRestore]:
        return [device for device in self.devices if device.refused]

    @property
    def nothing_to_do(self) -> bool:
        return not self.refused and not any(device.differing for device in self.devices)

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {"directory": str(self.directory), "devices": [device.as_dict() for device in self.devices]}


class NotRestorable(BlklabError):
    """A device cannot be restored."""


def plan_restore(directory: Path, names: Sequence[str], roots: Roots, *, tables: bool = False) -> MetadataPlan:
    """Returns what saved metadata would change. Reads only.

    `names` are paths or stable ids of devices; without any, it is all of them. `tables`: partition tables too. Raises
    BlklabError if the index or a file is not as it was saved, UsageError if a device is none of those saved.
    """
    index = read_index(directory)
    restores = []
    for member in index.members:
        with load_device(directory, member) as memory:
            restores.append(_plan_device(member, memory, roots, tables=tables))
    for disk in index.disks:
        with load_device(directory, disk) as memory:
            if tables:
                restores.append(_plan_device(disk, memory, roots, tables=True))
    return MetadataPlan(directory, tuple(_refuse_doubled(_choose(restores, names, directory, roots))))


def _refuse_doubled(restores: Sequence[DeviceRestore]) -> Iterator[DeviceRestore]:
    """Yields the devices; of those that are the same now, none is restored."""
    places = [restore.number or os.path.realpath(restore.path) for restore in restores]
    for place, restore in zip(places, restores, strict=True):
        if not restore.refused and places.count(place) > 1:
            reason = "several of the saved devices are this one now"
            yield replace(restore, refused=reason, parts=(), differing=0)
        else:
            yield restore


def _choose(
    restores: Sequence[DeviceRestore], names: Sequence[str], directory: Path, roots: Roots
) -> list[DeviceRestore]:
    """Returns the devices that the user named. Raises UsageError for another one."""
    if not restores:
        raise UsageError(f"{directory}: no member was saved; its disks are restored with --partition-tables")
    selection: list[DeviceRestore] = []
    for name in names:
        matches = [restore for restore in restores if _is_called(restore, name, roots)]
        if not matches:
            paths = ", ".join(restore.path for restore in restores)
            raise UsageError(f"--member {name}: not one of the saved devices, which are now: {paths}")
        selection += [restore for restore in matches if restore not in selection]
    return selection if names else list(restores)


def _is_called(restore: DeviceRestore, word: str, roots: Roots) -> bool:
    """Whether a word is the path or a stable id of a device; a name of then counts only if it was not found."""
    if restore.saved.image:
        return os.path.realpath(word) == os.path.realpath(restore.saved.path)
    if identity.normal(word) in map(identity.normal, restore.saved.ids):
        return True
    if restore.number is None:
        return False
    try:
        status = roots.status(Path(word))
    except (OSError, ValueError):
        return word == restore.path
    return word == restore.path or (stat.S_ISBLK(status.st_mode) and number_of(status.st_rdev) == restore.number)


def _plan_device(saved_device: SavedMember | SavedDisk, memory: int, roots: Roots, *, tables: bool) -> DeviceRestore:
    """Returns what is done to a device, or why nothing. `memory` is the device as it was saved."""
    restore = DeviceRestore(saved_device, saved_device.path)
    try:
        restore = _find_device(saved_device, roots)
        _check_unused(restore, roots)
        if isinstance(saved_device, SavedDisk):
            return _plan_disk(restore, saved_device, memory)
        return _plan_member(restore, saved_device, memory, roots, tables=tables)
    except NotRestorable as error:
        return replace(restore, refused=str(error))


def _find_device(saved_device: SavedMember | SavedDisk, roots: Roots) -> DeviceRestore:
    """Returns the device or image of now. Raises NotRestorable if it is not there, or if it is in doubt."""
    if not saved_device.size_bytes:
        raise NotRestorable("it could not be read when the others were saved")
    if saved_device.image:
        return _find_image(saved_device)
    if not saved_device.ids:
        raise NotRestorable("it had no stable id when it was saved, so that it cannot be found safely")
    same_size = [device for device in _find_candidates(saved_device, roots) if device.size == saved_device.size_bytes]
    if len(same_size) > 1:
        with_all = [device for device in same_size if _stable(saved_device.ids) <= _stable(device.ids)]
        same_size = with_all if len(with_all) == 1 else same_size
    if not same_size:
        raise NotRestorable(
            f"no device has one of its ids ({saved_device.ids[0]}) and {saved_device.size_bytes:,} bytes: connect it"
        )
    if len(same_size) > 1:
        names = ", ".join(device.path for device in same_size)
        raise NotRestorable(f"several devices have its ids ({names}): disconnect all but the right one")
    match = same_size[0]
    return DeviceRestore(saved_device, match.path, match.number, match.ids)


def _find_image(saved_device: SavedMember | SavedDisk) -> DeviceRestore:
    try:
        status = os.lstat(saved_device.path)
    except (OSError, ValueError):
        raise NotRestorable("there is no image with this path: bring it back to its place") from None
    if not stat.S_ISREG(status.st_mode):
        raise NotRestorable("it is no regular file any more, as the image was")
    if status.st_size != saved_device.size_bytes:
        raise NotRestorable(
            f"it has {status.st_size:,} bytes, expected {saved_device.size_bytes:,} as when it was saved"
        )
    return DeviceRestore(saved_device, saved_device.path)


def _find_candidates(saved_device: SavedDevice, roots: Roots) -> Iterator[BlockDevice]:
    """Yields the devices with an id of the saved one: with a WWN of it, if both have one."""
    saved_ids = _stable(saved_device.ids)
    for entry in entries(roots.sys / "class/block"):
        try:
            node = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            continue  # It is gone meanwhile
        device = identity.of_node(node, roots)
        ids = _stable(device.ids)
        worldwide = [
            {name for name in names if name.startswith(("wwn-", "eui.", "uuid."))} for names in (saved_ids, ids)
        ]
        if saved_ids & ids and (not all(worldwide) or worldwide[0] & worldwide[1]):
            yield device


def _stable(ids: Sequence[str]) -> set[str]:
    """Returns the ids that do not depend on the content of a disk, in the form for comparisons."""
    return {identity.normal(name) for name in ids if not name.startswith(CONTENT_IDS)}


def _check_unused(restore: DeviceRestore, roots: Roots) -> None:
    """Raises NotRestorable if a device is in use: a member of an assembled array, mounted, or held otherwise."""
    if restore.number is None:
        with SystemErrors(NotRestorable, "it cannot be read"):
            inode = Path(restore.path).stat()
        for loop in entries(roots.sys / "block"):
            backing = loop_file(loop)
            if backing is not None and _is_same_file(backing, inode, roots):
                raise NotRestorable(f"it is the file of {loop.name}: detach it first (losetup --detach)")
        return
    device = identity.of_number(restore.number, roots)
    users = uses(device, roots)
    if users:
        raise NotRestorable(f"it is in use: {users[0]}: stop this first")
    for program in openers(device, roots):
        if program.writes:
            raise NotRestorable(f"{program.program} (process {program.pid}) has it open for writing: end it first")


def _is_same_file(path: str, inode: os.stat_result, roots: Roots) -> bool:
    try:
        status = roots.status(Path(path))
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (inode.st_dev, inode.st_ino)


def _plan_member(
    restore: DeviceRestore, saved_member: SavedMember, memory: int, roots: Roots, *, tables: bool
) -> DeviceRestore:
    """Returns what is done to a member.

    Its superblock says where its metadata are: the saved one, or the one of now if that replaced what was saved.
    """
    if saved_member.array_uuid is None and saved_member.replaced_by is None:
        raise NotRestorable("it had no superblock when it was saved: nothing of it is known to be metadata")
    reading = read_superblocks(Path(restore.path))
    if reading.failure:
        raise NotRestorable(reading.failure)
    known_spans = find_known_spans(saved_member)
    with _open_to_read(restore) as device:
        if saved_member.replaced_by is None:
            superblock = _find_saved_superblock(saved_member, memory)
            source = memory
            _refuse_newer(superblock, reading)
        else:
            replacing = _find_replacing(saved_member.replaced_by, reading)
            if replacing is None:
                return _plan_again(restore, memory, device, known_spans)
            superblock = replacing
            source = device
        places = _find_places(superblock, source, restore)
        foreign = subtract_spans(
            intersect_spans(_find_foreign_superblocks(saved_member, reading, memory, device), known_spans), places
        )
        table_spans = subtract_spans(
            find_reserved_for_tables(restore.size, _block_size(restore, roots), superblock), places
        )
        table_spans = (
            intersect_spans(table_spans, known_spans) if restore.number is None or _is_whole(restore, roots) else []
        )
        superblock_span = find_superblock(superblock)
        if saved_member.replaced_by is None and subtract_spans([superblock_span], known_spans):
            raise NotRestorable("its superblock could not be read completely when it was saved")
        notes = []
        lacking = sum(place.end - place.begin for place in subtract_spans(places, known_spans))
        if lacking:
            notes.append(
                f"{format_size(lacking)} of its metadata were not read when it was saved, and stay as they are"
            )
        if superblock.bitmap and not superblock.ppl and superblock.bitmap_superblock is None:
            notes.append("its bitmap was not read when it was saved, and stays as it is")
        if foreign and saved_member.replaced_by is None:
            notes.append("a superblock was written where none was before: what was there is put back")
        spans = [
            *foreign,
            *subtract_spans(table_spans if tables else [], foreign),
            *intersect_spans(places, known_spans),
        ]
        parts = _read_parts(memory, spans)
        if not tables and _count_differing(_read_parts(memory, table_spans), device):
            notes.append("a partition table on it has changed too: --partition-tables puts this back")
        differing = _count_differing(parts, device)
    if differing and saved_member.replaced_by is None:
        notes += _warn_of_content(restore, superblock)
    return replace(
        restore,
        what=_describe_member(saved_member, superblock),
        parts=parts,
        differing=differing,
        superblock=superblock,
        notes=tuple(notes),
    )


def _find_foreign_superblocks(
    saved_member: SavedMember, reading: SuperblockReading, memory: int, device: int
) -> list[Span]:
    """Returns where a wrong `--create` wrote a superblock of another version, which may be in the data.

    There is a whole superblock now, and none in the copy. To undo a restore it is the reverse.
    """
    present = reading
    absent = memory
    if saved_member.replaced_by is not None:
        present = read_superblocks(Path(f"/proc/self/fd/{memory}"))
        absent = device
    places = []
    for superblock in present.members:
        is_new = os.pread(absent, len(MAGIC), superblock.offset) != MAGIC
        if superblock.checksum_holds and is_new:
            places.append(span_of(superblock.offset, SUPERBLOCK_BYTES))
    return places


def _warn_of_content(restore: DeviceRestore, superblock: Superblock) -> Iterator[str]:
    """Yields a warning for each filesystem or other signature outside of the data: it may be newer than the copy."""
    data = find_data(superblock)
    try:
        for kind, offset in locate_signatures(Path(restore.path)):
            if kind != "linux_raid_member" and not data.begin <= offset < data.end:
                yield f"it has {kind} at byte {offset:,} now, which this can damage"
    except BlklabError as error:
        yield f"what else is on it is not known: {error}"


def _describe_member(saved_member: SavedMember, superblock: Superblock) -> str:
    if saved_member.replaced_by is not None:
        return f"what was there before the superblock of array {superblock.uuid} was put back"
    slot = f"slot {superblock.slot}" if superblock.slot is not None else superblock.role
    return f"superblock {superblock.version} of array {superblock.uuid} ({slot}, {superblock.events:,} events)"


def _find_places(superblock: Superblock, source: int, restore: DeviceRestore) -> list[Span]:
    try:
        return find_metadata(superblock, source, restore.size)
    except BlklabError as error:
        raise NotRestorable(str(error)) from None


def _find_saved_superblock(saved_member: SavedMember, memory: int) -> Superblock:
    """Returns the superblock in a copy. Raises BlklabError if it is not that of the index."""
    reading = read_superblocks(Path(f"/proc/self/fd/{memory}"))
    for superblock in reading.members:
        key = (superblock.uuid, superblock.device_uuid, superblock.version, superblock.events)
        if key == (saved_member.array_uuid, saved_member.device_uuid, saved_member.version, saved_member.events):
            if not superblock.checksum_holds:
                raise NotRestorable("the checksum of its saved superblock is wrong: it is damaged")
            return superblock
    raise NotRestorable("the copy does not have the superblock that its index names: use another copy")


def _find_replacing(replaced_by: ReplacedBy, reading: SuperblockReading) -> Superblock | None:
    """Returns the superblock that a restore has written, if it is still the same."""
    for superblock in reading.members:
        if _identify(superblock) == replaced_by and superblock.checksum_holds:
            return superblock
    return None


def _identify(superblock: Superblock) -> ReplacedBy:
    return ReplacedBy(superblock.uuid, superblock.device_uuid, superblock.version, superblock.events)


def _plan_again(restore: DeviceRestore, memory: int, device: int, known_spans: list[Span]) -> DeviceRestore:
    """Returns an undo that was done already. Raises NotRestorable if it was not."""
    parts = _read_parts(memory, known_spans)
    if _count_differing(parts, device):
        raise NotRestorable(
            "it does not have the superblock any more that was put back: something has changed it since"
        )
    return replace(restore, what="what was there before, which is there again", parts=parts)


def _refuse_newer(superblock: Superblock, reading: SuperblockReading) -> None:
    """Raises NotRestorable if the device now has a newer superblock of the same member."""
    for present in reading.members:
        is_same_member = (present.uuid, present.device) == (superblock.uuid, superblock.device)
        if is_same_member and present.checksum_holds and present.events > superblock.events:
            raise NotRestorable(
                f"it has {present.events:,} events of the same array, the copy only {superblock.events:,}: the array "
                "was written to since, and an old superblock would hide this"
            )


def _plan_disk(restore: DeviceRestore, saved_disk: SavedDisk, memory: int) -> DeviceRestore:
    """Returns what is done to the partition tables of a disk."""
    with _open_to_read(restore) as device:
        if saved_disk.replaced:
            parts = _read_parts(memory, find_known_spans(saved_disk))
            if not _count_differing(parts, device):
                return replace(restore, what="what was there before, which is there again", parts=parts)
        places = find_tables(device if saved_disk.replaced else memory, restore.size)
        if not places:
            raise NotRestorable("there was no partition table on it when it was saved")
        parts = _read_parts(memory, intersect_spans(places, find_known_spans(saved_disk)))
        return replace(
            restore,
            what="partition tables",
            parts=parts,
            differing=_count_differing(parts, device),
            notes=("tables of logical partitions (DOS) are not put back",) if len(places) == 1 else (),
        )


def _is_whole(restore: DeviceRestore, roots: Roots) -> bool:
    """Whether a device is a whole disk."""
    return not (identity.of_number(restore.number or "", roots).node / "partition").exists()


def _block_size(restore: DeviceRestore, roots: Roots) -> int:
    """Returns the bytes of a logical block."""
    if restore.number is None:
        return BLOCKS[0]
    size = read_text(identity.of_number(restore.number, roots).node / "queue/logical_block_size")
    return int(size) if size in {str(block) for block in BLOCKS} else BLOCKS[0]


@contextmanager
def _open_to_read(restore: DeviceRestore) -> Iterator[int]:
    with SystemErrors(NotRestorable, "it cannot be read"), open_descriptor(restore.path, os.O_RDONLY) as device:
        _check_size(device, restore)
        os.posix_fadvise(device, 0, 0, os.POSIX_FADV_DONTNEED)  # What is on the disk, not what is in memory
        yield device


def _check_size(device: int, restore: DeviceRestore) -> None:
    """Raises NotRestorable if an open device is not the one that was found."""
    status = os.fstat(device)
    number = number_of(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None
    if number != restore.number and restore.number is not None:
        raise NotRestorable("it is another device now: nothing was changed")
    if restore.number is None and not stat.S_ISREG(status.st_mode):
        raise NotRestorable("it is no regular file any more, as the image was")
    if os.lseek(device, 0, os.SEEK_END) != restore.size:
        raise NotRestorable("it has another size now: nothing was changed")


def _read_parts(device: int, places: Sequence[Span]) -> tuple[RestoredPart, ...]:
    return tuple(RestoredPart(place.begin, _read(device, place.begin, place.end - place.begin)) for place in places)


def _read(device: int, begin: int, length: int) -> bytes:
    """Returns bytes of a device. Raises OSError, also if it is shorter."""
    pieces = []
    while length:
        piece = os.pread(device, length, begin)
        if not piece:
            raise OSError(errno.EIO, f"it ends at byte {begin:,}, expected more")
        pieces.append(piece)
        begin += len(piece)
        length -= len(piece)
    return b"".join(pieces)


def _find_differences(part: RestoredPart, present: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the pieces to write: their places on the device, and their content."""
    for offset in range(0, len(part.content), PIECE):
        piece = part.content[offset : offset + PIECE]
        if present[offset : offset + PIECE] != piece:
            yield part.begin + offset, piece


def _count_differing(parts: Sequence[RestoredPart], device: int) -> int:
    differing = 0
    for part in parts:
        present = _read(device, part.begin, len(part.content))
        differing += sum(len(piece) for _, piece in _find_differences(part, present))
    return differing


def restore_metadata(plan: MetadataPlan, roots: Roots, report: Report) -> Path:
    """Writes what differs, reads it again and compares; returns the directory with what was there before.

    `report` is called with a line for each device. Raises BlklabError if a device is not as it was in the plan (nothing
    was written to it then), or cannot be written. It can be repeated.
    """
    devices = [device for device in plan.devices if device.differing]
    with SignalDeferral() as signals:
        signals.defer()
        for device in devices:
            with _open_alone(device, roots):  # All of them can be opened, before anything is done
                pass
        before = _save_present(plan.directory, devices, roots)
        for number, device in enumerate(devices, 1):
            _write_device(number, device, before, roots)
            report(
                f"{device.path}: {format_size(device.differing)} written, read again and compared; "
                f"what was there before is in {before}"
            )
    return before


def _save_present(directory: Path, devices: Sequence[DeviceRestore], roots: Roots) -> Path:
    """Copies what is where something will be written to a new directory, in the format of saved metadata."""
    before = _make_directory(directory)
    members: list[SavedMember] = []
    disks: list[SavedDisk] = []
    for number, device in enumerate(devices, 1):
        with _open_alone(device, roots) as descriptor:
            ranges = [
                _save_part(before / _file_name(number, index), device, descriptor, part)
                for index, part in enumerate(device.parts)
            ]
        if isinstance(device.saved, SavedDisk):
            disks.append(_describe_disk(device, device.saved, ranges))
        else:
            members.append(_describe_present(device, device.saved, ranges))
    write_index(before, members, disks)
    return before


def _make_directory(directory: Path) -> Path:
    """Makes a new directory inside of another one."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with SystemErrors(BlklabError, f"{directory}: cannot save what is there now", "; nothing was changed"):
        for attempt in range(MOST_DIRECTORIES):
            before = directory / (f"before-{stamp}-{attempt}" if attempt else f"before-{stamp}")
            try:
                before.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return before
    raise BlklabError(f"{directory}: has {MOST_DIRECTORIES} directories of {stamp}: nothing was changed")


def _file_name(number: int, part: int) -> str:
    return f"{number}.part{part}"


def _save_part(path: Path, device: DeviceRestore, descriptor: int, part: RestoredPart) -> SavedRange:
    """Copies a part of a device to a new file, and reads this again. Raises BlklabError if that fails."""
    with SystemErrors(BlklabError, f"{device.path}: cannot read byte {part.begin:,} and what follows"):
        content = _read(descriptor, part.begin, len(part.content))
    with SystemErrors(BlklabError, f"{path}: cannot save what is there now", "; nothing was changed"):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        try:
            _write(file, 0, content)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            if _read(file, 0, len(content)) != content:
                raise BlklabError(f"{path}: it was not stored as it was written: nothing was changed")
        finally:
            os.close(file)
    digest = hashlib.sha256(content).hexdigest()
    return SavedRange(device.path, part.begin, len(content), path.name, digest, ())


def _describe_present(device: DeviceRestore, saved_member: SavedMember, ranges: Sequence[SavedRange]) -> SavedMember:
    """Returns the entry of a member for the index of what was there before.

    If this is an undo, what was there before is whole metadata with a superblock, as the first command has saved it.
    """
    is_undo = saved_member.replaced_by is not None
    present = device.superblock if is_undo else newest_superblock(read_superblocks(Path(device.path)))
    return SavedMember(
        path=device.path,
        ids=device.ids,
        image=device.number is None,
        size_bytes=device.size,
        ranges=tuple(ranges),
        array_uuid=present.uuid if present else None,
        device_uuid=present.device_uuid if present else None,
        slot=present.slot if present else None,
        events=present.events if present else None,
        version=present.version if present else None,
        replaced_by=_identify(device.superblock) if device.superblock and not is_undo else None,
    )


def _describe_disk(device: DeviceRestore, saved_disk: SavedDisk, ranges: Sequence[SavedRange]) -> SavedDisk:
    return SavedDisk(
        path=device.path,
        ids=device.ids,
        image=device.number is None,
        size_bytes=device.size,
        ranges=tuple(ranges),
        replaced=not saved_disk.replaced,
    )


@contextmanager
def _open_alone(restore: DeviceRestore, roots: Roots) -> Iterator[int]:
    """Opens a device so that nothing can use it meanwhile. Raises BlklabError if something uses it."""
    try:
        _check_unused(restore, roots)
    except NotRestorable as error:
        raise BlklabError(f"{restore.path}: {error}") from None
    exclusive_flag = 0 if restore.number is None else os.O_EXCL
    flags = os.O_RDWR | os.O_NOFOLLOW | exclusive_flag
    path = os.path.realpath(restore.path) if restore.number else restore.path
    with (
        SystemErrors(BlklabError, f"{restore.path}: cannot open it alone", ": stop what uses it"),
        open_descriptor(path, flags) as descriptor,
    ):
        if restore.number is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            _check_size(descriptor, restore)
        except NotRestorable as error:
            raise BlklabError(f"{restore.path}: {error}") from None
        yield descriptor


def _write_device(number: int, device: DeviceRestore, before: Path, roots: Roots) -> None:
    """Writes what differs on a device, if it is still as it was saved, and compares.

    The superblock is the last part: until it is written, md does not use the rest.
    """
    failure = f"{device.path}: cannot be written"
    remedy = f"; what was there before is in {before}: run the command again, or put this back with the same command"
    with _open_alone(device, roots) as descriptor, SystemErrors(BlklabError, failure, remedy):
        for index, part in enumerate(device.parts):
            present = _read(descriptor, part.begin, len(part.content))
            if present != (before / _file_name(number, index)).read_bytes():
                raise BlklabError(f"{device.path}: something has written to it meanwhile: run the command again")
            for begin, piece in _find_differences(part, present):
                _write(descriptor, begin, piece)
            os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for part in device.parts:
            if _read(descriptor, part.begin, len(part.content)) != part.content:
                raise BlklabError(f"{device.path}: it does not have what was written at byte {part.begin:,}{remedy}")


def _write(descriptor: int, begin: int, content: bytes) -> None:
    remainder = memoryview(content)
    while remainder:
        written = os.pwrite(descriptor, remainder, begin)
        begin += written
        remainder = remainder[written:]
