"""Decides whether an array can run with the members that are there and current, and which members it needs.

It is about arrays that run, that are assembled and do not run, and that are read from images. md accepts a member that
is one event behind (drivers/md/md.c, `super_1_validate`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from blklab.md.good_copies import is_current
from blklab.md.levels import PARITIES
from blklab.md.model import MAX_DISKS, Array, ArrayMember

NEED_ALL = frozenset({"raid0", "linear"})


@dataclass(frozen=True)
class Availability:
    """Which slots of an array have a usable member, and whether they are enough."""

    can_run: bool | None  # None if unknown: members could not be read, or the level is unknown
    current: tuple[ArrayMember, ...]  # Members that hold all data, one for each slot
    stale: tuple[ArrayMember, ...]  # Members with a slot that are behind, refused, or rebuilt only in part
    vacant: tuple[int, ...]  # Slots without any member in the array

    @property
    def newest(self) -> int:
        """The largest event count of the current members."""
        return max((member.superblock.events for member in self.current if member.superblock), default=0)

    @property
    def missing(self) -> tuple[int, ...]:
        """Slots without a current member."""
        behind = {member.slot for member in self.stale if member.slot is not None}
        return tuple(sorted({*self.vacant, *behind} - {member.slot for member in self.current}))


def find_availability(array: Array) -> Availability:
    """Returns which members of an array are usable, and whether it can run with them.

    A member whose image was not given counts as current. Members outside of the array do not count.
    """
    current: dict[int, ArrayMember] = {}
    for member in array.distinct:
        if member.slot is not None and member.slot < array.raid_disks and is_current(array, member):
            current.setdefault(member.slot, member)
    members = [member for member in array.distinct if member.slot is not None]
    stale = tuple(member for member in members if member.slot not in current and _has_role(member))
    member_slots = {*current, *array.absent, *(member.slot for member in stale)}
    slots = range(array.raid_disks) if 0 < array.raid_disks <= MAX_DISKS else range(0)
    vacant = tuple(slot for slot in slots if slot not in member_slots)
    return Availability(
        _decide(array, {*current, *array.absent}), tuple(current[slot] for slot in sorted(current)), stale, vacant
    )


def _decide(array: Array, slots: Collection[int]) -> bool | None:
    """Whether an array can run with these slots; None if too little of its superblocks could be read."""
    if not array.live and not any(member.superblock and member.superblock.accepted for member in array.members):
        return None
    has_unknown_slots = any(member.slot is None and "in_sync" in member.states for member in array.members)
    if has_unknown_slots or (array.live and not array.members):
        return _decide_by_count(array)
    can_run = runs_with(array, slots)
    unread = any(member.unseen and member.superblock is None for member in array.members)
    return None if array.state == "inactive" and unread and not can_run else can_run


def _decide_by_count(array: Array) -> bool | None:
    """Whether an array runs whose slots are not known, as in /proc/mdstat; None if that depends on the slots."""
    max_failures = count_tolerated(array)
    if max_failures is None or array.degraded is None:
        return None
    if array.degraded <= max_failures:
        return True
    return None if array.level == "raid10" else False


def runs_with(array: Array, slots: Collection[int]) -> bool | None:
    """Whether an array can run with the members of these slots only; None if unknown."""
    if not 0 < array.raid_disks <= MAX_DISKS:
        return None
    missing = sorted(set(range(array.raid_disks)) - set(slots))
    if not missing:
        return True
    if array.level in NEED_ALL:
        return False
    if array.level in {"raid1", "multipath"}:
        return len(missing) < array.raid_disks
    if array.level in PARITIES:
        return len(missing) <= PARITIES[array.level]
    if array.level == "raid10" and (sector_map := array.sector_map):
        return sector_map.runs_without(missing)
    return False if len(missing) == array.raid_disks else None


def count_tolerated(array: Array) -> int | None:
    """Returns how many members can fail, whichever they are; of RAID-10 one copy remains. None if unknown."""
    if array.level in NEED_ALL:
        return 0
    if array.level == "raid1":
        return array.raid_disks - 1
    if array.level == "raid10":
        return max(1, (array.layout & 0xFF) * (array.layout >> 8 & 0xFF) - 1)
    return PARITIES.get(array.level)


def is_past_redundancy(array: Array) -> bool:
    """Whether md refuses writes to an array that runs, or would if its kernel knew `broken` (Linux 5.19)."""
    if array.state == "broken":
        return True
    runs = array.live and array.state not in {"", "inactive", "clear"} and not array.reshaping
    return runs and array.redundant and bool(array.degraded) and find_availability(array).can_run is False


def choose_members_to_force(array: Array) -> tuple[ArrayMember, ...]:
    """Returns the freshest members with which an array could run, those outside of it included; empty if none suffice.

    `mdadm --assemble --force` takes members that are behind, until it has enough. A member that is refused, or was
    rebuilt only in part, is none of them.
    """
    availability = find_availability(array)
    members_by_slot = {member.slot: member for member in availability.current if member.slot is not None}
    candidates = [member for member in (*availability.stale, *array.outside) if is_whole(member)]
    candidates.sort(key=lambda member: -member.superblock.events if member.superblock else 0)
    for member in candidates:
        if runs_with(array, {*members_by_slot, *array.absent}):
            break
        slot = member.superblock.slot if member.superblock else None
        if slot is not None:
            members_by_slot.setdefault(slot, member)
    if not runs_with(array, {*members_by_slot, *array.absent}):
        return ()
    return tuple(members_by_slot[slot] for slot in sorted(members_by_slot))


def _has_role(member: ArrayMember) -> bool:
    """Whether a member was an active one; a superblock that could not be read leaves this open."""
    return member.superblock is None or member.superblock.slot is not None


def is_whole(member: ArrayMember) -> bool:
    """Whether a member had all data once: it was not rebuilt only in part."""
    superblock = member.superblock
    if superblock is None or superblock.slot is None or not superblock.accepted or superblock.replacement:
        return False
    recovering = "spare" in member.states and member.slot is not None
    return superblock.recovery_offset is None and not recovering
