"""The runner `host`: measures cells with real fio on this machine's own devices and files, and watches the devices.

Settings are changed before a cell, and restored after it. Repeats are interleaved (all cells once, then all again), so
that a drift over time does not look like a difference between cells.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.documents import HostCellDocument
from blklab.outcome import DeviceResult, Outcome
from blklab.runners.base import Ledger, Runner
from blklab.runners.counter_deltas import CounterDeltas
from blklab.runners.fio import cell as fio_cell
from blklab.runners.fio import jobfile, process, target_preparation
from blklab.runners.fio.process import FioProgress, find_fio
from blklab.runners.host import conditions, settings, target_locations
from blklab.runners.host.conditions import MachineLoad
from blklab.runners.host.journal import HostJournal, lock, lock_path, release
from blklab.runners.host.restore import restore
from blklab.runners.host.settings import apply_settings
from blklab.runners.host.target_locations import TargetLocation, TargetLocations
from blklab.runners.load_ramp import measure_ramp
from blklab.store.series import FinishedRun, pack_output
from blklab.system import diskstats
from blklab.system.diskstats import CpuTimes
from blklab.system.environment import environment
from blklab.system.identity import of_node
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots
from blklab.units import SECTOR, format_size

if TYPE_CHECKING:
    from blklab.experiment.cells import Cell, ExperimentPlan


LONGEST_NS = 10_000_000_000
"""Counters are read at least this often, even for longer intervals: see `diskstats.difference`."""


@dataclass(eq=False)
class DiskstatsSampler:
    """A thread that reads /proc/diskstats and /proc/stat every interval, while a `with` block runs.

    Afterwards, `deltas` has the devices' activity, in times of time.monotonic_ns, and `cpu` the shares of all CPUs. The
    sums are of short intervals, so no counter can wrap unnoticed.
    """

    names: Sequence[str]  # The kernel's
    roots: Roots
    interval_ns: int = 1_000_000_000
    clock: Callable[[], int] = time.monotonic_ns
    lead_ns: int = 0  # The first part of the block, which is not counted: fio's `ramp_time`
    cpu: dict[str, float] = field(default_factory=dict, init=False)
    deltas: CounterDeltas = field(init=False)  # Nothing is read before the `with` block
    _cpu_before: CpuTimes | None = field(default=None, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> Self:
        """Reads for the first time. Raises BlklabError for a device that is not counted."""
        counters = diskstats.read(self.roots)
        self._cpu_before = diskstats.cpu(self.roots)
        self.deltas = CounterDeltas(self.names, counters, self.clock(), diskstats.long_bits())
        self._thread = threading.Thread(target=self._run, name="blklab-sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Reads for the last time; the last point covers the rest of its interval."""
        self._stop.set()
        self._thread.join()
        self._take()
        self.deltas.emit()
        try:
            if self._cpu_before is not None:
                self.cpu = self._cpu_before.shares(diskstats.cpu(self.roots))
        except BlklabError as failure:
            self.deltas.say(str(failure))

    def _run(self) -> None:
        if self.lead_ns and not self._lead():
            return
        # The due time counts from the beginning: being late once does not shift what follows.
        number = 1
        while True:
            due = self.deltas.began_ns + number * self.interval_ns
            while (remaining_ns := due - self.clock()) > 0:
                if self._stop.wait(min(remaining_ns, LONGEST_NS) / 1e9):
                    return
                if due - self.clock() > 0:
                    self._take()
            if self._stop.is_set():
                return
            self._take()
            self.deltas.emit()
            # Intervals that were slept through (a suspended machine) are one wide point.
            number = max(number + 1, (self.clock() - self.deltas.began_ns) // self.interval_ns + 1)

    def _lead(self) -> bool:
        """Waits until the lead is over and discards it; False if the block ended before."""
        due = self.deltas.began_ns + self.lead_ns
        while (remaining_ns := due - self.clock()) > 0:
            if self._stop.wait(min(remaining_ns, LONGEST_NS) / 1e9):
                return False
            self._take()
        with suppress(BlklabError):  # it is said at the end
            self._cpu_before = diskstats.cpu(self.roots)
        self.deltas.forget()
        return True

    def _take(self) -> None:
        now_ns = self.clock()
        try:
            self.deltas.take(diskstats.read(self.roots), now_ns)
        except BlklabError as error:
            self.deltas.say(str(error))


FOREIGN_SHARE = 0.2  # Bytes of other programs, as a share of the jobs' bytes, that are not reported
FOREIGN_BYTES = 4 << 20  # Bytes that are not reported: a filesystem's own, and I/Os in flight at the ends


def measure_cell(
    document: HostCellDocument,
    place: TargetLocation,
    journal: HostJournal,
    *,
    warnings: Sequence[str],
    others: Sequence[conditions.OtherPrograms],
    forced_codes: Sequence[str],
    progress: Callable[[FioProgress], object],
    execute: fio_cell.Execute,
) -> FinishedRun:
    """Measures a cell at its location; `execute` runs fio. Raises BlklabError, and leaves no setting changed.

    `others` is what other programs did on its devices before.
    """
    roots = journal.roots
    if place.prepared:  # an earlier cell has done it already
        document = {**document, "host": {**document["host"], "precondition": "none"}}
    layers = conditions.layers_of(document["target"], roots)
    counters = diskstats.read(roots)
    names = [layer.name for layer in layers if counters.get(layer.name) is not None]
    uncounted_names = [layer.name for layer in layers if layer.name not in names]
    leaves = [layer.name for layer in layers if layer.leaf]
    begin = time.monotonic()
    with apply_settings(document["settings"], layers, journal) as changes:
        place.verify()
        sampler = DiskstatsSampler(names, roots, document["interval_ns"], lead_ns=int(document["ramp_ns"]))
        loads: list[MachineLoad] = []

        def watch() -> None:
            watching.enter_context(sampler)
            loads.append(MachineLoad(roots))

        with ExitStack() as watching:
            figures = fio_cell.measure(
                document,
                place.path,
                place.work,
                may_write=place.writes,
                progress=progress,
                proc=roots.proc,
                ready=watch,
                execute=execute,
            )
        place.verify()
        place.prepared = True
    seconds = time.monotonic() - begin
    outcome = figures.outcome
    outcome.devices = _devices(layers, sampler, roots)
    outcome.watched_ns = sampler.deltas.watched_ns
    conditions.refuse_others_io(others, outcome)
    outcome.targets = []
    outcome.cpu = sampler.cpu
    outcome.settings = changes
    outcome.forced = list(forced_codes)
    ramp_warnings = _ramp(outcome) if document["ramp_ns"] else []
    collapses = [conditions.collapse(sampler.deltas.points, name) for name in leaves]
    outcome.warnings = [
        *place.warnings,
        *dict.fromkeys([*warnings, *map(str, conditions.arrays(layers))]),  # Members can fail during the run.
        *outcome.warnings,
        *(f"{name}: the kernel does not count its I/O" for name in uncounted_names),
        *ramp_warnings,
        *sampler.deltas.problems,
        *(warning for load in loads for warning in load.warnings(sampler.cpu)),
        *foreign_io(document, outcome),
        *(str(collapse) for collapse in collapses if collapse),
    ]
    return FinishedRun(outcome, seconds, [*figures.series, *sampler.deltas.points], pack_output(figures.raw))


def _devices(layers: Sequence[SysfsLayer], sampler: DiskstatsSampler, roots: Roots) -> list[DeviceResult]:
    return [
        DeviceResult(
            layer.name,
            kind=layer.kind,
            above=list(layer.above),
            leaf=layer.leaf,
            id=None if layer.node is None else of_node(layer.node, roots).id,
            **sampler.deltas.total[layer.name].counts(),
        )
        for layer in layers
        if layer.name in sampler.deltas.total
    ]


def _ramp(outcome: Outcome) -> list[str]:
    """Returns a warning if the load ended before its ramp: fio then reports I/Os, but no latencies."""
    return [
        f"all {direction}s ended within ramp_time: their rate is that of the ramp, and there is "
        "no latency; set time_based = true, or a larger size"
        for direction in ("read", "write")
        if outcome.direction(direction).total_ios and not outcome.latency(direction).count
    ]


def foreign_io(document: HostCellDocument, outcome: Outcome) -> list[str]:
    """Returns a warning if the topmost devices transferred clearly more than the jobs.

    Only direct I/O can be compared: the page cache reads ahead, and writes later.
    """
    jobs = document["jobs"]
    if not jobs or any(job["options"].get("direct", "0") in {"0", ""} for job in jobs):
        return []
    top = [device for device in outcome.devices if not device.above]
    job_bytes = outcome.read.io_bytes + outcome.write.io_bytes
    other_bytes = sum(sum(device.sectors) for device in top) * SECTOR - job_bytes
    if other_bytes <= FOREIGN_SHARE * job_bytes + FOREIGN_BYTES:
        return []
    names = ", ".join(device.name for device in top)
    return [
        f"{names}: other programs transferred {format_size(other_bytes)} during the run, and the jobs"
        f" {format_size(job_bytes)}; find the program with iotop, or set wait in [host]"
    ]


def _describe_refusal(findings: Sequence[Diagnostic]) -> str:
    """Returns why a cell is not measured, and how to measure it."""
    busy = [str(finding) for finding in findings if finding.code == "device-busy"]
    other_findings = [finding for finding in findings if finding.code != "device-busy"]
    sentences = [f"{'; '.join(busy)}. {conditions.STOP_OTHERS}"] if busy else []
    if other_findings:
        names = " ".join(f"--force {code}" for code in dict.fromkeys(finding.code for finding in other_findings))
        sentences.append(f"{'; '.join(map(str, other_findings))}; to measure despite this, add {names}")
    return " ".join(sentences)


PATIENCE = 3  # Checks, of two seconds each, until a busy device refuses a cell without `wait`


class HostRunner(Runner):
    def __init__(
        self,
        *,
        force: Collection[str],
        yes_destroy: Collection[str],
        warn: Callable[[str], object],
        execute: fio_cell.Execute = process.run,
        note: object = None,  # noqa: ARG002 - of the simulator and the lab
    ) -> None:
        """`warn` is called with messages for the user; `execute` runs fio. Raises UsageError for unknown conditions."""
        for name in force:
            if name not in conditions.NAMES:
                raise UsageError(f"--force {name!r}: expected one of {', '.join(conditions.NAMES)}")
        self._force = frozenset(force)
        self._yes_destroy = frozenset(yes_destroy)
        self._roots = Roots()
        self._warn = warn
        self._execute = execute
        self._layers: list[SysfsLayer] = []

    def check(self, plan: "ExperimentPlan") -> None:
        """Raises an error for a plan that cannot run here, and leaves no trace.

        First undoes what a killed blklab left. Checks every target, and claims each device that
        a cell writes to for a moment.
        """
        self._clean()
        documents = [cell.document for cell in plan.cells]
        if any(document["jobs"] for document in documents):
            is_timed = any(document.get("replay", {}).get("timed") for document in documents)
            find_fio(jobfile.TIMED if is_timed else process.OLDEST)
        # All at once, as when it runs: two targets may be one disk.
        with HostJournal(self._roots) as journal, ExitStack() as stack:
            places = TargetLocations(stack, journal, self._yes_destroy)
            beneath: dict[str, list[SysfsLayer]] = {}
            for document in documents:
                target = document["target"]
                if target["name"] not in beneath:
                    beneath[target["name"]] = conditions.layers_of(target, self._roots)
                layers = beneath[target["name"]]
                # So that no cell is found to be no job, or no setting, after hours of others.
                jobfile.render(document, Path("/"))
                settings.check(document["settings"], layers, self._roots)
                places.of(document, documents)
            self._layers = list(dict.fromkeys(layer for layers in beneath.values() for layer in layers))
            for warning in places.warnings():
                self._warn(warning)

    def environment(self) -> dict[str, Any]:
        """Returns what it takes to believe the results."""
        return {
            **environment(self._layers, self._roots),
            "programs": target_locations.versions(),
            "lsblk": target_locations.lsblk(),
        }

    @contextmanager
    def session(self) -> Iterator[None]:
        """Locks this host, so that two runs do not measure each other. Raises BlklabError at
        once if another blklab has the lock.
        """
        try:
            held = lock("host", self._roots)
        except (EnvironmentLacks, UsageError):
            raise
        except BlklabError:
            message = f"another blklab is measuring on this host: wait until it ends ({lock_path('host', self._roots)})"
            raise BlklabError(message) from None
        try:
            yield
        finally:
            release(held)

    def _clean(self) -> None:
        """Undoes what a killed blklab left, which would affect the measurements."""
        report = restore(self._roots)
        for message in (*report.done, *report.problems):
            self._warn(f"restored after a killed run: {message}")

    def run(self, cells: "Sequence[Cell]", ledger: Ledger) -> None:
        """Measures cells one after the other; a cell that fails is reported to the ledger and skipped.

        Raises EnvironmentLacks if something is missing that the other cells need as well.
        """
        documents = [cell.document for cell in cells]
        with HostJournal(self._roots) as journal, ExitStack() as stack:
            places = TargetLocations(stack, journal, self._yes_destroy)
            measure = partial(self._measure, documents=documents, places=places, journal=journal)
            self.measure_each(cells, ledger, measure, fatal=(EnvironmentLacks,))

    def _measure(
        self, cell: "Cell", documents: Sequence[HostCellDocument], places: TargetLocations, journal: HostJournal
    ) -> FinishedRun:
        findings = self._findings(cell)
        critical_findings = [finding for finding in findings if finding.severity == "critical"]
        if critical_findings:
            raise BlklabError(_describe_refusal(critical_findings))
        others = [finding for finding in findings if isinstance(finding, conditions.OtherPrograms)]
        place = places.of(cell.document, documents)
        return measure_ramp(
            cell.document,
            lambda document: measure_cell(
                document,
                place,
                journal,
                # The load of the CPUs is measured again during the run, and that of devices is judged after it.
                warnings=[str(finding) for finding in findings if finding.code not in conditions.BUSY],
                others=others,
                forced_codes=sorted(self._force),
                progress=lambda live: self.progress(cell, live),
                execute=self._execute,
            ),
        )

    def _findings(self, cell: "Cell") -> list[Diagnostic]:
        """Returns the conditions that would spoil a cell; waits for writeback of earlier cells."""
        target_preparation.sync()
        document = cell.document
        began = time.monotonic()
        limit = document["host"].get("wait_ns", 0) / 1e9
        tries = 0
        while True:
            findings = conditions.check(document["target"], [document], self._roots, passed_by=self._force)
            tries += 1
            elapsed = time.monotonic() - began
            codes = {finding.code for finding in findings}
            critical = {item.code for item in findings if item.severity == "critical"}
            if not codes & conditions.BUSY - self._force or critical - conditions.BUSY:
                return findings
            # A burst of others ends by itself.
            may_end = "device-busy" in codes
            if elapsed >= limit and (tries >= PATIENCE or not may_end):
                return findings
            self.progress(cell, FioProgress(elapsed, limit, phase="waiting for other programs"))
