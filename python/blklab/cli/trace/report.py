"""`blklab trace report`: what the workload is, as one HTML page."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import _core
from blklab.cli.common import json_option, progress
from blklab.cli.trace.read_trace import read
from blklab.cli.trace.selection import selection_options, trace_arguments

if TYPE_CHECKING:
    from blklab.documents.profile import Profile


@click.command()
@trace_arguments
@selection_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The page to write; `-` for stdout.  [default: TRACE's name with .html, here]",
)
@click.option("--charts", metavar="DIR", help="Write each chart as PNG and SVG there too.")
@click.option("--title", metavar="TEXT", help="The page's title.")
@json_option
def report(
    *,
    paths: tuple[str, ...],
    format_name: str | None,
    selection: _core.Filter,
    output: str | None,
    charts: str | None,
    title: str | None,
    as_json: bool,
) -> None:
    """Write a report on TRACE: one HTML file that needs no network, to read and to pass on.

    It says in five sentences what the workload is, then shows it: the stack of devices, the load
    and the response times over time, request sizes, queue depth, sequential streams and seeks,
    bursts, hot blocks and the working set, processes, source devices and CPUs. Behind each chart is
    its table. Ctrl+wheel zooms a chart over time, dragging moves it, a double-click goes back. The
    page follows the reader's light or dark scheme, fits a phone, and prints.

    A file that is there already is replaced, at once and as a whole. The path is tried before the
    trace is read.

    \b
    Examples:
      blklab trace report md127                          writes md127.html
      blklab trace report traces/ -o report.html --title "db7, Friday evening"
      blklab trace report md127 --since 30s --until 90s -o minute.html
      blklab trace report md127 --device vdc             a member instead of the array
      blklab trace report md127 --charts charts/         with charts/iops.png, .svg ...
      blklab trace report md127 -o - | ssh web 'cat > md127.html'

    \b
    Exit status: 0 done, 1 no I/O in what was selected or an unreadable trace, 2 usage: the output
    cannot be written.
    """
    from blklab import output as out

    target = output or default_name(paths[0])
    to_stdout = target in out.STDOUT
    out.check(target)
    if charts is not None:
        out.make_directory(Path(charts))
    view = read(paths, selection, format_name)
    from blklab.report import page

    html = page.render(view, title=title, command=command_line(paths, format_name, view.profile))
    out.write(target, html.encode())  # UTF-8, whatever the locale
    written = [] if to_stdout else [target]
    if charts is not None:
        from blklab.report.export import export

        page_charts = page.charts(view)
        with progress("drawing charts", total=2 * len(page_charts)) as done:
            for number, path in enumerate(export(page_charts, Path(charts)), start=1):
                written.append(str(path))
                done(number)
    tell(written, len(html.encode()), as_json=as_json, to_stdout=to_stdout)


def tell(written: list[str], size: int, *, as_json: bool, to_stdout: bool) -> None:
    """Says what was written: to stderr if the page itself went to stdout; pictures in short."""
    import json

    from blklab.text import printable
    from blklab.units import format_size

    if as_json:
        click.echo(json.dumps({"written": written, "bytes": size}, indent=2), err=to_stdout)
        return
    page, pictures = ([], written) if to_stdout else (written[:1], written[1:])
    for path in page:
        click.echo(f"{printable(path)}  {format_size(size)}")
    if pictures:
        directory = printable(str(Path(pictures[0]).parent))
        click.echo(f"{directory}/  {len(pictures)} pictures", err=to_stdout)


def default_name(path: str) -> str:
    """Returns the page's name for a trace: `md127.html` for md127, its files or its directory."""
    name = "trace" if path == "-" else Path(path).resolve().name
    return f"{name.split('.blktrace')[0].split('.')[0] or 'trace'}.html"


def command_line(paths: tuple[str, ...], format_name: str | None, profile: "Profile") -> str:
    """Returns the command that makes the page again."""
    words = ["blklab", "trace", "report", *paths]
    if format_name:
        words += ["--format", format_name]
    chosen = profile["filter"]
    words += [word for value in chosen["devices"] for word in ("--device", value)]
    words += [word for value in chosen["processes"] for word in ("--process", value)]
    words += [word for value in chosen["ops"] for word in ("--op", value)]
    for time, option in ((chosen["since_ns"], "--since"), (chosen["until_ns"], "--until")):
        if time is not None:
            words += [option, f"{time}ns"]
    return shlex.join(words)
