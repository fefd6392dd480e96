"""The simulator as a runner: many cells at a time, each in a thread that Python does not hold."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from blklab import _core
from blklab.errors import BlklabError, UsageError
from blklab.runners.result import Result
from blklab.spec.cells import Cell
from blklab.spec.replays import Source


def cores() -> int:
    """Returns how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def stopping() -> Iterator[_core.Stop]:
    """Ends the simulations of a block when it is left early, as by Ctrl-C.

    The pool that they run in is the outer block: leaving it waits for them.
    """
    stop = _core.Stop()
    try:
        yield stop
    except BaseException:
        stop.set()
        raise


def outcome(
    document: Mapping[str, Any],
    stop: _core.Stop | None = None,
    replay: Source | None = None,
) -> dict[str, Any]:
    """Simulates one cell's document, with the trace that it replays, and returns the figures.

    Raises UsageError for a cell that makes no sense.
    """
    trace = None if replay is None else ([replay.path], replay.format, replay.device)
    measured: dict[str, Any] = json.loads(_core.simulate(json.dumps(document), stop, trace))
    return measured


def outcomes(
    documents: Sequence[Mapping[str, Any]], jobs: int | None = None
) -> list[dict[str, Any]]:
    """Simulates several documents, `jobs` at a time, as many as there are CPUs unless given.

    The results do not depend on how many.
    """
    with ThreadPoolExecutor(jobs or cores()) as pool, stopping() as stop:
        return list(pool.map(lambda document: outcome(document, stop), documents))


def check(cells: Sequence[Cell]) -> None:
    """Builds every cell without simulating it. Raises UsageError for one that cannot work."""
    for cell in cells:
        try:
            _core.check_cell(json.dumps(cell.document))
        except UsageError as error:
            raise UsageError(f"{_name(cell)}: {error}") from error


def _name(cell: Cell) -> str:
    label = " ".join(f"{key}={value}" for key, value in cell.labels.items())
    return f"cell {cell.number} ({label})"


def run(
    cells: Sequence[Cell], *, jobs: int | None = None, done: Callable[[Result], None] | None = None
) -> list[Result]:
    """Simulates cells, `jobs` at a time, and returns their results in the same order.

    As many run at a time as there are CPUs, unless `jobs` says otherwise. `done` is called with
    each result, in that order, as soon as it is there. Raises BlklabError for a cell that failed,
    and says which.
    """
    results = []
    with ThreadPoolExecutor(jobs or cores()) as pool, stopping() as stop:
        for result in pool.map(lambda cell: _result(cell, stop), cells):
            results.append(result)
            if done is not None:
                done(result)
    return results


def _result(cell: Cell, stop: _core.Stop) -> Result:
    begin = time.perf_counter()
    try:
        measured = outcome(cell.document, stop, cell.replay)
    except UsageError as error:  # nobody mistyped it: the experiment was checked before
        raise BlklabError(f"{_name(cell)}: {error}") from error
    return Result(cell.number, cell.labels, "sim", measured, time.perf_counter() - begin)
