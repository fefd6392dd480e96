"""`blklab report`: campaigns beside each other, as one page."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import json_option, progress, store_option
from blklab.cli.trace.report import tell

if TYPE_CHECKING:
    from blklab.report.experiment.page import ExperimentReport
    from blklab.store.campaigns import Store
    from blklab.store.query import Selection

ENDINGS = {"html": ".html", "markdown": ".md", "csv": ".csv"}


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="What to write; `-` for stdout.  [default: the experiment's name with .html, .md or"
    " .csv, here]",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(list(ENDINGS)),
    default="html",
    show_default=True,
    help="A page; sentences and tables; a row of figures for each run.",
)
@click.option("--charts", metavar="DIR", help="Write each chart as PNG and SVG there too.")
@click.option("--title", metavar="TEXT", help="The page's title.")
@click.option(
    "--x",
    metavar="LABEL",
    help="What the chart of your choice begins with, across: iodepth, bs ...",
)
@click.option(
    "--metric", metavar="FIGURE", help="And up: iops, bw, read_iops, mean, p99, write_p99_9 ..."
)
@store_option
@json_option
def report(
    *,
    campaigns: tuple[str, ...],
    output: str | None,
    form: str,
    charts: str | None,
    title: str | None,
    x: str | None,
    metric: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Write a report on CAMPAIGNS: one HTML file that needs no network, to read and to pass on.

    `blklab runs --help` says how to name a campaign. Several stand beside each other in every
    chart: a prediction and a measurement, before and after. The page begins with the result, then
    shows figures with their uncertainty, the runs over time, latencies, who served what, every
    parameter against every figure, what is to be doubted, and how to build and measure it again.

    A file that is there already is replaced, at once and as a whole.

    \b
    Examples:
      blklab report unbalanced                           writes unbalanced.html
      blklab report unbalanced@sim unbalanced@host -o both.html
      blklab report 3:workload=rand* --x iodepth --metric p99
      blklab report unbalanced --charts charts/          with charts/fastest-random.png, .svg ...
      blklab report unbalanced --as markdown -o - | gh issue comment 7 -F -
      blklab report unbalanced@host --as csv -o figures.csv

    \b
    Exit status: 0 done, 2 usage: there is no such campaign, or the output cannot be written.
    """
    from blklab import output as out
    from blklab.report import tabular
    from blklab.store import query
    from blklab.store.campaigns import Store

    kept = Store(store, reading=True)
    chosen = [query.selected(kept, words) for words in campaigns]
    target = output or f"{_plain(chosen[0].campaign.name)}{ENDINGS[form]}"
    out.check(target)
    if charts is not None:
        out.make_directory(Path(charts))
    diagnostics = None
    if form != "csv" or charts is not None:
        diagnostics = _report(kept, chosen, title=title, x=x, metric=metric)
    if form == "csv" or diagnostics is None:
        content = tabular.as_csv([run for selection in chosen for run in selection.runs])
    else:
        content = diagnostics.html() if form == "html" else diagnostics.markdown()
    out.write(target, content.encode())
    to_stdout = target in out.STDOUT
    written = [] if to_stdout else [target]
    if charts is not None and diagnostics is not None:
        from blklab.report.export import export

        with progress("drawing charts", total=2 * len(diagnostics.charts)) as done:
            for number, path in enumerate(export(diagnostics.charts, Path(charts)), start=1):
                written.append(str(path))
                done(number)
    tell(written, len(content.encode()), as_json=as_json, to_stdout=to_stdout)


def _report(
    kept: "Store",
    chosen: "list[Selection]",
    *,
    title: str | None,
    x: str | None,
    metric: str | None,
) -> "ExperimentReport":
    from blklab.report.experiment.page import ExperimentReport
    from blklab.report.experiment.view import ExperimentView
    from blklab.store import query

    words = ["blklab", "report", *(selection.words for selection in chosen)]
    words += [
        part
        for name, value in (("--x", x), ("--metric", metric))
        if value
        for part in (name, value)
    ]
    return ExperimentReport(
        ExperimentView(chosen, lambda run: query.points(kept, run)),
        lambda run: query.raw(kept, run),
        title=title,
        command=shlex.join(words),
        x=x,
        metric=metric,
    )


def _plain(name: str) -> str:
    """Returns the name of a file in this directory, whatever an experiment is called."""
    return Path(name).name.lstrip(".") or "report"
