"""Conditions that weaken a set of runs: forced checks, warnings, and a drift over time."""

import math
import re
from collections.abc import Iterator, Sequence

from blklab.compare.metrics import METRICS
from blklab.diagnostic import Diagnostic
from blklab.grouping import by_key
from blklab.runners.registry import predicts
from blklab.store.query import StoredRun

SURE = 0.01  # Largest p of a reported drift
LEAST_DRIFT = 0.02  # Smallest reported drift, from the first to the last run
MAX_WARNINGS = 3  # Kinds of warnings that are quoted


def condition_notes(name: str, runs: Sequence[StoredRun]) -> Iterator[Diagnostic]:
    """Yields the notes about the runs of one campaign or side, called `name`."""
    outcomes = [run.outcome for run in runs if run.outcome]
    forced_checks = [outcome.forced for outcome in outcomes if outcome.forced]
    if forced_checks:
        names = sorted({str(check) for checks in forced_checks for check in checks})
        were = "were" if len(forced_checks) != 1 else "was"
        yield note("forced", f"{_count(len(forced_checks))} of {name} {were} forced: {', '.join(names)}")
    warnings = [warning for outcome in outcomes for warning in outcome.warnings]
    kinds = by_key((re.sub(r"\d+(?:[.,]\d+)*", "0", warning), warning) for warning in warnings)
    for similar_warnings in list(kinds.values())[:MAX_WARNINGS]:
        like = " or like it" if len(set(similar_warnings)) > 1 else ""
        yield note(
            "warning", f"{_count(len(similar_warnings))} of {name} with this warning{like}: {similar_warnings[0]}"
        )
    if len(kinds) > MAX_WARNINGS:
        yield note("warning", f"{name} has more warnings: blklab runs show")


def drift_notes(
    name: str, runs: Sequence[StoredRun], metrics: Sequence[str], *, is_order_random: bool = False
) -> Iterator[Diagnostic]:
    """Yields the metrics of a campaign that rose or fell in the order of measurement."""
    consequence = 'order = "random" keeps this out of the differences between cells'
    if is_order_random:
        consequence = "the order was random, so this is not a difference between cells"
    for metric in metrics:
        drift = find_drift(runs, metric, SURE / max(1, len(metrics)))
        if drift is not None:
            verb = "rose" if drift > 0 else "fell"
            yield note(
                "drift",
                (
                    f"{metric} of {name} {verb} by {100 * abs(drift):.0f} % from the first run to the last, "
                    f"everything else being equal: the load, the machine or the disks changed meanwhile; {consequence}"
                ),
            )


def find_drift(runs: Sequence[StoredRun], metric: str, alpha: float = SURE) -> float | None:
    """Returns the relative change of a metric from the first run to the last; None if it may be 0.

    A straight line is fitted to the logarithms of all cells with repeats, each cell with its own
    mean, over the order of measurement. Its slope must differ from 0 (Student's t). Runs whose time is unknown do not
    count, and the change is that over the runs of such cells only.
    """
    from scipy.special import stdtr

    began = {run.id: run.began for run in runs if not predicts(run.runner)}
    order = {time: place for place, time in enumerate(sorted({*filter(None, began.values())}))}
    samples = []
    for run in runs:
        time = began.get(run.id)
        value = METRICS[metric].compute(run.figures) or 0
        if time and value > 0:
            samples.append((run.cell_labels, (order[time], math.log(value))))
    repeated_cells = []
    for cell in by_key(samples).values():
        places_of_cell = {place for place, _ in cell}
        if len(places_of_cell) > 1:
            repeated_cells.append(cell)
    places = [place for cell in repeated_cells for place, _ in cell]
    points = [point for cell in repeated_cells for point in _centre_cell(cell)]
    degrees = len(points) - len(repeated_cells) - 1
    spread = sum(place**2 for place, _ in points)
    if degrees < 3 or not spread:
        return None
    slope = sum(place * value for place, value in points) / spread
    residual_variance = sum((value - slope * place) ** 2 for place, value in points) / degrees
    error = math.sqrt(residual_variance / spread)
    drift = math.expm1(slope * (max(places) - min(places)))
    p = 2 * float(stdtr(degrees, -abs(slope) / error)) if error else 0.0
    return drift if p < alpha and abs(drift) >= LEAST_DRIFT else None


def _centre_cell(cell: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Returns the places and values of a cell, each less its mean."""
    place, value = (sum(column) / len(cell) for column in zip(*cell, strict=True))
    return [(position - place, log - value) for position, log in cell]


def note(code: str, message: str) -> Diagnostic:
    """Returns a note about runs in general."""
    return Diagnostic(code, "note", "", message)


def _count(runs: int) -> str:
    noun = "run" if runs == 1 else "runs"
    return f"{runs:,} {noun}"
