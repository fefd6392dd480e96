"""The activity of devices: /proc/diskstats, and the difference of two readings.

Source: Documentation/admin-guide/iostats.rst and block/genhd.c, `diskstats_show`. Times are milliseconds in an
`unsigned int`, converted from ns in 64 bits since 4.19, from jiffies before; in both cases modulo 2^32. Counts and
sectors are `unsigned long`: 32 bits on 32-bit kernels. There are 11 fields, since 4.18 also 4 of discards, since 5.5
also 2 of flushes. Before 2.6.25 partitions had only 4, without merges and times, so they cannot be used.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, SystemErrors
from blklab.system.roots import Roots

WRAP = 1 << 32
MS = 1_000_000

MOST_IN_FLIGHT = 65536
"""Most I/Os in flight on one device: Linux gives NVMe at most 1023 per queue by default
(drivers/nvme/host/pci.c) and one queue per CPU. Their times add up to as many seconds a second,
which limits how fast `ticks` and `queue` can grow."""
FASTEST_IOS = 20_000_000  # Most I/Os a second on one device; matters only for 32-bit kernels
FASTEST_SECTORS = 100 << 21  # Most sectors a second, 100 GiB/s; matters only for 32-bit kernels


@dataclass(frozen=True)
class DeviceCounters:
    """One line of /proc/diskstats, with times in ms modulo 2^32.

    Fields that a kernel does not have are None: discards before 4.18, flushes before 5.5.
    """

    number: str
    name: str
    reads: int
    read_merges: int
    read_sectors: int
    read_ticks: int
    writes: int
    write_merges: int
    write_sectors: int
    write_ticks: int
    in_flight: int
    busy: int
    queue: int
    discards: int | None = None
    discard_merges: int | None = None
    discard_sectors: int | None = None
    discard_ticks: int | None = None
    flushes: int | None = None
    flush_ticks: int | None = None


@dataclass(frozen=True)
class DeviceActivity:
    """A device's activity between two readings. Times are ns; pairs are (reads, writes)."""

    ios: tuple[int, int]
    merges: tuple[int, int]
    sectors: tuple[int, int]
    ticks_ns: tuple[int, int]
    busy_ns: int
    queue_ns: int
    discards: int | None
    flushes: int | None
    flush_ns: int | None

    def __add__(self, other: "DeviceActivity") -> "DeviceActivity":
        return DeviceActivity(*(_sum(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))

    def counts(self) -> dict[str, Any]:
        """Returns the figures of a `DeviceResult`."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


def _sum(first: Any, other: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(a + b for a, b in zip(first, other, strict=True))
    return None if first is None or other is None else first + other


_NUMERIC = tuple(f.name for f in fields(DeviceCounters))[2:]
_TICKS = frozenset({"read_ticks", "write_ticks", "queue", "discard_ticks", "flush_ticks"})


def parse(content: str, source: str = "/proc/diskstats") -> dict[str, DeviceCounters | None]:
    """Returns the counters of every device by name; None for partitions with only 4 fields.

    A line is `major minor name fields…`; fields beyond the 17 known ones are ignored. Raises
    BlklabError for anything else.
    """
    counters: dict[str, DeviceCounters | None] = {}
    for line_number, line in enumerate(content.splitlines(), 1):
        columns = line.split()
        if not columns:
            continue
        major, minor, name, *numbers = columns if len(columns) > 3 else [*columns, "", "", ""]
        if not all(number.isascii() and number.isdigit() for number in (major, minor, *numbers)):
            raise BlklabError(f"{source}: line {line_number}: found {line.strip()!r}, expected numbers")
        if len(numbers) == 4:
            counters[name] = None
            continue
        if len(numbers) not in {11, 15} and len(numbers) < 17:
            raise BlklabError(f"{source}: line {line_number}: {name} has {len(numbers)} fields, expected 11, 15 or 17")
        values = dict(zip(_NUMERIC, map(int, numbers), strict=False))
        counters[name] = DeviceCounters(f"{major}:{minor}", name, **values)
    return counters


def read(roots: Roots) -> dict[str, DeviceCounters | None]:
    """Returns the parsed /proc/diskstats. Raises EnvironmentLacks without it."""
    path = roots.proc / "diskstats"
    with SystemErrors(EnvironmentLacks, path, "", "mount /proc; in a container, use a /proc that shows devices"):
        return parse(path.read_text(errors="replace"), str(path))


def of(counters: Mapping[str, DeviceCounters | None], name: str) -> DeviceCounters:
    """Returns one device's counters. Raises BlklabError if it has none, or too few."""
    if name not in counters:
        raise BlklabError(f"{name}: not in /proc/diskstats: the device is gone or was renamed")
    counters_found = counters[name]
    if counters_found is None:
        raise BlklabError(
            f"{name}: this kernel (before 2.6.25) counts only 4 fields for a partition, "
            "expected 11 or more; measure the whole disk, or use a newer kernel"
        )
    return counters_found


def long_bits() -> int:
    """Returns the width of the kernel's `unsigned long`, 64 or 32."""
    machine = os.uname().machine
    return 64 if "64" in machine or machine in {"s390x", "alpha"} else 32


def difference(
    before: DeviceCounters,
    after: DeviceCounters,
    seconds: float,
    *,
    bits: int = 64,
    most_in_flight: int = MOST_IN_FLIGHT,
) -> DeviceActivity:
    """Returns a device's activity between two readings that are `seconds` apart.

    `bits` is the kernel's `long_bits`. A counter that wrapped once is corrected. Raises BlklabError if the interval is
    so long that a counter could have wrapped twice (with 65536 in flight, 64 s: add up shorter intervals, or pass
    `most_in_flight`), if a counter that cannot wrap decreased, or if it is another device: a disk was replaced.
    """
    if (before.number, before.name) != (after.number, after.name):
        raise BlklabError(
            f"{after.name}: found {after.number}, expected {before.name} {before.number}: "
            "another device took its place during the run"
        )
    # Sampling is never exact: a second more.
    span = seconds + 1

    def grown(name: str) -> int | None:
        old, new = getattr(before, name), getattr(after, name)
        if old is None or new is None:
            return None
        if name in _TICKS:
            return _compute_growth(after.name, name, old, new, seconds, span * 1000 * most_in_flight, 32)
        if name == "busy":
            return _compute_growth(after.name, name, old, new, seconds, span * 1000, 32)
        fastest = FASTEST_SECTORS if name.endswith("_sectors") else FASTEST_IOS
        wide = bits if max(old, new) < WRAP else 64
        return _compute_growth(after.name, name, old, new, seconds, span * fastest, wide)

    return activity(grown)


def activity(count: Callable[[str], int | None]) -> DeviceActivity:
    """Returns the activity of counts, which are given by the names of DeviceCounters; times are in ms."""

    def sure(name: str) -> int:
        return count(name) or 0  # only discards and flushes can be None

    flushing = count("flush_ticks")
    return DeviceActivity(
        ios=(sure("reads"), sure("writes")),
        merges=(sure("read_merges"), sure("write_merges")),
        sectors=(sure("read_sectors"), sure("write_sectors")),
        ticks_ns=(sure("read_ticks") * MS, sure("write_ticks") * MS),
        busy_ns=sure("busy") * MS,
        queue_ns=sure("queue") * MS,
        discards=count("discards"),
        flushes=count("flushes"),
        flush_ns=None if flushing is None else flushing * MS,
    )


def _compute_growth(device: str, field: str, old: int, new: int, seconds: float, max_growth: float, bits: int) -> int:
    """Returns the growth of a counter of `bits`, which is at most `max_growth`."""
    if bits == 64:
        if new < old:
            raise BlklabError(f"{device}: {field} went back from {old} to {new}: the device was reset or replaced")
        return new - old
    if max_growth >= WRAP:
        raise BlklabError(
            f"{device}: {field} has 32 bits, and may have wrapped more than once in {seconds:.0f} s: read it more often"
        )
    growth = (new - old) % WRAP
    if growth > max_growth:
        raise BlklabError(
            f"{device}: {field} went from {old} to {new} in {seconds:.1f} s, which is impossible: "
            "the device was reset or replaced"
        )
    return growth


@dataclass(frozen=True)
class CpuTimes:
    """Times of all CPUs together since boot, in clock ticks (proc(5), /proc/stat)."""

    user: int
    system: int
    iowait: int
    irq: int
    idle: int
    steal: int = 0  # Time that the hypervisor gave to other guests

    def shares(self, later: "CpuTimes") -> dict[str, float]:
        """Returns the shares (0 to 1) of the time until `later`; all 0 if no time passed.

        iowait can decrease (proc(5)); it then counts as 0.
        """
        spent = {f.name: max(0, getattr(later, f.name) - getattr(self, f.name)) for f in fields(self)}
        total = sum(spent.values())
        return {name: value / total if total else 0.0 for name, value in spent.items()}


def cpu(roots: Roots) -> CpuTimes:
    """Returns the times of all CPUs from /proc/stat. Raises BlklabError."""
    path = roots.proc / "stat"
    with SystemErrors(BlklabError, path):
        return parse_cpu(path.read_text(errors="replace"), str(path))


def parse_cpu(content: str, source: str = "/proc/stat") -> CpuTimes:
    """Parses the first line of /proc/stat. Raises BlklabError for anything else."""
    line = content.partition("\n")[0]
    try:
        name, *columns = line.split()
        # guest times are in user and nice already (kernel/sched/cputime.c, account_guest_time).
        numbers = [int(word) for word in columns[:8]]
    except ValueError as error:
        raise BlklabError(f"{source}: {error}; expected a line 'cpu user nice system…'") from None
    if name != "cpu" or len(numbers) < 7:
        raise BlklabError(f"{source}: found {line!r}, expected 'cpu' and 7 numbers or more")
    user, nice, system, idle, iowait, irq, softirq, *steal = numbers
    return CpuTimes(user + nice, system, iowait, irq + softirq, idle, sum(steal))
