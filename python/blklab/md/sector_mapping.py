"""Maps sectors of a member to sectors of the array: the inverse of the kernel's maps.

Sources: drivers/md/raid10.c (`__raid10_find_phys`, `calc_sectors`, `setup_geo`), raid5.c
(`raid5_compute_sector`), Linux 6.1. Sectors are 512 bytes and, here, without the data offset.
"""

from functools import lru_cache
from typing import Final

from blklab.md.model import PARITIES, Array, ArrayMember, merge_ranges
from blklab.md.superblocks import SECTOR, SectorRange

MAX_CHUNKS: Final = 1024  # Chunks of a range that are mapped one by one
MAX_DISKS: Final = 1920  # More members than this in a superblock mean that it is damaged


def array_ranges(array: Array, member: ArrayMember, member_range: SectorRange) -> tuple[SectorRange, ...] | None:
    """Returns the array's sectors in a range of a member, which includes the data offset.

    Empty for parity and for what is not data. None if unknown: for levels without a map here,
    during a reshape, or without a slot.
    """
    slot, offset = member.slot, member.data_offset
    if slot is None or offset is None or array.reshaping or array.member_sectors <= 0:
        return None
    first = max(0, member_range.sector - offset)
    last = min(member_range.end - offset, array.member_sectors)
    pieces = map_pieces(array, slot, SectorRange(first, max(0, last - first)))
    return None if pieces is None else merge_ranges(tuple(pieces))


def map_pieces(
    array: Array, slot: int, sectors: SectorRange, *, parity_as_data: bool = False
) -> list[SectorRange] | None:
    """Returns the array's sectors in a range of a slot, for each chunk apart; None if unknown.

    With `parity_as_data`, parity is mapped to data of the same stripe, whose writes change this parity.
    """
    first, last = sectors.sector, sectors.end
    if first >= last or array.level == "raid1":
        return [sectors] if first < last else []
    chunk, disks = array.chunk // SECTOR, array.raid_disks
    if chunk <= 0 or not slot < disks <= MAX_DISKS or (last - first) // chunk > MAX_CHUNKS:
        return None
    pieces = []
    while first < last:
        length = min(chunk - first % chunk, last - first)
        if array.level == "raid10":
            at = map_raid10(array, slot, first)
        elif array.level in PARITIES:
            at = map_parity(array, slot, first, parity_as_data=parity_as_data)
        else:
            return None
        if at is None:
            return None
        if at >= 0:
            pieces.append(SectorRange(at, length))
        first += length
    return pieces


def raid10_slots(array: Array, sector: int) -> frozenset[int]:
    """Returns the slots that have a copy of a sector of the array."""
    near, far, disks = array.layout & 0xFF, array.layout >> 8 & 0xFF, array.raid_disks
    size = {0: disks, 1: disks // far, 2: far * near}[array.layout >> 17]
    first = sector // (array.chunk // SECTOR) * near
    return frozenset(
        _copies(copy, near, disks, size)[place % disks] for place in range(first, first + near) for copy in range(far)
    )


def map_raid10(array: Array, slot: int, sector: int) -> int | None:
    """Returns the array's sector for a member's; -1 if it holds no data, None if unknown."""
    near, far, offset = array.layout & 0xFF, array.layout >> 8 & 0xFF, array.layout >> 16 & 1
    disks, chunk = array.raid_disks, array.chunk // SECTOR
    if near < 1 or far < 1 or near * far > disks or chunk < 1 or array.layout >> 17 not in (0, 1, 2):
        return None
    if offset and disks % near:
        return None  # copies that wrap around share a row with the next ones
    size = {0: disks, 1: disks // far, 2: far * near}[array.layout >> 17]
    chunks = array.member_sectors // chunk // far * disks // near
    used = -(-chunks * near * far // disks)
    row, within = divmod(sector, chunk)
    copy = 0
    if offset:
        row, copy = divmod(row, far)
    elif far > 1:
        copy, row = divmod(row, max(1, used // far))
    if copy >= far:
        return -1
    places = _copies(copy, near, disks, size)
    if slot not in places:
        return None
    logical = (row * disks + places.index(slot)) // near
    return logical * chunk + within if logical < chunks else -1


@lru_cache(maxsize=1024)
def _copies(copy: int, near: int, disks: int, size: int) -> tuple[int, ...]:
    return tuple(_shifted(disk, copy, near, disks, size) for disk in range(disks))


def _shifted(disk: int, copy: int, near: int, disks: int, size: int) -> int:
    """Returns the disk of a far copy; the original is copy 0."""
    last = (disks // size - 1) * size
    for _ in range(copy):
        start = disk // size * size
        disk += near
        if disks % size and disk > last:  # noqa: SIM108  # a conditional expression would be too long
            # The last set includes the remaining disks, so it is larger.
            disk = (disk - last) % (size + disks % size) + last
        else:
            disk = disk % size + start
    return disk


def map_parity(array: Array, slot: int, sector: int, *, parity_as_data: bool = False) -> int | None:
    """Returns the array's sector for a member's; -1 if it holds parity, None if unknown.

    With `parity_as_data`, parity is mapped to the first data of its stripe.
    """
    chunk = array.chunk // SECTOR
    row, within = divmod(sector, chunk)
    places = data_slots(array.level, array.layout, array.raid_disks, row % array.raid_disks)
    if places is None:
        return None
    if slot not in places and not parity_as_data:
        return -1
    index = places.index(slot) if slot in places else 0
    return (row * len(places) + index) * chunk + within


@lru_cache(maxsize=1024)
def data_slots(level: str, layout: int, disks: int, turn: int) -> tuple[int, ...] | None:
    """Returns the slots of a stripe's data, in order; None for unknown layouts.

    The layout repeats after as many stripes as there are disks; `turn` is the stripe's number.
    """
    parities = PARITIES[level]
    data = disks - parities
    if data < 1:
        return None
    if level == "raid4":
        return tuple(range(data))
    if layout == 4:
        return tuple(range(parities, disks))
    if layout == 5:
        return tuple(range(data))
    if layout not in (0, 1, 2, 3):
        return None
    first = turn if layout in (1, 3) else disks - 1 - turn
    parity_slots = {(first + index) % disks for index in range(parities)}
    if layout in (0, 1):
        return tuple(slot for slot in range(disks) if slot not in parity_slots)
    return tuple((first + parities + index) % disks for index in range(data))
