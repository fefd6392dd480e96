"""Request sizes, in bins of 4 KiB centred on the size."""

from typing import Final

from blklab.report import histogram, words
from blklab.report.charts.base import (
    OPS,
    Chart,
    Spec,
    category,
    chart_spec,
    quantity,
    size_label,
    tip,
    zoom,
)
from blklab.report.histogram import Histogram
from blklab.report.tables.base import BAR, Table, figures
from blklab.report.view import Device

FEW: Final = 8
"""Bins below which bars are narrower than their room, lest two of them be two walls."""

MOST_LABELS: Final = 28
"""Bins named one by one; more are drawn to scale."""


def charts(device: Device) -> list[Chart]:
    """Returns a histogram for each operation that has sizes."""
    named = {words.ops(op): op for op in OPS}
    return [_chart(found, named[found.title.split()[-1]]) for found in histogram.sizes(device)]


def _chart(found: Histogram, op: str) -> Chart:
    total = found.total
    rows: list[Spec] = [
        {"size": one.label, "low": one.low, "high": one.high, "n": one.count, "op": op}
        for one in found.bins
    ]
    colour = {"field": "op", "type": "nominal", "scale": {"domain": OPS}, "legend": None}
    tips = [tip("size", "size"), tip("n", "I/Os", ","), tip("share", "share", ".2%")]
    encoding: Spec = {
        "y": quantity("n", "I/Os", axis={"tickMinStep": 1}),
        "color": colour,
        "tooltip": tips,
    }
    spec = chart_spec(rows, mark={"type": "bar"}, encoding=encoding)
    spec["transform"] = [{"calculate": f"datum.n / {total}", "as": "share"}]
    axis: Spec
    if len(rows) <= MOST_LABELS:
        axis = {"labelAngle": -45 if len(rows) > 6 else 0, "labelOverlap": False}
        spec["mark"]["width"] = {"band": min(1.0, len(rows) / FEW)}
        encoding["x"] = category(
            "size", axis=axis, scale={"paddingInner": 0.15, "paddingOuter": 0.1}
        )
    else:
        axis = {"labelExpr": size_label("datum.value")}
        encoding["x"] = quantity("low", axis=axis, scale={"nice": False})
        encoding["x2"] = {"field": "high"}
        encoding["y2"] = {"datum": 0}
        spec["params"] = [zoom("x")]
    return Chart(
        f"sizes-{op}", found.title, spec, table(found), f"{found.note[0].upper()}{found.note[1:]}."
    )


def table(found: Histogram) -> Table:
    """Returns a histogram as a table."""
    rows, so_far = [], 0.0
    for one in found.bins:
        so_far += one.count
        share = one.count / found.total
        count = words.duration(one.count) if found.unit == "ns" else words.count(int(one.count))
        rows.append(
            [one.label, count, words.share(share), words.share(so_far / found.total), str(share)]
        )
    what = "time" if found.unit == "ns" else "I/Os"
    return Table(found.title, [*figures("", what, "share", "so far"), BAR], rows)
