"""Simulations of arrangements, reduced to what a search needs; finished ones are kept in a file."""

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from blklab import __version__, _core, output
from blklab.advise.arrangement import Arrangement
from blklab.advise.question import DiskPool, Load, Question, Table
from blklab.cluster import HERE, Parallel
from blklab.compare.model_errors import ModelError, deviate_ratio
from blklab.errors import BlklabError
from blklab.experiment import cells
from blklab.experiment.cells import Cell
from blklab.grouping import by_key
from blklab.outcome import NORMAL, NOT_KNOWN, DirectionResult, LatencyResult, Outcome
from blklab.runners.sim import runner
from blklab.runners.sim.runner import outcome
from blklab.runners.sim.uncertainty import SEEDS, interval, of_mean, other_run

PARTS = [Path(str(_core.__file__)), *Path(runner.__file__).parent.glob("*.py"), Path(__file__)]
BUILD = [__version__, max(path.stat().st_mtime_ns for path in PARTS)]  # Of the simulator, and of what it is made into
BATCHES = 16  # Parts of a run, for its interval
WARM_UP = 4  # Of them at the beginning, while write caches fill, which comparisons ignore
COMPARED_BATCHES = BATCHES - WARM_UP
T_95 = 2.201  # Student's t for 95 % and COMPARED - 1 degrees of freedom
LONG = 10**15  # ns of simulated time at most; the number of I/Os ends a run
Tick = Callable[[int, int], object]
CACHED_BYTES = 2 << 30  # Most data of a load with a rate that is simulated with a cache
LEAST_BITMAP_CHUNK = 4096  # Bytes of an array for a bit of its bitmap
LEAST_CACHE = 512 << 20  # Bytes of a cache disk that is made smaller: bcache needs more than 512 buckets
PEAK_DEPTH = 32  # I/Os in flight when a trace is replayed as fast as possible


def ios_of(load: Load, ios: int) -> int:
    """Returns the I/Os of a load in a simulation of `ios`: a trace may have fewer."""
    return min(ios, load.ios or ios)


def _shrink_data(question: Question, arrangement: Arrangement, load: Load) -> tuple[Arrangement, Table]:
    """Returns an arrangement and the table of a load whose data are as large as CACHED_BYTES at most.

    A cache of such data is smaller in the same ratio, so that it has the same hits: filling a cache of hundreds of GiB
    before each simulation would take minutes. The chunks of md's bitmaps are smaller in the same ratio, so that writes
    find as few bits set. Without a cache, and for loads without a rate, nothing changes.
    """
    cache = arrangement.top_table.get("cache")
    if load.rate is None or load.is_cold or cache is None or load.span <= CACHED_BYTES:
        return arrangement, load.table
    ratio = CACHED_BYTES / load.span
    sizes = dict(arrangement.sizes)
    for disk in arrangement.below(str(cache)).disks:
        size = arrangement.sizes.get(disk, question.disks[disk].bytes)
        sizes[disk] = max(LEAST_CACHE, round(size * ratio) >> 20 << 20)
    jobs: Any = load.table["jobs"]
    small_jobs = {}
    for name, job in jobs.items():
        # Each job begins where it began: the distances on a rotating disk remain.
        small_jobs[name] = {**job, "size": str(round(int(job["size"]) * ratio) >> 12 << 12)}
    bitmaps = [name for name, table in arrangement.arrays().items() if table.get("bitmap")]
    bitmap_chunk = max(LEAST_BITMAP_CHUNK, 1 << round(math.log2(_core.MD_BITMAP_CHUNK * ratio)))
    small = arrangement.change_stacks(bitmaps, bitmap_chunk=str(bitmap_chunk))
    return replace(small, sizes=sizes), {**load.table, "jobs": small_jobs}


def ignore_tick(_done: int, _expected: int) -> None:
    """Does nothing with the progress of simulations."""


@dataclass(frozen=True)
class Sample:
    """What one simulation says of one load. Latencies are ns, of reads and writes together."""

    mean_ns: float
    p50_ns: float
    p99_ns: float
    iops: float
    bandwidth: float
    busy: float  # The busy share of the busiest disk
    busiest: str
    seconds: float  # Simulated
    ios: int  # That the simulator executed for this load
    batches: Sequence[float]  # Mean latencies of BATCHES parts with equally many I/Os
    written: Mapping[str, float]  # Bytes per second written to each disk
    sync_rate: float = 0.0  # Bytes per second that md rebuilds, of each member
    cached_reads: float = 0.0  # Reads that a cache looked up; of dm-cache and dm-writecache blocks of them
    cache_hits: float = 0.0  # Those that the cache had
    dirty_bytes: float = 0.0  # At the end, that only a cache has
    mean_interval: Sequence[float] = ()  # Factors of the mean that nine of ten measurements are between
    p99_interval: Sequence[float] = ()  # The same of the 99th percentile
    processors: Sequence[float] = (0.0, 0.0)  # `PredictionInterval.processors`
    devices: Mapping[str, float] = field(default_factory=dict)  # `PredictionInterval.models`

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """The ends of the interval of the mean, ns."""
        low, high = self.mean_interval
        return self.mean_ns * low, self.mean_ns * high

    def compare_means(self, other: "Sample") -> tuple[float, float]:
        """Returns the interval of another arrangement's mean over this one's, on the same host.

        Errors of the same disks cancel, so it is narrower than the intervals of both. With a cache in front of them,
        the same disks do something else: their errors count on both sides.
        """
        is_alike = bool(self.cached_reads) == bool(other.cached_reads)
        down, up = deviate_ratio(self._mean_error(is_alike), other._mean_error(is_alike))
        ratio = other.mean_ns / self.mean_ns
        return ratio * math.exp(-NORMAL * down), ratio * math.exp(NORMAL * up)

    def _mean_error(self, cancels: bool) -> ModelError:
        below, above = (abs(math.log(factor)) / NORMAL for factor in self.mean_interval or (1.0, 1.0))
        # The slower a host, the longer an I/O takes.
        slow, fast = self.processors
        devices = self.devices if cancels else {}
        return ModelError(below, above, processors=(fast, slow), devices=devices, host=THIS_HOST)

    @property
    def is_known(self) -> bool:
        """Whether the interval of the mean is so narrow that the figures are known."""
        if not self.mean_interval:
            return True
        low, high = self.mean_interval
        return high <= NOT_KNOWN * low


THIS_HOST = "the host that is asked about"  # All arrangements are for one


@dataclass(frozen=True)
class SampleRequest:
    """A simulation to run."""

    arrangement: Arrangement
    load: Load
    ios: int  # I/Os to complete
    speed: float = 1.0  # Of a trace
    as_fast_as_possible: bool = False  # A trace, without its times
    seed: int = 0  # The number of `other_run`


LOAD_END = "--"  # Between the name of a load and that of its job, where loads run at the same time


def runs_together(question: Question) -> bool:
    """Returns whether the loads run at the same time: several that have a rate each.

    Loads without a rate would use all that the others leave. A cache holds what all of them use, or what none does.
    """
    has_rates = all(load.rate is not None for load in question.loads)
    return len(question.loads) > 1 and has_rates and len({load.is_cold for load in question.loads}) == 1


def join_loads(loads: Sequence[Load]) -> Load:
    """Returns one load with the jobs of several; each load has a region of its own."""
    jobs = {}
    begin = 0
    for load in loads:
        of_load: Any = load.table["jobs"]
        for name, job in of_load.items():
            jobs[f"{load.name}{LOAD_END}{name}"] = {**job, "offset": str(begin + int(job["offset"]))}
        begin += load.span
    return Load(
        "together",
        {"jobs": jobs},
        "",
        ios=sum(load.ios or 0 for load in loads),
        span=begin,
        rate=sum(load.rate or 0.0 for load in loads),
        is_cold=loads[0].is_cold,
    )


class Simulations:
    """Runs simulations, several at a time. The same request is never simulated twice."""

    def __init__(
        self, question: Question, file: Path | None = None, parallel: Parallel = HERE, tick: Tick = ignore_tick
    ) -> None:
        """Keeps finished simulations in a file, from which a later search goes on.

        `tick` gets, after each simulation, the I/Os of all finished ones and those that are expected.
        """
        self.question = question
        self.simulated_ios = 0
        self.expected_ios = 0
        self._tick = tick
        self._parallel = parallel
        self.here = Parallel(parallel.jobs)  # For what is no simulation: as many threads, on this machine
        self._file = file
        self._known = {} if file is None else _read(file)
        self._cells: dict[tuple[str, str], Cell] = {}
        self._recorded: dict[tuple[str, int], float] = {}
        self._together = join_loads(question.loads) if runs_together(question) else None

    def cell(self, arrangement: Arrangement, load: Load) -> Cell:
        """Returns the cell of a load, or of all loads. Raises UsageError if they do not fit on the arrangement."""
        if self._together is not None and load in self.question.loads:
            load = self._together
        key = (json.dumps([arrangement.stacks, dict(arrangement.sizes), dict(arrangement.settings)]), load.name)
        if key not in self._cells:
            simulated_arrangement, table = _shrink_data(self.question, arrangement, load)
            experiment = simulated_arrangement.experiment(self.question, {load.name: table}, is_cold=load.is_cold)
            self._cells[key] = cells.plan(experiment).cells[0]
        return self._cells[key]

    def run(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """Returns the sample of each request."""
        cells = [self._limit_cell(request) for request in requests]
        keys = [self._key(cell, request) for cell, request in zip(cells, requests, strict=True)]
        unknown = {cell.key: cell for cell, key in zip(cells, keys, strict=True) if key not in self._known}
        counted = set(unknown)
        for cell, key in zip(cells, keys, strict=True):
            if cell.key not in counted:
                counted.add(cell.key)
                self._count(self._known[key])
        cell_keys = list(unknown)
        for number, samples in self._parallel.each(_sample_cell, unknown.values()):
            if isinstance(samples, BlklabError):
                raise samples
            for name, sample in samples.items():
                self._known[f"{cell_keys[number]}{name}"] = sample
                self._keep(f"{cell_keys[number]}{name}")
            self._count(next(iter(samples.values())))
        return [self._known[key] for key in keys]

    def _key(self, cell: Cell, request: SampleRequest) -> str:
        """Returns the key of a sample: that of its cell, and the load if the cell has several."""
        is_one_of_several = self._together is not None and request.load in self.question.loads
        return f"{cell.key}{request.load.name}" if is_one_of_several else cell.key

    def averages(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """Returns the mean of SEEDS samples of each request, which have other seeds."""
        with_seeds = []
        for request in requests:
            with_seeds += [replace(request, seed=seed) for seed in range(SEEDS)]
        samples = self.run(with_seeds)
        return [_average(samples[start : start + SEEDS]) for start in range(0, len(samples), SEEDS)]

    def _count(self, sample: Sample) -> None:
        self.simulated_ios += sample.ios
        self._tick(self.simulated_ios, max(self.expected_ios, self.simulated_ios))

    def _limit_cell(self, request: SampleRequest) -> Cell:
        """Returns the cell of a request; equal documents have one key."""
        if self._together is not None and request.load in self.question.loads:
            request = replace(request, load=self._together)
        cell = other_run(self.cell(request.arrangement, request.load), request.seed)
        return replace(cell, document=document_of(cell, request), labels={})

    def trace_seconds(self, load: Load, ios: int) -> float:
        """Returns how long the first I/Os of a load that is paced take on a device without limits, seconds."""
        if self._together is not None and load in self.question.loads:
            load = self._together
        if load.rate is not None:
            return ios_of(load, ios) / load.rate
        if (load.name, ios) not in self._recorded:
            pool = DiskPool("unlimited", 1, {"kind": "throttled"}, "throttled", load.span)
            arrangement = Arrangement("unlimited", "", {"unlimited": {"device": pool.disk(1)}}, [pool.disk(1)], 0)
            simulations = Simulations(replace(self.question, pools=[pool]))
            self._recorded[load.name, ios] = simulations.run([SampleRequest(arrangement, load, ios)])[0].seconds
        return self._recorded[load.name, ios]

    def _keep(self, key: str) -> None:
        if self._file is not None:
            # The line before may be cut off. Without the file, a later search only takes longer.
            with suppress(OSError), self._file.open("a", encoding="utf-8") as stream:
                stream.write(f"\n{json.dumps([BUILD, key, asdict(self._known[key])])}")


def _sample_cell(cell: Cell, /, *, stop: _core.Stop | None = None) -> dict[str, Sample]:
    """Returns the sample of each load of a cell by its name, which is empty for a load alone."""
    result = outcome(cell.document, stop, cell.replay)
    bounds = interval(cell, result)
    hits, reads, dirty = _cache_counts(result, cell.document["stack"])
    samples = {}
    for name, of_load in _split_by_load(result).items():
        samples[name] = replace(
            reduce_outcome(of_load),
            mean_interval=[*of_mean(bounds)],
            p99_interval=[*bounds.p99],
            processors=[*bounds.processors],
            devices=bounds.models,
            cache_hits=hits,
            cached_reads=reads,
            dirty_bytes=dirty,
        )
    return samples


def _split_by_load(result: Outcome) -> dict[str, Outcome]:
    """Returns the outcome of each load by its name: devices, caches and parts of the run are those of all loads."""
    groups_by_load = by_key((group.name.partition(LOAD_END)[0], group) for group in result.groups)
    if not all(LOAD_END in group.name for group in result.groups):
        return {"": result}
    outcomes = {}
    for name, groups in groups_by_load.items():
        outcomes[name] = replace(
            result,
            read=_add_directions([group.read for group in groups]),
            write=_add_directions([group.write for group in groups]),
        )
    return outcomes


QUANTILES = (
    ("p1", 0.01), ("p5", 0.05), ("p10", 0.1), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95),
    ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999), ("max", 1.0),
)  # fmt: skip
"""The quantiles of a job's latencies, and the share of I/Os up to each."""

SCALE = 10_000  # So that parts of an I/O are whole numbers


def _add_directions(parts: Sequence[DirectionResult]) -> DirectionResult:
    """Returns the I/Os of several jobs together, with the mean of their latencies and a histogram.

    Jobs have quantiles and no histogram: the I/Os between two quantiles count with the upper one, so that percentiles
    of all jobs are rather too high.
    """
    count = sum(part.total_ios for part in parts)
    total_ns = sum(part.total_ios * (part.clat_ns.mean or 0.0) for part in parts)
    counts: dict[int, float] = {}
    for part in parts:
        below = 0.0
        for name, share in QUANTILES:
            value = getattr(part.clat_ns, name)
            if value is None or not part.total_ios:
                continue
            counts[round(value)] = counts.get(round(value), 0.0) + part.total_ios * (share - below)
            below = share
    bins = [[value, round(number * SCALE)] for value, number in counts.items()]
    latency = LatencyResult(count, total_ns / count if count else None, bins=bins)
    return DirectionResult(
        count,
        sum(part.io_bytes for part in parts),
        sum(part.iops for part in parts),
        sum(part.bw_bytes for part in parts),
        latency,
    )


def _cache_counts(result: Outcome, stack: Any) -> tuple[float, float, float]:
    """Returns hits of reads, reads that were looked up, and dirty bytes of the cache at the top; 0 without one."""
    for report in result.targets:
        if report["kind"] == "lvmcache":
            hits = report["read_hits"]
            return hits, hits + report["read_misses"], report["dirty"] * stack["lvmcache"]["chunk"]
        if report["kind"] == "bcache":
            hits = report["cache_hits"] + report["cache_bypass_hits"]
            return hits, hits + report["cache_misses"] + report["cache_bypass_misses"], report["dirty_bytes"]
        if report["kind"] == "writecache":
            dirty = report["blocks"] - report["free_blocks"]
            return report["read_hits"], report["reads"], dirty * stack["writecache"]["block"]
    return 0, 0, 0


def _average(samples: Sequence[Sample]) -> Sample:
    """Returns the means of figures; intervals reach to the lowest and the highest one."""
    names = ["mean_ns", "p50_ns", "p99_ns", "iops", "bandwidth", "busy", "seconds", "sync_rate"]
    names += ["cached_reads", "cache_hits", "dirty_bytes"]
    means: Any = {}
    for name in names:
        means[name] = fmean(getattr(sample, name) for sample in samples)
    intervals: Any = {}
    for figure, name in (("mean_ns", "mean_interval"), ("p99_ns", "p99_interval")):
        lows = []
        highs = []
        for sample in samples:
            low, high = getattr(sample, name)
            lows.append(getattr(sample, figure) * low)
            highs.append(getattr(sample, figure) * high)
        intervals[name] = [min(lows) / max(1.0, means[figure]), max(highs) / max(1.0, means[figure])]
    models = dict.fromkeys(model for sample in samples for model in sample.devices)
    devices = {model: fmean(sample.devices.get(model, 0.0) for sample in samples) for model in models}
    batches_of_samples = [sample.batches for sample in samples]
    written = {}
    for disk in samples[0].written:
        written[disk] = fmean(sample.written[disk] for sample in samples)
    return replace(
        samples[0],
        **means,
        ios=sum(sample.ios for sample in samples),
        batches=[fmean(parts) for parts in zip(*batches_of_samples, strict=True)],
        written=written,
        processors=[fmean(parts) for parts in zip(*(sample.processors for sample in samples), strict=True)],
        devices=devices,
        **intervals,
    )


def _read(file: Path) -> dict[str, Sample]:
    """Reads finished simulations; removes damaged lines and those of other builds of the simulator."""
    samples = {}
    valid_lines = []
    try:
        lines = list(filter(None, file.read_text(encoding="utf-8", errors="replace").splitlines()))
    except OSError:
        return {}
    for line in lines:
        with suppress(ValueError, TypeError):
            build, key, fields = json.loads(line)
            if build == BUILD:
                samples[key] = Sample(**fields)
                valid_lines.append(line)
    if len(valid_lines) < len(lines):
        with suppress(OSError, BlklabError):
            output.replace(file, "\n".join(valid_lines).encode())
    return samples


def document_of(cell: Cell, request: SampleRequest) -> Table:
    """Returns the cell, limited to the I/Os of a request."""
    document: dict[str, Any] = {
        **cell.document,
        "max_ios": ios_of(request.load, request.ios),
        "runtime_ns": LONG,
        "ramp_ns": 0,
        "ran_before": True,
    }
    document.pop("load_ramp", None)
    if document["replay"]:
        is_timed = not request.as_fast_as_possible
        document["replay"] = {"timed": is_timed, "iodepth": PEAK_DEPTH, "speed": request.speed if is_timed else 1.0}
        if is_timed and request.load.background_ios:
            document["replay"]["waited_only"] = True
    if request.load.rate is not None:
        document["jobs"] = [_pace_job(job, request, len(document["jobs"])) for job in document["jobs"]]
    return document


def _pace_job(job: Mapping[str, Any], request: SampleRequest, job_count: int) -> dict[str, Any]:
    """Returns a job of a load with a rate, at the speed of a request; without a limit, all have PEAK_DEPTH together."""
    if not request.as_fast_as_possible:
        return {**job, "rate_iops": job["rate_iops"] * request.speed}
    iodepth = max(1, PEAK_DEPTH // job_count)
    return {**job, "rate_iops": 0.0, "iodepth": iodepth, "batch_submit": min(job["batch_submit"], iodepth)}


def reduce_outcome(result: Outcome) -> Sample:
    reads = result.read
    writes = result.write
    total = reads.total_ios + writes.total_ios
    # A trace has I/Os whose latencies do not count: no program waits for them.
    timed_ios = [_count_latencies(figures) for figures in (reads, writes)]
    means = [figures.clat_ns.mean or 0 for figures in (reads, writes)]
    mean = sum(ios * mean for ios, mean in zip(timed_ios, means, strict=True)) / max(1, sum(timed_ios))
    observed_ns = result.observed_ns
    busy = {device.name: (device.busy_ns or 0) / observed_ns for device in result.devices}
    busiest = max(busy, key=lambda name: busy[name])
    p50, p99 = _merge_percentiles([reads.clat_ns, writes.clat_ns], (0.5, 0.99))
    rebuilt = sum(report["sync_bytes"] for report in result.targets if report["kind"] == "md")
    return Sample(
        mean,
        p50,
        p99,
        reads.iops + writes.iops,
        reads.bw_bytes + writes.bw_bytes,
        min(1.0, busy[busiest]),
        busiest,
        result.runtime_ns / 1e9,
        sum(timed_ios) or total,
        _batches(result),
        {device.name: device.sectors[1] * 512e9 / observed_ns for device in result.devices},
        rebuilt * 1e9 / observed_ns,
    )


def _count_latencies(figures: DirectionResult) -> int:
    """Returns the I/Os whose latencies count."""
    return sum(count for _, count in figures.clat_ns.bins) or figures.total_ios


def _merge_percentiles(latencies: Sequence[LatencyResult], shares: Sequence[float]) -> list[float]:
    """Returns percentiles of several histograms together, ns; the upper value of a bin counts."""
    bins = sorted((value, count) for latency in latencies for value, count in latency.bins)
    cumulative_counts = list(accumulate(count for _, count in bins))
    return [
        float(bins[bisect_left(cumulative_counts, share * cumulative_counts[-1])][0]) if bins else 0.0
        for share in shares
    ]


def _batches(result: Outcome) -> list[float]:
    """Returns the mean latencies of BATCHES parts with equally many I/Os, ns."""
    import numpy as np

    points = [pair for point in result.series for pair in zip(point["ios"], point["clat_ns"], strict=True)]
    # An interval without a mean has only I/Os that no program waits for.
    timed = [(count, count * mean) for count, mean in points if mean is not None]
    ios, times = np.cumsum([(0, 0.0), *timed], axis=0).T
    parts = np.diff(np.interp(np.linspace(0, ios[-1], BATCHES + 1), ios, times))
    return (parts * BATCHES / ios[-1]).tolist() if ios[-1] else []


def difference(first: Sequence[Sample], other: Sequence[Sample], weights: Sequence[float]) -> tuple[float, float]:
    """Returns how much longer I/Os of one arrangement take than of another, for several loads.

    The natural logarithm of the ratio of mean latencies, weighted, and the half-width of its 95 % interval:
    both simulate the same I/Os, so that parts are compared in pairs (Law, Simulation Modeling and
    Analysis, 5th edition, sections 9.5.3 and 10.2: batch means, paired t).
    """
    total = 0.0
    square = 0.0
    share = sum(weights)
    for sample, other_sample, weight in zip(first, other, weights, strict=True):
        first_batches = sample.batches[WARM_UP:]
        other_batches = other_sample.batches[WARM_UP:]
        if len(first_batches) != COMPARED_BATCHES or len(other_batches) != COMPARED_BATCHES:
            return math.log(max(1.0, sample.mean_ns) / max(1.0, other_sample.mean_ns)), math.inf
        means = [max(1.0, sum(batches) / COMPARED_BATCHES) for batches in (first_batches, other_batches)]
        total += weight / share * math.log(means[0] / means[1])
        pairs = [one_side - other_side for one_side, other_side in zip(first_batches, other_batches, strict=True)]
        deviation = math.dist(pairs, [fmean(pairs)] * COMPARED_BATCHES) / math.sqrt(
            COMPARED_BATCHES - 1
        )  # stdev, much faster
        half = T_95 * deviation / math.sqrt(COMPARED_BATCHES) / (sum(means) / 2)
        square += (weight / share * half) ** 2
    return total, math.sqrt(square)
