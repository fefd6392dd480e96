"""What each device did, as counters that grow: those of /proc/diskstats run over after 49.7 days.

Times there are ms modulo 2^32 (`blklab.system.diskstats`). Sums of the differences of readings
that are close together have no such bound.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from blklab.errors import BlklabError
from blklab.system import diskstats
from blklab.system.diskstats import MS, DeviceActivity, DeviceCounters
from blklab.system.roots import Roots

INTERVAL: Final = 30.0
"""Seconds between readings, at most: half of what `diskstats.difference` can be sure of."""


class ActivitySource(Protocol):
    """Where what devices did comes from."""

    def read(self) -> list[str]:
        """Reads them now, and returns what could not be."""

    def of(self, name: str) -> DeviceActivity | None:
        """Returns what a device did, by the kernel's name; None if that is not known."""


class ActivityCounter:
    """What devices did since this process saw them first; safe to be used by several threads."""

    def __init__(self, roots: Roots, clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = roots
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, DeviceCounters | None] = {}
        self._total: dict[str, DeviceActivity] = {}
        self._at = 0.0

    def read(self) -> list[str]:
        """Adds what was done since the last time.

        What cannot be told, of a device that took another's name say, is not counted.
        """
        problems = []
        with self._lock:
            try:
                now = diskstats.read(self._roots)
            except BlklabError as error:
                return [str(error)]
            at = self._clock()
            total = {}
            for name, after in now.items():
                if after is None:
                    continue
                total[name] = self._total.get(name, diskstats.difference(after, after, 0))
                if before := self._last.get(name):
                    try:
                        total[name] += diskstats.difference(
                            before, after, at - self._at, bits=diskstats.long_bits()
                        )
                    except BlklabError as error:
                        problems.append(f"not counted: {error}")
            self._last, self._total, self._at = now, total, at
        return problems

    def of(self, name: str) -> DeviceActivity | None:
        """Returns what a device did since this process saw it first."""
        with self._lock:
            return self._total.get(_kernels(name))


class ActivitySinceBoot:
    """What devices did, as the kernel has it: for a process that lives for one reading."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._now: dict[str, DeviceCounters | None] = {}

    def read(self) -> list[str]:
        """Reads the counters."""
        try:
            self._now = diskstats.read(self._roots)
        except BlklabError as error:
            return [str(error)]
        return []

    def of(self, name: str) -> DeviceActivity | None:
        """Returns what a device did since the kernel knows it, times modulo 2^32 ms."""
        activity = self._now.get(_kernels(name))
        return None if activity is None else DeviceActivity(
            ios=(activity.reads, activity.writes),
            merges=(activity.read_merges, activity.write_merges),
            sectors=(activity.read_sectors, activity.write_sectors),
            ticks_ns=(activity.read_ticks * MS, activity.write_ticks * MS),
            busy_ns=activity.busy * MS,
            queue_ns=activity.queue * MS,
            discards=activity.discards,
            flushes=activity.flushes,
            flush_ns=None if activity.flush_ticks is None else activity.flush_ticks * MS,
        )  # fmt: skip


def _kernels(name: str) -> str:
    """Slashes in names of devices (cciss/c0d0) are exclamation marks in sysfs."""
    return name.replace("!", "/")
