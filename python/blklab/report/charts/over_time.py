"""Charts of load and latency over time."""

from collections.abc import Mapping
from typing import Any, Final, cast

from blklab.report import formatting
from blklab.report.charts.base import (
    Chart,
    Spec,
    by_op,
    category,
    chart_spec,
    duration_label,
    layer,
    log_durations,
    quantity,
    size_axis,
    size_label,
    stacking,
    texts,
    tip,
    zoom,
)
from blklab.report.tables.base import TextTable, figures
from blklab.report.view import BLOCK, DeviceView

OPS: Final = ["read", "write", "other"]
UNITS: Final = (("h", 3600e9, 3 * 3600e9), ("min", 60e9, 600e9), ("s", 1e9, 0.0))
"""Units of the time axis: name, ns, and the length from which it is used."""


class TimeSlices:
    """Time slices as rows, in the units of the axes."""

    def __init__(self, device: DeviceView) -> None:
        width, slices = device.slices()
        self.width_ns = width
        self.seconds = width / 1e9
        end = slices[-1]["start_ns"] + width if slices else 0
        length = end - (slices[0]["start_ns"] if slices else 0)
        self.unit, per = next((name, ns) for name, ns, least in UNITS if length >= least)
        self.rows: list[Spec] = []
        for slice_ in slices:
            self.rows.append(
                {
                    "t": round(slice_["start_ns"] / per, 4),
                    "when": formatting.duration(slice_["start_ns"]),
                    "read": self._rate(slice_["reads"]),
                    "write": self._rate(slice_["writes"]),
                    "other": self._rate(slice_["others"]),
                    "read_bytes": self._rate(slice_["read_bytes"]),
                    "write_bytes": self._rate(slice_["write_bytes"]),
                    **{k: cast(Mapping[str, int | None], slice_)[f"{k}_ns"] for k in QUANTILES},
                    "touched": slice_["unique_blocks"] * BLOCK,
                    "so_far": slice_["unique_blocks_so_far"] * BLOCK,
                }
            )

    def _rate(self, amount: int) -> float:
        return round(amount / self.seconds, 2)

    def present(self, *keys: str) -> list[str]:
        """Returns the keys that are not always 0."""
        return [key for key in keys if any(row[key] for row in self.rows)]


HOVER: Final = {"type": "point", "fields": ["t"], "nearest": True, "on": "pointerover", "clear": "pointerout"}

AXIS: Final = 62
"""Width of the vertical axis in pixels, the same in all charts."""

QUANTILES: Final = ("read_p50", "read_p99", "write_p50", "write_p99")


def charts(device: DeviceView) -> list[Chart]:
    """Returns all charts over time; none if there is only one slice."""
    slices = TimeSlices(device)
    if len(slices.rows) < 2:
        return []
    charts_drawn = [_iops(slices), _throughput(slices), _latency(slices), _mix(slices)]
    return [chart for chart in (*charts_drawn, _working_set(slices, device)) if chart]


def _time(slices: TimeSlices) -> Spec:
    return quantity("t", f"time since the trace began ({slices.unit})", scale={"nice": False})


def _over_time(slices: TimeSlices, keys: list[str], layers: list[Spec], tooltips: list[Spec]) -> Spec:
    """Returns layers over time with a rule that follows the pointer and shows the figures there."""
    rule: Spec = {
        "mark": {"type": "rule", "strokeWidth": 1},
        "encoding": {
            "opacity": {"condition": {"param": "hover", "empty": False, "value": 1}, "value": 0},
            "tooltip": [tip("when", "from"), *tooltips],
        },
        "params": [{"name": "hover", "select": HOVER}],
    }
    layers[0]["params"] = [zoom("x")]
    for spec in layers:  # so that the time axes of all charts are aligned
        y = spec["encoding"]["y"]
        y["axis"] = {**y.get("axis", {}), "minExtent": AXIS, "maxExtent": AXIS}
    rows = [{key: row[key] for key in ("t", "when", *keys)} for row in slices.rows]
    return chart_spec(rows, encoding={"x": _time(slices)}, layer=[*layers, rule])


def _stacked(keys: list[str], axis: Spec, **stack: Any) -> Spec:
    ops = [key.removesuffix("_bytes") for key in keys]
    naming = {"calculate": "replace(datum.key, '_bytes', '')", "as": "op"}
    rank, order = stacking()
    y = {**quantity("value"), **axis, **stack}
    encoding = {"y": y, "color": by_op(ops, OPS), "order": order}
    areas = layer("area", encoding, interpolate="step-after", clip=True)
    return {**areas, "transform": [{"fold": keys, "as": ["key", "value"]}, naming, rank]}


def _table(title: str, slices: TimeSlices, columns: dict[str, tuple[str, Any]]) -> TextTable:
    rows = [[row["when"], *(form(row[key]) for key, (_, form) in columns.items())] for row in slices.rows]
    return TextTable(title, figures("from", *(heading for heading, _ in columns.values())), rows)


def _iops(slices: TimeSlices) -> Chart:
    keys = slices.present(*OPS)
    tooltips = [tip(key, f"{key}s a second", ",.3~r") for key in keys]
    spec = _over_time(slices, keys, [_stacked(keys, {"title": "I/Os a second"})], tooltips)
    table = _table("IOPS", slices, {key: (f"{key}s/s", formatting.number) for key in keys})
    note = f"I/Os queued, in slices of {formatting.duration(slices.width_ns)}."
    return Chart("iops", "IOPS", spec, table, note, wide=True)


def _throughput(slices: TimeSlices) -> Chart | None:
    keys = slices.present("read_bytes", "write_bytes")
    if not keys:
        return None
    axis = size_axis(max(sum(row[key] for key in keys) for row in slices.rows), "bytes a second")
    names = {key: key.removesuffix("_bytes") for key in keys}
    tooltips = [tip(f"{key}_text", f"{name} a second") for key, name in names.items()]
    spec = _over_time(slices, keys, [_stacked(keys, axis)], tooltips)
    spec["transform"] = texts(size_label, keys)
    columns = {key: (f"{name}/s", formatting.size) for key, name in names.items()}
    return Chart("throughput", "Throughput", spec, _table("Throughput", slices, columns), wide=True)


def _latency(slices: TimeSlices) -> Chart | None:
    keys = slices.present(*QUANTILES)
    values = [row[key] for row in slices.rows for key in keys if row[key]]
    if not values:
        return None
    split = [
        {"calculate": "split(datum.key, '_')[0]", "as": "op"},
        {"calculate": "split(datum.key, '_')[1] == 'p50' ? 'median' : '99 %'", "as": "quantile"},
    ]
    scale = log_durations(min(values), max(values) * 1.1, "Q2C")
    colour = by_op([op for op in ("read", "write") if f"{op}_p50" in keys], OPS)
    if colour["legend"]:
        colour["legend"] |= {"symbolType": "stroke"}
    dashes = category(
        "quantile",
        scale={"domain": ["median", "99 %"], "range": [[1, 0], [3, 2]]},
        legend={"title": None, "symbolType": "stroke", "symbolSize": 250},
    )
    encoding = {"y": {**quantity("value"), **scale}, "color": colour, "strokeDash": dashes}
    lines = layer("line", encoding, clip=True, strokeWidth=1.4, point={"size": 5})
    lines["transform"] = [{"fold": keys, "as": ["key", "value"]}, *split]
    names = {"p50": "median", "p99": "99 %"}
    titles = {key: f"{key.split('_')[0]} {names[key.split('_')[1]]}" for key in keys}
    tooltips = [tip(f"{key}_text", title) for key, title in titles.items()]
    spec = _over_time(slices, keys, [lines], tooltips)
    spec["transform"] = texts(duration_label, keys)
    columns = {key: (title, formatting.duration) for key, title in titles.items()}
    table = _table("Latency over time", slices, columns)
    note = "Time from queued to completed, of the I/Os completed in a slice; write: all except reads."
    return Chart("latency-over-time", "Latency over time", spec, table, note, wide=True)


def _mix(slices: TimeSlices) -> Chart | None:
    keys = slices.present(*OPS)
    if len(keys) < 2:
        return None
    axis = {"title": "share of the I/Os", "axis": {"format": "%", "tickCount": 4}}
    tooltips = [tip(key, f"{key}s a second", ",.3~r") for key in keys]
    spec = _over_time(slices, keys, [_stacked(keys, axis, stack="normalize")], tooltips)

    def shares(row: Spec) -> list[str]:
        total = sum(row[key] for key in keys)
        return [formatting.share(row[key] / total if total else None) for key in keys]

    rows = [[row["when"], *shares(row)] for row in slices.rows]
    table = TextTable("Mix", figures("from", *(f"{key}s" for key in keys)), rows)
    return Chart("mix", "Mix over time", spec, table, wide=True)


def _working_set(slices: TimeSlices, device: DeviceView) -> Chart | None:
    if not slices.present("so_far"):
        return None
    axis = size_axis(max(row["so_far"] for row in slices.rows), "distinct blocks")
    opacities = {"so_far": 0.3, "touched": 0.9}
    style = {"interpolate": "step-after", "clip": True, "color": "@accent"}
    areas = [
        layer("area", {"y": {**quantity(key), **axis}}, fillOpacity=opacity, **style)
        for key, opacity in opacities.items()
    ]
    tooltips = [tip("so_far_text", "since the trace began"), tip("touched_text", "in this slice")]
    spec = _over_time(slices, list(opacities), areas, tooltips)
    spec["transform"] = texts(size_label, opacities)
    columns = {"so_far": ("since the trace began", formatting.size), "touched": ("slice", formatting.size)}
    table = _table("Working set", slices, columns)
    hotness = device.data["hotness"]
    note = (
        f"Distinct blocks of {formatting.size(BLOCK)}:"
        f" {formatting.size(hotness['unique_bytes'])} in all"
        f" ({formatting.size(hotness['unique_read_blocks'] * BLOCK)} read,"
        f" {formatting.size(hotness['unique_written_blocks'] * BLOCK)} written). Pale:"
        " since the trace began; dark: in each slice (standard error 3 %)."
    )
    return Chart("working-set", "Working set", spec, table, note, wide=True)
