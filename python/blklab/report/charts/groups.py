"""Charts of processes, source devices, CPUs and the devices of a stack."""

from typing import Final

from blklab.report import formatting
from blklab.report.charts.base import (
    OPS,
    Chart,
    Spec,
    by_op,
    category,
    chart_spec,
    duration_label,
    log_durations,
    quantity,
    spans,
    stacking,
    texts,
    tip,
)
from blklab.report.tables import devices, load
from blklab.report.view import DeviceView, ProfileView

MOST: Final = 14
"""Maximum number of bars; the others are added up."""

TITLES: Final = {"processes": "By process", "sources": "By source device", "cpus": "By CPU"}


def charts(device: DeviceView) -> list[Chart]:
    """Returns the I/Os by process, source and CPU."""
    kinds = [kind for kind in TITLES if kind != "sources" or device.is_fed]
    return [chart for kind in kinds if (chart := _bars(device, kind))]


def _bars(device: DeviceView, kind: str) -> Chart | None:
    groups = device.groups(kind)
    if not groups or not device.ios:
        return None
    rows: list[Spec] = [
        {"name": group.label, "op": op, "n": number, "share": number / device.ios}
        for group in groups[:MOST]
        for op, number in group.ios.items()
        if number
    ]
    rest = groups[MOST:]
    if rest:
        for op in OPS:
            if number := sum(group.ios[op] for group in rest):
                name = f"{len(rest)} others"
                rows.append({"name": name, "op": op, "n": number, "share": number / device.ios})
    names = list(dict.fromkeys(row["name"] for row in rows))
    spec = _stacked(rows, names, tip("name", load.KINDS[kind].lower()), tip("share", "of all", ".2%"))
    spec["height"] = max(70, 24 * len(names))
    table = load.groups(device, kind, most=200)
    return Chart(f"by-{kind}", TITLES[kind], spec, table)


def _stacked(rows: list[Spec], names: list[str], who: Spec, last: Spec) -> Spec:
    """Returns bars of `n` I/Os by `name`, stacked by `op`; `who` and `last` frame the tooltip."""
    rank, order = stacking()
    return chart_spec(
        rows,
        transform=[rank],
        mark={"type": "bar", "cornerRadiusEnd": 0},
        encoding={
            "y": {**category("name", axis={"title": None, "labelFontSize": 12}), "sort": names},
            "x": quantity("n", "I/Os", axis={"tickCount": 4, "format": ",d"}),
            "color": by_op([op for op in OPS if any(row["op"] == op for row in rows)]),
            "order": order,
            "tooltip": [who, tip("op", "operation"), tip("n", "I/Os", ","), last],
        },
    )


def stack_charts(view: ProfileView) -> list[Chart]:
    """Returns charts that compare the devices of a stack; none if there is only one."""
    shown = [device for layer in view.layers() for device in layer if device.active]
    if len(shown) < 2:
        return []
    return [chart for chart in (_ios(view, shown), _latency(view, shown)) if chart]


def _ios(view: ProfileView, shown: list[DeviceView]) -> Chart | None:
    rows: list[Spec] = [
        {"name": device.label, "op": op, "n": number, "bytes": formatting.size(device.op(op)["bytes"])}
        for device in shown
        for op in OPS
        if (number := device.op(op)["ios"])
    ]
    if not rows:
        return None
    labels = [device.label for device in shown]
    spec = _stacked(rows, labels, tip("name", "device"), tip("bytes", "bytes"))
    spec["height"] = max(90, 26 * len(shown))
    note = "I/Os queued on each device"
    note += ", from the top of the stack to the bottom." if view.feeds() else "."
    return Chart("devices-ios", "I/Os by device", spec, devices.overview(view), note)


def _latency(view: ProfileView, shown: list[DeviceView]) -> Chart | None:
    rows: list[Spec] = []
    for device in shown:
        for op in ("read", "write"):
            if (response := device.response(op)) is None:
                continue
            stage, quantiles = response
            found_at = {key: quantiles[key] for key in ("p50", "p95", "p99")}
            rows.append({"name": device.label, "op": op, "stage": stage, **found_at})
    if not rows:
        return None
    low, high = min(row["p50"] for row in rows), max(row["p99"] for row in rows)
    ops = [op for op in OPS if any(row["op"] == op for row in rows)]
    labels = [device.label for device in shown]
    y = {**category("name", axis={"title": None, "labelFontSize": 12}), "sort": labels}
    x = {**quantity("p50"), **log_durations(max(1, low * 0.7), high * 1.1, None)}
    keys = ("p50", "p95", "p99")
    tooltips = [tip("name", "device"), tip("op", "operation"), *(tip(f"{k}_text", k) for k in keys)]
    shared = {
        "y": y,
        "yOffset": {"field": "op", "type": "nominal", "scale": {"domain": ops}},
        "color": by_op(ops),
        "tooltip": tooltips,
    }
    spec = chart_spec(rows, transform=texts(duration_label, keys), layer=spans(shared, x))
    spec["height"] = max(110, 34 * len(shown))
    note = "From the median (dot) to the 95th percentile, paler to the 99th."
    return Chart("devices-latency", "Latency by device", spec, devices.overview(view), note)
