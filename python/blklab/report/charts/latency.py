"""Charts of latency and its stages."""

from blklab.report import formatting, histogram
from blklab.report.charts import base
from blklab.report.charts.base import OPS, Chart, Spec, quantity, tip, tips
from blklab.report.charts.sizes import histogram_table
from blklab.report.tables import life
from blklab.report.tables.base import TextTable, figures
from blklab.report.view import STAGES, DeviceView


def charts(device: DeviceView) -> list[Chart]:
    """Returns the distribution of latencies and their stages."""
    return [c for c in (_distribution(device), _stages(device)) if c]


def _distribution(device: DeviceView) -> Chart | None:
    rows: list[Spec] = []
    histograms = histogram.latency(device)
    named = {formatting.ops(op): op for op in OPS}
    titles = []
    for histogram_ in histograms:
        op = named[histogram_.title.split()[-1]]
        titles.append(op)
        rows += [
            {"low": b.low, "high": b.high, "bin": b.label, "n": b.count, "op": op, "of": histogram_.total}
            for b in histogram_.bins
        ]
    if not rows:
        return None
    scale = base.log_durations(min(r["low"] for r in rows), max(r["high"] for r in rows), None)
    tooltips = [tip("op", "operation"), tip("bin", "took"), tip("n", "I/Os", ",")]
    spec = base.chart_spec(
        rows,
        transform=[{"calculate": "datum.n / datum.of", "as": "share"}],
        mark={"type": "bar", "fillOpacity": 0.42, "cornerRadiusEnd": 0, "clip": True},
        params=[base.zoom("x")],
        encoding={
            "x": {**quantity("low"), **scale},
            "x2": {"field": "high"},
            "y": quantity("share", "share of the operation's I/Os", axis={"format": "%"}, stack=None),
            "y2": {"datum": 0},
            "color": base.by_op(titles),
            "tooltip": [*tooltips, tip("share", "share of them", ".2%")],
        },
    )
    tables = [histogram_table(distribution) for distribution in histograms]
    stage = histograms[0].title.split()[0]
    merged = TextTable(
        f"{stage} distribution",
        [*figures("operation"), *tables[0].columns],
        [[op, *row] for op, distribution in zip(titles, tables, strict=True) for row in distribution.rows],
    )
    note = f"{stage}, {STAGES[stage.lower()]}; ten bins per decade, for each operation."
    return Chart("latency", "Latency distribution", spec, merged, note, wide=True)


def _stages(device: DeviceView) -> Chart | None:
    keys = ("p5", "p50", "p95", "p99")
    rows: list[Spec] = [
        {"stage": stage.upper(), "meaning": meaning, "op": op, "n": latency.count}
        | {key: getattr(latency, key) for key in keys}
        for op in device.ops
        for stage, meaning in STAGES.items()
        if (latency := device.latency(op, stage)) is not None and latency.count > 1
    ]
    if not rows:
        return None
    low, high = min(row["p5"] for row in rows), max(row["p99"] for row in rows)
    ops = [op for op in OPS if any(row["op"] == op for row in rows)]
    y = base.category("stage", axis={"grid": False, "title": None}, scale={"paddingInner": 0.25})
    offset = {"field": "op", "type": "nominal", "scale": {"domain": ops}}
    named = (("op", "operation"), ("meaning", "from"), ("n", "I/Os", ","))
    tooltips = tips(*named, *((f"{key}_text", key) for key in keys))
    shared = {"y": y, "yOffset": offset, "color": base.by_op(ops), "tooltip": tooltips}
    x = {**quantity("p5"), **base.log_durations(max(1, low * 0.9), high * 1.1, None)}
    stages = {row["stage"] for row in rows}
    spec = base.chart_spec(rows, transform=base.texts(base.duration_label, keys), layer=base.spans(shared, x))
    spec["height"] = max(120, 14 * len(rows) + 16 * len(stages))
    note = "From the 5th percentile to the 95th, paler to the 99th; the dot is the median."
    return Chart("stages", "Stages of latency", spec, life.stages(device), note)
