"""`blklab trace hist`: histograms in the terminal."""

from typing import TYPE_CHECKING

import click

from blklab import _core
from blklab.cli.common import emit, json_option
from blklab.cli.trace.read_trace import read
from blklab.cli.trace.selection import selection_options, trace_arguments

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@trace_arguments
@selection_options
@click.option(
    "--what",
    type=click.Choice(["size", "latency", "depth", "seek"]),
    default="size",
    show_default=True,
    help="What to count.",
)
@click.option("--all-devices", is_flag=True, help="Every device, not only the main one.")
@json_option
def hist(
    *,
    paths: tuple[str, ...],
    format_name: str | None,
    selection: _core.Filter,
    what: str,
    all_devices: bool,
    as_json: bool,
) -> None:
    """Draw a histogram of TRACE for each operation: sizes, latencies, queue depth or seeks.

    \b
    --what size      request sizes, in bins of 4 KiB centred on the size: 4 KiB
                     stands for 2 KiB up to but not including 6 KiB
    --what latency   time from queued to completed (Q2C), ten bins a decade;
                     D2C where nothing was seen queued
    --what depth     time spent with so many I/Os in flight
    --what seek      distance from the end of one I/O to the start of the next,
                     powers of two in both directions

    Each line has the bin, a bar, the count, its share and the share of all bins so far. Bins
    without I/O are left out.

    \b
    Examples:
      blklab trace hist md127
      blklab trace hist md127 --what latency --op read
      blklab trace hist traces/ --what latency --device sda --device sdb
      blklab trace hist md127 --json | jq '.[0].histograms[0].bins'
    """
    from blklab.report import histogram

    view = read(paths, selection, format_name)
    histograms_shown = [
        (device, histogram.KINDS[what](device)) for device in view.detailed(all_devices=all_devices)
    ]

    def draw(console: "Console") -> None:
        histogram.show(console, histograms_shown)

    document = [
        {
            "device": device.number,
            "name": device.data["name"],
            "what": what,
            "histograms": [histogram.as_json(histogram_) for histogram_ in histograms],
        }
        for device, histograms in histograms_shown
    ]
    emit(document, as_json, draw)
