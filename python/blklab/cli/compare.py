"""`blklab compare`: results beside each other, and whether they differ."""

from typing import TYPE_CHECKING

import click

from blklab.cli.common import confidence_option, emit, json_option, store_option

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
@confidence_option
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
    help="Fail only if the confidence interval leaves no doubt; it takes two runs or more.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Cells of the baseline that were not measured on the other side are no error.",
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
    allow_missing: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Compare CAMPAIGNS cell by cell; the first is the baseline.

    `blklab runs --help` says how to name a campaign. Runs of the same cell (repeats) are put
    together. Cells are the same if all labels are that both have: to compare two workloads,
    --between workload, or 'a:workload=x' with 'b:workload=y'. The interval is a bootstrap's over
    runs, of fewer than three Student's; p is of Welch's test, corrected for the number of
    differences where a verdict is given.

    \b
    Examples:
      blklab compare unbalanced@sim unbalanced@host
      blklab compare unbalanced@host --between stack --metric iops,p99
      blklab compare base@host new@host --fail-if 'iops < 0.95*baseline' --sure

    \b
    Exit status: 0 fine, 1 a --fail-if held, 2 some --fail-if could not be judged: a cell of the
    baseline was not measured, or was run once and --sure is wanted; 3 the store fails.
    """
    from blklab.analysis import compare as analysis
    from blklab.analysis import fail_if
    from blklab.errors import BlklabError, UsageError
    from blklab.report import comparison as report
    from blklab.report import diagnostics
    from blklab.store import query
    from blklab.store.campaigns import Store

    wanted = [fail_if.parse(text) for text in conditions]
    kept = Store(store, reading=True)
    chosen = [
        (name, query.selected(kept, words).runs)
        for name, words in zip(_short(campaigns), campaigns, strict=True)
    ]
    names = [
        *(name.strip() for name in metrics.split(",")),
        *(condition.metric for condition in wanted),
    ]
    comparison = analysis.compare(
        analysis.sides(chosen, between),
        list(dict.fromkeys(names)),
        lambda run: query.points(kept, run),
        by=None if by is None else [label.strip() for label in by.split(",")],
        chosen={*_labels(campaigns), *([between] if between else [])},
        confidence=confidence,
    )

    def draw(console: "Console") -> None:
        report.show(console, comparison)

    judged = [fail_if.judged(comparison, one, sure=sure) for one in wanted]
    failed = [line for one in judged for line in one.failed]
    unjudged = list(
        dict.fromkeys(line for one in judged for line in one.unjudged(allow_missing=allow_missing))
    )
    noted = [diagnostics.as_dict(one) for one in comparison.notes]
    document = {
        **comparison.as_dict(),
        "diagnostics": noted,
        "failed": failed,
        "unjudged": unjudged,
    }
    emit(document, as_json, draw)
    if failed:  # whatever is with the others: this is known
        raise BlklabError(_first(failed))
    if unjudged:
        raise UsageError(_first(unjudged))


def _first(lines: list[str]) -> str:
    return lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")


def _labels(campaigns: tuple[str, ...]) -> set[str]:
    """Returns the labels that are named behind a colon."""
    terms = [term for words in campaigns for term in words.partition(":")[2].split(",")]
    return {term.partition("=")[0].strip() for term in terms if term.strip()}


def _short(campaigns: tuple[str, ...]) -> list[str]:
    """Returns what to call the sides: without labels, if that tells them apart."""
    names = [words.partition(":")[0].strip() for words in campaigns]
    return names if len(set(names)) == len(names) else list(campaigns)
