"""`blklab tune`: show which setting of a sweep had an effect, and how to keep it."""

import click

from blklab.cli.common import confidence_option, csv_option, emit, json_option, margin_option, store_option
from blklab.cli.value_completion import complete_campaigns, complete_metrics
from blklab.render.console import Console
from blklab.runners.registry import RUNNERS


@click.command()
@click.argument("campaign", shell_complete=complete_campaigns)
@click.option("--metric", default="iops", shell_complete=complete_metrics, help="The metric to improve.")
@confidence_option
@margin_option
@store_option
@json_option
@csv_option
def tune(*, campaign: str, metric: str, confidence: float, margin: float, store: str | None, as_json: bool) -> None:
    """Show which setting of a sweep had an effect, how large it is, and how to keep the setting.

    CAMPAIGN is a finished sweep: `blklab run EXPERIMENT --on host` with a table [sweep]
    (docs/howto/measure.md). `blklab runs --help` explains how to name it. The command changes
    nothing. It prints commands, a udev rule and a sysctl file.

    \b
    Examples:
      blklab run sweep.toml --on host && blklab tune sweep@host
      blklab tune sweep@host --metric p99
    """
    from blklab.compare import run_conditions
    from blklab.compare import tune as analysis
    from blklab.compare import tune_report as report
    from blklab.compare.decision import look_share
    from blklab.render import diagnostics
    from blklab.store import query

    opened_store, (selection,), points = query.open_selections(store, [campaign])
    look = look_share(query.earlier_looks(opened_store, [selection]))
    tunings = analysis.tune(selection.campaign, selection.runs, metric, points, confidence, margin, look)
    kind = RUNNERS.get(selection.campaign.runner)
    better = analysis.settings_of(tunings) if kind is not None and kind.own_devices else {}
    lasting = analysis.persist_settings(better, [run.outcome for run in selection.runs if run.outcome])
    one_at_a_time = selection.campaign.experiment["sweep"].get("mode") != "all"

    notes = [
        *run_conditions.condition_notes(campaign, selection.runs),
        *run_conditions.drift_notes(campaign, selection.runs, [tunings[0].metric]),
    ]

    def draw(console: Console) -> None:
        report.print_tuning(console, tunings, lasting, one_at_a_time=one_at_a_time)
        diagnostics.print_diagnostics(console, notes, "Notes")

    document = {
        "tunings": [tuning.as_dict() for tuning in tunings],
        "keep": vars(lasting),
        "diagnostics": [diagnostics.as_dict(note) for note in notes],
    }
    emit(document, as_json, draw)
