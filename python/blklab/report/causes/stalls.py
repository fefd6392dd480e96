"""The device stops: nothing completes for long although I/O is in flight."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import Waiting, device_ns

LONG = 100  # Median latencies from which on a stall is one of the device, not of one slow I/O
LEAST = 0.5  # Smallest share of the device's waiting


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices whose stalls cause much of the waiting."""
    for device in waiting.entrances:
        took = device.latency("all") or device.latency("all", "d2c")
        long = [each for each in device.data.slow.stalls if each.length_ns >= LONG * ((took and took.p50) or 0)]
        # I/Os that came during a stall have waited for half of it on average.
        waited = sum(each.length_ns * max(1.0, sum(each.in_flight.values()) / 2) for each in long)
        if not took or waited < LEAST * device_ns(device):
            continue
        longest = max(long, key=lambda each: each.length_ns)
        share = sum(each.length_ns for each in long) / max(1, device.span_ns)
        length, start, usual = map(formatting.duration, (longest.length_ns, longest.start_ns, took.p50))
        message = (
            f"{device.label} stops: nothing completed for up to {length} (at {start}) although I/Os were in flight,"
            f" {formatting.plural(len(long), 'time')}, {formatting.share(share)} of the time; half of the I/Os take at"
            f" most {usual}"
        )
        remedy = (
            "look into the kernel's log for resets and timeouts of the disk, and at its firmware and SMART values",
            "flash without free blocks stops as well: discard what is not used (fstrim)",
        )
        yield waiting.cause("stalls", device, min(waited, device_ns(device)), message, *remedy)
