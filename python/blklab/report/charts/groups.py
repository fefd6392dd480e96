"""Charts of processes, source devices and CPUs."""

from blklab.report.charts.base import OPS, Chart, Spec, by_op, category, chart_spec, quantity, stacking, tips
from blklab.report.tables import load
from blklab.report.view import DeviceView

MOST = 14  # Maximum number of bars; the others are added up
TITLES = {"processes": "By process", "sources": "By source device", "cpus": "By CPU"}


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
    rows += [
        {"name": f"{len(rest)} others", "op": op, "n": number, "share": number / device.ios}
        for op in OPS
        if (number := sum(group.ios[op] for group in rest))
    ]
    names = list(dict.fromkeys(row["name"] for row in rows))
    rank, order = stacking()
    spec = chart_spec(
        rows,
        transform=[rank],
        mark={"type": "bar", "cornerRadiusEnd": 0},
        encoding={
            "y": {**category("name", axis={"title": None, "labelFontSize": 12}), "sort": names},
            "x": quantity("n", "I/Os", axis={"tickCount": 4, "format": ",d"}),
            "color": by_op([op for op in OPS if any(row["op"] == op for row in rows)]),
            "order": order,
            "tooltip": tips(
                ("name", load.KINDS[kind].lower()), ("op", "operation"), ("n", "I/Os", ","), ("share", "of all", ".2%")
            ),
        },
    )
    spec["height"] = max(70, 24 * len(names))
    return Chart(f"by-{kind}", TITLES[kind], spec, load.groups(device, kind, most=200))
