"""Compare two or more sets of runs, cell by cell."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from blklab.analysis.comparison import CellValue, Comparison, ComparisonRow, ComparisonSide
from blklab.analysis.comparison_notes import comparison_notes
from blklab.analysis.metrics import METRICS, Metric
from blklab.analysis.resampling import Difference, RunSample, compare_samples, holm, interval
from blklab.analysis.samples import Points, remembered, run_samples
from blklab.errors import UsageError
from blklab.spec.problems import near
from blklab.store.query import StoredRun

REPEAT: Final = "repeat"
"""The label that numbers the runs of a cell."""

Key = tuple[str, ...]


def comparison_sides(
    chosen: Sequence[tuple[str, Sequence[StoredRun]]], between: str | None = None
) -> list[ComparisonSide]:
    """Returns the sides of a comparison: the selections, or the values of the label `between`.

    If a selection varies a label that another one does not have, each value becomes a side. Raises
    UsageError for fewer than two sides.
    """
    compared: list[ComparisonSide] = []
    for name, runs in chosen:
        others = [set(_labels(rest)) for other, rest in chosen if other != name]
        split = [between] if between else _own(runs, others)
        if between and between not in _labels(runs):
            raise UsageError(f"{name}: no label {between!r}; {near(between, _labels(runs))}")
        for values in dict.fromkeys(_key(run, split) for run in runs):
            description = " ".join(
                f"{label}={value}" for label, value in zip(split, values, strict=True)
            )
            of = " ".join(
                filter(None, (name if len(chosen) > 1 or not between else "", description))
            )
            compared.append(ComparisonSide(of, [run for run in runs if _key(run, split) == values]))
    if len(compared) < 2:
        raise UsageError(
            "a comparison needs two sides: name another campaign, or use --between LABEL"
        )
    return compared


def _labels(runs: Sequence[StoredRun]) -> list[str]:
    return list(dict.fromkeys(label for run in runs for label in run.labels))


def _own(runs: Sequence[StoredRun], others: Sequence[set[str]]) -> list[str]:
    return [
        label
        for label in _labels(runs)
        if label != REPEAT
        and any(label not in other for other in others)
        and len({run.labels.get(label) for run in runs}) > 1
    ]


def _key(run: StoredRun, by: Sequence[str]) -> Key:
    return tuple(run.labels.get(label, "") for label in by)


def compare(
    compared: Sequence[ComparisonSide],
    metrics: Sequence[str],
    points: Points,
    *,
    by: Sequence[str] | None = None,
    chosen: Collection[str] = (),
    confidence: float = 0.95,
) -> Comparison:
    """Compares sides cell by cell; the first side is the baseline.

    Cells are identified by the labels that all sides have, or by the labels in `by`; runs that
    differ only in other labels are merged. The sides may differ in the `chosen` labels, which
    selected them. Raises UsageError for metrics and labels that do not exist.
    """
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"no metric {name!r}; {near(name, METRICS)}")
    usable = [
        ComparisonSide(side.name, [run for run in side.runs if run.outcome]) for side in compared
    ]
    for side in usable:
        if not side.runs:
            raise UsageError(f"{side.name}: no run is done")
    shared = _shared(usable)
    for label in by or ():
        if label not in shared:
            raise UsageError(f"--by: not all sides have a label {label!r}; {near(label, shared)}")
    labels = _telling(usable, shared, chosen) if by is None else list(by)
    keys = list(dict.fromkeys(_key(run, labels) for side in usable for run in side.runs))
    within = [label for label in _telling(usable, shared, shared) if label not in labels]
    points = remembered(points)
    rows = [
        row
        for name in metrics
        for key in keys
        if (row := _row(usable, METRICS[name], (labels, within), key, points, confidence))
        is not None
    ]
    if not rows:
        raise UsageError(f"nothing to compare: no run has {' or '.join(metrics)}")
    judged = _judged(rows, confidence)
    pairs = [[_cell(side, labels, key) for side in usable] for key in keys]
    noted = list(comparison_notes(usable, judged, pairs, chosen))
    return Comparison([side.name for side in usable], labels, judged, noted)


def _cell(side: ComparisonSide, labels: Sequence[str], key: Key) -> list[StoredRun]:
    return [run for run in side.runs if _key(run, labels) == key]


def _shared(compared: Sequence[ComparisonSide]) -> list[str]:
    every = [set(_labels(side.runs)) for side in compared]
    return [
        label for label in _labels(compared[0].runs) if all(label in labels for labels in every)
    ]


def _telling(
    compared: Sequence[ComparisonSide], shared: Sequence[str], chosen: Collection[str]
) -> list[str]:
    """Returns the labels that identify cells: those with several values on a side, or different
    values on two sides, unless the sides were selected by them.
    """
    values = {
        label: [{run.labels.get(label) for run in side.runs} for side in compared]
        for label in shared
    }
    return [
        label
        for label, on in values.items()
        if label != REPEAT
        and (
            any(len(values_of_side) > 1 for values_of_side in on)
            or (label not in chosen and on[0] != set.union(*on))
        )
    ]


def _row(
    compared: Sequence[ComparisonSide],
    metric: Metric,
    by: tuple[Sequence[str], Sequence[str]],
    key: Key,
    points: Points,
    confidence: float,
) -> ComparisonRow | None:
    labels, within = by
    measured = [run_samples(_cell(side, labels, key), metric, points) for side in compared]
    sampled = [[sample for _, sample in side] for side in measured]
    values = [_value(side, confidence) for side in sampled]
    if all(value is None for value in values):
        return None
    differences = [
        compare_samples(sampled[0], side, confidence) if sampled[0] and side else None
        for side in sampled[1:]
    ]
    cells = [dict.fromkeys(_key(run, within) for run, _ in side) for side in measured]
    lacks = [
        [
            " ".join(f"{label}={value}" for label, value in zip(within, cell, strict=True))
            for cell in cells[0]
            if side and cell not in side
        ]
        for side in cells[1:]
    ]
    return ComparisonRow(
        metric.name, dict(zip(labels, key, strict=True)), values, differences, [], lacks
    )


def _value(points: Sequence[RunSample], confidence: float) -> CellValue | None:
    values = [sample.value for sample in points]
    if not values:
        return None
    low, high = None, None
    if len(values) == 2:
        low, high = min(values), max(values)
    elif len(values) > 2:
        low, high = interval(points, confidence) or (None, None)
    return CellValue(sum(values) / len(values), len(values), min(values), max(values), low, high)


def _judged(rows: Sequence[ComparisonRow], confidence: float) -> list[ComparisonRow]:
    """Gives each row its verdicts; p is corrected for the number of differences."""
    adjusted = iter(
        holm(
            [
                None if difference is None else difference.p
                for row in rows
                for difference in row.differences
            ]
        )
    )
    judged = []
    for row in rows:
        better = METRICS[row.metric].more_is_better
        verdicts = [
            verdict(change, next(adjusted), better, 1 - confidence) for change in row.differences
        ]
        judged.append(replace(row, verdicts=verdicts))
    return judged


def verdict(difference: Difference | None, p: float | None, more: bool, alpha: float) -> str:
    """Returns the verdict on a difference: see `ComparisonRow`. `more`: more is better."""
    if difference is None or p is None or difference.low is None or difference.high is None:
        return "unknown"
    if p >= alpha or difference.low <= 0 <= difference.high:
        return "same"
    if difference.once:
        return "differ"
    return "better" if (difference.change > 0) == more else "worse"
