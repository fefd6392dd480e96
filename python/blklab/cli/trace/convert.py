"""`blklab trace convert`: convert a trace to another format."""

import click

from blklab import _core, units
from blklab.cli.common import emit, json_option, warn
from blklab.cli.signals import register_output
from blklab.cli.streams import native
from blklab.cli.trace.selection import TraceSource, trace_options
from blklab.output import STDOUT
from blklab.render.console import Console
from blklab.text.printing import printable


@click.command(epilog="\b\nFormats:\n" + "\n".join(f"  {name:<16} {about}" for name, about in _core.trace_targets()))
@trace_options
@click.option("-o", "--output", required=True, metavar="FILE", help="File to write; - for stdout.")
@click.option(
    "--to",
    type=click.Choice([name for name, _ in _core.trace_targets()]),
    metavar="FORMAT",
    help="Format to write; default: from the suffix of FILE.",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@json_option
def convert(source: TraceSource, output: str, to: str | None, overwrite: bool, as_json: bool) -> None:
    """Convert a trace to another format.

    \b
      blklab trace convert md127 -o md127.parquet        events, for polars, DuckDB, pandas
      blklab trace convert md127 -o md127.ios.parquet    I/Os with their times
      blklab trace convert md127 --op read -o r.iolog    for fio --read_iolog
      blklab trace convert usr_0.csv.gz -o usr_0         blktrace binary, for blkparse

    blklab writes to a temporary file in the same directory and renames it when it is complete.
    """
    from blklab.trace.convert import convert as converting

    with register_output(output), native(output):
        document = converting(
            source.paths, output, source.selection, to=to, format_name=source.format_name, overwrite=overwrite
        )
    for warning in document["trace"]["warnings"]:
        warn(f"{warning['path']}: {warning['message']}")
    report = document["report"]

    def draw(console: Console) -> None:
        from blklab.render import formatting

        amount = formatting.plural(report["written"], "I/O" if document["to"] == "ios" else "event")
        omitted_count = report["taken"] - report["written"]
        names = ", ".join(printable(file) for file in report["files"])
        console.print(
            f"{names}: {amount}, {units.format_size(report['bytes'])}"
            + (f" ({omitted_count:,} cannot be stored in this format)" if omitted_count else "")
        )

    if output not in STDOUT or as_json:
        emit(document, as_json, draw)
