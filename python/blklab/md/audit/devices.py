"""Rules about an array's devices: mixed kinds, unequal speed, layouts, read errors."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.installed_documents import document_path
from blklab.md import command_lines
from blklab.md.audit.rule import list_names, make_finding
from blklab.md.model import Array, ArrayMember, Software

PREFERS_FLASH_SINCE = (5, 3)
"""Linux since which RAID-10 reads from members that do not rotate, if there are any (drivers/md/raid10.c)."""

MIN_IOS = 10_000  # I/Os for a meaningful mean
MAX_IOS = 40_000_000
"""With more I/Os, the kernel's counter of their times, 32 bits of ms, may have wrapped, unless their mean is below
0.1 s.
"""

UNEQUAL_FACTOR = 3  # Ratio of latencies that is larger than the difference between disks of one model
MIN_LATENCY_MS = 0.2  # Shorter latencies do not matter
PREDICT = f"to predict the cost under your load, see {document_path('howto/predict.md')}"


def check_mixed_kinds(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """The array has rotating disks and flash: the slow members decide its speed."""
    active = [member for member in array.active if member.rotational is not None]
    slow = [member for member in active if member.rotational]
    fast = [member for member in active if not member.rotational]
    if not (slow and fast):
        return
    names = list_names([member.name for member in slow])
    flash = list_names([member.name for member in fast])
    kernel = software.kernel if software else None
    mostly = all("write_mostly" in member.states for member in slow)
    if array.level == "raid10" and (kernel is None or kernel >= PREFERS_FLASH_SINCE):
        effect = (
            f"since Linux 5.3 RAID-10 reads only from {flash} where it has a copy, not from {names}; "
            "a write is as slow as the slowest copy"
        )
    elif array.level == "raid1" and mostly:
        effect = f"{names} is write-mostly, as it should be; writes are as slow as {names}"
    elif array.level == "raid1":
        effect = f"md reads from the member with the fewest pending I/Os; writes are as slow as {names}"
    else:
        effect = f"every stripe waits for {names}"
    message = f"{names} (rotating) and {flash} (flash) are in one array: {effect}; {PREDICT}"
    yield make_finding(array, "note" if mostly and array.level == "raid1" else "warning", "mixed", message)


def check_unequal_latency(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """One member has taken at least three times as long for an I/O as another of its kind.

    Only I/O that all members get can be compared: writes, and reads of levels that do not choose a copy. Mean sizes
    must be similar, which leaves out members that were rebuilt since boot. Long after boot there are too many I/Os
    (`MAX_IOS`): use `blklab md watch` then. Other partitions of a disk slow down a partition.
    """
    chooses_copy = array.level in {"raid1", "raid10"}
    for direction in ("write",) if chooses_copy else ("read", "write"):
        for rotating in (True, False):
            busy = _means(array, direction, rotating=rotating)
            if len(busy) < 2:
                continue
            fast = min(busy, key=lambda name: busy[name][0])
            slow = max(busy, key=lambda name: busy[name][0])
            fast_ms, fast_size, fast_ios = busy[fast]
            slow_ms, slow_size, slow_ios = busy[slow]
            alike = max(fast_size, slow_size) <= 2 * min(fast_size, slow_size)
            if slow_ms < max(MIN_LATENCY_MS, UNEQUAL_FACTOR * fast_ms) or not alike:
                continue
            show = command_lines.show_smart(next(member.path for member in array.members if member.name == slow))
            subject = "each write is" if direction == "write" else "each stripe is"
            message = (
                f"{direction}s take {slow_ms:.3g} ms on {slow} and {fast_ms:.3g} ms on {fast} "
                f"(means of {slow_ios:,} and {fast_ios:,} since boot): {subject} as slow as {slow}; "
                f"possible causes: a failing, shingled or shared disk, or a bad cable; {PREDICT}"
            )
            yield make_finding(array, "warning", "unequal", message, show, member=slow)


def _means(array: Array, direction: str, *, rotating: bool) -> dict[str, tuple[float, float, int]]:
    """Returns the means of each member that rotates or does not, is used like the others, and has enough I/Os."""
    means = {}
    for member in array.active:
        if member.rotational is not rotating or {"write_mostly", "faulty"}.intersection(member.states):
            continue
        mean = _mean(member, direction)
        if mean is not None:
            means[member.name] = mean
    return means


def _mean(member: ArrayMember, direction: str) -> tuple[float, float, int] | None:
    """Returns the mean latency in ms, the mean size in sectors, and the number of I/Os."""
    counters = member.activity
    if counters is None:
        return None
    ios, ticks, sectors = (
        (counters.reads, counters.read_ticks, counters.read_sectors)
        if direction == "read"
        else (counters.writes, counters.write_ticks, counters.write_sectors)
    )
    if not MIN_IOS <= ios <= MAX_IOS:
        return None
    return ticks / ios, sectors / ios, ios


def check_write_mostly(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Members are marked write-mostly: md reads from them only if no other member is left."""
    names = [
        member.name
        for member in array.members
        if "write_mostly" in member.states
        or (not member.states and member.superblock and member.superblock.write_mostly)
    ]
    if names:
        is_complete = bool(array.active) and not array.absent
        all_members = is_complete and all(member.name in names for member in array.active)
        message = f"{list_names(names)} marked write-mostly: md reads from other members if it can"
        if all_members:
            message += ", but here every member is write-mostly"
        yield make_finding(array, "warning" if all_members else "note", "write-mostly", message)


def check_layout(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A RAID-10 of flash has the layout far or offset, which helps only rotating disks."""
    far = array.layout >> 8 & 0xFF
    offset = array.layout >> 16 & 1
    active = array.active
    if array.level == "raid10" and far > 1 and active and all(member.rotational is False for member in active):
        kind = "offset" if offset else "far"
        message = (
            f"layout {kind}{far} on flash: it shortens the seeks of rotating disks, and flash does not seek; "
            "near writes larger pieces at once, and is the only layout that can grow"
        )
        yield make_finding(array, "note", "layout", message)


def check_read_errors(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Md corrected read errors of a member."""
    for member in array.members:
        if member.errors:
            show = command_lines.show_smart(member.path)
            message = f"md has corrected {member.errors:,} read errors since the array was assembled"
            yield make_finding(array, "warning", "read-errors", message, show, member=member.name)
