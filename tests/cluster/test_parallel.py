"""Threads that compute many items, and signals meanwhile; and items that go to workers together."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest

from blklab import _core
from blklab.cluster import Parallel, connect_cluster
from tests.cluster.conftest import DaskProcesses

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Arrived(BaseException):
    """A signal was handled."""


@pytest.fixture
def handlers() -> Iterator[None]:
    def arrive(_number: int, _frame: FrameType | None) -> None:
        raise Arrived

    before = {number: signal.signal(number, arrive) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def until_stopped(item: int, /, *, stop: _core.Stop | None = None) -> int:
    while stop is not None and not stop.is_set():
        time.sleep(0.01)
    return item


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_comes_while_a_thread_starts_is_handled_after_it(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start
    handler = signal.getsignal(number)

    def disturbed(thread: threading.Thread) -> None:
        os.kill(os.getpid(), number)
        time.sleep(0.01)  # so that Python calls the handler here, if it may
        start(thread)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", disturbed)
    with pytest.raises(Arrived):
        Parallel(2).all(until_stopped, range(4))
    assert [thread.is_alive() for thread in started] == [False]
    assert signal.getsignal(number) is handler


def test_long_items_behind_short_ones_are_shared_by_the_workers(dask_processes: DaskProcesses) -> None:
    def slept(item: float, /, *, stop: object = None) -> int:  # noqa: ARG001
        time.sleep(item)
        return os.getpid()

    for _ in range(2):
        dask_processes.start_worker()
    dask_processes.wait_for_workers(2)
    with connect_cluster(dask_processes.address) as cluster:
        workers = Parallel(cluster=cluster).all(slept, [0.0] * 200 + [1.0] * 8)
    assert len(workers) == 208
    assert len(set(workers[-8:])) == 2
