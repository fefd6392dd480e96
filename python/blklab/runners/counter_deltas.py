"""Converts readings of the devices' counters to sums and a series."""

from collections.abc import Mapping, Sequence

from blklab.errors import BlklabError
from blklab.store.series import SeriesPoint
from blklab.system import diskstats
from blklab.system.diskstats import DeviceActivity, DeviceCounters
from blklab.units import SECTOR

Reading = Mapping[str, DeviceCounters | None]  # /proc/diskstats, parsed


class CounterDeltas:
    """Adds up what devices did between readings.

    `points` has one point per device and interval, `total` the sum per device; times count from
    `began_ns`, on the caller's clock. `problems` lists what could not be read.
    """

    def __init__(self, names: Sequence[str], reading: Reading, now_ns: int, bits: int) -> None:
        """`names` are the kernel's; `bits` is its `diskstats.long_bits`.

        Raises BlklabError for a device that is not counted.
        """
        self.points: list[SeriesPoint] = []
        self.total: dict[str, DeviceActivity] = {}
        self.problems: list[str] = []
        self.began_ns = self.read_ns = self._interval_began_ns = now_ns
        self._bits = bits
        self._before = {name: diskstats.of(reading, name) for name in dict.fromkeys(names)}
        self._interval: dict[str, DeviceActivity] = {}

    @property
    def watched_ns(self) -> int:
        """How long devices were watched, ns."""
        return self.read_ns - self.began_ns

    def take(self, reading: Reading, now_ns: int) -> None:
        """Adds a reading to the interval and to the sums. Reports once that a device is gone."""
        seconds = (now_ns - self.read_ns) / 1e9
        self.read_ns = now_ns
        for name in list(self._before):
            try:
                after = diskstats.of(reading, name)
                done = diskstats.difference(self._before[name], after, seconds, bits=self._bits)
            except BlklabError as error:
                self.say(str(error))
                del self._before[name]
                continue
            self._before[name] = after
            for sums in (self._interval, self.total):
                sums[name] = sums[name] + done if name in sums else done

    def emit(self) -> None:
        """Ends an interval and adds its points."""
        width = self.read_ns - self._interval_began_ns
        if width > 0:
            start = self._interval_began_ns - self.began_ns
            self.points += [_point(name, start, width, it) for name, it in self._interval.items()]
        self._interval_began_ns = self.read_ns
        self._interval = {}

    def forget(self) -> None:
        """Starts again at the last reading, and discards what was before."""
        self.total = {}
        self._interval = {}
        self.points = []
        self.began_ns = self._interval_began_ns = self.read_ns

    def say(self, problem: str) -> None:
        """Notes a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)


def _point(name: str, start_ns: int, width_ns: int, did: DeviceActivity) -> SeriesPoint:
    reads, writes = did.ios
    return SeriesPoint(
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
