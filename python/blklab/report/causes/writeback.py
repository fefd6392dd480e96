"""Reads and synchronous writes wait behind writeback."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import FEWEST, Waiting, device_ns, sum_ns

FEW = 5  # I/Os that must have waited
SLOWER = 3.0  # I/Os behind writeback take at least so many times as long as others
LEAST = 0.2  # Smallest share of the device's waiting


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the devices on which programs wait behind writeback."""
    for device in waiting.entrances:
        waits = device.data.waits
        behind, alone = waits.behind_writeback, waits.alone
        usual = alone.mean if alone.count >= FEWEST else None
        if not device.capabilities.layers or behind.count < FEW or sum_ns(behind) < LEAST * device_ns(device):
            continue  # Only blktrace records which writes are synchronous
        if usual is None or (behind.mean or 0.0) < SLOWER * usual:
            continue
        writers = [group for group in device.groups("processes") if group.ios.get("write")]
        writer = max(writers, key=lambda group: (group.label.startswith("kworker"), group.written), default=None)
        by = f" of {writer.label} ({formatting.size(writer.written)} written)" if writer else ""
        message = (
            f"programs wait behind writeback{by}: {formatting.plural(behind.count, 'read or synchronous write')} that"
            f" came while it was in flight took {formatting.duration(behind.mean)} on average"
            f", the others {formatting.duration(usual)}"
        )
        remedy = (
            "less dirty data at a time: lower vm.dirty_background_bytes and vm.dirty_bytes",
            "or limit the writer: ionice with bfq, io.max of its cgroup, or wbt (queue/wbt_lat_usec)",
        )
        yield waiting.cause("behind-writeback", device, sum_ns(behind), message, *remedy)
