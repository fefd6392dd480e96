"""Predict published runs of caches and of the disks behind them.

The SSDs are as fast as the run of the SSDs alone. The disks are two of a class, in a RAID-1: nothing is fitted to a run
of a cache.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from accuracy.cache_tables import CACHES, CacheRun, CacheTables
from accuracy.disks import LEAST
from blklab.cluster import HERE, Parallel
from blklab.compare.decision import is_inside
from blklab.errors import UsageError
from blklab.experiment import cells, documents, load
from blklab.experiment.cells import Cell
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval

CacheClass = Literal["stuck", "bouncing", "fixed"]

HIT_RATE = 0.015  # Allowed error of the hit rate of repaired kernels, as a fraction of all I/Os
PROMOTIONS = 0.10  # Allowed relative error of their promotions
JUDGED_BYTES = 8 << 30  # Most data of a run whose hit rate is judged: what larger runs held at first is unknown
STUCK = 0.05  # A cache that promotes fewer of its misses is stuck
BOUNCING = 1.25  # One that promotes more often than this for each block of the data is bouncing

MOST_IOS = 2_000_000  # A run with more I/Os is simulated in part
LAST = 0.9  # The share of the simulated time after which its last rates are counted
KINDS = {"dm-cache-smq": "lvmcache", "bcache-sc4m": "bcache", "none-hdd": None}
STATES = {"empty": "layout", "full": "junk", "": "empty"}
METADATA = 8 << 20  # LVM's least metadata, and before it an extent
EXTENT = 4 << 20
CHUNK = 64 << 10
ORIGIN = 100 << 30

DISK = {"model": "hdd-5400", "read_streams": 48}
"""The disks are not named. Those that the same author measured in 2019 have 5,400 rpm. How many reads their memory
keeps is calibrated: with 48, the disks alone have the mean rate of the published runs of the disks alone."""

FULL = ("junk", "junk-dirty")
"""States of a cache that is full of other data. A run with more data than the cache wrote blocks back, so some of them
were dirty; how many is not known. The prediction is the middle of none and all, and its interval has both ends."""

OWN_BLOCKS = (0, 128 << 20)
"""Bytes that a filesystem's own blocks take of an empty cache before the files are written: none, or the least journal
that mke2fs makes on such a volume. Which filesystem it was is not published. What is not cached at first is the end of
the last file. The prediction is the middle of both, and its interval has both ends."""


@dataclass(frozen=True)
class CacheFigures:
    """What a cache did in a run; of disks alone, only their IOPS are known."""

    iops: float
    hit_rate: float | None
    promotions: float | None  # None if they are unknown
    blocks: int  # Blocks of the data
    ios: float

    @property
    def cache_class(self) -> CacheClass | None:
        """How the cache learns; None if that is unknown."""
        if self.promotions is None or self.hit_rate is None:
            return None
        if self.promotions < STUCK * self.ios * (1 - self.hit_rate):
            return "stuck"
        return "bouncing" if self.promotions > BOUNCING * self.blocks else "fixed"

    def as_dict(self) -> dict[str, object]:
        """Returns the figures for `--json`."""
        figures = {"iops": self.iops, "hit_rate": self.hit_rate, "promotions": self.promotions}
        return {**figures, "class": self.cache_class}


@dataclass(frozen=True)
class CacheRow:
    """A published run and its prediction."""

    run: CacheRun
    published: CacheFigures
    predicted: CacheFigures
    interval: tuple[float, float]  # Factors of the predicted IOPS
    simulated_s: float  # Of the run's time; rates of the last tenth stand for the rest

    @property
    def error(self) -> float:
        """Predicted over published IOPS, minus one."""
        return self.predicted.iops / self.published.iops - 1

    @property
    def inside(self) -> bool:
        """Whether the published IOPS are in the interval of the prediction."""
        low, high = map(math.log, self.interval)
        return is_inside(-math.log1p(self.error), (low, high))

    @property
    def is_judged(self) -> bool:
        """Whether hit rate and promotions have bounds: of a repaired dm-cache, with data of at most 8 GiB."""
        known = self.published.cache_class
        is_repaired = known == "fixed" or (known is None and self.run.state == "full")
        return is_repaired and KINDS[self.run.policy] == "lvmcache" and self.run.data_bytes <= JUDGED_BYTES

    @property
    def same_class(self) -> bool:
        """Whether the classes are the same, as far as they are known."""
        return self.published.cache_class in {self.predicted.cache_class, None}

    @property
    def holds(self) -> bool:
        """Whether the classes are the same, and judged figures within their bounds."""
        ours_rate, known_rate = self.predicted.hit_rate, self.published.hit_rate
        if not self.same_class or not self.is_judged or ours_rate is None or known_rate is None:
            return self.same_class
        known, ours = self.published.promotions, self.predicted.promotions
        # What the layout of the files left out of an empty cache is unknown.
        counted = self.run.state == "full" and known is not None and ours is not None
        close = not counted or abs((ours or 0) - (known or 0)) <= PROMOTIONS * (known or 0)
        return abs(ours_rate - known_rate) <= HIT_RATE and close

    def as_dict(self) -> dict[str, object]:
        """Returns the row for `--json`."""
        return {
            "target": self.run.run,
            "test": f"{self.run.kernel}, {self.run.data_bytes >> 20} MiB",
            "published": self.published.as_dict(),
            "predicted": self.predicted.as_dict(),
            "error": self.error,
            "interval": [factor * self.predicted.iops for factor in self.interval],
            "inside": self.inside,
            "simulated_s": self.simulated_s,
            "runtime_s": self.run.runtime_s,
            "holds": self.holds,
        }


def hold(rows: Sequence[CacheRow]) -> bool:
    """Whether the intervals hold what they promise, and no cache learns in another way than the real one."""
    return sum(row.inside for row in rows) >= LEAST * len(rows) and all(row.same_class for row in rows)


@dataclass(frozen=True)
class _Prediction:
    """The figures of a run with one state of the cache, and the ends of its interval of IOPS."""

    figures: CacheFigures
    ends: tuple[float, float]
    simulated_s: float


def validate(tables: CacheTables, parallel: Parallel = HERE) -> list[CacheRow]:
    """Predicts all runs of caches that the simulator knows, and of disks alone.

    Raises UsageError without a run of the SSDs alone.
    """
    runs = [run for run in tables.runs if run.policy in KINDS]
    chosen = [(run, [_cell(tables, *begin) for begin in _beginnings(tables, run)]) for run in runs]
    # Runs of several commits with the same rules are one simulation.
    distinct = {str(cell.document): cell for _, states in chosen for cell in states}
    simulated = dict(zip(distinct, _predicted(list(distinct.values()), parallel), strict=True))
    return [_row(run, [simulated[str(cell.document)] for cell in states]) for run, states in chosen]


def _row(run: CacheRun, simulated: Sequence[_Prediction]) -> CacheRow:
    """Returns a run with the middle of its predictions with each state of the cache."""
    iops = math.exp(sum(math.log(prediction.figures.iops) for prediction in simulated) / len(simulated))

    def middle(name: str) -> float | None:
        values = [getattr(prediction.figures, name) for prediction in simulated]
        return None if None in values else sum(values) / len(values)

    first = simulated[0].figures
    predicted = replace(first, iops=iops, hit_rate=middle("hit_rate"), promotions=middle("promotions"))
    counted = None if first.promotions is None else run.promotions
    hit_rate = None if first.hit_rate is None else run.hit_rate
    published = CacheFigures(run.iops, hit_rate, counted, -(-run.data_bytes // CHUNK), run.ios)
    ends = [end for prediction in simulated for end in prediction.ends]
    return CacheRow(run, published, predicted, (min(ends) / iops, max(ends) / iops), simulated[0].simulated_s)


def _beginnings(tables: CacheTables, run: CacheRun) -> list[tuple[CacheRun, str]]:
    """Returns the run with each state in which its cache may have been at first."""
    state = tables.states.get(run.run) or STATES.get(run.state, run.state)
    if state == "junk" and run.data_bytes > run.cache_bytes:
        return [(run, each) for each in FULL]
    if state == "layout":
        return [(replace(run, cache_bytes=run.cache_bytes - own), state) for own in OWN_BLOCKS]
    return [(run, state)]


def _cell(tables: CacheTables, run: CacheRun, state: str) -> Cell:
    kind, half = KINDS[run.policy], run.data_bytes // run.jobs
    origin = max(ORIGIN, run.data_bytes + run.cache_bytes) + EXTENT
    devices = {name: DISK | {"size": str(origin)} for name in ("hdd1", "hdd2")}
    stacks: dict[str, dict[str, object]] = {"hdd": {"level": 1, "members": list(devices)}}
    if kind is not None:
        reserved = METADATA + EXTENT if kind == "lvmcache" else 0
        devices["ssd"] = _ssd(tables, run) | {"size": str(run.cache_bytes + reserved)}
        stacks["cached"] = {"kind": kind, "cache": "ssd", "state": state}
        stacks["cached"] |= (
            {"origin": "hdd", "mode": "writeback", "chunk": str(CHUNK), "metadata": str(METADATA)}
            if kind == "lvmcache"
            else {"backing": "hdd"}
        )
    raw = {
        "devices": devices,
        "stacks": stacks,
        "workloads": {
            "zipf": {
                "rw": "randread",
                "bs": "4k",
                "random_distribution": "zipf:1.2",
                "time_based": True,
                "numjobs": run.jobs,
                "iodepth": run.iodepth,
                "size": str(half),
                "offset_increment": str(half),
            }
        },
        "matrix": {"stack": [list(stacks)[-1]]},
        "settings": {"kernel": tables.kernels.get(run.kernel) or _kernel(run.kernel), "runtime": run.runtime_s},
    }
    return cells.plan(load.ExperimentSource(tables.path / CACHES, raw)).cells[0]


def _kernel(release: str) -> str:
    """Returns a release without what changes nothing: its patch level, and commits except those after 4.12-rc1."""
    parts = re.match(r"(\d+\.\d+)[^-+]*((?:-rc1)?)(\+\w{8})?", release, re.A)
    generation, candidate, commit = parts.groups() if parts else (release, "", None)
    return generation + candidate + (commit if candidate and commit else "")


def _ssd(tables: CacheTables, run: CacheRun) -> dict[str, object]:
    """Returns SSDs that are as fast as the run of the SSDs alone of the kernel, or of the nearest one."""
    alone = [row for row in tables.runs if row.policy == "none-ssd"]
    if not alone:
        raise UsageError(f"{tables.path}: {CACHES}: no row of policy 'none-ssd', which caches need")

    def closeness(row: CacheRun) -> tuple[bool, bool]:
        generations = [re.findall(r"\d+", text)[:2] for text in (row.kernel, run.kernel)]
        return (row.kernel == run.kernel, generations[0] == generations[1])

    nearest = max(alone, key=closeness)
    latency_ns = int(nearest.jobs * nearest.iodepth * 1e9 / nearest.iops)
    rates = {"kind": "throttled", "iops_total": round(nearest.iops), "latency_ns": latency_ns}
    return {**rates, "rotational": False}


def _predicted(distinct: Sequence[Cell], parallel: Parallel) -> list[_Prediction]:
    """Simulates runs: of long ones a part, whose last rates tell what follows."""
    documents = [cell.document for cell in distinct]
    begun = sim.outcomes([{**document, "max_ios": MOST_IOS} for document in documents], parallel)
    long = {
        index: _enough_ns(cell, outcome)
        for index, (cell, outcome) in enumerate(zip(distinct, begun, strict=True))
        if outcome.runtime_ns < cell.document["runtime_ns"]
    }
    parts = [{**documents[index], "runtime_ns": int(ns * share)} for index, ns in long.items() for share in (LAST, 1)]
    outcomes = iter(sim.outcomes(parts, parallel))
    rows = []
    for index, (cell, outcome) in enumerate(zip(distinct, begun, strict=True)):
        points = [outcome, next(outcomes), next(outcomes)] if index in long else [outcome]
        rows.append(_Prediction(_extrapolated(cell, points), _ends(cell, points), points[-1].runtime_ns / 1e9))
    return rows


def _enough_ns(cell: Cell, begun: Outcome) -> int:
    """Returns how much of a long run is simulated: half as long again as its beginning.

    smq has then balanced its levels twice, every 60 s. A cache full of other data has settled: with the rate that its
    disks have in the beginning, they have read each block of the cache or the data three times, for smq's two misses
    and a copy, and a quarter more.
    """
    document = cell.document
    (job,) = document["jobs"]
    states = [table.get("state") for _, table in documents.arrays_and_volumes(document["stack"])]
    settled_ns = 130e9 if "layout" in states else 0.0
    if set(FULL) & set(states):
        blocks = min(job["size"] * job["numjobs"], document["devices"][-1]["bytes"]) / CHUNK
        rate = sum(device.ios[0] for device in begun.devices[:2]) / begun.runtime_ns
        settled_ns = max(130e9, 1.25 * 3 * blocks / rate)
    return int(min(document["runtime_ns"], max(settled_ns, 1.5 * begun.runtime_ns)))


def _extrapolated(cell: Cell, points: Sequence[Outcome]) -> CacheFigures:
    """Returns the figures of a whole run from counts at one time, or at three: rates that fell go on falling."""
    document, times = cell.document, [point.runtime_ns / 1e9 for point in points]
    runtime_s = document["runtime_ns"] / 1e9
    left = max(0.0, runtime_s - times[-1])
    hits, misses, promotions = (
        counts[-1] + _further(times, counts, left) for counts in zip(*map(_counts, points), strict=True)
    )
    (job,) = document["jobs"]
    kinds = {kind for kind, _ in documents.arrays_and_volumes(document["stack"])}
    ios = hits + misses
    hit_rate = hits / ios if len(kinds) > 1 else None
    promoted = promotions if KINDS["dm-cache-smq"] in kinds else None
    return CacheFigures(ios / runtime_s, hit_rate, promoted, job["size"] * job["numjobs"] // CHUNK, ios)


def _ends(cell: Cell, points: Sequence[Outcome]) -> tuple[float, float]:
    """Returns the ends of the interval of IOPS.

    With slower devices the simulated part takes longer, and what follows is slower where these devices are the limit.
    """
    runtime_s, ends = cell.document["runtime_ns"] / 1e9, []
    whole = points[-1]
    before = points[-2] if len(points) > 1 else None
    last = whole if before is None else _difference(before, whole)
    for part, later in zip(interval(cell, whole).iops, interval(cell, last).iops, strict=True):
        seconds = whole.runtime_ns / 1e9 / part
        counted = whole.read.iops * part * min(seconds, runtime_s)
        ends.append((counted + last.read.iops * later * max(0.0, runtime_s - seconds)) / runtime_s)
    return min(ends), max(ends)


def _difference(before: Outcome, after: Outcome) -> Outcome:
    """Returns what devices and jobs did between two times of a run, as far as an interval needs it."""
    nanoseconds = after.runtime_ns - before.runtime_ns
    devices = [
        replace(late, ticks_ns=[end - start for start, end in zip(early.ticks_ns, late.ticks_ns, strict=True)])
        for early, late in zip(before.devices, after.devices, strict=True)
    ]
    iops = (after.read.iops * after.runtime_ns - before.read.iops * before.runtime_ns) / nanoseconds
    return replace(after, devices=devices, read=replace(after.read, iops=iops))


def _further(times: Sequence[float], counts: Sequence[int], left: float) -> float:
    """Returns what a counter will count in the seconds left. A falling rate falls exponentially."""
    if not left:
        return 0.0
    spans = [later - earlier for earlier, later in pairwise(times)]
    first, last = ((later - earlier) / span for (earlier, later), span in zip(pairwise(counts), spans, strict=True))
    if last <= 0 or first <= last:
        return max(0.0, last) * left
    fall = math.log(first / last) * 2 / sum(spans)  # Each second, between the middles of the spans
    return last * math.exp(-fall * spans[1] / 2) * -math.expm1(-fall * left) / fall


def _counts(outcome: Outcome) -> tuple[int, int, int]:
    target = outcome.targets[-1]
    if target["kind"] == "md":
        return outcome.read.total_ios, 0, 0
    if "promotions" in target:
        return target["read_hits"], target["read_misses"], target["promotions"]
    hits, misses = (target[f"cache_{name}"] + target[f"cache_bypass_{name}"] for name in ("hits", "misses"))
    return hits, misses, 0
