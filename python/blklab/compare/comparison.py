"""Compare two or more sets of runs, cell by cell, and name what distinguishes them."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from statistics import fmean, geometric_mean
from typing import Any

from blklab import units
from blklab.compare.decision import (
    FIRST_LOOK,
    MARGIN,
    Decision,
    MetricQuestion,
    Rule,
    decide_family,
    history_share,
    intervals,
)
from blklab.compare.metrics import LATENCIES, METRICS, Metric, directions, metric_name, rate_scale, with_directions
from blklab.compare.run_conditions import condition_notes, drift_notes, note
from blklab.compare.samples import Points, run_samples
from blklab.compare.variation import RunSample, between_campaigns, mean, two_groups
from blklab.diagnostic import Diagnostic
from blklab.errors import UsageError
from blklab.experiment.workload import Job
from blklab.grouping import by_key
from blklab.outcome import target_devices
from blklab.store.query import Selection, StoredRun
from blklab.text.name_differences import differing
from blklab.text.printing import printable
from blklab.toml_files.problems import near


@dataclass(frozen=True)
class ComparisonSide:
    """A set of runs that is compared with others."""

    name: str
    runs: Sequence[StoredRun]


@dataclass(frozen=True)
class CellValue:
    """The value of a row on one side; if it merges cells, their geometric mean."""

    mean: float
    runs: int
    least: float
    most: float
    low: float | None
    high: float | None
    """The confidence interval of the mean, which holds together with those of all cells; None if
    the variation is unknown."""

    groups: tuple[Sequence[float], Sequence[float]] | None = None
    """The values of the runs of one cell, if they are in two groups that are far apart, the lower one first."""

    known: bool = True  # Whether the value is known: not if it is predicted with an interval that is too wide


@dataclass(frozen=True)
class ComparisonRow:
    """One cell: its values on all sides, and their differences from the first."""

    metric: str
    labels: Mapping[str, str]
    values: Sequence[CellValue | None]
    differences: Sequence[Decision | None]
    """The decision about each side except the first; None without values on both sides."""

    lacks: Sequence[Sequence[str]] = ()
    """For each side but the first: the cells of the baseline that are missing in the merged row."""

    requested_names: Sequence[str] = ()  # The names by which the metric was requested: `p99` for `read.p99`
    cell_count: int = 1  # The number of cells on each side, whose changes are averaged

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each side except the first."""
        return [decision.verdict if decision else "unknown" for decision in self.differences]

    def as_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "labels": dict(self.labels),
            "values": [value and vars(value) for value in self.values],
            "differences": [difference and vars(difference) for difference in self.differences],
            "verdicts": self.verdicts,
        }


@dataclass(frozen=True)
class Comparison:
    sides: Sequence[str]
    by: Sequence[str]  # The labels that identify a row
    rows: Sequence[ComparisonRow]
    notes: Sequence[Diagnostic]
    predicted: Sequence[bool]  # Whether all runs of a side are simulated
    confidence: float = 0.95
    margin: float = 0.05
    days_doubt: str = ""  # What sides of different days cannot show, in a sentence; empty if the intervals include it

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison for `--json`."""
        return {**vars(self), "rows": [row.as_dict() for row in self.rows], "notes": [str(note) for note in self.notes]}


REPEAT = "repeat"  # The label that numbers the runs of a cell
Key = tuple[str, ...]
Merged = Sequence[Sequence[RunSample]]  # The cells that a row merges on one side


Pair = Sequence[Sequence[StoredRun]]  # The runs of one cell, for each side
TIMES: Mapping[str, str] = {"runtime_ns": "runtime", "ramp_ns": "ramp", "max_ios": "max_ios"}

PLACE_OPTIONS = ("name", "filename", "directory", "size", "io_bytes", "offset_increment")
"""Options of a job that depend on where it runs."""


def comparison_notes(
    sides: Sequence[ComparisonSide], rows: Sequence[ComparisonRow], pairs: Sequence[Pair], side_labels: Collection[str]
) -> Iterator[Diagnostic]:
    """Yields the notes about the sides, their rows and the pairs of cells."""
    values = [value for row in rows for value in row.values]
    differences = [difference for row in rows for difference in row.differences]
    has_single = any(value is not None and value.runs == 1 for value in values)
    has_repeats = any(value is not None and value.runs > 1 for value in values)
    is_measured = any(difference and not difference.of_model for difference in differences)
    has_no_pair = all(difference is None for difference in differences)
    if has_single and is_measured:
        assumption = (
            "they are assumed to vary as the others" if has_repeats else "the variation between runs is unknown"
        )
        yield note("run-once", f"some cells have one run: {assumption}; use repeats = 2 or more")
    yield from _direction_notes(rows, pairs)
    missing = sum(value is None for value in values)
    if has_no_pair:
        label_names = ", ".join(rows[0].labels) or "nothing"
        yield note(
            "nothing-shared",
            (
                f"no cell exists on more than one side; the cells differ in {label_names}: use --by, "
                "or select a label behind the colon of a campaign"
            ),
        )
    elif missing:
        yield note("figures-missing", f"{missing} values are missing on one side")
    lacking = sum(len(cells) for row in rows for cells in row.lacks)
    if lacking:
        yield note("cells-missing", f"in merged rows, {lacking} cells of the first side are missing on another side")
    max_cells = max(row.cell_count for row in rows)
    if max_cells > 1:
        yield note(
            "cells-merged", f"rows merge up to {max_cells} cells: values and changes are geometric means of cells"
        )
    runners = {run.runner for side in sides for run in side.runs}
    if len(runners) > 1:
        yield note("several-runners", f"the runs come from different runners: {' and '.join(sorted(runners))}")
    else:
        yield from _difference_notes(pairs, side_labels)
    yield from _scale_notes(sides)
    metrics = list(dict.fromkeys(row.metric for row in rows))
    yield from _outlier_notes([side.name for side in sides], rows)
    for side in sides:
        yield from condition_notes(side.name, side.runs)
        yield from drift_notes(side.name, side.runs, metrics)


def _direction_notes(rows: Sequence[ComparisonRow], pairs: Sequence[Pair]) -> Iterator[Diagnostic]:
    """Yields a note about cells that only read on one side and only write on the other."""
    if not any(name in LATENCIES for row in rows for name in row.requested_names):
        return
    count = 0
    for pair in pairs:
        sides = [directions(run.figures for run in side) for side in pair]
        if all(sides) and not set.intersection(*sides):
            count += 1
    if count:
        cells = "cell" if count == 1 else "cells"
        yield note(
            "other-direction",
            f"one side only reads and the other only writes: latencies are not comparable in {count} {cells}",
        )


def _outlier_notes(sides: Sequence[str], rows: Sequence[ComparisonRow]) -> Iterator[Diagnostic]:
    """Yields the cells whose runs are in two groups, and those with a run that is so far away that ranks decide."""
    for row in rows:
        of_row = " ".join(f"{label}={value}" for label, value in row.labels.items())
        for side, value in zip(sides, row.values, strict=True):
            if value is not None and value.groups:
                place = " ".join(filter(None, (side, of_row)))
                yield note("two-groups", f"{place}: {row.metric}: {_describe_groups(*value.groups)}")
        for decision in filter(None, row.differences):
            if decision.far:
                values = " and ".join(METRICS[row.metric].with_unit(value) for value in decision.far)
                place = f"{of_row}: {row.metric}" if of_row else row.metric
                yield note(
                    "run-far-away",
                    f"{place}: {values} is far away from the other runs of its side: "
                    "the ranks of the runs decide, and the change is the median one; look at that run",
                )


def _describe_groups(low: Sequence[float], high: Sequence[float]) -> str:
    """Returns `1 of 3 runs is 60 % lower than the others`; of two equal groups, `two modes: 2 of 4 runs are …`."""
    less = len(low) <= len(high)
    minority, majority = (low, high) if less else (high, low)
    ratio = math.exp(fmean(map(math.log, minority)) - fmean(map(math.log, majority)))
    far = f"{100 * abs(ratio - 1):.0f} % higher than"
    if ratio >= 2:
        far = f"{ratio:.1f} times as high as"
    elif less:
        far = f"{100 * abs(ratio - 1):.0f} % lower than"
    modes = "two modes: " if len(minority) > 1 else ""
    are = "is" if len(minority) == 1 else "are"
    return f"{modes}{len(minority)} of {len(low) + len(high)} runs {are} {far} the others"


def _between(earlier: Sequence[Sequence[StoredRun]], metric: Metric) -> tuple[float, float] | None:
    """Returns how much campaigns vary; None if it is unknown."""
    campaigns = []
    for runs in earlier:
        campaigns.append(by_key((run.cell_labels, metric.compute(run.figures)) for run in runs))
    cells = []
    for labels in campaigns[0] if campaigns else ():
        values = [campaign.get(labels, [None]) for campaign in campaigns]
        if all(map(all, values)):  # All runs have the metric
            cells.append([list(filter(None, values_of_campaign)) for values_of_campaign in values])
    return between_campaigns(cells)


def _are_apart(sides: Sequence[ComparisonSide]) -> bool:
    """Returns whether the first side was measured in another campaign than a second one."""
    first, *other_campaigns = (_campaign_numbers(side) for side in sides)
    return any(first and other and not first & other for other in other_campaigns)


def _are_measured_apart(sides: Sequence[ComparisonSide]) -> bool:
    """Returns whether all imported runs of the first side were measured before, or after, all of another one."""
    spans = []
    for side in sides:
        times = sorted(time for time in map(_measured_at, side.runs) if time is not None)
        if len(times) < len(side.runs):
            return False
        spans.append((times[0], times[-1]))
    first, *other_spans = spans
    return any(first[1] < other[0] or other[1] < first[0] for other in other_spans)


def _measured_apart_note(sides: Sequence[ComparisonSide]) -> Diagnostic:
    return note(
        "measured-apart",
        f"all runs of {sides[0].name} were measured before or after those of another side: what else changed on the "
        "machine between them is not in the intervals; measure in turns to exclude it",
    )


def _describe_days(sides: Sequence[ComparisonSide]) -> str:
    """Returns what a comparison of different days cannot separate; empty for sides with a day in common."""
    days_of_sides = []
    for side in sides:
        days = sorted({run.began[:10] for run in side.runs})
        if not days or not days[0]:
            return ""
        days_of_sides.append(days)
    base, *others = days_of_sides
    for side, days in zip(sides[1:], others, strict=True):
        if set(base).isdisjoint(days):
            return (
                f"{printable(sides[0].name)} was measured on {_describe_range(base)}, {printable(side.name)} on "
                f"{_describe_range(days)}: what else changed on the machine cannot be separated from the difference."
            )
    return ""


def _describe_range(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _campaign_numbers(side: ComparisonSide) -> set[int]:
    return {run.campaign for run in side.runs if run.figures.simulated_ios is None}


def _two_campaigns_note(variation: tuple[float, float] | None, count: int, metric: str) -> Diagnostic:
    """Returns the note about sides that were measured at different times; `count` campaigns show how much they vary."""
    text = (
        "the sides were measured at different times: what changed on the machine between them is not in the intervals; "
        "`blklab run A.toml B.toml --interleave` measures both in turns"
    )
    if variation:
        share = f"{100 * math.expm1(math.sqrt(variation[0])):.1f} % (standard deviation)"
        text = f"{count} campaigns of these cells differ in {metric} by {share}: the intervals include it"
    return note("two-campaigns", text)


def _scale_notes(sides: Sequence[ComparisonSide]) -> Iterator[Diagnostic]:
    """Yields the sides whose device rates are scaled."""
    for side in sides:
        factors = {rate_scale(run.outcome) for run in side.runs if run.outcome} - {1.0}
        if factors:
            factors_text = ", ".join(f"{factor:g}" for factor in sorted(factors))
            yield note(
                "scaled-rates",
                (
                    f"rates of {side.name} are divided by {factors_text} so that the lab can reach them: "
                    "compare shares and orders, not absolute rates and latencies"
                ),
            )


def _difference_notes(pairs: Sequence[Pair], side_labels: Collection[str]) -> Iterator[Diagnostic]:
    """Yields the options in which compared cells differ."""
    differing: dict[str, tuple[str, str]] = {}
    for base, *other_sides in pairs:
        for other in other_sides:
            for first, two in zip(base[:1], other[:1], strict=False):
                options_of_sides = _select_options(first.cell, side_labels), _select_options(two.cell, side_labels)
                for key in dict.fromkeys([*options_of_sides[0], *options_of_sides[1]]):
                    values = tuple(side.get(key, "nothing") for side in options_of_sides)
                    if values[0] != values[1]:
                        differing.setdefault(key, (values[0], values[1]))
    for key, (mine, theirs) in differing.items():
        yield note("unlike-cells", f"the cells differ in {key}: {mine} and {theirs}")


def _select_options(cell: Mapping[str, Any], side_labels: Collection[str]) -> dict[str, str]:
    """Returns the requested options of a cell, without those that follow from `side_labels`."""
    requested_options = {word: _option_text(key, cell[key]) for key, word in TIMES.items() if cell.get(key)}
    if "workload" not in side_labels:
        for index, job in enumerate(cell.get("jobs") or []):
            options = job.get("options", job)
            prefix = f"{job.get('name', index)}." if len(cell["jobs"]) > 1 else ""
            for key, value in options.items():
                if key not in {*PLACE_OPTIONS, *side_labels}:
                    requested_options[f"{prefix}{key}"] = _option_text(key, value)
    return requested_options


def _option_text(key: str, value: Any) -> str:
    if key.endswith("_ns") and isinstance(value, int | float):
        return units.format_duration(value)
    return str(value)


def comparison_sides(
    selections: Sequence[tuple[str, Sequence[StoredRun]]], between: str | None = None
) -> list[ComparisonSide]:
    """Returns the sides of a comparison: the selections, or the values of the label `between`.

    If a selection varies a label that another one does not have, each value becomes a side. Without `between`, the
    sides of a single selection are the values of the label that says where or on what it was measured, if there is one.
    Raises UsageError for fewer than two sides.
    """
    if between is None and len(selections) == 1:
        between = find_side_label(selections[0][1])
        if between is not None:
            name, runs = selections[0]
            selections = [(name, [run for run in runs if run.outcome])]
    sides: list[ComparisonSide] = []
    for name, runs in selections:
        other_labels = [set(_labels(other_runs)) for other, other_runs in selections if other != name]
        split = [between] if between else _distinct_labels(runs, other_labels)
        if between and between not in _labels(runs):
            raise UsageError(f"{name}: no label {between!r}; {near(between, _labels(runs))}")
        for values in dict.fromkeys(_key(run, split) for run in _sort_by_time(runs)):
            description = " ".join(_describe_label(label, value) for label, value in zip(split, values, strict=True))
            side_name = " ".join(filter(None, (name if len(selections) > 1 or not between else "", description)))
            sides.append(ComparisonSide(side_name, [run for run in runs if _key(run, split) == values]))
    if len(sides) < 2:
        raise UsageError("a comparison needs two sides: name another campaign, or use --between LABEL")
    return sides


def _describe_label(label: str, value: str) -> str:
    """Returns a label with its value; the part of a file name that differs needs no label."""
    return value if label == "source" else f"{label}={value}"


def _measured_at(run: StoredRun) -> datetime | None:
    """Returns when an imported run was measured; None if that is not known."""
    try:
        return datetime.fromisoformat(run.origin().get("measured", "")).astimezone()
    except ValueError:
        return None


def _sort_by_time(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Returns runs in the order in which they were measured; as they are stored if the time of one is not known."""
    times = {run.id: _measured_at(run) for run in runs}
    known_times = {number: time for number, time in times.items() if time is not None}
    if len(known_times) < len(times):
        return list(runs)
    return sorted(runs, key=lambda run: known_times[run.id])


MOST_DEFAULT_SIDES = 6  # Values of a label from which on it is an axis, not a side


def find_side_label(runs: Sequence[StoredRun]) -> str | None:
    """Returns the label whose values are the sides of one campaign; None if there is none, or if several can be.

    It does not say what a workload does, all runs have it, and all its values have a cell in common.
    """
    done = [run for run in runs if run.outcome]
    candidates = []
    for label in _labels(done):
        values = {run.labels.get(label) for run in done}
        if label in LOAD or None in values or not 2 <= len(values) <= MOST_DEFAULT_SIDES:
            continue
        cells_by_value = by_key((run.labels[label], _cell_without(run, label)) for run in done)
        if set.intersection(*(set(cells) for cells in cells_by_value.values())):
            candidates.append(label)
    return candidates[0] if len(candidates) == 1 else None


def _cell_without(run: StoredRun, label: str) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in run.labels.items() if pair[0] not in {label, REPEAT})


def _labels(runs: Sequence[StoredRun]) -> list[str]:
    return list(dict.fromkeys(label for run in runs for label in run.labels))


def _distinct_labels(runs: Sequence[StoredRun], other_labels: Sequence[set[str]]) -> list[str]:
    own_labels = []
    for label in _labels(runs):
        values = {run.labels.get(label) for run in runs}
        if label != REPEAT and len(values) > 1 and any(label not in other for other in other_labels):
            own_labels.append(label)
    return own_labels


def _key(run: StoredRun, by: Sequence[str]) -> Key:
    return tuple(run.labels.get(label, "") for label in by)


def compare(
    sides: Sequence[ComparisonSide],
    metrics: Sequence[str],
    points: Points,
    *,
    by: Sequence[str] | None = None,
    side_labels: Collection[str] = (),
    confidence: float = 0.95,
    margin: float = MARGIN,
    look: float = FIRST_LOOK,
    earlier: Callable[[], Sequence[Sequence[StoredRun]]] = list,
) -> Comparison:
    """Compares sides cell by cell; the first side is the baseline.

    Cells are identified by the labels that all sides have, or by the labels in `by`; runs that differ only in other
    labels are merged, and the cells that they belong to are matched. The sides may differ in `side_labels`, by which
    the user selected them, and in labels that distinguish whole sides, such as the device. Sides that differ by less
    than `margin` are the same. `look` is the share of the error rate (`Rule`), `earlier` reads the runs of campaigns of
    the baseline's cells, which show how much campaigns differ: each of them was a look, too.

    Raises UsageError for metrics and labels that do not exist.
    """
    names = [metric_name(name) for name in metrics]
    usable = []
    for side in sides:
        done = [run for run in side.runs if run.outcome]
        if not done:
            raise UsageError(f"{side.name}: no run is done")
        usable.append(ComparisonSide(side.name, done))
    common_labels = _common_labels(usable)
    side_labels = {*side_labels, *labels_of_sides([side.runs for side in usable])}
    for label in by or ():
        if label not in common_labels:
            raise UsageError(f"--by: not all sides have a label {label!r}; {near(label, common_labels)}")
    labels = _cell_labels(usable, common_labels, side_labels) if by is None else list(by)
    keys = list(dict.fromkeys(_key(run, labels) for side in usable for run in side.runs))
    keys.sort(key=units.row_order(labels, keys))
    within = [label for label in _cell_labels(usable, common_labels, common_labels) if label not in labels]
    series = cache(points)  # several metrics read the same series
    runs_by_cell = [by_key((_key(run, labels), run) for run in side.runs) for side in usable]
    cells = []
    for key in keys:
        cells.append(_PairedCell([side_runs.get(key, []) for side_runs in runs_by_cell], (labels, within), key, series))
    requests: dict[str, dict[int, list[str]]] = {}
    for name in names:
        for number, cell in enumerate(cells):
            for metric in cell.metrics(name):
                requests.setdefault(metric, {}).setdefault(number, []).append(name)
    are_apart = _are_apart(usable)
    before = earlier() if are_apart else []
    between = {name: _between(before, METRICS[name]) for name in requests}
    if any(between.values()) and look < 1:
        look = min(look, history_share(len(before) + 1))
    metric_rows = []
    for name, names_by_cell in requests.items():
        cells_of_metric = [(cells[number], asked_names) for number, asked_names in names_by_cell.items()]
        metric_rows.append(_MetricRows(cells_of_metric, Rule(METRICS[name], confidence, margin, look, between[name])))
    rows = _decide_rows([of_metric for of_metric in metric_rows if of_metric.cell_rows])
    if not rows:
        raise UsageError(f"nothing to compare: no run has {' or '.join(metrics)}")
    notes = [_two_campaigns_note(between[rows[0].metric], len(before), rows[0].metric)] if are_apart else []
    if not are_apart and _are_measured_apart(usable):
        notes.append(_measured_apart_note(usable))
    notes += comparison_notes(usable, rows, [cell.runs for cell in cells], side_labels)
    are_predicted = [_is_predicted(side) for side in usable]
    days_doubt = "" if any(are_predicted) or all(between.values()) else _describe_days(usable)
    side_names = [side.name for side in usable]
    return Comparison(side_names, labels, rows, notes, are_predicted, confidence, margin, days_doubt)


def _is_predicted(side: ComparisonSide) -> bool:
    return all(run.figures.simulated_ios is not None for run in side.runs)


def _common_labels(sides: Sequence[ComparisonSide]) -> list[str]:
    common_labels = _labels(sides[0].runs)
    for side in sides[1:]:
        labels = set(_labels(side.runs))
        common_labels = [label for label in common_labels if label in labels]
    return common_labels


def _cell_labels(
    sides: Sequence[ComparisonSide], common_labels: Sequence[str], side_labels: Collection[str]
) -> list[str]:
    """Returns the labels that identify cells: those with several values on a side, or different
    values on two sides, unless the sides were selected by them.
    """
    cell_labels = []
    for label in common_labels:
        if label == REPEAT:
            continue
        values_of_sides = [{run.labels.get(label) for run in side.runs} for side in sides]
        has_several = any(len(values) > 1 for values in values_of_sides)
        if has_several or (label not in side_labels and values_of_sides[0] != set.union(*values_of_sides)):
            cell_labels.append(label)
    return cell_labels


class _PairedCell:
    """The runs of one cell on all sides."""

    def __init__(
        self, runs: list[list[StoredRun]], by: tuple[Sequence[str], Sequence[str]], key: Key, points: Points
    ) -> None:
        """Takes the runs of each side, the labels that identify cells, and those by which merged cells differ."""
        labels, self._within = by
        self.labels = dict(zip(labels, key, strict=True))
        self.runs = runs
        self._points = points

    def metrics(self, name: str) -> list[str]:
        """Returns the metrics that a name means for this cell."""
        return with_directions(name, [[run.figures for run in side] for side in self.runs])

    def row(self, rule: Rule) -> tuple[list[Merged], list[list[str]]]:
        """Returns the values on each side, and the merged cells that other sides lack.

        The merged cells that all sides have are matched; without any, all runs count as one cell.
        """
        samples_of_sides = [run_samples(side, rule.metric, self._points) for side in self.runs]
        cells_of_sides = [
            by_key((_key(run, self._within), sample) for run, sample in side) for side in samples_of_sides
        ]
        sides_with_cells = [cells for cells in cells_of_sides if cells]
        common: list[Key] = list(sides_with_cells[0]) if sides_with_cells else []
        for cells in sides_with_cells[1:]:
            common = [key for key in common if key in cells]
        lacks = [self._lacking(cells_of_sides[0], cells) if cells else [] for cells in cells_of_sides[1:]]
        sides: list[Merged] = []
        for samples, cells in zip(samples_of_sides, cells_of_sides, strict=True):
            if not common:
                sides.append([[sample for _, sample in samples]])
            elif cells:
                sides.append([cells[key] for key in common])
            else:
                sides.append([[]])
        return sides, lacks

    def _lacking(self, baseline: Collection[Key], other: Collection[Key]) -> list[str]:
        """Returns the merged cells of the baseline that another side does not have."""
        lacking = []
        for key in baseline:
            if key not in other:
                lacking.append(" ".join(f"{label}={value}" for label, value in zip(self._within, key, strict=True)))
        return lacking


class _MetricRows:
    """The rows of a metric before they are decided."""

    def __init__(self, cells: Sequence[tuple[_PairedCell, list[str]]], rule: Rule) -> None:
        """Takes cells with the names by which the metric was requested."""
        self.rule = rule
        cell_rows = [(cell, names, *cell.row(rule)) for cell, names in cells]
        self.cell_rows = [item for item in cell_rows if any(map(any, item[2]))]
        self.samples: list[Sequence[RunSample]] = []
        self.sides: list[int] = []
        self.places: list[list[int]] = []  # Positions in `samples`, of each row and side
        for _, _, row, _ in self.cell_rows:
            for side, row_cells in enumerate(row):
                self.places.append(list(range(len(self.samples), len(self.samples) + len(row_cells))))
                self.samples += row_cells
                self.sides += [side] * len(row_cells)

    @property
    def side_count(self) -> int:
        return len(self.cell_rows[0][2])

    def question(self) -> MetricQuestion:
        """Returns the comparisons of each side with the first one."""
        pairs = []
        for base in range(0, len(self.places), self.side_count):
            pairs += [(self.places[base], self.places[base + side]) for side in range(1, self.side_count)]
        return MetricQuestion(self.samples, self.sides, pairs, self.rule)

    def merged_cells(self) -> list[list[Sequence[RunSample]]]:
        """Returns the cells of each row and side."""
        return [[self.samples[position] for position in positions] for positions in self.places]

    def rows(self, decisions: Sequence[Decision | None], count: int) -> list[ComparisonRow]:
        """Returns the rows; `count` intervals of values hold together."""
        merged_cells = self.merged_cells()
        ends: Sequence[tuple[float, float] | None] = [None] * len(self.places)
        if any(len(cell) > 1 or _has_prediction(cell) for cell in self.samples):
            ends = intervals(self.samples, self.sides, self.rule, count, self.places)
        values = [_value(cells_of_side, bounds) for cells_of_side, bounds in zip(merged_cells, ends, strict=True)]
        side_count = self.side_count
        return [
            ComparisonRow(
                self.rule.metric.name,
                cell.labels,
                values[number * side_count : (number + 1) * side_count],
                decisions[number * (side_count - 1) : (number + 1) * (side_count - 1)],
                lacks,
                names,
                max(map(len, row)),
            )
            for number, (cell, names, row, lacks) in enumerate(self.cell_rows)
        ]


def _decide_rows(metric_rows: Sequence[_MetricRows]) -> list[ComparisonRow]:
    """Returns the rows of all metrics, whose comparisons are decided together."""
    decisions = decide_family([of_metric.question() for of_metric in metric_rows])
    count = 0
    for of_metric in metric_rows:
        count += sum(any(cells_of_side) for cells_of_side in of_metric.merged_cells())
    rows: list[ComparisonRow] = []
    for of_metric, decisions_of_metric in zip(metric_rows, decisions, strict=True):
        rows += of_metric.rows(decisions_of_metric, count)
    return rows


def _has_prediction(cell: Sequence[RunSample]) -> bool:
    return any(sample.prediction for sample in cell)


def _value(cells: Merged, ends: tuple[float, float] | None) -> CellValue | None:
    """Returns the value of a row on one side; of several cells, their geometric mean."""
    values = [sample.value for cell in cells for sample in cell]
    if not values:
        return None
    low, high = ends or (None, None)
    means = [mean(cell) for cell in cells]
    middle = geometric_mean(means) if len(means) > 1 and all(means) else mean([*chain(*cells)])
    groups = two_groups(values) if len(cells) == 1 else None
    predictions = [sample.prediction for cell in cells for sample in cell if sample.prediction]
    known = all(prediction.is_known for prediction in predictions)
    return CellValue(middle, len(values), min(values), max(values), low, high, groups, known)


PLACES = ("campaign", "stack", "device", "file", "host", "source", "heading")
"""Labels that say where a workload ran."""

LOAD = frozenset({"workload", "repeat", *Job.model_fields})  # Labels that say what a workload does


def distinguish(selections: Sequence[Selection]) -> tuple[str, list[str]] | None:
    """Returns the first place that differs between all campaigns, and its values; None without any."""
    for place in PLACES:
        values = [_only(selection, place) for selection in selections]
        if all(values) and len(set(values)) == len(values):
            return place, differing(values) if place in {"file", "source"} else values
    return None


def _only(selection: Selection, place: str) -> str:
    """Returns the value that all runs of a campaign share; empty without one."""
    if place == "campaign":
        return selection.campaign.name
    values = {_place_of(run, place) for run in selection.runs}
    return values.pop() if len(values) == 1 else ""


def _place_of(run: StoredRun, place: str) -> str:
    if place in run.labels:
        return run.labels[place]
    if place == "device":
        return target_devices(run.figures)
    options = [job.get("options", {}) for job in run.cell.get("jobs") or []]
    keys = {"file": ("filename", "directory"), "host": ("hostname",)}.get(place, ())
    for options_of_job in options:
        for key in keys:
            if options_of_job.get(key):
                return str(options_of_job[key])
    return ""


def labels_of_sides(sides: Sequence[Sequence[StoredRun]]) -> set[str]:
    """Returns the labels that have one value on each side, not the same on all, and say where the
    workloads ran: they distinguish sides, not cells.
    """
    all_labels: set[str] = set()
    for side in sides:
        for run in side:
            all_labels |= run.labels.keys()
    distinguishing = set()
    for label in all_labels - LOAD:
        values_of_sides = [{run.labels.get(label, "") for run in side} for side in sides]
        is_constant = all(len(values) == 1 for values in values_of_sides)
        if is_constant and any(values != values_of_sides[0] for values in values_of_sides):
            distinguishing.add(label)
    return distinguishing
