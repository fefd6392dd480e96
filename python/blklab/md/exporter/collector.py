"""Collects all metrics at each scrape."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import CollectorRegistry, make_wsgi_app

from blklab import __version__
from blklab.caches.status import read_caches
from blklab.md.audit import find_problems
from blklab.md.exporter import metrics
from blklab.md.exporter.device_activity import ActivitySource
from blklab.md.exporter.inventory_cache import NOT_READ, InventoryCache
from blklab.md.model import Inventory
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Log = Callable[[str], None]
Result = TypeVar("Result")
MAX_NEW_LINES: Final = 20  # Lines that one scrape may add to the log
REQUEST_KEYS: Final = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")


class SharedCalls:
    """Runs a function once for all threads that need its result at the same time: the calls that run now, by key."""

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[Any]] = {}

    def run(self, key: Hashable, function: Callable[[], Result]) -> Result:
        """Returns the result of the call that runs with this key, otherwise of `function`. Raises what that raises."""
        own: Future[Result] = Future()
        call: Future[Result] = self._running.setdefault(key, own)  # atomic
        if call is own:
            try:
                own.set_result(function())
            except BaseException as error:
                own.set_exception(error)
            del self._running[key]
        return call.result()


class Collector:
    """The collector for the client library.

    A scrape that arrives during a collection shares it. Prometheus gives its values a time that is later by one
    collection at most, far less than the interval of scrapes. To wait for the next collection would take twice as long.
    """

    def __init__(self, inventories: InventoryCache, activity: ActivitySource, log: Log, roots: Roots) -> None:
        """`log` gets one line for each new problem."""
        self._roots = roots
        self._inventories = inventories
        self._activity = activity
        self._log = log
        self._collections = SharedCalls()
        self._logged: set[str] = set()

    def describe(self) -> list[metrics.Family]:
        return metrics.make_families(())

    def collect(self) -> list[metrics.Family]:
        """Returns every metric. Failures are in `up` and in the log; raises nothing."""
        return self._collections.run((), self._collect)

    def _collect(self) -> list[metrics.Family]:
        began = time.perf_counter()
        samples: list[metrics.Sample] = []
        problems: list[str] = []
        up = True
        try:
            samples.extend(self._samples(problems))
        except Exception as error:  # of any type: the next scrape may succeed
            up = False
            problems.append(f"no metrics were collected: {type(error).__name__}: {error}")
        self._log_new(problems)
        samples += [
            ("unseen", (), len(problems)),
            ("superblocks_read_timestamp_seconds", (), self._inventories.read_at),
            ("scrape_duration_seconds", (), time.perf_counter() - began),
            ("up", (), up),
            ("exporter_info", (__version__,), 1),
        ]
        return [family for family in metrics.make_families(samples) if family.samples]

    def _samples(self, problems: list[str]) -> Iterator[metrics.Sample]:
        inventory = self._inventories.read()
        problems += list_unseen(inventory)
        problems += self._activity.read()
        for array in inventory.arrays:
            yield from metrics.array_samples(array)
            yield from metrics.member_samples(array)
            for member in array.members:
                if activity := self._activity.of(member.name):
                    yield from metrics.activity_samples(array, member, activity)
        # Only root sees dm-cache, so caches that cannot be read are no problem of this service.
        for cache in read_caches(self._roots).caches:
            yield from metrics.cache_samples(cache)
        yield from metrics.finding_samples(find_problems(inventory))

    def _log_new(self, problems: list[str]) -> None:
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._logged]
        for problem in new[:MAX_NEW_LINES]:
            self._log(problem)
        if len(new) > MAX_NEW_LINES:
            self._log(f"and {len(new) - MAX_NEW_LINES} more items could not be read")
        self._logged = set(problems)


def list_unseen(inventory: Inventory) -> list[str]:
    """Returns what could not be read, without disks that the user excluded."""
    reasons = [*inventory.unseen, *(reason for array in inventory.arrays for reason in array.unseen)]
    return [reason for reason in reasons if not reason.endswith(NOT_READ)]


def make_registry(collector: Collector) -> CollectorRegistry:
    """Returns a registry with these metrics only, without those of Python."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def make_application(registry: CollectorRegistry) -> "WSGIApplication":
    """Returns an application that answers equal requests at the same time once: to write text takes long, too."""
    app = make_wsgi_app(registry)
    answers = SharedCalls()

    def shared(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        def answer() -> tuple[Iterable[bytes], list[Any]]:
            head: list[Any] = []
            return app(environ, lambda *status_and_headers: head.extend(status_and_headers)), head

        content, (status, headers) = answers.run(tuple(map(environ.get, REQUEST_KEYS)), answer)
        start_response(status, list(headers))  # the server adds to them
        return content

    return shared
