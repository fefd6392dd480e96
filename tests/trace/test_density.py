"""The pictures of density show what the profile has."""

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

from blklab.render import chart_theme as theme
from blklab.render.chart import Chart
from blklab.trace.charts import density
from blklab.trace.view import ProfileView
from tests.trace.conftest import life, read_trace
from tests.trace.generated import process, write_trace

SLICE = 1 << 20
"""ns of the first slices of a trace."""


def image(chart: Chart) -> dict[str, Any]:
    """The row of data of a picture, with its pixels from top to bottom and its palette."""
    (row,) = chart.spec["data"]["values"]
    encoded = base64.b64decode(row["url"].removeprefix("data:image/png;base64,"))
    assert encoded.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(encoded):
        (length,) = struct.unpack_from(">I", encoded, at)
        name, body = encoded[at + 4 : at + 8], encoded[at + 8 : at + 8 + length]
        assert zlib.crc32(name + body) == struct.unpack_from(">I", encoded, at + 8 + length)[0]
        chunks[name] = body
        at += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    lines = zlib.decompress(chunks[b"IDAT"])
    pixels = [lines[at * (width + 1) + 1 : (at + 1) * (width + 1)] for at in range(height)]
    return {**row, "pixels": pixels, "palette": chunks[b"PLTE"], "opacity": chunks[b"tRNS"]}


def written(directory: Path) -> ProfileView:
    """Sequential reads of a process `a`, and two writes of `b` in one cell above them."""
    records = [process(1, b"a"), process(2, b"b")]
    for at in range(8):
        records += life(at * SLICE, at * 128, pid=1)
    for offset in (0, 8):
        records += life(2 * SLICE + offset, 9 * 128 + offset, write=True, pid=2)
    records.sort(key=lambda record: record.time)
    return read_trace(write_trace(directory / "t", records))


def test_offsets_are_where_and_when_ios_began(tmp_path: Path) -> None:
    reads, writes = density.offset_charts(written(tmp_path).focus)
    seen = image(reads)
    assert (seen["t"], seen["y"], seen["y2"]) == (0, 0, 640)
    assert seen["t2"] == round(8 * SLICE / 1e6, 6)  # ms
    diagonal = {(9 - row, column) for row, line in enumerate(seen["pixels"]) for column, n in enumerate(line) if n}
    assert diagonal == {(at, at) for at in range(8)}
    colour = theme.LIGHT["read"][1:]
    assert seen["palette"][3:6].hex() == colour
    assert seen["opacity"][0] == 0 < seen["opacity"][1]
    assert [list(line) for line in image(writes)["pixels"] if any(line)] == [[0, 0, 2]]
    assert "the darkest 2 to 3 I/Os" in writes.note
    assert "A cell is 1.05 ms by 64 KiB" in reads.note
    assert reads.table.rows[0] == ["0 B", "64 KiB", "1", "0"]


def test_latencies_are_on_a_logarithmic_scale(tmp_path: Path) -> None:
    reads, _ = density.latency_charts(written(tmp_path).focus)
    seen = image(reads)
    assert seen["y"] <= 10_000_000 < seen["y2"]
    assert [column for column, n in enumerate(seen["pixels"][0]) if n] == list(range(9, 17))
    assert reads.spec["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_pictures_of_a_real_trace_have_every_io(pgbench: ProfileView) -> None:
    device = pgbench.focus
    for chart in density.offset_charts(device)[:2]:
        columns = {"offset-read": 2, "offset-write": 3}
        total = sum(int(row[columns[chart.name]].replace(",", "")) for row in chart.table.rows)
        assert total == device.op(chart.name.removeprefix("offset-")).ios
        assert len(chart.table.rows) <= density.MOST_ROWS
    rows = device.data.over_time.latencies
    assert sum(row.reads for row in rows) == device.life("read").completed
