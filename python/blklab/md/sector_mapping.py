"""From a sector of a member to the array's: the kernel's maps, inverted.

Sources: drivers/md/raid10.c (`__raid10_find_phys`, `calc_sectors`, `setup_geo`), raid5.c
(`raid5_compute_sector`), Linux 6.1. Sectors are 512 bytes and, here, without the data offset.
"""

from functools import lru_cache
from typing import Final

from blklab.md.model import PARITIES, Array, ArrayMember, merged
from blklab.md.superblocks import SECTOR, SectorRange

MOST_PIECES: Final = 1024
"""Chunks that one range may have and still be told one by one."""

MOST_DISKS: Final = 1024
"""Members beyond which a superblock is damaged rather than large."""


def array_ranges(
    array: Array, member: ArrayMember, range_: SectorRange
) -> tuple[SectorRange, ...] | None:
    """Returns the array's sectors that lie in a range of a member, its data offset included.

    Parity and what is not data give nothing: an empty tuple. None means that it cannot be told: of
    levels whose map is not known here, while an array is reshaped, or without a slot.
    """
    slot, offset = member.slot, member.data_offset
    if slot is None or offset is None or array.reshaping or array.member_sectors <= 0:
        return None
    first = max(0, range_.sector - offset)
    last = min(range_.end - offset, array.member_sectors)
    if first >= last:
        return ()
    if array.level == "raid1":
        return (SectorRange(first, last - first),)
    chunk, disks = array.chunk // SECTOR, array.raid_disks
    if chunk <= 0 or not slot < disks <= MOST_DISKS or (last - first) // chunk > MOST_PIECES:
        return None
    pieces = []
    while first < last:
        many = min(chunk - first % chunk, last - first)
        if array.level == "raid10":
            at = raid10(array, slot, first)
        elif array.level in PARITIES:
            at = parity(array, slot, first)
        else:
            return None
        if at is None:
            return None
        if at >= 0:
            pieces.append(SectorRange(at, many))
        first += many
    return merged(tuple(pieces))


def raid10(array: Array, slot: int, sector: int) -> int | None:
    """Returns the array's sector of a member's; -1 if no data are there, None if it is not
    known.
    """
    near, far, offset = array.layout & 0xFF, array.layout >> 8 & 0xFF, array.layout >> 16 & 1
    disks, chunk = array.raid_disks, array.chunk // SECTOR
    if (
        near < 1
        or far < 1
        or near * far > disks
        or chunk < 1
        or array.layout >> 17 not in (0, 1, 2)
    ):
        return None
    if offset and disks % near:
        return None  # copies that wrap meet the next row's
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
    """Returns the disk of a far copy; 0 is the first."""
    last = (disks // size - 1) * size
    for _ in range(copy):
        start = disk // size * size
        disk += near
        if disks % size and disk > last:
            # The last set takes what is left: it is larger.
            disk = (disk - last) % (size + disks % size) + last
        else:
            disk = disk % size + start
    return disk


def parity(array: Array, slot: int, sector: int) -> int | None:
    """Returns the array's sector of a member's; -1 if it is parity, None if it is not known."""
    chunk = array.chunk // SECTOR
    row, within = divmod(sector, chunk)
    places = stripe(array.level, array.layout, array.raid_disks, row % array.raid_disks)
    if places is None:
        return None
    if slot not in places:
        return -1
    return (row * len(places) + places.index(slot)) * chunk + within


@lru_cache(maxsize=1024)
def stripe(level: str, layout: int, disks: int, turn: int) -> tuple[int, ...] | None:
    """Returns the slots of a stripe's data, in order; None for layouts that are not known here.

    Parity is in the same place again after as many stripes as there are disks: `turn` is which.
    """
    lost = PARITIES[level]
    data = disks - lost
    if data < 1:
        return None
    if level == "raid4":
        return tuple(range(data))
    if layout == 4:
        return tuple(range(lost, disks))
    if layout == 5:
        return tuple(range(data))
    if layout not in (0, 1, 2, 3):
        return None
    first = turn if layout in (1, 3) else disks - 1 - turn
    taken = {(first + more) % disks for more in range(lost)}
    if layout in (0, 1):
        return tuple(slot for slot in range(disks) if slot not in taken)
    return tuple((first + lost + place) % disks for place in range(data))
