"""`blklab trace hist`: draw histograms in the terminal."""

import click

from blklab.cli.common import csv_option, emit, json_option
from blklab.cli.trace.selection import TraceSource, trace_options


@click.command()
@trace_options
@click.option(
    "--what", type=click.Choice(["size", "latency", "depth", "seek"]), default="size", help="The quantity to count."
)
@click.option("--all-devices", is_flag=True, help="Show all devices, not only the main one.")
@json_option
@csv_option
def hist(*, source: TraceSource, what: str, all_devices: bool, as_json: bool) -> None:
    """Draw a histogram of TRACE for each operation: sizes, latencies, queue depth or seeks.

    \b
    --what size      request sizes, in bins of 4 KiB; the bin "4 KiB" holds sizes
                     from 2 KiB to less than 6 KiB
    --what latency   time from queued to completed (Q2C), ten bins per decade;
                     D2C if the trace has no Q events
    --what depth     time with this number of I/Os in flight
    --what seek      distance from the end of one I/O to the start of the next,
                     in powers of two, in both directions

    Each line shows the bin, a bar, the count, its share and the cumulative share. Bins without I/O are omitted.

    \b
    Examples:
      blklab trace hist md127
      blklab trace hist md127 --what latency --op read
      blklab trace hist traces/ --what latency --device sda --device sdb
      blklab trace hist md127 --json | jq '.[0].histograms[0].bins'
    """
    from blklab.cli.trace.trace_view import read_view
    from blklab.trace import histogram

    view = read_view(source)
    histograms_shown = [
        (device, histogram.KINDS[what](device)) for device in view.devices_in_full(all_devices=all_devices)
    ]
    document = [
        {
            "device": device.number,
            "name": device.data.name,
            "what": what,
            "histograms": [histogram.as_json(op_histogram) for op_histogram in histograms],
        }
        for device, histograms in histograms_shown
    ]
    emit(document, as_json, lambda console: histogram.print_histograms(console, histograms_shown))
