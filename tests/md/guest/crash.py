"""In the guest: a repair that is ended, or stands still, at the n-th point of what it does.

    crash.py how n array       how: kill, freeze, count

A point is before and after each run of mdadm, and before and after each time that something is
written down.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from blklab.cli import main
from blklab.md.repair import journal, mdadm


class Points:
    """Counts points, and ends at one."""

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at, self.met = how, at, 0

    def meet(self, what: str) -> None:
        if self.met == self.at:
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            print(f"FROZEN {self.met} {what}", flush=True)
            time.sleep(3600)
        self.met += 1

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            self.meet(f"before {name}")
            result = function(*arguments)
            self.meet(f"after {name}")
            return result

        return called


if __name__ == "__main__":
    how, at, array = sys.argv[1:]
    points = Points(how, int(at))
    mdadm.run = points.around(mdadm.run, "mdadm")
    journal.write = points.around(journal.write, "journal")
    try:
        main(["md", "fix", "bbl", array, "--yes"])
    finally:
        print(f"POINTS {points.met}")
