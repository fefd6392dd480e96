"""Causes in the load and in how the device takes it: bursts, stalls."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.documents.profile import LongTimeProfile
from blklab.render import formatting
from blklab.trace.causes.users import process_text
from blklab.trace.causes.waiting import Waiting, device_ns, program_waits, sum_ns, time_ns
from blklab.trace.view import DeviceView

DEEP = 16  # I/Os in flight from which on the queue is long, as in the profile
MOST_WAIT = 0.6  # Share of the waiting that found a long queue,
SHORT_TIME = 0.25  # for at most this share of the time,
IDLE = 0.4  # while the device is idle for at least this share
CLOSE = 50.0  # Half of the I/Os come at least so many times faster than the average


def bursts(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which I/O waits in bursts.

    I/O arrives in bursts that fill the queue, and the device idles between them.
    """
    for device in waiting.entrances:
        level = device.data.in_flight
        gaps = device.data.pattern.arrivals.inter_arrival_ns
        # Only I/O that a program waits for counts: none waits for a burst of writeback.
        waited_ns = sum(map(sum_ns, program_waits(device)))
        deep_ns = sum_ns(device.data.waits.deep)
        if level.idle_share is None or level.idle_share < IDLE or not waited_ns or deep_ns < MOST_WAIT * waited_ns:
            continue
        if _deep_share(device) > SHORT_TIME or gaps.p50 is None or not gaps.mean or gaps.p50 * CLOSE > gaps.mean:
            continue
        senders = sorted(device.data.users.users, key=lambda user: -time_ns(user.all))
        by = f" of {process_text(senders[0])}" if senders and device.capabilities.processes else ""
        yield waiting.cause(
            "bursts",
            device,
            deep_ns,
            f"I/O{by} arrives in bursts: half of the I/Os come within {formatting.duration(gaps.p50)} of the one "
            f"before (the average is {formatting.duration(gaps.mean)}); up to {level.max:,} are in flight, "
            f"and none for {formatting.share(level.idle_share)} of the time",
            "spread the load (smaller batches, a rate limit): the device could serve it with short queues",
        )


def _deep_share(device: DeviceView) -> float:
    """Returns the share of the time with a long queue."""
    levels = device.data.in_flight.histogram
    deep = [level for level in levels if level.low >= DEEP]
    return sum(level.time_ns for level in deep) / (sum(level.time_ns for level in levels) or 1)


LONG = 100  # Median latencies from which on a stall is one of the device, not of one slow I/O
LEAST_STALLED = 0.5  # Smallest share of the device's waiting


def stalls(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose stalls cause much of the waiting.

    The device stops: nothing completes for long although I/O is in flight.
    """
    for device in waiting.entrances:
        latency = device.latency("all") or device.latency("all", "d2c")
        long = [
            stall
            for stall in device.data.slow.stalls
            if stall.length_ns >= LONG * ((latency and latency.p50) or 0) and _has_waiting_program(device, stall)
        ]
        # I/Os that came during a stall have waited for half of it on average.
        stalled_ns = sum(stall.length_ns * max(1.0, sum(stall.in_flight.values()) / 2) for stall in long)
        if not latency or stalled_ns < LEAST_STALLED * device_ns(device):
            continue
        longest = max(long, key=lambda stall: stall.length_ns)
        share = sum(stall.length_ns for stall in long) / max(1, device.span_ns)
        times = formatting.plural(len(long), "time")
        yield waiting.cause(
            "stalls",
            device,
            min(stalled_ns, device_ns(device)),
            f"{device.label} stops: nothing completed for up to {formatting.duration(longest.length_ns)} "
            f"(at {formatting.duration(longest.start_ns)}) although I/Os were in flight, {times}, "
            f"{formatting.share(share)} of the time; half of the I/Os take at most {formatting.duration(latency.p50)}",
            "look into the kernel's log for resets and timeouts of the disk, and at its firmware and SMART values",
            "flash without free blocks stops as well: discard what is not used (fstrim)",
        )


def _has_waiting_program(device: DeviceView, stall: LongTimeProfile) -> bool:
    """Returns whether a program waits in a stall: for its last I/O, or for a read or flush in flight."""
    if not device.capabilities.layers:
        return True  # Only blktrace records which writes are synchronous
    return stall.waited or bool(stall.in_flight["read"] or stall.in_flight["flush"])
