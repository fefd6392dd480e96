"""`blklab trace events`: print the events as text."""

import click

from blklab import _core
from blklab.cli import signals, streams
from blklab.cli.common import warn
from blklab.cli.trace.selection import TraceSource, trace_options


@click.command()
@trace_options
@click.option("-q", "--quiet", is_flag=True, help="Omit the summary at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def events(source: TraceSource, quiet: bool, as_json: bool) -> None:
    """Print events exactly as blkparse does.

    Lines, order and summary are those of blkparse 1.2.0 with default options.

    \b
      blklab trace events md127 | grep ' C '
      blklab trace events md127 --process postgres --since 10s --until 11s -q
    """
    streams.check_stdout()
    with signals.at_once():
        is_complete, warnings = _core.print_events(
            source.paths, source.selection, format=source.format_name, summary=not quiet, as_json=as_json
        )
    for path, message in warnings:
        warn(f"{path}: {message}")
    if not is_complete:
        raise BrokenPipeError
