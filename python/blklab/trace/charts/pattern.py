"""Charts of the access pattern: order, seeks, rhythm, hot blocks."""

from blklab.render import formatting
from blklab.render.chart import Chart, Spec, category, chart_spec, duration_label, layer, quantity, tip, tips
from blklab.trace import histogram
from blklab.trace.charts.bars import histogram_table
from blklab.trace.histogram import Bin
from blklab.trace.tables import pattern
from blklab.trace.view import DeviceView

DOTTED: Spec = {"color": "@accent", "point": {"color": "@accent", "size": 40}}


def order(device: DeviceView) -> Chart | None:
    kinds = ("back to back", "in a stream", "random")
    rows: list[Spec] = []
    for op in ("read", "write"):
        streams = device.streams(op)
        if not streams.ios:
            continue
        sequential = streams.sequential_ios
        strict = min(streams.strictly_sequential_ios, sequential)
        numbers = (strict, sequential - strict, streams.ios - sequential)
        for kind, number in zip(kinds, numbers, strict=True):
            rows.append({"op": op, "kind": kind, "n": number, "share": number / streams.ios})
    if not rows:
        return None
    tooltips = [tip("op", "operation"), tip("kind", "kind"), tip("n", "I/Os", ",")]
    spec = chart_spec(
        rows,
        mark={"type": "bar", "height": {"band": 0.6}, "cornerRadiusEnd": 0},
        encoding={
            "y": category("op", axis={"title": None, "labelFontSize": 12}),
            "x": quantity("share", None, axis={"format": "%", "tickCount": 5}, scale={"domain": [0, 1]}),
            "color": category(
                "kind", scale={"domain": list(kinds), "range": ["@accent", "@soft", "@line"]}, legend={"title": None}
            ),
            "tooltip": [*tooltips, tip("share", "share", ".2%")],
        },
    )
    spec["height"] = 60 * len({row["op"] for row in rows})
    return Chart(
        "order",
        "Sequential or random",
        spec,
        pattern.order(device),
        "Back to back: starts where the previous I/O ended; in a stream: continues another one.",
    )


def _seek_direction(distance_bin: Bin) -> str:
    if distance_bin.low == 0 == distance_bin.high:
        return "none"
    return "forward" if distance_bin.low > 0 else "backward"


def seeks(device: DeviceView) -> Chart | None:
    histograms = histogram.seek(device)
    if not histograms:
        return None
    rows = [
        {
            "distance": distance_bin.label.removeprefix("from ").removesuffix(" (sequential)"),
            "n": distance_bin.count,
            "share": distance_bin.count / histograms[0].total,
            "way": _seek_direction(distance_bin),
        }
        for distance_bin in histograms[0].bins
    ]
    axis = {"labelAngle": -90, "labelOverlap": True}
    spec = chart_spec(
        rows,
        mark={"type": "bar"},
        encoding={
            "x": category("distance", axis=axis, scale={"paddingInner": 0.1}),
            "y": quantity("share", "share of the seeks", axis={"format": "%"}),
            "color": category(
                "way",
                scale={"domain": ["backward", "none", "forward"], "range": ["@soft", "@line", "@accent"]},
                legend={"title": None},
            ),
            "tooltip": tips(
                ("way", "direction"), ("distance", "at least"), ("n", "seeks", ","), ("share", "share", ".2%")
            ),
        },
    )
    return Chart(
        "seeks",
        "Seek distances",
        spec,
        histogram_table(histograms[0]),
        "From the end of one read or write to the start of the next, by powers of two.",
    )


def arrival_charts(device: DeviceView) -> list[Chart]:
    """Returns the chart of arrivals over time."""
    dispersion = device.data.pattern.arrivals.dispersion
    rows: list[Spec] = [
        {
            "window": scale.window_ns,
            "name": formatting.duration(scale.window_ns),
            "index": scale.index,
            "mean": scale.mean_ios,
            "most": scale.max_ios,
        }
        for scale in dispersion
        if scale.index
    ]
    if len(rows) < 2:
        return []
    low = min(0.5, *(row["index"] for row in rows))
    high = max(2.0, *(row["index"] for row in rows)) * 1.3
    scale = {"type": "log", "domain": [low, high], "nice": False}
    decades = [float(10**power) for power in range(-1, 9) if low <= 10**power <= high]
    windows = [row["window"] for row in rows]
    x_scale = {**scale, "domain": [min(windows) * 0.7, max(windows) * 1.4]}
    x_axis = {"values": windows, "labelExpr": duration_label("datum.value"), "labelFlush": False}
    x = quantity("window", "window", scale=x_scale, axis=x_axis)
    y = quantity("index", "variance / mean", scale=scale, axis={"values": decades})
    tooltips = [tip("name", "window"), tip("index", "dispersion", ".3~r"), tip("mean", "mean", ".3~r")]
    spec = chart_spec(
        rows,
        layer=[
            {"data": {"values": [{"one": 1}]}, **layer("rule", {"y": quantity("one")}, strokeDash=[4, 3])},
            layer("line", {"x": x, "y": y, "tooltip": [*tooltips, tip("most", "most", ",")]}, **DOTTED),
        ],
    )
    return [
        Chart(
            "dispersion",
            "Burstiness",
            spec,
            pattern.arrivals(device),
            (
                "Index of dispersion of the I/Os in a window: 1 (dashed) is random, lower is steadier, "
                "higher is burstier at this time scale."
            ),
        )
    ]


def hotness_charts(device: DeviceView) -> list[Chart]:
    """Returns the chart of the accesses to blocks."""
    hotness = device.data.hotness
    points = hotness.rank_curve
    if len(points) < 2:
        return []
    unique = hotness.unique_bytes
    rows = [
        {
            "fraction": point.fraction,
            "share": point.io_share,
            "size": formatting.size(point.fraction * unique),
            "blocks": formatting.share(point.fraction),
        }
        for point in points
    ]
    low = points[0].fraction
    even = [{"fraction": low * (1 / low) ** (step / 40)} for step in range(41)]
    scale = {"type": "log", "domain": [low, 1], "nice": False}
    axis = {"format": ".3~%", "tickCount": 5}
    x = quantity("fraction", "hottest share of the blocks touched", scale=scale, axis=axis)
    y: Spec = {"axis": {"format": "%"}, "scale": {"domain": [0, 1]}}
    tooltips = [tip("blocks", "hottest"), tip("size", "which is"), tip("share", "of accesses", ".1%")]
    places = {"x": x, "y": quantity("share", "share of the accesses", **y)}
    dashes = {"strokeDash": [4, 3], "color": "@soft", "strokeWidth": 1}
    evenly = layer("line", {"x": x, "y": quantity("fraction", **y)}, **dashes)
    spec = chart_spec(
        rows,
        layer=[
            {"data": {"values": even}, **evenly},
            layer("area", places, color="@accent", fillOpacity=0.15),
            layer("line", {**places, "tooltip": tooltips}, **DOTTED),
        ],
    )

    return [
        Chart(
            "hotness",
            "Hot blocks",
            spec,
            pattern.hotness(device),
            "Share of accesses to the hottest blocks; dashed: if all blocks were accessed equally.",
        )
    ]
