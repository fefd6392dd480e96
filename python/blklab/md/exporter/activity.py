"""Counts the I/O of devices from readings of /proc/diskstats.

Times there are ms modulo 2^32, which wrap after 49.7 days (`blklab.system.diskstats`). The sum of differences between
frequent readings does not wrap.
"""

import threading
import time
from collections.abc import Callable

from blklab.errors import BlklabError
from blklab.system import diskstats
from blklab.system.diskstats import DeviceActivity, DeviceCounters
from blklab.system.roots import Roots

READ_INTERVAL_S = 30.0  # Longest time between readings: half of what `diskstats.difference` can handle


class ActivityCounter:
    """I/O counters since this process first read a device; thread-safe."""

    def __init__(self, roots: Roots, clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = roots
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, DeviceCounters | None] = {}
        self._total: dict[str, DeviceActivity] = {}
        self._at = 0.0

    def read(self) -> list[str]:
        """Adds the I/O since the last reading.

        It does not count differences that make no sense, such as after a device changed its name.
        """
        problems = []
        with self._lock:
            try:
                now = diskstats.read(self._roots)
            except BlklabError as error:
                return [str(error)]
            read_time = self._clock()
            total = {}
            for name, after in now.items():
                if after is None:
                    continue
                total[name] = self._total.get(name, diskstats.difference(after, after, 0))
                if before := self._last.get(name):
                    try:
                        total[name] += diskstats.difference(
                            before, after, read_time - self._at, bits=diskstats.long_bits()
                        )
                    except BlklabError as error:
                        problems.append(f"not counted: {error}")
            self._last = now
            self._total = total
            self._at = read_time
        return problems

    def of(self, name: str) -> DeviceActivity | None:
        """Returns the counters of a device since this process first read it."""
        with self._lock:
            return self._total.get(name.replace("!", "/"))  # sysfs writes cciss/c0d0 with an exclamation mark


class ActivitySinceBoot:
    """The kernel's own I/O counters, for a process that reads them once."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._now: dict[str, DeviceCounters | None] = {}

    def read(self) -> list[str]:
        try:
            self._now = diskstats.read(self._roots)
        except BlklabError as error:
            return [str(error)]
        return []

    def of(self, name: str) -> DeviceActivity | None:
        """Returns the kernel's counters of a device; times are modulo 2^32 ms."""
        counters = self._now.get(name.replace("!", "/"))
        if counters is None:
            return None
        return diskstats.activity(lambda name: getattr(counters, name))


ActivitySource = ActivityCounter | ActivitySinceBoot
