"""Collects all metrics, once a scrape."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry

from blklab import __version__
from blklab.md.audit import findings
from blklab.md.exporter import metrics
from blklab.md.exporter.device_activity import ActivitySource
from blklab.md.exporter.inventory_cache import NOT_READ, InventoryCache
from blklab.md.model import Inventory

Log = Callable[[str], None]

MOST_NEW: Final = 20
"""Lines that one scrape may add to the log."""


class Collector:
    """What the client library asks for metrics; several scrapes at once wait for one another."""

    def __init__(self, disks: InventoryCache, activity: ActivitySource, log: Log) -> None:
        """`log` is given a line for whatever cannot be seen, when that begins."""
        self._disks = disks
        self._activity = activity
        self._log = log
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def describe(self) -> list[metrics.Family]:
        """Returns every metric, without values."""
        return metrics.families(())

    def collect(self) -> list[metrics.Family]:
        """Returns every metric; what fails is said in `up` and in the log, and raises nothing."""
        with self._lock:
            began = time.perf_counter()
            samples: list[metrics.Sample] = []
            problems: list[str] = []
            up = True
            try:
                samples.extend(self._samples(problems))
            except Exception as error:  # whatever it is, the next scrape may do
                up = False
                problems.append(f"nothing was collected: {type(error).__name__}: {error}")
            self._tell(problems)
            samples += [
                ("unseen", (), len(problems)),
                ("superblocks_read_timestamp_seconds", (), self._disks.read_at),
                ("scrape_duration_seconds", (), time.perf_counter() - began),
                ("up", (), up),
                ("exporter_info", (__version__,), 1),
            ]
            return [family for family in metrics.families(samples) if family.samples]

    def _samples(self, problems: list[str]) -> Iterator[metrics.Sample]:
        inventory = self._disks.seen()
        problems += unseen(inventory)
        problems += self._activity.read()
        for array in inventory.arrays:
            yield from metrics.of_array(array)
            yield from metrics.of_members(array)
            for member in array.members:
                if did := self._activity.of(member.name):
                    yield from metrics.of_activity(array, member, did)
        yield from metrics.of_findings(findings(inventory))

    def _tell(self, problems: list[str]) -> None:
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._said]
        for problem in new[:MOST_NEW]:
            self._log(problem)
        if len(new) > MOST_NEW:
            self._log(f"and {len(new) - MOST_NEW} more things were not seen")
        self._said = set(problems)


def unseen(inventory: Inventory) -> list[str]:
    """Returns what could not be seen, but for what was not to be."""
    reasons = [
        *inventory.unseen,
        *(reason for array in inventory.arrays for reason in array.unseen),
    ]
    return [reason for reason in reasons if not reason.endswith(NOT_READ)]


def registry(collector: Collector) -> CollectorRegistry:
    """Returns what the client library serves: these metrics and none of Python's own."""
    made = CollectorRegistry()
    made.register(collector)
    return made
