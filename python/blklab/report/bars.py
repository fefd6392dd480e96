"""Histograms in the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from blklab.report import words
from blklab.report.histogram import Histogram
from blklab.report.terminal import bar
from blklab.report.view import Device

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST: Final = 10
WIDEST: Final = 60
"""Cells of the longest bar."""

COLOURS: Final = {"reads": "blue", "writes": "yellow", "discards": "magenta", "flushes": "green"}


def draw(console: "Console", found: Sequence[tuple[Device, Sequence[Histogram]]]) -> None:
    """Prints the histograms of each device."""
    from rich.rule import Rule
    from rich.text import Text

    for at, (device, histograms) in enumerate(found):
        if at:
            console.print()
        console.print(Rule(Text(device.label, style="bold"), align="left", style="cyan"))
        if not histograms:
            console.print(Text("nothing to count here", style="dim"))
        for histogram in histograms:
            console.print()
            _draw(console, histogram)


def _draw(console: "Console", histogram: Histogram) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    total, longest = histogram.total, max(one.count for one in histogram.bins)
    counts = [_count(histogram, one.count) for one in histogram.bins]
    labels = max(len(one.label) for one in histogram.bins)
    room = console.width - labels - max(map(len, [*counts, "time"])) - 2 * 9 - 8
    width = max(NARROWEST, min(WIDEST, room))
    style = COLOURS.get(histogram.title.split()[-1], "cyan")
    console.print(
        Text.assemble((histogram.title, "bold"), (f"  {_count(histogram, total)}", "bold"))
    )
    console.print(Text(histogram.note, style="dim"))
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("", justify="right", no_wrap=True)
    grid.add_column("", width=width, no_wrap=True)
    for heading in ("time" if histogram.unit == "ns" else "I/Os", "share", "so far"):
        grid.add_column(heading, justify="right", no_wrap=True)
    so_far = 0.0
    for one, count in zip(histogram.bins, counts, strict=True):
        so_far += one.count
        grid.add_row(
            one.label,
            Text(bar(one.count, longest, width), style=style),
            Text(count, style="" if one.count else "dim"),
            words.share(one.count / total) if total else words.NONE,
            Text(words.share(so_far / total) if total else words.NONE, style="dim"),
        )
    console.print(grid)


def _count(histogram: Histogram, count: float) -> str:
    if histogram.unit == "ns":
        return words.duration(count)
    return words.plural(int(count), "I/O") if count == histogram.total else words.count(int(count))
