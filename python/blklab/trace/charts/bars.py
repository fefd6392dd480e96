"""Bar charts: latency and its stages, request sizes, and I/Os by process, source device and CPU."""

from collections.abc import Sequence

from blklab.render import chart as base
from blklab.render import formatting
from blklab.render.chart import OPS, Chart, Spec, category, chart_spec, quantity, tip, tips
from blklab.render.table import BAR, TextTable, number_columns
from blklab.trace import histogram
from blklab.trace.histogram import Bin, Histogram
from blklab.trace.tables import life, load
from blklab.trace.view import STAGES, DeviceView

FEW = 8  # Number of bins below which bars are narrower, so that few bars do not fill the chart
MOST_LABELS = 28  # Maximum number of bins with their own bar
NAMED = 64 << 10  # The largest size, in bytes, with its own bar if there are more bins than that
HALF = 2 << 10  # Half the width of a bin in bytes
MOST_BARS = 14  # Maximum number of bars; the others are added up
ORIGINS = {"processes": "By process", "sources": "By source device", "cpus": "By CPU"}


def latency_charts(device: DeviceView) -> list[Chart]:
    """Returns the distribution of latencies and their stages."""
    return [chart for chart in (_distribution(device), _stages(device)) if chart]


def _distribution(device: DeviceView) -> Chart | None:
    rows: list[Spec] = []
    histograms = histogram.latency(device)
    ops_by_name = {formatting.ops(op): op for op in OPS}
    titles = []
    for op_histogram in histograms:
        op = ops_by_name[op_histogram.title.split()[-1]]
        titles.append(op)
        rows += [
            {"low": b.low, "high": b.high, "bin": b.label, "n": b.count, "op": op, "of": op_histogram.total}
            for b in op_histogram.bins
        ]
    if not rows:
        return None
    scale = base.log_durations(min(r["low"] for r in rows), max(r["high"] for r in rows), None)
    tooltips = [tip("op", "operation"), tip("bin", "took"), tip("n", "I/Os", ",")]
    spec = chart_spec(
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
    table_rows = []
    for op, distribution in zip(titles, tables, strict=True):
        table_rows += [[op, *row] for row in distribution.rows]
    table = TextTable(f"{stage} distribution", [*number_columns("operation"), *tables[0].columns], table_rows)
    note = f"{stage}, {STAGES[stage.lower()]}; ten bins per decade, for each operation."
    return Chart("latency", "Latency distribution", spec, table, note, wide=True)


def _stages(device: DeviceView) -> Chart | None:
    keys = ("p5", "p50", "p95", "p99")
    rows: list[Spec] = []
    for op in device.ops:
        for stage, meaning in STAGES.items():
            latency = device.latency(op, stage)
            if latency is not None and latency.count > 1:
                quantiles = {key: getattr(latency, key) for key in keys}
                rows.append({"stage": stage.upper(), "meaning": meaning, "op": op, "n": latency.count, **quantiles})
    if not rows:
        return None
    low = min(row["p5"] for row in rows)
    high = max(row["p99"] for row in rows)
    ops = _operations(rows)
    y = category("stage", axis={"grid": False, "title": None}, scale={"paddingInner": 0.25})
    offset = {"field": "op", "type": "nominal", "scale": {"domain": ops}}
    tooltip_fields = (("op", "operation"), ("meaning", "from"), ("n", "I/Os", ","))
    tooltips = tips(*tooltip_fields, *((f"{key}_text", key) for key in keys))
    base_encoding = {"y": y, "yOffset": offset, "color": base.by_op(ops), "tooltip": tooltips}
    x = {**quantity("p5"), **base.log_durations(max(1, low * 0.9), high * 1.1, None)}
    stages = {row["stage"] for row in rows}
    spec = chart_spec(rows, transform=base.texts(base.duration_label, keys), layer=base.spans(base_encoding, x))
    spec["height"] = max(120, 14 * len(rows) + 16 * len(stages))
    return Chart(
        "stages",
        "Stages of latency",
        spec,
        life.stages(device),
        "From the 5th percentile to the 95th, paler to the 99th; the dot is the median.",
    )


def _operations(rows: Sequence[Spec]) -> list[str]:
    """Returns the operations that rows are of, in their usual order."""
    present = {row["op"] for row in rows}
    return [op for op in OPS if op in present]


def size_charts(device: DeviceView) -> list[Chart]:
    """Returns a histogram for each operation that has sizes: bins of 4 KiB, centred on the size."""
    ops_by_name = {formatting.ops(op): op for op in OPS}
    return [
        _size_chart(op_histogram, ops_by_name[op_histogram.title.split()[-1]])
        for op_histogram in histogram.sizes(device)
    ]


def _size_chart(op_histogram: Histogram, op: str) -> Chart:
    total = op_histogram.total
    rows: list[Spec] = [
        {
            "size": size_bin.label,
            "low": size_bin.low,
            "high": size_bin.high,
            "n": size_bin.count,
            "op": op,
            "moved": _bin_bytes(size_bin),
        }
        for size_bin in _merge_large_bins(op_histogram.bins)
    ]
    colour = {"field": "op", "type": "nominal", "scale": {"domain": OPS}, "legend": None}
    tooltips = [tip("size", "size"), tip("n", "I/Os", ","), tip("share", "share", ".2%")]
    tooltips.append(tip("of_bytes", "share of the bytes", ".2%"))
    encoding: Spec = {"y": quantity("n", "I/Os", axis={"tickMinStep": 1}), "color": colour, "tooltip": tooltips}
    spec = chart_spec(rows, mark={"type": "bar"}, encoding=encoding)
    total_bytes = sum(map(_bin_bytes, op_histogram.bins)) or 1.0
    spec["transform"] = [
        {"calculate": f"datum.n / {total}", "as": "share"},
        {"calculate": f"datum.moved / {total_bytes}", "as": "of_bytes"},
    ]
    spec["mark"]["width"] = {"band": min(1.0, len(rows) / FEW)}
    encoding["x"] = category(
        "size",
        axis={"labelAngle": -45 if len(rows) > 6 else 0, "labelOverlap": False},
        scale={"paddingInner": 0.15, "paddingOuter": 0.1},
    )
    note = f"{op_histogram.note[0].upper()}{op_histogram.note[1:]}."
    if len(rows) < len(op_histogram.bins):
        note += f" Above {formatting.size(NAMED)}, bins double; the table has all bins."
    return Chart(f"sizes-{op}", op_histogram.title, spec, histogram_table(op_histogram, by_bytes=True), note)


def _bin_bytes(size_bin: Bin) -> float:
    """Returns the bytes of the I/Os in a bin of sizes, which is centred on the size."""
    return size_bin.count * (size_bin.low + size_bin.high) / 2


def _merge_large_bins(bins: Sequence[Bin]) -> list[Bin]:
    """Returns the bins; if there are many, those above NAMED are merged into doubling bins."""
    if len(bins) <= MOST_LABELS:
        return list(bins)
    result = [size_bin for size_bin in bins if size_bin.high <= NAMED + HALF]
    low = NAMED
    while low < bins[-1].high:
        inside = [size_bin for size_bin in bins if low + HALF <= size_bin.low < 2 * low + HALF]
        if inside:
            label = f"–{formatting.size(2 * low)}"
            result.append(Bin(label, low + HALF, 2 * low + HALF, sum(size_bin.count for size_bin in inside)))
        low *= 2
    return result


def histogram_table(op_histogram: Histogram, *, by_bytes: bool = False) -> TextTable:
    """Returns the bins with their shares; of sizes also those of the bytes."""
    rows = []
    so_far = 0.0
    total_bytes = sum(map(_bin_bytes, op_histogram.bins)) or 1.0
    for histogram_bin in op_histogram.bins:
        so_far += histogram_bin.count
        share = histogram_bin.count / op_histogram.total
        count = (
            formatting.duration(histogram_bin.count)
            if op_histogram.unit == "ns"
            else formatting.count(int(histogram_bin.count))
        )
        row = [
            histogram_bin.label,
            count,
            formatting.share(share),
            formatting.share(so_far / op_histogram.total),
            str(share),
        ]
        if by_bytes:
            row.append(formatting.share(_bin_bytes(histogram_bin) / total_bytes))
        rows.append(row)
    unit = "time" if op_histogram.unit == "ns" else "I/Os"
    columns = [*number_columns("", unit, "share", "so far"), BAR]
    if by_bytes:
        columns += number_columns("of the bytes")
    return TextTable(op_histogram.title, columns, rows)


def origin_charts(device: DeviceView) -> list[Chart]:
    """Returns the I/Os by process, source and CPU."""
    charts = []
    for kind in ORIGINS:
        if kind == "sources" and not device.is_fed:
            continue
        chart = _bars(device, kind)
        if chart:
            charts.append(chart)
    return charts


def _bars(device: DeviceView, kind: str) -> Chart | None:
    groups = device.groups(kind)
    if not groups or not device.ios:
        return None
    rows: list[Spec] = []
    for group in groups[:MOST_BARS]:
        for op, number in group.ios.items():
            if number:
                rows.append({"name": group.label, "op": op, "n": number, "share": number / device.ios})
    other_groups = groups[MOST_BARS:]
    for op in OPS:
        number = sum(group.ios[op] for group in other_groups)
        if number:
            rows.append({"name": f"{len(other_groups)} others", "op": op, "n": number, "share": number / device.ios})
    names = list(dict.fromkeys(row["name"] for row in rows))
    rank, order = base.stacking()
    spec = chart_spec(
        rows,
        transform=[rank],
        mark={"type": "bar", "cornerRadiusEnd": 0},
        encoding={
            "y": {**category("name", axis={"title": None, "labelFontSize": 12}), "sort": names},
            "x": quantity("n", "I/Os", axis={"tickCount": 4, "format": ",d"}),
            "color": base.by_op(_operations(rows)),
            "order": order,
            "tooltip": tips(
                ("name", load.KINDS[kind].lower()), ("op", "operation"), ("n", "I/Os", ","), ("share", "of all", ".2%")
            ),
        },
    )
    spec["height"] = max(70, 24 * len(names))
    return Chart(f"by-{kind}", ORIGINS[kind], spec, load.groups(device, kind, limit=200))
