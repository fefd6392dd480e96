"""The runner `host`: measures cells with real fio on this machine's own devices and files.

Repeats are interleaved (all cells once, then all again), so that a drift over time does not look
like a difference between cells.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.base import Ledger, Runner
from blklab.runners.fio import cell as fio_cell
from blklab.runners.fio import jobfile, process, target_preparation
from blklab.runners.fio.process import FioProgress, find_fio
from blklab.runners.host import conditions, settings, system_programs
from blklab.runners.host.journal import HostJournal, lock, lock_path, release
from blklab.runners.host.machine_load import CODE
from blklab.runners.host.observed_cell import measured
from blklab.runners.host.restore import restore
from blklab.runners.host.target_locations import TargetLocations
from blklab.runners.load_ramp import measure_ramp
from blklab.spec.documents import HostCellDocument, as_host
from blklab.store.series import FinishedRun
from blklab.system.environment import environment
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from blklab.spec.cells import Cell, ExperimentPlan

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
        documents = [as_host(cell.document) for cell in plan.cells]
        if any(document["jobs"] for document in documents):
            timed = any(document.get("replay", {}).get("timed") for document in documents)
            find_fio(jobfile.TIMED if timed else process.OLDEST)
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
            every = (layer for layers in beneath.values() for layer in layers)
            self._layers = list(dict.fromkeys(every))
            for warning in places.warnings():
                self._warn(warning)

    def environment(self) -> dict[str, Any]:
        """Returns what it takes to believe the results."""
        return {
            **environment(self._layers, self._roots),
            "programs": system_programs.versions(),
            "lsblk": system_programs.lsblk(),
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
        left = restore(self._roots)
        for message in (*left.done, *left.problems):
            self._warn(f"restored after a killed run: {message}")

    def run(self, cells: "Sequence[Cell]", ledger: Ledger) -> None:
        """Measures cells one after the other; a cell that fails is reported to the ledger and skipped.

        Raises EnvironmentLacks if something is missing that the other cells need as well.
        """
        documents = [as_host(cell.document) for cell in cells]
        with HostJournal(self._roots) as journal, ExitStack() as stack:
            places = TargetLocations(stack, journal, self._yes_destroy)
            measure = partial(self._measured, documents=documents, places=places, journal=journal)
            self.measure_each(cells, ledger, measure, fatal=(EnvironmentLacks,))

    def _measured(
        self, cell: "Cell", documents: Sequence[HostCellDocument], places: TargetLocations, journal: HostJournal
    ) -> FinishedRun:
        findings = self._findings(cell)
        refused = [finding for finding in findings if finding.severity == "critical"]
        if refused:
            names = " ".join(f"--force {name}" for name in dict.fromkeys(o.code for o in refused))
            raise BlklabError(f"{'; '.join(map(str, refused))}; to measure despite this, add {names}")
        place = places.of(as_host(cell.document), documents)
        return measure_ramp(
            as_host(cell.document),
            lambda document: measured(
                document,
                place,
                journal,
                # The load of the CPUs is measured again during the run.
                warnings=[str(finding) for finding in findings if finding.code != CODE],
                forced=sorted(self._force),
                progress=lambda live: self.progress(cell, live),
                execute=self._execute,
            ),
        )

    def _findings(self, cell: "Cell") -> list[Diagnostic]:
        """Returns the conditions that would spoil a cell; waits for writeback of earlier cells."""
        target_preparation.sync()
        document = as_host(cell.document)
        began = time.monotonic()
        limit = document["host"].get("wait_ns", 0) / 1e9
        tries = 0
        while True:
            findings = conditions.check(document["target"], [document], self._roots, passed_by=self._force)
            tries += 1
            waited = time.monotonic() - began
            codes = {finding.code for finding in findings}
            critical = {item.code for item in findings if item.severity == "critical"}
            if not codes & conditions.BUSY - self._force or critical - conditions.BUSY:
                return findings
            if waited >= limit and (tries >= PATIENCE or not critical):
                return findings
            self.progress(cell, FioProgress(waited, limit, phase="waiting for other programs"))
