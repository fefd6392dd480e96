"""What a runner returns at the end of a run; its results over time are points in a flat table, as Parquet."""

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from blklab.documents import outcome as simulated
from blklab.errors import StoreError
from blklab.outcome import Outcome

JOBS = "jobs"  # The source that stands for all jobs together


@dataclass(frozen=True)
class SeriesPoint:
    """The measurements of one source in one interval."""

    source: str  # `jobs`, or a device's name
    time_ns: int  # Start of the interval, ns since the run began
    width_ns: int
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    read_clat_ns: float | None  # Mean latency of the reads; of devices, from dispatch to completion
    write_clat_ns: float | None


NAMES = tuple(field.name for field in fields(SeriesPoint))

KINDS = {"source": "String", **dict.fromkeys(NAMES[1:7], "Int64"), **dict.fromkeys(NAMES[7:], "Float64")}
"""Columns with their types in polars."""


def pack_output(raw: str) -> bytes:
    """Returns the output of a program as the store keeps it: it may be large, and an import has many."""
    return zlib.compress(raw.encode()) if raw else b""


def unpack_output(raw: bytes | None) -> str:
    return zlib.decompress(raw).decode(errors="replace") if raw else ""


def encode_points(points: Sequence[SeriesPoint]) -> bytes:
    """Returns points as a Parquet file."""
    return _parquet([astuple(point) for point in points], KINDS)


def encode_runs(runs: Mapping[int, Sequence[SeriesPoint]]) -> bytes:
    """Returns the points of several runs as one Parquet file, with `run` as the first column."""
    rows = [(run, *astuple(point)) for run, points in runs.items() for point in points]
    return _parquet(rows, {"run": "Int64", **KINDS})


def _parquet(rows: Sequence[tuple[Any, ...]], kinds: Mapping[str, str]) -> bytes:
    import polars

    schema = {name: getattr(polars, kind) for name, kind in kinds.items()}
    frame = polars.DataFrame(rows, schema=schema, orient="row", strict=False)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def decode_points(parquet: bytes, name: str) -> list[SeriesPoint]:
    """Returns the points of a Parquet file. Raises StoreError with `name` if it is not a series."""
    import polars

    try:
        frame = polars.read_parquet(parquet, columns=list(NAMES))
    except Exception as error:  # polars' errors have no common class
        raise StoreError(f"{name}: not a series: {str(error).splitlines()[0]}") from error
    return [SeriesPoint(*row) for row in frame.iter_rows()]


def of_outcome(parts: Sequence[simulated.Point]) -> list[SeriesPoint]:
    """Returns the points of a result's series."""
    return [
        SeriesPoint(JOBS, part["time_ns"], part["width_ns"], *part["ios"], *part["bytes"], *part["clat_ns"])
        for part in parts
    ]


def as_outcome(points: Sequence[SeriesPoint]) -> list[simulated.Point]:
    """Returns the points of all jobs together in a result's form (docs/reference/formats.md)."""
    return [
        {
            "time_ns": point.time_ns,
            "width_ns": point.width_ns,
            "ios": [point.read_ios, point.write_ios],
            "bytes": [point.read_bytes, point.write_bytes],
            "clat_ns": [point.read_clat_ns, point.write_clat_ns],
        }
        for point in points
        if point.source == JOBS
    ]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The result, raw output and series of a run."""

    outcome: Outcome
    seconds: float
    points: Sequence[SeriesPoint] = ()
    raw: bytes = b""  # The output of the program that measured, by `pack_output`
