"""`blklab runs tag` and `blklab runs note`: what users write about campaigns."""

from typing import TYPE_CHECKING

import click

from blklab.cli.common import store_option, tell
from blklab.errors import BlklabError
from blklab.report.formatting import plural

if TYPE_CHECKING:
    from blklab.store.annotations import AnnotationKind


@click.command()
@click.argument("campaign")
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


@click.command()
@click.argument("campaign")
@click.argument("text", required=False)
@click.option("--remove", is_flag=True, help="Remove all notes of the campaign.")
@store_option
def note(*, campaign: str, text: str | None, remove: bool, store: str | None) -> None:
    """Add a note to CAMPAIGN, with your user name and the time; the web page shows it.

    \b
    Examples:
      blklab runs note unbalanced@host 'after the firmware update'
      blklab runs note 3 --remove
    """
    if (text is None) != remove:
        raise click.UsageError("expected the TEXT of a note, or --remove")
    _annotate(campaign, "note", text, store, remove=remove)


def _annotate(words: str, kind: "AnnotationKind", text: str | None, where: str | None, *, remove: bool) -> None:
    from blklab.store import annotations, query
    from blklab.store.campaigns import Store

    Store(where, reading=True)  # fails for a mistyped name, instead of creating a store
    store = Store(where)
    campaign = query.selected(store, words).campaign
    shown, what = f"campaign {campaign.number}", kind if text is None else f"{kind} {text!r}"
    if not remove:
        annotations.annotate(store, [campaign.number], kind, text or "")
        tell(f"{shown} ({campaign.name}): added {what}")
    elif count := annotations.remove(store, [campaign.number], kind, text):
        tell(f"{shown} ({campaign.name}): removed {plural(count, kind) if text is None else what}")
    else:
        raise BlklabError(f"{shown}: has no {what}")
