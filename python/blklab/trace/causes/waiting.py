"""What rules share: the time that programs wait for a trace's I/O, and how a cause says its share of it."""

from collections.abc import Iterator
from functools import cached_property

from blklab.diagnostic import Diagnostic, Severity
from blklab.documents.profile import QuantilesSummary, TimeSumProfile
from blklab.grouping import by_key
from blklab.render import formatting
from blklab.trace.view import DeviceView, ProfileView

SERIOUS = 0.3  # Share of the waiting time from which a cause is a warning
FEWEST = 20  # Minimum number of I/Os for a statement about them


def sum_ns(quantiles: QuantilesSummary | None) -> float:
    """Returns the sum of all values."""
    return quantiles.count * (quantiles.mean or 0.0) if quantiles else 0.0


def time_ns(time: TimeSumProfile) -> float:
    """Returns the time of all I/Os of a sum."""
    return time.ios * (time.mean_ns or 0.0)


PARTS = (
    (0.1, "a tenth"), (0.2, "a fifth"), (0.25, "a quarter"), (1 / 3, "a third"), (0.5, "half"), (2 / 3, "two thirds"),
    (0.75, "three quarters"), (0.9, "nine tenths"),
)  # fmt: skip
NEARLY_ALL = 0.95


def part_text(share: float) -> str:
    """Returns a share of the waiting in words, because shares of causes overlap and are no exact figures."""
    if share >= NEARLY_ALL:
        return "nearly all"
    if share < LEAST_PART:
        return "a small part"
    return f"about {min(PARTS, key=lambda part: abs(part[0] - share))[1]}"


LEAST_PART = 0.075  # Share below which a part is small: nearer to a twentieth than to a tenth
WHOLE = 0.9  # Share of a trace from which on a window of time is the whole trace


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

    def is_whole(self, device: DeviceView, window: tuple[int, int]) -> bool:
        """Whether a window of time is nearly all of a device's trace."""
        return window[1] - window[0] >= WHOLE * device.span_ns

    def window_ns(self, window: tuple[int, int]) -> float:
        """Returns the part of `total_ns` in a window of time, as far as the slices of the profile show it."""
        total = 0.0
        for device in self.entrances:
            series = device.data.waits.over_time
            for index, part in enumerate(series.slices):
                start = index * series.width_ns
                if start < window[1] and window[0] < start + series.width_ns:
                    total += part.all_ns
        return min(total, self.total_ns)

    def cause(
        self,
        code: str,
        device: DeviceView,
        ns: float,
        message: str,
        *remedy: str,
        member: str = "",
        window: tuple[int, int] | None = None,
        waiting_ns: float | None = None,
        waiting_text: str = "the waiting",
    ) -> Diagnostic:
        """Returns a cause that is behind `ns` of the waiting time; its message ends with its part of this time.

        It acts in `window`. `waiting_ns` is the waiting time of which `ns` is a part, if it is not that of all I/O.
        """
        total_ns = waiting_ns or self.total_ns
        share = min(1.0, ns / total_ns)
        part = f"this explains {part_text(share)} of {waiting_text}"
        if window and waiting_ns is None and not self.is_whole(device, window):
            window_share = min(1.0, ns / max(ns, self.window_ns(window)))
            span = f"from {formatting.duration(window[0])} to {formatting.duration(window[1])}"
            part = f"{span}, this explains {part_text(window_share)} of {waiting_text}"
        severity: Severity = "warning" if share >= SERIOUS else "note"
        return Diagnostic(code, severity, device.label, f"{message}; {part}", remedy, member, weight=share)
