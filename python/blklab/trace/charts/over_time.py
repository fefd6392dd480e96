"""Charts over time: load, latency, queue depth, processes and members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from blklab.render import chart as base
from blklab.render import chart_theme as theme
from blklab.render import formatting
from blklab.render.chart import Chart, Spec, layer, quantity, tip
from blklab.render.table import TextTable, number_columns
from blklab.text.printing import printable
from blklab.trace.array_members import members
from blklab.trace.charts.time_axis import TimeAxis
from blklab.trace.view import BLOCK, DeviceView, ProfileView

OPS = {"read": "@read", "write": "@write", "other": "@discard"}
OTHERS = "others"
MOST_POINTS = 128  # Maximum number of slices of lines that would hide each other
DASHES = ([1, 0], [8, 4], [3, 3], [8, 3, 2, 3])  # Of lines that may lie on each other: the first has no gaps
NOTHING = TextTable("", [], [])

FORMATS: dict[str, tuple[Callable[[float], str], str | None]] = {
    "I/Os a second": (formatting.number, ",.3~r"),
    "bytes a second": (formatting.size, None),
    "utilisation": (formatting.share, ".1%"),
}
"""How figures of a unit are printed in tables and, as a format of d3, in tooltips."""

STEPS: Spec = {"interpolate": "step-after", "clip": True}


@dataclass(frozen=True)
class NamedSeries:
    """What one operation, process or device did in slices from time 0."""

    name: str
    colour: str
    width_ns: int
    amounts: Sequence[float]  # I/Os, bytes, or seconds with I/O in flight

    def amount(self, start_ns: int, width_ns: int) -> float:
        """Returns the amount in a slice whose width is a multiple of the own one."""
        return sum(self.amounts[start_ns // self.width_ns : (start_ns + width_ns) // self.width_ns])


def charts(view: ProfileView) -> list[Chart]:
    """Returns the charts of the main device; none if there is only one slice."""
    device = view.focus
    axis = TimeAxis.of(device)
    if len(device.slices()[1]) < 2:
        return []
    drawn = [*_load(device, axis), _latency(device, axis), _depth(device, axis), _processes(device, axis)]
    if not _comparable_devices(view):
        drawn.append(_utilisation(device, [], axis))
    return [chart for chart in drawn if chart]


def charts_of_side(device: DeviceView, side: str) -> list[Chart]:
    """Returns IOPS and latency of one of two devices that are compared; `side` is its name there."""
    axis = TimeAxis.of(device)
    if len(device.slices()[1]) < 2:
        return []
    drawn = [chart for chart in (*_load(device, axis)[:1], _latency(device, axis)) if chart]
    return [replace(chart, name=f"{chart.name}-{side}", title=f"{side}: {chart.title}") for chart in drawn]


def stack_charts(view: ProfileView) -> list[Chart]:
    """Returns the utilisation and the I/Os of the devices that are compared."""
    axis = TimeAxis.of(view.focus)
    devices = _comparable_devices(view)
    if not devices or len(view.focus.slices()[1]) < 2:
        return []
    return [chart for chart in (_utilisation(view.focus, devices, axis), _devices(devices, axis)) if chart]


def _comparable_devices(view: ProfileView) -> list[DeviceView]:
    """Returns the members of the main device, or all devices if none passes I/O on to others."""
    active = [device for device in view.devices if device.active]
    return members(view, view.focus) if view.feeds or len(active) < 2 else active


def _by_op(device: DeviceView, keys: Mapping[str, str]) -> list[NamedSeries]:
    over_time = device.data.over_time
    series = []
    for op, key in keys.items():
        amounts = [getattr(interval, key) for interval in over_time.slices]
        if any(amounts):
            series.append(NamedSeries(op, OPS[op], over_time.width_ns, amounts))
    return series


def _load(device: DeviceView, axis: TimeAxis) -> list[Chart | None]:
    ios = _by_op(device, {op: f"{op}s" for op in OPS})
    amounts = _by_op(device, {"read": "read_bytes", "write": "write_bytes"})
    return [
        _by_name(Chart("iops", "IOPS", {}, NOTHING, "I/Os queued"), axis, ios, "I/Os a second"),
        _by_name(Chart("throughput", "Throughput", {}, NOTHING, "Bytes queued"), axis, amounts, "bytes a second"),
    ]


def _latency(device: DeviceView, axis: TimeAxis) -> Chart | None:
    rows = []
    for interval in device.slices()[1]:
        quantiles = {
            "read_p50": interval.read_p50_ns,
            "read_p99": interval.read_p99_ns,
            "write_p50": interval.write_p50_ns,
            "write_p99": interval.write_p99_ns,
        }
        rows.append({**axis.row(interval.start_ns), **quantiles})
    ops = [op for op in ("read", "write") if any(row[f"{op}_p50"] for row in rows)]
    keys = []
    for op in ops:
        keys += [f"{op}_p50", f"{op}_p99"]
    values = [row[key] for row in rows for key in keys if row[key]]
    if not values:
        return None
    y = {**quantity("p50"), **base.log_durations(min(values) * 0.9, max(values) * 1.1, device.latency_letters)}
    encoding = {"y": y, "color": base.by_op(ops, list(OPS))}
    band = layer("area", {**encoding, "y2": {"field": "p99"}}, clip=True, fillOpacity=0.25)
    median = layer("line", encoding, clip=True, strokeWidth=1.4, point={"size": 5})
    band["transform"] = median["transform"] = [
        {"fold": [f"{op}_p50" for op in ops], "as": ["key", "p50"]},
        {"calculate": "split(datum.key, '_')[0]", "as": "op"},
        {"calculate": "datum[datum.op + '_p99']", "as": "p99"},
    ]
    titles = {key: key.replace("_p50", " median").replace("_p99", " 99 %") for key in keys}
    tooltips = [tip(f"{key}_text", title) for key, title in titles.items()]
    spec = axis.chart(rows, [band, median], tooltips, transform=base.texts(base.duration_label, keys))
    cells = []
    for row in rows:
        cells.append([row["when"], *(formatting.duration(row[key]) for key in keys)])
    table = TextTable("Latency over time", number_columns("from", *titles.values()), cells)
    since = "queued" if device.start == "Q" else "dispatched"
    note = (
        f"Time from {since} to completed, of the I/Os completed in a slice: the line is the median, "
        "the band extends to the 99th percentile; write: all except reads."
    )
    return Chart("latency-over-time", "Latency over time", spec, table, axis.note(note), wide=True)


def _depth(device: DeviceView, axis: TimeAxis) -> Chart | None:
    if not device.has_depth:
        return None
    width = device.data.depth_over_time.width_ns
    rows = []
    for number, interval in enumerate(device.data.depth_over_time.slices):
        start = number * width
        depth = {"mean": round(interval.area_ns / axis.overlap_ns(start, width), 3), "max": interval.max}
        rows.append({**axis.row(start), **depth})
    maximum = quantity("max", "I/Os in flight")
    mean = quantity("mean", "I/Os in flight")
    layers = [layer("area", {"y": maximum}, **STEPS, color="@accent", fillOpacity=0.25)]
    layers.append(layer("line", {"y": mean}, **STEPS, color="@accent"))
    spec = axis.chart(rows, layers, [tip("mean", "mean", ".3~r"), tip("max", "most", ",")])
    cells = [[row["when"], formatting.number(row["mean"]), formatting.count(row["max"])] for row in rows]
    table = TextTable("Queue depth over time", number_columns("from", "mean", "most"), cells)
    note = axis.note("I/Os in flight: the line is their mean in a slice, weighted by time, the area their maximum.")
    return Chart("depth-over-time", "Queue depth over time", spec, table, note, wide=True)


def _utilisation(focus: DeviceView, devices: Sequence[DeviceView], axis: TimeAxis) -> Chart | None:
    colours = {focus.label: "@accent", **theme.colours_of((device.label for device in devices), theme.MEMBERS)}
    series = []
    for device in dict.fromkeys((focus, *devices)):
        if device.has_depth and device.label in colours:
            depth = device.data.depth_over_time
            busy = [interval.busy_ns / 1e9 for interval in depth.slices]
            series.append(NamedSeries(device.label, colours[device.label], depth.width_ns, busy))
    hidden_count = len({*devices} - {focus}) - len(theme.MEMBERS)
    hidden_text = f" ({hidden_count} more are not drawn)" if hidden_count > 0 else ""
    chart = Chart(
        "utilisation", "Utilisation", {}, NOTHING, f"Share of the time with at least one I/O in flight{hidden_text}"
    )
    return _by_name(chart, axis, series, "utilisation")


def _processes(device: DeviceView, axis: TimeAxis) -> Chart | None:
    over_time = device.data.processes_over_time
    colours = {
        **theme.colours_of((group.label for group in device.groups("processes")), theme.PROCESSES),
        OTHERS: theme.REST,
    }
    amounts: dict[str, list[int]] = {}
    for process, ios in over_time.ios.items():
        name = printable(process) if printable(process) in colours else OTHERS
        amounts[name] = [a + b for a, b in zip_longest(amounts.get(name, []), ios, fillvalue=0)]
    series = [NamedSeries(n, colours[n], over_time.width_ns, amounts[n]) for n in colours if n in amounts]
    chart = Chart("processes-over-time", "Processes over time", {}, NOTHING, "I/Os queued by the largest processes")
    return _by_name(chart, axis, series, "I/Os a second") if len(series) > 1 else None


def _devices(devices: Sequence[DeviceView], axis: TimeAxis) -> Chart | None:
    colours = theme.colours_of((device.label for device in devices), theme.MEMBERS)
    series = []
    for device in devices[: len(colours)]:
        over_time = device.data.over_time
        ios = [interval.reads + interval.writes + interval.others for interval in over_time.slices]
        series.append(NamedSeries(device.label, colours[device.label], over_time.width_ns, ios))
    hidden_text = f" ({len(devices) - len(series)} more are not drawn)" if len(devices) > len(series) else ""
    chart = Chart("devices-over-time", "I/Os by device", {}, NOTHING, f"I/Os queued on each device{hidden_text}")
    return _by_name(chart, axis, series, "I/Os a second")


def _by_name(chart: Chart, axis: TimeAxis, series: Sequence[NamedSeries], unit: str) -> Chart | None:
    """Returns a chart with an area for each series, or with lines in few slices for shares of the time."""
    if not series:
        return None
    stacked = unit != "utilisation"
    width = max(named_series.width_ns for named_series in series)
    while not stacked and (axis.end_ns - axis.start_ns) / width > MOST_POINTS:
        width *= 2
    keys = [f"v{index}" for index in range(len(series))]
    rows: list[Spec] = []
    for start in range(axis.start_ns // width * width, axis.end_ns, width):
        # The rate of a few ns would be chance; the share of their time is not.
        seconds = (width if unit != "utilisation" else axis.overlap_ns(start, width)) / 1e9
        rates = [round(named_series.amount(start, width) / seconds, 3) for named_series in series]
        rows.append({**axis.row(start), **dict(zip(keys, rates, strict=True))})
    y: Spec = {"title": unit, "stack": "zero" if stacked else None}
    form, d3_format = FORMATS[unit]
    if unit == "utilisation":
        y |= {"scale": {"domain": [0, 1]}, "axis": {"format": "%", "tickCount": 5}}
    elif unit == "bytes a second":
        totals = []
        for row in rows:
            totals.append(sum(row[key] for key in keys))
        y |= base.size_axis(max(totals), unit)
    field = "{}" if d3_format else "{}_text"
    tooltips = [
        tip(field.format(key), named_series.name, d3_format) for key, named_series in zip(keys, series, strict=True)
    ]
    transform = [] if d3_format else base.texts(_rate_label, keys)
    names = [
        {"key": key, "name": named_series.name, "rank": index}
        for index, (key, named_series) in enumerate(zip(keys, series, strict=True))
    ]
    look_up = {"lookup": "key", "from": {"data": {"values": names}, "key": "key", "fields": ["name", "rank"]}}
    scale = {
        "domain": [named_series.name for named_series in series],
        "range": [named_series.colour for named_series in series],
    }
    legend = {"title": None, "symbolType": "square" if stacked else "stroke"} if len(series) > 1 else None
    encoding = {"y": {**quantity("value"), **y}, "color": base.category("name", scale=scale, legend=legend)}
    if stacked:
        encoding["order"] = {"field": "rank", "type": "ordinal"}
    fold = [{"fold": keys, "as": ["key", "value"]}, look_up]
    layers = [{"transform": fold, **layer("area", encoding, **STEPS)}] if stacked else []
    if not stacked:
        for index in range(len(series)):  # Those drawn later are thinner and have gaps: no line hides another one
            width_of_line = max(1.2, 5 * 0.66**index) if len(series) > 1 else 1.8
            line = layer("line", encoding, **STEPS, strokeWidth=width_of_line, strokeDash=DASHES[index % len(DASHES)])
            layers.append({"transform": [*fold, {"filter": f"datum.rank == {index}"}], **line})
    cells = []
    for row in rows:
        cells.append([row["when"], *(form(row[key]) for key in keys)])
    table = TextTable(chart.title, number_columns("from", *(named_series.name for named_series in series)), cells)
    note = axis.note(f"{chart.note}, in slices of {formatting.duration(width)}.")
    range_sums = {
        "unit": unit,
        "seconds": axis.unit[1] / 1e9,
        "series": [{"key": key, "name": named_series.name} for key, named_series in zip(keys, series, strict=True)],
    }
    spec = axis.chart(rows, layers, tooltips, transform=transform, usermeta={"range": range_sums})
    return replace(chart, spec=spec, table=table, note=note, wide=True)


def _rate_label(value: str) -> str:
    """Returns the Vega expression that formats bytes a second."""
    return f"{base.size_label(value)} + '/s'"


def working_set(device: DeviceView) -> list[Chart]:
    """Returns the distinct blocks that were touched."""
    axis = TimeAxis.of(device)
    rows = []
    for interval in device.slices()[1]:
        amounts = {"so_far": interval.unique_blocks_so_far * BLOCK, "touched": interval.unique_blocks * BLOCK}
        rows.append({**axis.row(interval.start_ns), **amounts})
    if len(rows) < 2 or not rows[-1]["so_far"]:
        return []
    y = base.size_axis(max(row["so_far"] for row in rows), "distinct blocks")
    titles = {"so_far": "since the trace began", "touched": "in this slice"}
    areas = [
        layer("area", {"y": {**quantity(key), **y}}, fillOpacity=opacity, color="@accent", **STEPS)
        for key, opacity in (("so_far", 0.3), ("touched", 0.9))
    ]
    tooltips = [tip(f"{key}_text", title) for key, title in titles.items()]
    spec = axis.chart(rows, areas, tooltips, transform=base.texts(base.size_label, titles))
    cells = [[row["when"], formatting.size(row["so_far"]), formatting.size(row["touched"])] for row in rows]
    table = TextTable("Working set", number_columns("from", *titles.values()), cells)
    hotness = device.data.hotness
    written = BLOCK * hotness.unique_written_blocks
    read = BLOCK * hotness.unique_read_blocks
    note = (
        f"Distinct blocks of {formatting.size(BLOCK)}: "
        f"{formatting.size(hotness.unique_bytes)} in all ({formatting.size(read)} read, "
        f"{formatting.size(written)} written). Pale: since the trace began; dark: "
        "in each slice (standard error 3 %)."
    )
    return [Chart("working-set", "Working set", spec, table, note, wide=True)]
