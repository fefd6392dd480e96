"""`blklab advise runs`: how long and how often to measure."""

from dataclasses import asdict

import click

from blklab.cli.common import confidence_option, emit, json_option, parse_share, store_option
from blklab.errors import UsageError
from blklab.report.console import Console


@click.command()
@click.argument("campaign")
@click.option("--change", callback=parse_share, default="5%", metavar="SHARE",
              help="The change to find.")  # fmt: skip
@click.option("--metric", default="iops", help="The metric that changes.")
@confidence_option
@store_option
@json_option
def runs(*, campaign: str, change: float, metric: str, confidence: float, store: str | None, as_json: bool) -> None:
    """Show how long and how often to measure to see a change, from the variation of the runs of CAMPAIGN.

    It also says what makes these runs doubtful: caches that hold the data, drifts, conditions of the host.
    `blklab runs --help` explains how to name a campaign.

    \b
    Examples:
      blklab advise runs unbalanced@host --change 3%
      blklab advise runs unbalanced@host --metric p99 --json
    """
    from blklab.analysis.diagnostics import diagnose
    from blklab.analysis.metrics import METRICS, metric_name, with_direction
    from blklab.analysis.run_planning import plan_runs
    from blklab.report import comparison, diagnostics, terminal
    from blklab.store import query

    _, (selection,), points = query.opened(store, [campaign])
    outcomes = [run.outcome for run in selection.runs if run.outcome]
    chosen = METRICS[with_direction(metric_name(metric), [outcomes])]
    if outcomes and all(outcome.simulated_ios is not None for outcome in outcomes):
        raise UsageError(f"{campaign}: repeats do not make predictions surer: measure with --on host or --on lab")
    plans = plan_runs(selection.runs, chosen, points, change, confidence)
    if not plans:
        raise UsageError(f"{campaign}: no finished run has {metric}")
    doubts = diagnose(selection.runs, points)

    def draw(console: Console) -> None:
        terminal.draw_table(console, comparison.run_plans_table(plans, chosen.name, change))
        diagnostics.print_diagnostics(console, doubts, "Doubts about these runs")

    document = {
        "runs": [asdict(plan) for plan in plans],
        "diagnostics": [diagnostics.as_dict(doubt) for doubt in doubts],
    }
    emit(document, as_json, draw)
