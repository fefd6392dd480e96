"""Copies sectors of an array from a member that was thrown out to a file: `md rescue --save BEGIN-END --from DEVICE`.

The file is one line of JSON, the header, and the bytes of all its ranges. Reads the member, and writes no device.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import IO, Literal

import msgspec

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.md.good_copies import subtract_ranges
from blklab.md.images import make_array
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, merge_ranges
from blklab.md.rescue.saved_metadata import check_place
from blklab.md.superblocks import SectorRange, Superblock, newest_superblock, read_superblocks
from blklab.system import identity
from blklab.system.layers import number_of
from blklab.system.roots import Roots, entries, open_descriptor, read_text
from blklab.units import SECTOR, format_size

MOST_SECTORS = (1 << 30) // SECTOR
MOST_RANGES = 65_536
MOST_HEADER = 32 << 20  # Bytes
PIECE = 128  # Sectors of one read
PAGE = 8  # Sectors that a bad sector loses
MOST_UNREAD = 100  # Parts of a page: each can take a disk several seconds
OFFSET_COPIES = 0x10000  # The bit of a layout with far copies in the next stripe


class SectorsOfMember(msgspec.Struct, frozen=True):
    """A range of an array, and where it is on the member."""

    array_sector: int
    sectors: int
    member_sector: int  # With the data offset
    sha256: str = ""


class SectorsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the member from which sectors were copied. Sectors are 512 bytes."""

    format: Literal["blklab-sectors"]
    format_version: Literal[1]
    saved: str  # When, ISO 8601
    array_uuid: str
    device_uuid: str | None
    version: str  # Of the superblock
    level: str
    layout: int
    chunk_bytes: int
    raid_disks: int
    slot: int
    events: int  # Of the superblock: what the array wrote later is not in the file
    updated: int  # Seconds since 1970
    data_offset: int
    member_sectors: int
    ranges: tuple[SectorsOfMember, ...]  # In order of the array; their bytes follow in this order


HEADERS = msgspec.json.Decoder(SectorsHeader)
"""Made once, with the module: msgspec 0.22 crashes if two threads look at the same class for the first time."""


@dataclass(frozen=True)
class SavedSectors:
    """What was saved, and what not."""

    header: SectorsHeader
    elsewhere: tuple[SectorRange, ...]  # Sectors that the member has no copy of
    listed: tuple[SectorRange, ...]  # Sectors that are in the member's own bad-block list
    unread: tuple[SectorRange, ...]  # Sectors that could not be read
    warnings: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all that the member should hold was saved."""
        return not self.listed and not self.unread


def parse_sectors(word: str) -> SectorRange:
    """Returns a range from its first and last sector, `2048-2055`, or one sector. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", word, re.A)
    begin = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else -1
    if not begin <= last < begin + MOST_SECTORS:
        raise UsageError(
            f"--save {word}: expected the first and the last sector of 512 bytes, such as 2048-2055, "
            f"and at most {format_size(MOST_SECTORS * SECTOR)}"
        )
    return SectorRange(begin, last - begin + 1)


def save_sectors(sector_range: SectorRange, device: Path, file: Path, roots: Roots) -> SavedSectors:
    """Copies what a member holds of a range of its array to a new file, which is read again and compared.

    Raises UsageError if the member is none, or the file exists or is on its disk; BlklabError if the member has nothing
    of the range, or a file cannot be written.
    """
    _refuse_running(device, roots)
    superblock, array = _read_member(device)
    if os.path.lexists(file):
        raise UsageError(f"{file}: exists, expected a new file")
    warnings = check_place(file, "--save", [str(device)], roots)
    places = list(find_on_member(array, superblock, sector_range))
    good, listed_ranges = _split_by_list(places, superblock)
    with SystemErrors(BlklabError, device), open_descriptor(device, os.O_RDONLY) as source:
        readable, unread = _read_all(device, source, good)
        if not readable:
            reason = "they are on other members" if not places else "they are bad blocks of it, or cannot be read"
            raise BlklabError(
                f"{device}: cannot save array sectors {sector_range} from slot {superblock.slot}: {reason}"
            )
        if len(readable) > MOST_RANGES:
            raise BlklabError(f"--save {sector_range}: more than {MOST_RANGES:,} ranges: save a smaller part at a time")
        header = _make_header(superblock, array, readable)
        _write_file(file, header, device, source)
    if read_header(file) != header:
        raise BlklabError(f"{file}: it was not stored as it was written: delete it, and save to another disk")
    for _ in read_ranges(file, header):  # Compares them with their checksums
        pass
    on_member = merge_ranges(tuple(SectorRange(place.array_sector, place.sectors) for place in places))
    return SavedSectors(
        header,
        subtract_ranges((sector_range,), on_member),
        merge_ranges(listed_ranges),
        merge_ranges(unread),
        tuple(warnings),
    )


def _refuse_running(device: Path, roots: Roots) -> None:
    """Raises UsageError for a member that a running array writes to: its sectors are changing."""
    status = device.stat() if device.exists() else None
    if status is None or not stat.S_ISBLK(status.st_mode):
        return
    node = identity.of_number(number_of(status.st_rdev), roots).node
    for holder in entries(node / "holders"):
        md = holder.resolve() / "md"
        states = (read_text(md / f"dev-{node.name}" / "state") or "faulty").split(",")
        if read_text(md / "array_state") != "inactive" and "faulty" not in states:
            raise UsageError(f"--from {device}: {holder.name} uses it: expected a member that is out of its array")


def _read_member(device: Path) -> tuple[Superblock, Array]:
    """Returns the superblock of a member, and its array. Raises BlklabError if its sectors cannot be used."""
    reading = read_superblocks(device)
    if reading.failure:
        raise BlklabError(f"{device}: {reading.failure}")
    superblock = newest_superblock(reading)
    if superblock is None:
        raise UsageError(f"--from {device}: it has no md superblock, expected a member of an array")
    if not superblock.accepted or superblock.slot is None or superblock.recovery_offset is not None:
        raise BlklabError(f"{device}: it is {superblock.role}, and not a complete member with a correct superblock")
    if superblock.reshape_position is not None:
        raise BlklabError(f"{device}: its array was being reshaped: which sectors it holds is in doubt")
    member = ArrayMember(device.name, str(device), superblock.slot, superblock=superblock)
    array = make_array([member])
    if array.sector_map is None:
        raise BlklabError(
            f"{device}: blklab does not know where the sectors of {array.level} with layout {array.layout} are"
        )
    return superblock, array


def find_on_member(array: Array, superblock: Superblock, sector_range: SectorRange) -> Iterator[SectorsOfMember]:
    """Yields where a member holds sectors of an array, in order of the array, without checksums.

    Of RAID-4, 5 and 6 these are data, never parity.
    """
    slot = superblock.slot or 0
    offset = superblock.data_offset
    capacity = array.sector_map.capacity if array.sector_map else 0
    end = min(sector_range.end, capacity)
    if array.level == "raid1":
        if sector_range.sector < end:
            yield SectorsOfMember(sector_range.sector, end - sector_range.sector, offset + sector_range.sector)
        return
    chunk = array.chunk // SECTOR
    begin = sector_range.sector
    while begin < end:
        number = begin // chunk
        length = min((number + 1) * chunk, end) - begin
        for candidate in _find_candidates(array, number, capacity // chunk):
            pieces = array.map_pieces(slot, SectorRange(candidate * chunk, chunk))
            if pieces and pieces[0].sector == number * chunk:
                yield SectorsOfMember(begin, length, offset + candidate * chunk + begin - number * chunk)
                break
        begin += length


def _find_candidates(array: Array, number: int, chunks: int) -> Iterator[int]:
    """Yields the chunks of a member that may hold a chunk of the array, which the map decides.

    With parity, that of its stripe. Of RAID-10, those of each copy (drivers/md/raid10.c, `__raid10_find_phys`).
    """
    if array.level in PARITIES:
        yield number // (array.raid_disks - PARITIES[array.level])
        return
    near = array.layout & 0xFF
    far = array.layout >> 8 & 0xFF
    is_offset = bool(array.layout & OFFSET_COPIES)
    member_chunks = -(-chunks * near * far // array.raid_disks)  # Chunks of a member (`calc_sectors`)
    first = number * near // array.raid_disks
    if is_offset:
        yield from range(first * far, (first + 2) * far)
        return
    for copy in range(far):
        for stripe in (first, first + 1):  # Near copies can continue in the next stripe
            yield stripe + copy * (member_chunks // far)


def _split_by_list(
    places: Sequence[SectorsOfMember], superblock: Superblock
) -> tuple[list[SectorsOfMember], tuple[SectorRange, ...]]:
    """Returns the parts that are not in the member's own bad-block list, and those that are, as array sectors."""
    bad_blocks = superblock.bad_blocks
    bad = bad_blocks.ranges if bad_blocks and bad_blocks.active else ()
    good: list[SectorsOfMember] = []
    listed_ranges: list[SectorRange] = []
    for place in places:
        on_member = SectorRange(place.member_sector, place.sectors)
        near = tuple(entry for entry in bad if entry.sector < on_member.end and on_member.sector < entry.end)
        shift = place.array_sector - place.member_sector
        parts = subtract_ranges((on_member,), near)
        good += [SectorsOfMember(part.sector + shift, part.sectors, part.sector) for part in parts]
        lost = subtract_ranges((on_member,), parts)
        listed_ranges += [SectorRange(part.sector + shift, part.sectors) for part in lost]
    return good, tuple(listed_ranges)


def _read_all(
    device: Path, source: int, places: Sequence[SectorsOfMember]
) -> tuple[list[SectorsOfMember], tuple[SectorRange, ...]]:
    """Returns the ranges that can be read, with their checksums, and those that cannot, as array sectors.

    Raises BlklabError if too many cannot be read.
    """
    readable: list[SectorsOfMember] = []
    unread: list[SectorRange] = []
    for place in places:
        # Of the range that is being read: its first sector in the place
        begin = 0
        digest = hashlib.sha256()
        for offset, sectors in _find_pieces(source, place):
            content = _read(source, place.member_sector + offset, sectors)
            if content is not None:
                digest.update(content)
                continue
            readable += _cut(place, begin, offset, digest.hexdigest())
            unread.append(SectorRange(place.array_sector + offset, sectors))
            if len(unread) > MOST_UNREAD:
                raise BlklabError(f"{device}: more than {MOST_UNREAD} parts cannot be read: copy the disk first")
            begin = offset + sectors
            digest = hashlib.sha256()
        readable += _cut(place, begin, place.sectors, digest.hexdigest())
    return readable, tuple(unread)


def _cut(place: SectorsOfMember, begin: int, end: int, digest: str) -> list[SectorsOfMember]:
    """Returns the part of a place between two of its sectors; nothing if it is empty."""
    if begin == end:
        return []
    return [SectorsOfMember(place.array_sector + begin, end - begin, place.member_sector + begin, digest)]


def _find_pieces(source: int, place: SectorsOfMember) -> Iterator[tuple[int, int]]:
    """Yields what is read at once: first sector in the place, and sectors. Near bad sectors these are pages."""
    for offset in range(0, place.sectors, PIECE):
        sectors = min(PIECE, place.sectors - offset)
        if _read(source, place.member_sector + offset, sectors) is not None:
            yield offset, sectors
            continue
        for page in range(offset, offset + sectors, PAGE):
            yield page, min(PAGE, offset + sectors - page)


def _read(source: int, sector: int, sectors: int) -> bytes | None:
    """Returns sectors of a device; None if they cannot all be read."""
    try:
        content = os.pread(source, sectors * SECTOR, sector * SECTOR)
    except OSError:
        return None
    return content if len(content) == sectors * SECTOR else None


def _make_header(superblock: Superblock, array: Array, ranges: Sequence[SectorsOfMember]) -> SectorsHeader:
    return SectorsHeader(
        format="blklab-sectors",
        format_version=1,
        saved=datetime.now(UTC).isoformat(timespec="seconds"),
        array_uuid=superblock.uuid,
        device_uuid=superblock.device_uuid,
        version=superblock.version,
        level=array.level,
        layout=array.layout,
        chunk_bytes=array.chunk,
        raid_disks=array.raid_disks,
        slot=superblock.slot or 0,
        events=superblock.events,
        updated=superblock.updated,
        data_offset=superblock.data_offset,
        member_sectors=array.member_sectors,
        ranges=tuple(ranges),
    )


def _write_file(file: Path, header: SectorsHeader, device: Path, source: int) -> None:
    """Writes the header and the ranges to a new file that only its owner can read, and syncs it.

    Raises BlklabError if the device has other data than when its checksums were made; the file is removed then.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with SystemErrors(BlklabError, f"{file}: cannot be written"):
        descriptor = os.open(file, flags, 0o600)
    try:
        with SystemErrors(BlklabError, f"{file}: cannot be written"), os.fdopen(descriptor, "wb") as target:
            target.write(json.dumps(msgspec.to_builtins(header)).encode() + b"\n")
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)  # The second reading is from the disk
            for place in header.ranges:
                digest = hashlib.sha256()
                for offset in range(0, place.sectors, PIECE):
                    content = _read(source, place.member_sector + offset, min(PIECE, place.sectors - offset)) or b""
                    digest.update(content)
                    target.write(content)
                if digest.hexdigest() != place.sha256:
                    raise BlklabError(f"{device}: two readings of sector {place.member_sector:,} and more differ")
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        file.unlink()
        raise


def read_header(file: Path) -> SectorsHeader:
    """Returns the header of a file with sectors. Raises BlklabError if it is damaged, or no such file."""
    expectation = "expected a file that `blklab md rescue --save` has written"
    with SystemErrors(BlklabError, file), _open_file(file) as source:
        line = source.readline(MOST_HEADER)
        size = os.fstat(source.fileno()).st_size
    try:
        header = HEADERS.decode(line)
        _check_header(header, size - len(line))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise BlklabError(f"{file}: damaged: {reason}; {expectation}") from None
    return header


def _check_header(header: SectorsHeader, length: int) -> None:
    """Raises ValueError for impossible values. `length`: bytes behind the header."""
    if not 0 < len(header.ranges) <= MOST_RANGES:
        raise ValueError(f"it has {len(header.ranges):,} ranges, expected 1 to {MOST_RANGES:,}")
    for place in header.ranges:
        if min(place.array_sector, place.member_sector - header.data_offset) < 0 or place.sectors <= 0:
            raise ValueError(f"a range begins at array sector {place.array_sector} and has {place.sectors} sectors")
    for before, after in pairwise(header.ranges):
        if after.array_sector < before.array_sector + before.sectors:
            raise ValueError(f"its ranges overlap at array sector {after.array_sector}")
    sectors = sum(place.sectors for place in header.ranges)
    if sectors > MOST_SECTORS or sectors * SECTOR != length:
        raise ValueError(f"{length:,} bytes follow its first line, expected {sectors * SECTOR:,}")


def read_ranges(file: Path, header: SectorsHeader) -> Iterator[tuple[SectorsOfMember, int, bytes]]:
    """Yields the content of a file in pieces: a range, the first sector of the piece in it, and its bytes.

    Raises BlklabError at the end of a range whose checksum is wrong.
    """
    with SystemErrors(BlklabError, file), _open_file(file) as source:
        source.readline(MOST_HEADER)
        for place in header.ranges:
            digest = hashlib.sha256()
            for offset in range(0, place.sectors, PIECE):
                content = source.read(min(PIECE, place.sectors - offset) * SECTOR)
                digest.update(content)
                yield place, offset, content
            if digest.hexdigest() != place.sha256:
                raise BlklabError(f"{file}: the SHA-256 of array sector {place.array_sector:,} and more is wrong")


@contextmanager
def _open_file(file: Path) -> Iterator[IO[bytes]]:
    """Opens a regular file for reading; raises OSError or BlklabError for anything else."""
    with open_descriptor(file, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BlklabError(f"{file}: not a regular file")
        with open(descriptor, "rb", closefd=False) as source:  # a descriptor, not a path
            yield source
