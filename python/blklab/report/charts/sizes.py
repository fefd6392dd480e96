"""Request sizes, in bins of 4 KiB centred on the size."""

from collections.abc import Sequence
from typing import Final

from blklab.report import formatting, histogram
from blklab.report.charts.base import (
    OPS,
    Chart,
    Spec,
    category,
    chart_spec,
    quantity,
    tip,
)
from blklab.report.histogram import Bin, Histogram
from blklab.report.tables.base import BAR, TextTable, figures
from blklab.report.view import DeviceView

FEW: Final = 8
"""Bins below which bars are narrower than their room, lest two of them be two walls."""

MOST_LABELS: Final = 28
"""Bins drawn one by one."""

NAMED: Final = 64 << 10
"""The largest size, in bytes, with a bar of its own where there are more bins than that."""

HALF: Final = 2 << 10
"""Half a bin's width in bytes."""


def charts(device: DeviceView) -> list[Chart]:
    """Returns a histogram for each operation that has sizes."""
    named = {formatting.ops(op): op for op in OPS}
    return [_chart(found, named[found.title.split()[-1]]) for found in histogram.sizes(device)]


def _chart(found: Histogram, op: str) -> Chart:
    total = found.total
    rows: list[Spec] = [
        {"size": one.label, "low": one.low, "high": one.high, "n": one.count, "op": op}
        for one in _drawn(found.bins)
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
    spec["mark"]["width"] = {"band": min(1.0, len(rows) / FEW)}
    encoding["x"] = category(
        "size",
        axis={"labelAngle": -45 if len(rows) > 6 else 0, "labelOverlap": False},
        scale={"paddingInner": 0.15, "paddingOuter": 0.1},
    )
    note = f"{found.note[0].upper()}{found.note[1:]}."
    if len(rows) < len(found.bins):
        note += f" Above {formatting.size(NAMED)} by doublings; the table has every bin."
    return Chart(f"sizes-{op}", found.title, spec, table(found), note)


def _drawn(bins: Sequence[Bin]) -> list[Bin]:
    """Returns the bins; if they are many, those above NAMED together by doublings."""
    if len(bins) <= MOST_LABELS:
        return list(bins)
    drawn = [one for one in bins if one.high <= NAMED + HALF]
    low = NAMED
    while low < bins[-1].high:
        inside = [one for one in bins if low + HALF <= one.low < 2 * low + HALF]
        if inside:
            label = f"–{formatting.size(2 * low)}"
            count = sum(one.count for one in inside)
            drawn.append(Bin(label, low + HALF, 2 * low + HALF, count))
        low *= 2
    return drawn


def table(found: Histogram) -> TextTable:
    """Returns a histogram as a table."""
    rows, so_far = [], 0.0
    for one in found.bins:
        so_far += one.count
        share = one.count / found.total
        count = (
            formatting.duration(one.count)
            if found.unit == "ns"
            else formatting.count(int(one.count))
        )
        rows.append(
            [
                one.label,
                count,
                formatting.share(share),
                formatting.share(so_far / found.total),
                str(share),
            ]
        )
    what = "time" if found.unit == "ns" else "I/Os"
    return TextTable(found.title, [*figures("", what, "share", "so far"), BAR], rows)
