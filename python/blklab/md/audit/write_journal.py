"""Rules about the write journal of RAID-4, 5 and 6, a device that holds writes until all members have them.

In write-through mode, a write is confirmed when the members have it; in write-back mode, when the journal has it:
Documentation/driver-api/md/raid5-cache.rst, Linux 6.1.
"""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, ArrayMember, Software
from blklab.md.recipes import NEW_DISK, stop_users

EVENTS_BEHIND = 1
"""mdadm refuses a journal that is more events behind the members (md.c, `super_1_validate`; observed)."""

NOT_READ_AGAIN = "md does not read it again: after a restart, mdadm refuses it as stale"


def check_write_journal(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The write journal of an array is missing or has failed: md refuses writes."""
    if not array.live:
        yield from _check_members(array)
        return
    if array.state == "inactive" or not lacks_journal(array):
        return
    failed = find_journals(array)
    current = find_journal_outside(array)
    if failed:
        reason = f"its write journal {list_names([member.name for member in failed])} has failed. {NOT_READ_AGAIN}"
    elif current is not None:
        reason = (
            f"its write journal {current.path} is not in it, although it is current and has the newest writes. "
            "Assemble the array with it, and add no new journal"
        )
    else:
        reason = (
            f"its write journal is missing{_describe_stale(array)}. The journal may hold the newest writes: if its "
            "disk still works, connect it, stop the array and assemble it with all disks"
        )
    refusal = "refuses every write" if array.state in {"readonly", "read-auto"} else "writes to it fail"
    commands = _assemble_with(array, current) if current is not None else _do_without(array, failed)
    yield make_finding(array, "critical", "journal-missing", f"{refusal}: {reason}", *commands)


def _check_members(array: Array) -> Iterator[Diagnostic]:
    """Yields what is wrong with the journal of an array that is only known by the superblocks of its members."""
    if not has_journal(array):
        return
    events = [member.superblock.events for member in array.members if member.superblock and member.slot is not None]
    newest = max(events, default=0)
    journals = find_journals(array)
    behind = [newest - member.superblock.events for member in journals if member.superblock]
    if not journals:
        message = (
            "has a write journal, which is not among these members: it may hold the newest writes, and mdadm does not "
            "start the array without it. Find its disk (`Device Role : Journal` in mdadm --examine)"
        )
    elif behind and min(behind) > EVENTS_BEHIND:
        names = list_names([member.name for member in journals])
        message = (
            f"its write journal {names} is {min(behind):,} events behind the members: mdadm refuses it as stale. "
            "Another device may be the present journal: look for it"
        )
    else:
        return
    lines = (
        "# Name the journal's disk with the members: `mdadm --assemble`, and the names of all its disks.",
        "# Only if it is really lost: `mdadm --assemble --force` starts the array read-only, without what only the "
        "journal has.",
    )
    yield Diagnostic("journal-missing", "critical", array.name, message, lines)


def _describe_stale(array: Array) -> str:
    stale = [member.path for member in array.outside if _is_journal(member)]
    return f" ({list_names(stale)} was the journal, and is too many events behind)" if stale else ""


def _assemble_with(array: Array, journal: ArrayMember) -> tuple[str, ...]:
    """Returns how to assemble an array with its journal, whose writes md replays then."""
    if journal.users:
        return (f"# {journal.path} is in use: {journal.users[0]}.",)
    disks = [member.path for member in array.members if "faulty" not in member.states]
    return (
        "# md replays the journal when the array starts: no write is lost.",
        *stop_users(array),
        command_lines.stop_array(array.path),
        command_lines.assemble_array(array.path, [*disks, journal.path]),
    )


def _do_without(array: Array, failed: list[ArrayMember]) -> tuple[str, ...]:
    """Returns how to give up a journal, and to have a new one or none; only words while members are missing too."""
    loss = (
        "# What only the journal held is lost: with write-back (journal_mode), writes that were confirmed; with "
        "write-through, only writes that were not."
    )
    if array.degraded or array.reshaping:
        return (
            loss,
            "# The array is not complete. Without the journal, stripes that were being written are damaged: "
            "copy the data first, and read them (the array is readable).",
        )
    lines = [] if failed else ["# Only if the journal's disk is really lost. Look for it first."]
    lines.append(loss)
    if array.state != "readonly":
        lines += [*stop_users(array), command_lines.make_read_only(array.path)]
    lines += [command_lines.remove_disk(array.path, member.path) for member in failed]
    lines += [
        f"# With a new journal; {NEW_DISK} is an empty disk, by its name in /dev/disk/by-id, not the old journal:",
        command_lines.add_journal(array.path, NEW_DISK),
        "# Or without a journal:",
        command_lines.give_up_journal(array.name),
        command_lines.make_writable(array.path),
        "# Then check the filesystem, and compare the parity with the data (mdadm --action=check).",
    ]
    return tuple(lines)


def describe_waiting(array: Array) -> tuple[str, tuple[str, ...]]:
    """Returns what an inactive array waits for that lacks its journal, for the end of a sentence, and what to do."""
    current = find_journal_outside(array)
    if current is not None:
        return f": it waits for its write journal, {current.path}, which is there", _assemble_with(array, current)
    text = (
        f": it waits for its write journal{_describe_stale(array)}. The journal may hold the newest writes, so mdadm "
        "does not start the array without it"
    )
    lines = (
        "# Look for the journal's disk: power, cable, controller. When it appears, mdadm starts the array.",
        "# Only if it is really lost: `mdadm --assemble --force` starts the array read-only. Run the audit then.",
    )
    return text, lines


def lacks_journal(array: Array) -> bool:
    """Whether an array was made with a write journal and has none that works."""
    return has_journal(array) and all("faulty" in member.states for member in find_journals(array))


def has_journal(array: Array) -> bool:
    """Whether the array was made with a write journal."""
    return array.consistency == "journal" or any(
        member.superblock is not None and member.superblock.journal for member in array.members
    )


def find_journals(array: Array) -> list[ArrayMember]:
    """Returns the members that are write journals."""
    return [member for member in array.members if "journal" in member.states or _is_journal(member)]


def find_journal_outside(array: Array) -> ArrayMember | None:
    """Returns the array's journal that is on this host and not in it, if mdadm would take it."""
    events = [member.superblock.events for member in array.members if member.superblock and member.slot is not None]
    for member in array.outside:
        superblock = member.superblock
        is_accepted = superblock is not None and superblock.accepted and _is_journal(member)
        if superblock and is_accepted and superblock.events >= max(events, default=0) - EVENTS_BEHIND:
            return member
    return None


def _is_journal(member: ArrayMember) -> bool:
    return member.superblock is not None and member.superblock.role == "journal"
