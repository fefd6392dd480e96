"""Two or more sets of runs beside each other, cell by cell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blklab.analysis.metrics import METRICS, Metric
from blklab.analysis.resampling import Difference, Sample, difference, holm
from blklab.errors import UsageError
from blklab.spec.problems import near
from blklab.store.query import Run
from blklab.store.series import JOBS, Point

REPEAT: Final = "repeat"
"""The label whose values are runs of the same cell."""

WAYS: Final = ("read", "write")

Key = tuple[str, ...]
Points = Callable[[int], Sequence[Point]]
"""What gives the series of a run, by its number in the store."""


@dataclass(frozen=True)
class Side:
    """One of the things that are compared."""

    name: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Value:
    """What one side measured of a cell."""

    mean: float
    runs: int
    least: float
    most: float


@dataclass(frozen=True)
class Row:
    """One cell: the values of every side, and how each differs from the first."""

    metric: str
    labels: Mapping[str, str]
    values: Sequence[Value | None]
    differences: Sequence[Difference | None]
    """Of the second side and those behind it, from the first."""

    verdicts: Sequence[str]
    """`better`, `worse`, `same` (no difference seen) or `unknown`, of the same sides."""


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison says."""

    sides: Sequence[str]
    by: Sequence[str]
    """The labels that tell the rows apart."""

    rows: Sequence[Row]
    notes: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison for `--json`."""
        return {
            "sides": list(self.sides),
            "by": list(self.by),
            "rows": [
                {
                    "metric": row.metric,
                    "labels": dict(row.labels),
                    "values": [value and vars(value) for value in row.values],
                    "differences": [one and vars(one) for one in row.differences],
                    "verdicts": list(row.verdicts),
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }


def sides(chosen: Sequence[tuple[str, Sequence[Run]]], between: str | None = None) -> list[Side]:
    """Returns what is to be compared: the selections, or the values of a label within them.

    A selection that varies a label which another does not have becomes several: nothing else would
    tell its runs apart. Raises UsageError if fewer than two are left.
    """
    found: list[Side] = []
    for name, runs in chosen:
        others = [set(_labels(rest)) for other, rest in chosen if other != name]
        split = [between] if between else _own(runs, others)
        if between and between not in _labels(runs):
            raise UsageError(f"{name}: has no label {between!r}; {near(between, _labels(runs))}")
        for values in dict.fromkeys(_key(run, split) for run in runs):
            said = " ".join(f"{label}={value}" for label, value in zip(split, values, strict=True))
            of = " ".join(filter(None, (name if len(chosen) > 1 or not between else "", said)))
            found.append(Side(of, [run for run in runs if _key(run, split) == values]))
    if len(found) < 2:
        raise UsageError("one thing cannot be compared: name another, or --between LABEL")
    return found


def _labels(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(label for run in runs for label in run.labels))


def _own(runs: Sequence[Run], others: Sequence[set[str]]) -> list[str]:
    return [
        label
        for label in _labels(runs)
        if label != REPEAT
        and any(label not in other for other in others)
        and len({run.labels.get(label) for run in runs}) > 1
    ]


def _key(run: Run, by: Sequence[str]) -> Key:
    return tuple(run.labels.get(label, "") for label in by)


def compare(
    found: Sequence[Side],
    metrics: Sequence[str],
    points: Points,
    *,
    by: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Compares sides cell by cell; the first is the baseline.

    Cells are told apart by the labels that all sides have, or by those that `by` names, the others
    being put together. Raises UsageError for figures and labels that do not exist.
    """
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"no figure is called {name!r}; {near(name, METRICS)}")
    usable = [Side(side.name, [run for run in side.runs if run.outcome]) for side in found]
    for side in usable:
        if not side.runs:
            raise UsageError(f"{side.name}: none of its runs is done")
    shared = _shared(usable)
    for label in by or ():
        if label not in shared:
            raise UsageError(f"--by: not all have a label {label!r}; {near(label, shared)}")
    labels = _telling(usable, shared) if by is None else list(by)
    keys = list(dict.fromkeys(_key(run, labels) for side in usable for run in side.runs))
    rows = [
        row
        for name in metrics
        for key in keys
        if (row := _row(usable, METRICS[name], labels, key, points, confidence)) is not None
    ]
    if not rows:
        raise UsageError(f"nothing can be compared: no run has {' or '.join(metrics)}")
    judged = _judged(rows, confidence)
    return Comparison([side.name for side in usable], labels, judged, _notes(usable, judged))


def _shared(found: Sequence[Side]) -> list[str]:
    every = [set(_labels(side.runs)) for side in found]
    return [label for label in _labels(found[0].runs) if all(label in one for one in every)]


def _telling(found: Sequence[Side], shared: Sequence[str]) -> list[str]:
    """Returns the labels that tell cells apart: those that have more than one value on a side."""
    return [
        label
        for label in shared
        if label != REPEAT
        and any(len({run.labels[label] for run in side.runs}) > 1 for side in found)
    ]


def _row(
    found: Sequence[Side],
    metric: Metric,
    labels: Sequence[str],
    key: Key,
    points: Points,
    confidence: float,
) -> Row | None:
    samples = [
        _samples([run for run in side.runs if _key(run, labels) == key], metric, points)
        for side in found
    ]
    values = [_value(side) for side in samples]
    if all(value is None for value in values):
        return None
    differences = [
        difference(samples[0], side, confidence) if samples[0] and side else None
        for side in samples[1:]
    ]
    return Row(metric.name, dict(zip(labels, key, strict=True)), values, differences, [])


def _value(samples: Sequence[Sample]) -> Value | None:
    values = [sample.value for sample in samples]
    if not values:
        return None
    return Value(sum(values) / len(values), len(values), min(values), max(values))


def _samples(runs: Sequence[Run], metric: Metric, points: Points) -> list[Sample]:
    found = []
    for run in runs:
        value = metric.of(run.outcome or {})
        if value is not None:
            found.append(Sample(value, over_time(metric.name, points(run.id))))
    return found


def over_time(metric: str, points: Sequence[Point]) -> list[float]:
    """Returns a figure in each interval of a run's jobs; nothing for one that has no such."""
    mine = [point for point in points if point.source == JOBS and point.width_ns > 0]
    if len(mine) > 1 and mine[-1].width_ns < mine[0].width_ns:
        mine.pop()  # the run ended in it
    way, _, figure = metric.rpartition("_")
    if way not in {"", *WAYS}:
        return []
    ways = [way] if way else list(WAYS)
    match figure:
        case "iops" | "bw":
            key = "ios" if figure == "iops" else "bytes"
            return [
                sum(getattr(point, f"{one}_{key}") for one in ways) * 1e9 / point.width_ns
                for point in mine
            ]
        case "mean":
            busiest = max(ways, key=lambda one: sum(getattr(p, f"{one}_ios") for p in mine))
            found = (getattr(point, f"{busiest}_clat_ns") for point in mine)
            return [latency for latency in found if latency is not None]
    return []


def _judged(rows: Sequence[Row], confidence: float) -> list[Row]:
    """Gives each row its verdicts; p is corrected for how many differences are looked at."""
    adjusted = iter(
        holm([None if one is None else one.p for row in rows for one in row.differences])
    )
    judged = []
    for row in rows:
        better = METRICS[row.metric].more_is_better
        verdicts = [verdict(one, next(adjusted), better, 1 - confidence) for one in row.differences]
        judged.append(Row(row.metric, row.labels, row.values, row.differences, verdicts))
    return judged


def verdict(one: Difference | None, p: float | None, more: bool, alpha: float) -> str:
    """Returns what a difference is, if `more` is better: see `Row.verdicts`."""
    if one is None or p is None or one.low is None or one.high is None:
        return "unknown"
    if p >= alpha or one.low <= 0 <= one.high:
        return "same"
    return "better" if (one.change > 0) == more else "worse"


def _notes(found: Sequence[Side], rows: Sequence[Row]) -> list[str]:
    notes = []
    single = any(value is not None and value.runs == 1 for row in rows for value in row.values)
    if single and any(one is not None for row in rows for one in row.differences):
        notes.append(
            "some cells were run once: their intervals tell how steady a run was, not how much the"
            " next one would differ (repeats)"
        )
    missing = sum(value is None for row in rows for value in row.values)
    if missing:
        notes.append(f"{missing} of the figures are missing on one side")
    runners = {run.runner for side in found for run in side.runs}
    if len(runners) > 1:
        notes.append(f"these are runs of {' and '.join(sorted(runners))}")
    return notes
