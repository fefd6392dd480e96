"""Flushes of the disk's cache take much of the time."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import FEWEST, Waiting, device_ns, sum_ns
from blklab.report.view import DeviceView

LEAST = 0.25  # Smallest share of the device's waiting that flushing adds to what writes take anyway
OFTEN = 0.05  # Flushes for each write from which on they are many


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait for flushes."""
    for device in waiting.entrances:
        flushing = device.data.waits.flushing
        writes = max(1, device.op("write").ios)
        added = sum_ns(flushing) - flushing.count * _plain_ns(device)
        if flushing.count < max(FEWEST, OFTEN * writes) or added < LEAST * device_ns(device):
            continue
        groups = device.groups("processes")
        callers = sorted((each for each in groups if each.ios.get("flush")), key=lambda each: -each.ios["flush"])
        callers = callers or [each for each in groups if each.label.startswith("jbd2/")]
        by = f" of {formatting.listing([each.label for each in callers[:2]])}" if callers else ""
        message = (
            f"flushes: {formatting.plural(flushing.count, 'I/O')}{by} flush the disk's cache and take"
            f" {formatting.duration(flushing.mean)} on average; there are {formatting.number(writes / flushing.count)}"
            " writes for each"
        )
        remedy = (
            "combine commits: a larger group commit of the database, a longer commit interval of the filesystem",
            "or a disk whose cache survives a power failure, which needs no flush; do not switch flushes off: then a"
            " power failure loses data",
        )
        yield waiting.cause("flushes", device, sum_ns(flushing), message, *remedy)


def _plain_ns(device: DeviceView) -> float:
    """Returns the mean time of a write without a flush; 0 if there are too few."""
    writes, flushes, flushing = device.latency("write"), device.latency("flush"), device.data.waits.flushing
    count = (writes.count if writes else 0) - flushing.count + (flushes.count if flushes else 0)
    return max(0.0, sum_ns(writes) - sum_ns(flushing) + sum_ns(flushes)) / count if count >= FEWEST else 0.0
