"""I/O arrives in bursts that fill the queue, and the device idles between them."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting, awaited, device_ns, sum_ns
from blklab.report.view import DeviceView

DEEP = 16  # I/Os in flight from which on the queue is long
MOST_WAIT = 0.6  # Share of the waiting that is in a long queue,
SHORT = 0.25  # for at most this share of the time,
IDLE = 0.4  # while the device is idle for at least this share
CLOSE = 50.0  # Half of the I/Os come at least so many times faster than the average


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which I/O waits in bursts."""
    for device in waiting.entrances:
        if not any(map(sum_ns, awaited(device))):
            continue  # No program waits
        level, gaps = device.data.in_flight, device.data.pattern.arrivals.inter_arrival_ns
        share, time = _deep(device)
        if level.idle_share is None or level.idle_share < IDLE or share < MOST_WAIT or time > SHORT:
            continue
        if gaps.p50 is None or not gaps.mean or gaps.p50 * CLOSE > gaps.mean:
            continue
        message = (
            f"I/O arrives in bursts: half of the I/Os come within {formatting.duration(gaps.p50)} of the one before"
            f" (the average is {formatting.duration(gaps.mean)}); up to {level.max:,} are in flight, and none for"
            f" {formatting.share(level.idle_share)} of the time"
        )
        remedy = ("spread the load (smaller batches, a rate limit): the device could serve it with short queues",)
        yield waiting.cause("bursts", device, share * device_ns(device), message, *remedy)


def _deep(device: DeviceView) -> tuple[float, float]:
    """Returns the share of the waiting in a long queue, and the share of the time with one."""
    levels = device.data.in_flight.histogram
    areas = [(each.low, each.time_ns * (each.low + each.high) / 2, each.time_ns) for each in levels]
    area, time = sum(each[1] for each in areas) or 1.0, sum(each[2] for each in areas) or 1
    deep = [each for each in areas if each[0] >= DEEP]
    return sum(each[1] for each in deep) / area, sum(each[2] for each in deep) / time
