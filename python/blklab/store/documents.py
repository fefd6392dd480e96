"""Documents that are kept next to runs: audits of hosts, and profiles of traces."""

from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from blklab.errors import UsageError
from blklab.store.campaigns import Store, insert_row, timestamp
from blklab.store.tables import documents

DocumentKind = Literal["audit", "profile", "bisection"]


@dataclass(frozen=True)
class StoredDocument:
    """A document, and when it was kept."""

    id: int
    kind: DocumentKind
    name: str  # The host of an audit, or the name of a profile
    created: str
    document: Any  # docs/reference/formats.md: `md audit` of a host, or `trace stat`


def keep(store: Store, kind: DocumentKind, name: str, document: object) -> int:
    """Stores a document, and returns its number. Raises StoreError."""
    values = {"kind": kind, "name": name, "created": timestamp(), "document": document}
    with store.database.writing() as connection:
        return insert_row(connection, documents, values)


@dataclass(frozen=True)
class DocumentEntry:
    """A document without its content."""

    id: int
    name: str
    created: str


def latest_entries(store: Store, kind: DocumentKind) -> list[DocumentEntry]:
    """Returns what `latest` does, without the contents: a list does not read them all."""
    newest = sa.select(sa.func.max(documents.c.id)).where(documents.c.kind == kind).group_by(documents.c.name)
    query = sa.select(documents.c.id, documents.c.name, documents.c.created).where(documents.c.id.in_(newest))
    with store.database.reading() as connection:
        return [DocumentEntry(**row) for row in connection.execute(query.order_by(documents.c.name)).mappings()]


def latest(store: Store, kind: DocumentKind) -> list[StoredDocument]:
    """Returns the newest document of each name, by name."""
    newest = sa.select(sa.func.max(documents.c.id)).where(documents.c.kind == kind).group_by(documents.c.name)
    return _documents(store, documents.c.id.in_(newest))


def history(store: Store, kind: DocumentKind, name: str) -> list[tuple[int, str]]:
    """Returns the numbers and times of all documents of a name, the newest first."""
    query = sa.select(documents.c.id, documents.c.created).where(documents.c.kind == kind, documents.c.name == name)
    with store.database.reading() as connection:
        rows = connection.execute(query.order_by(documents.c.id.desc())).all()
    return [(number, time) for number, time in rows]


def document(store: Store, kind: DocumentKind, number: int) -> StoredDocument:
    """Returns a document. Raises UsageError if there is none."""
    rows = _documents(store, sa.and_(documents.c.id == number, documents.c.kind == kind))
    if not rows:
        raise UsageError(f"no {kind} {number} in store {store.database.name}")
    return rows[0]


def _documents(store: Store, condition: "sa.ColumnElement[bool]") -> list[StoredDocument]:
    query = sa.select(documents).where(condition).order_by(documents.c.name)
    with store.database.reading() as connection:
        return [StoredDocument(**row) for row in connection.execute(query).mappings()]
