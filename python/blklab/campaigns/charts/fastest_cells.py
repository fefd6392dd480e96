"""Draws the cells with the most I/O as bars."""

from collections.abc import Sequence
from typing import Any

from blklab.campaigns import layout
from blklab.campaigns.charts.campaign_column import campaign_column, campaign_name
from blklab.campaigns.view import ExperimentView, ReportCell, best
from blklab.compare.metrics import METRICS, WAYS
from blklab.render import chart as base
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, chart_spec, layer, quantity, tips
from blklab.render.table import TextTable, number_columns, text_column

ORDERS = {"sequential": "Sequential I/O", "random": "Random I/O", "mixed": "Sequential and random I/O", "other": "I/O"}
FIRST = {"filter": "datum.first"}  # Returns one row for each bar; the other direction is stacked on it


def fastest_charts(view: ExperimentView) -> list[Chart]:
    """Returns a chart for sequential and one for random I/O."""
    charts = []
    for order, title in ORDERS.items():
        metric = "bw" if order == "sequential" else "iops"
        cells = [cell for cell in view.order(view.cells) if cell.order == order and cell.value(metric)]
        if cells:
            charts.append(_fastest_chart(view, cells, order, title, metric))
    return charts


def _fastest_chart(view: ExperimentView, cells: Sequence[ReportCell], order: str, title: str, metric: str) -> Chart:
    best_cells = view.order(best(view, cells, metric))
    drawn = best_cells[: layout.MOST_ROWS]
    laid = layout.rows(view, drawn, view.loads)
    data = [row for cell in drawn for row in _fastest_rows(view, cell, laid.row_by_cell[id(cell)], metric)]
    limit = base.interval_limit((max(row["total"], row["most"] or 0.0) for row in data), (row["high"] for row in data))
    any_cut = base.cut_intervals(data, "high", limit)
    for row in data:
        row["end"] = max(row["total"], row["most"] or 0.0, row["high_drawn"] or 0.0)
    spec = _spec(view, data, metric)
    spec["encoding"]["y"] = laid.encoding()
    spec["height"] = laid.height((13 if view.several else 17) * len(view.series), 20, 48)
    notes = ["Bandwidth." if metric == "bw" else "I/Os a second."]
    if view.loads:
        notes.append(f"Each cell at the {formatting.listing(view.loads)} with the highest value.")
    has_ranges = any(row["least"] is not None for row in data)
    has_intervals = any(row["low"] is not None for row in data)
    if has_ranges and has_intervals:
        notes.append("Thin whiskers: the range of repeats; thick: the interval.")
    elif has_ranges:
        notes.append("Whiskers: the range of repeats.")
    elif has_intervals:
        notes.append("Whiskers: the interval.")
    if any_cut:
        notes.append(base.CUT_NOTE)
    if len(best_cells) > len(drawn):
        notes.append(f"The first {layout.MOST_ROWS} of {len(best_cells)}; the table below has all.")
    return Chart(f"fastest-{order}", title, spec, _fastest_table(view, best_cells, metric), " ".join(notes), wide=True)


def _fastest_rows(view: ExperimentView, cell: ReportCell, row: str, metric: str) -> list[Spec]:
    total = cell.value(metric)
    assert total is not None  # noqa: S101  # charts() chose those that have it
    has_range = len(cell.runs) > 1 and total.maximum > total.minimum
    other_labels: dict[str, Any] = {
        "row": row,
        "series": cell.series.name,
        "name": view.name(cell),
        "total": _round(total.mean),
        "least": _round(total.minimum) if has_range else None,
        "most": _round(total.maximum) if has_range else None,
        "low": None if total.low is None else _round(max(0.0, total.low)),
        "high": None if total.high is None else _round(total.high),
    }
    rows: list[Spec] = []
    for direction in WAYS:
        mean = cell.mean(f"{direction}.{metric}")
        if mean:
            rows.append({**other_labels, "op": direction, "v": _round(mean), "first": not rows})
    return rows


def _round(value: float) -> float:
    return round(value, 1) if value < 1000 else round(value)


def _spec(view: ExperimentView, data: Sequence[Spec], metric: str) -> Spec:
    maximum = max((row["end"] for row in data), default=1.0) or 1.0
    any_cut = any(row["cut"] for row in data)
    value = layout.metric_label(metric, "datum.total")
    label = f"datum.cut ? ({value}) + ' (to ' + {layout.metric_label(metric, 'datum.high')} + ')' : {value}"
    drawn_ops = {row["op"] for row in data}
    ops = [direction for direction in WAYS if direction in drawn_ops]
    base_encoding = layout.offset(view)
    figures_of_bar = (("v_text", "mean"), ("range_text", "repeats"), ("interval_text", "interval"))
    tooltips = tips(("name", "cell"), *layout.campaign_tip(view), ("op", "direction"), *figures_of_bar)
    x: Spec = {
        "title": METRICS[metric].description,
        "scale": {"domain": [0, maximum * (1.3 if any_cut else 1.13)], "nice": False},
        "axis": {"labelExpr": layout.metric_label(metric, "datum.value"), "tickCount": 5, "grid": True},
    }
    if metric == "bw":
        x["axis"]["values"] = base.size_ticks(maximum)
    order = {"field": "op", "type": "nominal", "sort": "ascending"}
    places = {**base_encoding, "x": {**quantity("v", stack="zero"), **x}, "order": order, "tooltip": tooltips}
    bars = layer("bar", {**places, **_looks(view, ops)}, cornerRadiusEnd=0)
    layers = [bars, *_ranges(data, base_encoding, x)]
    labels = {**base_encoding, "x": quantity("end", **x), "text": {"field": "label", "type": "nominal"}}
    if any_cut:
        arrow = {**base_encoding, "tooltip": tooltips}
        arrows = base.cut_marks(arrow, "x", quantity("high_drawn", **x))
        arrows["mark"] |= {"fill": "@ink"}
        layers.append(arrows)
    label_layer = layer("text", labels, align="left", dx=9, fontSize=11, fill="@ink")
    layers.append({"transform": [FIRST, {"calculate": label, "as": "label"}], **label_layer})
    texts = [
        {"calculate": layout.metric_label(metric, "datum.v"), "as": "v_text"},
        {"calculate": _between("least", "most", metric), "as": "range_text"},
        {"calculate": _between("low", "high", metric), "as": "interval_text"},
    ]
    return chart_spec(data, transform=texts, encoding={}, layer=layers)


def _looks(view: ExperimentView, ops: Sequence[str]) -> Spec:
    """Returns colour and opacity of bars: colours are directions, or several measured series."""
    legend = {"title": None, "values": ops} if len(ops) > 1 or view.several else None
    op = {"field": "op", "type": "nominal", "legend": legend}
    if view.several and len({series.predicts for series in view.series}) == 1:
        names = [series.name for series in view.series]
        scale = {"domain": ["read", "write"], "range": [1, 0.55]}
        return {"color": layout.colour("series", names), "opacity": {**op, "scale": scale}}
    scale = {"domain": ["read", "write"], "range": ["@read", "@write"]}
    return {"color": {**op, "scale": scale}, "opacity": layout.opacity(view)}


def _ranges(data: Sequence[Spec], base_encoding: Spec, x: Spec) -> list[Spec]:
    """Returns the layers of intervals and ranges of repeats, if there are any."""
    layers: list[Spec] = []
    for ends, width, see in ((("low", "high_drawn"), 5.0, 0.45), (("least", "most"), 1.2, 0.9)):
        if all(row[ends[0]] is None for row in data):
            continue
        encoding = {**base_encoding, "x": quantity(ends[0], **x), "x2": {"field": ends[1]}}
        rule = layer("rule", encoding, strokeWidth=width, opacity=see, color="@ink")
        layers.append({"transform": [FIRST, {"filter": f"datum.{ends[0]} != null"}], **rule})
    return layers


def _between(low: str, high: str, metric: str) -> str:
    low_text = layout.metric_label(metric, f"datum.{low}")
    high_text = layout.metric_label(metric, f"datum.{high}")
    return f"datum.{low} == null ? '–' : ({low_text}) + ' to ' + ({high_text})"


def _fastest_table(view: ExperimentView, cells: Sequence[ReportCell], metric: str) -> TextTable:
    form = formatting.rate if metric == "bw" else formatting.number
    columns = [text_column("cell"), *campaign_column(view)]
    columns += number_columns("reads", "writes", "together", "range of repeats", "interval")
    body = []
    for cell in cells:
        total = cell.value(metric)
        if not total:
            continue
        row = [view.name(cell), *campaign_name(view, cell.series.name)]
        for direction in WAYS:
            row.append(form(cell.mean(f"{direction}.{metric}")))
        row.append(form(total.mean))
        row.append(f"{form(total.minimum)} to {form(total.maximum)}" if len(cell.runs) > 1 else formatting.NONE)
        row.append(formatting.NONE if None in (total.low, total.high) else f"{form(total.low)} to {form(total.high)}")
        body.append(row)
    return TextTable("Fastest", columns, body)
