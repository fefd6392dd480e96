"""The simulator as a runner: many cells at a time, each in a thread without Python's lock."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from blklab import _core
from blklab.errors import BlklabError, UsageError
from blklab.outcome import Outcome
from blklab.runners.base import Ledger, Runner
from blklab.runners.load_ramp import measure_ramp, without_ramp
from blklab.runners.sim.uncertainty import interval
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.spec.replays import ReplaySource
from blklab.store import series
from blklab.store.finished_run import FinishedRun


def cores() -> int:
    """Returns how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def stopping() -> Iterator[_core.Stop]:
    """Stops the simulations when the block is left early, as by Ctrl-C.

    Their thread pool is the outer block: leaving it waits for them.
    """
    stop = _core.Stop()
    try:
        yield stop
    except BaseException:
        stop.set()
        raise


def outcome(document: Mapping[str, Any], stop: _core.Stop | None = None, replay: ReplaySource | None = None) -> Outcome:
    """Simulates one cell's document, with the trace that it replays, and returns the figures.

    Raises UsageError for an invalid cell.
    """
    trace = None if replay is None else ([replay.path], replay.format, replay.device)
    measured: Outcome = json.loads(_core.simulate(json.dumps(document), stop, trace))
    return measured


def outcomes(documents: Sequence[Mapping[str, Any]], jobs: int | None = None) -> list[Outcome]:
    """Simulates several documents, `jobs` at a time; by default as many as there are CPUs.

    The results do not depend on `jobs`.
    """
    with ThreadPoolExecutor(jobs or cores()) as pool, stopping() as stop:
        return list(pool.map(lambda document: outcome(document, stop), documents))


def check(cells: Sequence[Cell]) -> None:
    """Builds every cell without simulating it. Raises UsageError for one that cannot work."""
    for cell in cells:
        try:
            _core.check_cell(json.dumps(without_ramp(cell.document)))
        except UsageError as error:
            raise UsageError(f"{cell.name}: {error}") from error


class SimRunner(Runner):
    """The runner `sim`. Simulations do not disturb each other."""

    def __init__(self, jobs: int | None = None) -> None:
        """Simulates `jobs` cells at a time; by default as many as there are CPUs."""
        self._jobs = jobs or cores()

    def check(self, plan: ExperimentPlan) -> None:
        """Raises UsageError for a cell that cannot work."""
        check(plan.cells)

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Simulates cells. Raises BlklabError for one that failed, naming it."""
        with ThreadPoolExecutor(self._jobs) as pool, stopping() as stop:
            measured = pool.map(lambda cell: _measured(cell, ledger, stop), cells)
            for cell, finished in zip(cells, measured, strict=True):
                if finished is not None:
                    ledger.end(cell, finished)


def make(*, jobs: int | None, **_tell: Callable[[str], object]) -> SimRunner:
    """Makes the runner for `blklab run`."""
    return SimRunner(jobs)


def _measured(cell: Cell, ledger: Ledger, stop: _core.Stop) -> FinishedRun | None:
    if not ledger.begin(cell):
        return None
    begin = time.perf_counter()

    def simulate(document: Mapping[str, object]) -> FinishedRun:
        measured = outcome(document, stop, cell.replay)
        return FinishedRun(measured, 0.0, series.of_outcome(measured.pop("series")))

    try:
        finished = measure_ramp(cell.document, simulate)
    except UsageError as error:  # not a typing error: the experiment was checked before
        ledger.fail(cell, str(error))
        raise BlklabError(f"{cell.name}: {error}") from error
    predicted: Outcome = {**finished.outcome, "interval": interval(cell, finished.outcome)}
    return replace(finished, outcome=predicted, seconds=time.perf_counter() - begin)
