"""How long and how often to measure, to see a change: from the variation of stored runs.

The variance of a run's value is that between runs, which longer runs do not reduce, and that within a run, which falls
with its length (batch means: Law, Simulation Modeling and Analysis, 5th edition, section 9.5).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blklab.compare.decision import MOST_REPEATS, repeats_to_find
from blklab.compare.metrics import Metric
from blklab.compare.samples import Points, run_samples
from blklab.compare.variation import RunSample, Spread, series_variance, spreads
from blklab.grouping import by_key
from blklab.store.query import StoredRun

LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # Times the present length that are considered
SHORTEST = 5.0  # Seconds; a shorter run is mostly its beginning


@dataclass(frozen=True)
class RunPlan:
    """What a cell needs."""

    labels: Mapping[str, str]
    runs: int  # Stored
    seconds: float  # Of a run, on average
    variation: float | None  # The standard deviation between runs, as a share; None if it is unknown
    repeats: int | None
    """Runs of each side that find the change; None if the variation is unknown, more than `MOST_REPEATS` if those are
    not enough."""

    best: tuple[int, float] | None  # The runs and their seconds with which the measurement is shortest


def plan_runs(
    runs: Sequence[StoredRun], metric: Metric, points: Points, change: float, confidence: float
) -> list[RunPlan]:
    """Returns a plan for each cell of a campaign: to find a change, as a share, with a probability of 80 %."""
    cells = by_key((run.cell_labels, (run, sample)) for run, sample in run_samples(runs, metric, points))
    samples = []
    for cell in cells.values():
        samples.append([sample for _, sample in cell])
    spreads_of_cells = spreads(samples, [0] * len(samples), metric.resolution)
    plans = []
    for (labels, cell), spread in zip(cells.items(), spreads_of_cells, strict=True):
        seconds = sum(run.figures.runtime_ns for run, _ in cell) / len(cell) / 1e9
        plan = RunPlan(dict(labels), len(cell), seconds, None, None, None)
        if spread is not None:
            within = _within([sample for _, sample in cell])
            repeats = repeats_to_find(spread, change, confidence)
            best = _find_shortest(spread, within, seconds, change, confidence)
            plan = RunPlan(dict(labels), len(cell), seconds, math.sqrt(spread.variance), repeats, best)
        plans.append(plan)
    return plans


def _within(samples: Sequence[RunSample]) -> float:
    """Returns the relative variance of a run's value that its length explains; 0 if no run has a long enough series."""
    variances = []
    for sample in samples:
        if not sample.value:
            continue
        variance = series_variance(sample.series)
        if variance is not None:
            variances.append(variance[0] / sample.value**2)
    return sum(variances) / len(variances) if variances else 0.0


def _find_shortest(
    spread: Spread, within: float, seconds: float, change: float, confidence: float
) -> tuple[int, float] | None:
    options = []
    for length in LENGTHS:
        if seconds * length < min(seconds, SHORTEST):
            continue
        removed_variance = min(within, spread.variance) * (1 - 1 / length)
        variance = max(spread.variance / 100, spread.variance - removed_variance)
        other = Spread(spread.mean, spread.runs, variance, spread.degrees, spread.origin)
        repeats = repeats_to_find(other, change, confidence)
        if repeats <= MOST_REPEATS:
            options.append((repeats * seconds * length, repeats, seconds * length))
    return min(options)[1:] if options else None
