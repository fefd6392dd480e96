"""What a trace without a cause shows: who waits for what, the longest stalls, and what to record next."""

import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from blklab.documents.profile import LongTimeProfile
from blklab.render import formatting
from blklab.render.formatting import Sentence
from blklab.text.printing import printable
from blklab.trace.causes.waiting import Waiting, sum_ns, time_ns
from blklab.trace.view import OPS, DeviceView

UNKNOWN = "none can be found: no I/O was recorded from its beginning to its end"
BUSY = 0.95  # Share of the time from which on a device is at its limit,
DEEP = 16  # if so many I/Os are in flight
MOST = 3  # Processes that are named
LEAST = 0.05  # Share of the waiting from which on a process is named
LEAST_OVERLAP = 0.25  # Share of a stall that an I/O below must explain


def facts(waiting: Waiting) -> list[Sentence]:
    """Returns the facts of a trace in which no rule finds a cause."""
    if not waiting.total_ns:
        return [Sentence("Cause", UNKNOWN), Sentence("Next", _next_recording(waiting, None))]
    result = [Sentence("Cause", "none that blklab knows"), Sentence("Waits", _waits_text(waiting))]
    if limit := _limit_text(waiting):
        result.append(Sentence("Limit", limit))
    stall = _longest_stall(waiting)
    if stall:
        result.append(Sentence("Stall", _stall_text(waiting, *stall)))
    return [*result, Sentence("Next", _next_recording(waiting, stall))]


def _limit_text(waiting: Waiting) -> str:
    """Returns which device is at its limit; empty if none is."""
    for device in waiting.entrances:
        in_flight = device.data.in_flight.mean or 0.0
        if (device.busy or 0.0) >= BUSY and in_flight >= DEEP:
            return (
                f"{device.label} is busy for {formatting.share(device.busy)} of the time, "
                f"with {formatting.number(in_flight)} I/Os in flight: it gets more than it can serve"
            )
    return ""


def _waits_text(waiting: Waiting) -> str:
    """Returns which processes wait, for which part of the waiting, and how long an I/O takes them."""
    totals, ios = _totals(waiting)
    parts: list[str] = []
    for (process, label), total in totals.most_common(MOST):
        share = total / max(1, totals.total())
        if share < LEAST:
            break
        count = ios[process, label]
        whole = "" if parts else " of the waiting"
        parts.append(
            f"{process} for {formatting.plural(count, 'I/O')} on {label}, "
            f"{formatting.duration(total / count)} on average ({formatting.share(share)}{whole})"
        )
    return "; ".join(parts) or _operations_text(waiting)


def _totals(waiting: Waiting) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Returns how long processes wait, in ns, and for how many I/Os, by process and device."""
    totals: Counter[tuple[str, str]] = Counter()
    ios: Counter[tuple[str, str]] = Counter()
    for device in waiting.entrances:
        if not device.capabilities.processes:
            continue
        for user in device.data.users.users:
            key = printable(user.process) or "(unnamed)", device.label
            totals[key] += round(time_ns(user.all))
            ios[key] += user.all.ios
    return totals, ios


def _operations_text(waiting: Waiting) -> str:
    """Returns what programs wait for, of a trace that does not name them."""
    device = max(waiting.entrances, key=lambda entry: sum_ns(entry.latency("all") or entry.latency("all", "d2c")))
    parts = []
    for op in OPS:
        latency = device.latency(op) or device.latency(op, "d2c")
        if latency:
            parts.append(f"{formatting.plural(latency.count, op)}, {formatting.duration(latency.mean)} on average")
    return f"programs on {device.label}, for {'; '.join(parts)}"


def _longest_stall(waiting: Waiting) -> tuple[DeviceView, LongTimeProfile] | None:
    """Returns the longest stall for which a program waits, and its device."""
    stalls = []
    for device in waiting.view.devices:
        # What a stall of a device is to a slower one above it, is the same stall.
        if device is waiting.view.focus or not waiting.view.focus.data.slow.stalls:
            stalls += [(stall.length_ns, device, stall) for stall in device.data.slow.stalls if stall.waited]
    if not stalls:
        return None
    _, device, stall = max(stalls, key=lambda entry: entry[0])
    return device, stall


def _stall_text(waiting: Waiting, device: DeviceView, stall: LongTimeProfile) -> str:
    """Returns when the longest stall was, what waited in it, and what the devices below did meanwhile."""
    count = len(device.data.slow.stalls)
    which = f"the longest of {count}" if count > 1 else "the only stall"
    parts = [formatting.plural(number, op) for op, number in stall.in_flight.items() if number]
    others = f", with {formatting.listing(parts)} more in flight" if parts else " alone"
    text = (
        f"at {formatting.duration(stall.start_ns)}, {device.label} completed nothing for "
        f"{formatting.duration(stall.length_ns)} ({which}): {_io_text(stall)} waited{others}"
    )
    causes = list(_find_below(waiting, device, stall))
    if not causes:
        return f"{text}{_stage_text(stall)}"
    overlap_ns, lower, lower_io = max(causes, key=lambda entry: entry[0])
    took = formatting.duration(min(overlap_ns, lower_io.length_ns))
    metadata = _metadata_text(device, lower, lower_io)
    return f"{text}. {took} of it is {_io_text(lower_io)} on {lower.label}{metadata}"


def _io_text(io: LongTimeProfile) -> str:
    size = f" of {formatting.size(io.bytes)}" if io.bytes else ""
    process = f" by {printable(io.process)}" if io.process else ""
    return f"a {io.op}{size}{process}"


LONGEST_STAGE = 0.8  # Share of an I/O's time from which on one stage is where it was

STAGE_TEXTS = {
    "d2c": "the disk itself took this time",
    "i2d": "it waited in the scheduler",
    "q2g": "it waited for a free request",
    "g2i": "it waited for a plug or a tag",
    "g2d": "it waited for a plug or a tag",
    "q2m": "it waited to be merged",
    "m2d": "it waited in the request that it was merged into",
}


def _stage_text(io: LongTimeProfile) -> str:
    """Returns where an I/O spent nearly all of its time; empty if this is not known."""
    text = STAGE_TEXTS.get(io.stage)
    return f"; {text}" if text and io.stage_ns >= LONGEST_STAGE * io.length_ns else ""


def _find_below(
    waiting: Waiting, device: DeviceView, stall: LongTimeProfile
) -> Iterator[tuple[int, DeviceView, LongTimeProfile]]:
    """Yields long I/Os of the lowest devices below a device during its stall: how much of it they explain."""
    below = {device.number}
    for layer in waiting.view.layers():
        for lower in layer:
            if lower.number in below or not any(
                feed.lower == lower.number and feed.upper in below for feed in waiting.view.feeds
            ):
                continue
            below.add(lower.number)
            for io in (*lower.data.slow.stalls, *lower.data.slow.slowest):
                start = max(io.start_ns, stall.start_ns)
                end = min(io.start_ns + io.length_ns, stall.start_ns + stall.length_ns)
                if end - start >= LEAST_OVERLAP * stall.length_ns:
                    yield end - start, lower, io


def _metadata_text(device: DeviceView, lower: DeviceView, io: LongTimeProfile) -> str:
    """Returns that an I/O is about md's own metadata: before the data of its member, and by a thread of md."""
    begins = [begin.sector for begin in lower.data.begins if begin.upper == device.number]
    if begins and io.process.startswith("md") and io.sector + io.bytes // 512 <= begins[0]:
        return f" at sector {io.sector}, md's superblock or bitmap"
    return ""


def _next_recording(waiting: Waiting, stall: tuple[DeviceView, LongTimeProfile] | None) -> str:
    """Returns what to record next to learn more."""
    view = waiting.view
    if view.trace.dropped or view.trace.sequence_gaps:
        return "a recording with more buffers, because events are missing: blktrace -b 4096 -n 16"
    if not view.trace.capabilities.layers:
        return (
            "a recording with `blklab trace record`, as root: this trace does not show which writes are synchronous, "
            "nor what the layers below do"
        )
    uppers = {feed.upper for feed in view.feeds}
    opaque = [device for device in view.devices if device.passes_on and device.number not in uppers and device.active]
    if opaque:
        name = opaque[0].label
        return f"a recording of {name} with the devices below it (lsblk shows them)"
    if stall:
        start_ns = view.trace.start_unix_ns
        time = f"{formatting.duration(stall[1].start_ns)} after the beginning"
        if start_ns is not None:
            moment = datetime.fromtimestamp((start_ns + stall[1].start_ns) / 1e9, tz=UTC)
            time = f"{formatting.date_time(moment, seconds=True)} UTC"
        return f"the kernel's log at {time}; a recording of 10 minutes"
    processes = {process for process, _ in _totals(waiting)[0]}
    if len(processes) > 1:
        (process, _), _ = _totals(waiting)[0].most_common(1)[0]
        return (
            f"`blklab trace stat … --process {shlex.quote(process)}` shows what it does; "
            "a recording while programs are slow (`blklab trace record … -w 10m`) can be compared: blklab trace diff"
        )
    return "a recording while programs are slow (`blklab trace record … -w 10m`): blklab trace diff compares both"
