"""`blklab report`: write a report of campaigns."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import output as out
from blklab.cli.common import json_option, store_option
from blklab.cli.trace.report import write_page
from blklab.cli.value_completion import complete_campaigns, complete_metrics

if TYPE_CHECKING:
    from blklab.campaigns.page import ExperimentReport
    from blklab.store.query import Opened

ENDINGS = {"html": ".html", "markdown": ".md", "csv": ".csv"}


@click.command()
@click.argument("campaigns", nargs=-1, required=True, shell_complete=complete_campaigns)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File to write; `-` for stdout.  [default: the experiment's name with .html, .md or .csv]",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(list(ENDINGS)),
    default="html",
    help="html: a page with charts; markdown: sentences and tables; csv: one row for each run.",
)
@click.option("--charts", metavar="DIR", help="Also write each chart as PNG and SVG to DIR.")
@click.option("--job", metavar="NAME", help="Report the figures of this job alone; '*': each job as a cell.")
@click.option("--title", metavar="TEXT", help="Title of the page.")
@click.option("--x", metavar="LABEL", help="Horizontal axis of the free chart at the start: iodepth, bs ...")
@click.option(
    "--metric",
    metavar="METRIC",
    shell_complete=complete_metrics,
    help="Vertical axis: iops, bw, read_iops, mean, p99 ...",
)
@store_option
@json_option
def report(
    *,
    campaigns: tuple[str, ...],
    output: str | None,
    form: str,
    charts: str | None,
    job: str | None,
    title: str | None,
    x: str | None,
    metric: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Write a report on CAMPAIGNS: one HTML file that works without a network.

    `blklab runs --help` explains how to name a campaign. Several campaigns appear side by side in
    every chart, such as a prediction and a measurement. The page starts with the result. Then come
    figures with their uncertainty, runs over time, latencies, the share of each device, a chart of
    any parameter against any metric, diagnostics, and the commands to repeat the experiment.

    An existing file is replaced atomically.

    \b
    Examples:
      blklab report unbalanced                           write unbalanced.html
      blklab report unbalanced@sim unbalanced@host -o both.html
      blklab report 3:workload=rand* --x iodepth --metric p99
      blklab report unbalanced --charts charts/          also write charts/fastest-random.png ...
      blklab report unbalanced --as markdown -o - | gh issue comment 7 -F -
      blklab report unbalanced@host --as csv -o figures.csv

    \b
    Exit status: 0 success; 2 no such campaign, or the output cannot be written.
    """
    from blklab.campaigns import runs
    from blklab.store import query

    campaign_data = query.open_selections(store, campaigns, job)
    selections = campaign_data[1]
    plain = Path(selections[0].campaign.name).name.lstrip(".") or "report"  # An experiment may have any name
    target = output or f"{plain}{ENDINGS[form]}"
    out.check(target)
    if charts is not None:
        out.make_directory(Path(charts))
    document = None
    if form != "csv" or charts is not None:
        document = _report(campaign_data, title=title, job=job, x=x, metric=metric)
    if form == "csv" or document is None:
        content = runs.as_csv([run for selection in selections for run in selection.runs])
    else:
        content = document.html() if form == "html" else document.markdown()
    if document is None:
        write_page(target, content, as_json=as_json)
    else:
        write_page(target, content, charts, document.charts, document.captions, as_json=as_json)


def _report(
    campaign_data: "Opened", *, title: str | None, job: str | None, x: str | None, metric: str | None
) -> "ExperimentReport":
    from blklab.bisect import findings
    from blklab.campaigns.page import ExperimentReport
    from blklab.campaigns.view import ExperimentView
    from blklab.store import query

    opened_store, selections, points = campaign_data
    command = ["blklab", "report", *(selection.text for selection in selections)]
    options = (("--job", job), ("--x", x), ("--metric", metric))
    for name, value in options:
        if value:
            command += [name, value]
    return ExperimentReport(
        ExperimentView(selections, points),
        query.raw_reader(opened_store),
        title=title,
        command=shlex.join(command),
        x=x,
        metric=metric,
        bisections=findings.read_bisections(opened_store, {selection.campaign.number for selection in selections}),
    )
