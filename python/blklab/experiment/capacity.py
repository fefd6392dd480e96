"""The capacity of arrays, volumes and caches, from their members. md's arithmetic is in crates/md.

The space of md's superblock (1 MiB to 128 MiB of each member) is not subtracted: a member's size is
what md may use of it.
"""

from collections.abc import Sequence

from blklab._core import MdMap
from blklab.md.levels import LEVELS, PARITIES
from blklab.units import SECTOR

EXTENT = 4 << 20  # Bytes of a physical extent, LVM's default
FEWEST_BUCKETS = 512  # A bcache needs more buckets than this on its cache device
MAX_MEMBERS = 255  # Most members of an array that are simulated
MAX_PARITY_MEMBERS = 64  # Most members of an array with parity that are simulated


def short(level: str) -> str:
    """Returns a cell's level as mdadm's --level has it: `10` for `raid10`."""
    return level.removeprefix("raid")


def array(level: str, layout: int, chunk: int, members: Sequence[int | None]) -> MdMap | None:
    """Returns the map of an array; members are bytes, None where one is missing. None if no space is left for it.

    `layout` is the word in the superblock; `chunk` is bytes.
    """
    smallest = min((size for size in members if size is not None), default=0)
    try:
        return MdMap(level, layout, chunk // SECTOR, [(size or smallest) // SECTOR for size in members])
    except ValueError:
        return None


def volume(members: Sequence[int], stripes: int) -> int:
    """Returns the bytes of a logical volume over all of some physical volumes.

    Each physical volume loses its header, and the rest is rounded down to whole extents
    (lvm.conf(5), physical_extent_size). Stripes are as long as the shortest one.
    """
    extents = [max(0, size // EXTENT - 1) for size in members]
    return min(extents) * stripes * EXTENT if stripes > 1 else sum(extents) * EXTENT


def redundant_volume(level: str, members: Sequence[int]) -> int:
    """Returns the bytes of a logical volume of `level` over all of some physical volumes.

    Each physical volume loses its header, and an extent for the superblock and the bitmap (lvmraid(7), "SubLVs").
    """
    extents = max(0, min(size // EXTENT - 2 for size in members))
    return extents * data_members(level, len(members)) * EXTENT


def data_members(level: str, members: int) -> int:
    """Returns how many members of a logical volume with redundancy have different data."""
    match level:
        case "raid1":
            return 1
        case "raid10":
            return members // 2
        case "raid5":
            return members - 1
    return members - 2


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
            f"the cache device has {size // bucket} buckets, bcache needs more than {FEWEST_BUCKETS}: "
            "set a smaller bucket or a larger cache"
        )
    return None


def too_many(level: str, members: int) -> str | None:
    """Returns what is wrong if there are too many members, else None."""
    max_members = MAX_PARITY_MEMBERS if level in PARITIES else MAX_MEMBERS
    return f"found {members}, level {short(level)} takes at most {max_members}" if members > max_members else None


def too_few(level: str, members: int, copies: tuple[int, int, bool]) -> str | None:
    """Returns what is wrong if there are too few members, else None."""
    fewest = LEVELS[level]["fewest_members"]
    if members < fewest:
        return f"found {members}, level {short(level)} needs at least {fewest}"
    near, far, _ = copies
    if level == "raid10" and near * far > members:
        return f"found {members} members, {near * far} copies need at least {near * far}"
    return None
