"""Rules about arrays that do not run: whether their members are enough, and what helps."""

from collections.abc import Collection, Iterator, Sequence

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import level_text, list_names, make_finding, moment_text
from blklab.md.audit.write_journal import describe_waiting, lacks_journal
from blklab.md.availability import (
    NEED_ALL,
    Availability,
    choose_members_to_force,
    count_tolerated,
    find_availability,
    is_whole,
    runs_with,
)
from blklab.md.availability import is_past_redundancy as is_broken
from blklab.md.levels import PARITIES
from blklab.md.model import NOT_IN_TEXT, Array, ArrayMember, Software
from blklab.md.recipes import assemble_again
from blklab.md.superblocks import Superblock

FEW_EVENTS = 100  # So far behind, a member lacks some seconds of writes
FEW_SECONDS = 600


def check_cannot_run(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Too few members of an array are there and current: md does not start it."""
    availability = find_availability(array)
    # While an array runs, md counts the disks that a reshape adds as spares, too.
    runs = array.live and array.state not in {"inactive", "clear", ""}
    if runs or array.external or availability.can_run is not False or is_broken(array):
        return
    if array.level in NEED_ALL:
        message, lines = explain_dead(array, availability.missing)
        yield Diagnostic("cannot-run", "critical", array.name, message, lines)
        return
    member_count = len(availability.current) + len(array.absent)
    verb = "is" if member_count == 1 else "are"
    facts = [
        f"cannot run: {member_count} of {array.raid_disks} members {verb} there and current, "
        f"{level_text(array.level)} {_survives_text(array)}",
        *_describe_members(array, availability),
        *describe_covered(array),
    ]
    yield Diagnostic("cannot-run", "critical", array.name, ". ".join(facts), tuple(_force_lines(array, availability)))


def explain_dead(array: Array, missing: Collection[int]) -> tuple[str, tuple[str, ...]]:
    """Returns what a missing member means for an array without redundancy, and what helps, in words.

    RAID-0 has a part of nearly every file on each member; linear has its members one after the other.
    """
    count = array.raid_disks - len(missing)
    verb = "is" if count == 1 else "are"
    plural = "s" if len(missing) > 1 else ""
    slots = list_names([str(slot) for slot in sorted(missing)], 12)
    message = (
        f"is dead: {level_text(array.level)} has no redundancy, and {count} of {array.raid_disks} members {verb} "
        f"there. Without slot{plural} {slots}, it does not start, and no other member has the data of this slot"
    )
    if array.level == "raid0":
        rest = "# Without it, only files smaller than a chunk may be whole: restore the backup to a new array."
    else:
        rest = (
            "# Without it, what is on the other members may be readable: copy them first, then search them for files."
        )
    lines = (
        f"# Find the disk of slot{plural} {slots} first: power, cable, controller, another machine.",
        "# If it has read errors, copy it with ddrescue, and assemble the array with the copy.",
        rest,
        "# Do not use --create or --add: they overwrite what says where the data are.",
    )
    return message, lines


def check_dropped(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Members dropped out at nearly the same time: superblocks with the same event count disagree on who works."""
    availability = find_availability(array)
    written = [member for member in availability.current if member.superblock]
    runs = array.live and array.state != "inactive"
    if runs or not array.redundant or not availability.can_run or not written:
        return
    # Of those written in the same second, the one that counts fewer members as working was written later.
    last = max(written, key=lambda member: (_moment(member), -_count_present(member)))
    newest = last.superblock
    if newest is None:
        return
    working = {slot for slot, is_present in enumerate(newest.present) if is_present}
    if runs_with(array, working | set(array.absent)) is not False:
        return
    dropped = [member for member in array.distinct if member.slot is not None and member.slot not in working]
    together = [member for member in dropped if newest.updated - _moment(member)[0] <= FEW_SECONDS and is_whole(member)]
    slots = list_names([str(slot) for slot in sorted(working)])
    facts = [
        f"cannot run as it is: the superblock that was written last ({last.name}, {moment_text(newest.updated)}) "
        f"counts only slots {slots} as working, and {level_text(array.level)} {_survives_text(array)}"
    ]
    if together:
        seconds = newest.updated - min(_moment(member)[0] for member in together)
        names = list_names([member.name for member in together])
        facts.append(
            f"{names} dropped out within {seconds:,} s before it: one cause is likely (power, cable, controller), and "
            "little is lost"
        )
    for member in dropped:
        superblock = member.superblock
        if superblock is None or member in together:
            continue
        facts.append(f"Not current: {_describe_member(member, newest.events)}")
        if superblock.events >= newest.events - 1 and superblock.recovery_offset is None:
            facts.append(
                f"{member.name} has the newest event count, but its data are old: `--assemble --force` raises the "
                "count of a member that is behind. Do not use it"
            )
    yield Diagnostic("cannot-run", "critical", array.name, ". ".join(facts), tuple(_dropped_lines(array, working)))


def _moment(member: ArrayMember) -> tuple[int, int]:
    """Returns when the superblock of a member was written, and its event count."""
    superblock = member.superblock
    return (superblock.updated, superblock.events) if superblock else (0, 0)


def _count_present(member: ArrayMember) -> int:
    return sum(member.superblock.present) if member.superblock else 0


def _dropped_lines(array: Array, working: set[int]) -> Iterator[str]:
    """Yields what helps an array whose members dropped out: in words, because nothing of it is safe enough."""
    yield "# Do not use --add, --re-add or --create: they overwrite the superblocks that are needed."
    members = [member for member in array.distinct if member.slot in working]
    others = [member for member in array.distinct if member.slot is not None and member.slot not in working]
    oldest = None
    for member in sorted(filter(is_whole, others), key=_moment, reverse=True):
        slots = {chosen.slot for chosen in members if chosen.slot is not None} | set(array.absent)
        if runs_with(array, slots) and oldest is not None and _moment(member)[0] < oldest:
            break
        members.append(member)
        oldest = _moment(member)[0]
    names = list_names([member.name for member in sorted(members, key=lambda member: member.slot or 0)], 12)
    yield "# First correct the cause. Copy the superblocks of all members, or work on overlays of the disks."
    if array.reshaping:
        yield "# Danger: a reshape is not finished. Ask on the linux-raid list before you force it."
        return
    if array.absent:
        absent_slots = list_names([str(slot) for slot in array.absent])
        names += f", together with the member of slot {absent_slots}, which is not here"
    yield f"# Then `mdadm --assemble --force` can start it with the members that were written last: {names}."
    yield "# If someone used --create, do not force it. Then check the filesystem without writing to it (fsck -n)."


def check_inactive(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The array is assembled and does not run, although its members may be enough."""
    if not array.live or array.state != "inactive" or array.external:
        return
    availability = find_availability(array)
    if availability.can_run is False:
        return  # check_cannot_run reports it
    message = "is assembled and does not run"
    if lacks_journal(array) and availability.can_run:
        waiting, commands = describe_waiting(array)
        yield make_finding(array, "critical", "inactive", message + waiting, *commands)
        return
    if is_dirty_and_degraded(array, availability) and not array.reshaping:
        slots = list_names([str(slot) for slot in availability.missing])
        message += (
            f": slot {slots} has no current member{_last_known_text(array, availability)}, and it was not shut down, "
            "so the parity of some stripes may be old: md refuses it (`cannot start dirty degraded array`). The other "
            "members have all other data"
        )
        yield make_finding(array, "critical", "inactive", message, *_dirty_lines())
        return
    unseen_paths = [member.path for member in array.members if member.unseen == NOT_IN_TEXT]
    if availability.can_run is None and unseen_paths:
        message += ": whether its members are enough is not known, because the text does not show all superblocks"
        yield make_finding(array, "critical", "inactive", message, command_lines.examine_disks(unseen_paths))
        return
    if availability.can_run is None:
        message += ": whether its members are enough is not known, because blklab could not read all superblocks"
    elif availability.missing:
        slots = list_names([str(slot) for slot in availability.missing])
        plural = "s" if availability.missing[1:] else ""
        message += f": it waits for slot{plural} {slots}{_last_known_text(array, availability)}"
        message += (
            ". The other members are enough, but mdadm --incremental waits for all members that were there before"
        )
        if array.bitmap:
            message += ". It has a bitmap: a member that comes back gets only what changed since"
    else:
        message += ", although all members are there: dmesg says why md did not start it"
    if array.reshaping and availability.missing:
        look = "# Look for the missing disk first: power, cables, controller. A reshape should not go on without it."
        yield make_finding(array, "critical", "inactive", message, look)
        return
    yield make_finding(array, "critical", "inactive", message, *assemble_again(array))


def is_dirty_and_degraded(array: Array, availability: Availability) -> bool:
    """Whether md refuses to start an array with parity: members are missing, and it was not shut down (raid5_run)."""
    dirty = [
        member for member in availability.current if member.superblock and member.superblock.resync_offset is not None
    ]
    return array.level in PARITIES and bool(availability.missing) and bool(dirty) and not array.absent


def _dirty_lines() -> Iterator[str]:
    """Yields what helps an array that is dirty and degraded, in words."""
    yield "# If the missing disk works, connect it first: with all members, md resyncs the array and starts it."
    yield "# Without it, `mdadm --assemble --force` starts it. What was being written then may be damaged."
    yield "# First copy the superblocks of all members, or work on overlays: `blklab md rescue` shows how."
    yield "# Then check the filesystem without writing to it (fsck -n)."


def _survives_text(array: Array) -> str:
    max_failures = count_tolerated(array)
    if not max_failures:
        return "survives no loss"
    least = "at least " if array.level == "raid10" else ""
    return f"survives the loss of {least}{max_failures}"


def _describe_members(array: Array, availability: Availability) -> Iterator[str]:
    """Yields sentences: who is behind, which slots have no member, and what is outside of the array."""
    newest = availability.newest
    # The kernel may know a current member whose superblock is not there any more
    dates = [member.superblock.updated for member in availability.current if member.superblock]
    if dates:
        yield f"The current members have {newest:,} events, last written {moment_text(max(dates))}"
    if availability.stale:
        yield "Not current: " + list_names([_describe_member(member, newest) for member in availability.stale])
    if availability.vacant:
        plural = "s" if availability.vacant[1:] else ""
        verb = "have" if availability.vacant[1:] else "has"
        yield f"Slot{plural} {list_names([str(slot) for slot in availability.vacant])} {verb} no member"
    outside_members = [member for member in array.outside if member.superblock and member.superblock.slot is not None]
    if outside_members:
        names = list_names([_describe_member(member, newest) for member in outside_members])
        yield (
            f"Removed members are outside of it: {names}. Use them with --assemble --force, not --add: "
            "--add overwrites their role"
        )


def describe_covered(array: Array) -> Iterator[str]:
    """Yields a sentence without a full stop on disks that may be members without a superblock."""
    if array.covered:
        have = "has a partition table" if len(array.covered) == 1 else "have a partition table"
        yield (
            f"{list_names(list(array.covered), 24)} {have} and no superblock, and other members are whole disks: the "
            "table may have overwritten superblocks of members (a partitioning tool, or the firmware of the board). "
            "Their data are probably there: `blklab md rescue --try-orders` searches for the order, and only reads"
        )


def _describe_member(member: ArrayMember, newest: int) -> str:
    superblock = member.superblock
    if superblock is None:
        return f"{member.name} (its superblock could not be read)"
    name = f"{member.name} (slot {superblock.slot}"
    if not superblock.accepted:
        return f"{name}, its superblock is refused)"
    if superblock.recovery_offset is not None:
        return f"{name}, rebuilt only up to sector {superblock.recovery_offset:,})"
    if "spare" in member.states:
        return f"{name}, a spare that was never complete)"
    behind = newest - superblock.events
    gap = f", {behind:,} behind" if behind > 0 else ""
    return f"{name}, {superblock.events:,} events{gap}, last written {moment_text(superblock.updated)})"


def _last_known_text(array: Array, availability: Availability) -> str:
    """Returns where the members of the missing slots are: outside of the array, in it and behind, or not seen."""
    locations = []
    seen_slots = set()
    for member in (*availability.stale, *array.outside):
        if member.superblock is None or member.superblock.slot not in availability.missing:
            continue
        seen_slots.add(member.superblock.slot)
        disk = f"{member.path}, {member.id}" if member.id else member.path
        locations.append(
            f"slot {member.superblock.slot} was last on {disk}, written {moment_text(member.superblock.updated)}"
        )
    unseen_slots = [str(slot) for slot in availability.missing if slot not in seen_slots]
    if unseen_slots:
        locations.append(f"blklab sees no disk of slot {list_names(unseen_slots)}")
    return f" ({'; '.join(locations)})"


def _force_lines(array: Array, availability: Availability) -> Iterator[str]:
    """Yields what helps an array that cannot run, in words: nothing of it is safe enough for a command."""
    yield "# Do not use --add, --re-add or --create: they overwrite the superblocks that are needed."
    members = choose_members_to_force(array)
    if not members:
        slots = list_names([str(slot) for slot in availability.missing])
        yield f"# All known members together are not enough: find the disks of slots {slots} first (cable, controller)."
        return
    if array.live:
        yield "# `mdadm --assemble --scan` will fail again, because too few members are current."
    names = list_names([member.name for member in members], 12)
    yield "# First copy the superblocks of all members (the first and last 128 KiB), or work on overlays of the disks."
    yield f"# Then `mdadm --assemble --force` can start it with the freshest members that it needs: {names}."
    yield f"# {_danger_text(array, availability, members)}"
    yield "# If someone used --create, do not force it. Then check the filesystem without writing to it (fsck -n)."


def _danger_text(array: Array, availability: Availability, members: tuple[ArrayMember, ...]) -> str:
    """Returns what is lost by forcing members that are behind."""
    superblocks = [member.superblock for member in members if member.superblock]
    events = max(availability.newest, *(superblock.events for superblock in superblocks))
    current = [member.superblock for member in availability.current if member.superblock]
    latest = max(superblock.updated for superblock in (*superblocks, *current))
    behind = events - min(superblock.events for superblock in superblocks)
    seconds = latest - min(superblock.updated for superblock in superblocks)
    if array.reshaping:
        return "Danger: a reshape is not finished. Ask on the linux-raid list before you force it."
    # With parity, nothing is written once too many members are gone, however late superblocks are.
    is_short = seconds <= FEW_SECONDS or not _could_run_without(array, availability, superblocks)
    if behind <= FEW_EVENTS and is_short:
        return f"{behind:,} events are little: the data are probably not lost yet, only what was being written then."
    return (
        f"Danger: the oldest of them is {behind:,} events and {seconds:,} s behind: "
        "what was written since is lost, or mixed with older data."
    )


def _could_run_without(array: Array, availability: Availability, superblocks: Sequence[Superblock]) -> bool:
    """Whether an array could still be written to after its members that are behind left, as the first one saw it."""
    behind = [superblock for superblock in superblocks if superblock.events < availability.newest - 1]
    if array.level not in PARITIES or not behind:
        return True
    first = min(behind, key=lambda superblock: superblock.events)
    slots = {slot for slot, is_present in enumerate(first.present) if is_present}
    return runs_with(array, slots - {superblock.slot for superblock in behind}) is not False
