"""Would a cache help: each kind of cache, at the size that it needs, next to the array alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from blklab.advise.arrangement import Arrangement
from blklab.advise.candidates import LVM_CHUNKS, arrays_of, with_caches
from blklab.advise.figures import KEEPS_UP, YEARS, wear
from blklab.advise.question import DiskPool, Load, Question
from blklab.advise.race import SAME, Candidate, simulate_candidates
from blklab.advise.samples import Sample, SampleRequest, Simulations, difference, ios_of
from blklab.advise.search import format_keywords, parse_keywords, select_runnable
from blklab.documents.cache_curves import CacheCurves
from blklab.errors import UsageError
from blklab.trace.cache_curves import read_curves
from blklab.units import format_size, parse_size

MAX_IOS = 1 << 20  # I/Os of a trace that are simulated
MAX_SIZES = 6  # Powers of two that are tried
MIN_CACHE_BYTES = 8 << 20  # Bytes of a cache
WINDOWS = 8  # Equal parts of a trace in which hits are counted
EXTRA_SIMULATIONS = 60  # Simulations after those of the sizes, about
WARM = 0.9  # Share of the hits of the last part with which a cache counts as warm
CHOICES = {
    "lvmcache": ("chunk", ("32K", "64K", "128K", "256K", "512K", "1M")),
    "bcache": ("sequential_cutoff", ("0", "1M", "4M", "16M")),
}
"""By kind of cache: a key of its stack, and the values that are tried."""

DEFAULT_CUTOFF = "4M"  # Of bcache


@dataclass(frozen=True)
class CacheFigures:
    """What an arrangement with a cache does, or without one."""

    candidate: Candidate
    bytes: int  # Of the cache; 0 without one
    later_ns: float  # Mean latency of the second half of the I/Os
    hit_ratio: float | None  # Of the reads; of bcache as a whole, otherwise of their blocks
    dirty_bytes: float  # That only the cache has: after half of the I/Os or at the end, what is more
    flash_bytes_per_day: int  # Written to the disk of the cache that is written most
    rated_years: float | None  # Until the cache was written as often as its maker rates it; None if not known
    keeps_up: bool  # Whether the I/Os of traces end as fast as they were recorded

    @property
    def arrangement(self) -> Arrangement:
        return self.candidate.arrangement

    @property
    def serves(self) -> bool:
        """Whether it has some of the reads, or of the writes."""
        return (self.hit_ratio or 0.0) >= SAME or self.dirty_bytes > 0

    @property
    def sample(self) -> Sample:
        """The load with the highest 99th percentile."""
        return max(self.candidate.samples, key=lambda sample: sample.p99_ns)


@dataclass(frozen=True)
class WarmUp:
    """How a cache that begins empty fills."""

    hit_ratios: Sequence[float]  # Of the reads, in each of WINDOWS parts of the trace with equally many I/Os
    seconds: float | None  # Until a part has WARM of the hits of the last; None if only the last has
    first_p99_ns: float  # While most is copied: in the first part
    first_p99_without_ns: float  # In the same part without a cache


@dataclass(frozen=True)
class CacheAnswer:
    """Whether a cache is worth it."""

    question: Question
    without: CacheFigures
    caches: Sequence[CacheFigures]  # The best size of each kind, the fastest first
    best: CacheFigures
    """The fastest of those that survive as many failures as the array alone, and of which no flash disk wears out."""

    by_size: Mapping[str, Mapping[int, float]]  # Mean latency of each kind and mode with defaults by bytes, ns
    choices: Mapping[str, Mapping[str, float]]
    """Mean latency of each kind and mode with another chunk or cutoff, as a ratio to that with the default."""

    warm_up: WarmUp | None  # None without a trace
    curves: CacheCurves | None  # First touches of a trace; None without one
    ios: int  # That each simulation has at most

    @property
    def is_known(self) -> bool:
        """Whether the figures with the cache and without it are known."""
        return self.best.candidate.is_known and self.without.candidate.is_known

    @property
    def gain(self) -> float:
        """The mean latency with the cache, as a ratio to that without one."""
        weights = [load.weight for load in self.question.loads]
        return self.best.candidate.mean_ns(weights) / self.without.candidate.mean_ns(weights)

    @property
    def is_worth_it(self) -> bool:
        """Whether the mean latency is clearly lower with the cache, and not only because it divides I/Os.

        Of data that are read once, it only reads ahead: it copies the chunk whose beginning is read.
        """
        return self.gain < 1 - SAME and self.best.serves and not self.is_cold

    @property
    def is_cold(self) -> bool:
        """Whether all loads read their data once."""
        return all(load.is_cold for load in self.question.loads)

    @property
    def risky(self) -> list[CacheFigures]:
        """Caches that are faster, but lose data when their disk fails, the fastest first."""
        fastest = (1 - SAME) * min(self.best.sample.mean_ns, self.without.sample.mean_ns)
        return [
            row
            for row in self.caches
            if row.arrangement.failures < self.without.arrangement.failures
            and row.sample.mean_ns < fastest
            and row.serves
        ]

    @property
    def is_certain(self) -> bool:
        """Whether the figures are known, and the intervals of the means do not overlap."""
        return self.is_known and self.best.sample.mean_bounds[1] < self.without.sample.mean_bounds[0]


def origin_of(pool: DiskPool, level: str) -> Arrangement:
    """Returns the array of some disks: of a level with its layout, otherwise what most people build.

    Raises UsageError if the disks cannot be such an array.
    """
    usual = "raid10"
    if pool.count == 2:
        usual = "raid1"
    elif pool.count % 2:
        usual = "raid5"
    arrays = [arrangement for arrangement in arrays_of(pool, priced=False) if not arrangement.spares]
    if pool.count == 1 and not level:
        return arrays[0]
    keywords = parse_keywords(level or usual)
    match = next(
        (
            arrangement
            for arrangement in arrays
            if arrangement.is_called(keywords) and len(arrangement.disks) == pool.count
        ),
        None,
    )
    if match is None:
        levels = sorted({arrangement.level for arrangement in arrays if arrangement.level.isdigit()}, key=int)
        level_names = ", ".join(f"raid{number}" for number in levels) or "no level"
        raise UsageError(
            f"{format_keywords(keywords)} of {pool.count} × {pool.name}: not possible; expected {level_names}"
        )
    return match


def cache_answer(
    question: Question,
    origin: Arrangement,
    fast: DiskPool,
    simulations: Simulations,
    *,
    max_bytes: int | None = None,
    ios: int = MAX_IOS,
    kinds: Sequence[str] = (),
) -> CacheAnswer:
    """Compares caches of `fast` disks for an array.

    `max_bytes` is the size of the largest cache, `kinds` are the levels to try. Raises UsageError if no
    cache can run the loads.
    """
    weights = [load.weight for load in question.loads]
    trace = next((load for load in question.loads if load.timed), None)
    curves = _curves(trace) if trace else None
    if curves and curves["useless_times"]:
        raise UsageError(f"the trace: {curves['useless_times']}: expected the times of its I/Os")
    used_bytes = curves["blocks"][0]["footprint_bytes"] if curves else max(load.span for load in question.loads)
    ios = max(ios_of(load, ios) for load in question.loads)
    sizes = _sizes(used_bytes or origin.capacity, min(max_bytes or fast.bytes, fast.bytes))
    with_cache = []
    for size in sizes:
        for arrangement in arrangements_of_size(origin, fast, size):
            if (not kinds or arrangement.level in kinds) and not arrangement.kinds & set(
                question.constraints.excluded_kinds
            ):
                with_cache.append(arrangement)
    runnable_arrangements, messages = select_runnable([origin, *with_cache], simulations)
    if origin not in runnable_arrangements or len(runnable_arrangements) == 1:
        raise UsageError(messages[0] if messages else "--exclude: leaves no kind of cache")
    simulations.expected_ios = ios * len(question.loads) * (len(runnable_arrangements) + EXTRA_SIMULATIONS)
    by_size: dict[str, dict[int, Candidate]] = {}
    for candidate in _simulate_caches(question, runnable_arrangements[1:], simulations, ios, finalists=False):
        size = next(iter(candidate.arrangement.sizes.values()), fast.bytes)
        by_size.setdefault(candidate.arrangement.level, {})[size] = candidate
    enough = {kind: _smallest_fast_cache(sizes, weights) for kind, sizes in by_size.items()}
    choices, tuned_arrangements = _choices(question, enough.values(), simulations, ios)
    final = _simulate_caches(question, [origin, *tuned_arrangements], simulations, ios, finalists=True)
    without, *caches = _figures(question, final, simulations)
    eligible = [row for row in caches if row.arrangement.failures >= origin.failures] or caches
    eligible = [row for row in eligible if row.serves] or eligible
    eligible = [row for row in eligible if row.rated_years is None or row.rated_years >= YEARS] or eligible
    fastest = min(row.candidate.mean_ns(weights) for row in eligible)
    best = next(row for row in eligible if row.candidate.mean_ns(weights) <= (1 + SAME) * fastest)
    means = {}
    for kind, candidates in by_size.items():
        means[kind] = {size: candidate.mean_ns(weights) for size, candidate in sorted(candidates.items())}
    return CacheAnswer(
        question,
        without,
        sorted(caches, key=lambda row: row.candidate.mean_ns(weights)),
        best,
        means,
        choices,
        _warm_up(trace, best.arrangement, origin, simulations, ios) if trace else None,
        curves,
        ios,
    )


def _curves(trace: Load) -> CacheCurves:
    from blklab import _core

    only = _core.Filter(devices=[str(trace.table["device"])])
    return read_curves([str(trace.table["replay"])], policies=["lru"], sizes=[], selection=only)


def _sizes(used_bytes: int, max_bytes: int) -> list[int]:
    """Returns powers of two up to twice what the loads use, at most `max_bytes`, which is also a size if it limits."""
    largest = 1 << max(MIN_CACHE_BYTES, 2 * used_bytes - 1).bit_length()
    sizes = [largest >> shift for shift in range(MAX_SIZES) if largest >> shift >= MIN_CACHE_BYTES]
    return sorted({min(size, max_bytes) for size in sizes})


def arrangements_of_size(origin: Arrangement, fast: DiskPool, size: int) -> Iterator[Arrangement]:
    """Yields an array with each kind of cache of some bytes."""
    cache = arrays_of(fast, priced=False)[0] if fast.count == 1 else origin_of(fast, "raid1")
    description = f"on {format_size(size)} of {cache.words}"
    for arrangement in with_caches(origin, cache, replace(fast, bytes=size)):
        if size >= fast.bytes:
            yield arrangement
        elif not arrangement.sizes:
            sizes = dict.fromkeys(cache.disks, size)
            yield replace(arrangement, sizes=sizes, words=arrangement.words.replace(f"on {cache.words}", description))


def _smallest_fast_cache(by_bytes: Mapping[int, Candidate], weights: Sequence[float]) -> Candidate:
    """Returns the smallest cache that is about as fast as the fastest."""
    fastest = min(candidate.mean_ns(weights) for candidate in by_bytes.values())
    candidates = [by_bytes[size] for size in sorted(by_bytes)]
    return next(candidate for candidate in candidates if candidate.mean_ns(weights) <= (1 + SAME) * fastest)


def _figures(question: Question, candidates: Sequence[Candidate], simulations: Simulations) -> list[CacheFigures]:
    rows = []
    for candidate in candidates:
        arrangement = candidate.arrangement
        half, full = _halves(candidate)
        ios = max(candidate.by_length)
        reads = sum(sample.cached_reads for sample in full)
        later = [
            (now.mean_ns * now.ios - then.mean_ns * then.ios) / max(1, now.ios - then.ios)
            for now, then in zip(full, half, strict=True)
        ]
        bytes_a_day, rated_years = _wear(question, candidate)
        keeps_up = all(
            sample.seconds * KEEPS_UP * question.growth <= simulations.trace_seconds(load, ios)
            for load, sample in zip(question.loads, full, strict=True)
            if load.is_paced
        )
        row = CacheFigures(
            candidate,
            bytes=min(
                (arrangement.sizes.get(name, question.disks[name].bytes) for name in _cache_disks(arrangement)),
                default=0,
            ),
            later_ns=max(later),
            hit_ratio=sum(sample.cache_hits for sample in full) / reads if reads else None,
            dirty_bytes=max(sample.dirty_bytes for sample in (*full, *half)),
            flash_bytes_per_day=bytes_a_day,
            rated_years=rated_years,
            keeps_up=keeps_up,
        )
        rows.append(row)
    return rows


def _halves(candidate: Candidate) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """Returns the samples of the first half of the I/Os, and of all of them."""
    half, full = (candidate.by_length[length] for length in sorted(candidate.by_length))
    return half, full


def _simulate_caches(
    question: Question, arrangements: Iterable[Arrangement], simulations: Simulations, ios: int, *, finalists: bool
) -> list[Candidate]:
    """Simulates the first half of the I/Os, and all of them."""
    candidates = [Candidate(arrangement, None) for arrangement in arrangements]
    for length in (max(1, ios // 2), max(2, ios)):
        candidates = simulate_candidates(question, candidates, simulations, length, finalists=finalists)
    return candidates


def _cache_disks(arrangement: Arrangement) -> Sequence[str]:
    return arrangement.below(str(arrangement.top_table["cache"])).disks if "cache" in arrangement.top_table else ()


def _wear(question: Question, candidate: Candidate) -> tuple[int, float | None]:
    """Returns the bytes per day that are written to the disk of the cache, and the years that its rating suffices.

    The second half of the I/Os counts, because the cache is filled only once.
    """
    disks = _cache_disks(candidate.arrangement)
    later = []
    for then, now in zip(*_halves(candidate), strict=True):
        seconds = max(1e-9, now.seconds - then.seconds)
        written = {}
        for name in disks:
            written[name] = max(0.0, now.written[name] * now.seconds - then.written[name] * then.seconds) / seconds
        later.append(replace(now, written=written))
    writes_per_day, years = wear(question, later)
    largest = max((question.disks[name].bytes for name in disks), default=0)
    return round((writes_per_day or 0.0) * largest), years


def _choices(
    question: Question, candidates: Iterable[Candidate], simulations: Simulations, ios: int
) -> tuple[dict[str, dict[str, float]], list[Arrangement]]:
    """Returns what another chunk or cutoff changes for each kind, and the kinds with that which is clearly faster.

    Those that wear the flash out within YEARS are not chosen, unless the default does so sooner.
    """
    weights = [load.weight for load in question.loads]
    choices = {}
    tuned_arrangements = []
    for candidate in candidates:
        arrangement = candidate.arrangement
        runnable_variants, _ = select_runnable(list(_variants(question, arrangement)), simulations)
        variants = _simulate_caches(question, runnable_variants, simulations, ios, finalists=False)
        base = candidate.mean_ns(weights)
        choices[arrangement.level] = {choice_of(other.arrangement): other.mean_ns(weights) / base for other in variants}
        least = min(YEARS, _wear(question, candidate)[1] or 0)
        lasting = [other for other in variants if least <= (_wear(question, other)[1] or math.inf)]
        best = min([candidate, *lasting], key=lambda other: other.mean_ns(weights))
        slower, half = difference(best.samples, candidate.samples, weights)
        tuned_arrangements.append((best if slower + half < -SAME else candidate).arrangement)
    return choices, tuned_arrangements


def choice_of(arrangement: Arrangement) -> str:
    """Returns the chunk or the cutoff of a cache in words."""
    key, _ = CHOICES.get(str(arrangement.top_table["kind"]), ("", ()))
    size = parse_size(str(arrangement.top_table.get(key, DEFAULT_CUTOFF)))
    noun = {"chunk": "chunk", "sequential_cutoff": "cutoff"}.get(key, "")
    if not noun:
        return ""
    if not size:
        return f"no {noun}"
    return f"{noun} {format_size(size)}"


def _variants(question: Question, arrangement: Arrangement) -> Iterator[Arrangement]:
    key, values = CHOICES.get(str(arrangement.top_table["kind"]), ("", ()))
    size = min(arrangement.sizes.get(name, question.disks[name].bytes) for name in _cache_disks(arrangement))
    for value in values:
        fits = key != "chunk" or size <= LVM_CHUNKS * parse_size(value)
        variant = arrangement.change_stack(arrangement.top, **{key: value})
        if fits and choice_of(variant) != choice_of(arrangement):
            yield replace(variant, words=f"{arrangement.words}, {choice_of(variant)}")


def _warm_up(load: Load, arrangement: Arrangement, origin: Arrangement, simulations: Simulations, ios: int) -> WarmUp:
    lengths = [max(1, ios * part // WINDOWS) for part in range(1, WINDOWS + 1)]
    speed = simulations.question.growth
    samples = simulations.averages([SampleRequest(arrangement, load, length, speed) for length in lengths])
    hits_before = 0.0
    reads_before = 0.0
    ratios = []
    for sample in samples:
        hits = sample.cache_hits - hits_before
        reads = sample.cached_reads - reads_before
        ratios.append(hits / reads if reads > 0 else 0.0)
        hits_before = sample.cache_hits
        reads_before = sample.cached_reads
    first = next(number for number, ratio in enumerate(ratios) if ratio >= WARM * ratios[-1])
    without = simulations.averages([SampleRequest(origin, load, lengths[0], speed)])[0]
    seconds = samples[first].seconds if first < WINDOWS - 1 else None
    return WarmUp(ratios, seconds, samples[0].p99_ns, without.p99_ns)
