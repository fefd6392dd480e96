"""Opens the store: SQLite in a file, or a PostgreSQL server by URL; migrates an older one.

Where: `--store`, else `$BLKLAB_STORE`, else `blklab/store.db` in the user's data directory (XDG).
"""

import json
import logging
import os
import re
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from blklab.errors import StoreError, UsageError
from blklab.store.tables import KNOWN, REVISION, meta, runs, series
from blklab.text.printing import printable

T = TypeVar("T")

VARIABLE = "BLKLAB_STORE"

PAUSES = (0.5, 1, 2, 4, 8, *[15] * 7)
"""Seconds to wait for an unavailable server before each new attempt."""

PATIENCE = 120  # Seconds that attempts and pauses take together, at most
GO_ON = "when it runs again, repeat the command with --resume"
ANSWER = 30.0  # Seconds that a server may take for a run's transaction
READ_ANSWER = 120.0  # Seconds that it may take for what a command reads at once: all runs of a campaign, for example
WRITE_ANSWER = 600.0  # Seconds that it may take for what a command writes at once: an import, for example
CONNECTING = {"connect_timeout": "10", "keepalives_idle": "10", "tcp_user_timeout": "30000"}
"""Limits of connections to a server, if its URL has no others (PostgreSQL's manual, 34.1.2): libpq's own are hours."""

AWAY = ("08", "57P", "53300")
"""Prefixes of a PostgreSQL server's error codes that pass: no connection, a restart, too many
users (PostgreSQL's manual, appendix A). An error without a code means that there was no server."""

READING = "blklab_reading"  # The execution option of a read-only connection
LOCK = 0x626C6B6C6162  # Our PostgreSQL advisory lock while the tables are migrated: `blklab`


PATIENCE_MS = 60_000  # ms that one process waits while another writes
WAL = "pragma journal_mode = wal"
READ = "select count(*) from sqlite_master"  # Fails if a file cannot be read
ROOM = 1 << 20
"""Bytes that must be free next to a store. SQLite maps its log's index into memory: where blocks
are smaller than pages and none is free, touching it ends the process (SIGBUS)."""

PSEUDO = ("/proc", "/sys")  # Where the kernel makes all files
KINDS = {stat.S_IFBLK: "a block device", stat.S_IFCHR: "a character device", stat.S_IFDIR: "a directory"}
KINDS |= {stat.S_IFIFO: "a FIFO", stat.S_IFLNK: "a circular link", stat.S_IFSOCK: "a socket"}


def locate_file(path: Path, *, make: bool) -> Path:
    """Returns the file of a name, following all links, and makes it with `make`.

    Raises UsageError for anything except a file, or if it does not exist without `make`; or StoreError.
    """
    target = Path(os.path.realpath(path))
    if _is_there(path, target):
        return target
    pseudo = next((root for root in PSEUDO if target.is_relative_to(root)), None)
    if pseudo is not None:
        raise UsageError(f"{path} cannot be a store: {pseudo} has no files of users; name another with --store")
    if not make:
        raise UsageError(f"{path}: store not found; create one with `blklab run EXPERIMENT`")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(target, flags, 0o644))  # the mode is SQLite's
    except FileExistsError:  # another process was quicker
        _is_there(path, target)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be made: {error.strerror}: make {target.parent} writable for this user, "
            "or name another store with --store"
        ) from None
    return target


def _is_there(path: Path, target: Path) -> bool:
    """Tells whether the file exists. Raises UsageError for anything except a file, or StoreError."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path}: is {KINDS.get(stat.S_IFMT(mode), 'not a file')}, expected a file")
    return True


def may_write(target: Path) -> bool:
    """Tells whether this user can write a store: the file, and SQLite's files next to it."""
    allowed = os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)
    return allowed and _free(target) >= ROOM


def _free(target: Path) -> int:
    status = os.statvfs(target.parent)
    return status.f_bavail * status.f_frsize


def connect_file(path: Path, target: Path, *, only_read: bool) -> sqlite3.Connection:
    """Returns a connection to an existing file. Raises sqlite3.Error, or as `locate_file` does."""
    if not _is_there(path, target):
        raise StoreError(f"{path}: the store no longer exists")
    full = (free := _free(target)) < ROOM
    if full and (not only_read or _log(target).exists()):
        raise StoreError(f"{path}: the disk is full: found {free} bytes free next to the store, expected {ROOM}")
    if full:
        return _set(_connect(target, "mode=ro&immutable=1"), READ)
    if not only_read:
        _check_writable(path, target)
        return _set(_connect(target, "mode=rw"), WAL, "pragma synchronous = full", "pragma foreign_keys = on")
    try:
        return _set(_connect(target, "mode=ro"), READ)
    except sqlite3.OperationalError:
        # Its write-ahead log cannot be made here, so no process is writing.
        if _log(target).exists():
            raise
        return _set(_connect(target, "mode=ro&immutable=1"), READ)


def _check_writable(path: Path, target: Path) -> None:
    """Raises StoreError for a file or a directory that this user cannot write: SQLite would not say which."""
    advice = "make it writable for this user, or name another store with --store"
    if not os.access(target, os.W_OK):
        raise StoreError(f"{path}: the file is read-only: {advice}")
    if not os.access(target.parent, os.W_OK):
        raise StoreError(
            f"{path}: the directory {target.parent} is read-only, and SQLite writes files next to the store: {advice}"
        )


def _log(target: Path) -> Path:
    """Returns the path of SQLite's write-ahead log, which exists while the store is open."""
    return target.with_name(f"{target.name}-wal")


def _connect(target: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(target))}?{how}",
        uri=True,
        timeout=PATIENCE_MS / 1000,
        check_same_thread=False,
        # The driver's own idea of transactions is switched off: `begin` says when one begins.
        isolation_level=None,
    )


def _set(connection: sqlite3.Connection, *statements: str) -> sqlite3.Connection:
    try:
        for statement in (f"pragma busy_timeout = {PATIENCE_MS}", *statements):
            _patiently(connection, statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Executes a statement; SQLite itself does not wait if two processes make a store's log."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextmanager
def _answering(seconds: float) -> Iterator[Callable[[sa.Connection], None]]:
    """Gives a function that ends a connection if its server takes longer: psycopg has no limit."""
    with ExitStack() as stack:

        def watch(connection: sa.Connection) -> None:
            if connection.dialect.name == "postgresql":
                file = os.dup(connection.connection.fileno())
                line = stack.enter_context(socket.socket(fileno=file))
                timer = threading.Timer(seconds, _cut, [line])
                timer.start()
                stack.callback(timer.cancel)

        yield watch


def _cut(line: socket.socket) -> None:
    with suppress(OSError):  # The server was quicker
        line.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Database:
    """An open store."""

    engine: sa.Engine
    name: str  # Its name in messages, without a password
    directory: Path  # For results that could not be stored
    older_series: Path  # Where older versions kept series; below it, a store of a server has its own directory
    only_read: bool = False  # Whether it is a file that this user cannot write
    warn: Callable[[str], object] = str  # Called when it begins to wait for a server

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Gives a connection for reading. Raises StoreError."""
        with store_errors(self.name), _answering(READ_ANSWER) as watch, self.engine.connect() as connection:
            watch(connection)
            yield connection.execution_options(**{READING: True})

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Gives a connection whose changes are one transaction. Raises StoreError."""
        with store_errors(self.name), _answering(WRITE_ANSWER) as watch, self.engine.begin() as connection:
            watch(connection)
            yield connection

    def insisting(self, work: Callable[[sa.Connection, bool], T]) -> T:
        """Returns the result of `work` in a transaction; waits for an unavailable server. Raises StoreError.

        `work` gets True if it may have succeeded already and only the answer was lost.
        """
        deadline = time.monotonic() + PATIENCE
        for attempt, pause in enumerate((*PAUSES, None)):
            try:
                with _answering(ANSWER) as watch, self.writing() as connection:
                    watch(connection)
                    return work(connection, attempt > 0)
            except StoreError as error:
                if not _passes(error.__cause__):
                    raise
                if pause is None or time.monotonic() > deadline:
                    raise StoreError(f"{error}; no answer for {PATIENCE // 60} minutes: {GO_ON}") from error
                if attempt == 0:
                    self.warn(f"{error}; blklab tries again for up to {PATIENCE // 60} minutes")
                time.sleep(pause)
        raise AssertionError


def _passes(error: BaseException | None) -> bool:
    """Tells whether a server may be available again soon; a file's errors do not pass."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    code = getattr(error.orig, "sqlstate", "")
    return code is None or code.startswith(AWAY)


def open_database(location: str | None = None, *, reading: bool = False) -> Database:
    """Opens a store, and makes or migrates it first.

    For `reading`, nothing is made, and a read-only file is not changed. Raises UsageError,
    ModuleNotFoundError without the driver, or StoreError.
    """
    name_or_url = location or os.environ.get(VARIABLE) or ""
    if "://" in name_or_url:
        database = _by_url(name_or_url, reading=reading)
    elif name_or_url:
        database = _file(Path(name_or_url), reading=reading)
    else:  # not a typing error: before the first run, it is empty
        path = _data() / "store.db"
        database = _file(path, reading=reading and path.exists())
    _migrate(database)
    if database.older_series.is_dir() and not database.only_read:
        with suppress(StoreError):  # A user of a server may only read; the files stay
            with database.writing() as connection:
                paths = take_over_series(connection, database.older_series)
            remove_series_files(paths)
    return database


def _data() -> Path:
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir("blklab"))
    except (OSError, RuntimeError, KeyError) as error:
        raise StoreError(f"no home directory: {error}; name the store with --store") from None


def _file(path: Path, *, reading: bool) -> Database:
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: {error}") from None
    file = locate_file(path, make=not reading)
    only_read = reading and not may_write(file)
    engine = _engine(sa.URL.create("sqlite"), creator=lambda: connect_file(path, file, only_read=only_read))
    sa.event.listen(engine, "begin", _begin_sqlite)
    return Database(engine, str(path), file.parent, file.with_name(f"{file.name}.series"), only_read)


def _by_url(text: str, *, reading: bool) -> Database:
    try:
        url = sa.make_url(text)
    except (SQLAlchemyError, ValueError):
        url_text = text.rpartition("@")[2]  # without a password
        raise UsageError(f"invalid URL {url_text!r}: expected postgresql://USER@HOST/DATABASE or a file name") from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError("sqlite:// without a file keeps nothing: give a file name")
        return _file(Path(url.database), reading=reading)
    name = url.render_as_string(hide_password=True)
    if kind != "postgresql":
        raise UsageError(f"unsupported URL '{name}': expected postgresql://USER@HOST/DATABASE or a file name")
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    url = url.set(query={**CONNECTING, **url.query})
    return Database(_engine(url), name, _data(), _data() / "series")


def _engine(url: sa.URL, **options: Any) -> sa.Engine:
    # A connection is made when it is needed: a campaign of days survives a server's restart.
    # A signal can end blklab while a connection closes, and SQLAlchemy would log the traceback.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    as_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))
    return sa.create_engine(url, json_serializer=as_json, poolclass=sa.NullPool, **options)


def _begin_sqlite(connection: sa.Connection) -> None:
    # To write, it is locked at once: two that both read first would refuse each other's writing.
    connection.exec_driver_sql("begin" if connection.get_execution_options().get(READING) else "begin immediate")


@contextmanager
def store_errors(name: str) -> Iterator[None]:
    """Converts the database's errors to one line. Raises StoreError."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        message = printable(" ".join(str(cause).split())) or type(cause).__name__
        code = getattr(cause, "sqlite_errorcode", 0)  # Errors of Python's own have none
        if isinstance(cause, sqlite3.Error) and code & 0xFF == sqlite3.SQLITE_CANTOPEN:
            message = (
                "the file, or one of SQLite's next to it (-wal, -shm), cannot be opened: make them and their directory "
                "writable for this user, or name another store with --store"
            )
        raise StoreError(f"store {name}: {message[:300]}") from error


def _migrate(database: Database) -> None:
    """Makes or upgrades the tables; refuses a store that a newer blklab made."""
    with database.reading() as connection:
        if _revision(database, connection) == REVISION:
            return
    if database.only_read:
        raise StoreError(
            f"store {database.name}: was made by an older blklab and needs an upgrade: "
            "run `blklab runs list` as a user who can write to it"
        )
    with database.writing() as connection:
        if database.engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        # Another process may have been quicker.
        if _revision(database, connection) != REVISION:
            _upgrade(connection)


def _revision(database: Database, connection: sa.Connection) -> str | None:
    """Returns a store's revision; None for an empty one. Raises StoreError."""
    tables = sa.inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        # A server's database may hold other things as well; a file that does is another program's.
        if tables and database.engine.dialect.name == "sqlite":
            raise StoreError(f"{database.name}: is an SQLite file, but not a store of blklab")
        if database.only_read:
            raise StoreError(f"{database.name}: is not a store of blklab: it is empty")
        return None
    revision = connection.execute(sa.text("select version_num from alembic_version")).scalar()
    ours = runs.name in tables  # Alembic is not ours alone, nor are its revisions' names
    if revision is None or (ours and revision in KNOWN):
        return revision
    if ours and str(revision).isdecimal() and str(revision) > REVISION:
        raise StoreError(
            f"store {database.name}: was made by a newer blklab (revision {revision}, "
            f"this one knows {REVISION}): use the newer blklab, or another --store"
        )
    revision_text = printable(str(revision))
    known_revisions = ", ".join(KNOWN)
    raise StoreError(
        f"{database.name}: is not a store that this version of blklab knows (revision {revision_text}; known: "
        f"{known_revisions}): use another --store"
    )


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "blklab.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


SERIES_FILE = re.compile(r"run-(\d{1,18})\.parquet", re.A)


def take_over_series(connection: sa.Connection, directory: Path) -> list[Path]:
    """Gives runs without a series those that older versions kept in files; returns the files no longer needed.

    A server's stores had a directory each, with the store's own name.
    """
    if connection.dialect.name != "sqlite":
        directory /= connection.execute(sa.select(meta.c.store)).scalar_one()
    run_ids = set(connection.execute(sa.select(runs.c.id)).scalars())
    ids_with_series = set(connection.execute(sa.select(series.c.run)).scalars())
    paths = []
    with suppress(OSError):
        for path in sorted(directory.iterdir()):
            match = SERIES_FILE.fullmatch(path.name)
            if match and (run := int(match[1])) in run_ids:
                if run not in ids_with_series:
                    connection.execute(sa.insert(series).values(run=run, points=path.read_bytes()))
                paths.append(path)
    return paths


def remove_series_files(paths: list[Path]) -> None:
    """Removes files, and their directory if nothing else is in it."""
    with suppress(OSError):
        for path in paths:
            path.unlink(missing_ok=True)
        if paths:
            paths[0].parent.rmdir()
