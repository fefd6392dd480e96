"""`blklab runs rm`: remove results."""

import click

from blklab.cli.common import note, store_option
from blklab.report.formatting import plural


@click.command()
@click.argument("campaigns", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def rm(*, campaigns: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Remove CAMPAIGNS with all their runs, or only the runs with the labels behind a colon.

    The command asks first, unless --yes is given. It does not remove a run that is still running.
    """
    from blklab.store import query
    from blklab.store.campaigns import Store

    Store(store, reading=True)  # fails for a mistyped name, instead of creating a store
    kept = Store(store)
    chosen = [query.selected(kept, words) for words in campaigns]
    runs = {run.id: run.campaign for selection in chosen for run in selection.runs}
    if not yes:
        click.confirm(f"Remove {plural(len(runs), 'run')} of {', '.join(campaigns)}?", abort=True)
    whole = {selection.campaign.number for selection in chosen if ":" not in selection.words}
    kept.remove(sorted(whole), whole=True)
    kept.remove(sorted(number for number, campaign in runs.items() if campaign not in whole), whole=False)
    note(f"{plural(len(runs), 'run')} removed")
