"""Draws the latency against the offered load."""

from collections.abc import Iterator, Sequence

from blklab.campaigns import layout
from blklab.campaigns.charts.latency_lines import latency_lines
from blklab.campaigns.results import best_rate
from blklab.campaigns.view import ExperimentView
from blklab.outcome import LoadRamp, LoadStep
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, quantity, tips
from blklab.render.chart_theme import SERIES
from blklab.render.shell import PageSection
from blklab.render.table import TextTable, number_columns, text_column


def load_section(view: ExperimentView) -> PageSection:
    """Returns the section on latency against offered load; it is empty if no cell has a load ramp."""
    all_ramps = list(_ramps(view))
    ramps = [(name, ramp) for name, ramp, is_known in all_ramps if is_known]
    charts = []
    for kind in ("read", "write"):
        steps_by_name = [(name, _steps(ramp, kind)) for name, ramp in ramps if _steps(ramp, kind)]
        if steps_by_name:
            charts.append(_load_chart(kind, steps_by_name))
    lines = ["Each cell at several rates; the last point of a line has no limit."]
    for name, ramp, is_known in all_ramps:
        rate = best_rate(ramp, is_known=is_known)
        if rate:
            lines.append(f"{name}: {rate}")
    unknown_count = len(all_ramps) - len(ramps)
    if unknown_count:
        lines.append(f"{formatting.plural(unknown_count, 'line')} left out: the figures are not known.")
    return PageSection("load", "Load", "Latency against load", charts, " ".join(lines))


def _ramps(view: ExperimentView) -> Iterator[tuple[str, LoadRamp, bool]]:
    """Yields the name of each ramp, the ramp, and whether its figures are known."""
    for cell in view.cells:
        campaign = f" ({cell.series.name})" if view.several else ""
        for number, run in enumerate(cell.runs, 1):
            repeat = f" repeat {number}" if len(cell.runs) > 1 else ""
            if (ramp := run.figures.load_ramp) is not None:
                yield f"{view.name(cell)}{campaign}{repeat}", ramp, run.figures.is_known


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
    spec = latency_lines(
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
    columns = [text_column("cell"), *number_columns("offered IOPS", "IOPS", "mean", "50 %", "99 %")]
    table = TextTable("Latency against load", columns, body)
    note = f"The first {len(drawn)} of {len(lines)} lines; the table has all." if len(drawn) < len(lines) else ""
    return Chart(f"load-{kind}", f"{kind}s: 99th percentile of the latency", spec, table, note)
