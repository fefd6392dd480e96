"""Pictures of density over time: where I/Os went, and how long they took."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from blklab.documents.profile import DensityRow
from blklab.report import formatting, raster
from blklab.report.charts import theme
from blklab.report.charts.base import Chart, Spec, category, chart_spec, layer, log_durations, quantity
from blklab.report.charts.time_axis import TimeAxis
from blklab.report.tables.base import TextTable, figures
from blklab.report.view import DeviceView
from blklab.text import printable

OCTAVE: Final = 16
"""Pixels for each doubling of the latency."""

MOST_ROWS: Final = 32
"""Maximum number of rows of a table."""

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

ZOOM: Final = " Ctrl and the mouse wheel zoom."


@dataclass(frozen=True)
class DensityPicture:
    """Cells in shades: a line for each value, the lowest first, and a column for each slice of time."""

    lines: Sequence[bytes]
    """Shades, 0 for none; a further colour has the numbers after those of the one before."""

    most: int
    """Number of shades of a colour."""

    colours: Sequence[str]
    """`#rrggbb`"""

    @property
    def url(self) -> str:
        """The picture as PNG, to embed."""
        palette = [shade for colour in self.colours for shade in raster.shades(colour, self.most)]
        return raster.data_url(raster.png(self.lines[::-1], [(0, 0, 0, 0), *palette]))

    @property
    def scale(self) -> str:
        """What the shades mean."""
        counted = f"{2 ** (self.most - 1):,} to {2**self.most - 1:,} I/Os" if self.most > 1 else "1 I/O"
        return f"each shade is twice as many as the one before it, the darkest {counted}"


def levels(texts: Sequence[str]) -> list[bytes]:
    """Returns the levels of density of each row, one for each slice of time: the digits in base 36."""
    columns = max(map(len, texts))
    return [bytes(0 if letter == "." else int(letter, 36) for letter in text.ljust(columns, ".")) for text in texts]


def offset_charts(device: DeviceView) -> list[Chart]:
    """Returns where reads and writes went, and which process led where."""
    offsets, axis = device.data["offsets"], TimeAxis.of(device)
    rows = offsets["rows"]
    if len(device.slices()[1]) < 2 or not rows:
        return []
    high = formatting.size(512 * (rows[0]["end"] - rows[0]["low"]))
    cell = f"A cell is {formatting.duration(offsets['width_ns'])} by {high}"
    table = _table("Offset", rows, formatting.size, 512)
    drawn = []
    for op, cells in _by_op(rows).items():
        picture = DensityPicture(cells, max(map(max, cells)), [theme.LIGHT[op]])
        name = _plural(device, op)
        note = axis.note(f"{cell} and counts the {name} that begin in it; {picture.scale}.{ZOOM}")
        spec = _offset_spec(device, axis, picture)
        drawn.append(Chart(f"offset-{op}", f"Offset of {name}", spec, table, note, wide=True))
    if len(offsets["processes"]) > 1:
        note = axis.note(f"{cell}, in the colour of the process that queued more than half of its I/Os.{ZOOM}")
        drawn.append(Chart("offset-processes", "Offset by process", _by_process(device, axis), table, note, wide=True))
    return drawn


def latency_charts(device: DeviceView) -> list[Chart]:
    """Returns how long reads and writes took over time."""
    over_time, axis = device.data["over_time"], TimeAxis.of(device)
    rows = over_time["latencies"]
    if len(device.slices()[1]) < 2 or not rows:
        return []
    letters = device.latency_letters
    table = _table(letters, rows, formatting.duration, 1)
    low, high = max(1, rows[0]["low"]), rows[-1]["end"]
    y = log_durations(low, high, letters)
    drawn = []
    for op, cells in _by_op(rows).items():
        picture = DensityPicture(_logarithmic(rows, cells), max(map(max, cells)), [theme.LIGHT[op]])
        spec = _spec(axis, over_time["width_ns"], picture, (low, high), y, ("x",))
        name = "everything except reads" if op == "write" and "read" in device.ops else _plural(device, op)
        slices = formatting.duration(over_time["width_ns"])
        note = axis.note(f"{letters} of {name}, completed in slices of {slices}; {picture.scale}.{ZOOM}")
        title = f"Latency of {_plural(device, op)} over time"
        drawn.append(Chart(f"latency-{op}", title, spec, table, note, wide=True))
    return drawn


def _plural(device: DeviceView, op: str) -> str:
    return formatting.ops(op) if device.capabilities["directions"] else "I/Os"


def _by_op(rows: Sequence[DensityRow]) -> dict[str, list[bytes]]:
    """Returns the levels of reads and of writes, without a direction that does not occur."""
    texts = {"read": [row["read_levels"] for row in rows], "write": [row["write_levels"] for row in rows]}
    return {op: levels(texts_of_op) for op, texts_of_op in texts.items() if any(texts_of_op)}


def _logarithmic(rows: Sequence[DensityRow], cells: Sequence[bytes]) -> list[bytes]:
    """Returns lines of equal height on a logarithmic scale; rows without I/Os are not in the profile."""
    lines: list[bytes] = []
    first = OCTAVE * math.log2(max(1, rows[0]["low"]))
    for row, levels_of_row in zip(rows, cells, strict=True):
        start, end = (round(OCTAVE * math.log2(max(1, edge)) - first) for edge in (row["low"], row["end"]))
        lines += [bytes(len(levels_of_row))] * (start - len(lines)) + [levels_of_row] * (end - start)
    return lines


def _spec(
    axis: TimeAxis,
    width_ns: int,
    picture: DensityPicture,
    span: tuple[float, float],
    y: Spec,
    zoomed: tuple[str, ...],
    more: Sequence[Spec] = (),
) -> Spec:
    """Returns the specification of a picture that covers the values of `span`."""
    end = axis.at(width_ns * len(picture.lines[0]))
    row: Spec = {"t": 0, "t2": end, "y": span[0], "y2": span[1], "url": picture.url}
    encoding = {
        "x2": {"field": "t2"},
        "y": {**quantity("y"), **y},
        "y2": {"field": "y2"},
        "url": {"field": "url", "type": "nominal"},
    }
    drawn = {"mark": {"type": "image", "aspect": False, "clip": True}, "encoding": encoding}
    return chart_spec([row], **axis.layers([drawn, *more], *zoomed))


def _offset_spec(device: DeviceView, axis: TimeAxis, picture: DensityPicture, more: Sequence[Spec] = ()) -> Spec:
    offsets = device.data["offsets"]
    low, high = 512 * offsets["rows"][0]["low"], 512 * offsets["rows"][-1]["end"]
    power = min(len(UNITS) - 1, ((high - low).bit_length() - 1) // 10)
    span = (low / 1024**power, high / 1024**power)
    y = {"title": f"offset ({UNITS[power]})", "scale": {"nice": False, "zero": False, "domain": list(span)}}
    return _spec(axis, offsets["width_ns"], picture, span, y, ("x", "y"), more)


def _by_process(device: DeviceView, axis: TimeAxis) -> Spec:
    """Returns the cells in the colours of the processes that led in them."""
    offsets = device.data["offsets"]
    colours = theme.process_colours(device)
    names = [printable(name) for name in offsets["processes"]]
    keys = [*(colours.get(name, theme.REST) for name in names), theme.REST]
    by_op = _by_op(offsets["rows"]).values()
    columns = max(len(cells[0]) for cells in by_op)
    density = [bytes(map(max, *([row.ljust(columns, b"\0") for row in rows] * 2))) for rows in zip(*by_op, strict=True)]
    most = max(map(max, density))
    lines = []
    for text, row in zip(offsets["row_processes"], density, strict=True):
        led = [int(letter) if letter.isdigit() else len(names) for letter in text.ljust(columns, ".")]
        lines.append(bytes(process * most + level if level else 0 for process, level in zip(led, row, strict=True)))
    picture = DensityPicture(lines, most, [theme.LIGHT[key[1:]] for key in keys])
    shown = {name: colours[name] for name in names if name in colours} | {"others": theme.REST}
    points = [{"t": axis.at(axis.start_ns), "name": name} for name in shown]
    colour = category("name", scale={"domain": list(shown), "range": list(shown.values())})
    colour["legend"] = {"title": None, "symbolOpacity": 1, "symbolType": "square"}
    legend = {"data": {"values": points}, **layer("square", {"color": colour}, opacity=0)}
    return _offset_spec(device, axis, picture, [legend])


def _table(title: str, rows: Sequence[DensityRow], form: Callable[[float], str], unit: int) -> TextTable:
    """Returns the I/Os by value, in at most `MOST_ROWS` rows."""
    joined = -(-len(rows) // MOST_ROWS)
    cells = []
    for at in range(0, len(rows), joined):
        part = rows[at : at + joined]
        counts = [sum(row["reads"] for row in part), sum(row["writes"] for row in part)]
        cells.append([form(unit * part[0]["low"]), form(unit * part[-1]["end"]), *map(formatting.count, counts)])
    return TextTable(title, figures("from", "below", "reads", "writes"), cells)
