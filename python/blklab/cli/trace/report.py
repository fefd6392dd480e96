"""`blklab trace report`: write an HTML page that describes the workload."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import output as out
from blklab.cli.common import json_option, progress, warn_each
from blklab.cli.trace.selection import COLUMNS, TraceReading, TraceSource, reading_options, trace_options
from blklab.errors import UsageError
from blklab.text.printing import printable
from blklab.units import format_size

if TYPE_CHECKING:
    from blklab.documents.profile import Profile
    from blklab.render.chart import Chart


@click.command()
@trace_options
@reading_options
@click.option(
    "-o", "--output", metavar="FILE", help="File to write; `-` for stdout.  [default: name of TRACE with .html]"
)
@click.option("--cache", is_flag=True, help="Add hit ratios by cache size, as `cache curve` computes them.")
@click.option("--charts", metavar="DIR", help="Also write each chart as PNG and SVG to DIR.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@json_option
def report(
    *,
    source: TraceSource,
    reading: TraceReading,
    output: str | None,
    cache: bool,
    charts: str | None,
    title: str | None,
    as_json: bool,
) -> None:
    """Write a report on TRACE: one HTML file that works without a network.

    Five sentences describe the workload. Charts and tables follow: the stack of devices; load, latency, queue depth,
    utilisation, processes and members over time, with stalls; the offset over time; request sizes, the slowest I/Os,
    sequential streams and seeks, bursts, hot blocks and the working set, processes, source devices and CPUs. Each chart
    has its table. Ctrl+wheel zooms a chart over time, dragging moves it, and a double-click resets it. Dragging with
    Shift sums up a range. The page supports light and dark schemes, phones and printing.

    An existing file is replaced atomically. blklab checks the path before it reads the trace.

    \b
    Examples:
      blklab trace report md127                          write md127.html
      blklab trace report traces/ -o report.html --title "db7, Friday evening"
      blklab trace report md127 --since 30s --until 90s -o minute.html
      blklab trace report md127 --device vdc             report on a member
      blklab trace report md127 --files /srv             also the busiest files of this filesystem
      blklab trace report md127 --cache                  also what an SSD cache would serve
      blklab trace report md127 --charts charts/         also write charts/iops.png, .svg ...
      blklab trace report 's3://traces/host-*/2026-11-*' -o fleet.html
      blklab trace report md127 -o - | ssh web 'cat > md127.html'

    \b
    Exit status: 0 success; 1 no I/O in the selection, or the trace cannot be read; 2 the output
    cannot be written.
    """
    from blklab.caches.curves import doubts
    from blklab.cli.trace.trace_view import read_view
    from blklab.trace import page
    from blklab.trace.cache_curves import read_curves

    target = output or default_name(source.paths[0])
    out.check(target)
    if charts is not None:
        out.make_directory(Path(charts))
    if cache and reading.is_spread:
        raise UsageError("--cache needs a trace on this machine: `cache curve --cluster` computes its curves")
    view = read_view(source, reading)
    curves = read_curves(source.paths, format=source.format_name, selection=source.selection) if cache else None
    warn_each(doubts(curves) if curves else [])
    command = command_line(source, view.profile, reading, cache=cache)
    parts = page.sections(view, curves)
    html = page.render(view, parts, title=title, command=command)
    write_page(target, html, charts, page.charts(parts), as_json=as_json)


def write_page(
    target: str,
    page: str,
    directory: str | None = None,
    charts: "Sequence[Chart]" = (),
    captions: "Sequence[str]" = (),
    *,
    as_json: bool,
) -> None:
    """Write a page, and its charts to a directory; print their names, to stderr if the page goes to stdout.

    `captions` are lines below the title of each picture.
    """
    content = page.encode()  # UTF-8 in any locale
    out.write(target, content)
    pictures: list[str] = []
    if directory is not None:
        from blklab.render.picture_export import export

        with progress("drawing charts", total=2 * len(charts)) as done:
            for path in export(charts, Path(directory), captions):
                pictures.append(str(path))
                done(len(pictures))
    to_stdout = target in out.STDOUT
    pages = [] if to_stdout else [target]
    if as_json:
        click.echo(json.dumps({"written": pages + pictures, "bytes": len(content)}, indent=2), err=to_stdout)
        return
    for name in pages:
        click.echo(f"{printable(name)}  {format_size(len(content))}")
    if pictures:
        click.echo(f"{printable(str(Path(pictures[0]).parent))}/  {len(pictures)} pictures", err=to_stdout)


def default_name(path: str) -> str:
    """Returns the page's name for a trace: `md127.html` for md127, its files or its directory."""
    name = "trace" if path == "-" else Path(path).resolve().name
    return f"{name.split('.blktrace')[0].split('.')[0] or 'trace'}.html"


def command_line(source: TraceSource, profile: "Profile", reading: TraceReading, *, cache: bool) -> str:
    """Returns the command that makes the page again."""
    options = selection_words(source.format_name, profile)
    if reading.exact:
        options.append("--exact")
    if reading.files:
        options += ["--files", reading.files]
    if cache:
        options.append("--cache")
    if reading.cluster:
        options.append(f"--cluster={reading.cluster}")
    if reading.skip_broken:
        options.append("--skip-broken")
    return shlex.join(["blklab", "trace", "report", *source.paths, *options])


def selection_words(format_name: str | None, profile: "Profile") -> list[str]:
    """Returns the options that select the same I/O again."""
    options: list[str] = []
    if format_name is not None:
        columns = format_name.removeprefix(COLUMNS)
        options = ["--format", format_name] if columns == format_name else ["--columns", columns]
    filters = profile.filter
    for device in filters.devices:
        options += ["--device", device]
    for process in filters.processes:
        options += ["--process", process]
    for op in filters.ops:
        options += ["--op", op]
    for time, option in (
        (filters.since_ns, "--since"),
        (filters.until_ns, "--until"),
        (filters.min_latency_ns, "--min-latency"),
    ):
        if time is not None:
            options += [option, f"{time}ns"]
    for low, high, option in (
        (filters.first_sector, filters.last_sector, "--sector"),
        (filters.min_bytes, filters.max_bytes, "--size"),
    ):
        if low is not None:
            options += [option, f"{low}-{high}"]
    return options
