"""Computes many items at once: in threads of this process, or on the workers of a Dask cluster.

Tasks go to Dask's scheduler a few at a time, short items together in one, and results return as they arrive. The
scheduler computes the tasks of a dead worker again on another one. Nothing is written on workers.
"""

import logging
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from blklab import __version__, _core
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.system.child_process import signals_held_back

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as DaskFuture


Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

CONNECT_S = 10.0  # Time for the scheduler to answer
WAITING_EACH = 2  # Tasks at the scheduler for each thread of a worker: one runs, one is ready
FEWEST_WAITING = 8  # Tasks at the scheduler in any case, so that clusters that grow on demand see a demand
TASK_S = 0.5  # Time of a task: short items are sent together
MOST_EACH = 64  # Items of a task
COUNT_S = 5.0  # Time after which the threads of the workers are counted again
RELEASE_S = 5.0  # Time for the scheduler to say goodbye


@dataclass(frozen=True)
class _Failure:
    """A BlklabError of a worker: exceptions with several arguments cannot be sent."""

    message: str
    exit_code: int
    fatal: bool = False  # Whether every other item would fail too


class DaskCluster:
    """A connection to a scheduler."""

    def __init__(self, client: "Client", address: str, tell: Callable[[str], object]) -> None:
        self._client = client
        self._address = address
        self._tell = tell
        self._counted = -COUNT_S
        self._threads = 0

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[int, Result | BlklabError]]:
        """Yields the number of each item with its result or its error, in the order in which they arrive.

        `function` is one of a module that workers can import; its BlklabErrors are yielded, with the worker's address.
        So are items whose workers died too often. Leaving the iterator early cancels what has not started. Raises
        EnvironmentLacks if the scheduler is gone, or a worker has another version.
        """
        from distributed import as_completed

        waiting = enumerate(items)
        tasks: dict[DaskFuture, list[tuple[int, Item]]] = {}
        # Items that become a task each, because the others of their task took too long, or killed workers
        single_parts: list[list[tuple[int, Item]]] = []
        arriving = as_completed([], loop=self._client.loop)
        items_per_task = 1  # Items of a task
        try:
            while True:
                room = max(FEWEST_WAITING, WAITING_EACH * self._count()) - len(tasks)
                for _ in range(room):
                    if part := single_parts.pop() if single_parts else list(islice(waiting, items_per_task)):
                        future = self._submit(function, [item for _, item in part])
                        tasks[future] = part
                        arriving.add(future)
                if not tasks:
                    return
                batch = arriving.next_batch()
                results = self._gather([future for future in batch if future.status == "finished"])
                for future in batch:
                    part = tasks.pop(future)
                    has_died = len(part) > 1 and future.status == "error"
                    seconds, outcomes = (TASK_S, []) if has_died else self._results(future, results)
                    single_parts.extend([entry] for entry in part[len(outcomes) :])
                    items_per_task = max(1, min(MOST_EACH, int(TASK_S * len(outcomes) / max(seconds, 1e-6))))
                    yield from ((number, result) for (number, _), result in zip(part, outcomes, strict=False))
        finally:
            if tasks:
                with suppress(Exception):  # the scheduler may be gone
                    self._client.cancel(list(tasks), force=True)

    def _submit(self, function: Callable[[Item], Result], items: list[Item]) -> "DaskFuture":
        if self._client.status != "running":
            raise self._scheduler_error()
        return self._client.submit(_compute_items, __version__, function, items, pure=False)

    def _gather(self, futures: "list[DaskFuture]") -> "dict[DaskFuture, Any]":
        """Fetches results, all in one request."""
        try:
            return dict(zip(futures, self._client.gather(futures), strict=True))
        except Exception as error:
            # The client notices a lost connection (OSError) later than its requests do.
            if self._client.status == "running" and not isinstance(error, OSError):
                raise
            raise self._scheduler_error() from None

    def _results(self, future: "DaskFuture", results: "dict[DaskFuture, Any]") -> tuple[float, list[Any]]:
        """Returns the seconds that a task took, and the result or error of each item that it computed."""
        from distributed.scheduler import KilledWorker

        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            return TASK_S, [
                BlklabError(
                    f"workers died {error.allowed_failures + 1} times while they computed this, "
                    f"the last one was {error.last_worker.address}: see its log; it may need more memory"
                )
            ]
        if isinstance(error, ImportError):
            raise _lacking(self._address, str(error))
        if error is not None:
            raise error
        if future not in results:
            raise self._scheduler_error()
        seconds, outcomes = results[future]
        return seconds, [_error_of(result) if isinstance(result, _Failure) else result for result in outcomes]

    def _scheduler_error(self) -> EnvironmentLacks:
        return EnvironmentLacks(
            f"{self._address}: the scheduler is gone",
            "start it again; what is stored stays, and --resume continues where the command has it",
        )

    def _count(self) -> int:
        """Returns the threads of all workers; asks the scheduler only now and then."""
        if time.monotonic() - self._counted >= COUNT_S:
            try:
                threads = sum(self._client.nthreads().values())
            except Exception:  # of Dask or tornado, if the scheduler is gone
                raise self._scheduler_error() from None
            if not threads and not self._threads:
                self._tell(f"{self._address}: no worker yet; waiting for one (`dask worker {self._address}`)")
            self._threads = threads
            self._counted = time.monotonic()
        return self._threads


def _error_of(failure: _Failure) -> BlklabError:
    """Returns the error of a worker; raises it if every other item would fail too."""
    error = BlklabError(failure.message)
    error.exit_code = failure.exit_code
    if failure.fatal:
        raise error
    return error


def _compute_items(
    version: str, function: Callable[[Item], Result], items: list[Item]
) -> "tuple[float, list[Result | _Failure]]":
    """Runs on a worker. Returns the seconds that it took, and the results of the items for which there was time."""
    from distributed import get_worker

    address = get_worker().address
    if version != __version__:
        other = str(_other_version(address, __version__, version))
        return 0.0, [_Failure(other, EnvironmentLacks.exit_code, fatal=True)]
    begun = time.perf_counter()
    results: list[Result | _Failure] = []
    for item in items:
        if results and time.perf_counter() - begun > TASK_S:
            break  # the others are for any worker
        try:
            results.append(function(item))
        except BlklabError as error:
            results.append(_Failure(f"worker {address}: {error}", error.exit_code))
    return time.perf_counter() - begun, results


def _other_version(address: str, theirs: str, ours: str) -> EnvironmentLacks:
    message = f"worker {address}: has blklab {theirs}, expected {ours} as here"
    return EnvironmentLacks(message, "install the same version on all workers")


def _lacking(address: str, reason: str) -> EnvironmentLacks:
    message = f"{address}: a worker cannot import blklab ({reason})"
    return EnvironmentLacks(message, "install the same version of blklab on all workers")


@contextmanager
def connect_cluster(address: str, tell: Callable[[str], object] = lambda _line: None) -> Iterator[DaskCluster]:
    """Connects to the scheduler at `address`, or starts workers here for `local` or `local:N`.

    Raises UsageError for an invalid address, EnvironmentLacks without Dask, without a scheduler, or if a worker has
    another version of blklab. `tell` gets lines about waiting.
    """
    local = re.fullmatch(r"local(?::([1-9]\d{0,3}))?", address, re.A)
    if not local and not re.fullmatch(r"(?!local:)(?:(?:tcp|tls)://)?[^\s/]+:\d+", address, re.A):
        raise UsageError(f"--cluster {address!r}: expected HOST:PORT of a Dask scheduler, tls://HOST:PORT, or local:N")
    import distributed

    _quiet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other versions of libraries, a busy port of the dashboard
        if local:
            with _local(int(local[1]) if local[1] else None) as workers:
                yield from _with_client(distributed, workers, address, tell)
        else:
            yield from _with_client(distributed, address, address, tell)


def _quiet() -> None:
    """Stops the library's messages, which would mix with ours."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in {"distributed", "tornado", "asyncio"}:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _local(count: int | None) -> "Iterator[Any]":
    """Starts workers on this machine, one for each CPU by default."""
    from multiprocessing import resource_tracker

    from distributed import LocalCluster
    from distributed.gc import disable_gc_diagnosis

    # Ctrl-C and SIGHUP reach all processes of the terminal: only this one acts on them, when its workers have started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    resource_tracker.ensure_running()  # Python unblocks SIGINT here (multiprocessing/resource_tracker.py)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        workers = LocalCluster(
            n_workers=count or len(os.sched_getaffinity(0)),
            threads_per_worker=1,
            memory_limit=0,  # A worker may use all memory, as one process may
            dashboard_address=None,
            silence_logs=logging.CRITICAL + 1,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    disable_gc_diagnosis()  # an exception of a signal in its callback would be lost, and printed
    with workers:
        yield workers


def _with_client(
    distributed: Any, scheduler: Any, address: str, tell: Callable[[str], object]
) -> Iterator[DaskCluster]:
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_S:g}s"}):
        try:
            client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
        except TypeError:  # of `tls://` without certificates
            raise EnvironmentLacks(
                f"{address}: needs certificates", "set distributed.comm.tls in Dask's configuration"
            ) from None
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no answer"
            raise EnvironmentLacks(
                f"{address}: cannot reach a Dask scheduler ({reason})", "start one with `dask scheduler`"
            ) from None
        try:
            _check_versions(client, address)
            yield DaskCluster(client, address, tell)
        finally:
            client.close(timeout=RELEASE_S)


def _check_versions(client: "Client", address: str) -> None:
    """Raises EnvironmentLacks for a worker with another version, or without blklab."""
    from importlib.metadata import version

    try:
        versions = client.run(version, "blklab", on_error="return")
    except Exception as error:
        raise EnvironmentLacks(f"{address}: {type(error).__name__}: {error}", "see the log of the scheduler") from None
    ours = version("blklab")
    for worker, theirs in versions.items():
        if isinstance(theirs, Exception):
            raise _lacking(worker, str(theirs) or type(theirs).__name__)
        if theirs != ours:
            raise _other_version(worker, theirs, ours)


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
