"""Finds which bad ranges of an array have a good copy, and what is lost without a member.

A copy is good if its member is in the array, is in sync, and does not list the sectors as bad blocks. With parity, a
stripe is good if no more members are bad or missing there than the level has parity chunks.

Measured errors count like listed bad blocks: `unreadable` has them by the path of their member, in sectors of the
member with its data offset. A list whose entries are beyond the end of its member is garbage, and is ignored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from blklab.md.levels import PARITIES
from blklab.md.model import MAX_DISKS, Array, ArrayMember, merge_ranges
from blklab.md.superblocks import SectorRange
from blklab.units import SECTOR

PAGE = 4096 // SECTOR  # Sectors of a page
Unreadable = Mapping[str, tuple[SectorRange, ...]]
NOTHING: Unreadable = {}


@dataclass(frozen=True)
class BadPiece:
    """A part of an array in which the same members have bad blocks."""

    sectors: SectorRange  # RAID-1 and RAID-10: of the array. Parity: of each member, from its data offset
    bad: frozenset[int]  # Slots of the members that list it
    gone: frozenset[int]  # These, and the slots of missing members that had a copy or a part of the stripe
    lost: bool  # Reads fail


def find_bad_pieces(
    array: Array, without: frozenset[int] = frozenset(), unreadable: Unreadable = NOTHING
) -> list[BadPiece] | None:
    """Returns all parts of an array with bad blocks, as if the members of the slots `without` were missing.

    None if unknown: during a reshape, or for levels and layouts without a map here.
    """
    if not 0 < array.raid_disks <= MAX_DISKS:
        return None
    edges: dict[int, Counter[int]] = {}
    for member in array.distinct:
        if member.slot is None:
            continue
        for bad_range in find_bad_ranges(member, unreadable):
            pieces = _comparable_pieces(array, member, bad_range)
            if pieces is None:
                return None
            for piece in pieces:
                edges.setdefault(piece.sector, Counter())[member.slot] += 1
                edges.setdefault(piece.end, Counter())[member.slot] -= 1
    missing = _missing_slots(array) | without
    bad_pieces = []
    depth = Counter[int]()
    begin = 0
    for sector in sorted(edges):
        if bad := frozenset(slot for slot, count in depth.items() if count):
            holders = _holders(array, begin)
            unavailable = bad | (missing & holders)
            lost = len(unavailable) > PARITIES.get(array.level, len(holders) - 1)
            bad_pieces.append(BadPiece(SectorRange(begin, sector - begin), bad, unavailable, lost))
        depth.update(edges[sector])
        begin = sector
    return bad_pieces


def find_lost_ranges(
    array: Array, without: frozenset[int] = frozenset(), unreadable: Unreadable = NOTHING
) -> tuple[SectorRange, ...]:
    """Returns the array's sectors of which no good copy is left, as if the slots `without` were missing."""
    if not array.redundant:
        return ()
    ranges: list[SectorRange] = []
    for piece in find_bad_pieces(array, without, unreadable) or ():
        if not piece.lost:
            continue
        if array.level in PARITIES:
            for slot in piece.gone:
                ranges += array.map_pieces(slot, piece.sectors) or ()
        else:
            ranges.append(piece.sectors)
    return merge_ranges(tuple(ranges))


def find_only_copies(array: Array, member: ArrayMember, unreadable: Unreadable = NOTHING) -> tuple[SectorRange, ...]:
    """Returns the array's sectors that can be read now, and are lost if a member is taken out or replaced by hand."""
    slots = frozenset() if member.slot is None else frozenset({member.slot})
    without = find_lost_ranges(array, slots, unreadable)
    return subtract_ranges(without, find_lost_ranges(array, unreadable=unreadable))


def find_sources_outside(array: Array) -> tuple[ArrayMember, ...]:
    """Returns the members that are out and may hold what their missing slots held: one for each slot, the freshest.

    They are faulty in the array, or are outside of it; of images, they are behind the others. Their slots are those of
    their superblocks. They are stale where the array was written to since.
    """
    missing = _missing_slots(array)
    candidates = [member for member in array.members if not is_current(array, member)] + list(array.outside)
    sources: dict[int, ArrayMember] = {}
    for member in candidates:
        superblock = member.superblock
        if superblock is None or superblock.slot not in missing or not superblock.accepted:
            continue
        if superblock.recovery_offset is not None or superblock.replacement:  # was never complete
            continue
        freshest = sources.get(superblock.slot)
        if freshest is None or freshest.superblock is None or superblock.events > freshest.superblock.events:
            offset = superblock.data_offset if member.data_offset is None else member.data_offset
            sources[superblock.slot] = replace(member, slot=superblock.slot, data_offset=offset)
    return tuple(sources[slot] for slot in sorted(sources))


def find_ranges_only_outside(array: Array, unreadable: Unreadable = NOTHING) -> tuple[SectorRange, ...]:
    """Returns the array's sectors that the present members have lost, and that members which are out may hold."""
    sources = find_sources_outside(array)
    lost = find_lost_ranges(array, unreadable=unreadable)
    if not sources or not lost:
        return ()
    newest = max((member.superblock.events for member in array.members if member.superblock), default=0)
    paths = {source.path for source in sources}
    slots = {source.slot for source in sources}  # What is being rebuilt there has not all data
    members = [member for member in array.members if member.path not in paths and member.slot not in slots]
    for source in sources:
        superblock = source.superblock and msgspec.structs.replace(source.superblock, events=newest)
        members.append(replace(source, states=("in_sync",) if array.live else (), superblock=superblock))
    complete = replace(array, members=tuple(members))
    return subtract_ranges(lost, find_lost_ranges(complete, unreadable=unreadable))


def find_bad_ranges(member: ArrayMember, unreadable: Unreadable = NOTHING) -> tuple[SectorRange, ...]:
    """Returns the listed and the measured bad ranges of a member; nothing of a list that is garbage."""
    measured_ranges = unreadable.get(member.path, ())
    listed_ranges = () if has_garbage_list(member) else member.ranges
    return merge_ranges((*listed_ranges, *measured_ranges)) if measured_ranges else listed_ranges


def find_end(member: ArrayMember) -> int | None:
    """Returns the first sector after the data of a member, or after its device if this is larger; None if unknown."""
    superblock = member.superblock
    data_end = superblock.data_offset + superblock.data_size if superblock else 0
    device_end = (member.size or 0) // SECTOR
    return max(data_end, device_end) or None


def has_garbage_list(member: ArrayMember) -> bool:
    """Whether at least half of the entries of a list are beyond the end of the member: they were never bad blocks."""
    end = find_end(member)
    entries = member.ranges
    if end is None or not entries:
        return False
    beyond = [entry for entry in entries if entry.end > end]
    return 2 * len(beyond) >= len(entries)


def is_redundant_without(array: Array, member: ArrayMember) -> bool:
    """Whether the array survives the loss of any other member while a member is out."""
    if array.sector_map is None or member.slot is None:
        return False
    missing = _missing_slots(array) | {member.slot}
    slots = set(range(array.raid_disks)) - missing
    return all(array.sector_map.runs_without(sorted(missing | {slot})) for slot in slots)


Pages = dict[int, list[tuple[ArrayMember, int]]]
"""Pages of an array, by number, and what a write of each writes again: members and sectors, from their data offsets."""


def find_rewritable_pages(array: Array) -> Pages:
    """Returns the pages of the array whose writes rewrite all bad ranges that are not lost.

    To rewrite parity, one page of data of the stripe is written: md then writes the parity as well.
    """
    pieces = find_bad_pieces(array) or [] if array.redundant else []
    lost = {page for sectors in find_lost_ranges(array) for page in _pages(sectors)}
    lost_rows: set[int] = set()
    for piece in pieces:
        if piece.lost:
            lost_rows.update(_pages(piece.sectors))
    pages: Pages = {}
    for member in array.distinct if pieces else ():
        offset = member.data_offset or 0
        size = array.member_sectors
        ranges = find_bad_ranges(member) if member.slot is not None else ()
        rows: set[int] = set()
        for bad_range in ranges:
            if bad_range.sector - offset < size:
                pages_of_range = _pages(SectorRange(bad_range.sector - offset, bad_range.sectors))
                rows.update(row for row in pages_of_range if 0 <= row * PAGE < size)
        for row in sorted(rows):
            if array.level in PARITIES and row in lost_rows:
                continue
            on_member = SectorRange(row * PAGE, min(PAGE, size - row * PAGE))
            for array_range in array.map_pieces(member.slot or 0, on_member, parity_as_data=True) or ():
                if (page := array_range.sector // PAGE) not in lost:
                    pages.setdefault(page, []).append((member, on_member.sector))
    return pages


def subtract_ranges(ranges: tuple[SectorRange, ...], minus: tuple[SectorRange, ...]) -> tuple[SectorRange, ...]:
    """Returns the parts of ranges that are in no range of `minus`; both are sorted and do not overlap."""
    remainder: list[SectorRange] = []
    for current in ranges:
        begin = current.sector
        for other in minus:
            if begin < other.end and other.sector < current.end:
                if other.sector > begin:
                    remainder.append(SectorRange(begin, other.sector - begin))
                begin = other.end
        if begin < current.end:
            remainder.append(SectorRange(begin, current.end - begin))
    return tuple(remainder)


def is_current(array: Array, member: ArrayMember) -> bool:
    """Whether a member holds all data, apart from its bad blocks."""
    if array.live and array.state != "inactive":
        return "in_sync" in member.states
    superblock = member.superblock
    if {"spare", "faulty"}.intersection(member.states):  # of an array that does not run: was never complete
        return False
    superblocks = [other.superblock for other in array.distinct if other.superblock and other.superblock.accepted]
    newest = max((other.events for other in superblocks), default=0)
    return superblock in superblocks and superblock.recovery_offset is None and superblock.events >= newest - 1


def _missing_slots(array: Array) -> frozenset[int]:
    """Returns the slots without a member that holds all data. Members whose image was not given count as present."""
    if not 0 < array.raid_disks <= MAX_DISKS:
        return frozenset()
    current = {member.slot for member in array.active if is_current(array, member)}
    return frozenset(range(array.raid_disks)) - current - frozenset(array.absent)


def _holders(array: Array, sector: int) -> frozenset[int]:
    """Returns the slots that have a copy of a sector, or a part of its stripe."""
    if array.level == "raid10" and array.sector_map:
        return frozenset(array.sector_map.slots(sector))
    return frozenset(range(array.raid_disks))


def _comparable_pieces(array: Array, member: ArrayMember, bad_range: SectorRange) -> Iterator[SectorRange] | None:
    """Returns a bad range of a member as sectors that other members' ranges can be compared with."""
    if member.data_offset is None or member.slot is None or array.reshaping or array.member_sectors <= 0:
        return None
    begin = max(0, bad_range.sector - member.data_offset)
    end = min(bad_range.end - member.data_offset, array.member_sectors)
    if array.level in PARITIES:  # a stripe has pages: a page with one bad sector is bad (drivers/md/raid5.c)
        begin = begin // PAGE * PAGE
        end = -(-end // PAGE) * PAGE
    on_member = SectorRange(begin, max(0, end - begin))
    pieces = array.map_pieces(member.slot, on_member)
    if pieces is None:
        return None
    return iter([on_member] if on_member.sectors and array.level in PARITIES else pieces)


def _pages(sectors: SectorRange) -> range:
    return range(sectors.sector // PAGE, -(-sectors.end // PAGE))
