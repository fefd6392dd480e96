"""The live tuning: sets a value, lets it settle, measures, restores, and goes on with the next value.

What always holds:

- Nothing is changed before the guardian runs, and each change is in the journal first.
- During a slice, the setting is changed; before and after each slice, everything is as the user left it.
- After each interval: the guardian gets a heartbeat, the arrays are looked at, and the latency is compared with the
  limit. What is wrong ends the tuning: the setting is restored at once, and finished slices stay.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.sweep import AS_IS
from blklab.runners.base import Ledger
from blklab.runners.host import journal as journals
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.live.guardian import SILENCE_S, Guardian
from blklab.runners.host.live.plan import LivePlan
from blklab.runners.host.live.slices import SliceTimes, shuffle_values
from blklab.runners.host.live.watch import ENOUGH_IOS, LatencySource, SliceWatch
from blklab.runners.host.restore import RestoreReport, restore
from blklab.runners.host.settings import apply_settings
from blklab.store.series import FinishedRun
from blklab.system.environment import environment
from blklab.system.roots import Roots
from blklab.units import format_duration

LOOK_NS = 3 * 10**9  # A look at the load before the first change
TOO_SLOW = 2  # Successive intervals above the limit that end the tuning
WORKLOAD = "production"


def make_experiment(plan: LivePlan, times: SliceTimes) -> ExperimentPlan:
    """Returns the slices as cells of a sweep, in the order in which they are measured."""
    targets = {target.name: {"device": target.path} for target in plan.targets}
    stack = "+".join(targets)
    cells: list[Cell] = []
    for block, value in shuffle_values(plan.values, times.blocks, plan.seed):
        labels = {"stack": stack, "workload": WORKLOAD, plan.key: value, "repeat": str(block)}
        document: dict[str, Any] = {
            "target": {"name": stack, "device": plan.targets[0].path, "cache_bytes": 0},
            "command": None,
            "jobs": [],
            "runtime_ns": times.slice_ns - times.settle_ns,
            "ramp_ns": times.settle_ns,
            "interval_ns": times.interval_ns,
            "host": {"drop_caches": False, "precondition": "none", "steady": None},
            "settings": {} if value == AS_IS else {plan.key: value},
            "destroy": [],
            "seed": plan.seed,
        }
        cells.append(Cell(len(cells) + 1, labels, document, capacity=0, order=float(len(cells))))
    raw = {
        "title": f"{plan.key} under the production load of {stack}",
        "order": "random",
        "repeats": times.blocks,
        "seed": plan.seed,
        "targets": targets,
        "sweep": {plan.key: list(plan.values[1:])},
        "live": {"metric": plan.metric, "latency_limit_ns": plan.limit_ns, **vars(times)},
    }
    return ExperimentPlan(str(raw["title"]), cells, [plan.key, "repeat"], "host", Path(f"{plan.name}.toml"), raw)


@contextmanager
def claim_host(roots: Roots) -> Iterator[RestoreReport]:
    """Holds the lock of measurements on this host during the block, and first restores what a killed blklab left.

    Gives what was restored. Raises BlklabError if another blklab has the lock.
    """
    try:
        lock = journals.lock("host", roots)
    except (EnvironmentLacks, UsageError):
        raise
    except BlklabError:
        path = journals.lock_path("host", roots)
        raise BlklabError(f"another blklab is measuring or tuning on this host: wait until it ends ({path})") from None
    try:
        yield restore(roots)
    finally:
        journals.release(lock)


DISKS_IN_TIME = 10  # So many disks are changed, and restored, in a part of the time that counts as silence


def silence_factor(plan: LivePlan) -> float:
    """Returns how many times the usual time without a heartbeat is no sign of a process that hangs."""
    return max(1.0, len(plan.files) / DISKS_IN_TIME)


@dataclass
class LiveTuner:
    """Carries out a plan."""

    plan: LivePlan
    times: SliceTimes
    roots: Roots
    trace: LatencySource | None = None
    tell: Callable[[str], object] = str  # Called with the present state, after each interval
    silence_s: float = SILENCE_S  # Without a heartbeat for so long, the guardian acts
    look_ns: int = LOOK_NS
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], int] = time.monotonic_ns
    ended: BlklabError | None = None  # Why it ended before its time
    unrestored: set[str] = field(default_factory=set)  # Devices whose values could not be restored
    _exceeded: int = field(default=0, init=False)
    _finished: int = field(default=0, init=False)

    def environment(self) -> dict[str, Any]:
        """Returns what is needed to judge the results."""
        return environment(self.plan.layers, self.roots)

    def look(self) -> str:
        """Looks at the load for a moment, and describes it. A trace that does not show the load is not used.

        Raises BlklabError if there is no load, or if its latency is above the limit already; EnvironmentLacks if the
        kernel does not measure latencies of the device.
        """
        watch = self._watch()
        self.sleep(self.look_ns / 1e9)
        latency_ns = watch.take()
        load = watch.activity
        names = ", ".join(target.path for target in self.plan.targets)
        if load is None or not sum(load.ios) or latency_ns is None:
            raise BlklabError(f"{names}: idle: no I/O in {format_duration(self.look_ns)}: tune while the load runs")
        rate = sum(load.ios) / (self.look_ns / 1e9)
        text = f"{rate:,.0f} I/Os a second"
        if self.trace is not None and not watch.has_traced:
            self.trace = None
            text = f"the trace does not show the I/O, so the mean latency is compared with the limit; {text}"
        if sum(load.ios) >= ENOUGH_IOS and not sum(load.ticks_ns):
            raise EnvironmentLacks(
                f"{names}: this kernel does not measure how long its I/Os take",
                "use Linux 5.14, or name the member disks",
            )
        latency = format_duration(latency_ns)
        if latency_ns > self.plan.limit_ns:
            raise BlklabError(
                f"{names}: the {self._latency_kind} is {latency} now, above --p99-below "
                f"{format_duration(self.plan.limit_ns)}: name a higher limit, or wait for less load"
            )
        return f"{text}, {self._latency_kind} {latency}"

    @property
    def _latency_kind(self) -> str:
        return "mean latency" if self.trace is None else "99th percentile of the latency"

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Measures the slices. `ended` says why it stopped before its time, if a slice was finished.

        Otherwise raises BlklabError. An interrupt restores the setting and is raised on.
        """
        journal = HostJournal(self.roots)
        try:
            self._measure_slices(cells, ledger, journal)
        except BlklabError as error:
            if not journal.list_changed_owners():
                error.details = (*error.details, "no setting stays changed")
            if not self._finished:
                raise
            # The request was valid: a value that the kernel refuses later ends the tuning early, as anything else.
            self.ended = BlklabError(str(error), *error.details) if isinstance(error, UsageError) else error
        finally:
            self.unrestored = journal.list_changed_owners()

    def _measure_slices(self, cells: Sequence[Cell], ledger: Ledger, journal: HostJournal) -> None:
        silence_s = self.silence_s * silence_factor(self.plan)
        with journal, Guardian(journal, silence_s) as guardian:
            for cell in cells:
                if ledger.begin(cell):
                    result = self._measure_slice(cell, journal, guardian)
                    ledger.end(cell, result)
                    self._finished += 1

    def _measure_slice(self, cell: Cell, journal: HostJournal, guardian: Guardian) -> FinishedRun:
        """Returns the figures of one slice. Raises BlklabError, and leaves no setting changed."""
        self._check_devices()
        guardian.beat()
        self._exceeded = 0
        value = cell.labels[self.plan.key]
        times = self.times
        self._check_values(AS_IS)
        with apply_settings(cell.document["settings"], self.plan.changed_layers, journal) as changes:
            watch = self._watch()
            self._watch_for(times.settle_ns, watch, cell, guardian)
            watch.forget()
            self._watch_for(times.slice_ns - times.settle_ns, watch, cell, guardian)
            outcome = watch.make_outcome()
            self._check_values(value)
        guardian.beat()
        if not outcome.read.total_ios + outcome.write.total_ios:
            raise BlklabError("no I/O in a whole slice: the load has ended, or the kernel does not count it any more")
        outcome.settings = changes
        if value != AS_IS and not changes:
            raise BlklabError(f"{self.plan.key}: was {value} already: another program changed it meanwhile")
        return FinishedRun(outcome, times.slice_ns / 1e9, watch.make_points())

    def _watch(self) -> SliceWatch:
        names = [target.name for target in self.plan.targets]
        guarded = list(dict.fromkeys(disk.name for disk in self.plan.disks))
        return SliceWatch(names, self.plan.layers, self.roots, self.trace, self.clock, guarded)

    def _watch_for(self, length_ns: int, watch: SliceWatch, cell: Cell, guardian: Guardian) -> None:
        """Watches for a part of a slice, in intervals of nearly equal length."""
        intervals = max(1, round(length_ns / self.times.interval_ns))
        began_ns = self.clock()
        for number in range(1, intervals + 1):
            due_ns = began_ns + length_ns * number // intervals
            self.sleep(max(0, due_ns - self.clock()) / 1e9)
            latency_ns = watch.take()
            guardian.beat()
            self._check_devices()
            self._check_latency(latency_ns, cell)
            self._tell_state(cell, latency_ns)

    def _tell_state(self, cell: Cell, latency_ns: float | None) -> None:
        slices = self.times.blocks * len(self.plan.values)
        left_ns = (slices - cell.number + 1) * self.times.slice_ns
        latency_text = "no I/O" if latency_ns is None else f"latency {format_duration(latency_ns)}"
        value = cell.labels[self.plan.key]
        self.tell(
            f"slice {cell.number} of {slices}: {self.plan.key} {value}, {latency_text}; "
            f"about {format_duration(left_ns)} left"
        )

    def _check_devices(self) -> None:
        """Raises BlklabError if a disk is another one now, or an array is not complete and idle."""
        problem = self.plan.find_other_disk(self.roots) or self.plan.find_array_problem(self.roots)
        if problem:
            raise BlklabError(problem)

    def _check_values(self, value: str) -> None:
        """Raises BlklabError if the setting does not have this value."""
        problem = self.plan.find_foreign_change(value)
        if problem:
            raise BlklabError(problem)

    def _check_latency(self, latency_ns: float | None, cell: Cell) -> None:
        """Raises BlklabError if the latency of two successive intervals is above the limit."""
        if latency_ns is None or latency_ns <= self.plan.limit_ns:
            self._exceeded = 0
            return
        self._exceeded += 1
        if self._exceeded < TOO_SLOW:
            return
        value = cell.labels[self.plan.key]
        what = f"the present {self.plan.key}" if value == AS_IS else f"{self.plan.key} {value}"
        raise BlklabError(
            f"with {what}, the latency was {format_duration(latency_ns)}, above --p99-below "
            f"{format_duration(self.plan.limit_ns)}, in {TOO_SLOW} successive intervals"
        )
