"""The directory of a store's series: a shared lock for writing, an exclusive lock for cleaning."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from blklab.errors import StoreError

OURS: Final = re.compile(r"run-\d+\.parquet|\.run-\d+\.parquet\.\w+\.part", re.A)
"""Names of series, and their temporary names."""


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Makes the directory, and protects its new files until they have a row. Raises StoreError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(directory)
    except OSError as error:
        raise StoreError(f"{directory}: cannot be made: {error.strerror}") from None
    try:
        with suppress(OSError):  # a filesystem without locks is never tidied
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def tidied(directory: Path, known: Callable[[], set[str]]) -> None:
    """Removes series that `known` does not name, unless any are being written. The next call removes what remains."""
    try:
        descriptor = _opened(directory)
    except OSError:
        return  # there is none
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        kept = known()
        for path in directory.iterdir():
            if OURS.fullmatch(path.name) and path.name not in kept:
                path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
