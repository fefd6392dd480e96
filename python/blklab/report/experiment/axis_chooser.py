"""A chart with axes that the reader chooses among labels and metrics."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.analysis.metrics import METRICS, metric_name, with_direction
from blklab.analysis.saturation import LOADS
from blklab.errors import UsageError
from blklab.report.charts.base import duration_label, size_label
from blklab.report.experiment.view import NAMES, STACK, WORKLOAD, ExperimentView
from blklab.report.shell import AxisChooser
from blklab.spec.problems import near
from blklab.text import by_key
from blklab.units import numeric

SIZES = frozenset({"bs", "size", "chunk", "io_size", "offset", "blockalign"})
"""Labels in bytes, by the last part of their names."""


def is_size(label: str) -> bool:
    return label.rpartition(".")[2] in SIZES


def label_of(label: str) -> str:
    """Returns the Vega expression of a tick."""
    return size_label("datum.value") if is_size(label) else "format(datum.value, '~r')"


def metric_label(metric: str, value: str) -> str:
    """Returns the Vega expression that formats a metric with its unit."""
    match METRICS[metric].kind:
        case "time":
            return duration_label(value)
        case "bandwidth":
            return f"{size_label(value)} + '/s'"
    written = f"{value} < 1000 ? format({value}, '.3~r') : format({value}, '.3~s')"
    return f"({value} == null ? '–' : {written})"


def chooser(view: ExperimentView, x: str | None, metric: str | None) -> AxisChooser:
    """Returns the free chart. Raises UsageError."""
    labels = list(view.labels)
    metrics = [name for name in METRICS if any(cell.value(name) for cell in view.cells)]
    if metric is not None:
        outcomes = [[run.figures for run in cell.runs] for cell in view.cells]
        metric = with_direction(metric_name(metric), outcomes)
    if metric is not None and metric not in metrics:
        raise UsageError(f"--metric: no run has {metric!r}; {near(metric, metrics)}")
    if x is not None and x not in labels and x not in metrics:
        raise UsageError(f"--x: no label {x!r}; {near(x, [*labels, *metrics])}")
    names = {name: f"f{at}" for at, name in enumerate([*labels, *metrics])}
    across = x or _telling(view, labels, metric or metrics[0])
    up = metric or ("bw" if is_size(across) and "bw" in metrics else metrics[0])
    rest = [label for label in labels if label != across]
    few = [label for label in (STACK, WORKLOAD, *rest) if len(view.values(label)) <= 8]
    hue = next((label for label in few if label in rest), "")
    if view.several and len(view.values(hue or across)) < 2:
        hue = ""
    fields: list[Mapping[str, Any]] = [
        {
            "name": names[label],
            "title": label,
            "kind": "label",
            "numeric": label in view.axes,
            "values": view.values(label),
            "label": label_of(label),
        }
        for label in labels
    ]
    fields += [
        {
            "name": names[candidate],
            "title": METRICS[candidate].what,
            "kind": "figure",
            "numeric": True,
            "label": metric_label(candidate, "datum.value"),
            "unit": METRICS[candidate].kind,
        }
        for candidate in metrics
    ]
    filters: list[dict[str, Any]] = [
        {"name": names[label], "title": label, "values": values, "chosen": "" if label in {across, hue} else values[0]}
        for label in labels
        if len(values := view.values(label)) > 1
    ]
    if view.several:
        series = [candidate.name for candidate in view.series]
        filters.append({"name": "s", "title": "campaign", "values": series, "chosen": ""})
        fields.insert(
            len(labels),
            {"name": "s", "title": "campaign", "kind": "label", "numeric": False, "values": series, "label": ""},
        )
    start = {"x": names[across], "y": names[up], "colour": names.get(hue, "s" if view.several else "")}
    note = "Choose the axes, the colour and the cells."
    return AxisChooser("Any metric by any parameter", note, fields, filters, start, _rows(view, names, metrics))


def _rows(view: ExperimentView, names: Mapping[str, str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a row for each cell: labels and metrics by their fields' `names`."""
    rows = []
    for cell in view.order(view.cells):
        row: dict[str, Any] = {"s": cell.series.name}
        for label in view.labels:
            value = cell.labels.get(label, "")
            number = numeric(value) if label in view.axes or label in LOADS else None
            row[names[label]] = value if number is None else number
            row[f"{names[label]}t"] = value
        for metric in metrics:
            if (cell_figure := cell.value(metric)) is not None:
                low, high = cell_figure.low, cell_figure.high
                row[names[metric]] = _digits(cell_figure.mean)
                if low is not None and high is not None:
                    row |= {f"{names[metric]}l": _digits(max(0.0, low)), f"{names[metric]}h": _digits(high)}
        rows.append(row)
    return rows


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


def _telling(view: ExperimentView, labels: Sequence[str], metric: str) -> str:
    """Returns the label with the largest effect, numbers before names: by its share of the variance.

    The variance is that of the logarithm, because metrics differ by factors (η², Fisher's correlation ratio).
    """

    def ratio(label: str) -> float:
        values = ((cell.labels.get(label, ""), cell.mean(metric)) for cell in view.cells)
        groups = by_key((name, math.log(value)) for name, value in values if value)
        every = [value for values in groups.values() for value in values]
        if not every:
            return 0.0
        mean = sum(every) / len(every)
        total = sum((value - mean) ** 2 for value in every)
        between = sum(len(v) * (sum(v) / len(v) - mean) ** 2 for v in groups.values())
        return between / total if total else 0.0

    order = [
        [label for label in labels if label in view.axes],
        [label for label in labels if label == STACK],
        [label for label in labels if label in NAMES],
        labels,
    ]
    return max(next(filter(None, order)), key=ratio)
