"""Pictures of density over time: where I/Os went, and how long they took."""

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blklab.documents.profile import DensityRow
from blklab.render import chart_theme as theme
from blklab.render import formatting
from blklab.render.chart import OPS, Chart, Spec, category, chart_spec, log_durations, quantity, tip
from blklab.render.table import TextTable, number_columns
from blklab.trace.charts.time_axis import TimeAxis
from blklab.trace.view import DeviceView
from blklab.units import SECTOR

OCTAVE = 16  # Pixels for each doubling of the latency
MOST_ROWS = 32  # Maximum number of rows of a table
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
ZOOM = " Ctrl and the mouse wheel zoom."


@dataclass(frozen=True)
class DensityPicture:
    """Cells in shades: a line for each value, the lowest first, and a column for each slice of time."""

    lines: Sequence[bytes]  # Shades, 0 for none
    shade_count: int  # Number of shades
    colour: str  # `#rrggbb`

    @property
    def url(self) -> str:
        """The picture as PNG, to embed."""
        palette = [(0, 0, 0, 0), *shades(self.colour, self.shade_count)]
        return "data:image/png;base64," + base64.b64encode(png(self.lines[::-1], palette)).decode()

    @property
    def scale(self) -> str:
        """What the shades mean."""
        ios_text = (
            f"{2 ** (self.shade_count - 1):,} to {2**self.shade_count - 1:,} I/Os" if self.shade_count > 1 else "1 I/O"
        )
        return f"each shade is twice as many as the one before it, the darkest {ios_text}"


def levels(texts: Sequence[str]) -> list[bytes]:
    """Returns the levels of density of each row, one for each slice of time: the digits in base 36."""
    columns = max(map(len, texts))
    rows = []
    for text in texts:
        rows.append(bytes(0 if letter == "." else int(letter, 36) for letter in text.ljust(columns, ".")))
    return rows


def offset_charts(device: DeviceView) -> list[Chart]:
    """Returns where reads and writes went."""
    offsets = device.data.offsets
    axis = TimeAxis.of(device)
    rows = offsets.rows
    if len(device.slices()[1]) < 2 or not rows:
        return []
    high = formatting.size(SECTOR * (rows[0].end - rows[0].low))
    cell = f"A cell is {formatting.duration(offsets.width_ns)} by {high}"
    table = _table("Offset", rows, formatting.size, SECTOR)
    drawn = []
    for op, cells in _by_op(rows).items():
        picture = DensityPicture(cells, max(map(max, cells)), theme.LIGHT[op])
        name = _plural(device, op)
        note = axis.note(f"{cell} and counts the {name} that begin in it; {picture.scale}.{ZOOM}")
        spec = _offset_spec(device, axis, picture)
        drawn.append(Chart(f"offset-{op}", f"Offset of {name}", spec, table, note, wide=True))
    return drawn


def latency_charts(device: DeviceView) -> list[Chart]:
    """Returns how long reads and writes took over time."""
    over_time = device.data.over_time
    axis = TimeAxis.of(device)
    rows = over_time.latencies
    if len(device.slices()[1]) < 2 or not rows:
        return []
    letters = device.latency_letters
    table = _table(letters, rows, formatting.duration, 1)
    low = max(1, rows[0].low)
    high = rows[-1].end
    y = log_durations(low, high, letters)
    drawn = []
    for op, cells in _by_op(rows).items():
        picture = DensityPicture(_logarithmic(rows, cells), max(map(max, cells)), theme.LIGHT[op])
        spec = _spec(axis, over_time.width_ns, picture, (low, high), y, ("x",))
        name = "everything except reads" if op == "write" and "read" in device.ops else _plural(device, op)
        slices = formatting.duration(over_time.width_ns)
        note = axis.note(f"{letters} of {name}, completed in slices of {slices}; {picture.scale}.{ZOOM}")
        title = f"Latency of {_plural(device, op)} over time"
        drawn.append(Chart(f"latency-{op}", title, spec, table, note, wide=True))
    return drawn


def map_charts(device: DeviceView) -> list[Chart]:
    """Returns how long reads and writes took by size and by the queue that they found."""
    maps = device.data.maps
    letters = device.latency_letters
    kinds: tuple[tuple[str, Sequence[DensityRow], str, Callable[[int], str]], ...] = (
        ("size", maps.sizes, "size (less than)", lambda index: formatting.size(1024 << index)),
        ("depth", maps.depths, "I/Os in flight when it came (less than)", lambda index: f"{1 << index:,}"),
    )
    charts = []
    for kind, rows, title, label in kinds:
        for op, cells in _by_op(rows).items() if rows else ():
            indices = [index for index in range(len(cells[0])) if any(row[index] for row in cells)]
            if len(indices) < 2:
                continue
            names = [label(index) for index in range(indices[0], indices[-1] + 1)]
            values = _map_cells(rows, cells, op, label)
            encoding: Spec = {
                "x": category("class", title, scale={"domain": names}, axis={"labelAngle": 0}),
                "y": {**quantity("low"), **log_durations(max(1, rows[0].low), rows[-1].end, letters)},
                "y2": {"field": "high"},
                "opacity": quantity("level", scale={"domain": [0, max(map(max, cells))]}, legend=None),
                "color": {"field": "op", "type": "nominal", "scale": {"domain": OPS}, "legend": None},
                "tooltip": [tip("class", "less than"), tip("few", "I/Os, at least", ",")],
            }
            spec = chart_spec(values, mark={"type": "rect", "clip": True}, encoding=encoding)
            note = f"{letters} of {_plural(device, op)}: each shade is twice as many I/Os as the one before it."
            table = _table(letters, rows, formatting.duration, 1)
            charts.append(Chart(f"{kind}-map-{op}", f"Latency of {_plural(device, op)} by {kind}", spec, table, note))
    return charts


def _map_cells(rows: Sequence[DensityRow], cells: Sequence[bytes], op: str, label: Callable[[int], str]) -> list[Spec]:
    """Returns the cells of a map that have I/Os; `label` names a column."""
    values: list[Spec] = []
    for row, levels_of_row in zip(rows, cells, strict=True):
        for column, level in enumerate(levels_of_row):
            if level:
                latency = {"low": max(1, row.low), "high": row.end}
                values.append({"class": label(column), **latency, "level": level, "few": 2 ** (level - 1), "op": op})
    return values


def _plural(device: DeviceView, op: str) -> str:
    return formatting.ops(op) if device.capabilities.directions else "I/Os"


def _by_op(rows: Sequence[DensityRow]) -> dict[str, list[bytes]]:
    """Returns the levels of reads and of writes, without a direction that does not occur."""
    texts = {"read": [row.read_levels for row in rows], "write": [row.write_levels for row in rows]}
    return {op: levels(texts_of_op) for op, texts_of_op in texts.items() if any(texts_of_op)}


def _logarithmic(rows: Sequence[DensityRow], cells: Sequence[bytes]) -> list[bytes]:
    """Returns lines of equal height on a logarithmic scale; rows without I/Os are not in the profile."""
    lines: list[bytes] = []
    first = OCTAVE * math.log2(max(1, rows[0].low))
    for row, levels_of_row in zip(rows, cells, strict=True):
        start, end = (round(OCTAVE * math.log2(max(1, edge)) - first) for edge in (row.low, row.end))
        lines += [bytes(len(levels_of_row))] * (start - len(lines)) + [levels_of_row] * (end - start)
    return lines


def _spec(
    axis: TimeAxis,
    width_ns: int,
    picture: DensityPicture,
    span: tuple[float, float],
    y: Spec,
    zoom_axes: tuple[str, ...],
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
    return chart_spec([row], **axis.layers([drawn], *zoom_axes))


def _offset_spec(device: DeviceView, axis: TimeAxis, picture: DensityPicture) -> Spec:
    offsets = device.data.offsets
    low = SECTOR * offsets.rows[0].low
    high = SECTOR * offsets.rows[-1].end
    power = min(len(UNITS) - 1, ((high - low).bit_length() - 1) // 10)
    span = (low / 1024**power, high / 1024**power)
    y = {"title": f"offset ({UNITS[power]})", "scale": {"nice": False, "zero": False, "domain": list(span)}}
    return _spec(axis, offsets.width_ns, picture, span, y, ("x", "y"))


def _table(title: str, rows: Sequence[DensityRow], form: Callable[[float], str], unit: int) -> TextTable:
    """Returns the I/Os by value, in at most `MOST_ROWS` rows."""
    group_size = -(-len(rows) // MOST_ROWS)
    cells = []
    for start in range(0, len(rows), group_size):
        part = rows[start : start + group_size]
        counts = [sum(row.reads for row in part), sum(row.writes for row in part)]
        cells.append([form(unit * part[0].low), form(unit * part[-1].end), *map(formatting.count, counts)])
    return TextTable(title, number_columns("from", "below", "reads", "writes"), cells)


Colour = tuple[int, int, int, int]  # Red, green, blue and opacity, 0..=255


def png(rows: Sequence[bytes], palette: Sequence[Colour]) -> bytes:
    """Returns a picture with one byte for each pixel, an index into at most 256 colours."""
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", b"".join(bytes(colour[:3]) for colour in palette)),
        (b"tRNS", bytes(colour[3] for colour in palette)),
        (b"IDAT", pixels),
        (b"IEND", b""),
    ]
    blocks = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(blocks)


def shades(colour: str, count: int) -> list[Colour]:
    """Returns `count` shades of a colour `#rrggbb`, from pale to opaque."""
    red, green, blue = (int(colour[offset : offset + 2], 16) for offset in (1, 3, 5))
    return [(red, green, blue, round(255 * (0.2 + 0.8 * level / count))) for level in range(1, count + 1)]
