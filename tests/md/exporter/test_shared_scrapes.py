"""Scrapes at the same time: who waits for whom, and how often arrays are read."""

import gzip
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import make_wsgi_app

from blklab.md.exporter import shared_collections
from blklab.md.exporter.activity import ActivitySinceBoot
from tests.md.conftest import Arrays
from tests.md.exporter.conftest import Clock, Exported, parsed

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Waiting = threading.Semaphore
MD0 = frozenset({("array", "md0")})


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Is released whenever a thread begins to wait for a shared call, or has ended its own."""
    semaphore = Waiting(0)

    class WatchedFuture(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            semaphore.release()
            return super().result(timeout)

    monkeypatch.setattr(shared_collections, "Future", WatchedFuture)
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
        waits = [waiting.acquire(timeout=60) for _ in range(8)]
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
    assert result["array_mismatch_sectors", MD0] == 8


def test_while_a_collection_is_slow_scrapes_get_the_last_one_with_its_age(mirrored: Arrays) -> None:
    gate = Gate()
    gate.open.set()
    exported = Exported(mirrored, activity=lambda machine, _: Gated(machine, gate), deadline=0)
    # The first collection is waited for, with any deadline.
    assert exported.series("collection_age_seconds") == 0
    gate.open.clear()
    mirrored.write(mirrored.roots.sys / "block/md0/md", {"mismatch_cnt": "8"})
    exported.clock.now += 7
    for _ in range(3):
        result = exported.scrape()
        assert result["collection_age_seconds", frozenset()] == 7
        assert result["array_mismatch_sectors", MD0] == 0
    running = [thread for thread in threading.enumerate() if thread.name == "collection"]
    assert len(running) == 1
    gate.open.set()
    running[0].join(60)
    exported.clock.now += 1
    gate.open.clear()
    result = exported.scrape()
    assert result["collection_age_seconds", frozenset()] == 1
    assert result["array_mismatch_sectors", MD0] == 8
    gate.open.set()


def test_a_collection_that_failed_is_not_kept(waiting: Waiting) -> None:
    answers = [("complete", True), ("failed", False), ("never", True)]
    gate, clock = Gate(), Clock()

    def collect() -> tuple[Any, bool]:
        gate()
        return answers.pop(0)

    collections: Any = shared_collections.SharedCollections(collect, None, clock)
    with ThreadPoolExecutor(2) as clients:
        for expected in ("complete", "failed"):
            gate.open.clear()
            calls = [clients.submit(collections.get) for _ in range(2)]
            for _ in calls:
                assert waiting.acquire(timeout=60)
            gate.open.set()
            assert [call.result() for call in calls] == [(expected, 0.0)] * 2
    gate.open.clear()
    collections.deadline = 0
    clock.now += 5
    assert collections.get() == ("complete", 5.0)
    gate.open.set()


def test_a_collection_that_breaks_lets_the_next_one_run() -> None:
    answers: list[tuple[Any, bool] | None] = [None, (["complete"], True)]

    def collect() -> tuple[Any, bool]:
        answer = answers.pop(0)
        if answer is None:
            raise SystemExit
        return answer

    collections: Any = shared_collections.SharedCollections(collect, 0, Clock())
    with pytest.raises(SystemExit):
        collections.get()
    assert collections.get() == (["complete"], 0.0)
