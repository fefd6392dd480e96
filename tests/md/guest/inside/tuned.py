"""`blklab tune --live` without a store, and what becomes of it: tuned MODE ARRAY, under a load that is there.

`tune` prints a line of JSON for each slice, then why it ended early. The other modes start `tune` in a process, wait
until a value is changed, and print the read-ahead before, meanwhile and afterwards, and how many journals are left:
`kill` kills the process, `stop` stops it, `fail` makes a member faulty.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from blklab.experiment.cells import Cell
from blklab.md.repair import write_suspension
from blklab.runners.host.live import guardian
from blklab.runners.host.live.plan import LiveRequest, make_plan
from blklab.runners.host.live.slices import SliceTimes
from blklab.runners.host.live.tuner import LiveTuner, make_experiment
from blklab.store.series import FinishedRun
from blklab.system.roots import Roots
from blklab.trace.record.live_latency import record_latencies

SECOND = 10**9
SILENCE_S = {"tune": 300.0, "kill": 300.0, "fail": 300.0, "stop": 20.0}
PATIENCE_S = 200.0


class PrintingLedger:
    """Prints results."""

    def begin(self, cell: Cell) -> bool:
        return cell.number > 0

    def end(self, cell: Cell, finished_run: FinishedRun) -> None:
        outcome = finished_run.outcome
        latency = outcome.read.clat_ns
        labels = cell.labels["read_ahead_kb"]
        write_line([labels, outcome.read.total_ios, latency.mean, latency.p99, len(outcome.settings or ())])

    def fail(self, cell: Cell, message: str) -> None:
        sys.exit(f"{cell.name}: {message}")


def write_line(values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def tune(array: str, silence_s: float) -> None:
    guardian.PYTHON = write_suspension.PYTHON
    roots = Roots()
    plan = make_plan(LiveRequest("read_ahead_kb", ["512", "1024"], [array], 100 * SECOND, seed=1), roots)
    times = SliceTimes(6 * SECOND, 2 * SECOND, SECOND, blocks=2)
    tuner = LiveTuner(plan, times, roots, silence_s=silence_s)
    with record_latencies(plan.targets, times.interval_ns, roots) as trace:
        tuner.trace = trace
        sys.stderr.write(f"{tuner.look()}\n")
        tuner.run(make_experiment(plan, times).cells, PrintingLedger())
    write_line(None if tuner.ended is None else str(tuner.ended))


def wait(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_true() and time.monotonic() < until:
        time.sleep(0.05)


def disturb(mode: str, array: str) -> None:
    queue = Path("/sys/block") / Path(array).name / "queue/read_ahead_kb"
    md = queue.parents[1] / "md"
    before = queue.read_text().strip()
    command = [*write_suspension.PYTHON, "-c", LAUNCH, " ".join(write_suspension.PYTHON), mode, array]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait(lambda: queue.read_text().strip() != before or process.poll() is not None)
        meanwhile = queue.read_text().strip()
        if mode == "fail":
            next(md.glob("dev-*/state")).write_text("faulty")
        else:
            os.kill(process.pid, signal.SIGKILL if mode == "kill" else signal.SIGSTOP)
        wait(lambda: process.poll() is not None)
        wait(lambda: queue.read_text().strip() == before and not list_journals())
        write_line([before, meanwhile, queue.read_text().strip(), list_journals(), process.poll()])
        process.kill()


def list_journals() -> list[str]:
    return [path.name for path in Roots().state.glob("journal-*")]


LAUNCH = """
import sys
sys.path.insert(0, "/run/python/packages")
from blklab.md.repair import write_suspension
write_suspension.PYTHON = tuple(sys.argv[1].split())
from inside import tuned
tuned.tune(sys.argv[3], tuned.SILENCE_S[sys.argv[2]])
"""

if __name__ == "__main__":
    if sys.argv[1] == "tune":
        tune(sys.argv[2], SILENCE_S["tune"])
    else:
        disturb(sys.argv[1], sys.argv[2])
