"""Journals of unfinished repairs: one file per array in the state directory.

A step is in the journal before it is executed. The file is always replaced as a whole.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines
from blklab.md.probing import journal_path
from blklab.md.repair import slot_task, task
from blklab.md.repair.slot_task import SlotTask
from blklab.md.repair.task import RepairTask
from blklab.output import replace
from blklab.system import state_directory
from blklab.system.roots import Roots


@contextmanager
def lock_array(name: str, roots: Roots) -> Iterator[None]:
    """Locks an array (`md0`) against other repairs, whichever state directory they use.

    The lock is a file that only root can open: another user could lock a directory of sysfs for ever. Raises
    BlklabError if it is locked, or if the directory of locks belongs to another user.
    """
    directory = roots.repair_locks
    with SystemErrors(BlklabError, f"{directory}: cannot make the lock of a repair"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise BlklabError(f"{directory}: expected a directory of this user, without write permission for others")
        path = directory / f"md-fix-{name.replace('/', '!')}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlklabError(f"{name}: another blklab process is repairing it: wait until it ends") from None
        yield
    finally:
        os.close(descriptor)


Task = RepairTask | SlotTask
"""What a journal holds."""


def write_journal(written: Task, roots: Roots) -> None:
    """Writes a task to its journal and to the disk. Raises BlklabError if that fails."""
    path = journal_path(written.uuid, roots)
    with SystemErrors(BlklabError, f"{path}: cannot write the journal", "; without it, blklab changes nothing"):
        directory = state_directory.prepare(roots)
        replace(path, json.dumps(written.as_dict()).encode("ascii"), mode=0o600)
        state_directory.sync(directory)


def read_journal(path: Path) -> RepairTask:
    """Returns the task of a repair of lists. Raises BlklabError as `read_any_journal` does, and for another task."""
    journal_task = read_any_journal(path)
    if not isinstance(journal_task, RepairTask):
        raise BlklabError(
            f"{path}: it is of another repair ({journal_task.operation}): continue it with {command_lines.resume_fix()}"
        )
    return journal_task


def read_any_journal(path: Path) -> Task:
    """Returns the task in a journal. Raises BlklabError if it is damaged, a link, or of another user."""
    content = state_directory.read(path)
    try:
        document = json.loads(content)
        journal_task: Task
        journal_task = slot_task.from_dict(document) if "slot_task" in document else task.from_dict(document)
        if journal_path(journal_task.uuid, Roots()).name != path.name:
            raise ValueError("the name is that of another array")
        return journal_task
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        remedy = "check the array with blklab md audit, then delete this file"
        raise BlklabError(f"{path}: damaged: expected the journal of a repair by blklab; {remedy}") from None


def remove_journal(journal_task: Task, roots: Roots) -> None:
    """Removes the journal of a finished task, if there is one. Raises BlklabError if that fails."""
    path = journal_path(journal_task.uuid, roots)
    if not os.path.lexists(path):
        return
    remedy = f": correct this, then run {command_lines.resume_fix()}"
    with SystemErrors(BlklabError, f"{path}: cannot remove the journal", remedy):
        path.unlink(missing_ok=True)
        state_directory.sync(roots.state)
