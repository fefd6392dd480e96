"""The points of a repair at which it may be ended: before and after each run of mdadm, and before
and after each time that something is written down.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from blklab.md.repair import journal, mdadm


class Points:
    """Counts them, and at one of them is killed, or stands still (`FROZEN` on stdout)."""

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at, self.met = how, at, 0

    def watch(self) -> None:
        """Has every repair of this process meet its points."""
        mdadm.run = self._around(mdadm.run, "mdadm")
        journal.write = self._around(journal.write, "journal")

    def _meet(self, what: str) -> None:
        if self.met == self.at:
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.stdout.write(f"FROZEN {self.met} {what}\n")
            sys.stdout.flush()
            time.sleep(3600)
        self.met += 1

    def _around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            self._meet(f"before {name}")
            result = function(*arguments)
            self._meet(f"after {name}")
            return result

        return called
