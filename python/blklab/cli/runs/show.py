"""`blklab runs show`: show the runs of a campaign."""

import click

from blklab.cli.common import emit, json_option, store_option, tell
from blklab.errors import UsageError
from blklab.report.console import Console


@click.command()
@click.argument("campaign")
@click.option("--run", "as_run", is_flag=True, help="CAMPAIGN is the number of a run.")
@click.option("--randomio", is_flag=True, help="Show randomio's table and the saturation point.")
@click.option("--per-job", is_flag=True, help="Also show the figures of each job.")
@click.option("--raw", is_flag=True, help="Print fio's output of a single run.")
@store_option
@json_option
def show(
    *, campaign: str, as_run: bool, randomio: bool, per_job: bool, raw: bool, store: str | None, as_json: bool
) -> None:
    """Show the runs of CAMPAIGN. `blklab runs --help` explains how to name it.

    A number that is no campaign's is that of a run. With --run, it always is.

    \b
    Examples:
      blklab runs show unbalanced@host
      blklab runs show 3:stack=raid1,iodepth=32 --json | jq .[0].devices
      blklab runs show 3:stack=raid1,iodepth=32 --raw
      blklab runs show server@host --per-job
      blklab runs show spindles --randomio
      blklab runs show --run 3
    """
    from blklab.report import runs, terminal
    from blklab.store import query
    from blklab.store.campaigns import Store

    kept = Store(store, reading=True)
    selection, both = query.campaign_or_run(kept, campaign, as_run=as_run)
    if both:
        tell(f"blklab: this is campaign {campaign}; for run {campaign}: blklab runs show --run {campaign}")
    if raw:
        if len(selection.runs) != 1:
            raise UsageError(
                f"--raw: {campaign!r} has {len(selection.runs)} runs, expected one: add labels,"
                " such as :stack=raid1,repeat=1"
            )
        click.echo(query.raw(kept, selection.runs[0].id), nl=False)
        return

    def draw(console: Console) -> None:
        if randomio:
            measured = [(run.labels, run.cell, run.outcome) for run in selection.runs if run.outcome]
            runs.print_saturation(console, measured)
            return
        runs.print_runs(console, selection.campaign, selection.runs)
        if per_job:
            terminal.draw_table(console, runs.jobs_table("run", [(run.id, run.figures) for run in selection.runs]))

    emit([run.as_dict() for run in selection.runs], as_json, draw)
