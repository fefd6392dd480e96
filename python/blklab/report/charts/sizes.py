"""Request sizes, in bins of 4 KiB centred on the size."""

from collections.abc import Sequence

from blklab.report import formatting, histogram
from blklab.report.charts.base import OPS, Chart, Spec, category, chart_spec, quantity, tip
from blklab.report.histogram import Bin, Histogram
from blklab.report.tables.base import BAR, TextTable, figures
from blklab.report.view import DeviceView

FEW = 8  # Number of bins below which bars are narrower, so that few bars do not fill the chart
MOST_LABELS = 28  # Maximum number of bins with their own bar
NAMED = 64 << 10  # The largest size, in bytes, with its own bar if there are more bins than that
HALF = 2 << 10  # Half the width of a bin in bytes


def charts(device: DeviceView) -> list[Chart]:
    """Returns a histogram for each operation that has sizes."""
    named = {formatting.ops(op): op for op in OPS}
    return [_chart(histogram_, named[histogram_.title.split()[-1]]) for histogram_ in histogram.sizes(device)]


def _chart(histogram_: Histogram, op: str) -> Chart:
    total = histogram_.total
    rows: list[Spec] = [
        {"size": bin_.label, "low": bin_.low, "high": bin_.high, "n": bin_.count, "op": op}
        for bin_ in _drawn(histogram_.bins)
    ]
    colour = {"field": "op", "type": "nominal", "scale": {"domain": OPS}, "legend": None}
    tooltips = [tip("size", "size"), tip("n", "I/Os", ","), tip("share", "share", ".2%")]
    encoding: Spec = {"y": quantity("n", "I/Os", axis={"tickMinStep": 1}), "color": colour, "tooltip": tooltips}
    spec = chart_spec(rows, mark={"type": "bar"}, encoding=encoding)
    spec["transform"] = [{"calculate": f"datum.n / {total}", "as": "share"}]
    spec["mark"]["width"] = {"band": min(1.0, len(rows) / FEW)}
    encoding["x"] = category(
        "size",
        axis={"labelAngle": -45 if len(rows) > 6 else 0, "labelOverlap": False},
        scale={"paddingInner": 0.15, "paddingOuter": 0.1},
    )
    note = f"{histogram_.note[0].upper()}{histogram_.note[1:]}."
    if len(rows) < len(histogram_.bins):
        note += f" Above {formatting.size(NAMED)}, bins double; the table has all bins."
    return Chart(f"sizes-{op}", histogram_.title, spec, histogram_table(histogram_), note)


def _drawn(bins: Sequence[Bin]) -> list[Bin]:
    """Returns the bins; if there are many, those above NAMED are merged into doubling bins."""
    if len(bins) <= MOST_LABELS:
        return list(bins)
    drawn = [bin_ for bin_ in bins if bin_.high <= NAMED + HALF]
    low = NAMED
    while low < bins[-1].high:
        inside = [bin_ for bin_ in bins if low + HALF <= bin_.low < 2 * low + HALF]
        if inside:
            label = f"–{formatting.size(2 * low)}"
            drawn.append(Bin(label, low + HALF, 2 * low + HALF, sum(bin_.count for bin_ in inside)))
        low *= 2
    return drawn


def histogram_table(histogram_: Histogram) -> TextTable:
    rows, so_far = [], 0.0
    for bin_ in histogram_.bins:
        so_far += bin_.count
        share = bin_.count / histogram_.total
        count = formatting.duration(bin_.count) if histogram_.unit == "ns" else formatting.count(int(bin_.count))
        rows.append(
            [bin_.label, count, formatting.share(share), formatting.share(so_far / histogram_.total), str(share)]
        )
    what = "time" if histogram_.unit == "ns" else "I/Os"
    return TextTable(histogram_.title, [*figures("", what, "share", "so far"), BAR], rows)
