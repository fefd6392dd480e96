"""The directory where blklab keeps what must outlive it, and what must be undone."""

import os
import stat
from pathlib import Path

from blklab.errors import EnvironmentLacks, UsageError
from blklab.system.roots import Roots


def prepare(roots: Roots) -> Path:
    """Returns the state directory, made if need be. Raises EnvironmentLacks or UsageError.

    Root writes what stands in it into /sys: nobody else may be able to write there.
    """
    path = roots.state
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise EnvironmentLacks(
            f"{path}: {error.strerror}: nowhere to keep what must be undone", "set BLKLAB_STATE"
        ) from None
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: not a directory; set BLKLAB_STATE to one")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{path}: found owner {status.st_uid} and mode {stat.S_IMODE(status.st_mode):o},"
            f" expected owner {os.geteuid()} and no one else to write there; set BLKLAB_STATE"
        )
    return path


def sync(directory: Path) -> None:
    """Has the names in a directory be on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
