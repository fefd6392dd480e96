"""`blklab trace diff`: compare two recordings."""

import shlex
from dataclasses import replace

import click

from blklab import output as out
from blklab.cli.common import csv_option, emit, json_option
from blklab.cli.trace.report import selection_words, write_page
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.errors import UsageError


@click.command()
@trace_options
@click.option("--between", metavar="DEV,DEV", help="Compare the first device, of A, with the second, of B.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page; `-` for stdout.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@json_option
@csv_option
def diff(*, source: TraceSource, between: str | None, output: str | None, title: str | None, as_json: bool) -> None:
    """Compare recording B with recording A: before and after, or two servers.

    The main device of each is compared, or those of --between; give TRACE once to compare two devices of one
    recording. Filters apply to both.

    The first table has IOPS, bandwidth, sizes and latencies. A metric "differs" if the change is larger than its
    variation over time within the recordings explains; "may be chance" if it is not. To know whether two days differ,
    record several days. Then the five sentences about both follow, and each table, with the rows that differ.

    \b
    Examples:
      blklab trace diff monday/ tuesday/
      blklab trace diff before/md127 after/md127 --op write -o after.html
      blklab trace diff db7/ --between sda,sdb          two members of one array

    \b
    Exit status: 0 success; 1 no I/O in the selection, or a trace cannot be read; 2 wrong usage.
    """
    from blklab.cli.trace.trace_view import read_view
    from blklab.render import formatting
    from blklab.trace import diff as trace_diff

    devices: list[str | None] = [None, None]
    if between is not None:
        devices = [word.strip() for word in between.split(",")]
        if len(devices) != 2 or not all(devices):
            raise UsageError(f"--between {between!r}: expected two devices, such as sda,sdb")
    if len(source.paths) not in ({2} if between is None else {1, 2}):
        count = formatting.plural(len(source.paths), "recording")
        raise UsageError(
            f"{count}: expected two, or one with --between DEV,DEV (name a recording of several files by its directory)"
        )
    out.check(output)
    views = [read_view(replace(source, paths=(path,))) for path in source.paths]
    views = views * 2 if len(views) == 1 else views
    names = [source.paths[0], source.paths[-1]]
    comparison = trace_diff.TraceDiff(
        names,
        views,
        [view.active_device(*pair) for view, pair in zip(views, zip(devices, names, strict=True), strict=True)],
    )
    if output is not None:
        command = ["blklab", "trace", "diff", *source.paths]
        command += selection_words(source.format_name, views[0].profile)
        if between:
            command += ["--between", between]
        write_page(output, trace_diff.render(comparison, title=title, command=shlex.join(command)), as_json=as_json)
        return
    emit(comparison.as_dict(), as_json, lambda console: trace_diff.print_diff(console, comparison))
