"""Layout of charts: rows under headings, colours of lines, panels, and axes that the reader chooses."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.campaigns.view import NAMES, STACK, WORKLOAD, ExperimentView, ReportCell, group_cells
from blklab.compare.metrics import METRICS, metric_name, with_direction
from blklab.compare.saturation import LOADS
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.render.chart import Spec, category, duration_label, size_label
from blklab.render.chart_theme import SERIES
from blklab.render.shell import AxisChooser
from blklab.toml_files.problems import near
from blklab.units import numeric

MOST_LINES = len(SERIES)  # Maximum number of lines in a chart
MOST_ROWS = 60  # Maximum number of rows in a chart
MOST_CHARACTERS = 28  # Of a line of a name on an axis
LINE_HEIGHT = 15  # Pixels of a line of a name
PAPER = (1.0, 0.62, 0.42, 0.3, 0.22, 0.16)  # Opacity of the series of a chart
PREDICTED = 0.42  # Opacity of predictions next to measurements


@dataclass(frozen=True)
class ChartRows:
    """The rows of a chart: cells under the names of their workloads."""

    names: Sequence[str]  # Values in the data: unique, with the shown text behind `|`; headings begin with #
    row_by_cell: Mapping[int, str]  # The row of each cell, by `id`

    def height(self, row: int, heading: int, least: int) -> int:
        """Returns the height of a chart in pixels, from the heights of a `row` and a `heading`."""
        count = len({*self.row_by_cell.values()})
        most_lines = max((name.count("\n") + 1 for name in self.names), default=1)
        row = max(row, LINE_HEIGHT * most_lines)
        return max(least, row * count + heading * (len(self.names) - count) + 6 * len(self.names))

    def encoding(self) -> Spec:
        """Returns the vertical axis."""
        heading = "indexof(datum.value, '#') == 0"
        plain = {"labelFontSize": 12, "labelLimit": 230, "ticks": False, "domain": False, "grid": False}
        axis = {
            "labelExpr": "split(slice(datum.value, indexof(datum.value, '|') + 1), '\\n')",
            "labelFontWeight": {"condition": {"test": heading, "value": "bold"}, "value": "normal"},
            "labelColor": {"condition": {"test": heading, "value": "@ink"}, "value": "@soft"},
            **plain,
        }
        scale = {"domain": list(self.names), "paddingInner": 0.22, "paddingOuter": 0.1}
        return category("row", scale=scale, axis=axis)


def rows(view: ExperimentView, cells: Sequence[ReportCell], without: Sequence[str] = ()) -> ChartRows:
    """Returns the rows of cells; cells that differ only in their series share a row."""
    shown = [label for label in view.labels if label not in {WORKLOAD, *without}]
    names: list[str] = []
    row_by_cell: dict[int, str] = {}
    has_headings = WORKLOAD in view.labels and any(cell.labels.get(label) for cell in cells for label in shown)
    hidden = [*without, WORKLOAD] if has_headings else list(without)
    for (workload,), cells_of_workload in group_cells(cells, [WORKLOAD]).items():
        if has_headings:
            names.append(f"#{len(names)}|{workload}")
        groups = list(group_cells(cells_of_workload, shown).values())
        for name, cells_of_row in zip(
            shorten_names([view.name(group[0], hidden) for group in groups]), groups, strict=True
        ):
            row = f"{len(names)}|{name}"
            names.append(row)
            for cell in cells_of_row:
                row_by_cell[id(cell)] = row
    return ChartRows(names, row_by_cell)


def shorten_names(names: Sequence[str]) -> list[str]:
    """Returns names for an axis, in lines of `MOST_CHARACTERS`; without the words that all share if one is longer.

    A name is never cut: names often differ at their end.
    """
    if max(map(len, names)) > MOST_CHARACTERS and len(names) > 1:
        word_lists = [name.split(" ") for name in names]
        first_words = word_lists[0]
        common_words = [word for word in first_words if all(word in name_words for name_words in word_lists)]
        short = [" ".join(word for word in name_words if word not in common_words) for name_words in word_lists]
        if all(short) and len(set(short)) == len(short):
            names = short
    return ["\n".join(textwrap.wrap(name, MOST_CHARACTERS)) for name in names]


def offset(view: ExperimentView) -> Spec:
    """Returns the encoding that puts the bars of series below each other; none for one series."""
    if not view.several:
        return {}
    return {"yOffset": category("series", scale={"domain": [series.name for series in view.series]})}


def campaign_tip(view: ExperimentView) -> list[tuple[str, str]]:
    """Returns the line of a tooltip with the series; none for one series."""
    return [("series", view.series_label)] if view.several else []


def opacity(view: ExperimentView) -> Spec:
    """Returns the opacity of the field `series`, with its legend."""
    predicts = [series.predicts for series in view.series]
    names = [series.name for series in view.series]
    is_mixed = len(set(predicts)) > 1
    full = iter(PAPER)
    opacities = [PREDICTED if is_mixed and is_prediction else next(full) for is_prediction in predicts]
    scale = {"domain": names, "range": opacities}
    legend = {"title": None, "symbolFillColor": "@soft", "symbolType": "square", **legend_room(names)}
    return {**category("series", scale=scale, legend=legend if view.several else None), "type": "ordinal"}


def colour(field: str, names: Sequence[str], **legend: object) -> Spec:
    """Returns the colour of names: at most `MOST_LINES`, since no two names of a chart share a colour."""
    look: dict[str, object] = {"symbolOpacity": 1, "symbolStrokeWidth": 2, **legend_room(names)}
    look |= {"titleOrient": "left", "titleFontWeight": "normal"}
    shown = {"title": None, **look, **legend} if len(names) > 1 else None
    scale = {"domain": list(names), "range": list(SERIES[: len(names)])}
    return {"field": field, "type": "nominal", "scale": scale, "legend": shown}


def legend_room(names: Sequence[str]) -> dict[str, int]:
    """Returns the columns of a legend, and the pixels of its names: none is cut off in a chart of half a page."""
    return {"columns": max(1, min(4, 56 // (max(map(len, names), default=1) + 6))), "labelLimit": 340}


def line_colour(view: ExperimentView, lines: Sequence[str], line: str | None) -> Spec:
    """Returns the colour of the lines of a chart: by label, otherwise by series."""
    if line is None and view.several:
        return colour("series", [series.name for series in view.series], symbolType="stroke")
    return colour("line", lines, title=line, symbolType="stroke")


def dash(view: ExperimentView, cells: Sequence[ReportCell]) -> Spec:
    """Returns the dashes of the field `series`: predictions are dashed."""
    names = [series.name for series in view.series]
    series_names = {cell.series.name for cell in cells}
    styles = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3]]
    if any(series.predicts for series in view.series) and view.several:
        line_styles = iter([[1, 0], [8, 3, 2, 3], [12, 3], [2, 2], [1, 3], [10, 2]])
        dash_styles = iter([[5, 3], [2, 2], [1, 3], [8, 2, 1, 2], [3, 3], [4, 1]])
        styles = [next(dash_styles) if series.predicts else next(line_styles) for series in view.series]
    scale = {"domain": names, "range": styles[: len(names)]}
    legend = {"title": None, "symbolType": "stroke", "symbolSize": 250, "symbolOpacity": 1, **legend_room(names)}
    shown = {**legend, "values": [name for name in names if name in series_names]} if len(series_names) > 1 else None
    return {"field": "series", "type": "nominal", "scale": scale, "legend": shown}


def line_label(view: ExperimentView, without: Sequence[str] = ()) -> str | None:
    """Returns the label whose values become lines of a chart; None if there is none."""
    fit = [label for label in view.labels if label not in without and 1 < len(view.values(label)) <= MOST_LINES]
    axes = [label for label in fit if label not in NAMES]
    order = (STACK, *(label for label in view.loads if label in axes), *axes, *fit)
    return next((label for label in order if label in fit), None)


def panels(
    view: ExperimentView, line: str | None, without: Sequence[str] = ()
) -> dict[tuple[str, ...], list[ReportCell]]:
    """Returns the cells of each chart, by the labels that its lines share."""
    return group_cells(view.order(view.cells), [label for label in view.labels if label not in {line, *without}])


def panel_title(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, without: Sequence[str] = ()
) -> str:
    """Returns the labels that the cells of a panel share."""
    hidden = list(without)
    if line:
        hidden.append(line)
    return "" if set(cells[0].labels) <= set(hidden) else view.name(cells[0], hidden)


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
    names = {name: f"f{index}" for index, name in enumerate([*labels, *metrics])}
    x_name = x or _telling(view, labels, metric or metrics[0])
    y_name = metric or ("bw" if is_size(x_name) and "bw" in metrics else metrics[0])
    other_labels = [label for label in labels if label != x_name]
    short_labels = [label for label in (STACK, WORKLOAD, *other_labels) if len(view.values(label)) <= 8]
    hue = next((label for label in short_labels if label in other_labels), "")
    if view.several and len(view.values(hue or x_name)) < 2:
        hue = ""
    label_fields = [(names[label], label, label in view.axes, view.values(label), label_of(label)) for label in labels]
    if view.several:
        label_fields.append(("s", view.series_label, False, [series.name for series in view.series], ""))
    fields: list[Mapping[str, Any]] = [
        {"name": name, "title": title, "kind": "label", "numeric": is_axis, "values": values, "label": expression}
        for name, title, is_axis, values, expression in label_fields
    ]
    fields += [
        {
            "name": names[candidate],
            "title": METRICS[candidate].description,
            "kind": "figure",
            "numeric": True,
            "label": metric_label(candidate, "datum.value"),
            "unit": METRICS[candidate].kind,
        }
        for candidate in metrics
    ]
    in_chart = {"s", *(names[label] for label in (x_name, hue) if label)}
    filters: list[dict[str, Any]] = [
        {"name": name, "title": title, "values": values, "chosen": "" if name in in_chart else values[0]}
        for name, title, _, values, _ in label_fields
        if len(values) > 1
    ]
    start = {"x": names[x_name], "y": names[y_name], "colour": names.get(hue, "s" if view.several else "")}
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
                low = cell_figure.low
                high = cell_figure.high
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
        means = ((cell.labels.get(label, ""), cell.mean(metric)) for cell in view.cells)
        groups = by_key((name, math.log(value)) for name, value in means if value)
        logs = [log for group in groups.values() for log in group]
        if not logs:
            return 0.0
        mean = sum(logs) / len(logs)
        total = sum((log - mean) ** 2 for log in logs)
        between = sum(len(group) * (sum(group) / len(group) - mean) ** 2 for group in groups.values())
        return between / total if total else 0.0

    order = [
        [label for label in labels if label in view.axes],
        [label for label in labels if label == STACK],
        [label for label in labels if label in NAMES],
        labels,
    ]
    return max(next(filter(None, order)), key=ratio)
