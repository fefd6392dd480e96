"""The data of the stripes that the last check found to differ."""

from blklab.md.levels import PARITIES
from blklab.md.model import Array, merge_ranges
from blklab.md.superblocks import SectorRange


def find_mismatched_sectors(array: Array) -> tuple[SectorRange, ...]:
    """Returns the array's sectors in the stripes of `mismatch_ranges`; empty if they are unknown."""
    if array.level not in PARITIES or array.reshaping:
        return ()
    ranges: list[SectorRange] = []
    for sectors in array.mismatch_ranges:
        for slot in range(array.raid_disks if array.sector_map else 0):
            ranges += array.map_pieces(slot, sectors) or ()
    return merge_ranges(tuple(ranges))
