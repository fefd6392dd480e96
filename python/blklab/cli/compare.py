"""`blklab compare`: results beside each other, and whether they differ."""

from typing import TYPE_CHECKING

import click

from blklab.cli.common import emit, json_option, store_option

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    default="iops,mean,p99",
    show_default=True,
    metavar="FIGURE,...",
    help="What to compare: iops, bw, read_iops, mean, p50, p99, p99_9, write_p99, wall ...",
)
@click.option(
    "--by",
    metavar="LABEL,...",
    help="Labels that tell rows apart; what differs only in others is put together.",
)
@click.option(
    "--between",
    metavar="LABEL",
    help="Compare the values of this label with each other, the first being the baseline.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.999),
    default=0.95,
    show_default=True,
    help="Of the intervals, and of what is called a difference.",
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with status 1 if this holds of any cell: 'iops < 0.95*baseline', 'p99 > 5ms'.",
)
@click.option(
    "--sure",
    is_flag=True,
    help="Fail only if the confidence interval leaves no doubt.",
)
@store_option
@json_option
def compare(
    *,
    campaigns: tuple[str, ...],
    metrics: str,
    by: str | None,
    between: str | None,
    confidence: float,
    conditions: tuple[str, ...],
    sure: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Compare CAMPAIGNS cell by cell; the first is the baseline.

    `blklab runs --help` says how to name a campaign. Runs of the same cell (repeats) are put
    together. The interval is a bootstrap's over runs and blocks of each run's intervals; p is of
    Welch's test, corrected for the number of differences where a verdict is given.

    \b
    Examples:
      blklab compare unbalanced@sim unbalanced@host
      blklab compare unbalanced@host --between stack --metric iops,p99
      blklab compare base@host new@host --fail-if 'iops < 0.95*baseline' --sure

    \b
    Exit status: 0 fine, 1 a --fail-if held, 2 there is nothing to compare.
    """
    from blklab.analysis import compare as analysis
    from blklab.analysis import fail_if
    from blklab.errors import BlklabError
    from blklab.report import comparison as report
    from blklab.store import query
    from blklab.store.campaigns import Store

    wanted = [fail_if.parse(text) for text in conditions]
    kept = Store(store)
    chosen = [
        (name, query.selected(kept, words).runs)
        for name, words in zip(_short(campaigns), campaigns, strict=True)
    ]
    names = [*(name.strip() for name in metrics.split(",")), *(one.metric for one in wanted)]
    found = analysis.compare(
        analysis.sides(chosen, between),
        list(dict.fromkeys(names)),
        lambda run: query.points(kept, run),
        by=None if by is None else [label.strip() for label in by.split(",")],
        confidence=confidence,
    )

    def draw(console: "Console") -> None:
        report.show(console, found)

    failed = [line for one in wanted for line in fail_if.failures(found, one, sure=sure)]
    emit({**found.as_dict(), "failed": failed}, as_json, draw)
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise BlklabError(f"{failed[0]}{more}")


def _short(campaigns: tuple[str, ...]) -> list[str]:
    """Returns what to call the sides: without labels, if that tells them apart."""
    names = [words.partition(":")[0].strip() for words in campaigns]
    return names if len(set(names)) == len(names) else list(campaigns)
