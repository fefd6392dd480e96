"""Opening the store: SQLite in a file, or a PostgreSQL server by URL; migrated when it is older.

Where: `--store`, else `$BLKLAB_STORE`, else `blklab/store.db` in the user's data directory (XDG).
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.store.tables import REVISION
from blklab.text import printable

VARIABLE: Final = "BLKLAB_STORE"

PATIENCE_MS: Final = 60_000
"""How long one process waits while another writes."""

READING: Final = "blklab_reading"
"""The execution option of a connection that only reads."""

LOCK: Final = 0x626C6B6C6162
"""Of PostgreSQL's advisory locks, ours while the tables are migrated: `blklab`."""


@dataclass(frozen=True)
class Database:
    """An open store, and where its series are."""

    engine: sa.Engine
    name: str
    """What to call it in messages: without a password."""

    series: Path

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Gives a connection to read from. Raises BlklabError."""
        with said(self.name), self.engine.connect() as connection:
            yield connection.execution_options(**{READING: True})

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Gives a connection whose changes are made together, or not at all. Raises BlklabError."""
        with said(self.name), self.engine.begin() as connection:
            yield connection


def opened(where: str | None = None) -> Database:
    """Opens a store, making or migrating it first.

    Raises UsageError, EnvironmentLacks for a driver that is not installed, or BlklabError.
    """
    chosen = where or os.environ.get(VARIABLE) or ""
    if "://" in chosen:
        database = _by_url(chosen)
    else:
        database = _file(Path(chosen).expanduser() if chosen else _data() / "store.db")
    _migrated(database)
    return database


def _data() -> Path:
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir("blklab"))
    except (OSError, RuntimeError, KeyError) as error:
        raise BlklabError(f"no home directory: {error}; --store says where results go") from None


def _file(path: Path) -> Database:
    if path.is_dir():
        raise UsageError(f"{path}: is a directory, and the store is a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BlklabError(f"{path}: cannot be made: {error.strerror}") from None
    url = sa.URL.create("sqlite", database=str(path.absolute()))
    return Database(_engine(url), str(path), path.with_name(f"{path.name}.series"))


def _by_url(text: str) -> Database:
    try:
        url = sa.make_url(text)
    except (SQLAlchemyError, ValueError):
        shown = text.rpartition("@")[2]  # without a password
        raise UsageError(
            f"{shown!r} is no URL: postgresql://USER@HOST/DATABASE is wanted"
        ) from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError("sqlite:// without a file keeps nothing: name one")
        return _file(Path(url.database))
    if kind != "postgresql":
        raise UsageError(f"{kind}: SQLite and PostgreSQL can be a store")
    name = url.render_as_string(hide_password=True)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        engine = _engine(url)
    except ModuleNotFoundError as error:
        raise EnvironmentLacks(
            f"the driver {error.name} is not installed", "pip install 'psycopg[binary]'"
        ) from None
    folder = "-".join(filter(None, (url.host, str(url.port or ""), url.database)))
    return Database(engine, name, _data() / "series" / folder.replace("/", "_"))


def _engine(url: sa.URL) -> sa.Engine:
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "sqlite":
        arguments = {"timeout": PATIENCE_MS / 1000, "check_same_thread": False}
    # A connection is made when it is needed: a campaign of days outlives a server's restart.
    engine = sa.create_engine(
        url, connect_args=arguments, json_serializer=_json, poolclass=sa.NullPool
    )
    if url.get_backend_name() == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own idea of transactions is switched off: `begin` says when one begins.
    connection.isolation_level = None
    for pragma in (
        "journal_mode = wal",
        "synchronous = full",
        "foreign_keys = on",
        f"busy_timeout = {PATIENCE_MS}",
    ):
        connection.execute(f"pragma {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # To write, it is locked at once: two that both read first would refuse each other's writing.
    reading = connection.get_execution_options().get(READING)
    connection.exec_driver_sql("begin" if reading else "begin immediate")


@contextmanager
def said(name: str) -> Iterator[None]:
    """Turns what the database says into one line. Raises BlklabError."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        words = " ".join(printable(str(cause)).split()) or type(cause).__name__
        raise BlklabError(f"store {name}: {words[:300]}") from error


def _migrated(database: Database) -> None:
    """Makes the tables, or brings them up to date; refuses a store that a newer blklab made."""
    with database.reading() as connection:
        if _revision(connection) == REVISION:
            return
    with database.writing() as connection:
        if database.engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        found = _revision(connection)  # another process may have been quicker
        if found == REVISION:
            return
        if found is not None and found > REVISION:
            raise BlklabError(
                f"store {database.name}: is of a newer blklab (revision {found}; this one knows"
                f" {REVISION}): use that one, or another --store"
            )
        _upgrade(connection)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("select version_num from alembic_version")).scalar()
    return None if found is None else str(found)


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "blklab.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
