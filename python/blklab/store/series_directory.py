"""The folder of a store's series: files are written under a shared lock, tidied under one's own."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from blklab.errors import StoreError

OURS: Final = re.compile(r"run-\d+\.parquet|\.run-\d+\.parquet\.\w+\.part", re.A)
"""The names that series have, and that they have while they are written."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Makes the folder, and keeps it from being tidied until what is written has its row.

    Raises StoreError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made: {error.strerror}") from None
    try:
        with suppress(OSError):  # a filesystem without locks is never tidied
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def tidied(folder: Path, known: Callable[[], set[str]]) -> None:
    """Removes series that are not among those that `known` names, unless any are being written.

    What then is left, the next one removes.
    """
    try:
        descriptor = _opened(folder)
    except OSError:
        return  # there is none
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        kept = known()
        for path in folder.iterdir():
            if OURS.fullmatch(path.name) and path.name not in kept:
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
