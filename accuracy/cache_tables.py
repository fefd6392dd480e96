"""Published runs of caches: `cache_runs.csv` and `bcache_runs.csv` of a directory of tables.

reference/README.md describes the columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accuracy.reference import RANDOMIO, RUNS, TARGETS, Reference, number, read_tables, table_rows
from accuracy.stream_tables import STREAMS, StreamRun, read_streams
from blklab.errors import UsageError
from blklab.toml_files.files import read_toml

CACHES = "cache_runs.csv"
BCACHES = "bcache_runs.csv"


@dataclass(frozen=True)
class CacheRun:
    """One row of cache_runs.csv: random reads through a cache, or of a device alone (`none-ssd`, `none-hdd`)."""

    run: str
    kernel: str
    policy: str
    state: str  # What the cache held at first: `empty`, `full` of other data; "" is unknown
    data_bytes: int
    cache_bytes: int
    jobs: int
    iodepth: int
    runtime_s: int
    iops: float
    ios: int
    fast_reads: int  # Reads of the fast and of the slow device; 0 of a device alone
    slow_reads: int
    counted_promotions: int | None  # Device-mapper's own counter, if it was published

    @property
    def promotions(self) -> int | None:
        """Blocks that were promoted: reads of the slow device that were no misses. None if that is unknown.

        In other runs than those of full caches, misses are fewer than the error of counting I/Os.
        """
        if self.counted_promotions is not None:
            return self.counted_promotions
        misses = self.ios - self.fast_reads
        return self.slow_reads - misses if self.state == "full" and 0 < misses <= self.slow_reads else None

    @property
    def hit_rate(self) -> float:
        """The share of I/Os that hit; if promotions are unknown, a lower bound."""
        return 1 - (self.slow_reads - (self.promotions or 0)) / self.ios


@dataclass(frozen=True)
class BcacheRun:
    """One row of bcache_runs.csv: writes to a bcache in writeback mode."""

    run: str
    kernel: str
    rw: str
    io_bytes: int
    jobs: int
    job_bytes: int
    runtime_s: int
    sequential_cutoff: int
    iops: float
    cache_writes: int  # Writes of the cache device and of the disk; 0 of both if they were not published
    disk_writes: int


@dataclass(frozen=True)
class CacheTables:
    """The runs of caches in a directory."""

    path: Path
    runs: Sequence[CacheRun] = ()
    bcaches: Sequence[BcacheRun] = ()
    kernels: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    """From targets.toml: other words for a kernel, or for the state of a run."""


def read_published(path: Path) -> tuple[Reference, CacheTables, list[StreamRun]]:
    """Reads a directory of tables with at least one row. Raises UsageError, in one line."""
    tables = read_tables(path)
    described = read_toml(path / TARGETS)
    words = (_words(path / TARGETS, key, described.get(key, {})) for key in ("cache_kernels", "cache_states"))
    caches = CacheTables(path, list(_cache_runs(path / CACHES)), list(_bcache_runs(path / BCACHES)), *words)
    streams = read_streams(path)
    if not (tables.runs or tables.randomio or caches.runs or caches.bcaches or streams):
        raise UsageError(f"{path}: none of {RUNS}, {RANDOMIO}, {CACHES}, {BCACHES} and {STREAMS} has a row")
    return tables, caches, streams


def _words(path: Path, key: str, words: object) -> dict[str, str]:
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise UsageError(f"{path}: {key}: expected a table of words")
    return words


def _cache_runs(path: Path) -> Iterator[CacheRun]:
    counts = ("data_bytes", "cache_bytes", "jobs", "iodepth", "runtime_s", "ios_issued")
    served = ("fast_device_reads", "slow_device_reads")
    iops = ("job1_iops", "job2_iops")
    for where, row in table_rows(path, ("run", "kernel", "policy", "cache_state", *counts, *served, *iops)):
        data, cache, jobs, depth, runtime, ios = (int(number(where, row, column)) for column in counts)
        if not (data and jobs and depth and runtime and ios):
            raise UsageError(f"{where}: data_bytes, jobs, iodepth, runtime_s or ios_issued is 0")
        fast, slow = (int(number(where, row, column)) if row[column] else 0 for column in served)
        total = sum(number(where, row, column) for column in iops)
        promotions = int(number(where, row, "promotions")) if row.get("promotions") else None
        facts = (row["run"], row["kernel"], row["policy"], row["cache_state"])
        yield CacheRun(*facts, data, cache, jobs, depth, runtime, total, ios, fast, slow, promotions)


def _bcache_runs(path: Path) -> Iterator[BcacheRun]:
    counts = ("io_bytes", "jobs", "job_bytes", "runtime_s", "sequential_cutoff")
    served = ("cache_writes", "disk_writes")
    for where, row in table_rows(path, ("run", "kernel", "rw", *counts, "iops", *served)):
        size, jobs, job_bytes, runtime, cutoff = (int(number(where, row, column)) for column in counts)
        cache, disk = (int(number(where, row, column)) if row[column] else 0 for column in served)
        facts = (row["run"], row["kernel"], row["rw"], size, jobs, job_bytes, runtime, cutoff)
        yield BcacheRun(*facts, number(where, row, "iops"), cache, disk)
