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
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from blklab.errors import BlklabError
from blklab.fio import latency, logs
from blklab.fio.output import FioJobResult
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, of_points, outcome
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


def _named(file: ImportFile) -> _Log:
    match = NAME.fullmatch(file.path.name)
    if match is None:
        raise BlklabError(
            f"{file.where}: unknown kind of log; expected a name such as NAME_iops.1.log, …_bw…, …_clat… or …_lat…"
        )
    return _Log(file, match["prefix"], match["kind"], int(match["job"] or 1))


def read(given: ImportSource) -> ImportResult:
    """Returns the run of the logs of one directory and name, as `by_run` groups them."""
    return ImportResult([_run([_named(file) for file in given.files])])


def by_run(files: Sequence[ImportFile]) -> list[list[ImportFile]]:
    """Returns logs by directory and name before `_iops`, `_bw`, `_clat`."""
    runs: dict[tuple[str, str], list[ImportFile]] = defaultdict(list)
    for file in files:
        match = NAME.fullmatch(file.path.name)
        runs[str(file.path.parent), match["prefix"] if match else file.where].append(file)
    return list(runs.values())


def with_totals(files: Sequence[ImportFile], jobs: Sequence[FioJobResult]) -> list[SeriesPoint]:
    """Returns the series of a run whose JSON has the totals of each job."""
    members = [_named(file) for file in files]
    if all(log.kind == "clat_hist" for log in members):
        return _histograms(members)[0]
    chosen = _chosen(members)
    if _each(chosen):
        return _counted(chosen)[0]
    return _points(logs.gather(_texts(chosen), "log", jobs))


def _chosen(members: Sequence[_Log]) -> list[_Log]:
    """Returns the logs that are used, one for each kind and job."""
    completions = any(log.kind == "clat" for log in members)
    known = [log._replace(kind="clat") if log.kind == "lat" and not completions else log for log in members]
    used = [log for log in known if log.kind in {"iops", "bw", "clat"}]
    seen: dict[tuple[str, int], str] = {}
    for log in used:
        other = seen.setdefault((log.kind, log.job), log.file.where)
        if other != log.file.where:
            raise BlklabError(f"{other} and {log.file.where}: both are the {log.kind} log of one job")
    if not used:
        raise BlklabError(f"{members[0].file.where}: also expected logs of I/Os, bandwidth or completion latency")
    return used


def _texts(chosen: Sequence[_Log]) -> dict[str, str]:
    return {f"log_{log.kind}.{log.job}.log": log.file.text for log in chosen}


def _points(jobs: Sequence[logs.JobLog]) -> list[SeriesPoint]:
    return [SeriesPoint(JOBS, *part) for part in logs.merge(jobs, SECOND)]


def _run(members: Sequence[_Log]) -> ImportedRun:
    histograms = [log for log in members if log.kind == "clat_hist"]
    others = [log for log in members if log.kind != "clat_hist"]
    chosen = _chosen(others) if others else histograms
    name = chosen[0].prefix or "fio"
    samples: list[dict[str, float]] = [{}, {}]
    if histograms:
        points, latencies = _histograms(histograms)
        samples = [_known(bins) for bins in latencies]
    if others and _each(chosen):
        points, latencies = _counted(chosen)
        samples = [_known(bins) for bins in latencies]
    elif others:
        try:
            points = _points(logs.gather(_texts(chosen), "log"))
        except BlklabError as error:
            raise BlklabError(f"{chosen[0].file.where}: {error}") from None
    if not any(point.read_ios or point.write_ios for point in points):
        raise BlklabError(f"{chosen[0].file.where}: no I/Os: also expected {name}_iops.….log")
    runtime = points[-1].time_ns + points[-1].width_ns
    directions = [of_points(points, at, runtime, known) for at, known in enumerate(samples)]
    options = {"numjobs": str(len({log.job for log in chosen}))}
    return ImportedRun(chosen[0].file.where, name, options, outcome(name, runtime, directions), points)


# --- histograms ----------------------------------------------------------------------------------


def _histograms(members: Sequence[_Log]) -> tuple[list[SeriesPoint], list[Counter[int]]]:
    """Returns the series of histograms by second, and the I/Os of each direction by latency."""
    cells: dict[int, list[Counter[int]]] = defaultdict(lambda: [Counter(), Counter()])
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    whole: list[Counter[int]] = [Counter(), Counter()]
    for log in members:
        for at, line in enumerate(map(str.strip, log.file.text.splitlines()), 1):
            if line and not _HISTOGRAM.fullmatch(line):
                raise BlklabError(f"{log.file.where}:{at}: found {line[:60]!r}, expected bins of a histogram")
            time, direction, size, *bins = map(int, line.split(",")) if line else (0, 2, 0)
            if direction > 1:
                continue
            values = zip(_middles(len(bins), log.file.where), bins, strict=True)
            counted = {value: ios for value, ios in values if ios}
            second = round(time / 1000)  # jobs log at slightly different times
            cells[second][direction].update(counted)
            whole[direction].update(counted)
            sizes[second][direction] += size * sum(bins)
    points = []
    begin = 0
    for second, both in sorted(cells.items()):
        width = max(1, second - begin)
        means = (_known(part).get("mean") for part in both)
        ios = (part.total() for part in both)
        points.append(SeriesPoint(JOBS, begin * SECOND, width * SECOND, *ios, *sizes[second], *means))
        begin += width
    return points, whole


def _known(bins: Counter[int]) -> dict[str, float]:
    """Returns the latencies of I/Os by latency; quantiles by nearest rank."""
    if not (count := bins.total()):
        return {}
    mean = math.fsum(value * ios for value, ios in bins.items()) / count
    squares = math.fsum((value - mean) ** 2 * ios for value, ios in bins.items())
    deviation = math.sqrt(squares / max(1, count - 1))
    summary = latency.LatencySummary(count, mean, deviation, min(bins), max(bins), bins).as_result()
    return {key: value for key, value in vars(summary).items() if key not in {"count", "relative_error", "bins"}}


@cache
def _middles(count: int, where: str) -> list[int]:
    """Returns the middle of each bin, ns: 64 bins for each power of two (fio's stat.h), or fewer
    with `log_hist_coarseness`. Raises BlklabError for another number of bins.
    """
    for full, unit in BINS.items():
        step = full // count
        if step * count == full and step & (step - 1) == 0:
            edges = [at if at < 128 else ((1 << 6) + at % 64) << (at // 64 - 1) for at in range(0, full + 1, step)]
            return [unit * (low + high) // 2 for low, high in pairwise(edges)]
    raise BlklabError(f"{where}: found {count} bins, expected 1856 or a power of two fewer")


# --- a line for each I/O -------------------------------------------------------------------------


def _each(chosen: Sequence[_Log]) -> bool:
    """Returns whether lines are I/Os: an interval has no block size."""
    for log in chosen:
        fields = log.file.text[:4000].lstrip().partition("\n")[0].split(",")
        size = fields[3].strip() if len(fields) > 3 else ""
        if not (size.isascii() and size.isdigit()) or not size.strip("0"):
            return False
    return True


def _counted(chosen: Sequence[_Log]) -> tuple[list[SeriesPoint], list[Counter[int]]]:
    """Returns the series by second, and the I/Os of reads and of writes by latency. Keeps no I/O in memory."""
    kind = "iops" if any(log.kind == "iops" for log in chosen) else chosen[0].kind
    # By second, of both directions.
    ios, sizes, lasted, timed = (defaultdict[int, list[int]](lambda: [0, 0]) for _ in range(4))
    latencies: list[Counter[int]] = [Counter(), Counter()]
    end = 0
    for log in (log for log in chosen if log.kind in {kind, "clat"}):
        for time_ms, value, direction, size in _ios(log.file):
            second = time_ms // 1000
            end = max(end, time_ms + 1)
            if log.kind == kind:
                ios[second][direction] += 1
                sizes[second][direction] += size
            if log.kind == "clat":
                lasted[second][direction] += value
                timed[second][direction] += 1
                latencies[direction][value] += 1
    if not ios:
        return [], [Counter(), Counter()]
    slices = math.ceil(end / 1000)
    if slices > logs.MOST_SLICES:
        raise BlklabError(f"{chosen[0].file.where}: {slices:,} s: expected at most {logs.MOST_SLICES:,}")
    points = []
    for second in range(slices):
        begin = second * SECOND
        length = SECOND if second < slices - 1 else end * 10**6 - begin
        totals = zip(lasted[second], timed[second], strict=True)
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
                f"{file.where}:{number}: found {line[:60]!r}, expected time, value, direction, size of an I/O"
            )
        if (io := tuple(map(int, fields)))[2] < 2:
            yield io
