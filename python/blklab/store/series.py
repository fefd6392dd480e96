"""Results over time: points of one flat table, a Parquet file a run.

A file is written under a temporary name, synced and renamed: it is there whole or not at all.
"""

import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

from blklab import output
from blklab.errors import BlklabError

JOBS: Final = "jobs"
"""The source that all jobs together are."""


@dataclass(frozen=True)
class Point:
    """What one source did in one interval."""

    source: str
    """`jobs`, or a device's name."""

    time_ns: int
    """Where the interval begins, ns since the run began."""

    width_ns: int
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    read_clat_ns: float | None
    """Mean latency of the reads; of devices, from dispatch to completion."""

    write_clat_ns: float | None


NAMES: Final = tuple(field.name for field in fields(Point))


def encoded(points: Sequence[Point]) -> bytes:
    """Returns points as a Parquet file."""
    import polars

    kinds = {
        "source": polars.String,
        **dict.fromkeys(NAMES[1:7], polars.Int64),
        **dict.fromkeys(NAMES[7:], polars.Float64),
    }
    frame = polars.DataFrame(
        [astuple(point) for point in points], schema=kinds, orient="row", strict=False
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def write(path: Path, points: Sequence[Point]) -> None:
    """Writes points as a Parquet file, replacing what is there. Raises OSError."""
    output.replace(path, encoded(points))


def read(path: Path) -> list[Point]:
    """Returns the points of a file. Raises BlklabError for one that is none."""
    import polars

    try:
        frame = polars.read_parquet(path, columns=list(NAMES))
    except FileNotFoundError:
        raise BlklabError(f"{path}: the series of this run is not there") from None
    except Exception as error:  # polars' errors have no common class
        what = str(error).splitlines()[0]
        raise BlklabError(f"{path}: no series: {what}") from error
    return [Point(*row) for row in frame.iter_rows()]


def of_outcome(outcome: dict[str, Any]) -> list[Point]:
    """Takes the series out of a simulation's outcome and returns its points."""
    return [
        Point(
            JOBS,
            part["time_ns"],
            part["width_ns"],
            *part["ios"],
            *part["bytes"],
            *part["clat_ns"],
        )
        for part in outcome.pop("series", [])
    ]
