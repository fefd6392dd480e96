"""The interface of import formats."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from blklab.errors import BlklabError, SystemErrors, UsageError
from blklab.outcome import DeviceResult, DirectionResult, GroupResult, LatencyResult, Outcome
from blklab.store.series import SeriesPoint
from blklab.text.printing import printable
from blklab.text.user_file import open_user_file, read_limited
from blklab.units import parse_number

MOST_RUNS = 100_000  # Maximum runs of an import


@dataclass(frozen=True)
class ImportFile:
    path: Path  # `-` is standard input
    content: str | None = None  # Of what can be read only once
    named_by_user: bool = True  # Whether the user named it; otherwise it is from a directory

    @property
    def location(self) -> str:
        """Its name in messages."""
        return printable(str(self.path))

    @property
    def text(self) -> str:
        """Its content: that of the file that was read last is kept, the others are read again. Raises UsageError."""
        if self.content is not None:
            return self.content
        with SystemErrors(UsageError, f"{self.location}: cannot be read"):
            status = self.path.stat()
            return _read(self.path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)
def _read(path: Path, _changed_ns: int, _size: int) -> str:
    with open_user_file(path) as stream:
        return read_text(path, stream)


def read_text(path: Path, stream: BinaryIO) -> str:
    """Returns the text of an open file. Raises UsageError for one that is no text, or too large."""
    content = read_limited(stream, path)
    if b"\0" in content[:8192]:
        raise UsageError(f"{printable(str(path))}: is not text")
    return content.decode("utf-8-sig", errors="replace")


@dataclass(frozen=True)
class Column:
    """A figure or a text of a run, and the column in which it is."""

    role: str  # `read.mean`, `label.threads` …
    kind: str  # `rate`, `bandwidth`, `time`, `size`, `count` or `text`
    name: str  # Its header, or its number from 1
    unit: str | None = None


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table (`--columns`)."""

    columns: Sequence[Column]
    separator: str | None = None  # None: detected; a space: any white space


@dataclass(frozen=True)
class ImportSource:
    """The input of a format."""

    files: Sequence[ImportFile]
    device: str | None = None  # The device to import, for a source with several devices
    interval_ns: int | None = None  # The time between two reports, if the source does not contain it
    keep_first: bool = False  # Whether the first report covers an interval, and not the time since boot
    logs: Mapping[Path, Sequence[ImportFile]] = field(default_factory=dict)
    """fio's interval logs, by the JSON of the same run."""

    table: TableColumns | None = None  # The columns of tables that no program printed
    options: Mapping[str, str] = field(default_factory=dict)  # Options of all runs, in fio's words


@dataclass(frozen=True, slots=True)
class ImportedRun:
    location: str  # The file, and the line if it has several runs
    workload: str
    options: Mapping[str, str]  # Options in fio's words: rw, bs, iodepth, numjobs …; a missing option is unknown
    outcome: Outcome
    points: Sequence[SeriesPoint] = ()
    raw: bytes = b""  # The output of the tool, by `pack_output`
    labels: Mapping[str, str] = field(default_factory=dict)  # Labels that are always kept, even if all runs share them
    measured_at: str | None = None  # When it was measured (ISO 8601, without a zone if that is unknown)


@dataclass(frozen=True)
class ImportResult:
    """The runs of the files."""

    runs: Sequence[ImportedRun]
    notes: Sequence[str] = ()  # Skipped parts with the reason; each names its file


@dataclass(frozen=True)
class ImportFormat:
    name: str
    runner: str  # The tool that measured
    description: str
    matches: Callable[[ImportFile], bool]  # Recognises a file by its content
    read: Callable[[ImportSource], ImportResult]  # Raises BlklabError for an invalid file: file, line, error


def number(text: str, location: str) -> float:
    """Returns a number of 0 or more, with a decimal point or comma. Raises BlklabError."""
    value = parse_number(text.replace(",", "."))
    if not 0 <= value <= 1e18:
        raise BlklabError(f"{location}: found {printable(text[:40])!r}, expected a number")
    return value


def direction_result(
    ios: int, io_bytes: int, runtime_ns: int, latency: Mapping[str, Any] | None = None
) -> DirectionResult:
    """Returns `read` or `write` of a result, from counts and the known latencies."""
    seconds = runtime_ns / 1e9
    rates = (ios / seconds, io_bytes / seconds) if seconds else (0.0, 0.0)
    clat_ns = LatencyResult(ios, **latency) if ios and latency else LatencyResult()
    return DirectionResult(ios, io_bytes, *rates, clat_ns)


def outcome(
    name: str,
    runtime_ns: int,
    directions: Sequence[DirectionResult],
    devices: Sequence[DeviceResult] = (),
    warnings: Sequence[str] = (),
) -> Outcome:
    """Returns the outcome of a run with one job, or without separate jobs."""
    read, write = directions
    groups = [GroupResult(name, read, write)]
    return Outcome(runtime_ns, read, write, groups=groups, devices=list(devices), warnings=list(warnings))


def sum_points(
    points: Sequence[SeriesPoint], direction: int, runtime_ns: int, latencies: Mapping[str, float]
) -> DirectionResult:
    """Returns the totals of a series: its reads (`direction` 0) or writes; `latencies` are more latencies."""
    parts = [
        (point.read_ios, point.read_bytes, point.read_clat_ns)
        if direction == 0
        else (point.write_ios, point.write_bytes, point.write_clat_ns)
        for point in points
    ]
    ios = sum(part[0] for part in parts)
    size = sum(part[1] for part in parts)
    weighted_latencies = [(part[0], part[2]) for part in parts if part[2] is not None and part[0]]
    weight = sum(count for count, _ in weighted_latencies)
    mean = math.fsum(count * value for count, value in weighted_latencies) / weight if weight else None
    return direction_result(ios, size, runtime_ns, {"mean": mean, **latencies} if mean is not None else None)
