"""Histograms of a device: sizes, latencies, queue depth and seeks, by operation."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from blklab.documents.profile import LevelTime, SeekRange, SizeCount
from blklab.render import formatting
from blklab.render.console import Console, assemble_text, style_text
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import bar, blocks, draw_table, is_collecting
from blklab.trace.view import OPS, DeviceView
from blklab.units import SECTOR

NARROWEST = 10
WIDEST = 60  # Characters of the longest bar
COLOURS = {"reads": "blue", "writes": "yellow", "discards": "magenta", "flushes": "green"}


@dataclass(frozen=True)
class Bin:
    label: str
    low: float
    high: float
    count: float


@dataclass(frozen=True)
class Histogram:
    """Bins in ascending order without the empty ones, and the unit of their counts."""

    title: str
    unit: str  # The unit of the counts: `I/Os`, or `ns` for time
    bins: list[Bin]
    note: str = ""

    @property
    def total(self) -> float:
        """The sum of all bins."""
        return sum(histogram_bin.count for histogram_bin in self.bins)


def sizes(device: DeviceView) -> list[Histogram]:
    """Returns request sizes by operation, in bins of 4 KiB centred on the size."""
    histograms = []
    for op in ("read", "write", "discard"):
        op_sizes = device.op(op).sizes
        centres = [(entry.center_kib, entry.count) for entry in op_sizes.bins_4k]
        bins = [
            Bin(formatting.size(1024 * kib) if kib else "<2 KiB", max(0, kib - 2) * 1024, (kib + 2) * 1024, count)
            for kib, count in centres
        ]
        mean = formatting.size(op_sizes.mean_bytes)
        median = formatting.size(op_sizes.median_bytes)
        note = f"mean {mean}, median {median}, most often {formatting.size(op_sizes.mode_bytes)}"
        if half := _half_of_bytes(op_sizes.exact):
            note += f"; half of the bytes are in I/Os of at least {formatting.size(half)}"
        histograms.append(Histogram(f"Sizes of {formatting.ops(op)}", "I/Os", bins, note))
    return [histogram for histogram in histograms if histogram.bins]


def _half_of_bytes(sizes_of_op: Sequence[SizeCount]) -> int | None:
    """Returns the size from which on I/Os have half of the bytes."""
    total = sum(entry.bytes * entry.count for entry in sizes_of_op)
    above = 0
    for entry in sorted(sizes_of_op, key=lambda entry: -entry.bytes):
        above += entry.bytes * entry.count
        if above * 2 >= total:
            return entry.bytes
    return None


def latency(device: DeviceView) -> list[Histogram]:
    """Returns latencies by operation, in ten logarithmic bins per decade."""
    histograms = []
    for op in OPS:
        if (response := device.response(op)) is None:
            continue
        stage, quantiles = response
        bins = [
            Bin(f"{formatting.duration(low)} – {formatting.duration(high)}", low, high, count)
            for low, high, count in device.life(op).histogram
        ]
        median = formatting.duration(quantiles.p50)
        p99 = formatting.duration(quantiles.p99)
        note = f"mean {formatting.duration(quantiles.mean)}, median {median}, 99th percentile {p99}"
        histograms.append(Histogram(f"{stage} of {formatting.ops(op)}", "I/Os", bins, note))
    return histograms


def depth(device: DeviceView) -> list[Histogram]:
    """Returns the time with each number of I/Os in flight."""
    histograms = []
    for title, level in (("I/Os in flight", device.data.in_flight), ("Requests at the device", device.data.dispatched)):
        if device.ends and (bins := _group_levels(level.histogram)):
            note = f"mean {formatting.number(level.mean)}, at most {level.max:,}; weighted by time"
            histograms.append(Histogram(title, "ns", bins, note))
    return histograms


SINGLE = 16  # Depths up to this have one bin each; larger ones have bins between powers of two


def _group_levels(levels: list[LevelTime]) -> list[Bin]:
    times: dict[tuple[int, int], int] = {}
    for entry in levels:
        low, high = entry.low, entry.high
        if low > SINGLE:
            power = (low - 1).bit_length()
            low = 2 ** (power - 1) + 1
            high = max(2**power, high)
        times[low, high] = times.get((low, high), 0) + entry.time_ns
    return [
        Bin(f"{low:,}" if low == high else f"{low:,}–{high:,}", low, high + 1, time_ns)
        for (low, high), time_ns in times.items()
    ]


def seek(device: DeviceView) -> list[Histogram]:
    """Returns seek distances, in powers of two in both directions."""
    seeks = device.data.pattern.seeks
    bins = [
        Bin(_distance(entry), entry.low_sectors * SECTOR, entry.high_sectors * SECTOR, entry.count)
        for entry in seeks.histogram
    ]
    if not bins:
        return []
    note = "from the end of one read or write to the start of the next; negative is backwards"
    return [Histogram("Seek distances", "I/Os", bins, note)]


def _distance(entry: SeekRange) -> str:
    low, high = SECTOR * entry.low_sectors, SECTOR * entry.high_sectors
    if low == high:
        return formatting.size(low) if low else "0 (sequential)"
    # Ranges are [2^i, 2^(i+1)) sectors: they are named after their power of two.
    return f"from {formatting.size(low)}" if low > 0 else f"from {formatting.size(high)}"


KINDS: dict[str, Callable[[DeviceView], list[Histogram]]] = {
    "size": sizes,
    "latency": latency,
    "depth": depth,
    "seek": seek,
}
"""All kinds of histograms, by the value of `--what`."""


def as_json(histogram: Histogram) -> dict[str, Any]:
    """Returns a histogram as JSON: bins are `[low, high)`, in bytes or ns."""
    return {
        "title": histogram.title,
        "counted": histogram.unit,
        "total": histogram.total,
        "bins": [asdict(histogram_bin) for histogram_bin in histogram.bins],
    }


def tables(by_device: Sequence[tuple[DeviceView, Sequence[Histogram]]]) -> list[TextTable]:
    """Returns the histograms as tables of plain numbers: bins are `[low, high)`, in bytes, ns or I/Os."""
    result = []
    for device, histograms in by_device:
        for histogram in histograms:
            rows = []
            for one in histogram.bins:
                rows.append([one.label, *(f"{figure:.15g}" for figure in (one.low, one.high, one.count))])
            columns = [text_column("bin"), *number_columns("low", "high", histogram.unit)]
            result.append(TextTable(f"{device.label}: {histogram.title}", columns, rows))
    return result


def print_histograms(console: Console, by_device: Sequence[tuple[DeviceView, Sequence[Histogram]]]) -> None:
    from rich.rule import Rule

    if is_collecting():  # Bars are no table
        draw_table(console, *tables(by_device))
        return
    for index, (device, histograms) in enumerate(by_device):
        if index:
            console.print()
        console.print(Rule(style_text(device.label, "bold"), align="left", style="cyan"))
        if not histograms:
            console.print(style_text("nothing to count", "dim"))
        for histogram in histograms:
            console.print()
            _draw(console, histogram)


def _draw(console: Console, histogram: Histogram) -> None:
    from rich.table import Table as Grid

    total = histogram.total
    longest = max(histogram_bin.count for histogram_bin in histogram.bins)
    counts = [_count(histogram, histogram_bin.count) for histogram_bin in histogram.bins]
    labels = max(len(histogram_bin.label) for histogram_bin in histogram.bins)
    room = console.width - labels - max(map(len, [*counts, "time"])) - 2 * 9 - 8
    width = max(NARROWEST, min(WIDEST, room))
    style = COLOURS.get(histogram.title.split()[-1], "cyan")
    console.print(assemble_text((histogram.title, "bold"), (f"  {_count(histogram, total)}", "bold")))
    console.print(style_text(histogram.note, "dim"))
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("", justify="right", no_wrap=True)
    grid.add_column("", width=width, no_wrap=True)
    for heading in ("time" if histogram.unit == "ns" else "I/Os", "share", "so far"):
        grid.add_column(heading, justify="right", no_wrap=True)
    so_far = 0.0
    for histogram_bin, count in zip(histogram.bins, counts, strict=True):
        so_far += histogram_bin.count
        grid.add_row(
            histogram_bin.label,
            style_text(blocks(bar(histogram_bin.count, longest, width), console), style),
            style_text(count, style="" if histogram_bin.count else "dim"),
            formatting.share(histogram_bin.count / total) if total else formatting.NONE,
            style_text(formatting.share(so_far / total) if total else formatting.NONE, "dim"),
        )
    console.print(grid)


def _count(histogram: Histogram, count: float) -> str:
    if histogram.unit == "ns":
        return formatting.duration(count)
    return formatting.plural(int(count), "I/O") if count == histogram.total else formatting.count(int(count))
