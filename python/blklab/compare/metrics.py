"""The metrics of a result by name, as `--metric` takes them.

Latencies are in ns, rates per second, bandwidths in bytes per second. A missing metric is None.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from blklab.errors import UsageError
from blklab.outcome import DeviceResult, Outcome
from blklab.toml_files.problems import near
from blklab.units import format_duration, format_rate

COMPARED_METRICS = ("iops", "mean", "p99")  # What reports and pages compare; `compare --metric` has the same default
WAYS = ("read", "write")  # The directions of I/O, in the order of pairs


@dataclass(frozen=True)
class Metric:
    name: str
    description: str
    kind: str  # `rate`, `bandwidth`, `time`, `share`, `cpus` or `number`: how it is printed
    more_is_better: bool
    compute: Callable[[Outcome], float | None]
    resolution: float = 0.002  # The relative step in which values are recorded

    def with_unit(self, value: float) -> str:
        """Returns a value with its unit."""
        match self.kind:
            case "time":
                return format_duration(value)
            case "bandwidth":
                return format_rate(value)
            case "rate":
                return f"{value:,.6g}/s"
            case "cpus":
                return f"{value:.2f}"
        return f"{value:,.6g}"


def _rate(direction: str, key: str, outcome: Outcome) -> float | None:
    figures = outcome.direction(direction)
    # A run without reads has no read IOPS, not 0.
    return float(getattr(figures, key)) if figures.total_ios else None


def _sum(key: str, outcome: Outcome) -> float | None:
    rates = [_rate(direction, key, outcome) for direction in WAYS]
    known_rates = [rate for rate in rates if rate is not None]
    return sum(known_rates) if known_rates else None


def _latency(direction: str, key: str, outcome: Outcome) -> float | None:
    value = getattr(outcome.latency(direction), key)
    if direction == "sync" and not value:
        return None  # A run without fsyncs has no latency of them, not 0
    return None if value is None else float(value)


def _sync_rate(outcome: Outcome) -> float | None:
    return outcome.sync.iops if outcome.sync is not None and outcome.sync.total_ios else None


def _best_rate(outcome: Outcome) -> float | None:
    return None if outcome.load_ramp is None else outcome.load_ramp.best_iops


def _cores_busy(outcome: Outcome) -> float | None:
    return outcome.cores_busy


def _used_cpus(outcome: Outcome) -> float | None:
    if outcome.processor_ns is not None:
        return outcome.processor_ns / outcome.observed_ns
    return None if outcome.fio is None else (outcome.fio.usr_cpu + outcome.fio.sys_cpu) / 100


def _command(key: str, outcome: Outcome) -> float | None:
    runs = () if outcome.command is None else outcome.command.runs
    return fmean(getattr(run, key) for run in runs) if runs else None


def _figure(outcome: Outcome) -> float | None:
    runs = () if outcome.command is None else outcome.command.runs
    values = [run.figure for run in runs if run.figure is not None]
    return fmean(values) if values else None


LATENCIES = {  # What metrics of latency are called, in the order of reports
    "mean": "mean latency",
    "p50": "median latency",
    "p95": "95th percentile of the latency",
    "p99": "99th percentile of the latency",
    "p99_9": "99.9th percentile of the latency",
    "p99_99": "99.99th percentile of the latency",
    "max": "longest latency",
    "stddev": "standard deviation of the latency",
}
"""Latencies of one direction. Without a direction, a name means the directions that all sides of a comparison have:
see `with_directions`."""

BIN = 1 / 64  # The width of a bin of fio's histogram of latencies (stat.h: FIO_IO_U_PLAT_BITS is 6)


def _latency_metrics(direction: str) -> list[Metric]:
    noun = "fsyncs" if direction == "sync" else f"{direction}s"
    metrics = []
    for key, description in LATENCIES.items():
        resolution = BIN if key.startswith("p") else 0.002
        value = partial(_latency, direction, key)
        metrics.append(Metric(f"{direction}.{key}", f"{description} of {noun}", "time", False, value, resolution))
    return metrics


_ALL = [
    Metric("iops", "I/Os a second", "rate", True, partial(_sum, "iops")),
    Metric("bw", "bandwidth", "bandwidth", True, partial(_sum, "bw_bytes")),
    *(Metric(f"{way}.iops", f"{way}s a second", "rate", True, partial(_rate, way, "iops")) for way in WAYS),
    *(Metric(f"{way}.bw", f"{way} bandwidth", "bandwidth", True, partial(_rate, way, "bw_bytes")) for way in WAYS),
    *_latency_metrics("read"),
    *_latency_metrics("write"),
    *_latency_metrics("sync"),
    Metric("sync.iops", "fsyncs a second", "rate", True, _sync_rate),
    Metric("load.iops", "I/Os a second with the 99th percentile below p99_below", "rate", True, _best_rate),
    Metric("cpus", "CPUs that the jobs use (fio's usr and sys): 1 is one CPU all the time", "cpus", False, _used_cpus),
    Metric("cores", "share of the time of all CPUs that tasks use; only in simulations", "share", False, _cores_busy),
    Metric("wall", "wall-clock time of the command", "time", False, partial(_command, "wall_ns")),
    Metric("figure", "figure that the command prints itself (larger is better)", "number", True, _figure),
    Metric("user", "user CPU time of the command", "time", False, partial(_command, "user_ns")),
    Metric("system", "system CPU time of the command", "time", False, partial(_command, "system_ns")),
]

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}  # All metrics by name


def metric_name(text: str) -> str:
    """Returns a metric's name as users spell it: `read.p99`, `read_p99`, `p99.9`, or without a
    direction. Raises UsageError.
    """
    name = re.sub(r"^(read|write|sync)_", r"\1.", text.strip())
    name = re.sub(r"\bp99\.(9+)$", r"p99_\1", name)
    if name not in METRICS and name not in LATENCIES:
        raise UsageError(f"no metric {text!r}; {near(name, [*METRICS, *LATENCIES])}")
    return name


def directions(outcomes: Iterable[Outcome]) -> set[str]:
    """Returns the directions of all I/O."""
    return {direction for outcome in outcomes for direction in WAYS if outcome.direction(direction).total_ios}


def with_direction(name: str, sides: Sequence[Sequence[Outcome]]) -> str:
    """Returns the one metric that a name means for these sides of a comparison, where only one can be shown.

    A latency without a direction is of the direction that most sides have; of both, of the one with more I/Os on all
    sides together. This is writes only if they are 10 % more: chance must not decide about equal shares.
    """
    if name not in LATENCIES:
        return name
    directions_of_sides = [directions(side) for side in sides]

    def weight(direction: str) -> tuple[int, float]:
        ios = sum(outcome.direction(direction).total_ios for side in sides for outcome in side)
        side_count = sum(direction in side for side in directions_of_sides)
        return side_count, ios * (1.1 if direction == "read" else 1)

    return f"{max(WAYS, key=weight)}.{name}"


MIN_SHARE = 0.01  # A direction with fewer of a run's I/Os is not compared


def with_directions(name: str, sides: Sequence[Sequence[Outcome]]) -> list[str]:
    """Returns the metrics that a name means for these sides of a comparison.

    A latency without a direction is of reads, of writes and of fsyncs, as far as all sides have them. If they have none
    in common, it is the one of `with_direction`.
    """
    if name not in LATENCIES:
        return [name]
    metrics = [f"{direction}.{name}" for direction in WAYS if _all_have(sides, direction)]
    if _all_have_syncs(sides, f"sync.{name}"):
        metrics.append(f"sync.{name}")
    return metrics or [with_direction(name, sides)]


def _all_have(sides: Sequence[Sequence[Outcome]], direction: str) -> bool:
    """Returns whether all sides that have any runs have I/O of a direction."""
    shares = []
    for side in sides:
        total = sum(outcome.direction(way).total_ios for outcome in side for way in WAYS)
        if total:
            shares.append(sum(outcome.direction(direction).total_ios for outcome in side) / total)
    return bool(shares) and min(shares) >= MIN_SHARE


def _all_have_syncs(sides: Sequence[Sequence[Outcome]], metric: str) -> bool:
    """Returns whether all sides that have any runs have the latency of fsyncs."""
    sides_with_runs = [side for side in sides if side]
    return bool(sides_with_runs) and all(
        any(METRICS[metric].compute(outcome) for outcome in side) for side in sides_with_runs
    )


def all_metrics(outcome: Outcome) -> dict[str, float]:
    """Returns all metrics of a result, by name."""
    figures = {name: metric.compute(outcome) for name, metric in METRICS.items()}
    return {name: value for name, value in figures.items() if value is not None}


def lowest_devices(outcome: Outcome) -> list[DeviceResult]:
    """Returns the lowest devices, which share the I/O."""
    return [device for device in outcome.devices if device.leaf is not False]


def rate_scale(outcome: Outcome) -> float:
    """Returns the factor by which the rates of the devices were divided; 1 outside the lab."""
    return 1 if outcome.lab is None else outcome.lab.scale


def device_shares(outcome: Outcome) -> dict[str, tuple[float | None, float | None]]:
    """Returns each lowest device's share of reads and of writes; None without I/O.

    Shares are of I/Os at the devices, after merging.
    """
    devices = lowest_devices(outcome)
    total_reads = sum(device.ios[0] for device in devices)
    total_writes = sum(device.ios[1] for device in devices)
    return {
        device.name: (
            device.ios[0] / total_reads if total_reads else None,
            device.ios[1] / total_writes if total_writes else None,
        )
        for device in devices
    }
