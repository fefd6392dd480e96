"""Draws percentiles and histograms of latencies."""

import math
from collections.abc import Sequence

from blklab.campaigns import layout
from blklab.campaigns.charts.campaign_column import campaign_column, campaign_name
from blklab.campaigns.charts.folded_charts import more_charts
from blklab.campaigns.charts.latency_lines import latency_lines
from blklab.campaigns.view import ExperimentView, ReportCell
from blklab.fio.latency import QUANTILES
from blklab.outcome import LatencyResult
from blklab.render import chart as base
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, chart_spec, layer, quantity, tips
from blklab.render.shell import PageSection
from blklab.render.table import TextTable, number_columns, text_column

TICKS = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99"}
BINS = 12  # Bins per decade of histograms
NAMES = {"read": "reads", "write": "writes", "sync": "fsyncs"}
MOST_COMPARED = 12  # Cells that have charts of their own in a comparison
OPEN_LATENCIES = 4  # Number of charts that are not folded


def latency_section(view: ExperimentView) -> PageSection:
    left_out = view.unknown_note
    view = view.known
    line = layout.line_label(view)
    if view.is_comparison and len(view.cells) <= MOST_COMPARED * len(view.series):
        line = None  # The lines of a chart are the sides of the comparison
    charts: list[Chart] = []
    for number, cells in enumerate(layout.panels(view, line).values()):
        cells_by_direction = {}
        for direction in NAMES:
            panel_cells = [cell for cell in cells if _clat(cell, direction)]
            if panel_cells:
                cells_by_direction[direction] = panel_cells
        for direction, panel_cells in cells_by_direction.items():
            title = layout.panel_title(view, panel_cells, line)
            if not title:
                title = NAMES[direction]
            elif len(cells_by_direction) > 1:
                title += f", {NAMES[direction]}"
            charts.append(_percentiles(view, panel_cells, line, direction, f"percentiles-{number}-{direction}", title))
            histogram = _histogram(view, panel_cells, line, direction, f"histogram-{number}-{direction}", title)
            if histogram:
                charts.append(histogram)
    intro = f"From submission to completion, as the jobs measured it. Repeats are merged. {left_out}".rstrip()
    folds = more_charts(charts, OPEN_LATENCIES)
    return PageSection("latency", "Latency", "Latency", charts[:OPEN_LATENCIES], intro, folds)


def _clat(cell: ReportCell, direction: str) -> list[LatencyResult]:
    latencies = [run.figures.latency(direction) for run in cell.runs]
    return [clat for clat in latencies if clat.count and clat.p50]  # A logarithmic axis has no 0


def _line(view: ExperimentView, cell: ReportCell, line: str | None) -> str:
    return cell.labels.get(line, "") if line else view.name(cell)


def _cell_fields(view: ExperimentView, cell: ReportCell, line: str | None) -> Spec:
    return {"line": _line(view, cell, line), "series": cell.series.name}


def _quantile(cell: ReportCell, direction: str, key: str) -> float | None:
    values = [getattr(clat, key) for clat in _clat(cell, direction)]
    nonzero = [value for value in values if value]
    return sum(nonzero) / len(nonzero) if nonzero else None


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
                data.append({**place, **_cell_fields(view, cell, line)})
    lines = list(dict.fromkeys(row["line"] for row in data))
    places = {round(nines(QUANTILES[key]), 4): label for key, label in TICKS.items()}
    shown = " : ".join(f"abs(datum.value - {position}) < 0.001 ? '{t} %'" for position, t in places.items())
    tooltips = tips(("line", line or "cell"), *layout.campaign_tip(view), ("q", "percentile"), ("v_text", "latency"))
    axis = {"values": list(places), "labelExpr": f"{shown} : ''", "grid": True}
    x = quantity("x", f"share of the {NAMES[direction]}", scale={"domain": [0, 4.08], "nice": False}, axis=axis)
    hue = layout.line_colour(view, lines, line)
    spec = latency_lines(data, x=x, color=hue, strokeDash=layout.dash(view, cells), tooltip=tooltips)
    note = f"The latency that this share of the {NAMES[direction]} does not exceed."
    return Chart(name, f"{title}: percentiles", spec, _latency_table(view, cells, line, direction), note)


def _latency_table(view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str) -> TextTable:
    columns = [text_column(line or ""), *campaign_column(view)]
    columns += number_columns("mean", *(f"{percent:.6g} %" for percent in QUANTILES.values()))
    body = []
    for cell in cells:
        row = [_line(view, cell, line), *campaign_name(view, cell.series.name)]
        for key in ("mean", *QUANTILES):
            row.append(formatting.duration(_quantile(cell, direction, key)))
        body.append(row)
    return TextTable("Percentiles", columns, body)


def _bin_rows(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str
) -> tuple[list[Spec], list[ReportCell]]:
    """Returns a row for each bin of each cell, and the cells that have any."""
    data: list[Spec] = []
    cells_with_bins: list[ReportCell] = []
    for cell in cells:
        counts: dict[int, int] = {}
        for clat in _clat(cell, direction):
            for value, count in clat.bins:
                if value > 0:
                    number = math.floor(BINS * math.log10(value))
                    counts[number] = counts.get(number, 0) + count
        total = sum(counts.values())
        if total:
            cells_with_bins.append(cell)
        for number in range(min(counts, default=0), max(counts, default=-1) + 1):
            low = round(10 ** (number / BINS), 1)
            high = round(10 ** ((number + 1) / BINS), 1)
            count = counts.get(number, 0)
            data.append(
                {"low": low, "high": high, "share": count / total, "n": count, **_cell_fields(view, cell, line)}
            )
    return data, cells_with_bins


def _histogram(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str, name: str, title: str
) -> Chart | None:
    data, cells_with_bins = _bin_rows(view, cells, line, direction)
    if not data:
        return None
    x = base.log_durations(min(row["low"] for row in data), max(row["high"] for row in data), None)
    lines = list(dict.fromkeys(row["line"] for row in data))
    middle = {"calculate": "sqrt(datum.low * datum.high)", "as": "middle"}
    bin_text = f"{base.duration_label('datum.low')} + ' – ' + {base.duration_label('datum.high')}"
    counted_tips = (("bin", "took"), ("n", "I/Os", ","), ("share", "share", ".2%"))
    tooltips = tips(("line", line or "cell"), *layout.campaign_tip(view), *counted_tips)
    base_encoding: Spec = {
        "x": {**quantity("middle"), **x},
        "y": quantity("share", "share of the I/Os", axis={"format": "%"}, stack=None),
        "color": layout.line_colour(view, lines, line),
        "detail": {"field": "series", "type": "nominal"},
    }
    places = {**base_encoding, "strokeDash": layout.dash(view, cells_with_bins), "tooltip": tooltips}
    steps = {"interpolate": "step", "clip": True}
    spec = chart_spec(
        data,
        transform=[middle, {"calculate": bin_text, "as": "bin"}],
        layer=[
            {**layer("area", base_encoding, fillOpacity=0.2 / len(lines), **steps), "params": [base.zoom("x")]},
            layer("line", places, strokeWidth=1.4, point={"size": 12, "opacity": 0}, **steps),
        ],
    )
    body = [
        [row["line"], row["series"], formatting.duration(row["low"]), formatting.count(row["n"])]
        for row in data
        if row["n"]
    ]
    columns = [text_column(line or ""), text_column("campaign"), *number_columns("from", "I/Os")]
    note = f"Twelve bins per decade; shares of each cell's {NAMES[direction]}."
    return Chart(name, f"{title}: distribution", spec, TextTable("Distribution", columns, body), note)
