"""The capacity of arrays, from their members: md's own arithmetic.

The space of md's superblock (1 MiB to 128 MiB of each member) is not subtracted: a member's size is
what md may use of it.
"""

from collections.abc import Sequence
from typing import Final

from blklab.units import SECTOR

PARITY: Final = {"raid4": 1, "raid5": 1, "raid6": 2}  # Members' worth of parity
FEWEST: Final = {"linear": 1, "raid0": 1, "raid1": 2, "raid10": 2, "raid4": 2, "raid5": 2, "raid6": 4}
"""Fewest members, by level: mdadm 4.2, Create.c (levels 4 and 5 need two, level 6 four)."""

EXTENT: Final = 4 << 20  # Bytes of a physical extent, LVM's default
FEWEST_BUCKETS: Final = 512  # A bcache needs more buckets than this on its cache device
MOST: Final = 255  # Most members of an array that are simulated
MOST_WITH_PARITY: Final = 64  # Most members of an array with parity that are simulated


def short(level: str) -> str:
    """Returns a cell's level as mdadm's --level has it: `10` for `raid10`."""
    return level.removeprefix("raid")


def array(level: str, members: Sequence[int | None], chunk: int, copies: tuple[int, int, bool]) -> int:
    """Returns the bytes of an array; members are bytes, None where one is missing.

    `copies` is RAID-10's (near, far, offset). Sources: the `*_size` function of each personality,
    drivers/md/raid{0,1,10,5}.c and md-linear.c, Linux 6.1.
    """
    sizes = [size for size in members if size is not None]
    if not sizes:
        return 0
    least = min(sizes)
    match level:
        case "linear":
            return sum(sizes)
        case "raid0":
            return sum(_striped(size, chunk) for size in sizes)
        case "raid1":
            return least
        case "raid10":
            near, far, _ = copies
            return least // chunk // far * len(members) // near * chunk
        case _:
            return least // chunk * chunk * (len(members) - PARITY[level])


def _striped(size: int, chunk: int) -> int:
    """Returns the bytes that RAID-0 uses of a member.

    raid0.c, `create_strip_zones`, rounds down to the chunk. `raid0_size` rounds again with a mask
    meant for powers of two, which loses a little more with other chunks.
    """
    sectors = size // chunk * chunk // SECTOR
    return (sectors & ~(chunk // SECTOR - 1)) * SECTOR


def volume(members: Sequence[int], stripes: int) -> int:
    """Returns the bytes of a logical volume over all of some physical volumes.

    Each physical volume loses its header, and the rest is rounded down to whole extents
    (lvm.conf(5), physical_extent_size). Stripes are as long as the shortest one.
    """
    extents = [max(0, size // EXTENT - 1) for size in members]
    if stripes > 1:
        return min(extents) * stripes * EXTENT
    return sum(extents) * EXTENT


def backing(size: int) -> int:
    """Returns the bytes of a bcache over a backing device.

    Its superblock takes 16 sectors (include/uapi/linux/bcache.h, BDEV_DATA_START_DEFAULT).
    """
    return max(0, size - 16 * SECTOR) // 4096 * 4096


def too_few_buckets(size: int, bucket: int) -> str | None:
    """Returns what is wrong with the number of buckets of a cache device, None if nothing.

    drivers/md/bcache/super.c, `cache_alloc`: 1024 after rounding up to a power of two.
    """
    if size // bucket <= FEWEST_BUCKETS:
        return (
            f"the cache device has {size // bucket} buckets, bcache needs more than "
            f"{FEWEST_BUCKETS}: set a smaller bucket or a larger cache"
        )
    return None


def too_many(level: str, members: int) -> str | None:
    """Returns what is wrong if there are too many members, else None."""
    most = MOST_WITH_PARITY if level in PARITY else MOST
    if members > most:
        return f"found {members}, level {short(level)} takes at most {most}"
    return None


def too_few(level: str, members: int, copies: tuple[int, int, bool]) -> str | None:
    """Returns what is wrong if there are too few members, else None."""
    if members < FEWEST[level]:
        return f"found {members}, level {short(level)} needs at least {FEWEST[level]}"
    near, far, _ = copies
    if level == "raid10" and near * far > members:
        return f"found {members} members, {near * far} copies need at least {near * far}"
    return None


def can_run(level: str, present: Sequence[bool], copies: tuple[int, int, bool]) -> bool:
    """Tells whether every block can be read from the members that are present and in sync."""
    absent = len(present) - sum(present)
    match level:
        case "linear" | "raid0":
            return not absent
        case "raid1":
            return any(present)
        case "raid10":
            # drivers/md/raid10.c, `_enough`: every run of as many neighbours as there are copies.
            near, far, _ = copies
            first = 0
            while True:
                members_of_stripe = (present[(first + step) % len(present)] for step in range(near * far))
                if not any(members_of_stripe):
                    return False
                first = (first + near) % len(present)
                if not first:
                    return True
        case _:
            return absent <= PARITY[level]
