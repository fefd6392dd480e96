"""The points of a repair at which something may happen to it: before and after each run of mdadm,
and before and after each time that something is written down.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from blklab.md.repair import journal, operations


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
        operations.run_mdadm = self._wrapped(operations.run_mdadm)
        journal.write_journal = self._wrapped(journal.write_journal)

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
