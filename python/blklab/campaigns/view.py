"""The data of a report on campaigns: cells with merged repeats, side by side.

A series is a campaign or a selection of it. A cell is a set of runs that differ only in the repeat.
Cells of several series with the same labels are shown side by side.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from blklab import units
from blklab.compare import comparison as compare
from blklab.compare.comparison import PLACES, REPEAT, distinguish
from blklab.compare.decision import Rule, intervals, look_share
from blklab.compare.metrics import METRICS, directions, with_direction
from blklab.compare.samples import Points, mark_unchanged, run_samples
from blklab.compare.saturation import LOADS
from blklab.compare.variation import RunSample, mean
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.runners.registry import predicts
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable

Labels = Mapping[str, str]

STACK: str = "stack"
WORKLOAD: str = "workload"
NAMES = frozenset({*PLACES, WORKLOAD, "kernel"})
"""Labels that are always names, although their values look like numbers: 4.19 is more than 4.2."""

MOST_SIDES = 6  # Maximum number of series in charts: each has its own opacity, dashes and colour
AXIS = 3  # Number of numeric values from which a label is an axis: two are a comparison


@dataclass(frozen=True)
class ReportSeries:
    """A campaign or a selection of it."""

    name: str  # Printable and unique in the report
    campaign: CampaignRow
    runs: Sequence[StoredRun]  # The runs that are done

    @property
    def predicts(self) -> bool:
        return predicts(self.campaign.runner)


@dataclass(frozen=True)
class CellFigure:
    """A metric of a cell: the mean of its runs, their range and interval."""

    mean: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None  # The 95 % interval; None if unknown


@dataclass(eq=False)
class ReportCell:
    """The runs of one series that differ only in the repeat."""

    series: ReportSeries
    labels: Labels
    runs: Sequence[StoredRun]
    points: Points
    figures: "FiguresTogether"

    def samples(self, metric: str) -> list[RunSample]:
        """Returns the values of a metric and their series, for the runs that have it."""
        return [sample for _, sample in run_samples(self.runs, METRICS[metric], self.points)]

    def value(self, metric: str) -> CellFigure | None:
        """Returns a metric, None if no run has it."""
        return self.figures.of(self, metric)

    @cached_property
    def is_known(self) -> bool:
        """Whether its figures are known: not if a run is predicted with an interval that is too wide."""
        return all(run.figures.is_known for run in self.runs)

    @cached_property
    def directions(self) -> frozenset[str]:
        """The directions of its I/O."""
        return frozenset(directions(run.figures for run in self.runs))

    def mean(self, metric: str) -> float | None:
        cell_figure = self.value(metric)
        return None if cell_figure is None else cell_figure.mean

    @cached_property
    def order(self) -> str:
        """The order of its I/O: `sequential`, `random`, `mixed` or `other` (unknown, commands)."""
        kinds = {_order(rw) for rw in patterns(self.runs[0])}
        if not kinds or None in kinds:
            return "other"
        return str(kinds.pop()) if len(kinds) == 1 else "mixed"


class FiguresTogether:
    """The metrics of the cells of a report, each computed once: the repeats of all say how much values vary."""

    def __init__(self, cells: Sequence[ReportCell]) -> None:
        self.cells = cells
        self._names: dict[tuple[frozenset[str], str], str] = {}
        self._computed: dict[str, dict[ReportCell, CellFigure | None]] = {}

    def of(self, cell: ReportCell, metric: str) -> CellFigure | None:
        key = (cell.directions, metric)
        if key not in self._names:
            # Cells that read and write alike show the same direction.
            alike = [other for other in self.cells if other.directions == cell.directions]
            outcomes = [[run.figures for run in other.runs] for other in alike]
            self._names[key] = with_direction(metric, outcomes)
        name = self._names[key]
        if name not in self._computed:
            self._computed[name] = dict(zip(self.cells, self._all(name), strict=True))
        return self._computed[name][cell]

    def _all(self, metric: str) -> Iterator[CellFigure | None]:
        samples = [cell.samples(metric) for cell in self.cells]
        sides = [cell.series.name for cell in self.cells]
        for samples_of_cell, ends in zip(samples, intervals(samples, sides, Rule(METRICS[metric])), strict=True):
            if not samples_of_cell:
                yield None
                continue
            values = [sample.value for sample in samples_of_cell]
            low, high = ends or (None, None)
            yield CellFigure(mean(samples_of_cell), min(values), max(values), low, high)


def patterns(run: StoredRun) -> list[str]:
    """Returns fio's `rw` of each job of a run, as far as known."""
    pairs = []
    for job in run.cell.get("jobs") or []:
        if "options" in job:
            pairs.append(_rw(job["options"]))
        elif "random" in job:
            pairs.append("randrw" if job["random"] else "rw")
    if not pairs:
        pairs = [_rw(options) for options in run.figures.job_options.values()]
    return [rw for rw in pairs if rw]


OPTIONS = ("rw", "readwrite", "bs", "iodepth", "numjobs", "rwmixread", "fsync", "fdatasync")
"""fio's options that make a workload."""


def workload_options(run: StoredRun, without: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the values of a run's workload options, for each job, as far as known."""
    jobs = [job.get("options", job) for job in run.cell.get("jobs") or []]
    jobs = jobs or list(run.figures.job_options.values())
    keys = [key for key in OPTIONS if key not in without]
    values_of_jobs = []
    for options in jobs:
        values_of_jobs.append(tuple(str(options.get(key, "")) for key in keys))
    return tuple(values_of_jobs)


MOST_WORKLOADS = 6  # Workloads that are described below a picture


def describe_workloads(view: "ExperimentView") -> list[str]:
    """Returns fio's options of each workload, as far as known: `oltp: rw=randrw bs=8k iodepth=8`."""
    lines: dict[str, None] = {}
    for cell in view.order(view.cells):
        run = cell.runs[0]
        for options in workload_options(run, ()):
            pairs = [f"{key}={_short_size(value)}" for key, value in zip(OPTIONS, options, strict=True) if value]
            if pairs:
                lines[printable(f"{run.labels.get(WORKLOAD, 'fio')}: {' '.join(pairs)}")] = None
    shown = list(lines)[:MOST_WORKLOADS]
    if len(lines) > len(shown):
        shown.append(f"{len(lines) - len(shown)} more workloads")
    return shown


def _short_size(value: str) -> str:
    """Returns an option's value as people write it: `8k` for 8192."""
    return units.fio_size(int(value), "mk") if value.isdigit() else value


def _rw(options: Mapping[str, Any]) -> str:
    return str(options.get("rw", options.get("readwrite", "")))


def _order(rw: str) -> str | None:
    name = rw.partition(":")[0]
    if name not in {"read", "write", "rw", "readwrite", "randread", "randwrite", "randrw"}:
        return None
    return "random" if name.startswith("rand") else "sequential"


class ExperimentView:
    """All data of a report."""

    def __init__(self, selections: Sequence[Selection], points: Points) -> None:
        """Takes the campaigns in order. Raises UsageError if a campaign has no run that is done."""
        self.points: Points = cache(points)
        names = _names(selections)
        for selection in selections:
            if not any(run.outcome for run in selection.runs):
                raise UsageError(f"{selection.text}: no run is done")
        self.campaigns = [selection.campaign for selection in selections]
        self.look = look_share(max(len(row.former_repeats) for row in self.campaigns))
        self.failed = [run for selection in selections for run in selection.runs if run.state == "failed"]
        self.series = [
            ReportSeries(printable(name), campaign, runs)
            for name, campaign, runs in _merge_imports(selections) or _sides(names, selections)
        ]
        self.several = len(self.series) > 1
        self.runs = [run for series in self.series for run in series.runs]
        self.labels = self._list_varying()
        self.cells: list[ReportCell] = []
        self.figures = FiguresTogether(self.cells)
        self.cells += [cell for series in self.series for cell in self._make_cells(series)]

    @property
    def is_comparison(self) -> bool:
        """Whether the series are the sides of a comparison: all are measured, or all are predicted."""
        return self.several and len({series.predicts for series in self.series}) == 1

    @cached_property
    def series_label(self) -> str:
        """What distinguishes the series: a label such as `source` if they are sides of one campaign."""
        if len({series.campaign.number for series in self.series}) > 1:
            return "campaign"
        return compare.find_side_label(self.runs) or "campaign"

    def _list_varying(self) -> list[str]:
        """Returns the labels with several values in some series, stack and workload first."""
        all_labels = dict.fromkeys(label for run in self.runs for label in run.labels)
        varying_labels = [label for label in all_labels if label != REPEAT and self._varies(label)]
        first: list[str] = [label for label in (*PLACES, WORKLOAD) if label in varying_labels]
        if not varying_labels:
            first = [label for label in (WORKLOAD, STACK) if label in all_labels][:1]
        return [*first, *(label for label in varying_labels if label not in first)]

    def _varies(self, label: str) -> bool:
        """Whether a label has several values in a series; a missing label is a value."""
        for series in self.series:
            values = {run.labels.get(label) for run in series.runs}
            if len(values) > 1:
                return True
        return False

    def _make_cells(self, series: ReportSeries) -> list[ReportCell]:
        # A missing label counts as equal to the only value of another series.
        labels_of_series = dict.fromkeys(label for run in series.runs for label in run.labels)
        labels_of_series.pop(REPEAT, None)
        runs_by_cell: dict[tuple[str, ...], list[StoredRun]] = {}
        for run in series.runs:
            values = tuple(run.labels.get(label, "") for label in labels_of_series)
            runs_by_cell.setdefault(values, []).append(run)
        cells = []
        for runs in runs_by_cell.values():
            labels = {}
            for label in self.labels:
                value = runs[0].labels.get(label)
                if value is not None:
                    labels[label] = printable(value)
            cells.append(ReportCell(series, labels, runs, self.points, self.figures))
        return cells

    @cached_property
    def drawn(self) -> "ExperimentView":
        """The data of charts, which have the first series only."""
        series = self.series[:MOST_SIDES]
        view = self._with_cells([cell for cell in self.cells if cell.series in series])
        view.series = series
        return view

    @cached_property
    def known(self) -> "ExperimentView":
        """The data without cells whose figures are not known: charts have no point for them."""
        return self._with_cells([cell for cell in self.cells if cell.is_known])

    def _with_cells(self, cells: "list[ReportCell]") -> "ExperimentView":
        """Returns the data with fewer cells."""
        view = copy(self)
        for name in ("drawn", "known", "unknown_note"):  # What was computed of all cells
            vars(view).pop(name, None)
        view.cells = cells
        return view

    @cached_property
    def unknown_note(self) -> str:
        """A sentence about the cells that charts leave out; empty without any."""
        count = sum(not cell.is_known for cell in self.cells)
        if not count:
            return ""
        verb = "is" if count == 1 else "are"
        return f"{count} of {len(self.cells)} cells {verb} left out: the figures are not known."

    @cached_property
    def fixed(self) -> dict[str, str]:
        """Labels with the same value everywhere."""
        values_by_label = by_key(pair for run in self.runs for pair in run.labels.items())
        return {
            label: printable(values[0])
            for label, values in values_by_label.items()
            if len(set(values)) == 1 and label != REPEAT and label not in self.labels
        }

    def values(self, label: str) -> list[str]:
        """Returns the values of a label: numbers in ascending order, names in the order of the data."""
        return units.in_order(label, (cell.labels[label] for cell in self.cells if label in cell.labels))

    @cached_property
    def axes(self) -> list[str]:
        """Labels with enough numeric values for a line."""
        return [label for label in self.labels if label not in NAMES and self._is_axis(label)]

    def _is_axis(self, label: str) -> bool:
        values = self.values(label)
        return len(values) >= AXIS and all(units.numeric(value) is not None for value in values)

    @cached_property
    def loads(self) -> list[str]:
        """Axes that set the load."""
        return [label for label in self.axes if label in LOADS]

    def name(self, cell: ReportCell, without: Sequence[str] = (), *, series: bool = False) -> str:
        """Returns the name of a cell: `raid1 randread bs=4k`."""
        parts = [
            value if label in {*PLACES, WORKLOAD} else f"{label}={value}"
            for label, value in cell.labels.items()
            if label not in without
        ]
        if series and self.several:
            parts.append(f"({cell.series.name})")
        return " ".join(parts) or cell.series.name

    def order(self, cells: "Sequence[ReportCell]") -> "list[ReportCell]":
        """Returns cells in the order of their labels' values."""
        ranks_by_label: dict[str, dict[str, int]] = {}
        for label in self.labels:
            ranks_by_label[label] = {value: rank for rank, value in enumerate(self.values(label))}
        series_ranks = {series.name: rank for rank, series in enumerate(self.series)}

        def place(cell: ReportCell) -> list[int]:
            ranks = [ranks_by_label[label].get(cell.labels.get(label, ""), -1) for label in self.labels]
            return [*ranks, series_ranks[cell.series.name]]

        return sorted(cells, key=place)


def best(view: ExperimentView, cells: Sequence[ReportCell], metric: str) -> list[ReportCell]:
    """Returns, of cells that differ only in the load, the one with the highest value."""
    groups = group_cells(cells, [label for label in view.labels if label not in view.loads], series=True)
    return [max(members, key=lambda cell: cell.mean(metric) or 0.0) for members in groups.values()]


def group_cells(
    cells: Sequence[ReportCell], by: Sequence[str], *, series: bool = False
) -> dict[tuple[str, ...], list[ReportCell]]:
    """Returns cells by the values of labels and by series."""
    groups: dict[tuple[str, ...], list[ReportCell]] = {}
    for cell in cells:
        key = [cell.labels.get(label, "") for label in by]
        if series:
            key.append(cell.series.name)
        groups.setdefault(tuple(key), []).append(cell)
    return groups


def _sides(names: Sequence[str], selections: Sequence[Selection]) -> "list[tuple[str, CampaignRow, list[StoredRun]]]":
    """Returns the series: a campaign with a label that another one lacks becomes one for each value."""
    run_lists = []
    for selection in selections:
        run_lists.append(mark_unchanged([run for run in selection.runs if run.outcome]))
    campaign_sides = [
        (name, selection.campaign, runs) for name, selection, runs in zip(names, selections, run_lists, strict=True)
    ]
    if len(campaign_sides) < 2:
        return _split_import(*campaign_sides[0]) or campaign_sides
    split = compare.comparison_sides(list(zip(names, run_lists, strict=True)))
    if len(split) > max(MOST_SIDES, len(campaign_sides)):
        return campaign_sides
    rows = {selection.campaign.number: selection.campaign for selection in selections}
    return [(side.name, rows[side.runs[0].campaign], list(side.runs)) for side in split]


def _split_import(
    name: str, campaign: CampaignRow, runs: list[StoredRun]
) -> "list[tuple[str, CampaignRow, list[StoredRun]]]":
    """Returns the two sides of a campaign that was imported, such as two kernels in two directories; none of others."""
    label = compare.find_side_label(runs)
    if label in {None, STACK} or not all(run.origin() for run in runs):
        return []
    sides = compare.comparison_sides([(name, runs)], label)
    if len(sides) != 2:
        return []
    return [(side.name, campaign, list(side.runs)) for side in sides]


def _merge_imports(selections: Sequence[Selection]) -> "list[tuple[str, CampaignRow, list[StoredRun]]] | None":
    """Returns three or more campaigns that were imported from one tool as one series, with a label for what
    distinguishes them; None for others. Two are the sides of a comparison.
    """
    runs = [run for selection in selections for run in selection.runs if run.outcome]
    difference = distinguish(selections)
    if len(selections) < 3 or difference is None or len({run.runner for run in runs}) > 1:
        return None
    if not all(run.origin() for run in runs):
        return None
    names = {selection.campaign.number: name for selection, name in zip(selections, difference[1], strict=True)}
    labelled_runs = [replace(run, labels={difference[0]: names[run.campaign], **run.labels}) for run in runs]
    return [(selections[0].campaign.name, selections[0].campaign, labelled_runs)]


def _names(selections: Sequence[Selection]) -> list[str]:
    """Returns short, different names: runners, otherwise experiments, otherwise the labels."""
    rows = [selection.campaign for selection in selections]
    for names in (
        [row.runner for row in rows],
        [row.name for row in rows],
        [selection.text.partition(":")[2] for selection in selections],
        [f"{row.name} {row.runner}" for row in rows],
        [f"{row.name} {row.runner} {row.number}" for row in rows],
    ):
        if all(names) and len(set(names)) == len(names):
            return [printable(name) for name in names]
    return [f"{printable(selection.text)} ({number})" for number, selection in enumerate(selections, start=1)]
