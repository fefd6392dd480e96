"""Says why an array does not start, and whether its data are still there, from the superblocks of its members.

Superblocks are compared with each other: "State: clean" in one of them proves nothing. What md accepts is in
drivers/md/md.c (`super_1_validate`, one event behind) and drivers/md/raid5.c (`raid5_run`, parity and no clean
shutdown).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from blklab.md import command_lines
from blklab.md.audit.rule import level_text, list_names, moment_text
from blklab.md.audit.running import FEW_EVENTS, FEW_SECONDS
from blklab.md.audit.split import Split, find_splits
from blklab.md.availability import choose_members_to_force, count_tolerated, find_availability, is_past_redundancy
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.superblocks import Superblock
from blklab.md_levels import PARITIES
from blklab.units import format_duration

Condition = Literal[
    "running",  # It runs
    "broken",  # It is assembled, and more members failed than it survives
    "sound",  # All members are there and current
    "degraded",  # It can start without some members
    "new",  # All members that it needs are current, but it was made a short time ago: perhaps over an older array
    "unclean",  # Its members are current and too few for md, because it was not shut down
    "behind",  # Members that are a little behind make it complete
    "stale",  # Members that are far behind make it complete
    "not-enough",  # All known members together are too few
    "diverged",  # Two parts of it were written to apart from each other
    "reshaping",  # A reshape is not finished
    "refused",  # The kernel refuses its superblocks
    "foreign",  # Metadata of other software
    "unknown",  # Too little of its superblocks could be read
]

FEW_EVENTS_EVER = 64
"""With so few events, an array was made a short time ago: each change between clean and active counts two."""


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


def diagnose(inventory: Inventory) -> list[ArrayRescue]:
    """Returns the diagnosis of every array of an inventory: those that do not run first."""
    arrays = (*inventory.unassembled, *inventory.arrays)
    splits = [split for split in find_splits(replace(inventory, arrays=arrays, unassembled=())) if split.is_diverged]
    rescues = []
    for array in arrays:
        own_splits = [split for split in splits if array.name in split.arrays]
        judged = describe_by_superblocks(array) if is_stopped(array) else array
        condition = "diverged" if own_splits else decide_condition(judged)
        rescues.append(_explain(judged, condition, inventory, own_splits))
    return sorted(rescues, key=lambda rescue: rescue.condition == "running")


def is_stopped(array: Array) -> bool:
    """Whether an array does not run: it is not assembled, or it is assembled and was not started."""
    return not array.live or array.state in {"inactive", "clear", ""}


def describe_by_superblocks(array: Array) -> Array:
    """Returns an array that does not run with all members that are known, and only what their superblocks say.

    The states in sysfs are those before md has compared the superblocks. A member that is not here does not count.
    """
    members = []
    for member in known_members(array):
        slot = member.superblock.slot if member.superblock else None
        members.append(replace(member, states=(), slot=slot))
    return replace(array, members=tuple(members), outside=(), absent=())


def decide_condition(array: Array) -> Condition:
    """Returns what keeps an array from starting; two parts that diverged are not looked for."""
    if not is_stopped(array):
        return "broken" if is_past_redundancy(array) else "running"
    if array.external:
        return "foreign"
    accepted = [member for member in known_members(array) if member.superblock and member.superblock.accepted]
    if not accepted:
        has_superblock = any(member.superblock for member in known_members(array))
        return "refused" if has_superblock else "unknown"
    if array.reshaping:
        return "reshaping"
    availability = find_availability(array)
    if availability.can_run:
        if count_newest_events(array) <= FEW_EVENTS_EVER:
            return "new"
        current = {member.slot for member in availability.current}
        if len(current) == array.raid_disks:
            return "sound"
        return "unclean" if refuses_unclean_start(array) else "degraded"
    if availability.can_run is None:
        return "unknown"
    chosen = choose_members_to_force(array)
    if not chosen:
        return "not-enough"
    events, seconds = measure_gap(array, chosen)
    return "behind" if events <= FEW_EVENTS and seconds <= FEW_SECONDS else "stale"


def known_members(array: Array) -> tuple[ArrayMember, ...]:
    """Returns all members of an array, those outside of it included."""
    return (*array.members, *array.outside)


def count_newest_events(array: Array) -> int:
    """Returns the largest event count of all superblocks of an array."""
    return max((member.superblock.events for member in known_members(array) if member.superblock), default=0)


def refuses_unclean_start(array: Array) -> bool:
    """Whether md refuses to start it without all members: it has parity, and was not shut down."""
    dirty = any(
        member.superblock and member.superblock.resync_offset is not None for member in find_availability(array).current
    )
    return array.level in PARITIES and dirty


def measure_gap(array: Array, chosen: tuple[ArrayMember, ...]) -> tuple[int, int]:
    """Returns how far the oldest of the chosen members is behind the newest superblock: events, and seconds."""
    superblocks = [member.superblock for member in known_members(array) if _is_active(member)]
    newest = max((superblock.events for superblock in superblocks if superblock), default=0)
    latest = max((superblock.updated for superblock in superblocks if superblock), default=0)
    behind = [member.superblock for member in chosen if member.superblock]
    events = newest - min(superblock.events for superblock in behind)
    return events, latest - min(superblock.updated for superblock in behind)


def group_by_events(array: Array) -> tuple[EventGroup, ...]:
    """Returns the members of an array in groups of equal events, the newest first."""
    groups: dict[int, list[ArrayMember]] = {}
    for member in known_members(array):
        if member.superblock:
            groups.setdefault(member.superblock.events, []).append(member)
    return tuple(
        EventGroup(events, max(member.superblock.updated for member in members if member.superblock), tuple(members))
        for events, members in sorted(groups.items(), reverse=True)
    )


def _is_active(member: ArrayMember) -> bool:
    superblock = member.superblock
    return superblock is not None and superblock.accepted and superblock.slot is not None


def _explain(array: Array, condition: Condition, inventory: Inventory, splits: Sequence[Split]) -> ArrayRescue:
    chosen = choose_members_to_force(array) if condition in {"behind", "stale", "unclean"} else ()
    return ArrayRescue(
        array=array,
        condition=condition,
        headline=_write_headline(array, condition, chosen),
        facts=(*_describe_splits(splits), *_find_facts(array, condition, inventory)),
        groups=group_by_events(array),
        chosen=chosen,
        steps=tuple(_plan(array, condition, chosen, inventory)),
        forbidden=tuple(_forbid(condition)),
    )


def _write_headline(array: Array, condition: Condition, chosen: tuple[ArrayMember, ...]) -> str:
    """Returns the answer, in one or two sentences."""
    match condition:
        case "running":
            return f"It runs, with {array.usable} of {array.raid_disks} members. It needs no rescue."
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
        case "reshaping":
            return "A reshape is not finished. The data are in two layouts, and only the reshape knows which is where."
        case "refused":
            return "The kernel refuses the superblocks of all its members. That says nothing about the data."
        case "foreign":
            return f"Its metadata are those of other software ({array.metadata}): blklab does not read them."
        case "unknown":
            return "Too little of its superblocks could be read to say whether it is sound."
    return _write_headline_of_members(array, condition, chosen)


def _write_headline_of_members(array: Array, condition: Condition, chosen: tuple[ArrayMember, ...]) -> str:
    """Returns the answer for an array whose members decide whether it can start."""
    availability = find_availability(array)
    current = len(availability.current)
    are = "is" if current == 1 else "are"
    count = f"{current} of {array.raid_disks} members {are} current"
    missing = _name_slots(availability.missing)
    match condition:
        case "sound":
            return f"The array is sound: all {array.raid_disks} members are current. {_write_obstacle(array)}"
        case "degraded":
            return f"The array is sound: it can start without {missing}. {count}. {_write_obstacle(array)}"
        case "new":
            return (
                "The array was made a short time ago: its superblocks have only "
                f"{_write_events(count_newest_events(array))}. If you have just made it, it is sound: {count}. "
                "If its data are older, someone used --create over the old array: do not start it."
            )
        case "unclean":
            return (
                f"The data are probably all there. {count}, which is enough, but the array was not shut down: "
                "md does not start it without all members, because the parity of some stripes may be old."
            )
        case "behind":
            return (
                f"The data are probably all there. It does not start because only {count}; "
                f"with members that are {_write_gap(array, chosen)} behind, it has enough."
            )
        case "stale":
            return (
                f"Part of the data is old. Only {count}; "
                f"with members that are {_write_gap(array, chosen)} behind, it has enough, "
                "but what was written in this time is lost or mixed with older data."
            )
    return f"It cannot start from these disks: {count}. Find the disks of {missing} first."


def _find_facts(array: Array, condition: Condition, inventory: Inventory) -> Iterator[str]:
    """Yields what explains the condition, one sentence each."""
    tolerated = count_tolerated(array)
    if condition not in {"running", "foreign", "unknown"} and tolerated is not None:
        least = "at least " if array.level == "raid10" else ""
        loss = f"survives the loss of {least}{tolerated}" if tolerated else "survives no loss"
        yield f"It is a {level_text(array.level)} of {array.raid_disks}, which {loss}."
    for member in known_members(array):
        yield from _find_facts_of_member(array, member)
    yield from _find_duplicates(array)
    newest = count_newest_events(array)
    if 0 < newest <= FEW_EVENTS_EVER and condition not in {"running", "new"}:
        yield (
            f"Its superblocks have only {_write_events(newest)}: the array was made a short time ago. "
            "If the data are older, someone used --create, and these superblocks are not the old ones."
        )
    positions = sorted({position for position in _reshape_positions(array) if position is not None})
    for position in positions:
        yield f"The reshape is at sector {position:,} of the array."
    if condition not in {"running", "sound"} and inventory.unread:
        yield f"Not all disks could be read: {'; '.join(inventory.unread)}."


def _find_facts_of_member(array: Array, member: ArrayMember) -> Iterator[str]:
    superblock = member.superblock
    if superblock is None:
        if member.unseen:
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
    elif superblock.role == "spare" or (superblock.slot is not None and "spare" in member.states):
        yield f"{member.name} is a spare: it has no data of the array."
    others = {old.uuid for old in member.leftovers} - {array.uuid}
    for uuid in sorted(others):
        yield f"{member.name} also has the superblock of another array, {uuid}: one of them is from an earlier use."
    if member.users:
        yield f"{member.name} is in use: {member.users[0]}."


def _plan(array: Array, condition: Condition, chosen: tuple[ArrayMember, ...], inventory: Inventory) -> Iterator[str]:
    """Yields what to do. The only command for a disk is that which md itself checks."""
    if condition in {"running", "broken"}:
        yield "# What is wrong with it, and what to do:"
        yield command_lines.audit_arrays()
        return
    if condition in {"sound", "degraded"}:
        yield from _plan_start(array, condition, inventory)
        return
    yield "# Find out first what happened: dmesg, cables, power, and the SMART values of the disks (`smartctl --all`)."
    yield (
        "# Save the metadata of its members to a directory on another disk, which only reads them: "
        "the same command with --save-metadata DIRECTORY."
    )
    match condition:
        case "new":
            yield "# Only if you have made it just now: start it with `mdadm --assemble --scan`."
            yield "# Otherwise write nothing to its disks. Find out how the old array was made: mdadm.conf, old logs."
            yield "# Ask on the linux-raid list, with this output."
        case "behind" | "stale" | "unclean":
            names = list_names([member.path for member in chosen], 24)
            yield "# A disk with read errors: copy it with ddrescue, and go on with the copy."
            yield f"# Make an overlay of each of these members, so that nothing is written to the disks: {names}."
            yield "# On the overlays only: `mdadm --assemble --force`, then `fsck -n`, then mount read-only."
            yield "# The same on the disks only if the files on the overlays are right."
        case "not-enough":
            yield "# Then look for the other disks: `lsblk`, the controller, another machine they may have moved to."
        case "diverged":
            yield "# Decide which part is right, by its files: mount each read-only, on overlays."
            yield "# Copy the files that only the other part has. Only then can its disks be wiped and added."
        case "reshaping":
            yield "# Look for the backup file of the reshape (--backup-file)."
            yield "# Ask on the linux-raid list, with this output, before anything is assembled."
        case "refused":
            yield "# Start a newer kernel if a superblock is refused because it is newer."
            yield "# Otherwise ask on the linux-raid list, with this output."
        case _:
            yield "# Then run this command as root, with all disks connected."


def _plan_start(array: Array, condition: Condition, inventory: Inventory) -> Iterator[str]:
    if condition == "degraded":
        yield "# Connect the missing disk first, if it works: then nothing has to be rebuilt."
    if needs_newer_kernel(array):
        yield "# Its superblocks are those of Linux 6.19 or newer: start such a kernel first."
    if not all(member.path.startswith("/dev/") for member in array.members):
        yield "# Start it where its disks are: `mdadm --assemble --scan`."
        return
    if used := [member for member in array.members if member.users]:
        names = list_names([f"{member.path} ({member.users[0]})" for member in used])
        yield f"# These members are in use, so md cannot take them: {names}."
        return
    if array.live:
        yield "# The array is assembled and waits. Stop it, and assemble it again:"
        yield command_lines.stop_array(array.path)
    lines = [line for line in inventory.listed if not line.ignored]
    if lines and not any(line.describes(array) for line in lines):  # --scan then assembles only these (mdadm(8))
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
    if condition == "sound":
        return
    yield "--add: makes a member of the array a spare, and overwrites its slot and its data."
    if condition in {"behind", "stale", "unclean", "reshaping", "diverged", "not-enough", "new"}:
        yield "--assemble --force on the disks themselves: it cannot be undone. Try it on overlays."
    yield "fsck without -n, and mounting read-write: they write to an array that may be put together wrongly."


def _find_duplicates(array: Array) -> Iterator[str]:
    """Yields the slots with several members: a copy of a disk, or one that was replaced."""
    by_slot: dict[int, list[str]] = {}
    for member in array.members:
        if member.superblock and member.superblock.slot is not None and not member.superblock.replacement:
            by_slot.setdefault(member.superblock.slot, []).append(member.name)
    for slot, names in sorted(by_slot.items()):
        if len(names) > 1:
            yield (
                f"{list_names(names)} have the same slot, {slot}: one is a copy of the other, or replaced it. "
                "Disconnect the older one before the array is started."
            )


def _describe_splits(splits: Sequence[Split]) -> Iterator[str]:
    """Yields what the two parts are, and which is newer."""
    for split in splits:
        parts = [
            f"{half.name} ({_write_events(half.events)}, last written {moment_text(half.updated)})"
            for half in sorted((split.first, split.second), key=lambda half: -half.events)
        ]
        yield f"The parts, the one with more events first: {' and '.join(parts)}."


def _reshape_positions(array: Array) -> list[int | None]:
    return [member.superblock.reshape_position for member in known_members(array) if member.superblock]


def _write_gap(array: Array, chosen: tuple[ArrayMember, ...]) -> str:
    """Returns how far members are behind, for a sentence: `6 events`, `6 events (4 s)`."""
    events, seconds = measure_gap(array, chosen)
    if seconds <= 0:
        return _write_events(events)
    return f"{_write_events(events)} ({format_duration(seconds * 1e9)})"


def _write_obstacle(array: Array) -> str:
    """Returns what keeps a sound array from starting, as a sentence."""
    if needs_newer_kernel(array):
        return "Linux 6.18 and older refuse its superblocks: it needs a newer kernel."
    return "It is only not started."


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
