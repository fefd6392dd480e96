"""`blklab runs`: the stored results."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from blklab import output as files
from blklab.cli.common import csv_option, emit, json_option, note, store_option, tell
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.cli.value_completion import complete_campaigns, complete_metrics
from blklab.errors import BlklabError, UsageError
from blklab.render.console import Console
from blklab.render.formatting import plural

if TYPE_CHECKING:
    from blklab.store.annotations import AnnotationKind


COMMANDS = {
    "list": CommandEntry("blklab.cli.runs:list_", "List the campaigns"),
    "show": CommandEntry("blklab.cli.runs:show", "Show the runs of a campaign, or one run"),
    "trend": CommandEntry("blklab.cli.runs:trend", "Show a figure over the campaigns of an experiment"),
    "export": CommandEntry("blklab.cli.runs:export", "Write runs as JSON, CSV or Parquet"),
    "tag": CommandEntry("blklab.cli.runs:tag", "Give a campaign tags"),
    "note": CommandEntry("blklab.cli.runs:note_", "Add a note to a campaign"),
    "rm": CommandEntry("blklab.cli.runs:rm", "Remove campaigns or runs"),
}


class _RunsGroup(LazyGroup):
    """The group, where the number of a campaign means `runs show`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Like a group's; `runs 3` and `runs 3:stack=raid1` show a campaign."""
        if re.fullmatch(r"\d+(:.*)?", args[0]):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_RunsGroup, entries=COMMANDS)
def runs() -> None:
    """List, show, annotate, export and remove stored results.

    \b
    How to name a campaign:
      3                   by its number
      unbalanced          the newest campaign of this experiment
      unbalanced@host     the newest one on this runner
      unbalanced@host~1   the one before the newest
      ...:stack=raid1,workload=rand*   only runs with these labels
    """


@click.command("list")
@store_option
@json_option
@csv_option
def list_(*, store: str | None, as_json: bool) -> None:
    """List the campaigns, oldest first: experiment, runner and progress."""
    from blklab.campaigns import runs
    from blklab.store import annotations, query
    from blklab.store.campaigns import Store

    opened_store = Store(store, reading=True)
    rows = query.all_campaigns(opened_store)
    tags = annotations.tags(opened_store)
    documents = [
        {**asdict(row), "begun": row.begun, "states": dict(row.states), "tags": tags.get(row.number, [])}
        for row in rows
    ]
    emit(documents, as_json, lambda console: runs.print_campaigns(console, rows, opened_store.database.name, tags))


@click.command()
@click.argument("campaign", shell_complete=complete_campaigns)
@click.option("--run", "as_run", is_flag=True, help="CAMPAIGN is the number of a run.")
@click.option("--per-job", is_flag=True, help="Also show the figures of each job.")
@click.option("--raw", is_flag=True, help="Print fio's output of a single run.")
@store_option
@json_option
@csv_option
def show(*, campaign: str, as_run: bool, per_job: bool, raw: bool, store: str | None, as_json: bool) -> None:
    """Show the runs of CAMPAIGN. `blklab runs --help` explains how to name it.

    A number that is no campaign's is that of a run. With --run, it always is. For runs at three or
    more loads (numjobs, iodepth), a line says from which load on more I/Os in flight only wait.

    \b
    Examples:
      blklab runs show unbalanced@host
      blklab runs show 3:stack=raid1,iodepth=32 --json | jq .[0].devices
      blklab runs show 3:stack=raid1,iodepth=32 --raw
      blklab runs show server@host --per-job
      blklab runs show --run 3
    """
    from blklab.campaigns import runs
    from blklab.render import terminal
    from blklab.store import query
    from blklab.store.campaigns import Store

    opened_store = Store(store, reading=True)
    selection, is_ambiguous = query.campaign_or_run(opened_store, campaign, as_run=as_run)
    if is_ambiguous:
        tell(f"blklab: this is campaign {campaign}; for run {campaign}: blklab runs show --run {campaign}")
    if raw:
        if len(selection.runs) != 1:
            raise UsageError(
                f"--raw: {campaign!r} has {len(selection.runs)} runs, expected one: add labels, "
                "such as :stack=raid1,repeat=1"
            )
        click.echo(query.raw(opened_store, selection.runs[0].id), nl=False)
        return

    def draw(console: Console) -> None:
        runs.print_runs(console, selection.campaign, selection.runs)
        if per_job:
            terminal.draw_table(console, runs.jobs_table("run", [(run.id, run.figures) for run in selection.runs]))

    emit([run.as_dict() for run in selection.runs], as_json, draw)


@click.command()
@click.argument("name", metavar="NAME[@HOST]")
@click.option(
    "--metric",
    default="iops",
    metavar="METRIC",
    shell_complete=complete_metrics,
    help="The figure: iops, bw, read.p99, write.mean ...",
)
@store_option
@json_option
@csv_option
def trend(*, name: str, metric: str, store: str | None, as_json: bool) -> None:
    """Show a figure over the campaigns of the experiment NAME, one line for each, the newest first.

    The first lines say whether the newest campaign differs from the one before, and from the first, by more than
    campaigns differ without a change. This noise is known from five campaigns on. A change of level is one that lasts:
    at least three campaigns after it are needed, and eight in all.

    \b
    Examples:
      blklab runs trend nightly
      blklab runs trend nightly@srv1 --metric read.p99
    """
    from blklab.campaigns.trend import read_trend
    from blklab.compare.metrics import metric_name
    from blklab.render import terminal
    from blklab.store.campaigns import Store

    experiment, _, place = name.partition("@")
    found = read_trend(Store(store, reading=True), experiment, place, metric_name(metric))

    def draw(console: Console) -> None:
        for sentence in found.verdicts:
            console.print(f"{sentence.topic}: {sentence.text}")
        terminal.draw_table(console, found.table)

    headings = [column.heading for column in found.table.columns]
    rows = [dict(zip(headings, map(str, row), strict=True)) for row in found.table.rows]
    verdicts = {sentence.topic: sentence.text for sentence in found.verdicts}
    emit({"experiment": experiment, "verdicts": verdicts, "campaigns": rows}, as_json, draw)


@click.command()
@click.argument("campaigns", nargs=-1, required=True, shell_complete=complete_campaigns)
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
    from blklab.campaigns.runs import as_csv, as_json
    from blklab.store import query, series

    output = output or "-"
    files.check(output)
    _, selections, points = query.open_selections(store, campaigns)
    runs = [run for selection in selections for run in selection.runs]
    if form == "series":
        content = series.encode_runs({run.id: points(run.id) for run in runs})
    elif form == "csv":
        content = as_csv(runs).encode()
    else:
        content = as_json(runs).encode()
    files.write(output, content)


@click.command()
@click.argument("campaign", shell_complete=complete_campaigns)
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags.")
@store_option
def tag(*, campaign: str, tags: tuple[str, ...], remove: bool, store: str | None) -> None:
    """Give CAMPAIGN tags, such as `baseline` or `kernel-6.12`; lists and the web page show them.

    \b
    Examples:
      blklab runs tag unbalanced@host baseline
      blklab runs tag 3 baseline --remove
    """
    for text in tags:
        _annotate(campaign, "tag", text, store, remove=remove)


@click.command("note")
@click.argument("campaign", shell_complete=complete_campaigns)
@click.argument("text", required=False)
@click.option("--remove", is_flag=True, help="Remove all notes of the campaign.")
@store_option
def note_(*, campaign: str, text: str | None, remove: bool, store: str | None) -> None:
    """Add a note to CAMPAIGN, with your user name and the time; the web page shows it.

    \b
    Examples:
      blklab runs note unbalanced@host 'after the firmware update'
      blklab runs note 3 --remove
    """
    if (text is None) != remove:
        raise click.UsageError("expected the TEXT of a note, or --remove")
    _annotate(campaign, "note", text, store, remove=remove)


def _annotate(
    selector: str, kind: "AnnotationKind", text: str | None, store_address: str | None, *, remove: bool
) -> None:
    from blklab.store import annotations, query
    from blklab.store.campaigns import Store

    Store(store_address, reading=True)  # fails for a mistyped name, instead of creating a store
    store = Store(store_address)
    campaign = query.select_runs(store, selector).campaign
    campaign_label = f"campaign {campaign.number}"
    description = kind if text is None else f"{kind} {text!r}"
    if not remove:
        annotations.annotate(store, [campaign.number], kind, text or "")
        tell(f"{campaign_label} ({campaign.name}): added {description}")
    elif count := annotations.remove(store, [campaign.number], kind, text):
        removed_text = plural(count, kind) if text is None else description
        tell(f"{campaign_label} ({campaign.name}): removed {removed_text}")
    else:
        raise BlklabError(f"{campaign_label}: has no {description}")


@click.command()
@click.argument("campaigns", nargs=-1, required=True, shell_complete=complete_campaigns)
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def rm(*, campaigns: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Remove CAMPAIGNS with all their runs, or only the runs with the labels behind a colon.

    The command asks first, unless --yes is given. It does not remove a run that is still running.
    """
    from blklab.store import query
    from blklab.store.campaigns import Store

    Store(store, reading=True)  # fails for a mistyped name, instead of creating a store
    opened_store = Store(store)
    selections = [query.select_runs(opened_store, selector) for selector in campaigns]
    runs = {run.id: run.campaign for selection in selections for run in selection.runs}
    if not yes:
        click.confirm(f"Remove {plural(len(runs), 'run')} of {', '.join(campaigns)}?", abort=True)
    whole_campaigns = {selection.campaign.number for selection in selections if ":" not in selection.text}
    opened_store.remove(sorted(whole_campaigns), whole_campaigns=True)
    opened_store.remove(
        sorted(number for number, campaign in runs.items() if campaign not in whole_campaigns), whole_campaigns=False
    )
    note(f"{plural(len(runs), 'run')} removed")
