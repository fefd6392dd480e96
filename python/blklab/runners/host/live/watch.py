"""What the devices do during a slice: differences of /proc/diskstats, and the latencies of a trace if there is one.

The latency of an interval is the largest of these, of reads or of writes:

- the mean of a device's I/Os: the time of all of them divided by their number, from /proc/diskstats;
- with a trace, their 99th percentile. A trace sees only I/Os that begin and end in its window, so it is never alone;
- if I/Os of a device are in flight and none ends, the time since one ended.

Devices are those that the user named, and those whose setting is changed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from blklab.errors import BlklabError
from blklab.outcome import DeviceResult, DirectionResult, LatencyResult, Outcome
from blklab.runners.counter_deltas import CounterDeltas
from blklab.runners.host.conditions import cpu_times
from blklab.store.series import JOBS, SeriesPoint
from blklab.system import diskstats
from blklab.system.diskstats import CpuTimes, DeviceActivity
from blklab.system.identity import of_node
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots, read_text
from blklab.units import SECTOR

WAYS = ("read", "write")
ENOUGH_IOS = 100  # So many I/Os take at least a millisecond together, the unit of /proc/diskstats
MOST_BLIND = 3  # Successive intervals with so many I/Os, of which the trace shows none


@dataclass(frozen=True)
class TracedLatency:
    """The latencies of one direction in an interval of a trace, ns, from queueing to completion."""

    ios: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class LatencySource(Protocol):
    """A trace that goes on."""

    def take(self, elapsed_ns: int) -> Mapping[str, Sequence[TracedLatency]]:
        """Returns the latencies since the last call, by `read` and `write`, one for each device with such I/Os.

        Raises BlklabError if the trace ended.
        """


@dataclass
class SliceWatch:
    """Watches the devices from now on. `take` ends an interval; `forget` begins the part that counts."""

    targets: Sequence[str]  # The kernel's names of the devices whose I/O is the load
    layers: Sequence[SysfsLayer]  # They and all devices below them
    roots: Roots
    trace: LatencySource | None = None
    clock: Callable[[], int] = time.monotonic_ns
    guarded: Sequence[str] = ()  # The kernel's names of further devices whose latency counts
    _stuck_ns: dict[tuple[str, str], int] = field(default_factory=dict, init=False)
    _in_flight: dict[tuple[str, str], bool] = field(default_factory=dict, init=False)
    _deltas: CounterDeltas = field(init=False)
    _cpu_before: CpuTimes | None = field(init=False)
    _traced: dict[str, list[TracedLatency]] = field(init=False)
    _blind_intervals: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        reading = diskstats.read(self.roots)
        counted_names = [layer.name for layer in self.layers if reading.get(layer.name) is not None]
        names = [*self.targets, *counted_names]
        self._deltas = CounterDeltas(names, reading, self.clock(), diskstats.long_bits())
        self._start_counting()

    def _start_counting(self) -> None:
        self._cpu_before = cpu_times(self.roots)
        self._traced = {way: [] for way in WAYS}

    def forget(self) -> None:
        """Discards what was seen so far: the settling after a change."""
        self._deltas.forget()
        self._start_counting()

    def take(self) -> float | None:
        """Ends an interval; returns its latency in ns: see the module. None without I/O.

        Raises BlklabError if a device is gone, or the trace ended or does not show the I/O.
        """
        began_ns = self._deltas.read_ns
        reading = diskstats.read(self.roots)
        self._deltas.take(reading, self.clock())
        if self._deltas.problems:
            raise BlklabError(self._deltas.problems[0])
        first = len(self._deltas.points)
        self._deltas.emit()
        elapsed_ns = self._deltas.read_ns - began_ns
        latencies = []
        ios = 0
        for point in self._deltas.points[first:]:
            if point.source not in self.targets and point.source not in self.guarded:
                continue
            if point.source in self.targets:
                ios += point.read_ios + point.write_ios
            latencies += [latency for latency in (point.read_clat_ns, point.write_clat_ns) if latency is not None]
            latencies += self._find_hangs(point, diskstats.of(reading, point.source).in_flight, elapsed_ns)
        if self.trace is not None:
            traced = self.trace.take(elapsed_ns)
            percentiles = []
            for way in WAYS:
                self._traced[way] += traced[way]
                percentiles += [latency.p99 for latency in traced[way]]
            is_blind = ios >= ENOUGH_IOS and not percentiles
            self._blind_intervals = self._blind_intervals + 1 if is_blind else 0
            if self._blind_intervals >= MOST_BLIND:
                raise BlklabError("the trace does not show the I/O of the device; to go on without it, add --no-trace")
            latencies += percentiles
        return max(latencies, default=None)

    def _find_hangs(self, point: SeriesPoint, in_flight: int, elapsed_ns: int) -> list[float]:
        """Returns for how long reads, and writes, of a device are in flight without one that ends; none otherwise.

        `in_flight` is the number of I/Os of both directions, for kernels that do not tell them apart.
        """
        words = (read_text(self.roots.sys / "class/block" / point.source / "inflight") or "").split()
        if len(words) == len(WAYS) and all(word.isdigit() for word in words):
            present = dict(zip(WAYS, map(int, words), strict=True))
        else:
            present = dict.fromkeys(WAYS, 0 if point.read_ios + point.write_ios else in_flight)
        hangs = []
        for way, ended in zip(WAYS, (point.read_ios, point.write_ios), strict=True):
            key = point.source, way
            was_in_flight = self._in_flight.get(key, not point.read_ios + point.write_ios)
            self._in_flight[key] = present[way] > 0
            if not ended and present[way] and was_in_flight:
                self._stuck_ns[key] = self._stuck_ns.get(key, 0) + elapsed_ns
                hangs.append(float(self._stuck_ns[key]))
            else:
                self._stuck_ns[key] = 0
        return hangs

    @property
    def has_traced(self) -> bool:
        """Whether the trace showed any I/O since the last `forget`."""
        return any(self._traced.values())

    @property
    def activity(self) -> DeviceActivity | None:
        """What all targets did together since the last `forget`; None before the first interval."""
        total = None
        for name in self.targets:
            done = self._deltas.total.get(name)
            if done is not None:
                total = done if total is None else total + done
        return total

    def make_outcome(self) -> Outcome:
        """Returns the figures since the last `forget`."""
        seconds = max(1, self._deltas.watched_ns) / 1e9
        load = self.activity
        outcome = Outcome(runtime_ns=self._deltas.watched_ns, watched_ns=self._deltas.watched_ns)
        if load is not None:
            outcome.read = self._make_direction("read", 0, load, seconds)
            outcome.write = self._make_direction("write", 1, load, seconds)
        outcome.devices = [
            DeviceResult(
                layer.name,
                kind=layer.kind,
                above=list(layer.above),
                leaf=layer.leaf,
                id=None if layer.node is None else of_node(layer.node, self.roots).id,
                **self._deltas.total[layer.name].counts(),
            )
            for layer in self.layers
            if layer.name in self._deltas.total
        ]
        cpu_after = cpu_times(self.roots)
        if self._cpu_before is not None and cpu_after is not None:
            outcome.cpu = self._cpu_before.shares(cpu_after)
        return outcome

    def _make_direction(self, way: str, index: int, load: DeviceActivity, seconds: float) -> DirectionResult:
        ios = load.ios[index]
        size = load.sectors[index] * SECTOR
        latency = LatencyResult()
        if self._traced[way]:
            latency = _merge_latencies(self._traced[way])
        elif ios:
            latency = LatencyResult(count=ios, mean=load.ticks_ns[index] / ios)
        return DirectionResult(ios, size, ios / seconds, size / seconds, latency)

    def make_points(self) -> list[SeriesPoint]:
        """Returns the series since the last `forget`: of each device, and of all targets together as that of jobs."""
        points = list(self._deltas.points)
        by_time: dict[int, list[SeriesPoint]] = {}
        for point in points:
            if point.source in self.targets:
                by_time.setdefault(point.time_ns, []).append(point)
        return [*(_add_points(parts) for parts in by_time.values()), *points]


def _merge_latencies(parts: Sequence[TracedLatency]) -> LatencyResult:
    """Returns the latencies of a slice; a percentile is the mean of those of the intervals, weighted by their I/Os."""
    ios = sum(part.ios for part in parts)
    mean, p50, p95, p99 = (
        sum(part.ios * value for part, value in zip(parts, values, strict=True)) / ios
        for values in (
            [part.mean for part in parts],
            [part.p50 for part in parts],
            [part.p95 for part in parts],
            [part.p99 for part in parts],
        )
    )
    return LatencyResult(ios, mean, max=max(part.max for part in parts), p50=p50, p95=p95, p99=p99)


def _add_points(parts: Sequence[SeriesPoint]) -> SeriesPoint:
    """Returns the points of several devices in one interval as one; the latencies are the means over their I/Os."""
    return SeriesPoint(
        JOBS,
        parts[0].time_ns,
        parts[0].width_ns,
        sum(part.read_ios for part in parts),
        sum(part.write_ios for part in parts),
        sum(part.read_bytes for part in parts),
        sum(part.write_bytes for part in parts),
        _mean_latency([(part.read_ios, part.read_clat_ns) for part in parts]),
        _mean_latency([(part.write_ios, part.write_clat_ns) for part in parts]),
    )


def _mean_latency(parts: Sequence[tuple[int, float | None]]) -> float | None:
    ios = sum(count for count, _ in parts)
    return sum(count * (latency or 0.0) for count, latency in parts) / ios if ios else None
