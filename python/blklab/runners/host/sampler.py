"""Reads the devices' statistics during a run."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

from blklab.errors import BlklabError
from blklab.runners.counter_deltas import CounterDeltas
from blklab.system import diskstats
from blklab.system.diskstats import CpuTimes
from blklab.system.roots import Roots

LONGEST_NS: Final = 10_000_000_000
"""Counters are read at least this often, even for longer intervals: see `diskstats.difference`."""


class DiskstatsSampler:
    """A thread that reads /proc/diskstats and /proc/stat every interval, while a `with` block runs.

    Afterwards, `deltas` has the devices' activity, in times of time.monotonic_ns, and `cpu` the shares of all CPUs. The
    sums are of short intervals, so no counter can wrap unnoticed.
    """

    deltas: CounterDeltas

    def __init__(
        self,
        names: Sequence[str],
        roots: Roots,
        interval_ns: int = 1_000_000_000,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        lead_ns: int = 0,
    ) -> None:
        """`names` are the kernel's. Nothing is read before the `with` block.

        The first `lead_ns` of the block are not counted: fio's `ramp_time`.
        """
        self.cpu: dict[str, float] = {}
        self._names = names
        self._roots = roots
        self._interval_ns = interval_ns
        self._clock = clock
        self._lead_ns = lead_ns
        self._cpu_before: CpuTimes | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="blklab-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Reads for the first time. Raises BlklabError for a device that is not counted."""
        counters = diskstats.read(self._roots)
        self._cpu_before = diskstats.cpu(self._roots)
        self.deltas = CounterDeltas(self._names, counters, self._clock(), diskstats.long_bits())
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Reads for the last time; the last point covers the rest of its interval."""
        self._stop.set()
        self._thread.join()
        self._take()
        self.deltas.emit()
        try:
            if self._cpu_before is not None:
                self.cpu = self._cpu_before.shares(diskstats.cpu(self._roots))
        except BlklabError as failure:
            self.deltas.say(str(failure))

    def _run(self) -> None:
        if self._lead_ns and not self._lead():
            return
        # The due time counts from the beginning: being late once does not shift what follows.
        number = 1
        while True:
            due = self.deltas.began_ns + number * self._interval_ns
            while (left := due - self._clock()) > 0:
                if self._stop.wait(min(left, LONGEST_NS) / 1e9):
                    return
                if due - self._clock() > 0:
                    self._take()
            if self._stop.is_set():
                return
            self._take()
            self.deltas.emit()
            # Intervals that were slept through (a suspended machine) are one wide point.
            number = max(number + 1, (self._clock() - self.deltas.began_ns) // self._interval_ns + 1)

    def _lead(self) -> bool:
        """Waits until the lead is over and discards it; False if the block ended before."""
        due = self.deltas.began_ns + self._lead_ns
        while (left := due - self._clock()) > 0:
            if self._stop.wait(min(left, LONGEST_NS) / 1e9):
                return False
            self._take()
        with suppress(BlklabError):  # it is said at the end
            self._cpu_before = diskstats.cpu(self._roots)
        self.deltas.forget()
        return True

    def _take(self) -> None:
        now_ns = self._clock()
        try:
            self.deltas.take(diskstats.read(self._roots), now_ns)
        except BlklabError as error:
            self.deltas.say(str(error))
