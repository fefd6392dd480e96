"""A tuning process of its own: `python -m tests.runners.host.live.tuned MACHINE KEY VALUES SLICE_MS SILENCE_S`.

It prints a line for each interval, and `ended: REASON` at the end.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from blklab.cli.signals import handle_signals
from blklab.experiment.cells import Cell
from blklab.runners.host.live.plan import LiveRequest, make_plan
from blklab.runners.host.live.slices import SliceTimes
from blklab.runners.host.live.tuner import LiveTuner, make_experiment
from blklab.store.series import FinishedRun
from blklab.system.roots import Roots

MS = 10**6


class MemoryLedger:
    """Keeps results in memory."""

    def __init__(self, on_end: Callable[[], object] = lambda: None) -> None:
        self.results: list[tuple[Cell, FinishedRun]] = []
        self.on_end = on_end

    def begin(self, cell: Cell) -> bool:
        return cell.number > 0

    def end(self, cell: Cell, finished_run: FinishedRun) -> None:
        self.results.append((cell, finished_run))
        self.on_end()

    def fail(self, cell: Cell, message: str) -> None:
        raise AssertionError(f"{cell.name}: {message}")


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    root = Path(sys.argv[1])
    roots = Roots(proc=root / "proc", sys=root / "sys", dev=root / "dev", state=root / "state")
    (roots.proc / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    plan = make_plan(LiveRequest(sys.argv[2], sys.argv[3].split(","), ["md0"], 10**9, seed=1), roots)
    slice_ns = int(sys.argv[4]) * MS
    times = SliceTimes(slice_ns, slice_ns // 5, 20 * MS, blocks=1000)
    tuner = LiveTuner(plan, times, roots, silence_s=float(sys.argv[5]))
    tuner.tell = tell
    with handle_signals():
        tuner.run(make_experiment(plan, times).cells, MemoryLedger())
    tell(f"ended: {tuner.ended}")


if __name__ == "__main__":
    main()
