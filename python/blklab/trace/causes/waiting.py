"""What rules share: the time that programs wait for a trace's I/O, and how a cause says its share of it."""

from collections.abc import Iterator
from functools import cached_property

from blklab.diagnostic import Diagnostic, Severity
from blklab.documents.profile import QuantilesSummary
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.trace.view import DeviceView, ProfileView

SERIOUS = 0.3  # Share of the waiting time from which a cause is a warning
FEWEST = 20  # Minimum number of I/Os for a statement about them


def sum_ns(quantiles: QuantilesSummary | None) -> float:
    """Returns the sum of all values."""
    return quantiles.count * (quantiles.mean or 0.0) if quantiles else 0.0


def program_waits(device: DeviceView) -> tuple[QuantilesSummary, QuantilesSummary, QuantilesSummary]:
    """Returns the times of I/Os that programs wait for: alone, behind writeback, behind md's resync."""
    waits = device.data.waits
    return waits.alone, waits.behind_writeback, waits.behind_resync


def device_ns(device: DeviceView) -> float:
    """Returns the time that programs wait for a device: that of reads, synchronous writes and flushes, if it has any.

    No program waits for writeback; only if there is nothing else, its time is the device's.
    """
    wait_ns = sum(map(sum_ns, program_waits(device))) if device.capabilities.layers else 0.0  # Only blktrace has flag S
    return wait_ns or sum(sum_ns(device.latency(op) or device.latency(op, "d2c")) for op in ("all", "flush"))


class Waiting:
    """A trace for the rules."""

    def __init__(self, view: ProfileView) -> None:
        self.view = view

    @cached_property
    def tops(self) -> list[DeviceView]:
        """The devices that get no I/O from another device of the trace."""
        lower_numbers = {feed.lower for feed in self.view.feeds}
        return [device for device in self.view.devices if device.active and device.number not in lower_numbers]

    @cached_property
    def entrances(self) -> list[DeviceView]:
        """The devices that programs use, with times: those that get no I/O from another device of the trace.

        Below a device without completions, such as bcache, these are the next ones.
        """
        feeds = self.view.feeds
        shown = {device.number for device in self.view.devices if device.active and device.ends}
        lower_numbers = {feed.lower for feed in feeds if feed.upper in shown}
        return [device for device in self.view.devices if device.number in shown - lower_numbers]

    @cached_property
    def total_ns(self) -> float:
        """The time that programs wait, of all I/Os added up, ns."""
        return sum(map(device_ns, self.entrances))

    def role(self, device: DeviceView) -> str | None:
        """Returns `cache` or `backing` of a device below a cache, if the recording says so."""
        layer = self.view.stack.get(device.number)
        return layer.role if layer else None

    def arrays(self) -> Iterator[tuple[DeviceView, list[DeviceView]]]:
        """Yields each device that passes its I/O to several others, with these."""
        below = by_key((feed.upper, feed.lower) for feed in self.view.feeds)
        for device in self.view.devices:
            numbers = below.get(device.number, ())
            lower = (
                [other for other in self.view.devices if other.number in numbers and other.active] if numbers else []
            )
            if device.active and len(lower) > 1:
                yield device, lower

    @cached_property
    def leaves(self) -> list[DeviceView]:
        """The devices with dispatches: disks."""
        return [device for device in self.view.devices if device.data.dispatches.requests]

    def op_ns(self, device: DeviceView, op: str) -> float:
        """Returns the part of `total_ns` that programs wait for one operation of a device."""
        took = sum_ns(device.latency(op) or device.latency(op, "d2c"))
        if op == "write" and device.capabilities.layers and any(map(sum_ns, program_waits(device))):
            load = device.op(op)
            took *= load.sync / max(1, load.ios)
        if device in self.entrances:
            return took
        layer = self.leaves if device in self.leaves else [device]
        return took * self.total_ns / max(1.0, sum(map(device_ns, layer)))

    def cause(
        self, code: str, device: DeviceView, ns: float, message: str, *remedy: str, member: str = ""
    ) -> Diagnostic:
        """Returns a cause that is behind `ns` of the waiting time; its message ends with its share of this time."""
        share = min(1.0, ns / self.total_ns)
        severity: Severity = "warning" if share >= SERIOUS else "note"
        message += f" ({formatting.share(share)} of the waiting time)"
        return Diagnostic(code, severity, device.label, message, remedy, member, weight=share)
