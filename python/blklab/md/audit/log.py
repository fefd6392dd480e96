"""The rule about the kernel's log: what happened to an array, and what the log says about the cause.

Only causes that the log shows are named.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.md.audit.bad_blocks import find_file_locations
from blklab.md.audit.log_timeline import (
    CONTEXT,
    READ_ERRORS,
    LogSubject,
    describe_port,
    describe_sectors,
    describe_speed,
    draw_timeline,
    find_behind,
    find_subjects,
    merge_array_ranges,
)
from blklab.md.audit.rule import list_names
from blklab.md.audit.smart import check_timeout
from blklab.md.log_events import EventKind, LogEvent, find_disk_name
from blklab.md.model import Inventory

MOST_SENTENCES = 4
MOST_DEVICES = 3  # That get a sentence of their own
MOST_DISKS = 8  # Of no array
VANISH_S = 1.0  # Disks that vanish within this time do so together
UNDECIDED = "messages about it; they do not show a cause"


def check_log(inventory: Inventory) -> Iterator[Diagnostic]:
    """Reports what the kernel logged about arrays.

    `log`: What the kernel logged about the array and its disks, oldest first, and what that means.
    """
    if not inventory.log:
        return
    subjects = find_subjects(inventory)
    names = {event.array for event in inventory.log if event.array}
    is_single = len(subjects) == 1 and names <= subjects[0].names
    taken: set[int] = set()
    for subject in subjects:
        events = []
        for index, event in enumerate(inventory.log):
            is_bare = not event.array and not event.device and not event.port
            if subject.has(event) or (is_bare and is_single):
                events.append(event)
                taken.add(index)
        if has_trouble(events):
            message = describe_log(subject, events, inventory)
            timeline = draw_timeline(subject, events)
            ranges = _find_files(subject, events)
            yield Diagnostic("log", "note", subject.name, message, timeline=timeline, ranges=ranges)
    if inventory.software is not None or inventory.limited:  # A host, or --array
        return
    others = [event for index, event in enumerate(inventory.log) if index not in taken]
    for name, events in list(_group_by_disk(others).items())[:MOST_DISKS]:
        subject = LogSubject("", frozenset(), frozenset({name}), frozenset({name}))
        message = describe_log(subject, events, inventory)
        yield Diagnostic("log", "note", "", message, member=name, timeline=draw_timeline(subject, events))


def _group_by_disk(events: Sequence[LogEvent]) -> dict[str, list[LogEvent]]:
    """Returns the events with trouble of disks, or of ports of ATA whose disk is not known, which no array has."""
    groups: dict[str, list[LogEvent]] = {}
    for event in events:
        name = find_disk_name(event.device)
        if not name and event.port.startswith("ata"):
            name = event.port
        if name and not event.array:
            groups.setdefault(name, []).append(event)
    return {name: group for name, group in groups.items() if has_trouble(group)}


def _find_files(subject: LogSubject, events: Sequence[LogEvent]) -> tuple[dict[str, Any], ...]:
    """Returns the files in sectors with errors, if they were looked for."""
    array = subject.array
    if array is None or array.contents is None:
        return ()
    errors = [event for event in events if event.kind in READ_ERRORS]
    found = []
    for part in merge_array_ranges(subject, errors):
        location = find_file_locations(array, (part,))
        found.append({"member_sector": None, "sectors": part.sectors, **location})
    return tuple(found)


def has_trouble(events: Sequence[LogEvent]) -> bool:
    """Whether events are more than starts and regular sync actions."""
    return any(event.kind not in CONTEXT for event in events)


def describe_log(subject: LogSubject, events: Sequence[LogEvent], inventory: Inventory) -> str:
    """Returns what the log decides, in one sentence with clauses."""
    clauses = [
        *_describe_vanished(events),
        *_describe_disabled(subject, events),
        *_describe_non_fresh(subject, events),
        *_describe_refused_start(events),
        *_describe_links(events, inventory),
        *_describe_reads(subject, events),
        *_describe_rest(events),
    ]
    if not clauses:
        clauses = [UNDECIDED]
    return f"kernel log: {'; '.join(clauses[:MOST_SENTENCES])}"


def _select(events: Sequence[LogEvent], *kinds: EventKind) -> list[LogEvent]:
    return [event for event in events if event.kind in kinds]


def _list_devices(events: Sequence[LogEvent]) -> list[str]:
    """Returns the names of devices, each once, in the order of the log."""
    names = [event.device for event in events if event.device]
    return list(dict.fromkeys(names))


def _describe_vanished(events: Sequence[LogEvent]) -> Iterator[str]:
    """Yields which disks vanished together."""
    firsts: dict[str, float] = {}
    for event in _select(events, EventKind.VANISHED):
        if event.seconds is not None and event.device:
            firsts.setdefault(find_disk_name(event.device), event.seconds)
    times = sorted(firsts.items(), key=lambda item: item[1])
    for position, (_, begin) in enumerate(times):
        names = [name for name, seconds in times[position:] if seconds - begin <= VANISH_S]
        if len(names) > 1:
            yield f"{list_names(names)} vanished within 1 s: controller, cable or power"
            return


def _describe_disabled(subject: LogSubject, events: Sequence[LogEvent]) -> Iterator[str]:
    """Yields why md disabled members, the last time that it did."""
    lasts = {event.device: index for index, event in enumerate(events) if event.kind is EventKind.DISABLED}
    for device, index in list(lasts.items())[:MOST_DEVICES]:
        starts = [at for at, event in enumerate(events[:index]) if event.kind is EventKind.STARTED]
        disk = find_disk_name(device)
        before = []
        for at in range(starts[-1] if starts else 0, index):
            event = events[at]
            is_bare = event.kind is EventKind.SUPERBLOCK_UNWRITTEN and not event.device
            if find_disk_name(event.device) == disk or is_bare:
                before.append(event)
        yield f"{device} was disabled{_describe_reason(subject, before)}"
    if len(lasts) > MOST_DEVICES:
        yield f"so were {len(lasts) - MOST_DEVICES} more members"


def _describe_reason(subject: LogSubject, events: Sequence[LogEvent]) -> str:
    """Returns why a member was disabled, from the messages about it before that."""
    lost = _select(events, EventKind.READ_LOST)
    medium = _select(events, EventKind.MEDIUM_ERROR)
    errors = _select(events, EventKind.DISK_ERROR)
    failed = _select(events, EventKind.READ_FAILED)
    if _select(events, EventKind.VANISHED):
        return " after it vanished"
    if _select(events, EventKind.TOO_MANY_ERRORS):
        return " after too many read errors"
    if lost:
        return f" after read errors that could not be corrected ({describe_sectors(subject, lost)})"
    if _select(events, EventKind.WRITE_FAILED):
        return " after md could not write the right data to a sector with a read error"
    reported = f": the disk reported {errors[-1].action}" if errors else ""
    if _select(events, EventKind.SUPERBLOCK_UNWRITTEN):
        return f" after md could not write a superblock{reported}"
    if medium:
        sectors = describe_sectors(subject, [event for event in medium if event.sector is not None])
        return f" after the disk could not read {sectors or 'a sector'}"
    if errors:
        return f" after errors{reported}"
    if _select(events, EventKind.TIMED_OUT, EventKind.RESET):
        return " after time-outs or resets"
    if failed:
        return f" after reads failed ({describe_sectors(subject, failed)})"
    if _select(events, EventKind.IO_ERROR):
        return " after I/O errors"
    return "; the log does not show why"


def _describe_non_fresh(subject: LogSubject, events: Sequence[LogEvent]) -> Iterator[str]:
    names = _list_devices(_select(events, EventKind.NON_FRESH))
    if not names:
        return
    behind = find_behind(subject)
    counts = [f"{name} lacks {behind[name]:,} events" for name in names if name in behind]
    verb = "were" if names[1:] else "was"
    text = f"{list_names(names)} {verb} kicked as non-fresh"
    if counts:
        yield f"{text}: {list_names(counts)} (superblocks)"
    elif subject.array is None:
        yield f"{text}: the superblocks show how many events are missing there"
    else:
        yield text


def _describe_refused_start(events: Sequence[LogEvent]) -> Iterator[str]:
    starts = [index for index, event in enumerate(events) if event.kind is EventKind.STARTED]
    last_start = starts[-1] if starts else -1
    for kind in (EventKind.DIRTY_DEGRADED, EventKind.TOO_FEW):
        places = [index for index, event in enumerate(events) if event.kind is kind]
        if not places:
            continue
        event = events[places[-1]]
        counts = f" ({event.number} of {event.total} failed)" if event.total else ""
        if kind is EventKind.DIRTY_DEGRADED:
            text = "md did not start it: it was not shut down cleanly, and a member is missing, so parity may be wrong"
        else:
            text = f"md did not run it: too few members{counts}"
        if last_start > places[-1]:
            text += "; later it was started"
        yield text


def _describe_links(events: Sequence[LogEvent], inventory: Inventory) -> Iterator[str]:
    """Yields what the links of disks had, for each port or controller."""
    kinds = (EventKind.LINK_UP, EventKind.RESET, EventKind.TIMED_OUT, EventKind.TRANSFER_ERROR)
    groups: dict[str, list[LogEvent]] = {}
    for event in _select(events, *kinds):
        groups.setdefault(describe_port(event), []).append(event)
    for place, group in list(groups.items())[:MOST_DEVICES]:
        disk = find_disk_name(group[0].device)
        medium = [event for event in _select(events, EventKind.MEDIUM_ERROR) if find_disk_name(event.device) == disk]
        text = _describe_link(place, group, has_medium_errors=bool(medium and disk))
        if text:
            yield text + _refer_to_timeout(group, disk, inventory)


def _describe_link(place: str, events: Sequence[LogEvent], *, has_medium_errors: bool) -> str:
    """Returns what happened to a link, with the cause if the log shows it; empty if it was only set up."""
    speeds = [event.number or 0 for event in _select(events, EventKind.LINK_UP)]
    resets = len(_select(events, EventKind.RESET))
    timeouts = len(_select(events, EventKind.TIMED_OUT))
    transfers = _select(events, EventKind.TRANSFER_ERROR)
    reset_text = f" and was reset {_count_times(resets)}" if resets else ""
    no_medium = "" if has_medium_errors else ", not the disk's surface"
    if speeds and speeds[-1] < max(speeds):
        fall = f"fell from {max(speeds) / 1000:.1f} to {describe_speed(speeds[-1])}"
        text = f"the link of {place} {fall}{reset_text}"
        if has_medium_errors:
            return f"{text}, and the disk could not read sectors"
        return f"{text}: cable, port, power or the disk's electronics, not its surface"
    if transfers:
        return f"transfers of {place} had wrong checksums{reset_text}: cable or port{no_medium}"
    if timeouts:
        reset_text = f", and the kernel reset it {_count_times(resets)}" if resets else ""
        return f"{place} did not answer in time {_count_times(timeouts)}{reset_text}"
    return f"{place} was reset {_count_times(resets)}" if resets else ""


def _count_times(count: int) -> str:
    words = {1: "once", 2: "twice"}
    return words.get(count) or f"{count:,} times"


def _refer_to_timeout(events: Sequence[LogEvent], disk: str, inventory: Inventory) -> str:
    """Returns a reference to the finding that the disk retries for longer than the kernel waits."""
    if not _select(events, EventKind.TIMED_OUT, EventKind.RESET):
        return ""
    for known in inventory.disks or ():
        if known.name == disk and known.health.has_answered and list(check_timeout(known)):
            return " (see `timeout`: the disk retries a bad sector for longer than the kernel waits)"
    return ""


def _describe_reads(subject: LogSubject, events: Sequence[LogEvent]) -> Iterator[str]:
    """Yields read errors of members that md did not disable."""
    disabled = set(_list_devices(_select(events, EventKind.DISABLED)))
    lost = [event for event in _select(events, EventKind.READ_LOST) if event.device not in disabled]
    for device in _list_devices(lost)[:MOST_DEVICES]:
        own = [event for event in lost if event.device == device]
        yield f"md could not correct read errors of {device} ({describe_sectors(subject, own)})"
    corrected = _select(events, EventKind.READ_CORRECTED)
    counted: set[str] = set()  # The finding `read-errors` has them
    if subject.array is not None:
        counted = {member.name for member in subject.array.members if member.errors}
    for device in [name for name in _list_devices(corrected) if name not in counted][:MOST_DEVICES]:
        own = [event for event in corrected if event.device == device]
        yield f"md corrected read errors of {device} ({describe_sectors(subject, own)})"
    medium = [event for event in _select(events, EventKind.MEDIUM_ERROR) if event.sector is not None]
    explained = {find_disk_name(name) for name in (*disabled, *_list_devices(lost), *_list_devices(corrected))}
    for device in [name for name in _list_devices(medium) if name not in explained][:MOST_DEVICES]:
        own = [event for event in medium if event.device == device]
        yield f"the disk {device} could not read {describe_sectors(subject, own)}"
    explained |= set(_list_devices(medium))
    failed = _select(events, EventKind.IO_ERROR)
    for device in [name for name in _list_devices(failed) if name not in explained][:MOST_DEVICES]:
        own = [event for event in failed if event.device == device]
        yield f"{device} had I/O errors ({describe_sectors(subject, own)})"


def _describe_rest(events: Sequence[LogEvent]) -> Iterator[str]:
    rejected = _select(events, EventKind.REJECTED)
    for name in _list_devices(rejected)[:MOST_DEVICES]:
        last = [event for event in rejected if event.device == name][-1]
        yield f"md did not take {name} as a member: {last.action}"
    if _select(events, EventKind.HUNG):
        yield "a task that uses it was blocked for longer than the kernel's limit"
    for event in _select(events, EventKind.BITMAP)[-1:]:
        yield event.action
    interrupted = _select(events, EventKind.SYNC_INTERRUPTED)
    after = events[events.index(interrupted[-1]) :] if interrupted else []
    if interrupted and not _select(after, EventKind.SYNC_STARTED, EventKind.SYNC_DONE):
        yield f"its {interrupted[-1].action} was interrupted"
    if _select(events, EventKind.NOT_CLEAN) and not _select(events, EventKind.DIRTY_DEGRADED):
        yield "it was not shut down cleanly"
