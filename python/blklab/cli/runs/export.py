"""`blklab runs export`: export results."""

import click

from blklab import output as files
from blklab.cli.common import store_option


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option(
    "--as",
    "form",
    type=click.Choice(["json", "csv", "series"]),
    default="json",
    help="json: complete results; csv: one row for each run; series: figures over time, as Parquet.",
)
@click.option("-o", "output", metavar="FILE", help="File to write; default: standard output.")
@store_option
def export(*, campaigns: tuple[str, ...], form: str, output: str | None, store: str | None) -> None:
    """Export the runs of CAMPAIGNS as JSON, CSV or Parquet.

    \b
    Examples:
      blklab runs export 3 4 --as csv -o figures.csv
      blklab runs export unbalanced@host --as series -o series.parquet
    """
    from blklab.report.runs import as_csv, as_json
    from blklab.store import query, series

    output = output or "-"
    files.check(output)
    _, selections, points = query.opened(store, campaigns)
    runs = [run for selection in selections for run in selection.runs]
    if form == "series":
        content = series.encoded_runs({run.id: points(run.id) for run in runs})
    elif form == "csv":
        content = as_csv(runs).encode()
    else:
        content = as_json(runs).encode()
    files.write(output, content)
