"""`blklab compare`: compare results and show whether they differ."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from blklab.cli import common
from blklab.errors import Undecided, UsageError

if TYPE_CHECKING:
    from blklab.analysis.fail_if import Judgement
    from blklab.report.console import Console
    from blklab.store.query import Selection


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    default="iops,mean,p99",
    metavar="METRIC,...",
    help="Metrics to compare: iops, bw, read.iops, write.p99, p99 (of one direction), wall ...",
)
@click.option("--job", metavar="NAME", help="Compare this job alone; '*' with --between job: each of all jobs.")
@click.option(
    "--by", metavar="LABEL,...", help="Labels that make a row; runs that differ only in other labels are merged."
)
@click.option(
    "--between", metavar="LABEL", help="Compare the values of this label with each other; the first is the baseline."
)
@common.confidence_option
@common.margin_option
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with status 1 if this is true for a cell: 'iops < 0.95*baseline', 'p99 > 5ms'.",
)
@click.option("--sure/--plain", default=True, help="The whole interval must fail or pass; --plain: the mean decides.")
@click.option("--final", is_flag=True, help="The number of repeats was fixed before: there is only this look.")
@click.option(
    "--allow-missing", is_flag=True, help="Accept that cells of the baseline are missing in the other campaign."
)
@click.option("--plan", is_flag=True, help="Show how long and how often to measure, from the runs of one campaign.")
@click.option(
    "--change", callback=common.parse_share, default="5%", metavar="SHARE", help="With --plan: the change to find."
)
@common.store_option
@common.json_option
def compare(
    *,
    campaigns: tuple[str, ...],
    metrics: str,
    job: str | None,
    by: str | None,
    between: str | None,
    confidence: float,
    margin: float,
    conditions: tuple[str, ...],
    sure: bool,
    final: bool,
    allow_missing: bool,
    plan: bool,
    change: float,
    store: str | None,
    as_json: bool,
) -> None:
    """Compare CAMPAIGNS cell by cell. The first campaign is the baseline.

    `blklab runs --help` explains how to name a campaign. Repeats of a cell are merged. Two cells match if the labels
    that both have are equal. To compare two workloads, use --between workload, or name 'a:workload=x' and
    'b:workload=y'. A latency without a direction, such as p99, is of the direction that both sides have; of both, of
    reads, unless there are 10 % more writes. The table names it.

    A verdict is "better", "worse", "the same within ±x %", or "cannot tell" with the number of
    repeats before the next comparison. Verdicts stay valid if you follow this advice. All intervals of a metric hold
    together (docs/explanation/verdicts.md). A measurement is inside or outside of a prediction's interval.

    --plan shows how long and how often to measure to see a change of each --metric, from the variation of the runs of
    one campaign. It also says what makes these runs doubtful: caches that hold the data, drifts, conditions of the
    host.

    \b
    Examples:
      blklab compare unbalanced@sim unbalanced@host
      blklab compare unbalanced@host --between stack --metric iops,p99
      blklab compare server@host --job '*' --between job       one job with the other
      blklab compare base@host new@host --fail-if 'iops < 0.95*baseline'
      blklab compare --plan unbalanced@host --change 3% --metric iops

    \b
    Exit status: 0 success, and all --fail-if conditions are surely false; 1 a condition is true;
    2 a condition could not be judged: a cell of the baseline is missing; 3 the store failed;
    4 undecided: more repeats are needed.
    """
    from blklab.analysis import compare as analysis
    from blklab.analysis import fail_if
    from blklab.analysis.decision import MOST_LOOKS, look_share
    from blklab.analysis.metrics import metric_name
    from blklab.report import comparison as report
    from blklab.report import diagnostics
    from blklab.store import query

    if plan:
        if len(campaigns) > 1 or conditions:
            raise UsageError("--plan: expected one campaign, and no --fail-if")
        _plan(campaigns[0], metrics, change, confidence, store, as_json=as_json)
        return
    if click.get_current_context().get_parameter_source("change") is not click.core.ParameterSource.DEFAULT:
        raise UsageError("--change needs --plan: it is the change that the planned runs can find")
    if (allow_missing or not sure) and not conditions:
        option = "--allow-missing" if allow_missing else "--plain"
        raise UsageError(f"{option} needs a condition: --fail-if 'iops < 0.95*baseline'")
    parsed_conditions = [fail_if.parse_condition(text) for text in conditions]
    opened_store, selections, points = query.opened(store, campaigns, job)
    sides = [(name, selection.runs) for name, selection in zip(_short(campaigns, selections), selections, strict=True)]
    for number in dict.fromkeys(each.campaign.number for each in selections if each.campaign.states["running"]):
        common.warn(f"campaign {number} still runs: decide when it has ended; looks at a part of it are not counted")
    names = [*map(metric_name, metrics.split(",")), *(condition.metric for condition in parsed_conditions)]
    named_labels = _labels(campaigns)
    if between:
        named_labels.add(between)
    if (looks := query.earlier_looks(opened_store, selections)) >= MOST_LOOKS:
        common.warn(f"fewer repeats of these cells were compared {looks} times before: measure a new campaign")
    comparison = analysis.compare(
        analysis.comparison_sides(sides, between),
        list(dict.fromkeys(names)),
        points,
        by=None if by is None else [label.strip() for label in by.split(",")],
        chosen=named_labels,
        confidence=confidence,
        margin=margin,
        look=1.0 if final else look_share(looks),
        earlier=lambda: query.earlier_campaigns(opened_store, selections),
    )
    judgements = [fail_if.judge_condition(comparison, condition, sure=sure) for condition in parsed_conditions]
    failed, unjudged, undecided = _lines(judgements, allow_missing=allow_missing)
    document = comparison.as_dict() | {"diagnostics": [diagnostics.as_dict(note) for note in comparison.notes]}
    document |= {"failed": failed, "unjudged": unjudged, "undecided": undecided}
    common.emit(document, as_json, lambda console: report.print_comparison(console, comparison))
    common.fail_with(failed)  # even if other conditions could not be judged
    if unjudged:
        raise UsageError(common.first(unjudged))
    if undecided:
        raise Undecided(common.first(undecided))


def _lines(judgements: "list[Judgement]", *, allow_missing: bool) -> tuple[list[str], list[str], list[str]]:
    """Return the lines about what failed, what was not judged, and what is undecided."""
    failed: list[str] = []
    unjudged: list[str] = []
    undecided: list[str] = []
    for judgement in judgements:
        failed += judgement.failed
        unjudged += judgement.unjudged(allow_missing=allow_missing)
        undecided += judgement.undecided
    return failed, list(dict.fromkeys(unjudged)), undecided


def _plan(campaign: str, metrics: str, change: float, confidence: float, store: str | None, *, as_json: bool) -> None:
    """Print how long and how often to measure to see a change."""
    from blklab.analysis.diagnostics import diagnose
    from blklab.analysis.metrics import METRICS, metric_name, with_direction
    from blklab.analysis.run_planning import plan_runs
    from blklab.report import comparison, diagnostics, terminal
    from blklab.store import query

    _, (selection,), points = query.opened(store, [campaign])
    outcomes = [run.outcome for run in selection.runs if run.outcome]
    if outcomes and all(outcome.simulated_ios is not None for outcome in outcomes):
        raise UsageError(f"{campaign}: repeats do not make predictions surer: measure with --on host or --on lab")
    names = [with_direction(metric_name(each), [outcomes]) for each in metrics.split(",")]
    plans = {name: plan_runs(selection.runs, METRICS[name], points, change, confidence) for name in names}
    if not any(plans.values()):
        raise UsageError(f"{campaign}: no finished run has {metrics}")
    doubts = diagnose(selection.runs, points)

    def draw(console: "Console") -> None:
        for name, needed in plans.items():
            if needed:
                terminal.draw_table(console, comparison.run_plans_table(needed, name, change))
        diagnostics.print_diagnostics(console, doubts, "Doubts about these runs")

    document = {
        "runs": [{"metric": name, **asdict(plan)} for name, needed in plans.items() for plan in needed],
        "diagnostics": [diagnostics.as_dict(doubt) for doubt in doubts],
    }
    common.emit(document, as_json, draw)


def _labels(campaigns: tuple[str, ...]) -> set[str]:
    """Return the labels that are named behind a colon."""
    terms = [term for words in campaigns for term in words.partition(":")[2].split(",")]
    return {term.partition("=")[0].strip() for term in terms if term.strip()}


def _short(campaigns: tuple[str, ...], selections: "list[Selection]") -> list[str]:
    """Return the names of the sides: what distinguishes numbered campaigns, without labels."""
    from blklab.analysis.compare import distinguish

    if all(words.isdigit() for words in campaigns) and (known := distinguish(selections)):
        return known[1]
    names = [words.partition(":")[0].strip() for words in campaigns]
    return names if len(set(names)) == len(names) else list(campaigns)
