"""The points of a repair at which something may happen to it: before and after each run of mdadm,
and before and after each time that something is written down, or a page is written again.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from blklab.md.repair import journal, operations, rewrite

PLACES = (
    (operations, "run_mdadm"), (journal, "write_journal"), (journal, "remove_journal"), (rewrite, "write_page"),
    (rewrite, "clear_write_error"),
)  # fmt: skip


def forked(function: Callable[[], bool]) -> int:
    """Calls a function in a new process; returns 0 if it is true, -9 if it was killed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if function() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def frozen() -> None:
    sys.stdout.write("FROZEN\n")
    sys.stdout.flush()
    time.sleep(3600)


class Points:
    """Counts them, and has something happen at one of them."""

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        self.at, self.happens, self.met = at, happens, 0

    def watch(self) -> None:
        """Has every repair of this process meet its points."""
        for module, name in PLACES:
            setattr(module, name, self._wrapped(getattr(module, name)))

    def _meet(self) -> None:
        if self.met == self.at:
            self.happens()
        self.met += 1

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            self._meet()
            result = function(*arguments)
            self._meet()
            return result

        return called
