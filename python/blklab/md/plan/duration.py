"""How long md takes for a change: from the sectors that its speed limits count, the limits, and the disks.

drivers/md/md.c, `md_do_sync` (Linux 6.1): a pass never exceeds sync_speed_max; while there is other I/O, md sleeps
until it is down to sync_speed_min. The limits count sectors of a member; of a resync or reshape of RAID-10, sectors of
the array.
"""

from collections.abc import Sequence

from blklab.md.levels import PARITIES
from blklab.md.model import Array
from blklab.md.plan.change import Conditions, DurationEstimate, MemberRates, Work
from blklab.units import SECTOR

COPYING = (1.0, 0.9, 0.7)
"""Share of a disk's rate that a recovery or resync reaches, at best, usually and at worst: it reads or writes in order.

An estimate for idle disks, which no measurement here judges; as for the reshapes."""

RESHAPE_ROTATING = (0.9, 0.5, 0.2)
"""The same for a reshape on rotating disks, which moves the heads between the places to read and to write."""

RESHAPE_FLASH = (1.0, 0.8, 0.4)
"""The same for a reshape on flash."""

MINIMUM_WITH_BACKUP = 200_000
"""KiB/s: to what mdadm sets sync_speed_min while it writes a backup file for an array of the same size (mdadm 4.2,
Grow.c, `child_monitor`)."""

LIMITS_LEFT_ALONE_IN = (4, 4)
"""The first mdadm that does not do this (commit f79f7189)."""


def raises_minimum(backup_file: str, conditions: Conditions) -> bool:
    """Whether mdadm raises sync_speed_min during a reshape with this backup file."""
    software = conditions.software
    return bool(backup_file and software and software.mdadm and software.mdadm < LIMITS_LEFT_ALONE_IN)


def copies_of(array: Array) -> int:
    """Returns how many copies of each sector a mirror has, 1 for other levels."""
    if array.level == "raid1":
        return array.raid_disks
    if array.level == "raid10":
        return max(1, (array.layout & 0xFF) * (array.layout >> 8 & 0xFF))
    return 1


def size_of_array(level: str, disks: int, copies: int, member_sectors: int) -> int:
    """Returns the bytes of an array that uses these sectors of each member; chunks are not rounded."""
    if level == "raid1":
        return member_sectors * SECTOR
    if level == "raid10":
        return member_sectors * disks // copies * SECTOR
    return member_sectors * (disks - PARITIES.get(level, 0)) * SECTOR


def plan_recovery(array: Array, sectors: int, disks: int = 1) -> Work:
    """Returns the pass that writes new disks completely from the others; `sectors` of a member."""
    sources = 1
    if array.level in PARITIES:
        sources = array.raid_disks - PARITIES[array.level]
    return Work("recovery", sectors, sources * sectors, disks * sectors, sectors)


def plan_replacement_copy(sectors: int) -> Work:
    """Returns the pass that copies one member onto another."""
    return Work("recovery", sectors, sectors, sectors, sectors)


def plan_resync(array: Array, member_sectors: int) -> Work:
    """Returns the pass that makes a new part of members agree; `member_sectors` is its length on each member.

    md reads all copies or data, and writes what differs: at most one copy or the parity of each stripe.
    """
    count = array.raid_disks
    if array.level == "raid10":
        copies = copies_of(array)
        counted = member_sectors * count // copies
        return Work("resync", counted, member_sectors * count, 0, member_sectors)
    return Work("resync", member_sectors, member_sectors * count, 0, member_sectors)


def plan_restripe(
    member_sectors: int, old_data: int, new_data: int, disks: int, *, raises_minimum: bool = False
) -> Work:
    """Returns the reshape of an array with parity; `old_data` and `new_data` are data disks, `disks` the larger number.

    Each stripe of the new array is written completely. Its data are read from the old one, as far as it reaches.
    """
    read = min(member_sectors * old_data, member_sectors * new_data)
    read_of_member = read // max(1, old_data)
    minimum = MINIMUM_WITH_BACKUP if raises_minimum and old_data == new_data else 0
    return Work("reshape", member_sectors, read, member_sectors * disks, member_sectors + read_of_member, minimum)


def plan_raid10_reshape(array: Array, array_sectors: int, new_disks: int) -> Work:
    """Returns the reshape of a RAID-10; `array_sectors` is the size that md goes through."""
    copies = copies_of(array)
    written = array_sectors * copies
    busiest = array_sectors // array.raid_disks + written // max(1, new_disks)
    return Work("reshape", array_sectors, array_sectors, written, busiest)


def estimate_duration(passes: Sequence[Work], conditions: Conditions) -> DurationEstimate | None:
    """Returns how long passes take one after the other; None without a pass, or if the length of one is not known."""
    if not passes or any(work.sectors <= 0 for work in passes):
        return None
    limits = conditions.limits
    at_maximum = at_minimum = 0.0
    for work in passes:
        at_maximum += work.sectors / 2 / max(limits.minimum, limits.maximum, work.minimum)
        at_minimum += work.sectors / 2 / max(limits.minimum, work.minimum)
    at_minimum = max(at_maximum, at_minimum)
    basis = []
    values = f"{limits.minimum:,} and {limits.maximum:,} KiB/s"
    source = "" if limits.are_known else ", the kernel's defaults"
    basis.append(f"sync_speed_min and sync_speed_max: {values}{source}")
    if conditions.rates is None:
        basis.append("the speed of the disks is not known: --rate gives it")
        fastest = _add_load(at_maximum, at_minimum, conditions.load)
        return DurationEstimate(at_maximum, at_minimum, fastest, None, None, tuple(basis))
    seconds = [0.0, 0.0, 0.0]
    for work in passes:
        at_limit = work.sectors / 2 / max(limits.minimum, limits.maximum, work.minimum)
        for index, disk_seconds in enumerate(_seconds_of_disk(work, conditions.rates)):
            seconds[index] += max(at_limit, disk_seconds)
    basis.append(f"the slowest disk: {conditions.rates.source}")
    if any(work.action == "reshape" for work in passes):
        basis.append("how much of this a reshape reaches is an estimate, which no measurement has judged")
    fastest, likely, slowest = (_add_load(value, max(value, at_minimum), conditions.load) for value in seconds)
    return DurationEstimate(at_maximum, max(slowest, at_minimum), fastest, likely, slowest, tuple(basis))


def _seconds_of_disk(work: Work, rates: MemberRates) -> tuple[float, float, float]:
    """Returns how long the busiest disk takes at best, usually and at worst."""
    shares = COPYING
    if work.action == "reshape":
        shares = RESHAPE_ROTATING if rates.rotates else RESHAPE_FLASH
    size = work.busiest_sectors * SECTOR
    mean = (rates.slowest + rates.fastest) / 2
    return size / (rates.fastest * shares[0]), size / (mean * shares[1]), size / (rates.slowest * shares[2])


def _add_load(seconds: float, at_minimum: float, load: float | None) -> float:
    """Returns the seconds if there is other I/O for a share of the time, in which md goes at its minimum."""
    if not load:
        return seconds
    speed = (1 - load) / seconds + load / at_minimum
    return 1 / speed
