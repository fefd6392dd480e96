"""Computes many items at once: in threads of this process, or on the workers of a Dask cluster."""

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from blklab import _core
from blklab.cluster.dask_cluster import DaskCluster, connected
from blklab.errors import BlklabError

__all__ = ["HERE", "DaskCluster", "Parallel", "connected"]

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Task(Protocol[Item_contra, Result_co]):
    """A function of a module, which workers can import; `stop` ends it early in threads."""

    def __call__(self, item: Item_contra, /, *, stop: _core.Stop | None = None) -> Result_co:
        """Returns the result of an item. Raises BlklabError."""


@contextmanager
def stopping() -> Iterator[_core.Stop]:
    """Stops the tasks when the block is left early, as by Ctrl-C.

    Their thread pool is the outer block: leaving it waits for them.
    """
    stop = _core.Stop()
    try:
        yield stop
    except BaseException:
        stop.set()
        raise


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Calls the handlers of SIGINT, SIGTERM and SIGHUP after the block.

    A handler that raises within `Thread.start` leaves a lock taken, and blklab waits for ever. It is not enough to
    block the signals in this thread: the kernel then gives them to another one, and Python calls the handler here.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # Python calls them in the main thread only
    came: list[signal.Signals] = []
    try:
        for number in handlers:
            signal.signal(number, lambda number, _frame: came.append(signal.Signals(number)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            handlers[number](number, None)


@dataclass(frozen=True)
class Parallel:
    """How to compute many items: `jobs` threads (None: one for each CPU), or a cluster."""

    jobs: int | None = None
    cluster: "DaskCluster | None" = None

    def each(self, task: Task[Item, Result], items: Iterable[Item]) -> Iterator[tuple[int, Result | BlklabError]]:
        """Yields the number of each item with its result or its error, in the order in which they arrive.

        Items are taken when there is a place for them. Leaving the iterator early cancels what has not started.
        """
        if self.cluster is not None:
            yield from self.cluster.map(task, items)
            return
        yield from _in_threads(task, items, self.jobs or len(os.sched_getaffinity(0)))

    def all(self, task: Task[Item, Result], items: Iterable[Item]) -> list[Result]:
        """Returns the results in the order of the items. Raises the first error that arrives."""
        results: dict[int, Result] = {}
        for number, result in self.each(task, items):
            if isinstance(result, BlklabError):
                raise result
            results[number] = result
        return [results[number] for number in sorted(results)]


HERE = Parallel()
"""One thread for each CPU of this machine."""


def _in_threads(
    task: Task[Item, Result], items: Iterable[Item], jobs: int
) -> Iterator[tuple[int, Result | BlklabError]]:
    waiting = enumerate(items)
    with ThreadPoolExecutor(jobs) as pool, stopping() as stop:
        running: dict[Future[Result], int] = {}

        def start(count: int) -> None:
            for _, (number, item) in zip(range(count), waiting, strict=False):
                with signals_held_back():
                    running[pool.submit(partial(task, stop=stop), item)] = number

        start(jobs)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                number = running.pop(future)
                error = future.exception()
                if error is not None and not isinstance(error, BlklabError):
                    raise error
                start(1)
                yield number, future.result() if error is None else error
