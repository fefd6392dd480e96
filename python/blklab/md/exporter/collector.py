"""Collects all `metrics` at each scrape."""

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry

from blklab import __version__
from blklab.caches.status import read_caches
from blklab.md.audit import find_problems
from blklab.md.exporter import metrics
from blklab.md.exporter.activity import ActivitySource
from blklab.md.exporter.inventory_cache import NOT_READ, InventoryCache
from blklab.md.exporter.shared_collections import SharedCollections
from blklab.md.model import Inventory
from blklab.md.seen_arrays import SeenArray, add_vanished, find_absent, update_seen
from blklab.system.roots import Roots

Log = Callable[[str], None]
MAX_NEW_LINES = 20  # Lines that one scrape may add to the log


class Collector:
    """The collector for the client library.

    A scrape that arrives during a collection shares it. Prometheus gives its values a time that is later by one
    collection at most, far less than the interval of scrapes. To wait for the next collection would take twice as long.
    """

    def __init__(
        self,
        inventories: InventoryCache,
        activity: ActivitySource,
        log: Log,
        roots: Roots,
        *,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log` gets one line for each new problem. `deadline`: seconds to wait for a collection; None: no limit."""
        self._roots = roots
        self._inventories = inventories
        self._activity = activity
        self._log = log
        self._collections = SharedCollections(self._collect, deadline, clock)
        self._logged: set[str] = set()
        self._seen: tuple[SeenArray, ...] = ()  # Arrays since the start of this process

    def describe(self) -> list[metrics.Family]:
        return metrics.make_families(())

    def collect(self) -> list[metrics.Family]:
        """Returns every metric. Failures are in `up` and in the log; raises nothing."""
        families, age = self._collections.get()
        age_families = metrics.make_families([(metrics.COLLECTION_AGE_SECONDS, (), age)])
        ages = [family for family in age_families if family.samples]
        return [*families, *ages]

    def _collect(self) -> tuple[list[metrics.Family], bool]:
        """Returns every metric except the age, and whether nothing failed."""
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
            (metrics.UNSEEN, (), len(problems)),
            (metrics.SUPERBLOCKS_READ_TIMESTAMP_SECONDS, (), self._inventories.read_at),
            (metrics.SCRAPE_DURATION_SECONDS, (), time.perf_counter() - began),
            (metrics.UP, (), up),
            (metrics.EXPORTER_INFO, (__version__,), 1),
        ]
        return [family for family in metrics.make_families(samples) if family.samples], up

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
        findings = add_vanished(find_problems(inventory), self._seen, inventory)
        yield from metrics.finding_samples(findings)
        for name, uuid in find_absent(findings, self._seen, inventory):
            yield metrics.ARRAY_ABSENT, (name, uuid), 1
        self._seen = update_seen(self._seen, inventory, int(time.time()))

    def _log_new(self, problems: list[str]) -> None:
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._logged]
        for problem in new[:MAX_NEW_LINES]:
            self._log(problem)
        if len(new) > MAX_NEW_LINES:
            self._log(f"and {len(new) - MAX_NEW_LINES} more items could not be read")
        self._logged = set(problems)


def list_unseen(inventory: Inventory) -> list[str]:
    """Returns what could not be read, without disks that the user excluded."""
    reasons = [*inventory.unseen, *inventory.unread]
    for array in inventory.arrays:
        reasons += array.unseen
    return [reason for reason in reasons if not reason.endswith(NOT_READ)]


def make_registry(collector: Collector) -> CollectorRegistry:
    """Returns a registry with these metrics only, without those of Python."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry
