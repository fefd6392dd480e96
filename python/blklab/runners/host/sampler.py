"""Reads the devices' statistics while a run goes on."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from blklab.errors import BlklabError
from blklab.store.series import Point
from blklab.system import diskstats
from blklab.system.diskstats import SECTOR, Activity, Counters, Cpu
from blklab.system.roots import Roots

LONGEST_NS: Final = 10_000_000_000
"""Counters are read at least this often, however long the interval: see `diskstats.difference`."""


class Sampler:
    """A thread that reads /proc/diskstats and /proc/stat every interval, while a `with` block runs.

    Once it ended: `points`, a point a device and interval; `total`, the sum of each device; `cpu`,
    shares of all CPUs; `watched_ns`, for how long; `problems`, what could not be read. Times count
    from `began_ns`, of time.monotonic_ns. The sums are of short intervals: no counter can run over
    unnoticed.
    """

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

        What happens in its first `lead_ns` is not counted: fio's `ramp_time`.
        """
        self.points: list[Point] = []
        self.total: dict[str, Activity] = {}
        self.cpu: dict[str, float] = {}
        self.problems: list[str] = []
        self.began_ns = 0
        self.watched_ns = 0
        self._names = list(dict.fromkeys(names))
        self._roots = roots
        self._interval_ns = interval_ns
        self._clock = clock
        self._lead_ns = lead_ns
        self._bits = diskstats.long_bits()
        self._before: dict[str, Counters] = {}
        self._read_ns = 0
        self._interval: dict[str, Activity] = {}
        self._interval_began_ns = 0
        self._cpu_before: Cpu | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="blklab-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Reads for the first time. Raises BlklabError for a device that is not counted."""
        counters = diskstats.read(self._roots)
        self._before = {name: diskstats.of(counters, name) for name in self._names}
        self._cpu_before = diskstats.cpu(self._roots)
        self.began_ns = self._read_ns = self._interval_began_ns = self._clock()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Reads for the last time; the last point is as wide as what was left."""
        self._stop.set()
        self._thread.join()
        self._take(self._clock())
        self._emit()
        self.watched_ns = self._read_ns - self.began_ns
        try:
            if self._cpu_before is not None:
                self.cpu = self._cpu_before.shares(diskstats.cpu(self._roots))
        except BlklabError as failure:
            self._say(str(failure))

    def _run(self) -> None:
        if self._lead_ns and not self._lead():
            return
        # The due time counts from the beginning: being late once does not shift what follows.
        number = 1
        while True:
            due = self.began_ns + number * self._interval_ns
            while (left := due - self._clock()) > 0:
                if self._stop.wait(min(left, LONGEST_NS) / 1e9):
                    return
                if due - self._clock() > 0:
                    self._take(self._clock())
            if self._stop.is_set():
                return
            self._take(self._clock())
            self._emit()
            # Intervals that were slept through (a suspended machine) are one wide point.
            number = max(number + 1, (self._clock() - self.began_ns) // self._interval_ns + 1)

    def _lead(self) -> bool:
        """Waits the lead out and forgets it; False if the block ended before."""
        due = self.began_ns + self._lead_ns
        while (left := due - self._clock()) > 0:
            if self._stop.wait(min(left, LONGEST_NS) / 1e9):
                return False
            self._take(self._clock())
        self.total, self._interval, self.points = {}, {}, []
        with suppress(BlklabError):  # it is said at the end
            self._cpu_before = diskstats.cpu(self._roots)
        self.began_ns = self._interval_began_ns = self._read_ns
        return True

    def _take(self, now_ns: int) -> None:
        """Reads, and adds to the interval and to the sums. A device that is gone is said once."""
        try:
            counters = diskstats.read(self._roots)
        except BlklabError as error:
            self._say(str(error))
            return
        seconds = (now_ns - self._read_ns) / 1e9
        self._read_ns = now_ns
        for name in list(self._before):
            try:
                after = diskstats.of(counters, name)
                done = diskstats.difference(self._before[name], after, seconds, bits=self._bits)
            except BlklabError as error:
                self._say(str(error))
                del self._before[name]
                continue
            self._before[name] = after
            for sums in (self._interval, self.total):
                sums[name] = sums[name] + done if name in sums else done

    def _emit(self) -> None:
        width = self._read_ns - self._interval_began_ns
        if width > 0:
            start = self._interval_began_ns - self.began_ns
            self.points += [_point(name, start, width, it) for name, it in self._interval.items()]
        self._interval_began_ns = self._read_ns
        self._interval = {}

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _point(name: str, start_ns: int, width_ns: int, did: Activity) -> Point:
    reads, writes = did.ios
    return Point(
        source=name,
        time_ns=start_ns,
        width_ns=width_ns,
        read_ios=reads,
        write_ios=writes,
        read_bytes=did.sectors[0] * SECTOR,
        write_bytes=did.sectors[1] * SECTOR,
        read_clat_ns=did.ticks_ns[0] / reads if reads else None,
        write_clat_ns=did.ticks_ns[1] / writes if writes else None,
    )
