"""Journals of unfinished repairs: one file per array in the state directory.

A step is in the journal before it is executed. The file is always replaced as a whole.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md.probing import journal_path
from blklab.md.recipes import command
from blklab.md.repair.task import RepairTask, from_dict
from blklab.output import replace
from blklab.system import state_directory
from blklab.system.roots import Roots, opened


@contextmanager
def lock_array(md: Path) -> Iterator[None]:
    """Locks an array against other repairs, whichever state directory they use.

    `md` is its directory in sysfs, `/sys/block/md0/md`. Raises BlklabError if it is locked.
    """
    with opened(md, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlklabError(f"{md.parent.name}: another blklab process is repairing it: wait until it ends") from None
        yield


def write_journal(task: RepairTask, roots: Roots) -> None:
    """Writes a task to its journal and to the disk. Raises BlklabError if that fails."""
    path = journal_path(task.uuid, roots)
    with SystemErrors(BlklabError, f"{path}: cannot write the journal", "; without it, blklab changes nothing"):
        directory = state_directory.prepare(roots)
        replace(path, json.dumps(task.as_dict()).encode("ascii"), mode=0o600)
        state_directory.sync(directory)


def read_journal(path: Path) -> RepairTask:
    """Returns the task in a journal. Raises BlklabError if it is damaged or of another user."""
    content = state_directory.read(path)
    try:
        task = from_dict(json.loads(content))
        if journal_path(task.uuid, Roots()).name != path.name:
            raise ValueError("the name is that of another array")
        return task
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        remedy = "check the array with blklab md audit, then delete this file"
        raise BlklabError(f"{path}: damaged: expected the journal of a repair by blklab; {remedy}") from None


def remove_journal(task: RepairTask, roots: Roots) -> None:
    """Removes the journal of a finished task. Raises BlklabError if that fails."""
    path = journal_path(task.uuid, roots)
    remedy = f": correct this, then run {command('resume')}"
    with SystemErrors(BlklabError, f"{path}: cannot remove the journal", remedy):
        path.unlink(missing_ok=True)
        state_directory.sync(roots.state)
