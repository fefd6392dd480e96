"""The file of an SQLite store: found, made, connected to, and never a device.

SQLite itself would write its database onto a disk with the given name, even a mounted one.
"""

import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from blklab.errors import StoreError, UsageError

PATIENCE_MS: Final = 60_000  # ms that one process waits while another writes
WAL: Final = "pragma journal_mode = wal"
READ: Final = "select count(*) from sqlite_master"  # Fails if a file cannot be read
ROOM: Final = 1 << 20
"""Bytes that must be free next to a store. SQLite maps its log's index into memory: where blocks
are smaller than pages and none is free, touching it ends the process (SIGBUS)."""

KINDS: Final = {
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a circular link",
    stat.S_IFSOCK: "a socket",
}


def locate_file(path: Path, *, make: bool) -> Path:
    """Returns the file of a name, following all links, and makes it with `make`.

    Raises UsageError for anything except a file, or if it does not exist without `make`; or StoreError.
    """
    target = Path(os.path.realpath(path))
    if _is_there(path, target):
        return target
    if not make:
        raise UsageError(f"{path}: store not found; create one with `blklab run EXPERIMENT`")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(target, flags, 0o644))  # the mode is SQLite's
    except FileExistsError:  # another process was quicker
        _is_there(path, target)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made: {error.strerror}") from None
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
        kind = KINDS.get(stat.S_IFMT(mode), "not a file")
        raise UsageError(f"{path}: is {kind}, expected a file")
    return True


def may_write(target: Path) -> bool:
    """Tells whether this user can write a store: the file, and SQLite's files next to it."""
    allowed = os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)
    return allowed and _free(target) >= ROOM


def _free(target: Path) -> int:
    status = os.statvfs(target.parent)
    return status.f_bavail * status.f_frsize


def connected(path: Path, target: Path, *, only_read: bool) -> sqlite3.Connection:
    """Returns a connection to an existing file. Raises sqlite3.Error, or as `locate_file` does."""
    if not _is_there(path, target):
        raise StoreError(f"{path}: the store no longer exists")
    full = (free := _free(target)) < ROOM
    if full and (not only_read or _log(target).exists()):
        raise StoreError(f"{path}: the disk is full: found {free} bytes free next to the store, expected {ROOM}")
    if full:
        return _set(_connected(target, "mode=ro&immutable=1"), READ)
    if not only_read:
        pragmas = ("pragma synchronous = full", "pragma foreign_keys = on")
        return _set(_connected(target, "mode=rw"), WAL, *pragmas)
    try:
        return _set(_connected(target, "mode=ro"), READ)
    except sqlite3.OperationalError:
        # Its write-ahead log cannot be made here, so no process is writing.
        if _log(target).exists():
            raise
        return _set(_connected(target, "mode=ro&immutable=1"), READ)


def _log(target: Path) -> Path:
    """Returns the path of SQLite's write-ahead log, which exists while the store is open."""
    return target.with_name(f"{target.name}-wal")


def _connected(target: Path, how: str) -> sqlite3.Connection:
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
