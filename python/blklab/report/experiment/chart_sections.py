"""The charts of the report on campaigns, with their tables: one section for each kind.

A long series over time is drawn in buckets of equal length: their mean, and a band from their minimum to their maximum.
All charts of a page together have a limited number of points; the store has the complete series.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from blklab.analysis.metrics import METRICS, WAYS, device_shares, lowest_devices, with_direction
from blklab.analysis.samples import over_time
from blklab.analysis.saturation import LOADS, LoadPoint, SaturationCurve, curves, in_flight
from blklab.fio.latency import QUANTILES
from blklab.outcome import LatencyResult, LoadRamp, LoadStep, Outcome
from blklab.report import formatting, runs
from blklab.report.charts import base
from blklab.report.charts.base import Chart, Spec, chart_spec, layer, quantity, tip, tips
from blklab.report.charts.theme import SERIES
from blklab.report.comparison import figure
from blklab.report.experiment import layout
from blklab.report.experiment.view import STACK, WORKLOAD, ExperimentView, ReportCell, best, grouped
from blklab.report.results import best_rate
from blklab.report.shell import Details, Item, PageSection
from blklab.report.tables.base import TableColumn, TextTable, figures, text
from blklab.store.query import StoredRun
from blklab.store.series import JOBS
from blklab.text import by_key, printable
from blklab.units import numeric

ORDERS = {"sequential": "Sequential I/O", "random": "Random I/O", "mixed": "Sequential and random I/O", "other": "I/O"}


def fastest_charts(view: ExperimentView) -> list[Chart]:
    """Returns a chart for sequential and one for random I/O."""
    charts = []
    for order, title in ORDERS.items():
        metric = "bw" if order == "sequential" else "iops"
        cells = [cell for cell in view.order(view.cells) if cell.order == order and cell.value(metric)]
        if cells:
            charts.append(_fastest_chart(view, cells, order, title, metric))
    return charts


def _campaign_column(view: ExperimentView) -> list[TableColumn]:
    """Returns the column with the campaign of a cell; none for one series."""
    return [text("campaign")] if view.several else []


def _campaign_name(view: ExperimentView, series: str) -> list[str]:
    """Returns what a row has in the column of campaigns, if there is one."""
    return [series] if view.several else []


def _fastest_chart(view: ExperimentView, cells: Sequence[ReportCell], order: str, title: str, metric: str) -> Chart:
    best_cells = view.order(best(view, cells, metric))
    drawn = best_cells[: layout.MOST_ROWS]
    laid = layout.rows(view, drawn, view.loads)
    data = [row for cell in drawn for row in _fastest_rows(view, cell, laid.of[id(cell)], metric)]
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
    if len(best_cells) > len(drawn):
        notes.append(f"The first {layout.MOST_ROWS} of {len(best_cells)}; the table below has all.")
    return Chart(f"fastest-{order}", title, spec, _fastest_table(view, best_cells, metric), " ".join(notes), wide=True)


def _fastest_rows(view: ExperimentView, cell: ReportCell, row: str, metric: str) -> list[Spec]:
    total = cell.value(metric)
    assert total is not None  # noqa: S101  # charts() chose those that have it
    repeated = len(cell.runs) > 1 and total.most > total.least
    other_labels: dict[str, Any] = {
        "row": row,
        "series": cell.series.name,
        "name": view.name(cell),
        "total": _round(total.mean),
        "least": _round(total.least) if repeated else None,
        "most": _round(total.most) if repeated else None,
        "low": None if total.low is None else _round(max(0.0, total.low)),
        "high": None if total.high is None else _round(total.high),
        "end": _round(max(total.mean, total.most, total.high or 0.0)),
    }
    rows: list[Spec] = []
    for direction in WAYS:
        mean = cell.mean(f"{direction}.{metric}")
        if mean:
            rows.append({**other_labels, "op": direction, "v": _round(mean), "first": not rows})
    return rows


def _round(value: float) -> float:
    return round(value, 1) if value < 1000 else round(value)


FIRST = {"filter": "datum.first"}  # Returns one row for each bar; the other direction is stacked on it


def _spec(view: ExperimentView, data: Sequence[Spec], metric: str) -> Spec:
    most = max((row["end"] for row in data), default=1.0) or 1.0
    label = layout.metric_label(metric, "datum.total")
    drawn_ops = {row["op"] for row in data}
    ops = [direction for direction in WAYS if direction in drawn_ops]
    shared = layout.offset(view)
    figures_of_bar = (("v_text", "mean"), ("range_text", "repeats"), ("interval_text", "interval"))
    tooltips = tips(("name", "cell"), *layout.campaign_tip(view), ("op", "direction"), *figures_of_bar)
    x: Spec = {
        "title": None,
        "scale": {"domain": [0, most * 1.13], "nice": False},
        "axis": {"labelExpr": layout.metric_label(metric, "datum.value"), "tickCount": 5, "grid": True},
    }
    if metric == "bw":
        x["axis"]["values"] = base.size_ticks(most)
    order = {"field": "op", "type": "nominal", "sort": "ascending"}
    places = {**shared, "x": {**quantity("v", stack="zero"), **x}, "order": order, "tooltip": tooltips}
    bars = layer("bar", {**places, **_looks(view, ops)}, cornerRadiusEnd=0)
    layers = [bars, *_ranges(data, shared, x)]
    labels = {**shared, "x": quantity("end", **x), "text": {"field": "label", "type": "nominal"}}
    written = layer("text", labels, align="left", dx=6, fontSize=11, fill="@ink")
    layers.append({"transform": [FIRST, {"calculate": label, "as": "label"}], **written})
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


def _ranges(data: Sequence[Spec], shared: Spec, x: Spec) -> list[Spec]:
    """Returns the layers of intervals and ranges of repeats, if there are any."""
    layers: list[Spec] = []
    for ends, width, see in ((("low", "high"), 5.0, 0.45), (("least", "most"), 1.2, 0.9)):
        if all(row[ends[0]] is None for row in data):
            continue
        encoding = {**shared, "x": quantity(ends[0], **x), "x2": {"field": ends[1]}}
        rule = layer("rule", encoding, strokeWidth=width, opacity=see, color="@ink")
        layers.append({"transform": [FIRST, {"filter": f"datum.{ends[0]} != null"}], **rule})
    return layers


def _between(low: str, high: str, metric: str) -> str:
    low_text = layout.metric_label(metric, f"datum.{low}")
    high_text = layout.metric_label(metric, f"datum.{high}")
    return f"datum.{low} == null ? '–' : ({low_text}) + ' to ' + ({high_text})"


def _fastest_table(view: ExperimentView, cells: Sequence[ReportCell], metric: str) -> TextTable:
    form = formatting.rate if metric == "bw" else formatting.number
    columns = [text("cell"), *_campaign_column(view)]
    columns += figures("reads", "writes", "together", "range of repeats", "interval")
    body = []
    for cell in cells:
        total = cell.value(metric)
        if not total:
            continue
        row = [view.name(cell), *_campaign_name(view, cell.series.name)]
        for direction in WAYS:
            row.append(form(cell.mean(f"{direction}.{metric}")))
        row.append(form(total.mean))
        row.append(f"{form(total.least)} to {form(total.most)}" if len(cell.runs) > 1 else formatting.NONE)
        row.append(formatting.NONE if None in (total.low, total.high) else f"{form(total.low)} to {form(total.high)}")
        body.append(row)
    return TextTable("Fastest", columns, body)


POINTS = 24_000  # Maximum number of points of all charts together: about 1.3 MB of the page
MOST = 240  # Maximum number of points of a run: the chart has no pixels for more
LEAST = 24  # Minimum number of points of a run, for any number of runs
OPEN_COURSES = 6  # Number of charts that are not folded
SMOOTH = 0.03  # Standard deviation of the smoothing kernel, as a share of the run


DECADES = 1e4  # Ratio of the largest to the smallest value on a logarithmic axis


@dataclass(frozen=True)
class RunLine:
    """A run over time, as drawn."""

    run: StoredRun
    seconds: Sequence[float]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    smooth: Sequence[float]
    intervals: int  # Number of intervals before bucketing


def course_section(view: ExperimentView) -> PageSection:
    """Returns the section; if there are many cells, only the first workload is not folded."""
    most = max(LEAST, min(MOST, POINTS // max(1, sum(len(cell.runs) for cell in view.cells))))
    charts: dict[str, list[Chart]] = {}
    for number, cells in enumerate(grouped(view.order(view.cells), view.labels).values()):
        chart = _course_chart(view, cells, number, most)
        if chart is not None:
            charts.setdefault(cells[0].labels.get(WORKLOAD, ""), []).append(chart)
    all_charts = [chart for charts_of_workload in charts.values() for chart in charts_of_workload]
    title = "Over time"
    intro = "Each point is an interval of a run; each line is a smoothed run. All jobs together."
    if len(all_charts) <= OPEN_COURSES:
        return PageSection("time", "Over time", title, all_charts, intro)
    (_, first), *folded = charts.items()
    folds = _more(first, OPEN_COURSES)
    for workload, charts_of_workload in folded:
        folds.append(Details(f"{workload} ({len(charts_of_workload)})", charts_of_workload))
    return PageSection("time", "Over time", title, first[:OPEN_COURSES], intro, folds)


def run_line(cell: ReportCell, run: StoredRun, most: int) -> RunLine | None:
    """Returns a run in at most `most` points; None for a run without a series."""
    points = cell.points(run.id)
    values = over_time("iops", points)
    times = [point.time_ns for point in points if point.source == JOBS and point.width_ns > 0]
    if len(values) < 3:
        return None
    size = math.ceil(len(values) / most)
    buckets = [values[at : at + size] for at in range(0, len(values), size)]
    seconds = [round(times[at] / 1e9, 3) for at in range(0, len(values), size)]
    means = [sum(bucket) / len(bucket) for bucket in buckets]
    low = [min(bucket) for bucket in buckets]
    high = [max(bucket) for bucket in buckets]
    return RunLine(run, seconds, means, low, high, smoothed(means), len(values))


def smoothed(values: Sequence[float]) -> list[float]:
    """Returns the local mean of each point, with a Gaussian kernel that is truncated at the ends."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    width = max(0.8, SMOOTH * len(array))
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    total = np.convolve(array, kernel)[reach:-reach]
    smoothed_values: list[float] = (total / np.convolve(np.ones(len(array)), kernel)[reach:-reach]).tolist()
    return smoothed_values


def _course_chart(view: ExperimentView, cells: Sequence[ReportCell], number: int, most: int) -> Chart | None:
    drawn = []
    for cell in cells:
        for run in cell.runs:
            line = run_line(cell, run, most)
            if line is not None:
                drawn.append((cell, line))
    if not drawn:
        return None
    bucketed = any(line.intervals > len(line.values) for _, line in drawn)
    data = [row for cell, line in drawn for row in _course_rows(cell, line, bucketed)]
    high = max(max(row.get("h", 0), row["v"]) for row in data) or 1.0
    names = [series.name for series in view.series if any(cell.series is series for cell in cells)]
    spec = chart_spec(
        data,
        usermeta={"log": _logarithmic(data, high)},
        encoding={
            "x": quantity("t", "seconds", scale={"nice": False}),
            "color": layout.colour("c", names, symbolType="stroke"),
            "detail": {"field": "r", "type": "nominal"},
        },
        layer=_layers(view, high, bucketed),
    )
    spec["height"] = 170
    per = max(math.ceil(line.intervals / len(line.values)) for _, line in drawn)
    note = (f"Up to {per} intervals in a point; the band is from minimum to maximum.") if bucketed else ""
    return Chart(f"time-{number}", view.name(cells[0]), spec, _course_table(view, drawn), note)


def _logarithmic(data: Sequence[Spec], high: float) -> Spec:
    """Returns domain and ticks of a logarithmic axis, for the page's switch."""
    positive = [row["v"] for row in data if row["v"] > 0]
    # Smaller values are drawn at the lower end.
    low = min(max(min(positive, default=high) * 0.8, high / DECADES), high / 4)
    ticks = [tick for tick in base.log_ticks(low, high * 1.15) if low <= tick <= high * 1.15]
    return {"domain": [low, high * 1.15], "values": ticks}


def _course_rows(cell: ReportCell, line: RunLine, bucketed: bool) -> list[dict[str, Any]]:
    rows = []
    for t, v, low, high, smooth in zip(line.seconds, line.values, line.low, line.high, line.smooth, strict=True):
        row: dict[str, Any] = {"t": t, "v": _short(v)}
        if bucketed:
            row["l"] = _short(low)
            row["h"] = _short(high)
        row["s"] = _short(smooth)
        row["r"] = line.run.id
        row["c"] = cell.series.name
        rows.append(row)
    return rows


def _short(value: float) -> float:
    return round(value) if value >= 100 else round(value, 2)


def _layers(view: ExperimentView, high: float, bucketed: bool) -> list[Spec]:
    y: Spec = {
        "title": "I/Os a second",
        "scale": {"type": "linear", "domain": [0, high * 1.05], "nice": False, "clamp": True},
        "axis": {"labelExpr": "format(datum.value, '~s')", "tickCount": 4, "minExtent": 44},
    }
    tooltips = [tip("t", "seconds", ".4~r"), tip("v", "I/Os a second", ",.3~r"), tip("r", "run")]
    if view.several:
        tooltips.append(tip("c", "campaign"))
    layers = []
    if bucketed:
        band = {"y": quantity("l", **y), "y2": {"field": "h"}}
        layers.append(layer("area", band, fillOpacity=0.16, clip=True))
    point = {"y": quantity("v", **y), "tooltip": tooltips}
    layers.append(layer("point", point, filled=True, size=9, opacity=0.33, clip=True))
    line = layer("line", {"y": quantity("s", **y)}, strokeWidth=1.7, clip=True)
    layers.append({**line, "params": [base.zoom("x")]})
    return layers


def _course_table(view: ExperimentView, drawn: Sequence[tuple[ReportCell, RunLine]]) -> TextTable:
    """Returns a table of all runs: the series itself is in the store."""
    columns = [text("run"), *_campaign_column(view)]
    columns += figures("seconds", "intervals", "mean", "median", "least", "most", "variation")
    body = []
    for cell, line in drawn:
        values = over_time("iops", cell.points(line.run.id))
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        body.append(
            [
                str(line.run.id),
                *_campaign_name(view, cell.series.name),
                f"{line.run.figures.runtime_ns / 1e9:.3g}",
                formatting.count(line.intervals),
                *map(formatting.number, (mean, median(values), min(values), max(values))),
                formatting.share(deviation / mean if mean else None),
            ]
        )
    return TextTable("Over time", columns, body, "IOPS by interval; variation: standard deviation over mean.")


TICKS = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99"}
BINS = 12  # Bins per decade of histograms
NAMES = {"read": "reads", "write": "writes", "sync": "fsyncs"}
OPEN_LATENCIES = 4  # Number of charts that are not folded


def latency_section(view: ExperimentView) -> PageSection:
    line = layout.line_label(view)
    charts: list[Chart] = []
    for number, cells in enumerate(layout.panels(view, line).values()):
        cells_by_direction = {}
        for direction in NAMES:
            timed = [cell for cell in cells if _clat(cell, direction)]
            if timed:
                cells_by_direction[direction] = timed
        for direction, timed in cells_by_direction.items():
            title = layout.titled(view, timed, line)
            if not title:
                title = NAMES[direction]
            elif len(cells_by_direction) > 1:
                title += f", {NAMES[direction]}"
            charts.append(_percentiles(view, timed, line, direction, f"percentiles-{number}-{direction}", title))
            histogram = _histogram(view, timed, line, direction, f"histogram-{number}-{direction}", title)
            if histogram:
                charts.append(histogram)
    intro = "From submission to completion, as the jobs measured it. Repeats are merged."
    folds = _more(charts, OPEN_LATENCIES)
    return PageSection("latency", "Latency", "Latency", charts[:OPEN_LATENCIES], intro, folds)


def _more(charts: Sequence[Chart], most: int) -> list[Details]:
    """Returns the charts after the first `most`, folded."""
    return [Details(f"{len(charts) - most} more", charts[most:])] if len(charts) > most else []


def _clat(cell: ReportCell, direction: str) -> list[LatencyResult]:
    latencies = [run.figures.latency(direction) for run in cell.runs]
    return [clat for clat in latencies if clat.count and clat.p50]  # A logarithmic axis has no 0


def _line(view: ExperimentView, cell: ReportCell, line: str | None) -> str:
    return cell.labels.get(line, "") if line else view.name(cell)


def _named(view: ExperimentView, cell: ReportCell, line: str | None) -> Spec:
    return {"line": _line(view, cell, line), "series": cell.series.name}


def _quantile(cell: ReportCell, direction: str, key: str) -> float | None:
    values = [getattr(clat, key) for clat in _clat(cell, direction)]
    measured = [value for value in values if value]
    return sum(measured) / len(measured) if measured else None


def nines(percent: float) -> float:
    """Returns the position of a quantile: 1 at 90 %, 2 at 99 %, 3 at 99.9 %."""
    return -math.log10(1 - percent / 100)


def _percentiles(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str, name: str, title: str
) -> Chart:
    data: list[Spec] = []
    for cell in cells:
        for key, percent in QUANTILES.items():
            latency = _quantile(cell, direction, key)
            if latency is not None:
                place = {"x": round(nines(percent), 4), "q": f"{percent:.6g} %", "v": latency}
                data.append({**place, **_named(view, cell, line)})
    lines = list(dict.fromkeys(row["line"] for row in data))
    places = {round(nines(QUANTILES[key]), 4): label for key, label in TICKS.items()}
    shown = " : ".join(f"abs(datum.value - {at}) < 0.001 ? '{t} %'" for at, t in places.items())
    tooltips = tips(("line", line or "cell"), *layout.campaign_tip(view), ("q", "percentile"), ("v_text", "latency"))
    axis = {"values": list(places), "labelExpr": f"{shown} : ''", "grid": True}
    x = quantity("x", scale={"domain": [0, 4.08], "nice": False}, axis=axis)
    hue = layout.line_colour(view, lines, line)
    spec = _latency_lines(data, x=x, color=hue, strokeDash=layout.dash(view, cells), tooltip=tooltips)
    note = f"The latency that this share of the {NAMES[direction]} does not exceed."
    return Chart(name, f"{title}: percentiles", spec, _latency_table(view, cells, line, direction), note)


def _latency_lines(data: Sequence[Spec], **encoding: Any) -> Spec:
    """Returns a chart with lines of the latencies `v`."""
    values = [row["v"] for row in data]
    y = {**quantity("v"), **base.log_durations(min(values) * 0.9, max(values) * 1.1, None)}
    label = {"calculate": base.duration_label("datum.v"), "as": "v_text"}
    mark = {"type": "line", "point": {"size": 22}, "strokeWidth": 1.7, "clip": True}
    return chart_spec(data, transform=[label], mark=mark, encoding={"y": y, **encoding})


def _latency_table(view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str) -> TextTable:
    columns = [text(line or ""), *_campaign_column(view)]
    columns += figures("mean", *(f"{percent:.6g} %" for percent in QUANTILES.values()))
    body = []
    for cell in cells:
        row = [_line(view, cell, line), *_campaign_name(view, cell.series.name)]
        for key in ("mean", *QUANTILES):
            row.append(formatting.duration(_quantile(cell, direction, key)))
        body.append(row)
    return TextTable("Percentiles", columns, body)


def _binned(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str
) -> tuple[list[Spec], list[ReportCell]]:
    """Returns a row for each bin of each cell, and the cells that have any."""
    data: list[Spec] = []
    counted: list[ReportCell] = []
    for cell in cells:
        counts: dict[int, int] = {}
        for clat in _clat(cell, direction):
            for value, count in clat.bins:
                if value > 0:
                    number = math.floor(BINS * math.log10(value))
                    counts[number] = counts.get(number, 0) + count
        total = sum(counts.values())
        if total:
            counted.append(cell)
        for number in range(min(counts, default=0), max(counts, default=-1) + 1):
            low = round(10 ** (number / BINS), 1)
            high = round(10 ** ((number + 1) / BINS), 1)
            count = counts.get(number, 0)
            data.append({"low": low, "high": high, "share": count / total, "n": count, **_named(view, cell, line)})
    return data, counted


def _histogram(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str, name: str, title: str
) -> Chart | None:
    data, counted = _binned(view, cells, line, direction)
    if not data:
        return None
    x = base.log_durations(min(row["low"] for row in data), max(row["high"] for row in data), None)
    lines = list(dict.fromkeys(row["line"] for row in data))
    middle = {"calculate": "sqrt(datum.low * datum.high)", "as": "middle"}
    bin_text = f"{base.duration_label('datum.low')} + ' – ' + {base.duration_label('datum.high')}"
    counted_tips = (("bin", "took"), ("n", "I/Os", ","), ("share", "share", ".2%"))
    tooltips = tips(("line", line or "cell"), *layout.campaign_tip(view), *counted_tips)
    shared: Spec = {
        "x": {**quantity("middle"), **x},
        "y": quantity("share", "share of the I/Os", axis={"format": "%"}, stack=None),
        "color": layout.line_colour(view, lines, line),
        "detail": {"field": "series", "type": "nominal"},
    }
    places = {**shared, "strokeDash": layout.dash(view, counted), "tooltip": tooltips}
    steps = {"interpolate": "step", "clip": True}
    spec = chart_spec(
        data,
        transform=[middle, {"calculate": bin_text, "as": "bin"}],
        layer=[
            {**layer("area", shared, fillOpacity=0.2 / len(lines), **steps), "params": [base.zoom("x")]},
            layer("line", places, strokeWidth=1.4, point={"size": 12, "opacity": 0}, **steps),
        ],
    )
    body = [
        [row["line"], row["series"], formatting.duration(row["low"]), formatting.count(row["n"])]
        for row in data
        if row["n"]
    ]
    columns = [text(line or ""), text("campaign"), *figures("from", "I/Os")]
    note = f"Twelve bins per decade; shares of each cell's {NAMES[direction]}."
    return Chart(name, f"{title}: distribution", spec, TextTable("Distribution", columns, body), note)


def load_section(view: ExperimentView) -> PageSection:
    """Returns the section on latency against offered load; it is empty if no cell has a load ramp."""
    ramps = list(_ramps(view))
    charts = []
    for kind in ("read", "write"):
        lines = [(name, _steps(ramp, kind)) for name, ramp in ramps if _steps(ramp, kind)]
        if lines:
            charts.append(_load_chart(kind, lines))
    rates = [f"{name}: {best_rate(ramp)}" for name, ramp in ramps if best_rate(ramp)]
    intro = " ".join(["Each cell at several rates; the last point of a line has no limit.", *rates])
    return PageSection("load", "Load", "Latency against load", charts, intro)


def _ramps(view: ExperimentView) -> Iterator[tuple[str, LoadRamp]]:
    for cell in view.cells:
        campaign = f" ({cell.series.name})" if view.several else ""
        for number, run in enumerate(cell.runs, 1):
            repeat = f" repeat {number}" if len(cell.runs) > 1 else ""
            if (ramp := run.figures.load_ramp) is not None:
                yield f"{view.name(cell)}{campaign}{repeat}", ramp


def _steps(ramp: LoadRamp, kind: str) -> list[LoadStep]:
    """Returns the steps with latencies of reads, or of writes."""
    return [step for step in ramp.steps if "p99" in step.latency_ns.get(kind, {})]


def _load_chart(kind: str, lines: Sequence[tuple[str, Sequence[LoadStep]]]) -> Chart:
    drawn = lines[: len(SERIES)]
    data: list[Spec] = [
        {"line": name, "x": round(step.iops, 1), "v": step.latency_ns[kind]["p99"]}
        for name, steps in drawn
        for step in steps
    ]
    spec = _latency_lines(
        data,
        x=quantity("x", "IOPS reached", scale={"type": "log", "nice": True}),
        order={"field": "x", "type": "quantitative"},
        color=layout.colour("line", [name for name, _ in drawn], symbolType="stroke"),
        tooltip=tips(("line", "cell"), ("x", "IOPS", ",.0f"), ("v_text", "p99")),
    )
    body = []
    for name, steps in lines:
        for step in steps:
            latencies = step.latency_ns[kind]
            row = [
                name,
                "no limit" if step.offered_iops is None else f"{step.offered_iops:,.0f}",
                f"{step.iops:,.0f}",
                formatting.duration(latencies.get("mean")),
                formatting.duration(latencies.get("p50")),
                formatting.duration(latencies.get("p99")),
            ]
            body.append(row)
    columns = [text("cell"), *figures("offered IOPS", "IOPS", "mean", "50 %", "99 %")]
    table = TextTable("Latency against load", columns, body)
    note = f"The first {len(drawn)} of {len(lines)} lines; the table has all." if len(drawn) < len(lines) else ""
    return Chart(f"load-{kind}", f"{kind}s: 99th percentile of the latency", spec, table, note)


NEGLIGIBLE = 0.01  # Share of a run's I/Os below which a direction has no shares: they are stray I/Os
MOST_DEVICES = 7  # Maximum number of devices with their own colour; the others are merged


def members_section(view: ExperimentView) -> PageSection:
    """Returns the section; empty if there are no counts of devices."""
    cells = [cell for cell in view.order(view.cells) if lowest_devices(cell.runs[0].figures)]
    several = [cell for cell in cells if len(lowest_devices(cell.runs[0].figures)) > 1]
    shown = view.order(best(view, several, "iops"))
    items: list[Item] = []
    for direction in WAYS:
        chart = _members_chart(view, shown, direction)
        if chart:
            items.append(chart)
    caches = runs.caches([(view.name(cell), cell.runs[0].figures) for cell in view.order(view.cells)])
    tables = (*_trees(view), _members_table(view, view.order(best(view, cells, "iops"))), caches)
    items += [table for table in tables if table]
    intro = "I/Os at the lowest devices, after merging."
    return PageSection("members", "Members", "Share of each device", items, intro)


def share(cell: ReportCell) -> dict[str, tuple[float | None, float | None]]:
    """Returns each device's share of a cell's reads and writes, the mean of its runs."""
    devices = [device for run in cell.runs for device in lowest_devices(run.figures)]
    total_reads = sum(device.ios[0] for device in devices)
    total_writes = sum(device.ios[1] for device in devices)
    negligible = NEGLIGIBLE * (total_reads + total_writes)
    shares_of_runs = [device_shares(run.figures) for run in cell.runs]
    pairs_by_name = by_key(pair for shares in shares_of_runs for pair in shares.items())
    shares_by_name = {}
    for name, pairs in pairs_by_name.items():
        reads = None if total_reads < negligible else _mean([pair[0] for pair in pairs])
        writes = None if total_writes < negligible else _mean([pair[1] for pair in pairs])
        shares_by_name[name] = (reads, writes)
    return shares_by_name


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None


def _members_chart(view: ExperimentView, cells: Sequence[ReportCell], direction: str) -> Chart | None:
    way = WAYS.index(direction)
    with_shares = [cell for cell in cells if any(pair[way] for pair in share(cell).values())]
    if not with_shares:
        return None
    drawn = with_shares[: layout.MOST_ROWS]
    laid = layout.rows(view, drawn, view.loads)
    names = sorted({name for cell in drawn for name in share(cell)})
    data: list[Spec] = []
    for cell in drawn:
        parts = {name: pair[way] or 0.0 for name, pair in share(cell).items()}
        for name in names[:MOST_DEVICES]:
            if name in parts:
                data.append(_members_row(view, cell, laid.of[id(cell)], printable(name), parts[name]))
        rest = sum(parts.get(name, 0.0) for name in names[MOST_DEVICES:])
        if rest:
            data.append(_members_row(view, cell, laid.of[id(cell)], "others", rest))
    order = list(dict.fromkeys(row["device"] for row in data))
    for row in data:
        row["at"] = order.index(row["device"])
    hue = layout.colour("device", order)
    if len(names) > MOST_DEVICES:
        hue["scale"]["range"] = [*hue["scale"]["range"][:MOST_DEVICES], "@soft"]
    axis = {"format": "%", "tickCount": 4}
    spec = chart_spec(
        data,
        mark={"type": "bar", "cornerRadiusEnd": 0},
        encoding={
            "y": laid.encoding(),
            **layout.offset(view),
            "x": quantity("share", stack="zero", scale={"domain": [0, 1]}, axis=axis),
            "color": hue,
            "order": {"field": "at", "type": "quantitative"},
            "opacity": layout.opacity(view),
            "tooltip": tips(
                ("name", "cell"),
                *layout.campaign_tip(view),
                ("device", "device"),
                ("share", f"of the {direction}s", ".1%"),
            ),
        },
    )
    spec["height"] = laid.height((12 if view.several else 15) * len(view.series), 16, 60)
    body = [
        [view.name(cell, series=True), printable(name), formatting.share(pair[way])]
        for cell in with_shares
        for name, pair in share(cell).items()
    ]
    table = TextTable("Shares", [text("cell"), text("device"), *figures("share")], body)
    return Chart(f"members-{direction}", f"{direction.capitalize()}s", spec, table)


def _members_row(view: ExperimentView, cell: ReportCell, row: str, device: str, amount: float) -> Spec:
    names = {"series": cell.series.name, "name": view.name(cell), "device": device}
    return {"row": row, **names, "share": round(amount, 4)}


def _members_table(view: ExperimentView, cells: Sequence[ReportCell]) -> TextTable:
    columns = [text("cell"), *_campaign_column(view), text("device")]
    columns += figures("reads", "writes", "IOPS", "each took", "in its queue", "merged into each", "busy")
    body = []
    for cell in cells:
        for figures_of_device in _figures(cell):
            body.append([view.name(cell), *_campaign_name(view, cell.series.name), *figures_of_device])
    return TextTable(
        "Devices",
        columns,
        body,
        (
            "reads and writes: share of all I/Os of the lowest devices. each took: from dispatch to completion. "
            "in its queue: mean number of requests in the device and its queue. Means of repeats. "
            "A direction with less than 1 % of the I/Os has no shares."
        ),
    )


def _figures(cell: ReportCell) -> Iterator[list[str]]:
    lowest = [(device, run.figures.observed_ns) for run in cell.runs for device in lowest_devices(run.figures)]
    for name, (reads, writes) in share(cell).items():
        mine = [(device, observed_ns) for device, observed_ns in lowest if device.name == name]
        runtime = sum(time for _, time in mine)
        devices = [device for device, _ in mine]
        ios = sum(sum(device.ios) for device in devices)
        ticks = _total([device.ticks_ns for device in devices])
        merged = _total([device.merges for device in devices])
        busy = _total([device.busy_ns for device in devices])
        yield [
            printable(name),
            *map(formatting.share, (reads, writes)),
            formatting.number(ios * 1e9 / runtime),
            formatting.duration(ticks / ios if ios and ticks is not None else None),
            formatting.number(None if ticks is None else ticks / runtime),
            formatting.number(merged / ios if ios and merged is not None else None),
            formatting.share(None if busy is None else min(1.0, busy / runtime)),
        ]


def _total(counts: Sequence[float | Sequence[float] | None]) -> float | None:
    """Returns the sum of a counter of devices; None if one of them has no such counter."""
    total: float = 0
    for count in counts:
        if count is None or count == ():
            return None
        total += count if isinstance(count, int | float) else sum(count)
    return total


def _trees(view: ExperimentView) -> Iterator[TextTable]:
    """Returns the devices below each target, if the kernel reported them: md over partitions over disks."""
    for members in grouped(view.cells, [STACK], series=True).values():
        cell = members[0]
        if not any(device.above for device in cell.runs[0].figures.devices):
            continue
        stack = cell.runs[0].labels.get(STACK, cell.series.name)
        title = f"Devices below {printable(str(stack))}"
        if view.several:
            title += f" ({cell.series.name})"
        columns = [text("device"), text("kind"), *figures("reads", "writes", "each took", "in its queue")]
        body = list(_branches(cell.runs[0].figures))
        yield TextTable(title, columns, body, f"I/Os in {view.name(cell)}, run {cell.runs[0].id}.")


def _branches(outcome: Outcome) -> Iterator[list[str]]:
    runtime = outcome.observed_ns
    names = {device.name for device in outcome.devices}

    def below(name: str | None, depth: int, seen: frozenset[str]) -> Iterator[list[str]]:
        for device in outcome.devices:
            above = [upper for upper in device.above if upper in names]
            if device.name in seen or (name is None and above) or (name is not None and name not in above):
                continue
            ios = device.ios
            ticks = device.ticks_ns
            yield [
                f"{'  ' * (depth - 1)}└ {printable(device.name)}" if depth else printable(device.name),
                printable(device.kind or ""),
                *map(formatting.count, ios),
                formatting.duration(sum(ticks) / sum(ios) if ticks and sum(ios) else None),
                formatting.number(sum(ticks) / runtime if ticks else None),
            ]
            yield from below(device.name, depth + 1, seen | {device.name})

    yield from below(None, 0, frozenset())


OPEN_AXES = 6  # Number of charts that are not folded
WIDE = 20.0  # Ratio of the largest to the smallest value from which an axis is logarithmic


def axes_section(view: ExperimentView, x: str | None, metric: str | None) -> PageSection:
    """Returns the section; the free chart begins with `x` and `metric`. Raises UsageError."""
    order = sorted(view.axes, key=lambda label: label not in LOADS)
    charts = [chart for label in order for chart in _over(view.drawn, label)]
    items: list[Item] = []
    chooser = layout.chooser(view, x, metric)
    if len(chooser.rows) > 1:
        items.append(chooser)
    knees = _knees(view)
    if knees:
        items.append(knees)
    items += charts[:OPEN_AXES]
    return PageSection("axes", "Axes", "Metrics by parameter", items, "", _more(charts, OPEN_AXES))


def _knees(view: ExperimentView) -> TextTable:
    """Returns the table of knees: where more load does not increase bandwidth."""
    named_curves: list[tuple[str, SaturationCurve]] = []
    if not set(LOADS).isdisjoint(view.labels):
        for series in view.series:
            measured = [(run.labels, run.cell, run.figures) for run in series.runs]
            named_curves += [(series.name, curve) for curve in curves(measured)]
    labels = list(dict.fromkeys(label for _, curve in named_curves for label in curve.labels))
    columns = [*_campaign_column(view), *(text(label) for label in labels)]
    columns += figures("knee at", "IOPS", "latency", "saturated at", "IOPS", "latency", "less from")
    body = []
    for name, curve in named_curves:
        row = _campaign_name(view, name)
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
        for name in names:
            metric = with_direction(name, [outcomes])
            measured = [cell for cell in cells if label in cell.labels and cell.value(metric)]
            if len({cell.labels[label] for cell in measured}) > 2:
                charts.append(_lines(view, measured, label, line, metric, number))
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
    texts = [
        {"calculate": layout.metric_label(metric, f"datum.{key}"), "as": f"{key}_text"} for key in ("v", "low", "high")
    ]
    line_tip = [("line", line)] if line else []
    named = [*line_tip, *layout.campaign_tip(view), ("value", label), ("v_text", METRICS[metric].what)]
    tooltips = tips(*named, ("low_text", "at least"), ("high_text", "at most"))
    x = {**quantity("x", label), **axis(xs, label)}
    hue = layout.line_colour(view, lines, line)
    points = {"y": quantity("v", **y), "color": hue}
    interval = {"y": quantity("low", **y), "y2": {"field": "high"}, "color": hue}
    ranges = layer("rule", interval, strokeWidth=4, opacity=0.25)
    line_places = {**points, "strokeDash": layout.dash(view, cells), "tooltip": tooltips}
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
    other_labels = layout.titled(view, cells, line, [label])
    title = f"{METRICS[metric].what[:1].upper()}{METRICS[metric].what[1:]} by {label}"
    if other_labels:
        title += f": {other_labels}"
    name = f"axis-{view.labels.index(label)}-{number}-{metric.rpartition('.')[2]}"
    return Chart(name, title, spec, _axes_table(view, data, label, line, metric), note)


def _scale(ys: Sequence[float], metric: str) -> Spec:
    """Returns the axis of a metric: logarithmic for latencies of different magnitude."""
    y: Spec = {
        "title": METRICS[metric].what,
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


def _axes_table(
    view: ExperimentView, data: Sequence[Mapping[str, Any]], label: str, line: str | None, metric: str
) -> TextTable:
    columns = [text(line)] if line else []
    columns += _campaign_column(view)
    columns += figures(label, METRICS[metric].what, "interval")
    body = []
    for row in data:
        interval = formatting.NONE
        if row["low"] is not None:
            interval = f"{figure(metric, row['low'])} to {figure(metric, row['high'])}"
        cells = [row["line"]] if line else []
        cells += [*_campaign_name(view, row["series"]), row["value"], figure(metric, row["v"]), interval]
        body.append(cells)
    return TextTable(f"{METRICS[metric].what} by {label}", columns, body)
