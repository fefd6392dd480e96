"""Charts of latency: percentiles on an axis of nines, histograms, and latency against offered load."""

import math
from collections.abc import Iterator, Sequence

from blklab.fio.latency import QUANTILES
from blklab.outcome import LatencyResult, LoadRamp, LoadStep
from blklab.report import formatting
from blklab.report.charts.base import (
    Chart,
    Spec,
    chart_spec,
    duration_label,
    layer,
    log_durations,
    quantity,
    tips,
    zoom,
)
from blklab.report.charts.theme import SERIES
from blklab.report.experiment.layout import campaign_tip, colour, dash, line_colour, line_label, panels, titled
from blklab.report.experiment.view import ExperimentView, ReportCell
from blklab.report.results import best_rate
from blklab.report.shell import Details, PageSection
from blklab.report.tables.base import TextTable, figures, text

TICKS = {"p50": "50", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99"}
BINS = 12  # Bins per decade of histograms
NAMES = {"read": "reads", "write": "writes", "sync": "fsyncs"}
OPEN = 4  # Number of charts that are not folded


def section(view: ExperimentView) -> PageSection:
    line = line_label(view)
    charts: list[Chart] = []
    for at, cells in enumerate(panels(view, line).values()):
        for direction, label in NAMES.items():
            mine = [cell for cell in cells if _clat(cell, direction)]
            if not mine:
                continue
            name = titled(view, mine, line)
            several = len([key for key in NAMES if any(_clat(cell, key) for cell in cells)]) > 1
            title = f"{name}, {label}" if name and several else name or label
            charts.append(_percentiles(view, mine, line, direction, f"percentiles-{at}-{direction}", title))
            charts += filter(None, [_histogram(view, mine, line, direction, f"histogram-{at}-{direction}", title)])
    folds = [Details(f"{len(charts) - OPEN} more", charts[OPEN:])] if len(charts) > OPEN else []
    intro = "From submission to completion, as the jobs measured it. Repeats are merged."
    return PageSection("latency", "Latency", "Latency", charts[:OPEN], intro, folds)


def _clat(cell: ReportCell, direction: str) -> list[LatencyResult]:
    latencies = [run.figures.latency(direction) for run in cell.runs]
    return [clat for clat in latencies if clat.count and clat.p50 is not None]


def _line(view: ExperimentView, cell: ReportCell, line: str | None) -> str:
    return cell.labels.get(line, "") if line else view.name(cell)


def _named(view: ExperimentView, cell: ReportCell, line: str | None) -> Spec:
    return {"line": _line(view, cell, line), "series": cell.series.name}


def _quantile(cell: ReportCell, direction: str, key: str) -> float | None:
    values = [value for clat in _clat(cell, direction) if (value := getattr(clat, key))]
    return sum(values) / len(values) if values else None


def nines(percent: float) -> float:
    """Returns the position of a quantile: 1 at 90 %, 2 at 99 %, 3 at 99.9 %."""
    return -math.log10(1 - percent / 100)


def _percentiles(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str, name: str, title: str
) -> Chart:
    data: list[Spec] = [
        {"x": round(nines(percent), 4), "q": f"{percent:.6g} %", "v": value, **_named(view, cell, line)}
        for cell in cells
        for key, percent in QUANTILES.items()
        if (value := _quantile(cell, direction, key)) is not None
    ]
    lines = list(dict.fromkeys(row["line"] for row in data))
    values = [row["v"] for row in data]
    places = {round(nines(QUANTILES[key]), 4): label for key, label in TICKS.items()}
    shown = " : ".join(f"abs(datum.value - {at}) < 0.001 ? '{t} %'" for at, t in places.items())
    y = log_durations(min(values) * 0.9, max(values) * 1.1, None)
    tooltips = tips(("line", line or "cell"), *campaign_tip(view), ("q", "percentile"), ("v_text", "latency"))
    spec = chart_spec(
        data,
        transform=[{"calculate": duration_label("datum.v"), "as": "v_text"}],
        mark={"type": "line", "point": {"size": 22}, "strokeWidth": 1.7, "clip": True},
        encoding={
            "x": quantity(
                "x",
                None,
                scale={"domain": [0, 4.08], "nice": False},
                axis={"values": list(places), "labelExpr": f"{shown} : ''", "grid": True},
            ),
            "y": {**quantity("v"), **y},
            "color": line_colour(view, lines, line),
            "strokeDash": dash(view, cells),
            "tooltip": tooltips,
        },
    )
    note = f"The latency that this share of the {NAMES[direction]} does not exceed."
    return Chart(name, f"{title}: percentiles", spec, _table(view, cells, line, direction), note)


def _table(view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str) -> TextTable:
    columns = [text(line or ""), *([text("campaign")] if view.several else [])]
    columns += figures("mean", *(f"{percent:.6g} %" for percent in QUANTILES.values()))
    body = [
        [
            _line(view, cell, line),
            *([cell.series.name] if view.several else []),
            *(formatting.duration(_quantile(cell, direction, key)) for key in ("mean", *QUANTILES)),
        ]
        for cell in cells
    ]
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
                    at = math.floor(BINS * math.log10(value))
                    counts[at] = counts.get(at, 0) + count
        total = sum(counts.values())
        counted += [cell] if total else []
        for at in range(min(counts, default=0), max(counts, default=-1) + 1):
            low, high = (round(10 ** (edge / BINS), 1) for edge in (at, at + 1))
            count = counts.get(at, 0)
            data.append({"low": low, "high": high, "share": count / total, "n": count, **_named(view, cell, line)})
    return data, counted


def _histogram(
    view: ExperimentView, cells: Sequence[ReportCell], line: str | None, direction: str, name: str, title: str
) -> Chart | None:
    data, counted = _binned(view, cells, line, direction)
    if not data:
        return None
    x = log_durations(min(row["low"] for row in data), max(row["high"] for row in data), None)
    lines = list(dict.fromkeys(row["line"] for row in data))
    middle = {"calculate": "sqrt(datum.low * datum.high)", "as": "middle"}
    bin_text = f"{duration_label('datum.low')} + ' – ' + {duration_label('datum.high')}"
    counted_tips = (("bin", "took"), ("n", "I/Os", ","), ("share", "share", ".2%"))
    tooltips = tips(("line", line or "cell"), *campaign_tip(view), *counted_tips)
    shared: Spec = {
        "x": {**quantity("middle"), **x},
        "y": quantity("share", "share of the I/Os", axis={"format": "%"}, stack=None),
        "color": line_colour(view, lines, line),
        "detail": {"field": "series", "type": "nominal"},
    }
    places = {**shared, "strokeDash": dash(view, counted), "tooltip": tooltips}
    steps = {"interpolate": "step", "clip": True}
    spec = chart_spec(
        data,
        transform=[middle, {"calculate": bin_text, "as": "bin"}],
        layer=[
            {**layer("area", shared, fillOpacity=0.2 / len(lines), **steps), "params": [zoom("x")]},
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
    charts = [
        _load_chart(kind, lines)
        for kind in ("read", "write")
        if (lines := [(name, _steps(ramp, kind)) for name, ramp in ramps if _steps(ramp, kind)])
    ]
    best = (f"{name}: {best_rate(ramp)}" for name, ramp in ramps if best_rate(ramp))
    intro = " ".join(["Each cell at several rates; the last point of a line has no limit.", *best])
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
    values = [row["v"] for row in data]
    spec = chart_spec(
        data,
        transform=[{"calculate": duration_label("datum.v"), "as": "v_text"}],
        mark={"type": "line", "point": {"size": 22}, "strokeWidth": 1.7},
        encoding={
            "x": quantity("x", "IOPS reached", scale={"type": "log", "nice": True}),
            "y": {**quantity("v"), **log_durations(min(values) * 0.9, max(values) * 1.1, None)},
            "order": {"field": "x", "type": "quantitative"},
            "color": colour("line", [name for name, _ in drawn], symbolType="stroke"),
            "tooltip": tips(("line", "cell"), ("x", "IOPS", ",.0f"), ("v_text", "p99")),
        },
    )
    body = [
        [
            name,
            "no limit" if step.offered_iops is None else f"{step.offered_iops:,.0f}",
            f"{step.iops:,.0f}",
            *(formatting.duration(step.latency_ns[kind].get(figure)) for figure in ("mean", "p50", "p99")),
        ]
        for name, steps in lines
        for step in steps
    ]
    columns = [text("cell"), *figures("offered IOPS", "IOPS", "mean", "50 %", "99 %")]
    table = TextTable("Latency against load", columns, body)
    note = f"The first {len(drawn)} of {len(lines)} lines; the table has all." if len(drawn) < len(lines) else ""
    return Chart(f"load-{kind}", f"{kind}s: 99th percentile of the latency", spec, table, note)
