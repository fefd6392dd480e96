"""Predict published runs of caches, with devices as fast as the runs of each device alone."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from accuracy.cache_tables import CACHES, CacheRun, CacheTables
from blklab.cluster import HERE, Parallel
from blklab.errors import UsageError
from blklab.outcome import Outcome
from blklab.runners.sim import runner as sim
from blklab.spec import cells, documents, load
from blklab.spec.cells import Cell

CacheClass = Literal["stuck", "bouncing", "fixed"]

HIT_RATE = 0.015  # Allowed error of the hit rate of repaired kernels, as a fraction of all I/Os
PROMOTIONS = 0.10  # Allowed relative error of their promotions
JUDGED_BYTES = 8 << 30  # Most data of a run whose hit rate is judged: what larger runs held at first is unknown
STUCK = 0.05  # A cache that promotes fewer of its misses is stuck
BOUNCING = 1.25  # One that promotes more often than this for each block of the data is bouncing

MOST_IOS = 3_000_000  # A run with more I/Os is simulated in part
LAST = 0.9  # The share of the simulated time after which its last rates are counted
KINDS = {"dm-cache-smq": "lvmcache", "bcache-sc4m": "bcache"}
STATES = {"empty": "layout", "full": "junk", "": "empty"}
METADATA = 8 << 20  # LVM's least metadata, and before it an extent
EXTENT = 4 << 20
CHUNK = 64 << 10
ORIGIN = 100 << 30


@dataclass(frozen=True)
class CacheFigures:
    """What a cache did in a run."""

    hit_rate: float
    promotions: float | None  # None if they are unknown
    blocks: int  # Blocks of the data
    ios: float

    @property
    def cache_class(self) -> CacheClass | None:
        """How the cache learns; None if that is unknown."""
        if self.promotions is None:
            return None
        if self.promotions < STUCK * self.ios * (1 - self.hit_rate):
            return "stuck"
        return "bouncing" if self.promotions > BOUNCING * self.blocks else "fixed"

    def as_dict(self) -> dict[str, object]:
        """Returns the figures for `--json`."""
        return {"hit_rate": self.hit_rate, "promotions": self.promotions, "class": self.cache_class}


@dataclass(frozen=True)
class CacheRow:
    """A published run and its prediction."""

    run: CacheRun
    published: CacheFigures
    predicted: CacheFigures
    simulated_s: float  # Of the run's time; rates of the last tenth stand for the rest

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
        if not self.same_class or not self.is_judged:
            return self.same_class
        known, ours = self.published.promotions, self.predicted.promotions
        # What the layout of the files left out of an empty cache is unknown.
        counted = self.run.state == "full" and known is not None and ours is not None
        close = not counted or abs((ours or 0) - (known or 0)) <= PROMOTIONS * (known or 0)
        return abs(self.predicted.hit_rate - self.published.hit_rate) <= HIT_RATE and close

    def as_dict(self) -> dict[str, object]:
        """Returns the row for `--json`."""
        return {
            "target": self.run.run,
            "test": f"{self.run.kernel}, {self.run.data_bytes >> 20} MiB",
            "published": self.published.as_dict(),
            "predicted": self.predicted.as_dict(),
            "simulated_s": self.simulated_s,
            "runtime_s": self.run.runtime_s,
            "holds": self.holds,
        }


def validate(tables: CacheTables, parallel: Parallel = HERE) -> list[CacheRow]:
    """Predicts all runs of caches that the simulator knows. Raises UsageError without a run of each device alone."""
    runs = [run for run in tables.runs if run.policy in KINDS]
    chosen = {run.run: _cell(tables, run) for run in runs}
    # Runs of several commits with the same rules are one simulation.
    distinct = {str(cell.document): cell for cell in chosen.values()}
    predicted = dict(zip(distinct, _predicted(list(distinct.values()), parallel), strict=True))
    rows = []
    for run in runs:
        figures, simulated_s = predicted[str(chosen[run.run].document)]
        counted = run.promotions if figures.promotions is not None else None
        published = CacheFigures(run.hit_rate, counted, -(-run.data_bytes // CHUNK), run.ios)
        rows.append(CacheRow(run, published, figures, simulated_s))
    return rows


def _cell(tables: CacheTables, run: CacheRun) -> Cell:
    kind, half = KINDS[run.policy], run.data_bytes // run.jobs
    state = tables.states.get(run.run) or STATES.get(run.state, run.state)
    stack = {"kind": kind, "cache": "ssd", "state": state}
    if kind == "lvmcache":
        stack |= {"origin": "hdd", "mode": "writeback", "chunk": str(CHUNK), "metadata": str(METADATA)}
    else:
        stack["backing"] = "hdd"
    origin = max(ORIGIN, run.data_bytes + run.cache_bytes)
    sizes = {"hdd": origin, "ssd": run.cache_bytes + (METADATA + EXTENT if kind == "lvmcache" else 0)}
    raw = {
        "devices": {name: _device(tables, run, name) | {"size": str(sizes[name])} for name in ("hdd", "ssd")},
        "stacks": {"cached": stack},
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
        "settings": {"kernel": tables.kernels.get(run.kernel) or _kernel(run.kernel), "runtime": run.runtime_s},
    }
    return cells.plan(load.ExperimentSource(tables.path / CACHES, raw)).cells[0]


def _kernel(release: str) -> str:
    """Returns a release without what changes nothing: its patch level, and commits except those after 4.12-rc1."""
    parts = re.match(r"(\d+\.\d+)[^-+]*((?:-rc1)?)(\+\w{8})?", release, re.A)
    generation, candidate, commit = parts.groups() if parts else (release, "", None)
    return generation + candidate + (commit if candidate and commit else "")


def _device(tables: CacheTables, run: CacheRun, name: str) -> dict[str, object]:
    """Returns a disk that is as fast as the run of the device alone of the kernel, or of the nearest one.

    A disk serves one I/O at a time: two in a mirror have half its rate each. An SSD serves all at once.
    """
    alone = [row for row in tables.runs if row.policy == f"none-{name}"]
    if not alone:
        raise UsageError(f"{tables.path}: {CACHES}: no row of policy 'none-{name}', which caches need")

    def closeness(row: CacheRun) -> tuple[bool, bool]:
        generations = [re.findall(r"\d+", text)[:2] for text in (row.kernel, run.kernel)]
        return (row.kernel == run.kernel, generations[0] == generations[1])

    nearest = max(alone, key=closeness)
    parallel = 2 if name == "hdd" else nearest.jobs * nearest.iodepth
    latency_ns = int(parallel * 1e9 / nearest.iops)
    rates = {"kind": "throttled", "iops_total": round(nearest.iops), "latency_ns": latency_ns}
    return {**rates, "rotational": name == "hdd"}


def _predicted(distinct: Sequence[Cell], parallel: Parallel) -> list[tuple[CacheFigures, float]]:
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
        rows.append((_extrapolated(cell, points), points[-1].runtime_ns / 1e9))
    return rows


def _enough_ns(cell: Cell, begun: Outcome) -> int:
    """Returns how much of a long run is simulated: half as long again as its beginning.

    A cache full of other data has then settled: its disk can read each block of the cache or the data three times,
    for smq's two misses and a copy, and a quarter more; and smq has balanced its levels twice, every 60 s.
    """
    document = cell.document
    ((_, cache),) = documents.built_nodes(document["stack"])
    (job,) = document["jobs"]
    hdd, ssd = document["devices"]
    blocks = min(job["size"] * job["numjobs"], ssd["bytes"]) / CHUNK
    settled_ns = max(130e9, 1.25e9 * 3 * blocks / hdd["model"]["iops_total"]) if cache["state"] == "junk" else 0
    return int(min(document["runtime_ns"], max(settled_ns, 1.5 * begun.runtime_ns)))


def _extrapolated(cell: Cell, points: Sequence[Outcome]) -> CacheFigures:
    """Returns the figures of a whole run from counts at one time, or at three: rates that fell go on falling."""
    document, times = cell.document, [point.runtime_ns / 1e9 for point in points]
    left = max(0.0, document["runtime_ns"] / 1e9 - times[-1])
    hits, misses, promotions = (
        counts[-1] + _further(times, counts, left) for counts in zip(*map(_counts, points), strict=True)
    )
    (job,) = document["jobs"]
    promoted = promotions if KINDS["dm-cache-smq"] in document["stack"] else None
    ios = hits + misses
    return CacheFigures(hits / ios, promoted, job["size"] * job["numjobs"] // CHUNK, ios)


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
    (target,) = outcome.targets
    if "promotions" in target:
        return target["read_hits"], target["read_misses"], target["promotions"]
    hits, misses = (target[f"cache_{name}"] + target[f"cache_bypass_{name}"] for name in ("hits", "misses"))
    return hits, misses, 0
