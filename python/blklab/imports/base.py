"""What a format takes and gives."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from blklab.errors import BlklabError
from blklab.outcome import DeviceResult, DirectionResult, LatencyResult, MeasuredResult, Outcome
from blklab.store.series import SeriesPoint
from blklab.text import printable

MOST_RUNS: Final = 100_000
"""Of one import."""

LATENCIES: Final = ("mean", "stddev", "min", "max")
QUANTILES: Final = (
    *("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99"),
)


@dataclass(frozen=True)
class ImportFile:
    """Something to import."""

    path: Path
    """`-` is standard input."""

    text: str
    """Empty of a directory, whose format reads the files in it itself."""

    named: bool = True
    """Whether somebody asked for it; else it was found in a directory."""

    @property
    def where(self) -> str:
        """What to call it in a message."""
        return printable(str(self.path))


@dataclass(frozen=True)
class ImportSource:
    """What a format is to read."""

    files: Sequence[ImportFile]
    device: str | None = None
    """The device that is meant, of a source with several."""

    interval_ns: int | None = None
    """What lies between two reports, if the source does not say."""

    keep_first: bool = False
    """Whether the first report is like the others, and not of the time since boot."""

    logs: Mapping[Path, Sequence[ImportFile]] = field(default_factory=dict)
    """fio's interval logs, by the JSON of the same run."""


@dataclass(frozen=True)
class ImportedRun:
    """One run, as its source has it."""

    where: str
    """File, and line if it has several runs."""

    workload: str
    options: Mapping[str, str]
    """What was asked for, in fio's words: rw, bs, iodepth, numjobs …; absent is unknown."""

    outcome: Outcome
    points: Sequence[SeriesPoint] = ()
    raw: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that stand in any case, whether they tell runs apart or not."""


@dataclass(frozen=True)
class ImportResult:
    """What files had."""

    runs: Sequence[ImportedRun]
    notes: Sequence[str] = ()
    """What was left out, and why; each names its file."""


@dataclass(frozen=True)
class ImportFormat:
    """One form of results."""

    name: str
    runner: str
    """The tool that measured."""

    what: str
    matches: Callable[[ImportFile], bool]
    """Recognises a file by its content."""

    read: Callable[[ImportSource], ImportResult]
    """Raises BlklabError for a file that is not what it seemed to be: file, line, what is wrong."""


def number(text: str, where: str, most: float = 1e18) -> float:
    """Returns a number from 0 on; a comma may stand for the point. Raises BlklabError."""
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise BlklabError(f"{where}: found {printable(text[:40])!r}, a number is expected")
    return value


def direction_result(
    ios: int, io_bytes: int, runtime_ns: int, latency: Mapping[str, float | None] | None = None
) -> DirectionResult:
    """Returns `read` or `write` of a result, from counts; of a latency, what is known of it."""
    seconds = runtime_ns / 1e9
    return {
        "total_ios": ios,
        "io_bytes": io_bytes,
        "iops": ios / seconds if seconds else 0.0,
        "bw_bytes": io_bytes / seconds if seconds else 0.0,
        "clat_ns": times(ios, latency),
    }


def times(ios: int, latency: Mapping[str, float | None] | None) -> LatencyResult:
    """Returns `clat_ns` of a result; null what is not known."""
    known = latency if ios and latency else {}
    latencies = {key: known.get(key) for key in (*LATENCIES, *QUANTILES)}
    return cast(LatencyResult, {"count": ios if known else 0, **latencies, "relative_error": 0.0})


def outcome(
    name: str,
    runtime_ns: int,
    directions: Sequence[DirectionResult],
    devices: Sequence[DeviceResult] = (),
    warnings: Sequence[str] = (),
) -> MeasuredResult:
    """Returns the outcome of a run that had one job, or of which no more is known."""
    read, write = directions
    return {
        "runtime_ns": runtime_ns,
        "read": read,
        "write": write,
        "groups": [{"name": name, "read": read, "write": write}],
        "devices": list(devices),
        "targets": [],
        "steady": None,
        "command": None,
        "warnings": list(warnings),
        "forced": [],
    }


def device(name: str, ios: Sequence[int], **known: Any) -> DeviceResult:
    """Returns an entry of `devices[]`; null what is not known."""
    unknown = dict.fromkeys(
        (
            *("merges", "sectors", "ticks_ns", "busy_ns", "queue_ns"),
            *("flushes", "flush_ns", "discards", "id"),
        )
    )
    own = {"kind": "disk", "above": [], "leaf": True, **known}
    return cast(DeviceResult, {"name": name, "ios": list(ios), **unknown, **own})


def of_points(
    points: Sequence[SeriesPoint], at: int, runtime_ns: int, known: Mapping[str, float]
) -> DirectionResult:
    """Returns what a series is in all: its reads (`at` 0) or writes; `known` are more latencies."""
    parts = [
        (point.read_ios, point.read_bytes, point.read_clat_ns)
        if at == 0
        else (point.write_ios, point.write_bytes, point.write_clat_ns)
        for point in points
    ]
    ios, size = sum(part[0] for part in parts), sum(part[1] for part in parts)
    timed = [(part[0], part[2]) for part in parts if part[2] is not None and part[0]]
    weight = sum(count for count, _ in timed)
    mean = math.fsum(count * value for count, value in timed) / weight if weight else None
    latencies = {"mean": mean, **known} if mean is not None else None
    seconds = runtime_ns / 1e9
    return {
        "total_ios": ios,
        "io_bytes": size,
        "iops": ios / seconds,
        "bw_bytes": size / seconds,
        "clat_ns": times(ios, latencies),
    }
