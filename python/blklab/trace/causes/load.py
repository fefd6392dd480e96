"""Causes in the load and in how the device takes it: writeback, flushes, bursts, one process, stalls."""

import shlex
from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.documents.profile import LevelTime
from blklab.render import formatting
from blklab.trace.causes.waiting import FEWEST, Waiting, device_ns, program_waits, sum_ns
from blklab.trace.view import UNKNOWN, DeviceView

FEW = 5  # I/Os that must have waited
SLOWER = 3.0  # I/Os behind writeback take at least so many times as long as others
LEAST_BEHIND = 0.2  # Smallest share of the device's waiting


def writeback(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait behind writeback.

    Reads and synchronous writes wait behind writeback.
    """
    for device in waiting.entrances:
        waits = device.data.waits
        behind = waits.behind_writeback
        other_waits = waits.alone
        usual = other_waits.mean if other_waits.count >= FEWEST else None
        if not device.capabilities.layers or behind.count < FEW or sum_ns(behind) < LEAST_BEHIND * device_ns(device):
            continue  # Only blktrace records which writes are synchronous
        if usual is None or (behind.mean or 0.0) < SLOWER * usual:
            continue
        writers = [group for group in device.groups("processes") if group.ios.get("write")]
        writer = max(writers, key=lambda group: (group.label.startswith("kworker"), group.written), default=None)
        by = f" of {writer.label} ({formatting.size(writer.written)} written)" if writer else ""
        count = formatting.plural(behind.count, "read or synchronous write")
        yield waiting.cause(
            "behind-writeback",
            device,
            sum_ns(behind),
            f"programs wait behind writeback{by}: {count} that came while it was in flight "
            f"took {formatting.duration(behind.mean)} on average, the others {formatting.duration(usual)}",
            "less dirty data at a time: lower vm.dirty_background_bytes and vm.dirty_bytes",
            "or limit the writer: ionice with bfq, io.max of its cgroup, or wbt (queue/wbt_lat_usec)",
        )


LEAST_FLUSHING = 0.25  # Smallest share of the device's waiting that flushing adds to what writes take anyway
MANY_FLUSHES = 0.05  # Flushes for each write from which on they are many


def flushes(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait for flushes.

    Flushes of the disk's cache take much of the time.
    """
    for device in waiting.entrances:
        flushing = device.data.waits.flushing
        writes = max(1, device.op("write").ios)
        extra_ns = sum_ns(flushing) - flushing.count * _plain_ns(device)
        if flushing.count < max(FEWEST, MANY_FLUSHES * writes) or extra_ns < LEAST_FLUSHING * device_ns(device):
            continue
        groups = device.groups("processes")
        callers = sorted((group for group in groups if group.ios.get("flush")), key=lambda group: -group.ios["flush"])
        callers = callers or [group for group in groups if group.label.startswith("jbd2/")]
        by = f" of {formatting.listing([group.label for group in callers[:2]])}" if callers else ""
        count = formatting.plural(flushing.count, "I/O")
        yield waiting.cause(
            "flushes",
            device,
            sum_ns(flushing),
            f"flushes: {count}{by} flush the disk's cache and take {formatting.duration(flushing.mean)} on average; "
            f"there are {formatting.number(writes / flushing.count)} writes for each",
            "combine commits: a larger group commit of the database, a longer commit interval of the filesystem",
            "or a disk whose cache survives a power failure, which needs no flush; "
            "do not switch flushes off: then a power failure loses data",
        )


def _plain_ns(device: DeviceView) -> float:
    """Returns the mean time of a write without a flush; 0 if there are too few."""
    writes = device.latency("write")
    flushes = device.latency("flush")
    flushing = device.data.waits.flushing
    count = (writes.count if writes else 0) - flushing.count + (flushes.count if flushes else 0)
    if count < FEWEST:
        return 0.0
    return max(0.0, sum_ns(writes) - sum_ns(flushing) + sum_ns(flushes)) / count


DEEP = 16  # I/Os in flight from which on the queue is long
MOST_WAIT = 0.6  # Share of the waiting that is in a long queue,
SHORT_TIME = 0.25  # for at most this share of the time,
IDLE = 0.4  # while the device is idle for at least this share
CLOSE = 50.0  # Half of the I/Os come at least so many times faster than the average


def bursts(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which I/O waits in bursts.

    I/O arrives in bursts that fill the queue, and the device idles between them.
    """
    for device in waiting.entrances:
        if not any(map(sum_ns, program_waits(device))):
            continue  # No program waits
        level = device.data.in_flight
        gaps = device.data.pattern.arrivals.inter_arrival_ns
        share, time = _deep(device)
        if level.idle_share is None or level.idle_share < IDLE or share < MOST_WAIT or time > SHORT_TIME:
            continue
        if gaps.p50 is None or not gaps.mean or gaps.p50 * CLOSE > gaps.mean:
            continue
        yield waiting.cause(
            "bursts",
            device,
            share * device_ns(device),
            f"I/O arrives in bursts: half of the I/Os come within {formatting.duration(gaps.p50)} of the one before "
            f"(the average is {formatting.duration(gaps.mean)}); "
            f"up to {level.max:,} are in flight, and none for {formatting.share(level.idle_share)} of the time",
            "spread the load (smaller batches, a rate limit): the device could serve it with short queues",
        )


def _deep(device: DeviceView) -> tuple[float, float]:
    """Returns the share of the waiting in a long queue, and the share of the time with one."""
    levels = device.data.in_flight.histogram
    deep = [level for level in levels if level.low >= DEEP]
    area = sum(map(_area, levels)) or 1.0
    time = sum(level.time_ns for level in levels) or 1
    return sum(map(_area, deep)) / area, sum(level.time_ns for level in deep) / time


def _area(level: LevelTime) -> float:
    """Returns the I/Os in flight times their time."""
    return level.time_ns * (level.low + level.high) / 2


MOST_WAITING = 0.6  # Share of the waiting
MORE = 1.2  # The share of the waiting is at least so many times that of the I/Os
OTHERS = 0.1  # Share of the I/Os that other processes have


def one_process(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the process with most of a device's waiting, if others use the device too.

    One process has most of the waiting.
    """
    for device in waiting.entrances:
        groups = [group for group in device.groups("processes") if not group.label.startswith(("kworker", UNKNOWN))]
        times = [sum_ns(group.read_ns) + sum_ns(group.write_ns) for group in groups]
        total = sum(times)
        ios = sum(group.total for group in groups)
        if not total:
            continue
        group_ns, group = max(zip(times, groups, strict=True), key=lambda pair: pair[0])
        share = group_ns / total
        if share < MOST_WAITING or share < MORE * group.total / ios or group.total > (1 - OTHERS) * ios:
            continue
        yield waiting.cause(
            "one-process",
            device,
            group_ns,
            f"{group.label} has {formatting.share(share)} of the waiting of all processes, "
            f"with {formatting.share(group.total / ios)} of their I/Os",
            f"see what it does: blklab trace stat … --process {shlex.quote(group.label)}",
        )


LONG = 100  # Median latencies from which on a stall is one of the device, not of one slow I/O
LEAST_STALLED = 0.5  # Smallest share of the device's waiting


def stalls(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose stalls cause much of the waiting.

    The device stops: nothing completes for long although I/O is in flight.
    """
    for device in waiting.entrances:
        latency = device.latency("all") or device.latency("all", "d2c")
        long = [
            stall for stall in device.data.slow.stalls if stall.length_ns >= LONG * ((latency and latency.p50) or 0)
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
