"""Saturation: bandwidth and latency by I/Os in flight, and the knee.

The knee is where bandwidth over latency is largest (Kleinrock, "Power and Deterministic Rules of
Thumb for Probabilistic Problems in Computer Communications", ICC 1979). Below it, hardware is
idle; above it, I/Os mostly wait. A load is saturated at 95 % of the largest bandwidth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from blklab.compare.metrics import METRICS
from blklab.experiment.workload import SYNCHRONOUS
from blklab.outcome import Outcome

SATURATED = 0.95  # Share of the largest bandwidth that counts as saturated
LOADS = ("numjobs", "iodepth")  # Labels that set the load


@dataclass(frozen=True)
class LoadPoint:
    """The mean of the runs with one load."""

    in_flight: int  # I/Os in flight: jobs × iodepth; jobs × 1 for a synchronous engine
    iops: float
    latency_ns: float  # Mean latency of reads and writes together


@dataclass(frozen=True)
class SaturationCurve:
    """Loads in ascending order; everything else is equal."""

    labels: Mapping[str, str]
    loads: Sequence[LoadPoint]

    @cached_property
    def knee(self) -> LoadPoint:
        """The load with the largest ratio of bandwidth to latency."""
        return max(self.loads, key=lambda load: load.iops / load.latency_ns)

    @property
    def saturated(self) -> LoadPoint:
        """The smallest load with nearly the largest bandwidth."""
        max_iops = max(load.iops for load in self.loads)
        return next(load for load in self.loads if load.iops >= SATURATED * max_iops)

    @property
    def overloaded(self) -> LoadPoint | None:
        """The first load above the maximum with clearly less bandwidth."""
        peak = max(self.loads, key=lambda load: load.iops)
        behind = [load for load in self.loads if load.in_flight > peak.in_flight]
        return next((load for load in behind if load.iops < SATURATED * peak.iops), None)


Measured = tuple[Mapping[str, str], Mapping[str, Any], Outcome]
"""Labels, the document of the cell and the outcome of a run."""


def curves(runs: Sequence[Measured]) -> list[SaturationCurve]:
    """Returns a curve for each set of runs that differ only in the load.

    Sets with fewer than three loads have no knee and are ignored, and those with a prediction that is not known.
    """
    group_labels = {label for labels, _, _ in runs for label in labels if label not in {*LOADS, "repeat"}}
    loads_by_group: dict[tuple[tuple[str, str], ...], dict[int, list[LoadPoint]]] = {}
    unknown_groups = set()
    for labels, document, outcome in runs:
        other_labels = tuple((label, labels[label]) for label in labels if label in group_labels)
        if not outcome.is_known:
            unknown_groups.add(other_labels)
        load = _load(in_flight(document), outcome)
        if load is not None:
            loads_by_group.setdefault(other_labels, {}).setdefault(load.in_flight, []).append(load)
    values_by_label: dict[str, set[str]] = {}
    for other_labels in loads_by_group:
        for label, value in other_labels:
            values_by_label.setdefault(label, set()).add(value)
    found_curves = []
    for other_labels, loads in loads_by_group.items():
        if len(loads) > 2 and other_labels not in unknown_groups:
            shown_labels = {label: value for label, value in other_labels if len(values_by_label[label]) > 1}
            points = [_mean(loads[depth]) for depth in sorted(loads)]
            found_curves.append(SaturationCurve(shown_labels, points))
    return found_curves


def in_flight(document: Mapping[str, Any]) -> int:
    """Returns the number of I/Os that the jobs of a cell keep in flight; 0 without jobs."""
    total = 0
    for job in document.get("jobs") or []:
        options = job.get("options", job)
        synchronous = options.get("ioengine") in SYNCHRONOUS
        depth = 1 if synchronous else int(options.get("iodepth", 1))
        total += int(options.get("numjobs", 1)) * depth
    return total


def _load(depth: int, outcome: Outcome) -> LoadPoint | None:
    iops = METRICS["iops"].compute(outcome)
    ios_and_means = []
    for direction in (outcome.read, outcome.write):
        mean = direction.clat_ns.mean
        if mean and direction.total_ios:
            ios_and_means.append((direction.total_ios, mean))
    if not iops or not depth or not ios_and_means:
        return None
    latency = sum(ios * mean for ios, mean in ios_and_means) / sum(ios for ios, _ in ios_and_means)
    return LoadPoint(depth, iops, latency)


def _mean(loads: Sequence[LoadPoint]) -> LoadPoint:
    iops = sum(load.iops for load in loads) / len(loads)
    return LoadPoint(loads[0].in_flight, iops, sum(load.latency_ns for load in loads) / len(loads))
