"""`blklab compare`: compare results and show whether they differ."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from blklab.cli import common
from blklab.cli.value_completion import complete_campaigns, complete_metrics
from blklab.errors import Undecided, UsageError

if TYPE_CHECKING:
    from blklab.compare.comparison import Comparison
    from blklab.compare.fail_if import Judgement
    from blklab.render.console import Console
    from blklab.store.query import Selection

COMPARISON_OPTIONS = {
    "--job": "job",
    "--by": "by",
    "--between": "between",
    "--margin": "margin",
    "--fail-if": "conditions",
    "--plain": "sure",
    "--final": "final",
    "--allow-missing": "allow_missing",
}
"""The options that --plan refuses, with the names of their values."""


@dataclass(frozen=True)
class CompareArguments:
    """What `blklab compare` is asked."""

    campaigns: tuple[str, ...]  # `7`, `unbalanced@host`, `base:stack=near`
    metrics: str  # Separated by commas
    job: str | None  # None: all jobs together
    by: str | None  # Labels, separated by commas
    between: str | None  # A label
    confidence: float
    margin: float  # Sides that differ by less than this share are the same
    conditions: tuple[str, ...]  # `iops < 0.95*baseline`
    sure: bool  # Whether the whole interval must fulfil a condition
    final: bool  # Whether the number of repeats was fixed before
    allow_missing: bool
    plan: bool  # Whether to print the runs that are needed, instead of comparing
    change: float  # The change that the planned runs find
    store: str | None
    as_json: bool


@click.command()
@click.argument("campaigns", nargs=-1, required=True, shell_complete=complete_campaigns)
@click.option(
    "--metric",
    "metrics",
    default=common.DEFAULT_METRICS,
    metavar="METRIC,...",
    shell_complete=complete_metrics,
    help="Metrics to compare: iops, bw, read.iops, write.p99, p99 (of reads, writes and fsyncs), wall ...",
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
@common.csv_option
@common.collect_options(CompareArguments)
def compare(arguments: CompareArguments) -> None:
    """Compare CAMPAIGNS cell by cell. The first campaign is the baseline.

    `blklab runs --help` explains how to name a campaign. Repeats of a cell are merged. Two cells match if the labels
    that both have are equal. To compare two workloads, use --between workload, or name 'a:workload=x' and
    'b:workload=y'.

    A latency without a direction, such as p99, means the directions that all sides have: reads, writes and fsyncs. Each
    direction has a table.

    A verdict is "better", "worse", "the same within ±x %", or "cannot tell" with the number of
    repeats before the next comparison. Verdicts stay valid if you follow this advice. The intervals of all metrics and
    cells hold together (docs/explanation/verdicts.md). A measurement is inside or outside of a prediction's interval.

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
    from blklab.compare import comparison as analysis
    from blklab.compare import fail_if
    from blklab.compare import report as comparison_report
    from blklab.compare.decision import MOST_LATER_LOOKS, look_share
    from blklab.compare.metrics import metric_name
    from blklab.store import query

    _check_options(arguments)
    if arguments.plan:
        _print_needed_runs(arguments)
        return
    conditions = [fail_if.parse_condition(text) for text in arguments.conditions]
    store, selections, points = query.open_selections(arguments.store, arguments.campaigns, arguments.job)
    numbers = [selection.campaign.number for selection in selections if selection.campaign.states["running"]]
    for number in dict.fromkeys(numbers):
        common.warn(f"campaign {number} still runs: decide when it has ended; looks at a part of it are not counted")
    names = _name_sides(arguments.campaigns, selections)
    sides = [(name, selection.runs) for name, selection in zip(names, selections, strict=True)]
    metrics = [metric_name(text) for text in arguments.metrics.split(",")]
    metrics += [condition.metric for condition in conditions]
    # The sides differ in the labels that the user chose them by.
    labels_of_sides = _labels_after_colon(arguments.campaigns)
    if arguments.between:
        labels_of_sides.add(arguments.between)
    earlier_looks = query.earlier_looks(store, selections)
    if earlier_looks >= MOST_LATER_LOOKS and not arguments.final:
        times = f"{earlier_looks} times before"
        common.warn(f"fewer repeats of these cells were compared {times}: measure a new campaign")
    comparison = analysis.compare(
        analysis.comparison_sides(sides, arguments.between),
        list(dict.fromkeys(metrics)),
        points,
        by=None if arguments.by is None else [label.strip() for label in arguments.by.split(",")],
        side_labels=labels_of_sides,
        confidence=arguments.confidence,
        margin=arguments.margin,
        look=1.0 if arguments.final else look_share(earlier_looks),
        earlier=lambda: query.earlier_campaigns(store, selections),  # read only if the sides are two campaigns
    )
    judgements = [fail_if.judge_condition(comparison, condition, sure=arguments.sure) for condition in conditions]
    failures, unjudged_lines, undecided_lines = _collect_lines(judgements, allow_missing=arguments.allow_missing)
    document: dict[str, object] = {}
    if arguments.as_json:  # It takes seconds for thousands of cells
        document = _make_document(comparison)
        document |= {"failed": failures, "unjudged": unjudged_lines, "undecided": undecided_lines}
    common.emit(document, arguments.as_json, lambda console: comparison_report.print_comparison(console, comparison))
    # The exit status is 1 if a condition is true, also if others could not be judged; then 2, then 4.
    common.fail_with(failures)
    if unjudged_lines:
        raise UsageError(common.first(unjudged_lines))
    if undecided_lines:
        raise Undecided(common.first(undecided_lines))


def _make_document(comparison: "Comparison") -> dict[str, object]:
    """Return what `--json` has of a comparison."""
    from blklab.render import diagnostics as diagnostics_report

    return comparison.as_dict() | {"diagnostics": [diagnostics_report.as_dict(note) for note in comparison.notes]}


def _check_options(arguments: CompareArguments) -> None:
    """Raise UsageError for options that have no effect together."""
    if arguments.plan:
        if len(arguments.campaigns) > 1:
            raise UsageError("--plan: expected one campaign")
        unused = [flag for flag in COMPARISON_OPTIONS if common.is_given(COMPARISON_OPTIONS[flag])]
        if unused:
            raise UsageError(f"--plan: {unused[0]} has no effect with it: it plans runs, and compares nothing")
        return
    if common.is_given("change"):
        raise UsageError("--change needs --plan: it is the change that the planned runs can find")
    if not arguments.conditions:
        for flag, name in (("--allow-missing", "allow_missing"), ("--plain", "sure")):
            if common.is_given(name):
                raise UsageError(f"{flag} needs a condition: --fail-if 'iops < 0.95*baseline'")


def _collect_lines(judgements: "list[Judgement]", *, allow_missing: bool) -> tuple[list[str], list[str], list[str]]:
    """Return the lines about what failed, what was not judged, and what is undecided."""
    failures: list[str] = []
    unjudged_lines: list[str] = []
    undecided_lines: list[str] = []
    for judgement in judgements:
        failures += judgement.failed
        unjudged_lines += judgement.list_unjudged(allow_missing=allow_missing)
        undecided_lines += judgement.undecided
    return failures, list(dict.fromkeys(unjudged_lines)), undecided_lines


def _print_needed_runs(arguments: CompareArguments) -> None:
    """Print how long and how often to measure to see a change."""
    from blklab.compare import report as comparison_report
    from blklab.compare.diagnostics import diagnose
    from blklab.compare.metrics import METRICS, metric_name, with_directions
    from blklab.compare.run_planning import plan_runs
    from blklab.render import diagnostics as diagnostics_report
    from blklab.render import terminal
    from blklab.store import query

    campaign = arguments.campaigns[0]
    _, (selection,), points = query.open_selections(arguments.store, [campaign])
    outcomes = [run.outcome for run in selection.runs if run.outcome]
    if outcomes and all(outcome.simulated_ios is not None for outcome in outcomes):
        raise UsageError(f"{campaign}: repeats do not make predictions surer: measure with --on host or --on lab")
    metrics = []
    for text in arguments.metrics.split(","):
        metrics += with_directions(metric_name(text), [outcomes])
    needed_runs = {
        metric: plan_runs(selection.runs, METRICS[metric], points, arguments.change, arguments.confidence)
        for metric in metrics
    }
    if not any(needed_runs.values()):
        raise UsageError(f"{campaign}: no finished run has {arguments.metrics}")
    doubts = diagnose(selection.runs, points)

    def draw(console: "Console") -> None:
        for metric, run_plans in needed_runs.items():
            if run_plans:
                table = comparison_report.run_plans_table(run_plans, metric, arguments.change)
                terminal.draw_table(console, table)
        diagnostics_report.print_diagnostics(console, doubts, "Doubts about these runs")

    rows = []
    for metric, run_plans in needed_runs.items():
        rows += [{"metric": metric, **asdict(run_plan)} for run_plan in run_plans]
    document = {"runs": rows, "diagnostics": [diagnostics_report.as_dict(doubt) for doubt in doubts]}
    common.emit(document, arguments.as_json, draw)


def _labels_after_colon(campaigns: tuple[str, ...]) -> set[str]:
    """Return the labels that the names of campaigns have behind a colon: of `a:workload=x`, `workload`."""
    labels = set()
    for name in campaigns:
        for term in name.partition(":")[2].split(","):
            labels.add(term.partition("=")[0].strip())
    return labels - {""}


def _name_sides(campaigns: tuple[str, ...], selections: "list[Selection]") -> list[str]:
    """Return a short name of each side.

    Of campaigns that are given as numbers, it is the first property that differs between them, such as the kernel;
    otherwise what the user typed, up to the colon if that is unlike.
    """
    from blklab.compare.comparison import distinguish

    if all(name.isdigit() for name in campaigns):
        difference = distinguish(selections)
        if difference is not None:
            _place, values = difference
            return values
    names = [name.partition(":")[0].strip() for name in campaigns]
    return names if len(set(names)) == len(names) else list(campaigns)
