"""Says why an array does not start, and whether its data are still there, from the superblocks of its members.

Superblocks are compared with each other: "State: clean" in one of them proves nothing. What md accepts is in
drivers/md/md.c (`super_1_validate`, one event behind) and drivers/md/raid5.c (`raid5_run`, parity and no clean
shutdown).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from blklab.md import command_lines
from blklab.md.audit.containers import describe_format
from blklab.md.audit.reshape import describe_change
from blklab.md.audit.rule import level_text, list_names, moment_text
from blklab.md.audit.running import FEW_EVENTS, FEW_SECONDS, describe_covered
from blklab.md.audit.split import Split, find_splits
from blklab.md.availability import (
    NEED_ALL,
    choose_members_to_force,
    count_tolerated,
    find_availability,
    is_past_redundancy,
    runs_with,
)
from blklab.md.good_copies import find_lost_ranges
from blklab.md.images import make_array
from blklab.md.levels import PARITIES
from blklab.md.model import MAX_DISKS, NOT_IN_TEXT, Array, ArrayMember, Inventory
from blklab.md.superblocks import Superblock
from blklab.units import format_duration, format_size

Condition = Literal[
    "running",  # It runs
    "broken",  # It is assembled, and more members failed than it survives
    "sound",  # All members are there and current
    "degraded",  # It can start without some members, which left before
    "incomplete",  # Its members here agree, but one that is not here may be newer
    "unclear",  # Its members here are enough, but something else speaks against a start
    "new",  # Its members here are enough, but it was made a short time ago: perhaps over an older array
    "overwritten",  # It was made over an older array: the filesystem on it is older than its superblocks
    "shrunk",  # Its members here are enough, but it is smaller than the filesystem on it
    "unclean",  # Its members are current and too few for md, because it was not shut down
    "behind",  # Members that are a little behind make it complete, and it did not run without them
    "stale",  # Members that are far behind, or without which it ran, make it complete
    "not-enough",  # All known members together are too few
    "diverged",  # Two parts of it were written to apart from each other
    "reshaping",  # A reshape is not finished
    "refused",  # The kernel refuses its superblocks
    "foreign",  # Metadata of other software
    "unknown",  # Too little of its superblocks could be read
]

FEW_EVENTS_EVER = 64
"""With so few events, an array was made a short time ago: each change between clean and active counts two.

Levels without redundancy hardly count: of them, this says nothing.
"""

FEW_SECONDS_EVER = 30 * 24 * 3600
"""An array that was written to for longer than a month since it was made is not new, however few its events."""

OLDEST = 946_684_800
LATEST = 4_102_444_800
"""Seconds since 1970: a superblock that was written before 2000 or after 2100 has a wrong date."""


@dataclass(frozen=True)
class ContentFacts:
    """What the filesystem on an array says."""

    kind: str  # `ext` (2 to 4) or `xfs`
    made: int | None  # When it was made, seconds since 1970; None if it does not say it
    size: int | None  # Bytes; None if it makes no sense


@dataclass(frozen=True)
class EventGroup:
    """Members with the same event count: they were written to together for the last time."""

    events: int
    updated: int  # When the newest superblock of them was written, seconds since 1970
    members: tuple[ArrayMember, ...]


@dataclass(frozen=True)
class ArrayRescue:
    """What is known about an array that may not start."""

    array: Array
    condition: Condition
    headline: str  # The answer: whether the array itself is sound, in one or two sentences
    facts: tuple[str, ...]  # Its reasons, one sentence each
    groups: tuple[EventGroup, ...]  # The newest first
    chosen: tuple[ArrayMember, ...]  # Members with which it could run, the freshest; empty if none suffice
    steps: tuple[str, ...]  # What to do, in order; lines that begin with # are not commands
    forbidden: tuple[str, ...]  # What not to type, and why

    def as_dict(self) -> dict[str, Any]:
        """Returns its part of the JSON document: docs/reference/formats.md, `md rescue`."""
        return {
            "array": self.array.as_dict(),
            "condition": self.condition,
            "headline": self.headline,
            "facts": list(self.facts),
            "groups": [
                {
                    "events": group.events,
                    "updated_unix": group.updated,
                    "members": [member.path for member in group.members],
                }
                for group in self.groups
            ],
            "chosen": [member.path for member in self.chosen],
            "steps": list(self.steps),
            "forbidden": list(self.forbidden),
        }


def diagnose(inventory: Inventory, contents: Mapping[str, ContentFacts] | None = None) -> list[ArrayRescue]:
    """Returns the diagnosis of every array of an inventory: those that do not run first.

    `contents` has what the filesystem on an array says, by the array's name.
    """
    contents = contents or {}
    arrays = tuple(
        describe_by_superblocks(array) if is_stopped(array) else array
        for array in (*inventory.unassembled, *inventory.arrays)
        if not array.volumes  # Of a container, its volumes say all
    )
    splits = [
        split
        for split in find_splits(replace(inventory, arrays=arrays, unassembled=()))
        if split.is_diverged and _could_run_apart(split, arrays)
    ]
    conditions: list[Condition] = []
    for array in arrays:
        is_diverged = any(array.name in split.arrays for split in splits)
        conditions.append("diverged" if is_diverged else decide_condition(array, contents.get(array.name)))
    # `mdadm --assemble --scan` starts all arrays: it is printed only if all may be started.
    may_scan = all(condition in {"running", "sound", "degraded"} for condition in conditions)
    rescues = []
    for array, condition in zip(arrays, conditions, strict=True):
        own_splits = [split for split in splits if array.name in split.arrays]
        rescue = _explain(array, condition, inventory, own_splits, may_scan=may_scan)
        if array.name in contents:
            rescue = replace(rescue, facts=(*rescue.facts, *describe_content(array, contents[array.name])))
        rescues.append(rescue)
    return sorted(rescues, key=lambda rescue: rescue.condition == "running")


def is_stopped(array: Array) -> bool:
    """Whether an array does not run: it is not assembled, or it is assembled and was not started."""
    return not array.live or array.state in {"inactive", "clear", ""}


def describe_by_superblocks(array: Array) -> Array:
    """Returns an array that does not run with all members that are known, and only what their superblocks say.

    The states in sysfs are those before md has compared the superblocks. A member that is not here does not count. The
    newest superblock has the geometry, also if md has assembled an older one.
    """
    members = []
    for member in list_all_members(array):
        slot = member.superblock.slot if member.superblock else None
        members.append(replace(member, states=(), slot=slot))
    if array.external or not any(member.superblock for member in members):
        return replace(array, members=tuple(members), outside=(), absent=())
    superblock_array = make_array([member for member in members if member.superblock])
    return replace(
        array,
        members=tuple(members),
        outside=(),
        absent=(),
        state="inactive" if array.live else array.state,
        level=superblock_array.level,
        layout=superblock_array.layout,
        chunk=superblock_array.chunk,
        raid_disks=superblock_array.raid_disks,
        member_sectors=superblock_array.member_sectors,
        size=superblock_array.size if superblock_array.size is not None else array.size,
        reshaping=superblock_array.reshaping,
    )


def _could_run_apart(split: Split, arrays: Sequence[Array]) -> bool:
    """Whether the older part could run without the newer one: otherwise its members only failed one after another."""
    older = min((split.first, split.second), key=lambda half: (half.events, half.updated))
    slots = {member.superblock.slot for member in older.members if member.superblock}
    split_arrays = [array for array in arrays if array.name in split.arrays]
    if any(not is_stopped(array) for array in split_arrays):
        return True
    return any(runs_with(array, {slot for slot in slots if slot is not None}) for array in split_arrays)


def decide_condition(array: Array, content: ContentFacts | None = None) -> Condition:
    """Returns what keeps an array from starting; two parts that diverged are not looked for.

    `content` is what the filesystem on it says; None if unknown.
    """
    if not is_stopped(array):
        return "broken" if has_failed(array) else "running"
    if array.external:
        return "foreign"
    newest = find_newest(array)
    superblocks = [member.superblock for member in array.members if member.superblock]
    has_unseen = any(member.unseen == NOT_IN_TEXT for member in array.members)
    if newest is None:
        if any(not superblock.accepted for superblock in superblocks):
            return "refused"
        # Only spares and journals: superblocks of members may have been written again as those of spares.
        return "unknown" if has_unseen or not superblocks else "not-enough"
    if array.reshaping:
        return "reshaping"
    current = find_current(array)
    can_run = runs_with(array, {member.slot for member in current if member.slot is not None})
    if can_run is None:
        return "unknown"
    if can_run:
        return _decide_start(array, current, newest, content)
    if has_unseen:
        return "unknown"
    members = choose_members(array)
    if not members:
        return "not-enough"
    events, seconds = measure_gap(array, members)
    if ran_without(array, members) or events > FEW_EVENTS:
        return "stale"
    # With parity, all writes fail once too many members are gone (raid5.c, handle_failed_stripe): nothing is newer on
    # the others, however late their superblocks were written. Other levels go on where enough members are left.
    return "stale" if seconds > FEW_SECONDS and array.level not in PARITIES else "behind"


def _decide_start(
    array: Array, current: Sequence[ArrayMember], newest: Superblock, content: ContentFacts | None
) -> Condition:
    """Returns the condition of an array whose current members are enough to run."""
    if is_new(array, newest):
        if content is None or content.made is None:
            return "new"
        if _is_plausible(newest.created) and content.made < newest.created:
            return "overwritten"
    if content is not None and is_too_small(array, content):
        return "shrunk"
    if find_obstacles(array, current):
        return "unclear"
    if len(current) == array.raid_disks:
        return "sound"
    if find_perhaps_newer(array, newest):
        return "incomplete"
    # md does not start parity without all members if the array was not shut down (raid5_run).
    return "unclean" if array.level in PARITIES and newest.resync_offset is not None else "degraded"


def is_new(array: Array, newest: Superblock) -> bool:
    """Whether an array was made a short time before it was written to for the last time.

    By its events, and by its dates: of members that were away for years, both are small.
    """
    if array.level in NEED_ALL or newest.events > FEW_EVENTS_EVER:
        return False
    if not _is_plausible(newest.created) or not _is_plausible(newest.updated):
        return True
    return newest.updated - newest.created < FEW_SECONDS_EVER


def is_too_small(array: Array, content: ContentFacts) -> bool:
    """Whether an array is smaller than the filesystem on it: then it is not as it was."""
    return array.size is not None and content.size is not None and content.size > array.size


def describe_content(array: Array, content: ContentFacts) -> Iterator[str]:
    """Yields what the age and the size of the filesystem say about the array."""
    if is_too_small(array, content):
        yield (
            f"The {content.kind} filesystem on it has {format_size(content.size or 0)}, and the array only "
            f"{format_size(array.size or 0)}: the array had another geometry or larger members."
        )
    newest = find_newest(array)
    creation_time = content.made
    if newest is None or creation_time is None or not _is_plausible(newest.created) or not _is_plausible(creation_time):
        return
    array_date = moment_text(newest.created)
    content_date = moment_text(creation_time)
    if creation_time < newest.created:
        yield (
            f"The superblocks were made at {array_date}, and the filesystem on them earlier, at {content_date}: "
            "the array was made over existing data."
        )
    elif is_new(array, newest):
        yield f"The array was made at {array_date}, and the filesystem on it after that, at {content_date}."


def list_all_members(array: Array) -> tuple[ArrayMember, ...]:
    """Returns all members of an array, those outside of it included."""
    return (*array.members, *array.outside)


def has_failed(array: Array) -> bool:
    """Whether more members of an array that runs failed than it survives."""
    if array.level in NEED_ALL:
        in_sync = {
            member.slot for member in array.members if "in_sync" in member.states and "faulty" not in member.states
        }
        return len(in_sync) < array.raid_disks
    return is_past_redundancy(array)


def find_newest(array: Array) -> Superblock | None:
    """Returns the accepted superblock of an active member with the most events; None if there is none.

    Of those written in the same second, the one that counts fewer members as active was written later.
    """
    superblocks = [member.superblock for member in list_all_members(array) if _is_active(member)]
    return max(
        (superblock for superblock in superblocks if superblock),
        key=lambda superblock: (superblock.events, superblock.updated, -sum(superblock.present)),
        default=None,
    )


def find_current(array: Array) -> tuple[ArrayMember, ...]:
    """Returns the members that hold all data: as current as the newest one, and not missing in its view."""
    newest = find_newest(array)
    return tuple(
        member
        for member in find_availability(array).current
        if newest is not None
        and member.superblock is not None
        and (member.superblock is newest or (_sees(newest, member.superblock) and _sees(member.superblock, newest)))
    )


def find_expelled(array: Array) -> tuple[ArrayMember, ...]:
    """Returns members with the newest events, or one less, that newer superblocks call failed.

    Before Linux 6.8, md took them as current (md.c, `super_1_validate`): commit dc1cc22ed58f lets the newest superblock
    decide. Older kernels may have it too.
    """
    newest = find_newest(array)
    return tuple(
        member
        for member in find_availability(array).current
        if newest and member.superblock and member.superblock is not newest and not _sees(newest, member.superblock)
    )


def choose_members(array: Array) -> tuple[ArrayMember, ...]:
    """Returns the freshest members with which an array could run; empty if none suffice.

    The events of members that newer superblocks call failed may say too much: such members are chosen only if nothing
    that was written later suffices.
    """
    freshest = choose_members_to_force(array)
    expelled_members = find_expelled(array)
    if not freshest or not expelled_members:
        return freshest
    candidates = tuple(member for member in array.members if member not in expelled_members)
    without_expelled = choose_members_to_force(replace(array, members=candidates))
    if not without_expelled:
        return freshest
    events, seconds = measure_gap(array, freshest)
    other_events, other_seconds = measure_gap(array, without_expelled)
    return without_expelled if (other_seconds, other_events) < (seconds, events) else freshest


def find_journals(array: Array) -> tuple[ArrayMember, ...]:
    """Returns the write journals that are as current as the newest member: the array does not start without them."""
    newest = find_newest(array)
    journals = []
    for member in list_all_members(array):
        superblock = member.superblock
        is_journal = superblock is not None and superblock.role == "journal"
        if superblock and is_journal and newest and superblock.events >= newest.events - 1:
            journals.append(member)
    return tuple(journals)


def _sees(superblock: Superblock, other: Superblock) -> bool:
    """Whether a superblock says that the slot of another one has an active member."""
    slot = other.slot
    return slot is None or slot >= len(superblock.present) or superblock.present[slot]


def find_perhaps_newer(array: Array, newest: Superblock) -> tuple[int, ...]:
    """Returns slots without any known member that were active for the newest superblock: their disks may be newer."""
    here = {member.superblock.slot for member in list_all_members(array) if member.superblock}
    return tuple(slot for slot, is_present in enumerate(newest.present) if is_present and slot not in here)


def find_obstacles(array: Array, current: Sequence[ArrayMember]) -> list[str]:
    """Returns what speaks against starting an array although its current members are enough, one sentence each."""
    obstacles = []
    if used_members := [member for member in array.members if member.users and _is_active(member)]:
        names = list_names([f"{member.name} ({member.users[0]})" for member in used_members])
        obstacles.append(
            f"Members are used without md: {names}. "
            "If something wrote to them, the copies differ, and md does not know."
        )
    newest = find_newest(array)
    by_slot: dict[int, list[str]] = {}
    for member in array.members:
        if not _is_active(member) or newest is None or member.superblock is None:
            continue
        is_fresh = member.superblock.events >= newest.events - 1  # One that was replaced is older
        if is_fresh and not member.superblock.replacement:
            by_slot.setdefault(member.superblock.slot or 0, []).append(member.name)
    for slot, names_of_slot in sorted(by_slot.items()):
        if len(names_of_slot) > 1:
            obstacles.append(
                f"{list_names(names_of_slot)} have the same slot, {slot}: one is a copy, or was replaced. "
                "Disconnect the one that has read errors or is the copy."
            )
    dates = [member.superblock.updated for member in current if member.superblock]
    if all(map(_is_plausible, dates)) and max(dates) - min(dates) > FEW_SECONDS:
        obstacles.append(
            "The current members have the same events, but were written "
            f"{format_duration((max(dates) - min(dates)) * 1e9)} apart: one of them may be a copy."
        )
    if array.members and all(member.logical_volume for member in array.members):
        obstacles.append("All its members are logical volumes: it may be the array of a virtual machine.")
    has_journal = any(member.superblock and member.superblock.role == "journal" for member in array.members)
    if has_journal and not find_journals(array):
        obstacles.append("Its write journal is behind: it lacks the newest data.")
    if newest and newest.journal and not has_journal:
        obstacles.append(
            "Its write journal is missing: the newest data may be only there. Connect the disk of the journal. "
            "mdadm refuses to assemble the array without it."
        )
    return obstacles


def ran_without(array: Array, members: Sequence[ArrayMember]) -> bool:
    """Whether an array could still be written to after the oldest of the chosen members left: then its data are old.

    The oldest by its events, and by its date: a member that left long ago can have as many events as the newest one
    (docs/explanation/rescue.md has such an array).
    """
    current = find_current(array)
    behind = [member.superblock for member in members if member.superblock and member not in current]
    if not behind:
        return False
    superblocks = [member.superblock for member in list_all_members(array) if member.superblock]
    by_events = min(behind, key=lambda superblock: superblock.events)
    if _could_run_after(array, by_events, [other for other in superblocks if other.events <= by_events.events]):
        return True
    if not all(_is_plausible(superblock.updated) for superblock in superblocks):
        return False
    by_date = min(behind, key=lambda superblock: superblock.updated)
    return _could_run_after(array, by_date, [other for other in superblocks if other.updated <= by_date.updated])


def _could_run_after(array: Array, last_superblock: Superblock, absent_superblocks: Sequence[Superblock]) -> bool:
    """Whether the members that a superblock still saw could run the array without those that are gone."""
    absent_slots = {superblock.slot for superblock in absent_superblocks}
    slots = {slot for slot, is_present in enumerate(last_superblock.present) if is_present and slot not in absent_slots}
    return bool(runs_with(array, slots))


def measure_gap(array: Array, members: Sequence[ArrayMember]) -> tuple[int, int]:
    """Returns how far the oldest of the chosen members is behind the newest superblock: events, and seconds.

    Seconds are 0 if a date is damaged: a clock without a battery begins in 1970.
    """
    newest = find_newest(array)
    behind = [member.superblock for member in members if member.superblock]
    if newest is None or not behind:
        return 0, 0
    events = newest.events - min(superblock.events for superblock in behind)
    dates = [newest.updated, *(superblock.updated for superblock in behind)]
    seconds = max(dates) - min(dates) if all(map(_is_plausible, dates)) else 0
    return events, seconds


def _is_plausible(moment: int) -> bool:
    return OLDEST <= moment <= LATEST


def group_by_events(array: Array) -> tuple[EventGroup, ...]:
    """Returns the members of an array in groups of equal events, the newest first."""
    groups: dict[int, list[ArrayMember]] = {}
    for member in list_all_members(array):
        if member.superblock:
            groups.setdefault(member.superblock.events, []).append(member)
    return tuple(
        EventGroup(events, max(member.superblock.updated for member in members if member.superblock), tuple(members))
        for events, members in sorted(groups.items(), reverse=True)
    )


def _is_spare(member: ArrayMember) -> bool:
    return member.superblock is not None and member.superblock.role == "spare"


def _is_active(member: ArrayMember) -> bool:
    superblock = member.superblock
    return superblock is not None and superblock.accepted and superblock.slot is not None


def _explain(
    array: Array, condition: Condition, inventory: Inventory, splits: Sequence[Split], *, may_scan: bool
) -> ArrayRescue:
    members: tuple[ArrayMember, ...] = ()
    if condition in {"behind", "stale"}:
        members = choose_members(array)
    elif condition == "unclean":
        members = find_current(array)  # They are enough
    elif condition == "reshaping":
        members = find_current(array)
        if not runs_with(array, {member.slot for member in members if member.slot is not None}):
            members = choose_members(array)
    return ArrayRescue(
        array=array,
        condition=condition,
        headline=_write_headline(array, condition, members, inventory),
        facts=(*_describe_splits(splits), *_find_facts(array, condition, inventory)),
        groups=group_by_events(array),
        chosen=members,
        steps=tuple(_plan(array, condition, members, inventory, may_scan=may_scan)),
        forbidden=tuple(_forbid(condition)),
    )


def _write_headline(array: Array, condition: Condition, members: tuple[ArrayMember, ...], inventory: Inventory) -> str:
    """Returns the answer, in one or two sentences."""
    match condition:
        case "running":
            return _write_headline_of_running(array)
        case "broken":
            return (
                "More members failed than it survives: md refuses writes, and reads may fail. "
                "Do not stop it, and do not restart the machine, before you have copied what can still be read."
            )
        case "diverged":
            return (
                "Two parts of this array were written to apart from each other. "
                "Both may have files that the other lacks."
            )
        case "reshaping" if is_reshape_at_start(array):
            return (
                "A reshape was begun, and is still at its start: "
                "the data are in the old layout, except perhaps the first stripes."
            )
        case "reshaping":
            return "A reshape is not finished. The data are in two layouts, and only the reshape knows which is where."
        case "refused":
            return "The kernel refuses the superblocks of all its members. That says nothing about the data."
        case "foreign":
            return _write_headline_of_firmware(array)
        case "unknown":
            return "Too little of its superblocks could be read to say whether it is sound."
    return _write_headline_of_members(array, condition, members, inventory)


def _write_headline_of_running(array: Array) -> str:
    if not array.raid_disks:
        return "It runs. It needs no rescue."
    count = f"{array.usable} of {array.raid_disks} members"
    if array.reshaping:
        return f"It runs, with {count}, and a reshape is not finished. Do not remove a member, and do not stop it."
    max_failures = count_tolerated(array)
    if not array.degraded or max_failures is None:
        return f"It runs, with {count}. It needs no rescue."
    is_last = array.degraded >= max_failures
    redundancy = ", without redundancy for another failure" if is_last else ""
    return f"It runs, with {count}{redundancy}. It needs no rescue, but a new member."


def _write_headline_of_firmware(array: Array) -> str:
    """Returns the answer for a container of firmware's RAID, or a volume of one."""
    if array.is_container:
        disks = plural_disks(len(array.members))
        kind = describe_format(array)
        return f"It is a container of {kind} with {disks}, not an array: none of its volumes is assembled."
    if array.dirty and array.degraded:
        members = "1 member is" if array.degraded == 1 else f"{array.degraded} members are"
        return (
            f"It does not run: {members} missing, and it was not shut down, so the parity of some stripes may be old. "
            "The other members have all other data."
        )
    return f"It does not run. Its metadata are those of other software ({array.metadata}): blklab reads little of them."


def _write_headline_of_members(
    array: Array, condition: Condition, members: tuple[ArrayMember, ...], inventory: Inventory
) -> str:
    """Returns the answer for an array whose members decide whether it can start."""
    current = find_current(array)
    are = "is" if len(current) == 1 else "are"
    count = f"{len(current)} of {array.raid_disks} members {are} current"
    newest = find_newest(array)
    match condition:
        case "sound":
            return f"The array is sound: {count}. {_write_obstacle(array, inventory)}"
        case "degraded":
            away = _name_slots(find_missing(array))
            return f"The array is sound: it can start without {away}. {count}. {_write_obstacle(array, inventory)}"
        case "incomplete":
            newer = _name_slots(find_perhaps_newer(array, newest) if newest else ())
            return (
                f"These disks agree, and {count}, but they were written with {newer}, which they do not know as "
                f"missing. If the array ran on without these disks, the disk of {newer} is newer: find it first."
            )
        case "unclear":
            return f"{count}, which is enough, but do not start it yet. {' '.join(find_obstacles(array, current))}"
        case "new":
            events = newest.events if newest else 0
            return (
                "The array was made a short time ago: its superblocks have only "
                f"{_write_events(events)}. If you have just made it, it is sound: {count}. "
                "If its data are older, someone used --create over the old array: do not start it."
            )
        case "overwritten":
            return (
                "The array was made over existing data: the filesystem on it is older than its superblocks. "
                "If someone used --create to repair an older array, do not start it: its disks may be in another order."
            )
        case "shrunk":
            return (
                f"{count}, which is enough, but the array is smaller than the filesystem on it. "
                "It was made again with other values, or its members were larger: do not start it."
            )
        case "unclean":
            return (
                f"The data are probably all there. {count}, which is enough, but the array was not shut down: "
                "md does not start it without all members, because the parity of some stripes may be old."
            )
        case "behind":
            return (
                f"The data are probably all there. It does not start because only {count}; "
                f"with members that are {_write_gap(array, members)} behind, it has enough, "
                "and it could not run without them meanwhile."
            )
        case "stale":
            return (
                f"Part of the data may be old. Only {count}; "
                f"with members that are {_write_gap(array, members)} behind, it has enough, "
                "but what was written in this time is lost or mixed with older data."
            )
    not_here = find_not_here(array)
    if not not_here:
        return f"It cannot start from these disks: {count}. The others are here, and are no sources: see below."
    return f"It cannot start from these disks: {count}. {_write_what_to_find(array, not_here)}"


def _write_what_to_find(array: Array, not_here: tuple[int, ...]) -> str:
    """Returns which disks are missing, which of them were missing before, and where they may be."""
    text = f"Find the disks of {_name_slots(not_here)} first."
    newest = find_newest(array)
    newer = find_perhaps_newer(array, newest) if newest else ()
    older = tuple(slot for slot in not_here if slot not in newer)
    if newer and older:
        text += f" The newest superblock has no member in {_name_slots(older)}: a disk from there is old."
    spares = [member.name for member in list_all_members(array) if _is_spare(member)]
    if spares:
        text += f" Spares may be among them: {list_names(spares)}."
    return text


def find_missing(array: Array) -> tuple[int, ...]:
    """Returns the slots without a current member."""
    slots = {member.slot for member in find_current(array)}
    return tuple(slot for slot in range(min(array.raid_disks, MAX_DISKS)) if slot not in slots)


def find_not_here(array: Array) -> tuple[int, ...]:
    """Returns the slots without a current member of which no superblock is here, also no refused one."""
    here = {member.superblock.slot for member in list_all_members(array) if member.superblock}
    return tuple(slot for slot in find_missing(array) if slot not in here)


def _find_facts(array: Array, condition: Condition, inventory: Inventory) -> Iterator[str]:
    """Yields what explains the condition, one sentence each."""
    max_failures = count_tolerated(array)
    if condition not in {"running", "foreign", "unknown", "refused"} and max_failures is not None:
        least = "at least " if array.level == "raid10" else ""
        loss = f"survives the loss of {least}{max_failures}" if max_failures else "survives no loss"
        yield f"{level_text(array.level)} of {array.raid_disks} disks {loss}."
    for member in list_all_members(array):
        yield from _find_facts_of_member(array, member, condition)
    if condition in {"degraded", "unclean", "behind", "stale"}:
        for member in find_expelled(array):
            yield _describe_expelled(array, member)
    if condition in {"sound", "degraded", "unclean"} and find_lost_ranges(array):
        yield "Bad-block lists name sectors without a good copy: md returns errors there. See `blklab md audit`."
    newest = find_newest(array)
    if newest and is_new(array, newest) and condition in {"behind", "stale", "unclear", "incomplete"}:
        yield (
            f"Its superblocks have only {_write_events(newest.events)}: the array was made a short time ago. "
            "If the data are older, someone used --create, and these superblocks are not the old ones."
        )
    if condition in {"not-enough", "unknown"}:
        for sentence in describe_covered(array):
            yield f"{sentence}."
    if condition == "broken":
        yield from _describe_members_to_force(array)
    yield from _describe_reshape(array)
    if condition not in {"running", "sound"} and inventory.unread:
        yield f"Not all disks could be read: {'; '.join(inventory.unread)}."


def _describe_members_to_force(array: Array) -> Iterator[str]:
    """Yields with which members that are behind a broken array would have enough."""
    array = describe_by_superblocks(array)
    members = choose_members(array)
    current = find_current(array)
    behind = [member for member in members if member not in current]
    if behind:
        names = list_names([member.name for member in behind])
        yield (
            f"With {names}, {_write_gap(array, members)} behind, it has enough members: copy these disks first "
            "(ddrescue), and assemble the array with the copies."
        )


def _describe_reshape(array: Array) -> Iterator[str]:
    """Yields how far a reshape is, and what it changes."""
    positions = sorted({position for position in _reshape_positions(array) if position is not None})
    if positions:
        yield from _describe_members_of_reshape(array)
    for position in positions:
        yield f"The reshape is at sector {position:,} of the array."
    newest = find_newest(array)
    if newest is None or newest.reshape is None:
        return
    replacements = [
        member.name for member in list_all_members(array) if member.superblock and member.superblock.replacement
    ]
    if replacements:
        yield (
            f"Replacements, and a reshape: {list_names(replacements)}. The kernel does not start an array with both "
            "(raid5_run). Leave the replacements out."
        )
    for sentence in describe_change(newest):
        yield f"{sentence}."


def _describe_members_of_reshape(array: Array) -> Iterator[str]:
    """Yields whether the current members of an array with a reshape are enough, if they are not."""
    current = find_current(array)
    if runs_with(array, {member.slot for member in current if member.slot is not None}) is not False:
        return
    are = "is" if len(current) == 1 else "are"
    count = f"Only {len(current)} of {array.raid_disks} members {are} current, which is not enough"
    members = choose_members(array)
    if members:
        yield f"{count}; with members that are {_write_gap(array, members)} behind, it has enough."
    else:
        yield f"{count}. {_write_what_to_find(array, find_not_here(array) or find_missing(array))}"


def is_reshape_at_start(array: Array) -> bool:
    """Whether a reshape that adds disks is at position 0, where it begins (raid5.c, `raid5_start_reshape`)."""
    newest = find_newest(array)
    return (
        newest is not None
        and newest.reshape is not None
        and newest.reshape.delta_disks > 0
        and all(position in {None, 0} for position in _reshape_positions(array))
    )


def plural_disks(count: int) -> str:
    """Returns a number of disks, for a sentence."""
    return "1 disk" if count == 1 else f"{count} disks"


def _describe_expelled(array: Array, member: ArrayMember) -> str:
    """Returns what a member lacks that has the newest events and is failed for superblocks written later."""
    newest, superblock = find_newest(array), member.superblock
    seconds = newest.updated - superblock.updated if newest and superblock else 0
    gap = format_duration(seconds * 1e9) if seconds > 0 else ""
    lack = f"it lacks what was written in the {gap} before them" if gap else "it may lack what was written last"
    return (
        f"{member.name} is not more than one event behind, but newer superblocks call it failed: {lack}. "
        "Kernels before Linux 6.8 may take it as current all the same."
    )


def _find_facts_of_member(array: Array, member: ArrayMember, condition: Condition) -> Iterator[str]:
    superblock = member.superblock
    if superblock is None:
        if member.unseen and member.unseen != NOT_IN_TEXT:  # the inventory names all of them at once
            yield f"{member.name}: its superblock could not be read: {member.unseen}."
        return
    if not superblock.checksum_holds:
        yield f"{member.name}: the checksum of its superblock is wrong: the kernel refuses it."
    for refusal in superblock.refusal_reasons:
        yield f"{member.name}: {refusal.message}."
    if superblock.recovery_offset is not None:
        share = f" ({100 * superblock.recovery_offset / superblock.size:.1f} %)" if superblock.size else ""
        yield (
            f"{member.name} was rebuilt only up to sector {superblock.recovery_offset:,}{share}: "
            "it is no complete member, although it has a slot."
        )
    elif condition == "not-enough" and _is_spare(member):
        # mdadm --add, and udev after a disk was away, write a new superblock. Data are written only by a recovery.
        yield (
            f"{member.name} is a spare: its superblock has no slot. "
            "If it was a member, and was added again, its data may still be there: only a recovery overwrites them."
        )
    elif superblock.role == "spare" and condition in {"running", "sound", "degraded"}:
        yield f"{member.name} is a spare: it has no data of the array."
    elif superblock.slot is not None and "spare" in member.states and "faulty" not in member.states:
        yield f"{member.name} is being rebuilt in slot {superblock.slot}, or waits for it: it is not complete."
    other_uuids = {old.uuid for old in member.leftovers} - {array.uuid}
    for uuid in sorted(other_uuids):
        yield f"{member.name} also has the superblock of another array, {uuid}: one of them is from an earlier use."
    if member.users:
        yield f"{member.name} is in use: {member.users[0]}."


def _plan(
    array: Array, condition: Condition, members: tuple[ArrayMember, ...], inventory: Inventory, *, may_scan: bool
) -> Iterator[str]:
    """Yields what to do. The only command for disks is that which md itself checks."""
    if condition in {"running", "broken", "foreign"}:
        yield from _name_audit(inventory)
        return
    if condition in {"sound", "degraded"}:
        yield from _plan_start(array, condition, inventory, may_scan=may_scan)
        return
    yield "# Find out first what happened: dmesg, cables, power, and the SMART values of the disks (`smartctl --all`)."
    yield (
        "# Save the metadata of its members to a directory on another disk, which only reads them: "
        "the same command with --save-metadata DIRECTORY."
    )
    match condition:
        case "new":
            yield "# Only if you have made it just now: start it with `mdadm --assemble`, and the names of its disks."
            yield "# Otherwise write nothing to its disks. Find out how the old array was made: mdadm.conf, old logs."
            yield from _plan_overlays(array, find_current(array))
        case "overwritten" | "shrunk":
            yield f"# If its metadata were saved before, put them back: `{command_lines.fix_metadata('DIRECTORY')}`."
            yield (
                "# Otherwise search for the old geometry, and try it on overlays, which writes nothing to the disks: "
                "`blklab md overlays search DIRECTORY`, and the names of its disks. "
                "`blklab md rescue --try-orders` only searches."
            )
            yield "# Find out how the old array was made: mdadm.conf, old logs, another disk of the same age."
            yield "# Ask on the linux-raid list, with these outputs."
        case "behind" | "stale" | "unclean":
            yield from _plan_search_for_newer(array)
            yield from _plan_overlays(array, members)
        case "incomplete" | "not-enough":
            yield from _plan_search_for_disks(condition)
            if condition == "incomplete":
                yield from _plan_without_disks(array)
        case "diverged":
            yield (
                "# Decide which part is right, by its files: `blklab md overlays start`, "
                "with --member for each of its disks."
            )
            yield "# Copy the files that only the other part has. Only then can its disks be wiped and added."
        case "reshaping":
            yield from _plan_reshape(array, members)
        case "refused":
            yield "# Start a newer kernel if a superblock is refused because it is newer."
            yield "# Otherwise ask on the linux-raid list, with this output."
        case "unclear":
            yield "# Remove the reason first, then type this command again."
        case _:
            yield "# Then type this command as root, with all disks connected."


def _name_audit(inventory: Inventory) -> Iterator[str]:
    if inventory.software is None:
        yield "# What is wrong with it, and what to do: `blklab md audit` of the same files says that."
    else:
        yield "# What is wrong with it, and what to do:"
        yield command_lines.audit_arrays()


def _plan_without_disks(array: Array) -> Iterator[str]:
    """Yields what to do if disks that may be newer have failed for good."""
    yield (
        "# If that disk does not work any more, and the array did not run after that, these members are enough. "
        "Add a new disk only when the array runs and its files are right."
    )
    yield from _plan_overlays(array, find_current(array))


def _plan_search_for_disks(condition: Condition) -> Iterator[str]:
    """Yields where the missing members may be."""
    yield "# Then look for the other disks: `lsblk`, the controller, another machine they may have moved to."
    if condition == "not-enough":
        yield (
            "# If they are here, and their superblocks are gone or call them spares, search for the order, "
            "which only reads: `blklab md rescue --try-orders`, and the names of all its disks."
        )


def _plan_reshape(array: Array, members: tuple[ArrayMember, ...]) -> Iterator[str]:
    """Yields how to go on with a reshape, or back.

    A reshape that moves the data to another offset needs no backup file (mdadm: Grow.c).
    """
    if moves_data(array):
        yield "# It needs no backup file: it moves the data to another offset (`New Offset` of mdadm --examine)."
    else:
        yield (
            "# Look for the backup file of the reshape, if it had one, "
            "and add --backup-file FILE to the commands below."
        )
    if is_reshape_at_start(array):
        yield (
            "# mdadm can take back a reshape at its start: --assemble --update=revert-reshape (mdadm(8)). "
            "blklab does not try that: type it on overlays only, and check the filesystem there."
        )
    if members:
        if members != find_current(array):
            yield from _plan_search_for_newer(array)
        yield from _plan_overlays(array, members)
    else:
        yield from _plan_search_for_disks("not-enough")


def moves_data(array: Array) -> bool:
    """Whether an unfinished reshape moves the data of the members to another data offset."""
    superblocks = [member.superblock for member in list_all_members(array) if member.superblock]
    return any(superblock.new_data_offset is not None for superblock in superblocks)


def _plan_search_for_newer(array: Array) -> Iterator[str]:
    """Yields which disk would make old members unnecessary."""
    newest = find_newest(array)
    slots = find_perhaps_newer(array, newest) if newest else ()
    if slots:
        yield (
            f"# Find the disk of {_name_slots(slots)} first: the newest superblock calls it active. "
            "With it, members that are behind may not be needed. Copy it with ddrescue if it has read errors."
        )


def _plan_overlays(array: Array, members: Sequence[ArrayMember]) -> Iterator[str]:
    """Yields how to try an assembly without writing to a disk."""
    yield "# A disk with read errors: copy it with ddrescue, and go on with the copy."
    if not all(member.path.startswith("/dev/") for member in members):
        names = list_names([member.name for member in members], 24)
        yield f"# Then try it on overlays of {names}, where its disks are: `blklab md overlays start`."
        return
    names = list_names([member.path for member in members], 24)
    yield (
        f"# Try it on overlays of {names}. DIRECTORY is a new one on another disk, such as a USB disk. "
        "Nothing is written to the members; the filesystem is checked, and you can look at your files:"
    )
    yield f"# {command_lines.start_overlays(array.uuid or array.name, 'DIRECTORY')}"
    yield "# It prints the next command: the same on the disks, only if the files are right."


def _plan_start(array: Array, condition: Condition, inventory: Inventory, *, may_scan: bool) -> Iterator[str]:
    """Yields how to start a sound array."""
    yield "# If someone used --create on these disks, do not start it: its superblocks do not show that for long."
    if condition == "degraded" and find_not_here(array):
        yield "# If the missing disk works, connect it first."
    if needs_newer_kernel(array):
        yield "# Its superblocks are those of Linux 6.19 or newer: start such a kernel first."
    if not all(member.path.startswith("/dev/") for member in array.members):
        yield "# Start it where its disks are: `mdadm --assemble`, and the names of its disks."
        return
    ignore_lines = [line for line in inventory.listed if line.ignored and line.describes(array)]
    if ignore_lines:
        yield f"# {ignore_lines[0].file} says that it must not be assembled: ARRAY <ignore>."
        return
    if find_journals(array):
        yield "# md first replays the write journal. That can take hours, without a message: do not interrupt it."
    expelled_members = find_expelled(array)
    if not may_scan or expelled_members:
        if not may_scan:
            yield "# `mdadm --assemble --scan` would also start other arrays of this list that must not be started."
        if expelled_members:
            names = list_names([member.name for member in expelled_members])
            yield f"# Before Linux 6.8, `mdadm --assemble --scan` may also take members that failed: {names}."
        sources = (*find_current(array), *find_journals(array))
        yield f"# Name its disks instead: {list_names([member.path for member in sources], 24)}."
        return
    if array.live:
        yield "# The array is assembled and waits. Stop it, and assemble it again:"
        yield command_lines.stop_array(array.path)
    conf_lines = [line for line in inventory.listed if not line.ignored]
    if conf_lines and not any(
        line.describes(array) for line in conf_lines
    ):  # --scan then assembles only these (mdadm(8))
        yield f"# Add this line to mdadm.conf: ARRAY /dev/md/NAME UUID={array.uuid}"
    yield command_lines.assemble_all()
    yield "# If md refuses, the reason is in the kernel's log: dmesg."


def needs_newer_kernel(array: Array) -> bool:
    """Whether Linux 6.18 and older refuse a superblock of an array."""
    superblocks = [member.superblock for member in array.members if member.superblock]
    return any(refusal.reason == "newer-kernel" for superblock in superblocks for refusal in superblock.refusal_reasons)


def _forbid(condition: Condition) -> Iterator[str]:
    """Yields what destroys data in this condition, and why."""
    if condition in {"running", "foreign"}:
        return
    if condition == "broken":
        yield "--stop, a restart of the machine: md may not accept the members again."
    yield (
        "--create: writes new superblocks over the old ones. "
        "With another order of disks, data offset, chunk or layout, the data are gone as soon as something is written."
    )
    yield "--zero-superblock, wipefs, a new partition table: they destroy what says which disk is which."
    yield "--add: makes a member of the array a spare, and overwrites its slot and its data."
    if condition in {"sound", "degraded"}:
        return
    if condition not in {"broken", "refused", "unknown"}:
        yield "--assemble --force on the disks themselves: it cannot be undone. Try it on overlays."
    yield "fsck without -n, and mounting read-write: they write to an array that may be put together wrongly."


def _describe_splits(splits: Sequence[Split]) -> Iterator[str]:
    """Yields what the two parts are, and which is newer."""
    for split in splits:
        parts = [
            f"{half.name} ({_write_events(half.events)}, last written {moment_text(half.updated)})"
            for half in sorted((split.first, split.second), key=lambda half: -half.events)
        ]
        yield f"The parts, the one with more events first: {' and '.join(parts)}."


def _reshape_positions(array: Array) -> list[int | None]:
    return [member.superblock.reshape_position for member in list_all_members(array) if member.superblock]


def _write_gap(array: Array, members: tuple[ArrayMember, ...]) -> str:
    """Returns how far members are behind, for a sentence: `6 events`, `6 events (4 s)`."""
    events, seconds = measure_gap(array, members)
    if seconds <= 0:
        return _write_events(events)
    return f"{_write_events(events)} ({format_duration(seconds * 1e9)})"


def _write_obstacle(array: Array, inventory: Inventory) -> str:
    """Returns what keeps a sound array from starting, as a sentence.

    Superblocks do not show whether an array runs: that is known of the arrays of a host, and of a text with
    /proc/mdstat.
    """
    if needs_newer_kernel(array):
        return "Linux 6.18 and older refuse its superblocks: it needs a newer kernel."
    if array.live or inventory.software is not None or inventory.lists_running:
        return "It is only not started."
    return "Superblocks do not show whether it runs: `cat /proc/mdstat` on its host does."


def _name_slots(slots: tuple[int, ...]) -> str:
    if len(slots) == 1:
        return f"slot {slots[0]}"
    return f"slots {list_names([str(slot) for slot in slots], 12)}"


def _write_events(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"


def describe_role(superblock: Superblock) -> str:
    """Returns what a member is, for a table: `active`, `active, rebuilt in part`, `spare`."""
    if superblock.role == "active" and superblock.recovery_offset is not None:
        return "active, rebuilt in part"
    if superblock.replacement:
        return "replacement"
    return superblock.role


def draw_array_state(superblock: Superblock) -> str:
    """Returns the array as this member saw it last, as mdadm draws it: `AAA.`."""
    return "".join("A" if is_present else "." for is_present in superblock.present[:64])


def describe_age(superblock: Superblock, latest: int) -> str:
    """Returns how much earlier than the newest superblock one was written; empty for the newest."""
    seconds = latest - superblock.updated
    return format_duration(seconds * 1e9) if seconds > 0 else ""


def describe_moment(superblock: Superblock) -> str:
    return moment_text(superblock.updated)
