"""The section on latency against offered load."""

from collections.abc import Iterator, Sequence

from blklab.outcome import LoadRamp, LoadStep
from blklab.report import formatting
from blklab.report.charts.base import Chart, Spec, chart_spec, duration_label, log_durations, quantity, tip
from blklab.report.experiment.layout import colour
from blklab.report.experiment.view import ExperimentView
from blklab.report.results import best_rate
from blklab.report.shell import PageSection
from blklab.report.tables.base import TextTable, figures, text


def section(view: ExperimentView) -> PageSection:
    """Returns the section; it is empty if no cell has a load ramp."""
    ramps = list(_ramps(view))
    charts = [
        _chart(kind, lines)
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
            if run.outcome is not None and "load_ramp" in run.outcome:
                yield f"{view.name(cell)}{campaign}{repeat}", run.outcome["load_ramp"]


def _steps(ramp: LoadRamp, kind: str) -> list[LoadStep]:
    """Returns the steps with latencies of reads, or of writes."""
    return [step for step in ramp["steps"] if "p99" in step["latency_ns"].get(kind, {})]


def _chart(kind: str, lines: Sequence[tuple[str, Sequence[LoadStep]]]) -> Chart:
    data: list[Spec] = [
        {"line": name, "x": round(step["iops"], 1), "v": step["latency_ns"][kind]["p99"]}
        for name, steps in lines
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
            "color": colour("line", [name for name, _ in lines], symbolType="stroke"),
            "tooltip": [tip("line", "cell"), tip("x", "IOPS", ",.0f"), tip("v_text", "p99")],
        },
    )
    body = [
        [
            name,
            "no limit" if step["offered_iops"] is None else f"{step['offered_iops']:,.0f}",
            f"{step['iops']:,.0f}",
            *(formatting.duration(step["latency_ns"][kind].get(figure)) for figure in ("mean", "p50", "p99")),
        ]
        for name, steps in lines
        for step in steps
    ]
    columns = [text("cell"), *figures("offered IOPS", "IOPS", "mean", "50 %", "99 %")]
    table = TextTable("Latency against load", columns, body)
    return Chart(f"load-{kind}", f"{kind}s: 99th percentile of the latency", spec, table)
