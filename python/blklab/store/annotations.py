"""Tags and notes that users give to campaigns."""

import getpass
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from blklab.grouping import by_key
from blklab.store.campaigns import Store, timestamp
from blklab.store.tables import annotations

AnnotationKind = Literal["tag", "note"]


@dataclass(frozen=True)
class Annotation:
    """A tag or a note."""

    campaign: int
    kind: AnnotationKind
    text: str
    author: str
    created: str


def annotate(store: Store, campaigns: Collection[int], kind: AnnotationKind, text: str) -> None:
    """Adds a tag or a note to campaigns; a tag that a campaign has already stays as it is."""
    tagged_campaigns = {number for number, texts in tags(store).items() if kind == "tag" and text in texts}
    values = {"kind": kind, "text": text, "author": _author(), "created": timestamp()}
    rows = [{**values, "campaign": campaign} for campaign in campaigns if campaign not in tagged_campaigns]
    if rows:
        with store.database.writing() as connection:
            connection.execute(sa.insert(annotations), rows)


def remove(store: Store, campaigns: Sequence[int], kind: AnnotationKind, text: str | None = None) -> int:
    """Removes a tag, or all notes, from campaigns; returns how many there were."""
    conditions = [annotations.c.campaign.in_(campaigns), annotations.c.kind == kind]
    if text is not None:
        conditions.append(annotations.c.text == text)
    with store.database.writing() as connection:
        return int(connection.execute(sa.delete(annotations).where(*conditions)).rowcount)


def annotations_of(store: Store, campaign: int | None = None) -> list[Annotation]:
    """Returns the tags and notes of a campaign, or of all, in the order in which they were added."""
    query = sa.select(*(annotations.c[name] for name in ("campaign", "kind", "text", "author", "created")))
    if campaign is not None:
        query = query.where(annotations.c.campaign == campaign)
    with store.database.reading() as connection:
        return [Annotation(**row) for row in connection.execute(query.order_by(annotations.c.id)).mappings()]


def tags(store: Store) -> dict[int, list[str]]:
    """Returns the tags of all campaigns by their number."""
    return by_key(
        (annotation.campaign, annotation.text) for annotation in annotations_of(store) if annotation.kind == "tag"
    )


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "unknown"
