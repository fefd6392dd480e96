"""fio's interval logs (`write_iops_log`, `write_bw_log`, `write_lat_log`): one series for all jobs.

A line is `time, value, direction, block size, …`: ms since the start of the job without ramp, and
the value of the interval that ends then: I/Os per second, KiB/s, or the mean latency in ns. fio
writes no line for an interval without I/O, truncates rates, and loses the time after the last whole
interval (stat.c of fio 3.33, `__add_samples`). The totals of the job correct this.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

from blklab.errors import BlklabError
from blklab.fio.output import FioDirection, FioJobResult

_LINE = re.compile(r"\s*(\d{1,18})\s*,\s*(\d{1,19})\s*,\s*(\d)\s*(?:,.*)?", re.A)
LATE = 1.5  # Intervals since the previous line from which it is a gap without I/O, and not a late line
RAGGED = 0.1  # In intervals: a shorter remainder at the end is part of the last interval
MOST_SLICES = 1_000_000


class LogSample(NamedTuple):
    time_ms: int
    value: int
    direction: int  # 0: read, 1: write


@dataclass(frozen=True)
class JobLog:
    """The logs of one job or of one of its clones."""

    iops: Sequence[LogSample] = ()
    bandwidth: Sequence[LogSample] = ()
    clat: Sequence[LogSample] = ()
    totals: tuple[FioDirection, FioDirection] | None = None
    runtime_ms: int = 0  # Measured time; 0 if unknown


class LogSlice(NamedTuple):
    """All jobs in one interval: the fields of `blklab.store.series.SeriesPoint` without its source."""

    time_ns: int
    width_ns: int
    read_ios: int
    write_ios: int
    read_bytes: int
    write_bytes: int
    read_clat_ns: float | None
    write_clat_ns: float | None


def parse_log(text: str, name: str) -> list[LogSample]:
    """Returns the reads and writes in a log. Raises BlklabError with the line."""
    samples = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise BlklabError(
                f"{name}: line {number}: found {line[:60]!r}, expected time, value, direction, … of a fio interval log"
            )
        if match[3] in "01":
            samples.append(LogSample(int(match[1]), int(match[2]), int(match[3])))
    return samples


def gather(texts: Mapping[str, str], prefix: str, jobs: Sequence[FioJobResult] = ()) -> list[JobLog]:
    """Returns the logs of each job from files by name, such as `log_iops.1.log`.

    `jobs` are those of fio's JSON, without `group_reporting`: fio numbers the logs in their order.
    """
    pattern = re.compile(re.escape(prefix) + r"_(iops|bw|clat)\.(\d{1,9})\.log", re.A)
    logs_by_job: dict[int, dict[str, list[LogSample]]] = {}
    for name, text in texts.items():
        if match := pattern.fullmatch(name):
            logs_by_job.setdefault(int(match[2]), {})[match[1]] = parse_log(text, name)
    logs = []
    for number, by_kind in sorted(logs_by_job.items()):
        job_figures = {}
        if 0 < number <= len(jobs):
            read, write = jobs[number - 1].directions
            job_figures = {"totals": (read, write), "runtime_ms": max(read.runtime_ms, write.runtime_ms)}
        kinds = (by_kind.get(kind, []) for kind in ("iops", "bw", "clat"))
        logs.append(JobLog(*kinds, **job_figures))  # type: ignore[arg-type]
    return logs


class _AmountOverTime:
    """An amount over time: pieces of `start`, `end` (ms) and amount, in order."""

    def __init__(self, pieces: Sequence[tuple[float, float, float]]) -> None:
        self.pieces = pieces
        self._ends = [end for _, end, _ in pieces]
        self._sums = [0.0, *accumulate(amount for _, _, amount in pieces)]
        self.amount = self._sums[-1]
        self.end = self._ends[-1] if pieces else 0.0

    def fit_total(self, total: int, runtime_ms: float) -> "_AmountOverTime":
        """Returns it with the sum `total`: a missing amount is added after the last line, or everywhere."""
        pieces = list(self.pieces)
        missing = total - self.amount
        tail_ms = runtime_ms - self.end
        if missing > 0 and tail_ms > 0:
            usual = self.amount / self.end if self.end else math.inf
            pieces.append((self.end, runtime_ms, min(missing, 2 * usual * tail_ms)))
        amount = math.fsum(amount for _, _, amount in pieces)
        if amount <= 0:
            end = max(runtime_ms, self.end, 1.0)
            return _AmountOverTime([(0.0, end, float(total))] if total else [])
        return _AmountOverTime([(start, end, piece_amount / amount * total) for start, end, piece_amount in pieces])

    def among(self, edges: Sequence[float]) -> list[float]:
        """Returns the amount between each two edges; what comes after the last edge belongs to the last."""
        sums = [0.0] * (len(edges) - 1)
        for start, end, amount in self.pieces:
            for index, since, until in _parts(start, end, edges):
                sums[index] += amount * (until - since) / (end - start)
        return sums

    def until(self, time: float) -> float:
        index = bisect_left(self._ends, time)
        if index == len(self.pieces):
            return self.amount
        start, end, amount = self.pieces[index]
        return self._sums[index] + amount * max(0.0, time - start) / (end - start)


def _parts(start: float, end: float, edges: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    """Yields the intervals of a piece of time, and its share in each."""
    width = edges[1] - edges[0]
    last = len(edges) - 2
    first = min(int(start / width), last)
    for index in range(first, min(int(end / width), last) + 1):
        since = start if index == first else edges[index]
        until = end if index == last else min(end, edges[index + 1])
        if until > since:
            yield index, since, until


def _list_intervals(samples: Sequence[LogSample], direction: int, interval_ms: float) -> list[tuple[float, float, int]]:
    """Returns the time that each line of one direction covers, and its value."""
    intervals: list[tuple[float, float, int]] = []
    before = 0
    direction_samples = [sample for sample in samples if sample.direction == direction]
    for sample in sorted(direction_samples, key=lambda sample: sample.time_ms):
        elapsed_ms = sample.time_ms - before
        if elapsed_ms <= 0 and intervals:
            continue  # fio closes a log with the remainder after the last line
        width = elapsed_ms if 0 < elapsed_ms < LATE * interval_ms else interval_ms
        start = max(before if intervals else 0, sample.time_ms - width)
        intervals.append((float(start), float(max(sample.time_ms, start + 1)), sample.value))
        before = max(sample.time_ms, int(start) + 1)
    return intervals


def _estimate_interval_ms(logs: Sequence[JobLog]) -> float:
    """Returns the logging interval of fio, ms: the most frequent distance of lines."""
    gaps: list[float] = []
    for log in logs:
        for samples in (log.iops, log.bandwidth, log.clat):
            for direction in (0, 1):
                times = sorted(sample.time_ms for sample in samples if sample.direction == direction)
                gaps += [float(later - sooner) for sooner, later in pairwise(times) if later > sooner]
    return median(gaps) if gaps else 1000.0


def merge(logs: Sequence[JobLog], interval_ns: int, logged_ms: float | None = None) -> list[LogSlice]:
    """Returns the series of jobs that began together, in intervals of `interval_ns`.

    I/Os and bytes are added; latencies are weighted by their I/Os. `logged_ms` is fio's `log_avg_msec`, estimated from
    the logs if not given. The sums are scaled to the totals if these are known.
    """
    line_interval_ms = logged_ms or _estimate_interval_ms(logs)
    ios = []
    size = []
    for log in logs:
        ios.append([_rate(log, log.iops, direction, line_interval_ms, "total_ios") for direction in (0, 1)])
        size.append([_rate(log, log.bandwidth, direction, line_interval_ms, "io_bytes") for direction in (0, 1)])
    ends = [spread.end for pair in (*ios, *size) for spread in pair]
    end = max([*ends, *(float(log.runtime_ms) for log in logs)], default=0.0)
    if end <= 0:
        return []
    width = interval_ns / 1e6
    count = max(1, math.ceil(end / width - RAGGED))
    if count > MOST_SLICES:
        raise BlklabError(f"{count:,} intervals: expected at most {MOST_SLICES:,}")
    edges = [edge_index * width for edge_index in range(count)] + [max(end, (count - 1) * width + RAGGED)]
    columns = []
    for pairs, counter in ((ios, "total_ios"), (size, "io_bytes")):
        for direction in (0, 1):
            spreads = [pair[direction] for pair in pairs]
            amounts = [spread.among(edges) for spread in spreads]
            columns.append(_round_sums(amounts, _total(logs, spreads, direction, counter)))
    means = []
    for direction in (0, 1):
        ios_of_logs = [(log, pair[direction]) for log, pair in zip(logs, ios, strict=True)]
        means.append(_means(ios_of_logs, direction, line_interval_ms, edges))
    slices = []
    for index in range(count):
        begin = index * interval_ns
        length = interval_ns if index < count - 1 else round(edges[-1] * 1e6) - begin
        figures = (column[index] for column in columns)
        slices.append(LogSlice(begin, length, *figures, *(mean[index] for mean in means)))
    return slices


def _rate(
    log: JobLog, samples: Sequence[LogSample], direction: int, interval_ms: float, counter: str
) -> _AmountOverTime:
    unit = 1024 if counter == "io_bytes" else 1
    spread = _AmountOverTime(
        [
            (start, end, value * unit * (end - start) / 1000)
            for start, end, value in _list_intervals(samples, direction, interval_ms)
        ]
    )
    if log.totals is None:
        return spread
    return spread.fit_total(getattr(log.totals[direction], counter), float(log.runtime_ms))


def _round_sums(parts: Sequence[Sequence[float]], total: int) -> list[int]:
    """Returns the sums as whole numbers with the same total."""
    edges: list[int] = []
    exact = 0.0
    running_total = 0
    for values in zip(*parts, strict=True):
        exact += math.fsum(values)
        edges.append(min(round(exact), total) - running_total)
        running_total += edges[-1]
    # The part that a float could not hold.
    edges[edges.index(max(edges))] += total - running_total
    return edges


def _total(logs: Sequence[JobLog], spreads: Sequence[_AmountOverTime], direction: int, counter: str) -> int:
    """Returns the totals of all jobs: as known, otherwise from their lines."""
    totals = [getattr(log.totals[direction], counter) for log in logs if log.totals is not None]
    if len(totals) == len(logs):
        return sum(totals)
    amounts = (amount for spread in spreads for _, _, amount in spread.pieces)
    return math.floor(math.fsum(amounts) + 0.5)


def _means(
    jobs: Sequence[tuple[JobLog, _AmountOverTime]], direction: int, interval_ms: float, edges: Sequence[float]
) -> list[float | None]:
    count = len(edges) - 1
    weights = [0.0] * count
    sums = [0.0] * count
    for log, ios in jobs:
        for start, end, value in _list_intervals(log.clat, direction, interval_ms):
            for index, since, until in _parts(start, end, edges):
                weight = ios.until(until) - ios.until(since)
                weights[index] += weight
                sums[index] += weight * value
    return [total / weight if weight > 0 else None for total, weight in zip(sums, weights, strict=True)]
