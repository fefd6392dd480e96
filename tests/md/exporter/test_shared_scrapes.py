"""Scrapes at the same time: who waits for whom, and how often arrays are read."""

import gzip
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import make_wsgi_app

from blklab.md import exporter
from blklab.md.exporter import ActivitySinceBoot, SharedCalls
from tests.md.conftest import Arrays
from tests.md.exporter.conftest import Exported, parsed

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Waiting = threading.Semaphore


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Is released whenever a thread begins to wait for a shared call, or has ended its own."""
    semaphore = Waiting(0)

    class WatchedFuture(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            semaphore.release()
            return super().result(timeout)

    monkeypatch.setattr(exporter, "Future", WatchedFuture)
    return semaphore


class Gate:
    """Counts collections, which wait until it is open."""

    def __init__(self) -> None:
        self.passed = 0
        self.reached, self.open = threading.Semaphore(0), threading.Event()

    def __call__(self) -> None:
        self.reached.release()
        self.open.wait()
        self.passed += 1


class Gated(ActivitySinceBoot):
    def __init__(self, machine: Arrays, gate: Gate) -> None:
        super().__init__(machine.roots)
        self._gate = gate

    def read(self) -> list[str]:
        self._gate()
        return super().read()


def get(app: "WSGIApplication", **variables: str) -> bytes:
    """Returns the answer of the application to a request."""
    (content,) = app({"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", **variables}, lambda *_: lambda _: None)
    return content


def test_scrapes_that_wait_share_one_collection(mirrored: Arrays, waiting: Waiting) -> None:
    gate = Gate()
    app = make_wsgi_app(Exported(mirrored, activity=lambda machine, _: Gated(machine, gate)).registry)
    with ThreadPoolExecutor(8) as clients:
        first = clients.submit(get, app)
        gate.reached.acquire()
        same = [clients.submit(get, app) for _ in range(4)]
        zipped = clients.submit(get, app, HTTP_ACCEPT_ENCODING="gzip")
        other = clients.submit(get, app, HTTP_ACCEPT="application/openmetrics-text;version=1.0.0")
        filtered = clients.submit(get, app, QUERY_STRING="name[]=blklab_md_up")
        waits = [waiting.acquire(timeout=60) for _ in range(7)]
        gate.open.set()
        assert all(waits)
        assert all(item.result() == first.result() for item in same)
        assert gzip.decompress(zipped.result()) == first.result()
        assert other.result().endswith(b"# EOF\n")
        assert parsed(filtered.result().decode()) == {("up", frozenset()): 1}
    assert gate.passed == 1
    # Nothing is kept: the next one sees what has changed since.
    mirrored.write(mirrored.roots.sys / "block/md0/md", {"mismatch_cnt": "8"})
    result = parsed(get(app).decode())
    assert gate.passed == 2
    assert result["array_mismatch_sectors", frozenset({("array", "md0")})] == 8


def test_a_failure_is_that_of_all_who_share_the_call_and_of_no_other(waiting: Waiting) -> None:
    calls, gate = SharedCalls(), Gate()

    def failing() -> None:
        gate()
        raise OSError("boo")

    def outcome(function: Callable[[], object]) -> object:
        with suppress(OSError):
            return calls.run("key", function)
        return "failed"

    with ThreadPoolExecutor(3) as clients:
        first = clients.submit(outcome, failing)
        gate.reached.acquire()
        second = clients.submit(outcome, failing)
        assert waiting.acquire(timeout=60)
        assert clients.submit(calls.run, "another key", lambda: "own").result() == "own"
        gate.open.set()
        assert [first.result(), second.result()] == ["failed", "failed"]
    assert gate.passed == 1
    assert outcome(lambda: "next") == "next"
