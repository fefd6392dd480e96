"""How much more load still brings more: throughput and latency by I/Os in flight, and the knee.

The knee is where throughput over latency is largest (Kleinrock, "Power and Deterministic Rules of
Thumb for Probabilistic Problems in Computer Communications", ICC 1979): before it, a waiting job is
idle hardware; behind it, mostly waiting. Saturated is what reaches 95 % of the most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blklab.analysis.metrics import METRICS
from blklab.outcome import Outcome
from blklab.spec.workload import SYNCHRONOUS

SATURATED: Final = 0.95
"""Share of the largest throughput that is as good as all of it."""

LOADS: Final = ("numjobs", "iodepth")
"""Labels that are the load, not what is loaded."""


@dataclass(frozen=True)
class LoadPoint:
    """What one load brought: the mean of its runs."""

    in_flight: int
    """I/Os that the jobs keep in flight: jobs × iodepth, or × 1 of a synchronous engine."""

    iops: float
    latency_ns: float
    """Mean of reads and writes together."""


@dataclass(frozen=True)
class SaturationCurve:
    """Loads from the smallest to the largest, all else being equal."""

    labels: Mapping[str, str]
    loads: Sequence[LoadPoint]

    @property
    def knee(self) -> LoadPoint:
        """The load that makes the most of throughput over latency."""
        return max(self.loads, key=lambda load: load.iops / load.latency_ns)

    @property
    def saturated(self) -> LoadPoint:
        """The smallest load with nearly the largest throughput."""
        most = max(load.iops for load in self.loads)
        return next(load for load in self.loads if load.iops >= SATURATED * most)

    @property
    def overloaded(self) -> LoadPoint | None:
        """The first load behind the largest throughput that brings clearly less of it."""
        most = max(self.loads, key=lambda load: load.iops)
        behind = [load for load in self.loads if load.in_flight > most.in_flight]
        return next((load for load in behind if load.iops < SATURATED * most.iops), None)

    def as_dict(self) -> dict[str, Any]:
        """Returns the curve for `--json`."""
        return {
            "labels": dict(self.labels),
            "loads": [vars(load) for load in self.loads],
            "knee": self.knee.in_flight,
            "saturated": self.saturated.in_flight,
            "overloaded": self.overloaded and self.overloaded.in_flight,
        }


Measured = tuple[Mapping[str, str], Mapping[str, Any], Outcome]
"""Labels, the cell's document and the outcome of a run."""


def curves(runs: Sequence[Measured]) -> list[SaturationCurve]:
    """Returns a curve for each set of runs that differ in nothing but the load.

    None of fewer than three loads: two have no knee.
    """
    varied = {label for labels, _, _ in runs for label in labels if label not in {*LOADS, "repeat"}}
    loads_by_group: dict[tuple[tuple[str, str], ...], dict[int, list[LoadPoint]]] = {}
    for labels, document, outcome in runs:
        other_labels = tuple((label, labels[label]) for label in labels if label in varied)
        load = _load(in_flight(document), outcome)
        if load is not None:
            loads_by_group.setdefault(other_labels, {}).setdefault(load.in_flight, []).append(load)
    tell = {
        label
        for label in varied
        if len(
            {
                value
                for other_labels in loads_by_group
                for name, value in other_labels
                if name == label
            }
        )
        > 1
    }
    return [
        SaturationCurve(
            {label: value for label, value in other_labels if label in tell},
            [_mean(loads[depth]) for depth in sorted(loads)],
        )
        for other_labels, loads in loads_by_group.items()
        if len(loads) > 2
    ]


def in_flight(document: Mapping[str, Any]) -> int:
    """Returns how many I/Os a cell's jobs keep in flight, 0 without jobs."""
    total = 0
    for job in document.get("jobs") or []:
        words = job.get("options", job)
        synchronous = words.get("ioengine") in SYNCHRONOUS
        depth = 1 if synchronous else int(words.get("iodepth", 1))
        total += int(words.get("numjobs", 1)) * depth
    return total


def _load(depth: int, outcome: Outcome) -> LoadPoint | None:
    iops = METRICS["iops"].of(outcome)
    weighed = [
        (direction["total_ios"], mean)
        for direction in (outcome["read"], outcome["write"])
        if (mean := (direction.get("clat_ns") or {}).get("mean")) and direction["total_ios"]
    ]
    if not iops or not depth or not weighed:
        return None
    latency = sum(ios * mean for ios, mean in weighed) / sum(ios for ios, _ in weighed)
    return LoadPoint(depth, iops, latency)


def _mean(loads: Sequence[LoadPoint]) -> LoadPoint:
    iops = sum(load.iops for load in loads) / len(loads)
    latency = sum(load.latency_ns for load in loads) / len(loads)
    return LoadPoint(loads[0].in_flight, iops, latency)
