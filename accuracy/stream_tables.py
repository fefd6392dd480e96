"""Published streams: `stream_runs.csv` of a directory of tables, and the cells that predict them.

reference/README.md describes the columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accuracy.reference import number, table_rows
from blklab.errors import UsageError
from blklab.experiment import cells, load
from blklab.experiment.cells import Cell

STREAMS = "stream_runs.csv"
STREAM, RANDOM = "stream", "random"  # The jobs of a set-up; the second one is missing if nothing runs with the stream


@dataclass(frozen=True)
class StreamRun:
    """One row of stream_runs.csv: a program that reads or writes in order, alone or with random I/O."""

    setup: str  # The file in accuracy/streams, and the stack: `six/far`
    program: str
    rw: str
    read_ahead_kib: int | None  # None: the kernel's default
    offset: str  # "" as the set-up says
    size: str
    rate: float  # Bytes per second
    random_iops: float | None  # Of the random I/O, if there is some

    @property
    def test(self) -> str:
        """What was done, in words."""
        if self.rw == "write":
            return f"{self.program}, write"
        if self.read_ahead_kib is None:
            return f"{self.program}, {self.rw}, default read-ahead"
        return f"{self.program}, {self.rw}, read-ahead {self.read_ahead_kib} KiB"


def read_streams(path: Path) -> list[StreamRun]:
    """Reads a directory's table; without it, there are no rows. Raises UsageError."""
    return list(_stream_runs(path / STREAMS))


def _stream_runs(path: Path) -> Iterator[StreamRun]:
    columns = ("setup", "program", "rw", "read_ahead_kib", "offset", "size", "rate_mb_s", "random_iops")
    for where, row in table_rows(path, columns):
        rate = number(where, row, "rate_mb_s")
        if not rate:
            raise UsageError(f"{where}: rate_mb_s is 0")
        yield StreamRun(
            row["setup"],
            row["program"],
            row["rw"],
            int(number(where, row, "read_ahead_kib")) if row["read_ahead_kib"] else None,
            row["offset"],
            row["size"],
            rate * 1e6,
            number(where, row, "random_iops") if row["random_iops"] else None,
        )


def stream_cell(run: StreamRun) -> Cell:
    """Returns the cell of a stream. Raises UsageError for an unknown set-up."""
    name, _, stack = run.setup.partition("/")
    path = Path(__file__).parent / "streams" / f"{name}.toml"
    known = sorted(path_.stem for path_ in path.parent.glob("*.toml"))
    if name not in known:
        raise UsageError(f"{STREAMS}: found set-up {run.setup!r}; known are {', '.join(known)}")
    source = load.read(path)
    workload = source.raw["workloads"][STREAM]
    table: dict[str, Any] = {**workload.get("jobs", {}).get(STREAM, workload), "rw": run.rw}
    table |= {key: value for key, value in (("offset", run.offset), ("size", run.size)) if value}
    jobs = {"jobs": {**workload["jobs"], STREAM: table}} if "jobs" in workload else table
    settings = dict(source.raw["settings"])
    if run.read_ahead_kib is not None:
        settings["read_ahead"] = run.read_ahead_kib
    raw = {**source.raw, "workloads": {STREAM: jobs}, "settings": settings}
    return cells.plan(load.ExperimentSource(path, raw), only={"stack": stack}).cells[0]


def block_bytes(cell: Cell) -> int:
    """Returns the bytes of a call of a stream."""
    job = next(job for job in cell.document["jobs"] if job["name"] == STREAM)
    sizes = job["read_sizes"] if job["read_share"] else job["write_sizes"]
    return int(sizes[0][0])
