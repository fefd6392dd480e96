"""Rules about arrays that are not assembled: those of mdadm.conf, and those of members that lie on the host's disks."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import list_names
from blklab.md.audit.write_journal import find_journals, has_journal
from blklab.md.availability import runs_with
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, Inventory, ListedArray

EVENTS_ACCEPTED = 1  # Events that md accepts a member to be behind (drivers/md/md.c, `super_1_validate`)
CREATE_NOTHING = "# Do not create the array again, and add no disk to it: both overwrite what is needed to assemble it."


def check_absent(inventory: Inventory) -> Iterator[Diagnostic]:
    """Reports arrays that are not assembled: those of members on the disks, and those of mdadm.conf."""
    for array in inventory.unassembled:
        yield _judge_members(array, inventory)
    if inventory.software is None:
        return  # images
    arrays = (*inventory.arrays, *inventory.unassembled)
    for line in dict.fromkeys(inventory.listed):
        if not line.ignored and not any(line.describes(array) for array in arrays):
            yield _judge_line(line, inventory)


def _judge_members(array: Array, inventory: Inventory) -> Diagnostic:
    """Returns the finding about an array whose members are on the disks.

    `absent`: An array of mdadm.conf, or one whose members are on the disks, is not assembled.

    `not-assembled`: A member of an array lies on this host; the array is not in mdadm.conf, and the others are missing.

    `old-superblock`: An array is not assembled, and need not be: mdadm.conf ignores it, only a spare of it is there,
    its disks are in use as something else, or they are logical volumes, perhaps of a virtual machine.
    """
    lines = [line for line in inventory.listed if line.describes(array)]
    active_lines = [line for line in lines if not line.ignored]
    slots = {member.slot for member in array.members if member.slot is not None}
    in_use = [member for member in array.members if member.users]
    about = f"is not assembled ({_describe_array(array)})"
    if lines and not active_lines:
        files = list_names(list(dict.fromkeys(line.file for line in lines)))
        message = f"{about}, because {files} says `ARRAY <ignore>`: {_describe_members(array)}"
        return Diagnostic("old-superblock", "note", array.name, message)
    if len(in_use) == len(array.members) and not active_lines:
        message = (
            f"a superblock of {_describe_array(array)} is on {_describe_uses(in_use)}: it may be left from earlier"
        )
        return Diagnostic("old-superblock", "note", array.name, message)
    if not active_lines and all(member.logical_volume for member in array.members):
        names = list_names([member.path for member in array.members])
        message = f"{about}; its members are logical volumes ({names}): it may be an array of a virtual machine"
        return Diagnostic("old-superblock", "note", array.name, message)
    if not slots and not active_lines:
        message = f"{about}; this host has only a spare of it: {list_names([member.path for member in array.members])}"
        return Diagnostic("old-superblock", "note", array.name, message)
    facts = f"{_describe_members(array)}. {_describe_chance(array)}"
    if not active_lines and len(slots) == 1 and array.raid_disks > 1:
        why = "mdadm.conf does not list it, and its other members are not here: the disk may be left from earlier use"
        advice = "# If it is not, look for the disks of its other members before you use this one."
        return Diagnostic("not-assembled", "warning", array.name, f"{about}: {why}. {facts}", (advice,))
    why = f"{active_lines[0].file} lists it" if active_lines else "mdadm.conf does not list it"
    remedy = tuple(_advise(array, inventory, bool(active_lines)))
    return Diagnostic("absent", "critical", array.name, f"{about}: {why}. {facts}", remedy)


def _judge_line(line: ListedArray, inventory: Inventory) -> Diagnostic:
    """Returns the finding about an array of mdadm.conf of which no member was found.

    `absent`: An array of mdadm.conf, or one whose members are on the disks, is not assembled.
    """
    name = line.short_name or line.uuid[:8]
    uuid = f" (UUID {line.uuid})" if line.uuid else ""
    message = f"is not assembled{uuid}: {line.file} lists it, and no unused disk of this host has a member of it"
    if inventory.unread:
        message += "; some disks could not be read"
    unknown = [array.name for array in inventory.arrays if not array.uuid and not array.external]
    if line.uuid and unknown:
        message += f"; the UUID of {list_names(unknown)} could not be read: it may be this array"
        return Diagnostic("absent", "warning", name, message)
    advice = (
        "# Look for its disks: power, cables, controller, and whether the kernel lists them (lsblk, dmesg).",
        "# If the array was retired, remove its ARRAY line.",
    )
    return Diagnostic("absent", "critical", name, message, advice)


def _describe_array(array: Array) -> str:
    return f"{array.level} of {array.raid_disks}, UUID {array.uuid}"


def _describe_uses(members: Sequence[ArrayMember]) -> str:
    return list_names([f"{member.path} ({member.users[0]})" for member in members])


def _describe_members(array: Array) -> str:
    """Returns which members are on the disks, how far behind, and which slots have none."""
    newest = _newest_events(array)
    members = [member for member in array.members if member.slot is not None]
    slots = {member.slot for member in members}
    parts = [_describe_member(member, newest) for member in members]
    spares = [member.path for member in array.members if member.slot is None]
    text = f"{len(slots)} of its {array.raid_disks} members are on this host: {list_names(parts, 8)}"
    if spares:
        text += f"; without a slot: {list_names(spares)}"
    missing = [str(slot) for slot in range(array.raid_disks) if slot not in slots]
    if missing:
        text += f"; none has slot {list_names(missing)}"
    return text


def _describe_member(member: ArrayMember, newest: int) -> str:
    superblock = member.superblock
    text = f"{member.path} (slot {member.slot}"
    if superblock is None:
        return text + ")"
    if not superblock.accepted:
        text += ", its superblock is damaged"
    elif superblock.events < newest:
        behind = newest - superblock.events
        plural = "" if behind == 1 else "s"
        text += f", {behind:,} event{plural} behind, written {_format_time(superblock.updated)}"
    else:
        text += f", current, {superblock.events:,} events, written {_format_time(superblock.updated)}"
    if superblock.recovery_offset is not None:
        text += ", rebuilt in part"
    if member.users:
        text += f", {member.users[0]}"
    return text + ")"


def _format_time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


def _newest_events(array: Array) -> int:
    superblocks = [member.superblock for member in array.members if member.superblock and member.superblock.accepted]
    return max((superblock.events for superblock in superblocks if superblock.slot is not None), default=0)


def _free_slots(array: Array, most_behind: int | None) -> set[int]:
    """Returns the slots with a complete member that nothing else uses, at most so many events behind; None: any."""
    newest = _newest_events(array)
    slots = set()
    for member in array.members:
        superblock = member.superblock
        if superblock is None or superblock.slot is None or not superblock.accepted or member.users:
            continue
        behind = newest - superblock.events
        if superblock.recovery_offset is None and (most_behind is None or behind <= most_behind):
            slots.add(superblock.slot)
    return slots


def _is_dirty(array: Array) -> bool:
    return any(member.superblock and member.superblock.resync_offset is not None for member in array.members)


def _refuses_to_start(array: Array, slots: set[int]) -> bool:
    """Whether md refuses to start it: parity of an array that was not shut down, without all members (raid5_run)."""
    return array.level in PARITIES and _is_dirty(array) and len(slots) < array.raid_disks


def _needs_journal(array: Array) -> bool:
    """Whether an array has a write journal that is not among the members, or that mdadm refuses."""
    if not has_journal(array):
        return False
    journals = [member.superblock for member in find_journals(array) if member.superblock]
    newest = _newest_events(array)
    return not any(journal.accepted and journal.events >= newest - EVENTS_ACCEPTED for journal in journals)


def _describe_chance(array: Array) -> str:
    """Returns whether the members suffice to run."""
    current = _free_slots(array, EVENTS_ACCEPTED)
    count = f"{len(current)} of {array.raid_disks}"
    if not runs_with(array, current):
        text = f"The current members do not suffice to run it ({count})"
        if runs_with(array, _free_slots(array, None)):
            text += "; with those that are behind, they would"
        return text
    if _refuses_to_start(array, current):
        return (
            f"The current members have all data ({count}), but it was not shut down, so md does not start it degraded"
        )
    if _needs_journal(array):
        return (
            f"The members are current ({count}), but its write journal, which may have the newest writes, is not on "
            "this host or is behind: mdadm does not start it without"
        )
    if len(current) < array.raid_disks:
        return f"The current members suffice to run it degraded ({count})"
    return "All members are current: it can run"


def _advise(array: Array, inventory: Inventory, is_expected: bool) -> Iterator[str]:
    """Yields what to do. The only command is that which md itself checks; the rest are words."""
    current = _free_slots(array, EVENTS_ACCEPTED)
    if array.reshaping:
        yield "# A reshape was not finished: it may need the backup file of that. Keep all its disks as they are."
    elif runs_with(array, current) and not (_refuses_to_start(array, current) or _needs_journal(array)):
        if len(current) < array.raid_disks:
            yield "# If a disk is missing, connect it first; otherwise the array starts degraded."
        # With ARRAY lines, --scan assembles these only (mdadm(8), Auto-Assembly).
        if not is_expected and any(not line.ignored for line in inventory.listed):
            yield f"# Add this line to mdadm.conf: ARRAY /dev/md/NAME UUID={array.uuid}"
        yield command_lines.assemble_all()
        return
    yield "# Look for the missing disks first: power, cables, controller, and what the kernel says of them (dmesg)."
    yield "# Then copy the superblocks of all members to another disk: the first and the last 128 KiB of each."
    yield (
        "# mdadm can be told to force the assembly with members that are behind or were not shut down. It then takes "
        "the newest members for current, and changes the superblocks of the others."
    )
    yield (
        "# That is dangerous if the array was written to after a member left: what was written since is old on that "
        "member, and files are damaged. Take the members with the most events, and as few others as needed; try it on "
        "copies or overlays of the disks; check the filesystem before anything writes to it."
    )
    yield CREATE_NOTHING
