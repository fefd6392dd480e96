"""Unfinished repairs, on disk before what they describe is done: a file an array in the state
directory, replaced as a whole.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md.journal_directory import path_of
from blklab.md.repair.task import RepairTask, from_dict
from blklab.output import replace
from blklab.system import state_directory
from blklab.system.roots import Roots


@contextmanager
def held(md: Path) -> Iterator[None]:
    """Keeps other repairs away from an array, wherever they write down what they do.

    `md` is its directory in sysfs, `/sys/block/md0/md`. Raises BlklabError while there is one.
    """
    descriptor = os.open(md, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlklabError(f"{md.parent.name}: another blklab is repairing it") from None
        yield
    finally:
        os.close(descriptor)


def write(task: RepairTask, roots: Roots) -> None:
    """Writes a task down; it is on the disk when this returns. Raises BlklabError if it is not."""
    path = path_of(task.uuid, roots)
    try:
        directory = state_directory.prepare(roots)
        replace(path, json.dumps(task.as_dict()).encode("ascii"), mode=0o600)
        state_directory.sync(directory)
    except OSError as error:
        raise BlklabError(
            f"{path}: {error.strerror}: nothing is changed that is not noted there first"
        ) from None


def read(path: Path) -> RepairTask:
    """Returns what was written. Raises BlklabError if it is damaged, or not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor, not a path
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise BlklabError(f"{path}: not a file of ours, so not acted on")
            content = file.read()
        task = from_dict(json.loads(content))
        if path_of(task.uuid, Roots()).name != path.name:
            raise ValueError("the name is another array's")
        return task
    except OSError as error:
        raise BlklabError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BlklabError(
            f"{path}: damaged, expected a repair that blklab began; not acted on: look at the array"
            " (blklab md audit), and remove it"
        ) from None


def remove(task: RepairTask, roots: Roots) -> None:
    """Forgets a task: nothing of it is left to be done."""
    path_of(task.uuid, roots).unlink(missing_ok=True)
    state_directory.sync(roots.state)
