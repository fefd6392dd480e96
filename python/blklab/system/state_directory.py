"""The directory for blklab's persistent state, and for changes to undo."""

import os
import stat
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors, UsageError
from blklab.system.roots import Roots, open_descriptor


def prepare(roots: Roots) -> Path:
    """Returns the state directory, and makes it if needed. Raises EnvironmentLacks or UsageError.

    Root writes values from it into /sys, so no other user may have write permission.
    """
    path = roots.state
    why = ": blklab cannot record the changes that it must undo"
    remedy = "set BLKLAB_STATE to a writable directory"
    with SystemErrors(EnvironmentLacks, path, why, remedy):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: not a directory; set BLKLAB_STATE to a directory")
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{path}: found owner {status.st_uid} and mode {stat.S_IMODE(status.st_mode):o}, "
            f"expected owner {os.geteuid()} and no write permission for others; set BLKLAB_STATE"
        )
    return path


def read(path: Path) -> bytes:
    """Returns the content of a file in it. Raises BlklabError for one that is not this user's."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with SystemErrors(BlklabError, f"{path}: cannot be read"), open_descriptor(path, flags) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise BlklabError(f"{path}: not a regular file of this user, so blklab ignores it")
        with open(descriptor, "rb", closefd=False) as file:  # a descriptor, not a path
            return file.read()


def sync(path: Path, kind: int = os.O_DIRECTORY) -> None:
    """Syncs a directory, so that its names are on disk; with `kind` 0 a file."""
    with open_descriptor(path, os.O_RDONLY | kind) as descriptor:
        os.fsync(descriptor)
