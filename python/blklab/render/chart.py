"""The type of a chart, and parts of Vega-Lite that charts share."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.render.table import TextTable

Spec = dict[str, Any]  # A Vega-Lite specification or a part of one
OPS = ["read", "write", "discard", "flush"]  # Operations in the order of their colours
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of the specification; nothing is loaded from this address."""

HEIGHT = 210
LONGEST_INTERVAL = 1.5  # Multiple of the largest value at which an axis from 0 cuts intervals off
CUT_NOTE = "An arrow: the interval goes on beyond the chart; the tooltip and the table have its end."


@dataclass(frozen=True)
class Chart:
    name: str  # Unique on a page; the name of exported files
    title: str
    spec: Spec
    """The specification without width and config, which the renderer adds. Its text is printable."""
    table: TextTable
    note: str = ""  # A line that explains the chart
    wide: bool = False  # Whether it takes the whole width of the page


def chart_spec(values: Sequence[Spec], **properties: Any) -> Spec:
    """Returns a specification with rows of data."""
    return {"$schema": SCHEMA, "data": {"values": list(values)}, "height": HEIGHT, **properties}


def layer(kind: str, encoding: Spec, **style: Any) -> Spec:
    """Returns a layer: a mark with its style and encoding."""
    return {"mark": {"type": kind, **style}, "encoding": encoding}


def spans(base_encoding: Spec, x: Spec) -> list[Spec]:
    """Returns bars from `x` to `p95`, paler to `p99`, and a dot at `p50`."""
    bars = [
        layer("bar", {**base_encoding, "x": x, "x2": {"field": end}}, fillOpacity=opacity, clip=True)
        for end, opacity in (("p99", 0.3), ("p95", 0.6))
    ]
    dot = layer("point", {**base_encoding, "x": quantity("p50")}, filled=True, size=58, opacity=1)
    return [*bars, dot]


def texts(form: Callable[[str], str], keys: Iterable[str]) -> list[Spec]:
    """Returns the transforms that format fields for a tooltip: `p50` as `p50_text`."""
    return [{"calculate": form(f"datum.{key}"), "as": f"{key}_text"} for key in keys]


def by_op(present: Sequence[str], domain: Sequence[str] = OPS) -> Spec:
    """Returns the colour of the field `op`, with a legend of the operations in the data."""
    legend = {"title": None, "values": list(present)} if len(present) > 1 else None
    return {"field": "op", "type": "nominal", "scale": {"domain": list(domain)}, "legend": legend}


def quantity(field: str, title: str | None = None, **properties: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **properties}


def category(field: str, title: str | None = None, **properties: Any) -> Spec:
    """Returns the encoding of a name, in the order of the data."""
    return {"field": field, "type": "nominal", "title": title, "sort": None, **properties}


def tip(field: str, title: str, form: str | None = None) -> Spec:
    """Returns a line of a tooltip."""
    if form is None:
        return {"field": field, "type": "nominal", "title": title}
    return {"field": field, "type": "quantitative", "title": title, "format": form}


def tips(*lines: tuple[str, ...]) -> list[Spec]:
    """Returns the lines of a tooltip: the arguments of `tip` for each."""
    return [tip(*line) for line in lines]


def interval_limit(values: Iterable[float], ends: Iterable[float | None]) -> float:
    """Returns where an axis from 0 ends: intervals that dwarf the values are cut off there, the others are whole."""
    largest = max(values, default=0.0) or 1.0
    return min(LONGEST_INTERVAL * largest, max([largest, *(end for end in ends if end is not None)]))


def cut_intervals(rows: Iterable[Spec], high: str, limit: float) -> bool:
    """Adds the drawn end of each interval, `high` with `_drawn` behind it, and whether it is `cut`.

    Returns whether one is cut: `cut_marks` and `CUT_NOTE` say so then.
    """
    any_cut = False
    for row in rows:
        end = row[high]
        row["cut"] = end is not None and end > limit
        row[f"{high}_drawn"] = None if end is None else min(end, limit)
        any_cut = any_cut or row["cut"]
    return any_cut


def cut_marks(encoding: Spec, channel: str, position: Spec) -> Spec:
    """Returns the layer of arrows at intervals that are cut; they point along the `channel`, x or y."""
    shape = "triangle-right" if channel == "x" else "triangle-up"
    marks = layer("point", {**encoding, channel: position}, shape=shape, size=60, filled=True, opacity=1)
    return {"transform": [{"filter": "datum.cut"}], **marks}


def stacking() -> tuple[Spec, Spec]:
    """Returns the transform and the encoding that stack operations in the usual order."""
    order = "['read', 'write', 'other', 'discard', 'flush']"
    rank = {"calculate": f"indexof({order}, datum.op)", "as": "rank"}
    return rank, {"field": "rank", "type": "ordinal", "sort": "ascending"}


def size_axis(high: float, title: str | None) -> Spec:
    """Returns scale and axis for bytes from 0, with ticks at multiples of a power of two."""
    step = 2 ** max(0, math.floor(math.log2(max(high, 1) / 3)))
    values = list(range(0, int(high) + step, step))
    return {
        "title": title,
        "scale": {"nice": False, "domain": [0, max(high, 1)]},
        "axis": {"values": values, "labelExpr": size_label("datum.value")},
    }


def size_ticks(high: float) -> list[float]:
    """Returns ticks from 0 to at least `high` bytes: multiples of a power of two."""
    step = 2.0 ** math.ceil(math.log2(max(high, 1) / 4))
    return [step * number for number in range(int(high / step) + 2)]


def log_ticks(low: float, high: float, *, sizes: bool = False) -> list[float]:
    """Returns ticks of a logarithmic axis: decades and thirds, or powers of two of bytes."""
    if sizes:
        span = math.log2(high / low)
        step = max(1, math.ceil(span / 7))
        first = math.floor(math.log2(low))
        return [2.0**power for power in range(first, math.ceil(math.log2(high)) + 1, step)]
    span = math.log10(high / low)
    steps: tuple[int, ...] = (1,)
    if span < 1.7:
        steps = (1, 2, 5)
    elif span < 2.6:
        steps = (1, 3)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps]


def zoom(*channels: str) -> Spec:
    """Returns the parameter that drags and zooms; the wheel without a key scrolls the page."""
    return {
        "name": "zoom",
        "select": {
            "type": "interval",
            "encodings": list(channels or ("x",)),
            "zoom": "wheel![event.ctrlKey || event.metaKey]",
        },
        "bind": "scales",
    }


def duration_label(value: str) -> str:
    """Returns the Vega expression that formats ns like units.format_duration."""
    return _scale_expression(value, [("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])


def size_label(value: str) -> str:
    """Returns the Vega expression that formats bytes like units.format_size."""
    names = ("B", "KiB", "MiB", "GiB", "TiB")
    return _scale_expression(value, [(name, 1024**power) for power, name in enumerate(names)])


def _scale_expression(value: str, units: list[tuple[str, float]]) -> str:
    expression = ""
    for (unit, size), (_, above) in itertools.pairwise(units):
        expression += f"abs({value}) < {above:.0f} ? {_text(value, size, unit)} : "
    unit, size = units[-1]
    return f"({value} == null ? '–' : {expression}{_text(value, size, unit)})"


def _text(value: str, size: float, unit: str) -> str:
    return f"format({value} / {size:.0f}, '.3~r') + ' {unit}'"


def log_durations(low: float, high: float, title: str | None) -> Spec:
    """Returns scale and axis of ns over decades."""
    high = max(low, high, 10.0)
    low = max(1.0, low)
    values = [tick for tick in log_ticks(low, high) if low * 0.999 <= tick <= high * 1.001]
    return {
        "title": title,
        "scale": {"type": "log", "nice": False, "domain": [low, high], "clamp": False},
        "axis": {"values": values, "labelExpr": duration_label("datum.value")},
    }
