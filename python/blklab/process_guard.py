"""Runs work in a child process and leaves nothing of it: for programs of blklab on other hosts."""

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

PDEATHSIG, SUBREAPER = 1, 36  # prctl(2)
SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def guarded(work: Callable[[], int], *, ending: int = signal.SIGKILL) -> int:
    """Returns the exit status of `work` when it has ended, and all that it started; these get the signal `ending`.

    Passes signals to it. If this process is killed, `work` gets SIGTERM.
    """
    _prctl(SUBREAPER, 1)  # what it started becomes a child of this process if its parent ends
    worker = os.fork()
    if not worker:
        _prctl(PDEATHSIG, signal.SIGTERM)
        os._exit(work())
    for number in SIGNALS:
        signal.signal(number, lambda received, _frame: os.kill(worker, received))
    _, status = os.waitpid(worker, 0)
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, ending)
        os.waitpid(-1, 0)
    return os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _children() -> list[int]:
    own = str(os.getpid())
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if status.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                children.append(int(status.parent.name))
    return children
