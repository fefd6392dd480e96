"""The figures of the arrangements that remain: today's load, headroom, failures, wear."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from blklab._core import MD_STRIPE_CACHE, MD_SYNC_SPEED_MAX, MD_SYNC_SPEED_MIN, Stop
from blklab.advise.arrangement import Arrangement, members_of
from blklab.advise.question import FLASH, Question, Table
from blklab.advise.race import SAME, Candidate, longest, simulate_candidates
from blklab.advise.samples import Sample, SampleRequest, Simulations, difference, runs_together
from blklab.advise.search import select_runnable
from blklab.devices.stock_models import library_model, stock
from blklab.experiment.stack import Md
from blklab.grouping import by_key
from blklab.md.reliability import Disk, Loss, RedundantArray, probability
from blklab.units import parse_size

KEEPS_UP = 0.97  # Share of the recorded rate that still counts as keeping up
SATURATED = 0.98  # Busy share of a device that has no headroom
MAX_HEADROOM = 256.0  # Times today's load that are tried
LEAST_HEADROOM = 1 / 16  # The lowest rate that is tried, over that of the load
REFINED = 3  # Halvings of the interval of the headroom
DAY = 86_400
YEARS = 5  # For which the probability of losing data is shown
STRIPE_CACHE = 4096  # Pages for each member that are tried with levels 5 and 6


@dataclass(frozen=True)
class ArrangementFigures:
    """What an arrangement does. Latencies are those of the load with the highest 99th percentile."""

    arrangement: Arrangement
    price: float | None
    today: Sequence[Sample]  # For each load
    peak: Sequence[Sample]  # For each load, as fast as possible
    headroom: float | None
    """How many times today's load it serves; None without a load that has a rate, which could grow."""

    headroom_is_more: bool  # Whether it is more than that
    degraded: Sequence[Sample]  # Without one disk; empty if no disk can fail
    rebuilding: Sequence[Sample]  # While one disk is rebuilt
    rebuild_seconds: float | None
    drive_writes_per_day: float | None  # The most of all flash disks; None without flash
    rated_years: float | None  # Until the first flash disk was written as often as its maker rates it
    loss: Loss  # How likely data are lost within YEARS
    changes: Mapping[str, float] = field(default_factory=dict)
    """Mean latency with one choice changed, as a ratio to this."""

    def slowest_load(self) -> Sample:
        """Returns the figures of the load with the highest 99th percentile."""
        return max(self.today, key=lambda sample: sample.p99_ns)


def figures(question: Question, candidates: Sequence[Candidate], simulations: Simulations) -> list[ArrangementFigures]:
    """Simulates arrangements in all situations that the answer shows: those of all arrangements at the same time."""
    full = longest(question)

    def requests(arrangement: Arrangement, **keys: bool) -> list[SampleRequest]:
        return [SampleRequest(arrangement, load, full, question.growth, **keys) for load in question.loads]

    arrangements = [candidate.arrangement for candidate in candidates]
    arrays = [arrangement.redundant_array(question) for arrangement in arrangements]
    situations = []
    for arrangement, array in zip(arrangements, arrays, strict=True):
        requests_of_arrangement = requests(arrangement, as_fast_as_possible=True)
        if array:
            requests_of_arrangement += requests(arrangement.degrade(array))
            requests_of_arrangement += requests(arrangement.rebuild(array))
        situations.append(requests_of_arrangement)
    samples = _run_lists(simulations.run, situations)
    today = _run_lists(simulations.averages, [requests(arrangement) for arrangement in arrangements])
    headroom = _headroom(question, arrangements, simulations, full)
    size = len(question.loads)
    seconds = []
    for arrangement, array, samples_of_arrangement in zip(arrangements, arrays, samples, strict=True):
        rate = min((sample.sync_rate for sample in samples_of_arrangement[2 * size :]), default=0.0)
        seconds.append(_member_bytes(question, arrangement, array) / rate if array and rate else None)

    def loss(number: int, /, *, stop: Stop | None = None) -> Loss:  # noqa: ARG001
        return data_loss(question, arrangements[number], seconds[number])

    losses = simulations.here.all(loss, range(len(arrangements)))
    rows = []
    for number, candidate in enumerate(candidates):
        times, is_more = headroom[number]
        writes_per_day, rated_years = wear(question, today[number])
        row = ArrangementFigures(
            candidate.arrangement,
            candidate.price,
            today=today[number],
            peak=samples[number][:size],
            headroom=times,
            headroom_is_more=is_more,
            degraded=samples[number][size : 2 * size],
            rebuilding=samples[number][2 * size :],
            rebuild_seconds=seconds[number],
            drive_writes_per_day=writes_per_day,
            rated_years=rated_years,
            loss=losses[number],
        )
        rows.append(row)
    return rows


def _run_lists(
    run: Callable[[list[SampleRequest]], list[Sample]], requests: Sequence[list[SampleRequest]]
) -> list[list[Sample]]:
    """Returns the samples of lists of requests, which run at the same time."""
    samples = iter(run([request for requests_of_list in requests for request in requests_of_list]))
    return [list(islice(samples, len(requests_of_list))) for requests_of_list in requests]


def data_loss(question: Question, arrangement: Arrangement, rebuild_seconds: float | None) -> Loss:
    """Returns how likely data are lost within YEARS: of all disks without which data are lost.

    `rebuild_seconds` are those of the array whose rebuild was simulated, None if it did not advance: md's lower limit
    counts then. Arrays of other disks are rebuilt at md's upper limit.
    """
    stacks = arrangement.essential_stacks()
    simulated_array = arrangement.redundant_array(question)
    names = [name for name in arrangement.disks if _is_used(name, stacks)]
    disks = []
    for name in names:
        pool = question.disks[name]
        disks.append(Disk(str(pool.table.get("model", "")), pool.kind, arrangement.sizes.get(name, pool.bytes)))
    arrays = []
    for stack, table in stacks.items():
        members = members_of(table)
        if table.get("level") in {None, 0, "linear"} or members[0] not in names:
            continue
        is_simulated = (
            simulated_array
            and question.disks[members[0]] == question.disks[members_of(arrangement.stacks[simulated_array])[0]]
        )
        at_limit = _member_bytes(question, arrangement, stack) / (
            (MD_SYNC_SPEED_MIN if is_simulated else MD_SYNC_SPEED_MAX) << 10
        )
        hours = (rebuild_seconds if is_simulated and rebuild_seconds else at_limit) / 3600
        spares = len([spare for spare in arrangement.spares if question.disks[spare] == question.disks[members[0]]])
        md = Md.model_validate(table)
        slots = [names.index(member) for member in members]
        arrays.append(RedundantArray(md.level, slots, hours, md.layout_word, spares))
    return probability(disks, arrays, question.care, YEARS)


def _is_used(disk: str, stacks: Mapping[str, Table]) -> bool:
    """Whether one of the stacks consists of a disk."""
    return any(disk in table.values() or disk in members_of(table) for table in stacks.values())


def least_rebuild_seconds(question: Question, arrangement: Arrangement) -> float | None:
    """Returns the seconds that a rebuild takes at md's limit, without a load; None without redundancy."""
    array = arrangement.redundant_array(question)
    return _member_bytes(question, arrangement, array) / (MD_SYNC_SPEED_MAX << 10) if array else None


def _member_bytes(question: Question, arrangement: Arrangement, array: str) -> int:
    return min(
        arrangement.sizes.get(member, question.disks[member].bytes) for member in members_of(arrangement.stacks[array])
    )


def wear(question: Question, today: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Returns the writes per day of the flash disk that is written most, in capacities of the disk, and for how many
    years the ratings of all suffice; None if no rating is known.
    """
    writes = {}
    for name, bytes_per_day in written_a_day(question, today).items():
        writes[name] = bytes_per_day / question.disks[name].bytes
    years = []
    for name, writes_per_day in writes.items():
        model = question.disks[name].table.get("model")
        rated_bytes = library_model(str(model)).rated.get("written_bytes") if model else None
        if rated_bytes and writes_per_day:
            years.append(rated_bytes / parse_size(str(stock(str(model))["capacity"])) / writes_per_day / 365.25)
    return max(writes.values(), default=None), min(years, default=None)


def written_a_day(question: Question, today: Sequence[Sample]) -> dict[str, float]:
    """Returns the bytes that are written a day to each flash disk.

    Of several loads, the mean by weight counts, and the sum if each has a rate. If they were simulated together, each
    sample has what all of them write.
    """
    if runs_together(question):
        today = today[:1]
    has_rates = all(load.rate is not None for load in question.loads)
    weights = sum(load.weight for load in question.loads)
    written: dict[str, float] = {}
    for load, sample in zip(question.loads, today, strict=False):
        share = 1.0 if has_rates else load.weight / weights
        for name, rate in sample.written.items():
            if (pool := question.disks.get(name)) and pool.kind in FLASH:
                written[name] = written.get(name, 0.0) + rate * share * DAY
    return written


def _headroom(
    question: Question, arrangements: Sequence[Arrangement], simulations: Simulations, full: int
) -> list[tuple[float | None, bool]]:
    """Returns how many times the loads' rates each arrangement serves, and whether it is more."""
    paced_loads = [load for load in question.loads if load.is_paced]
    if not paced_loads:
        return [(None, False)] * len(arrangements)
    seconds_at_rate = [simulations.trace_seconds(load, full) for load in paced_loads]
    searches = [_highest_speed() for _ in arrangements]
    speeds = {index: next(search) for index, search in enumerate(searches)}
    results: dict[int, tuple[float | None, bool]] = {}
    while speeds:
        requests = []
        for index, speed in speeds.items():
            requests.append([SampleRequest(arrangements[index], load, full, speed) for load in paced_loads])
        for (index, speed), samples in zip(list(speeds.items()), _run_lists(simulations.run, requests), strict=True):
            pairs = zip(samples, seconds_at_rate, strict=True)
            try:
                serves = all(_keeps_up(question, sample, seconds / speed) for sample, seconds in pairs)
                speeds[index] = searches[index].send(serves)
            except StopIteration as end:
                results[index] = end.value
                del speeds[index]
    return [results[index] for index in range(len(arrangements))]


def _highest_speed() -> Generator[float, bool, tuple[float, bool]]:
    """Yields speeds to try, gets whether they are served, and returns the highest, and whether it is more.

    It doubles the speed until a device saturates, I/Os fall behind, or the bound is exceeded; then it halves the
    interval (on a logarithmic scale).
    """
    low, high = 0.0, 1.0
    while high <= MAX_HEADROOM and (yield high):
        low, high = high, high * 2
    if high > MAX_HEADROOM:
        return low, True
    if not low:
        low, high = LEAST_HEADROOM, 1.0
        if not (yield low):
            return 0.0, False
    for _ in range(REFINED):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (yield middle) else (low, middle)
    return low, False


def _keeps_up(question: Question, sample: Sample, seconds: float) -> bool:
    bound = question.constraints.p99_ns
    if bound is not None and sample.p99_ns > bound:
        return False
    return sample.busy < SATURATED and sample.seconds * KEEPS_UP <= seconds


def tune_candidate(question: Question, candidate: Candidate, simulations: Simulations) -> Candidate:
    """Returns the arrangement with the settings that make it clearly faster: schedulers, the stripe cache."""
    for make_variant in (_with_stripe_cache, _with_scheduler):
        variant = make_variant(question, candidate.arrangement)
        if variant is None or not select_runnable([variant], simulations)[0]:  # an old kernel may not have it
            continue
        pair = [candidate, replace(candidate, arrangement=variant, by_length={})]
        candidate, other = simulate_candidates(question, pair, simulations, longest(question), finalists=True)
        slower, half = other.slowdown(candidate, [load.weight for load in question.loads])
        if slower + half < -SAME:
            candidate = other
    return candidate


def _with_stripe_cache(_question: Question, arrangement: Arrangement) -> Arrangement | None:
    arrays = [name for name, table in arrangement.arrays().items() if table["level"] in {5, 6}]
    return arrangement.change_stacks(arrays, stripe_cache_size=STRIPE_CACHE) if arrays else None


def _with_scheduler(question: Question, arrangement: Arrangement) -> Arrangement | None:
    rotating = any(pool.kind == "hdd" and pool.disk(1) in arrangement.disks for pool in question.pools)
    if not rotating or "scheduler" in question.settings:
        return None
    return replace(arrangement, settings={**arrangement.settings, "scheduler": "none"})


def add_changes(question: Question, row: ArrangementFigures, simulations: Simulations) -> ArrangementFigures:
    """Adds what single choices contribute: the mean latency with another layout or chunk, or without a cache."""
    weights = [load.weight for load in question.loads]
    runnable_variants = [
        (name, variant) for name, variant in _variants(row.arrangement) if select_runnable([variant], simulations)[0]
    ]
    variants = {name: Candidate(variant, None) for name, variant in runnable_variants}
    candidates = simulate_candidates(question, list(variants.values()), simulations, longest(question), finalists=True)
    changes = {
        name: math.exp(difference(other.samples, row.today, weights)[0])
        for name, other in zip(variants, candidates, strict=True)
    }
    return replace(row, changes=changes)


def _variants(arrangement: Arrangement) -> list[tuple[str, Arrangement]]:
    """Returns the arrangement with one choice changed, by what is changed. Arrays of the same level change together."""
    variants = []
    cache = arrangement.top_table.get("cache")
    levels = by_key((str(table["level"]), name) for name, table in arrangement.arrays().items() if name != cache)
    for level, names in levels.items():
        table = arrangement.stacks[names[0]]
        about = f" of RAID-{level}" if len(levels) > 1 else ""
        chunks = [chunk for chunk in ("64K", "1M") if table.get("chunk") not in {None, chunk}]
        variants += [(f"chunk {chunk}{about}", arrangement.change_stacks(names, chunk=chunk)) for chunk in chunks]
        if level == "10":
            own_layout = str(table["layout"])
            letter = own_layout[0]
            copies = own_layout[1:]
            layouts = [f"{other}{copies}" for other in "nfo" if other != letter]
            variants += [(f"layout {layout}", arrangement.change_stacks(names, layout=layout)) for layout in layouts]
        if table.get("bitmap"):
            variants.append(
                ("no bitmap (a resync after a crash takes hours)", arrangement.change_stacks(names, bitmap=False))
            )
        if table.get("write_mostly"):
            variants.append(("no write-mostly", arrangement.change_stacks(names, write_mostly=[])))
        if "stripe_cache_size" in table:
            variants.append(
                ("the default stripe cache", arrangement.change_stacks(names, stripe_cache_size=MD_STRIPE_CACHE))
            )
    if arrangement.settings:
        variants.append(("the default scheduler", replace(arrangement, settings={})))
    origin = arrangement.top_table.get("origin", arrangement.top_table.get("backing"))
    if isinstance(origin, str):
        variants.append(("no cache", arrangement.below(origin)))
    return variants
