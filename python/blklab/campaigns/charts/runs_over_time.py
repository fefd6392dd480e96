"""Draws the I/Os a second of each run over time.

A long series is drawn in buckets of equal length: their mean, and a band from their minimum to their maximum.
All charts of a page together have a limited number of points; the store has the complete series.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from blklab.campaigns import layout
from blklab.campaigns.charts.campaign_column import campaign_column, campaign_name
from blklab.campaigns.charts.folded_charts import more_charts
from blklab.campaigns.view import WORKLOAD, ExperimentView, ReportCell, group_cells
from blklab.compare.samples import over_time
from blklab.render import chart as base
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, chart_spec, layer, quantity, tip
from blklab.render.shell import Details, PageSection
from blklab.render.table import TextTable, number_columns, text_column
from blklab.store.query import StoredRun
from blklab.store.series import JOBS

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
    left_out = view.unknown_note
    view = view.known
    max_points = max(LEAST, min(MOST, POINTS // max(1, sum(len(cell.runs) for cell in view.cells))))
    charts: dict[str, list[Chart]] = {}
    for number, cells in enumerate(group_cells(view.order(view.cells), view.labels).values()):
        chart = _course_chart(view, cells, number, max_points)
        if chart is not None:
            charts.setdefault(cells[0].labels.get(WORKLOAD, ""), []).append(chart)
    all_charts = [chart for charts_of_workload in charts.values() for chart in charts_of_workload]
    title = "Over time"
    intro = f"Each point is an interval of a run; each line is a smoothed run. All jobs together. {left_out}".rstrip()
    if len(all_charts) <= OPEN_COURSES:
        return PageSection("time", "Over time", title, all_charts, intro)
    (_, first), *later_charts = charts.items()
    folds = more_charts(first, OPEN_COURSES)
    for workload, charts_of_workload in later_charts:
        folds.append(Details(f"{workload} ({len(charts_of_workload)})", charts_of_workload))
    return PageSection("time", "Over time", title, first[:OPEN_COURSES], intro, folds)


def run_line(cell: ReportCell, run: StoredRun, max_points: int) -> RunLine | None:
    """Returns a run in at most `max_points` points; None for a run without a series."""
    points = cell.points(run.id)
    values = over_time("iops", points)
    times = [point.time_ns for point in points if point.source == JOBS and point.width_ns > 0]
    if len(values) < 3:
        return None
    size = math.ceil(len(values) / max_points)
    buckets = [values[start : start + size] for start in range(0, len(values), size)]
    seconds = [round(times[start] / 1e9, 3) for start in range(0, len(values), size)]
    means = [sum(bucket) / len(bucket) for bucket in buckets]
    low = [min(bucket) for bucket in buckets]
    high = [max(bucket) for bucket in buckets]
    return RunLine(run, seconds, means, low, high, smooth_values(means), len(values))


def smooth_values(values: Sequence[float]) -> list[float]:
    """Returns the local mean of each point, with a Gaussian kernel that is truncated at the ends."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    width = max(0.8, SMOOTH * len(array))
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    total = np.convolve(array, kernel)[reach:-reach]
    smoothed_values: list[float] = (total / np.convolve(np.ones(len(array)), kernel)[reach:-reach]).tolist()
    return smoothed_values


def _course_chart(view: ExperimentView, cells: Sequence[ReportCell], number: int, max_points: int) -> Chart | None:
    run_lines = []
    for cell in cells:
        for run in cell.runs:
            line = run_line(cell, run, max_points)
            if line is not None:
                run_lines.append((cell, line))
    if not run_lines:
        return None
    has_buckets = any(line.intervals > len(line.values) for _, line in run_lines)
    data = [row for cell, line in run_lines for row in _course_rows(cell, line, has_buckets)]
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
        layer=_layers(view, high, has_buckets),
    )
    spec["height"] = 170
    per = max(math.ceil(line.intervals / len(line.values)) for _, line in run_lines)
    note = (f"Up to {per} intervals in a point; the band is from minimum to maximum.") if has_buckets else ""
    return Chart(f"time-{number}", view.name(cells[0]), spec, _course_table(view, run_lines), note)


def _logarithmic(data: Sequence[Spec], high: float) -> Spec:
    """Returns domain and ticks of a logarithmic axis, for the page's switch."""
    positive = [row["v"] for row in data if row["v"] > 0]
    # Smaller values are drawn at the lower end.
    low = min(max(min(positive, default=high) * 0.8, high / DECADES), high / 4)
    ticks = [tick for tick in base.log_ticks(low, high * 1.15) if low <= tick <= high * 1.15]
    return {"domain": [low, high * 1.15], "values": ticks}


def _course_rows(cell: ReportCell, line: RunLine, has_buckets: bool) -> list[dict[str, Any]]:
    rows = []
    for t, v, low, high, smooth in zip(line.seconds, line.values, line.low, line.high, line.smooth, strict=True):
        row: dict[str, Any] = {"t": t, "v": _short(v)}
        if has_buckets:
            row["l"] = _short(low)
            row["h"] = _short(high)
        row["s"] = _short(smooth)
        row["r"] = line.run.id
        row["c"] = cell.series.name
        rows.append(row)
    return rows


def _short(value: float) -> float:
    return round(value) if value >= 100 else round(value, 2)


def _layers(view: ExperimentView, high: float, has_buckets: bool) -> list[Spec]:
    y: Spec = {
        "title": "I/Os a second",
        "scale": {"type": "linear", "domain": [0, high * 1.05], "nice": False, "clamp": True},
        "axis": {"labelExpr": "format(datum.value, '~s')", "tickCount": 4, "minExtent": 44},
    }
    tooltips = [tip("t", "seconds", ".4~r"), tip("v", "I/Os a second", ",.3~r"), tip("r", "run")]
    if view.several:
        tooltips.append(tip("c", "campaign"))
    layers = []
    if has_buckets:
        band = {"y": quantity("l", **y), "y2": {"field": "h"}}
        layers.append(layer("area", band, fillOpacity=0.16, clip=True))
    point = {"y": quantity("v", **y), "tooltip": tooltips}
    layers.append(layer("point", point, filled=True, size=9, opacity=0.33, clip=True))
    line = layer("line", {"y": quantity("s", **y)}, strokeWidth=1.7, clip=True)
    layers.append({**line, "params": [base.zoom("x")]})
    return layers


def _course_table(view: ExperimentView, drawn: Sequence[tuple[ReportCell, RunLine]]) -> TextTable:
    """Returns a table of all runs: the series itself is in the store."""
    columns = [text_column("run"), *campaign_column(view)]
    columns += number_columns("seconds", "intervals", "mean", "median", "least", "most", "variation")
    body = []
    for cell, line in drawn:
        values = over_time("iops", cell.points(line.run.id))
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        body.append(
            [
                str(line.run.id),
                *campaign_name(view, cell.series.name),
                f"{line.run.figures.runtime_ns / 1e9:.3g}",
                formatting.count(line.intervals),
                *map(formatting.number, (mean, median(values), min(values), max(values))),
                formatting.share(deviation / mean if mean else None),
            ]
        )
    return TextTable("Over time", columns, body, "IOPS by interval; variation: standard deviation over mean.")
