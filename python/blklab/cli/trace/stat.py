"""`blklab trace stat`: what the workload is, in the terminal."""

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
    "--all-devices", is_flag=True, help="Show every device in full, not only the main one."
)
@json_option
def stat(
    *,
    paths: tuple[str, ...],
    format_name: str | None,
    selection: _core.Filter,
    all_devices: bool,
    as_json: bool,
) -> None:
    """Say what the workload of TRACE is: in five sentences, then in figures.

    The sentences say how much I/O of which kind and size there was (Load), in which order and
    rhythm (Pattern), how long it took and how much of it was under way at once (Latency), how much
    data it touched and how hot the hottest of it is (Locality), and who asked for it (Origin).

    The tables give the figures behind them. Times are those of the life of an I/O in btt's
    letters: Q queued, G request allocated, I inserted, D dispatched, C completed; Q2C is what the
    caller waits for, D2C what the device needs. Quantiles are exact for the first 4,096 I/Os of a
    kind; beyond, --json states their largest error as relative_error.

    When the trace holds several devices, all are listed, and the one that the whole workload
    passes through (an array rather than its members) is shown in full. Choose others with --device,
    or all with --all-devices.

    \b
    Examples:
      blklab trace stat md127                        the set md127.blktrace.0, .1 ...
      blklab trace stat traces/                      every set in a directory, as one trace
      blktrace -d /dev/sda -o - -w 10 | blklab trace stat -
      blklab trace stat md127 --since 10s --until 20s --op write
      blklab trace stat md127 --process postgres --json | jq .devices[0].life.read.latency_ns.q2c

    \b
    Exit status: 0 done, 1 no I/O in what was selected or an unreadable trace, 2 usage.
    """
    view = read(paths, selection, format_name)

    def draw(console: "Console") -> None:
        from blklab.report import terminal

        terminal.stat(console, view, all_devices=all_devices)

    emit(view.profile, as_json, draw)
