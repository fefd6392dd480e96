"""Published measurements: a directory of tables.

`targets.toml` describes each target, `fio_runs.csv` has fio's results, `fio_device_io.csv` the I/Os
of each disk, `randomio_runs.csv` randomio's results. reference/README.md describes the columns.
fio's rows have no latency; randomio's have.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blklab.calibrate.observations import Observation, observation
from blklab.errors import UsageError
from blklab.importers.base import outcome
from blklab.outcome import DeviceResult, DirectionResult, FioFacts, Outcome
from blklab.toml_files.files import read_toml
from blklab.units import parse_number, parse_size

TARGETS = "targets.toml"
RUNS = "fio_runs.csv"
DEVICE_IO = "fio_device_io.csv"
RANDOMIO = "randomio_runs.csv"
MORE = ("runtime_ms", "read_ios", "write_ios", "cpu_usr_pct", "cpu_sys_pct", "context_switches")
"""Columns of fio_runs.csv that may be missing."""


@dataclass(frozen=True)
class FioRun:
    """One row of fio_runs.csv: IOPS of a test on a target."""

    target: str
    test: str
    read_iops: float
    write_iops: float
    where: str  # File and line, for messages
    runtime_ms: float = 0.0
    ios: tuple[int, int] = (0, 0)  # Reads and writes; 0 if the table does not contain them, like the runtime
    processor: tuple[float, float, int] = (0.0, 0.0, 0)
    """usr and sys, per cent of a CPU, the mean of the jobs; and switches between tasks."""


@dataclass(frozen=True)
class RandomioRun:
    """One row of randomio_runs.csv. Latencies are ms; None if they were not published."""

    config: str
    threads: int
    io_bytes: int
    read_iops: float
    write_iops: float
    read_ms: float | None
    write_ms: float | None


@dataclass(frozen=True)
class Reference:
    """A directory's tables."""

    path: Path
    targets: Mapping[str, Mapping[str, Any]]
    tests: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any]
    runs: Sequence[FioRun]
    device_io: Mapping[tuple[str, str], Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """Reads and writes of each disk, by target and test, without the arrays' own rows."""

    randomio: Sequence[RandomioRun] = ()

    def singles(self) -> list[FioRun]:
        """Returns the rows of single devices, for calibration."""
        return [run for run in self.runs if "device" in self.targets[run.target]]

    def of_target(self, target: str) -> list[tuple[str, dict[str, Any], float, float]]:
        """Returns the test, its options, and the IOPS of reads and of writes, of each row of a target."""
        return [
            (run.test, {**self.tests[run.test], **self.common}, run.read_iops, run.write_iops)
            for run in self.runs
            if run.target == target
        ]


def read_reference(path: Path) -> Reference:
    """Reads a directory of tables that have at least one row. Raises UsageError as `read_tables` does."""
    tables = read_tables(path)
    if not tables.runs and not tables.randomio:
        raise UsageError(f"{path}: neither {RUNS} nor {RANDOMIO} has a row")
    return tables


def read_tables(path: Path) -> Reference:
    """Reads a directory of tables; missing tables are empty, except targets.toml.

    Raises UsageError in one line: file, line, the value and what was expected.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: no such directory; expected one with {TARGETS} and {RUNS}")
    described = read_toml(path / TARGETS)
    targets, tests = (_tables(path / TARGETS, described, key) for key in ("targets", "tests"))
    common = described.get("workload_common", {})
    if not isinstance(common, dict):
        raise UsageError(f"{path / TARGETS}: workload_common: expected a table")
    for name, target in targets.items():
        _check_target(f"{path / TARGETS}: targets.{name}", target)
    for name, test in tests.items():
        if not isinstance(test.get("rw"), str):
            raise UsageError(f"{path / TARGETS}: tests.{name}: expected a key rw")
    runs = list(_fio_runs(path / RUNS, targets, tests))
    randomio = list(_randomio_runs(path / RANDOMIO))
    return Reference(path, targets, tests, common, runs, _device_io(path / DEVICE_IO), randomio)


def _tables(path: Path, described: Mapping[str, Any], key: str) -> dict[str, Any]:
    tables = described.get(key, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(f"{path}: {key}: expected tables")
    return tables


def _check_target(where: str, target: Mapping[str, Any]) -> None:
    if ("device" in target) == ("members" in target):
        raise UsageError(f"{where}: expected either device or members")
    if "device" in target:
        if not isinstance(target["device"], str):
            raise UsageError(f"{where}: device: expected a name")
        return
    members = target["members"]
    if not isinstance(members, list) or not members or not all(isinstance(member, str) for member in members):
        raise UsageError(f"{where}: members: expected a list of names")
    if "level" not in target:
        raise UsageError(f"{where}: expected level with members")


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Returns each row of a table with its place; the table must have these columns."""
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{path}: {reason}") from None
    reader = csv.DictReader(text.splitlines())
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or [])]
        if missing:
            raise UsageError(f"{path}: no column {missing[0]!r}; expected {', '.join(columns)}")
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if any(row[column] is None for column in columns):
                raise UsageError(f"{where}: too few columns: expected {len(reader.fieldnames or [])}")
            yield where, row
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num + 1}: {error}") from None


def number(where: str, row: Mapping[str, str], column: str) -> float:
    """Returns a figure of a row, 0 or more. Raises UsageError."""
    value = parse_number(row[column])
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{where}: {column}: found {row[column]!r}, expected a number")
    return value


def _fio_runs(path: Path, targets: Mapping[str, Any], tests: Mapping[str, Any]) -> Iterator[FioRun]:
    for where, row in table_rows(path, ("target", "test", "read_iops", "write_iops")):
        for kind, known in (("target", targets), ("test", tests)):
            if row[kind] not in known:
                message = f"{where}: {kind}: found {row[kind]!r}, which is not in {TARGETS}; it has {', '.join(known)}"
                raise UsageError(message)
        read_iops, write_iops = (number(where, row, f"{direction}_iops") for direction in ("read", "write"))
        if read_iops + write_iops <= 0:
            raise UsageError(f"{where}: read_iops and write_iops are both 0")
        runtime, reads, writes, usr, system, switches = (
            number(where, row, column) if row.get(column) else 0.0 for column in MORE
        )
        ios, processor = (int(reads), int(writes)), (usr, system, int(switches))
        yield FioRun(row["target"], row["test"], read_iops, write_iops, where, runtime, ios, processor)


def _device_io(path: Path) -> dict[tuple[str, str], dict[str, tuple[int, int]]]:
    totals: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for where, row in table_rows(path, ("target", "test", "device", "read_ios", "write_ios")):
        if row["device"].startswith("md"):
            continue
        ios = (int(number(where, row, "read_ios")), int(number(where, row, "write_ios")))
        totals.setdefault((row["target"], row["test"]), {})[row["device"]] = ios
    return totals


def _randomio_runs(path: Path) -> Iterator[RandomioRun]:
    columns = ("config", "threads", "io_bytes", "read_iops", "write_iops")
    latencies = ("read_lat_avg_ms", "write_lat_avg_ms")
    for where, row in table_rows(path, (*columns, *latencies)):
        threads, io_bytes, *rest = (number(where, row, column) for column in columns[1:])
        times = [number(where, row, column) if row[column] else None for column in latencies]
        for column, value in (("threads", threads), ("io_bytes", io_bytes)):
            if not 1 <= value <= 1 << 30 or value != int(value):
                raise UsageError(f"{where}: {column}: found {row[column]!r}, expected a whole number")
        if rest[0] + rest[1] <= 0:
            raise UsageError(f"{where}: read_iops and write_iops are both 0")
        yield RandomioRun(row["config"], int(threads), int(io_bytes), *rest, *times)


def observations(path: Path, target: str) -> list[Observation]:
    """Returns fio's runs of a device. Raises UsageError."""
    tables = read_reference(path)
    own = [run for run in tables.runs if run.target == target]
    return [
        replace(observation(*run), outcome=_outcome(tables, row))
        for run, row in zip(tables.of_target(target), own, strict=True)
    ]


def _outcome(tables: Reference, run: FioRun) -> Outcome:
    """Returns a row as a result. Without a runtime, figures are per second."""
    seconds = run.runtime_ms / 1000 or 1.0
    asked = {
        key: str(value)
        for key, value in {**tables.common, **tables.tests[run.test]}.items()
        if key in {"rw", "bs", "iodepth", "numjobs", "rwmixread"}
    }
    size = parse_size(asked.get("bs", "4k"))
    directions: list[DirectionResult] = []
    for counted, iops in zip(run.ios, (run.read_iops, run.write_iops), strict=True):
        ios = counted or (max(1, round(iops * seconds)) if iops else 0)
        directions.append(DirectionResult(ios, ios * size, iops, iops * size))
    disks = [
        DeviceResult(name, list(ios), kind="disk", leaf=True)
        for name, ios in tables.device_io.get((run.target, run.test), {}).items()
    ]
    result = outcome(run.test, round(seconds * 10**9), directions, disks)
    usr, system, switches = run.processor
    if usr or system:
        jobs = int(asked.get("numjobs", "1"))
        options = {run.test: {**asked, "ioengine": str(tables.common.get("ioengine", "psync")), "filename": "file"}}
        result.fio = FioFacts(usr_cpu=jobs * usr, sys_cpu=jobs * system, ctx=switches, options=options)
    return result
