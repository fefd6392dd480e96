"""Draws metrics against the values of a parameter, such as the block size."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab.campaigns import layout
from blklab.campaigns.charts.campaign_column import campaign_column, campaign_name
from blklab.campaigns.charts.folded_charts import more_charts
from blklab.campaigns.view import ExperimentView, ReportCell
from blklab.compare.figure_text import figure
from blklab.compare.metrics import METRICS, with_directions
from blklab.compare.saturation import LOADS, LoadPoint, SaturationCurve, curves, in_flight
from blklab.grouping import by_key
from blklab.render import chart as base
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, chart_spec, layer, quantity, tip, tips
from blklab.render.shell import Item, PageSection
from blklab.render.table import TextTable, number_columns, text_column
from blklab.text.printing import printable
from blklab.units import numeric

OPEN_AXES = 6  # Number of charts that are not folded
WIDE = 20.0  # Ratio of the largest to the smallest value from which an axis is logarithmic


def axes_section(view: ExperimentView, x: str | None, metric: str | None) -> PageSection:
    """Returns the section; the free chart begins with `x` and `metric`. Raises UsageError."""
    left_out = view.unknown_note
    knees = _knees(view)
    view = view.known
    order = sorted(view.axes, key=lambda label: label not in LOADS)
    charts = [chart for label in order for chart in _over(view.drawn, label)]
    items: list[Item] = []
    chooser = layout.chooser(view, x, metric) if view.cells else None
    if chooser and len(chooser.rows) > 1:
        items.append(chooser)
    if knees:
        items.append(knees)
    items += charts[:OPEN_AXES]
    return PageSection("axes", "Axes", "Metrics by parameter", items, left_out, more_charts(charts, OPEN_AXES))


def _knees(view: ExperimentView) -> TextTable:
    """Returns the table of knees: where more load does not increase bandwidth."""
    named_curves: list[tuple[str, SaturationCurve]] = []
    if not set(LOADS).isdisjoint(view.labels):
        for series in view.series:
            load_points = [(run.labels, run.cell, run.figures) for run in series.runs]
            named_curves += [(series.name, curve) for curve in curves(load_points)]
    labels = list(dict.fromkeys(label for _, curve in named_curves for label in curve.labels))
    columns = [*campaign_column(view), *(text_column(label) for label in labels)]
    columns += number_columns("knee at", "IOPS", "latency", "saturated at", "IOPS", "latency", "less from")
    body = []
    for name, curve in named_curves:
        row = campaign_name(view, name)
        row += [printable(curve.labels.get(label, "")) for label in labels]
        row += [*_load(curve.knee), *_load(curve.saturated)]
        row.append(str(curve.overloaded.in_flight) if curve.overloaded else formatting.NONE)
        body.append(row)
    return TextTable(
        "Saturation",
        columns,
        body,
        (
            "I/Os in flight. Knee: bandwidth over latency is largest; below it the device waits, "
            "above it mostly the jobs. Saturated: 95 % of the largest bandwidth. Less from: bandwidth falls again."
        ),
    )


def _load(load: LoadPoint) -> list[str]:
    return [str(load.in_flight), formatting.number(load.iops), formatting.duration(load.latency_ns)]


def _over(view: ExperimentView, label: str) -> list[Chart]:
    line = layout.line_label(view, [label])
    names = ("bw", "iops", "mean") if layout.is_size(label) else ("iops", "mean")
    charts = []
    for number, cells in enumerate(layout.panels(view, line, [label]).values()):
        outcomes = [run.figures for cell in cells for run in cell.runs]
        metrics: list[str] = []
        for name in names:
            metrics += with_directions(name, [outcomes])
        for metric in metrics:
            metric_cells = [cell for cell in cells if label in cell.labels and cell.value(metric)]
            if len({cell.labels[label] for cell in metric_cells}) > 2:
                charts.append(_lines(view, metric_cells, label, line, metric, number))
    return charts


def axis(values: Sequence[float], label: str) -> Spec:
    """Returns scale and axis of a label's values; a few values are ticks."""
    low = min(values)
    high = max(values)
    spec: Spec = {"scale": {"type": "linear", "nice": False, "zero": False, "padding": 10}, "axis": {"grid": False}}
    if low > 0 and high / low >= WIDE:
        spec["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 10}
    if len(values) <= 16:
        spec["axis"]["values"] = sorted(values)
    spec["axis"]["labelExpr"] = layout.label_of(label)
    return spec


def _lines(
    view: ExperimentView, cells: Sequence[ReportCell], label: str, line: str | None, metric: str, number: int
) -> Chart:
    data = [_axes_row(cell, label, line, metric) for cell in cells]
    xs = sorted({row["x"] for row in data})
    lines = list(dict.fromkeys(row["line"] for row in data))
    y = _scale([row["v"] for row in data], metric)
    any_cut = _cut_intervals(data, y)
    texts = [
        {"calculate": layout.metric_label(metric, f"datum.{key}"), "as": f"{key}_text"} for key in ("v", "low", "high")
    ]
    line_tip = [("line", line)] if line else []
    tip_fields = [*line_tip, *layout.campaign_tip(view), ("value", label), ("v_text", METRICS[metric].description)]
    tooltips = tips(*tip_fields, ("low_text", "at least"), ("high_text", "at most"))
    x = {**quantity("x", label), **axis(xs, label)}
    hue = layout.line_colour(view, lines, line)
    points = {"y": quantity("v", **y), "color": hue}
    interval = {"y": quantity("low_drawn", **y), "y2": {"field": "high_drawn"}, "color": hue}
    ranges = layer("rule", interval, strokeWidth=4, opacity=0.25)
    line_places = {**points, "strokeDash": layout.dash(view, cells), "tooltip": tooltips}
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.low != null"}], **ranges},
        layer("line", line_places, point={"size": 34}, strokeWidth=1.8),
    ]
    note = "Bars: the interval."
    if label in LOADS and (knees := _knee_points(cells, data)):
        shown = {**points, "tooltip": [tip("knee", "knee"), *tooltips[:-2]]}
        diamonds = layer("point", shown, shape="diamond", size=190, strokeWidth=2, fill=None)
        layers.append({"data": {"values": knees}, "transform": texts[:1], **diamonds})
        note += " Diamonds: the knee, where bandwidth over latency is largest."
    if not any(row["low"] is not None for row in data):
        del layers[0]
        note = note.removeprefix("Bars: the interval.").strip()
    if any_cut:
        layers.append(base.cut_marks({"color": hue, "tooltip": tooltips}, "y", quantity("high_drawn", **y)))
        note += f" {base.CUT_NOTE}"
    spec = chart_spec(data, transform=texts, encoding={"x": x}, layer=layers)
    other_labels = layout.panel_title(view, cells, line, [label])
    title = f"{METRICS[metric].description[:1].upper()}{METRICS[metric].description[1:]} by {label}"
    if other_labels:
        title += f": {other_labels}"
    name = f"axis-{view.labels.index(label)}-{number}-{metric.rpartition('.')[2]}"
    return Chart(name, title, spec, _axes_table(view, data, label, line, metric), note)


def _scale(ys: Sequence[float], metric: str) -> Spec:
    """Returns the axis of a metric: logarithmic for latencies of different magnitude."""
    y: Spec = {
        "title": METRICS[metric].description,
        "axis": {"labelExpr": layout.metric_label(metric, "datum.value"), "tickCount": 5},
        "scale": {"zero": True},
    }
    if metric.endswith(".mean") and max(ys) / min(ys) >= WIDE:
        low = min(ys) * 0.85
        high = max(ys) * 1.15
        ticks = [tick for tick in base.log_ticks(low, high) if low <= tick <= high]
        y["scale"] = {"type": "log", "nice": False, "domain": [low, high]}
        y["axis"]["values"] = ticks
    elif metric == "bw":
        y["axis"]["values"] = base.size_ticks(max(ys))
    return y


def _cut_intervals(data: Sequence[dict[str, Any]], y: Spec) -> bool:
    """Adds the drawn ends of intervals, which do not leave the axis; returns whether one is cut off."""
    lowest = 0.0
    limit = base.interval_limit((row["v"] for row in data), (row["high"] for row in data))
    if y["scale"].get("type") == "log":
        lowest, limit = y["scale"]["domain"]
    for row in data:
        row["low_drawn"] = None if row["low"] is None else max(row["low"], lowest)
    return base.cut_intervals(data, "high", limit)


def _axes_row(cell: ReportCell, label: str, line: str | None, metric: str) -> dict[str, Any]:
    cell_figure = cell.value(metric)
    assert cell_figure is not None  # noqa: S101  # chosen for having it
    return {
        "x": numeric(cell.labels[label]),
        "value": cell.labels[label],
        "v": cell_figure.mean,
        "low": None if cell_figure.low is None else max(0.0, cell_figure.low) or None,
        "high": cell_figure.high,
        "line": cell.labels.get(line, "") if line else "",
        "series": cell.series.name,
    }


def _knee_points(cells: Sequence[ReportCell], data: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    pairs = zip(cells, data, strict=True)
    lines = by_key(((row["line"], row["series"]), (cell, row)) for cell, row in pairs)
    points = []
    for members in lines.values():
        load_points = [(run.labels, run.cell, run.figures) for cell, _ in members for run in cell.runs]
        for curve in curves(load_points)[:1]:
            points += [
                {**row, "knee": f"{curve.knee.in_flight} in flight"}
                for cell, row in members
                if in_flight(cell.runs[0].cell) == curve.knee.in_flight
            ]
    return points


def _axes_table(
    view: ExperimentView, data: Sequence[Mapping[str, Any]], label: str, line: str | None, metric: str
) -> TextTable:
    columns = [text_column(line)] if line else []
    columns += campaign_column(view)
    columns += number_columns(label, METRICS[metric].description, "interval")
    body = []
    for row in data:
        interval = formatting.NONE
        if row["low"] is not None:
            interval = f"{figure(metric, row['low'])} to {figure(metric, row['high'])}"
        cells = [row["line"]] if line else []
        cells += [*campaign_name(view, row["series"]), row["value"], figure(metric, row["v"]), interval]
        body.append(cells)
    return TextTable(f"{METRICS[metric].description} by {label}", columns, body)
