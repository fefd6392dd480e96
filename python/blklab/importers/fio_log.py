"""fio's interval logs (`NAME_iops.1.log` …): a run with a series, or the series of a JSON's run.

With `log_avg_msec` a line is an interval, and `blklab.fio.logs` merges the jobs. Without it, a line
is an I/O with its bytes in the fourth column, and quantiles are exact. Logs of submission latency
(`slat`) are not used; logs of total latency (`lat`) only if there are none of completion (`clat`).
Histograms of completion latencies (`clat_hist`) have the quantiles of a run, and its series.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from blklab.errors import BlklabError
from blklab.fio import latency, logs
from blklab.fio.output import FioJobResult
from blklab.importers.base import ImportedRun, ImportFile, ImportResult, ImportSource, outcome, sum_points
from blklab.store.series import JOBS, SeriesPoint

NAME = re.compile(r"(?P<prefix>.{0,200})_(?P<kind>clat_hist|iops|bw|clat|slat|lat)(?:\.(?P<job>\d{1,9}))?\.log", re.S)
_FIRST = re.compile(r"\s{0,9}\d{1,18}\s{0,9},\s{0,9}\d{1,19}\s{0,9},\s{0,9}\d\s{0,9}(?:,\s{0,9}\d|\s*$)")

_HISTOGRAM = re.compile(r"\d{1,18}, ?[0-2], ?\d{1,12}((?:, ?\d{1,18}){16,1856})\s*")
"""Time, direction, block size, I/Os by latency."""

BINS = {1856: 1, 1216: 1000}
"""Bins of a histogram without `log_hist_coarseness`, and their unit, ns: fio 3, and fio 2."""

SECOND = 10**9


def matches(file: ImportFile) -> bool:
    """Returns whether a text is a log of fio's: times, values and directions."""
    first = file.text[:40_000].lstrip().partition("\n")[0]
    return _FIRST.match(first) is not None or _HISTOGRAM.fullmatch(first) is not None


class _Log(NamedTuple):
    file: ImportFile
    prefix: str
    kind: str
    job: int


def _parse_name(file: ImportFile) -> _Log:
    match = NAME.fullmatch(file.path.name)
    if match is None:
        raise BlklabError(
            f"{file.location}: unknown kind of log; expected a name such as NAME_iops.1.log, …_bw…, …_clat… or …_lat…"
        )
    return _Log(file, match["prefix"], match["kind"], int(match["job"] or 1))


def read(source: ImportSource) -> ImportResult:
    """Returns the run of the logs of one directory and name, as `by_run` groups them."""
    return ImportResult([_run([_parse_name(file) for file in source.files])])


def by_run(files: Sequence[ImportFile]) -> list[list[ImportFile]]:
    """Returns logs by directory and name before `_iops`, `_bw`, `_clat`."""
    runs: dict[tuple[str, str], list[ImportFile]] = defaultdict(list)
    for file in files:
        match = NAME.fullmatch(file.path.name)
        runs[str(file.path.parent), match["prefix"] if match else file.location].append(file)
    return list(runs.values())


def with_totals(files: Sequence[ImportFile], jobs: Sequence[FioJobResult]) -> list[SeriesPoint]:
    """Returns the series of a run whose JSON has the totals of each job."""
    members = [_parse_name(file) for file in files]
    if all(log.kind == "clat_hist" for log in members):
        return _histograms(members)[0]
    selected_logs = _select_logs(members)
    if _has_io_lines(selected_logs):
        return _count_ios(selected_logs)[0]
    return _points(logs.gather(_texts(selected_logs), "log", jobs))


def _select_logs(members: Sequence[_Log]) -> list[_Log]:
    """Returns the logs that are used, one for each kind and job."""
    completions = any(log.kind == "clat" for log in members)
    completion_logs = [log._replace(kind="clat") if log.kind == "lat" and not completions else log for log in members]
    selected_logs = [log for log in completion_logs if log.kind in {"iops", "bw", "clat"}]
    file_names: dict[tuple[str, int], str] = {}
    for log in selected_logs:
        other = file_names.setdefault((log.kind, log.job), log.file.location)
        if other != log.file.location:
            raise BlklabError(f"{other} and {log.file.location}: both are the {log.kind} log of one job")
    if not selected_logs:
        raise BlklabError(f"{members[0].file.location}: also expected logs of I/Os, bandwidth or completion latency")
    return selected_logs


def _texts(selected_logs: Sequence[_Log]) -> dict[str, str]:
    return {f"log_{log.kind}.{log.job}.log": log.file.text for log in selected_logs}


def _points(jobs: Sequence[logs.JobLog]) -> list[SeriesPoint]:
    return [SeriesPoint(JOBS, *part) for part in logs.merge(jobs, SECOND)]


def _run(members: Sequence[_Log]) -> ImportedRun:
    histograms = [log for log in members if log.kind == "clat_hist"]
    plain_logs = [log for log in members if log.kind != "clat_hist"]
    selected_logs = _select_logs(plain_logs) if plain_logs else histograms
    name = selected_logs[0].prefix or "fio"
    samples: list[dict[str, float]] = [{}, {}]
    if histograms:
        points, latencies = _histograms(histograms)
        samples = [_summarise_latency(bins) for bins in latencies]
    if plain_logs and _has_io_lines(selected_logs):
        points, latencies = _count_ios(selected_logs)
        samples = [_summarise_latency(bins) for bins in latencies]
    elif plain_logs:
        try:
            points = _points(logs.gather(_texts(selected_logs), "log"))
        except BlklabError as error:
            raise BlklabError(f"{selected_logs[0].file.location}: {error}") from None
    if not any(point.read_ios or point.write_ios for point in points):
        raise BlklabError(f"{selected_logs[0].file.location}: no I/Os: also expected {name}_iops.….log")
    runtime = points[-1].time_ns + points[-1].width_ns
    directions = [sum_points(points, direction, runtime, figures) for direction, figures in enumerate(samples)]
    options = {"numjobs": str(len({log.job for log in selected_logs}))}
    return ImportedRun(selected_logs[0].file.location, name, options, outcome(name, runtime, directions), points)


# --- histograms ----------------------------------------------------------------------------------


def _histograms(members: Sequence[_Log]) -> tuple[list[SeriesPoint], list[Counter[int]]]:
    """Returns the series of histograms by second, and the I/Os of each direction by latency."""
    cells: dict[int, list[Counter[int]]] = defaultdict(lambda: [Counter(), Counter()])
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    latencies: list[Counter[int]] = [Counter(), Counter()]
    for log in members:
        for line_number, line in enumerate(map(str.strip, log.file.text.splitlines()), 1):
            if line and not _HISTOGRAM.fullmatch(line):
                raise BlklabError(
                    f"{log.file.location}:{line_number}: found {line[:60]!r}, expected bins of a histogram"
                )
            time, direction, size, *bins = map(int, line.split(",")) if line else (0, 2, 0)
            if direction > 1:
                continue
            values = zip(_middles(len(bins), log.file.location), bins, strict=True)
            ios_by_latency = {value: ios for value, ios in values if ios}
            second = round(time / 1000)  # jobs log at slightly different times
            cells[second][direction].update(ios_by_latency)
            latencies[direction].update(ios_by_latency)
            sizes[second][direction] += size * sum(bins)
    points = []
    begin = 0
    for second, counters in sorted(cells.items()):
        width = max(1, second - begin)
        means = (_summarise_latency(part).get("mean") for part in counters)
        ios = (part.total() for part in counters)
        points.append(SeriesPoint(JOBS, begin * SECOND, width * SECOND, *ios, *sizes[second], *means))
        begin += width
    return points, latencies


def _summarise_latency(bins: Counter[int]) -> dict[str, float]:
    """Returns the latencies of I/Os by latency; quantiles by nearest rank."""
    if not (count := bins.total()):
        return {}
    mean = math.fsum(value * ios for value, ios in bins.items()) / count
    squares = math.fsum((value - mean) ** 2 * ios for value, ios in bins.items())
    deviation = math.sqrt(squares / max(1, count - 1))
    summary = latency.LatencySummary(count, mean, deviation, min(bins), max(bins), bins).as_result()
    return {key: value for key, value in asdict(summary).items() if key not in {"count", "relative_error", "bins"}}


@cache
def _middles(count: int, location: str) -> list[int]:
    """Returns the middle of each bin, ns: 64 bins for each power of two (fio's stat.h), or fewer
    with `log_hist_coarseness`. Raises BlklabError for another number of bins.
    """
    for full, unit in BINS.items():
        step = full // count
        if step * count == full and step & (step - 1) == 0:
            edges = [
                index if index < 128 else ((1 << 6) + index % 64) << (index // 64 - 1)
                for index in range(0, full + 1, step)
            ]
            return [unit * (low + high) // 2 for low, high in pairwise(edges)]
    raise BlklabError(f"{location}: found {count} bins, expected 1856 or a power of two fewer")


# --- a line for each I/O -------------------------------------------------------------------------


def _has_io_lines(selected_logs: Sequence[_Log]) -> bool:
    """Returns whether lines are I/Os: an interval has no block size."""
    for log in selected_logs:
        fields = log.file.text[:4000].lstrip().partition("\n")[0].split(",")
        size = fields[3].strip() if len(fields) > 3 else ""
        if not (size.isascii() and size.isdigit()) or not size.strip("0"):
            return False
    return True


def _count_ios(selected_logs: Sequence[_Log]) -> tuple[list[SeriesPoint], list[Counter[int]]]:
    """Returns the series by second, and the I/Os of reads and of writes by latency. Keeps no I/O in memory."""
    kind = "iops" if any(log.kind == "iops" for log in selected_logs) else selected_logs[0].kind
    # By second, of both directions.
    ios, sizes, latency_sums, latency_counts = (defaultdict[int, list[int]](lambda: [0, 0]) for _ in range(4))
    latencies: list[Counter[int]] = [Counter(), Counter()]
    end = 0
    for log in (log for log in selected_logs if log.kind in {kind, "clat"}):
        for time_ms, value, direction, size in _ios(log.file):
            second = time_ms // 1000
            end = max(end, time_ms + 1)
            if log.kind == kind:
                ios[second][direction] += 1
                sizes[second][direction] += size
            if log.kind == "clat":
                latency_sums[second][direction] += value
                latency_counts[second][direction] += 1
                latencies[direction][value] += 1
    if not ios:
        return [], [Counter(), Counter()]
    slices = math.ceil(end / 1000)
    if slices > logs.MOST_SLICES:
        raise BlklabError(f"{selected_logs[0].file.location}: {slices:,} s: expected at most {logs.MOST_SLICES:,}")
    points = []
    for second in range(slices):
        begin = second * SECOND
        length = SECOND if second < slices - 1 else end * 10**6 - begin
        totals = zip(latency_sums[second], latency_counts[second], strict=True)
        means = (total / count if count else None for total, count in totals)
        points.append(SeriesPoint(JOBS, begin, length, *ios[second], *sizes[second], *means))
    return points, latencies


def _ios(file: ImportFile) -> Iterator[tuple[int, ...]]:
    """Yields the time in ms, the value, the direction and the size of each I/O."""
    for number, line in enumerate(file.text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [part.strip() for part in line.split(",", 5)[:4]]
        if len(fields) < 4 or not all(f.isascii() and f.isdigit() and len(f) < 19 for f in fields):
            raise BlklabError(
                f"{file.location}:{number}: found {line[:60]!r}, expected time, value, direction, size of an I/O"
            )
        if (io := tuple(map(int, fields)))[2] < 2:
            yield io
