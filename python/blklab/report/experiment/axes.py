"""Charts over numeric labels, the knee of a load, and the free chart."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab.analysis.metrics import METRICS, with_direction
from blklab.analysis.saturation import LOADS, LoadPoint, curves, in_flight
from blklab.report import formatting
from blklab.report.charts.base import Chart, Spec, chart_spec, layer, log_ticks, quantity, size_ticks, tip, tips
from blklab.report.comparison import figure
from blklab.report.experiment.axis_chooser import chooser, is_size, label_of, metric_label
from blklab.report.experiment.layout import campaign_tip, dash, line_colour, line_label, panels, titled
from blklab.report.experiment.view import ExperimentView, ReportCell
from blklab.report.shell import Details, Item, PageSection
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import by_key, printable
from blklab.units import numeric

OPEN = 6  # Number of charts that are not folded
WIDE = 20.0  # Ratio of the largest to the smallest value from which an axis is logarithmic


def section(view: ExperimentView, x: str | None, metric: str | None) -> PageSection:
    """Returns the section; the free chart begins with `x` and `metric`. Raises UsageError."""
    order = sorted(view.axes, key=lambda label: label not in LOADS)
    charts = [chart for label in order for chart in _over(view.drawn, label)]
    folds = [Details(f"{len(charts) - OPEN} more", charts[OPEN:])] if len(charts) > OPEN else []
    chosen = chooser(view, x, metric)
    items: list[Item] = [chosen] if len(chosen.rows) > 1 else []
    items += [*filter(None, [_knees(view)]), *charts[:OPEN]]
    return PageSection("axes", "Axes", "Metrics by parameter", items, "", folds)


def _knees(view: ExperimentView) -> TextTable:
    """Returns the table of knees: where more load does not increase bandwidth."""
    every = [
        (series.name, curve)
        for series in view.series
        if not set(LOADS).isdisjoint(view.labels)
        for curve in curves([(run.labels, run.cell, run.figures) for run in series.runs])
    ]
    labels = list(dict.fromkeys(label for _, curve in every for label in curve.labels))
    columns = [*([text("campaign")] if view.several else []), *(text(label) for label in labels)]
    columns += figures("knee at", "IOPS", "latency", "saturated at", "IOPS", "latency", "less from")
    body = [
        [
            *([name] if view.several else []),
            *(printable(curve.labels.get(label, "")) for label in labels),
            *_load(curve.knee),
            *_load(curve.saturated),
            str(curve.overloaded.in_flight) if curve.overloaded else formatting.NONE,
        ]
        for name, curve in every
    ]
    note = (
        "I/Os in flight. Knee: bandwidth over latency is largest; below it the device waits, above it mostly the jobs."
        " Saturated: 95 % of the largest bandwidth. Less from: bandwidth falls again."
    )
    return TextTable("Saturation", columns, body, note)


def _load(load: LoadPoint) -> list[str]:
    return [str(load.in_flight), formatting.number(load.iops), formatting.duration(load.latency_ns)]


def _over(view: ExperimentView, label: str) -> list[Chart]:
    line = line_label(view, [label])
    names = ("bw", "iops", "mean") if is_size(label) else ("iops", "mean")
    charts = []
    for at, cells in enumerate(panels(view, line, [label]).values()):
        outcomes = [run.figures for cell in cells for run in cell.runs]
        for metric in (with_direction(name, [outcomes]) for name in names):
            mine = [cell for cell in cells if label in cell.labels and cell.value(metric)]
            if len({cell.labels[label] for cell in mine}) > 2:
                charts.append(_lines(view, mine, label, line, metric, at))
    return charts


def axis(values: Sequence[float], label: str) -> Spec:
    """Returns scale and axis of a label's values; a few values are ticks."""
    low, high = min(values), max(values)
    spec: Spec = {"scale": {"type": "linear", "nice": False, "zero": False, "padding": 10}, "axis": {"grid": False}}
    if low > 0 and high / low >= WIDE:
        spec["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 10}
    if len(values) <= 16:
        spec["axis"]["values"] = sorted(values)
    spec["axis"]["labelExpr"] = label_of(label)
    return spec


def _lines(
    view: ExperimentView, cells: Sequence[ReportCell], label: str, line: str | None, metric: str, number: int
) -> Chart:
    data = [_row(cell, label, line, metric) for cell in cells]
    xs = sorted({row["x"] for row in data})
    lines = list(dict.fromkeys(row["line"] for row in data))
    y = _scale([row["v"] for row in data], metric)
    texts = [{"calculate": metric_label(metric, f"datum.{key}"), "as": f"{key}_text"} for key in ("v", "low", "high")]
    line_tip = [("line", line)] if line else []
    named = [*line_tip, *campaign_tip(view), ("value", label), ("v_text", METRICS[metric].what)]
    tooltips = tips(*named, ("low_text", "at least"), ("high_text", "at most"))
    x = {**quantity("x", label), **axis(xs, label)}
    hue = line_colour(view, lines, line)
    points = {"y": quantity("v", **y), "color": hue}
    interval = {"y": quantity("low", **y), "y2": {"field": "high"}, "color": hue}
    ranges = layer("rule", interval, strokeWidth=4, opacity=0.25)
    line_places = {**points, "strokeDash": dash(view, cells), "tooltip": tooltips}
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.low != null"}], **ranges},
        layer("line", line_places, point={"size": 34}, strokeWidth=1.8),
    ]
    note = "Bars: the interval."
    if label in LOADS and (knees := _marked(cells, data)):
        shown = {**points, "tooltip": [tip("knee", "knee"), *tooltips[:-2]]}
        diamonds = layer("point", shown, shape="diamond", size=190, strokeWidth=2, fill=None)
        layers.append({"data": {"values": knees}, "transform": texts[:1], **diamonds})
        note += " Diamonds: the knee, where bandwidth over latency is largest."
    if not any(row["low"] is not None for row in data):
        del layers[0]
        note = note.removeprefix("Bars: the interval.").strip()
    spec = chart_spec(data, transform=texts, encoding={"x": x}, layer=layers)
    other_labels = titled(view, cells, line, [label])
    title = f"{METRICS[metric].what[:1].upper()}{METRICS[metric].what[1:]} by {label}"
    title += f": {other_labels}" if other_labels else ""
    at = view.labels.index(label)
    return Chart(
        f"axis-{at}-{number}-{metric.rpartition('.')[2]}", title, spec, _table(view, data, label, line, metric), note
    )


def _scale(ys: Sequence[float], metric: str) -> Spec:
    """Returns the axis of a metric: logarithmic for latencies of different magnitude."""
    y: Spec = {
        "title": METRICS[metric].what,
        "axis": {"labelExpr": metric_label(metric, "datum.value"), "tickCount": 5},
        "scale": {"zero": True},
    }
    if metric.endswith(".mean") and max(ys) / min(ys) >= WIDE:
        low, high = min(ys) * 0.85, max(ys) * 1.15
        ticks = [tick for tick in log_ticks(low, high) if low <= tick <= high]
        y["scale"] = {"type": "log", "nice": False, "domain": [low, high]}
        y["axis"]["values"] = ticks
    elif metric == "bw":
        y["axis"]["values"] = size_ticks(max(ys))
    return y


def _row(cell: ReportCell, label: str, line: str | None, metric: str) -> dict[str, Any]:
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


def _marked(cells: Sequence[ReportCell], data: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    pairs = zip(cells, data, strict=True)
    lines = by_key(((row["line"], row["series"]), (cell, row)) for cell, row in pairs)
    points = []
    for members in lines.values():
        measured = [(run.labels, run.cell, run.figures) for cell, _ in members for run in cell.runs]
        for curve in curves(measured)[:1]:
            points += [
                {**row, "knee": f"{curve.knee.in_flight} in flight"}
                for cell, row in members
                if in_flight(cell.runs[0].cell) == curve.knee.in_flight
            ]
    return points


def _table(
    view: ExperimentView, data: Sequence[Mapping[str, Any]], label: str, line: str | None, metric: str
) -> TextTable:
    columns = [*([text(line)] if line else []), *([text("campaign")] if view.several else [])]
    columns += figures(label, METRICS[metric].what, "interval")
    body = [
        [
            *([row["line"]] if line else []),
            *([row["series"]] if view.several else []),
            row["value"],
            figure(metric, row["v"]),
            formatting.NONE if row["low"] is None else f"{figure(metric, row['low'])} to {figure(metric, row['high'])}",
        ]
        for row in data
    ]
    return TextTable(f"{METRICS[metric].what} by {label}", columns, body)
