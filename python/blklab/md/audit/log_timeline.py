"""The timeline of an array: what the kernel logged about it and its disks, repeated messages in one line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from blklab.md.audit.rule import list_names, moment_text
from blklab.md.levels import PARITIES
from blklab.md.log_events import EventKind, LogEvent, find_disk_name
from blklab.md.model import FIELDS_NOT_IN_TEXT, Array, ArrayMember, Inventory, merge_ranges
from blklab.md.superblocks import SectorRange

MOST_LINES = 8
MOST_NAMES = 64  # Arrays that only a log names
MOST_SECTORS = 256  # Of one line, that are mapped to the array
STRIPE_SECTORS = 8  # What md corrects at once (drivers/md/raid5.c)
SECTOR_BYTES = 512

CONTEXT = frozenset(
    {
        *(EventKind.MEMBER, EventKind.STARTED, EventKind.CONTINUING, EventKind.SYNC_STARTED, EventKind.SYNC_DONE),
        EventKind.LINK_UP,
    }
)
"""Kinds that are no trouble alone."""

LEAST_WORTH = 9
WORTH = {  # Which lines are left out first, if there are too many: those with the largest number
    EventKind.DISABLED: 0, EventKind.NON_FRESH: 0, EventKind.VANISHED: 0, EventKind.READ_LOST: 0,
    EventKind.DIRTY_DEGRADED: 0, EventKind.TOO_FEW: 0, EventKind.TOO_MANY_ERRORS: 1, EventKind.WRITE_FAILED: 1,
    EventKind.SUPERBLOCK_UNWRITTEN: 1, EventKind.MEDIUM_ERROR: 1, EventKind.TRANSFER_ERROR: 1, EventKind.LINK_UP: 1,
    EventKind.LINK_LIMITED: 1, EventKind.RESET: 1, EventKind.TIMED_OUT: 1, EventKind.HUNG: 1, EventKind.REJECTED: 1,
    EventKind.READ_CORRECTED: 1, EventKind.BITMAP: 2, EventKind.NOT_CLEAN: 2, EventKind.NOT_STARTED: 2,
    EventKind.IO_ERROR: 2, EventKind.DISK_ERROR: 2, EventKind.SYNC_INTERRUPTED: 2, EventKind.STARTED: 3,
    EventKind.SYNC_STARTED: 3, EventKind.SYNC_DONE: 3, EventKind.READ_FAILED: 4, EventKind.READ_REDIRECTED: 5,
}  # fmt: skip


@dataclass(frozen=True)
class LogSubject:
    """An array, as the log knows it."""

    name: str
    names: frozenset[str]  # The kernel's names of it
    devices: frozenset[str]  # Names of its members
    disks: frozenset[str]  # Names of their disks, and of controllers of NVMe
    array: Array | None = None  # None if only the log shows it
    slots: dict[str, int] = field(default_factory=dict)  # By member, as the log has them

    def has(self, event: LogEvent) -> bool:
        """Whether an event is about this array or a disk of it."""
        if event.array:
            return event.array in self.names
        return event.device in self.devices or event.device in self.disks

    def find_members(self, device: str) -> list[ArrayMember]:
        """Returns the members with a name, or on the disk with this name, with the slots in their superblocks."""
        if self.array is None:
            return []
        members = [*self.array.members, *self.array.outside]
        same = [member for member in members if member.name == device]
        return [self._with_slot(member) for member in same or members if same or _disk_of(member) == device]

    def _with_slot(self, member: ArrayMember) -> ArrayMember:
        superblock = member.superblock
        slot = member.slot
        offset = member.data_offset
        if superblock is not None:
            slot = superblock.slot if slot is None else slot
        if superblock is not None and member.unseen != FIELDS_NOT_IN_TEXT:
            offset = superblock.data_offset if offset is None else offset
        return replace(member, slot=self.slots.get(member.name) if slot is None else slot, data_offset=offset)


def _disk_of(member: ArrayMember) -> str:
    return member.disk or find_disk_name(member.name)


def find_subjects(inventory: Inventory) -> list[LogSubject]:
    """Returns the arrays of an inventory, and of a text also those that only its log names."""
    arrays = [array for array in (*inventory.arrays, *inventory.unassembled) if not array.is_container]
    known = {array.name for array in arrays}
    devices: dict[str, set[str]] = {}
    slots: dict[str, dict[str, int]] = {}
    for event in inventory.log:
        if event.array:
            names = devices.setdefault(event.array, set())
            if event.device:
                names.add(event.device)
            if event.kind is EventKind.MEMBER and event.device and event.number is not None:
                slots.setdefault(event.array, {})[event.device] = event.number
    others = {name: names for name, names in devices.items() if name not in known}
    subjects = []
    for array in arrays:
        own = {member.name for member in (*array.members, *array.outside)}
        aliases = {name for name, names in others.items() if names & own}
        if len(arrays) == len(others) == 1 and not devices.keys() & known:
            aliases = set(others)
        subjects.append(_make_subject(array.name, {array.name, *aliases}, devices, slots, array))
    log_arrays = inventory.log_arrays if inventory.limited else frozenset(others)
    if inventory.limited or inventory.software is None:
        taken: set[str] = set()
        for subject in subjects:
            taken |= subject.names
        log_names = [name for name in others if name in log_arrays and name not in taken]
        subjects += [_make_subject(name, {name}, devices, slots, None) for name in log_names[:MOST_NAMES]]
    return subjects


def _make_subject(
    name: str, names: set[str], devices: dict[str, set[str]], slots: dict[str, dict[str, int]], array: Array | None
) -> LogSubject:
    """Returns an array with the devices that it has, or had according to the log."""
    own: set[str] = set()
    own_slots: dict[str, int] = {}
    disks: set[str] = set()
    for other in sorted(names):
        own |= devices.get(other, set())
        own_slots |= slots.get(other, {})
    for device in own:
        disks.add(find_disk_name(device))
    if array is not None:
        for member in (*array.members, *array.outside):
            own.add(member.name)
            disks.add(_disk_of(member))
    for disk in list(disks):
        controller = re.match(r"nvme\d+(?=n)", disk, re.A)
        if controller:
            disks.add(controller[0])
    return LogSubject(name, frozenset(names), frozenset(own), frozenset(disks), array, own_slots)


# --- sectors -------------------------------------------------------------------------------------


def count_sectors(event: LogEvent) -> int:
    """Returns how many sectors a message is about."""
    if event.kind in {EventKind.READ_CORRECTED, EventKind.WRITE_FAILED}:
        return event.number or 1
    return STRIPE_SECTORS if event.kind is EventKind.READ_LOST else 1


def map_sectors(subject: LogSubject, event: LogEvent) -> tuple[SectorRange, ...] | None:
    """Returns the array's sectors that a message is about; empty for parity; None if they are not known."""
    array = subject.array
    if event.sector is None or event.of_array or array is None:
        return None
    for member in subject.find_members(event.device):
        sector = event.sector
        if member.name != event.device:  # A partition of this disk
            if member.start is None or member.size is None:
                continue
            sector -= member.start // SECTOR_BYTES
            if not 0 <= sector < member.size // SECTOR_BYTES:
                continue
        if member.data_offset is not None and sector < member.data_offset:
            return None  # Before the data: the superblock or the bitmap
        return array.array_ranges(member, SectorRange(sector, count_sectors(event)))
    return None


def describe_sectors(subject: LogSubject, events: Sequence[LogEvent], *, with_device: bool = True) -> str:
    """Returns the sectors of the same message, and where they are on the array; empty if there are none."""
    firsts = sorted({event.sector for event in events if event.sector is not None})
    if not firsts:
        return ""
    owner = f" of {events[0].device}" if with_device else ""
    if events[0].of_array:
        owner = " of the array"
    text = f"sector {firsts[0]}{owner}"
    if firsts[1:]:
        text = f"{len(firsts)} sectors{owner} from {firsts[0]} to {firsts[-1]}"
    by_sector = {event.sector: event for event in events}
    ranges: list[SectorRange] = []
    unknown = 0
    for sector in firsts[:MOST_SECTORS]:
        pieces = map_sectors(subject, by_sector[sector])
        if pieces is None:
            unknown += 1
        else:
            ranges += pieces
    if unknown or len(firsts) > MOST_SECTORS:
        return text
    merged = merge_ranges(tuple(ranges))
    if merged:
        return f"{text} = array {list_names([str(part) for part in merged], 3)}"
    is_parity = subject.array is not None and subject.array.level in PARITIES
    return f"{text}, which holds parity" if is_parity else text


# --- lines ---------------------------------------------------------------------------------------


def describe_port(event: LogEvent) -> str:
    """Returns the disk or port of a message: `ata3 (sdc)`."""
    if event.port.startswith("scsi ") and event.device:
        return event.device
    if event.port and event.device:
        return f"{event.port} ({event.device})"
    return event.port or event.device


def describe_speed(megabits: int) -> str:
    """Returns the speed of a link as the kernel writes it."""
    return f"{megabits / 1000:.1f} Gbps"


def draw_timeline(subject: LogSubject, events: Sequence[LogEvent]) -> tuple[str, ...]:
    """Returns at most MOST_LINES lines about the events of an array, and the superblocks of members that are behind."""
    groups = _group_events(events)
    lines = [(_draw_line(subject, group), WORTH.get(group[0].kind, LEAST_WORTH), group[0].clock) for group in groups]
    lines = _with_superblocks(subject, lines)
    if len(lines) <= MOST_LINES:
        return tuple(text for text, _, _ in lines)
    order = sorted(range(len(lines)), key=lambda index: (lines[index][1], index))
    shown = sorted(order[: MOST_LINES - 1])
    rest = len(lines) - len(shown)
    return (*(lines[index][0] for index in shown), f"and {rest} more lines are left out")


def _group_events(events: Sequence[LogEvent]) -> list[list[LogEvent]]:
    """Returns the same messages about the same device together, for each start of the array apart."""
    groups: dict[tuple[object, ...], list[LogEvent]] = {}
    starts = 0
    speeds: dict[str, int] = {}
    for event in events:
        if event.kind in {EventKind.MEMBER, EventKind.CONTINUING}:
            continue
        if event.kind is EventKind.LINK_UP:
            speed = event.number or 0
            is_slower = speed < speeds.get(event.port, 0)
            speeds[event.port] = max(speed, speeds.get(event.port, 0))
            if not is_slower:
                continue
        key = (event.kind, event.device or event.port, event.of_array, event.action, starts)
        groups.setdefault(key, []).append(event)
        if event.kind is EventKind.STARTED:
            starts += 1
    return list(groups.values())


def _draw_line(subject: LogSubject, group: list[LogEvent]) -> str:
    first = group[0]
    text = _describe_event(first)
    sectors = describe_sectors(subject, group, with_device=False)
    if sectors:
        text += f", {sectors}"
    if len(group) > 1:
        last = group[-1].moment
        end = f" until {last}" if last not in {"", first.moment} else ""
        text += f" ({len(group)} times{end})"
    return f"{first.moment} {text}".strip()


def _describe_event(event: LogEvent) -> str:
    """Returns what a message says, in few words."""
    place = describe_port(event)
    if event.kind in OF_ARRAYS:
        return OF_ARRAYS[event.kind]
    if event.kind in OF_DEVICES:
        return f"{place}: {OF_DEVICES[event.kind]}"
    if event.kind in {EventKind.LINK_UP, EventKind.LINK_LIMITED}:
        speed = describe_speed(event.number or 0)
        return (
            f"{place}: link up at only {speed}"
            if event.kind is EventKind.LINK_UP
            else f"{place}: the kernel limited the link to {speed}"
        )
    if event.kind is EventKind.STARTED:
        return f"started with {event.number} of {event.total} members"
    if event.kind is EventKind.TOO_FEW:
        return "too few members" + (f": {event.number} of {event.total} failed" if event.total else "")
    if event.kind is EventKind.HUNG:
        return "a task was blocked" + (f" for more than {event.number} s" if event.number else "")
    if event.kind is EventKind.SUPERBLOCK_UNWRITTEN:
        return "a superblock could not be written" + (f" on {place}" if place else "")
    return _describe_action(event, place)


def _describe_action(event: LogEvent, place: str) -> str:
    """Returns what a message says that has a cause or an action."""
    action = event.action
    match event.kind:
        case EventKind.SYNC_STARTED:
            return f"{action} began"
        case EventKind.SYNC_DONE:
            return f"{action} done"
        case EventKind.SYNC_INTERRUPTED:
            return f"{action} interrupted"
        case EventKind.REJECTED:
            return f"{place} not taken: {action}"
        case EventKind.IO_ERROR:
            return f"{place}: {action} error"
        case EventKind.DISK_ERROR:
            return f"{place}: {action}"
        case EventKind.READ_REDIRECTED:
            return f"read from {place} instead"
    return action


OF_ARRAYS = {
    EventKind.DIRTY_DEGRADED: "not started: dirty and degraded",
    EventKind.NOT_CLEAN: "was not shut down cleanly",
    EventKind.NOT_STARTED: "md did not start it",
}

OF_DEVICES = {
    EventKind.NON_FRESH: "kicked as non-fresh",
    EventKind.READ_CORRECTED: "read error, corrected",
    EventKind.READ_FAILED: "read failed",
    EventKind.READ_LOST: "read error, not correctable",
    EventKind.WRITE_FAILED: "correction of a read error failed",
    EventKind.DISABLED: "disk failure, disabled",
    EventKind.TOO_MANY_ERRORS: "too many read errors",
    EventKind.MEDIUM_ERROR: "medium error",
    EventKind.TIMED_OUT: "a command timed out",
    EventKind.TRANSFER_ERROR: "a transfer had a wrong checksum",
    EventKind.RESET: "reset",
    EventKind.VANISHED: "vanished",
}


Line = tuple[str, int, float | None]  # Text, worth, seconds since 1970 as dates of superblocks are read


def _with_superblocks(subject: LogSubject, lines: list[Line]) -> list[Line]:
    """Returns the lines with those of superblocks that are behind: in order if the log has dates, or last."""
    superblocks = list(_describe_superblocks(subject))
    if all(clock is not None for _, _, clock in lines):
        return sorted([*lines, *superblocks], key=lambda line: line[2] or 0.0)
    return [*lines, *superblocks]


def _describe_superblocks(subject: LogSubject) -> Iterator[Line]:
    for device, behind in sorted(find_behind(subject).items()):
        for member in subject.find_members(device)[:1]:
            if member.superblock is not None:
                moment = moment_text(member.superblock.updated)
                yield (
                    f"{moment} superblock of {device}: last written, {behind:,} events behind",
                    1,
                    float(member.superblock.updated),
                )


def find_behind(subject: LogSubject) -> dict[str, int]:
    """Returns how many events members are behind the newest superblock, by their names; of those that are."""
    if subject.array is None:
        return {}
    events = {}
    for member in (*subject.array.members, *subject.array.outside):
        superblock = member.superblock
        if superblock is not None and superblock.accepted and superblock.role != "spare":
            events[member.name] = superblock.events
    newest = max(events.values(), default=0)
    return {name: newest - count for name, count in events.items() if count < newest - 1}


def find_log_ranges(inventory: Inventory) -> dict[str, tuple[SectorRange, ...]]:
    """Returns the array's sectors with errors in the log, by the name of the array; of at most MOST_SECTORS errors."""
    ranges = {}
    for subject in find_subjects(inventory):
        errors = [event for event in inventory.log if subject.has(event) and event.kind in READ_ERRORS]
        ranges[subject.name] = merge_array_ranges(subject, errors)
    return ranges


READ_ERRORS = frozenset(
    {EventKind.READ_LOST, EventKind.READ_CORRECTED, EventKind.READ_FAILED, EventKind.MEDIUM_ERROR, EventKind.IO_ERROR}
)


def merge_array_ranges(subject: LogSubject, errors: Sequence[LogEvent]) -> tuple[SectorRange, ...]:
    """Returns the array's sectors that messages are about, as far as they are known."""
    pieces: set[SectorRange] = set()
    for event in list({(event.sector, event.device, event.of_array): event for event in errors}.values())[
        -MOST_SECTORS:
    ]:
        if event.of_array and event.sector is not None:
            pieces.add(SectorRange(event.sector, 1))
        else:
            pieces.update(map_sectors(subject, event) or ())
    return merge_ranges(tuple(pieces))
