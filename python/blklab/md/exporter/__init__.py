"""Exports md arrays to Prometheus: collects all `metrics` at each scrape, with cached superblocks.

Times in /proc/diskstats are ms modulo 2^32, which wrap after 49.7 days (`blklab.system.diskstats`). The sum of
differences between frequent readings does not wrap.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from blklab import __version__
from blklab.caches.status import read_caches
from blklab.errors import BlklabError
from blklab.md.audit import find_problems
from blklab.md.exporter import metrics
from blklab.md.inventory import read_inventory
from blklab.md.member_devices import find_candidates
from blklab.md.model import Geometry, Inventory, Software
from blklab.md.probing import Probe
from blklab.md.seen_arrays import SeenArray, add_vanished, find_absent, update_seen
from blklab.md.superblocks import SuperblockReading
from blklab.system import diskstats
from blklab.system.diskstats import DeviceActivity, DeviceCounters
from blklab.system.identity import BlockDevice
from blklab.system.mounts import everywhere
from blklab.system.roots import Roots, text

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
            at = self._clock()
            total = {}
            for name, after in now.items():
                if after is None:
                    continue
                total[name] = self._total.get(name, diskstats.difference(after, after, 0))
                if before := self._last.get(name):
                    try:
                        total[name] += diskstats.difference(before, after, at - self._at, bits=diskstats.long_bits())
                    except BlklabError as error:
                        problems.append(f"not counted: {error}")
            self._last = now
            self._total = total
            self._at = at
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


DISK_TIMEOUT_S = 2.0  # Time that a scrape waits for disks. A disk that hangs must not hide its values in sysfs.
COLLECTION_DEADLINE_S = 1.0  # Time that a scrape waits for a new collection, if there is an older one
NOT_READ = "disks are not read"
NO_ANSWER = "the disks have not answered yet"
Value = TypeVar("Value")


@dataclass(eq=False)
class InventoryCache:
    """The arrays of this host with cached superblocks.

    Superblocks are read again when they are older than `max_age` seconds, and when a member appears, disappears or
    changes: md has then just written to all disks, so no disk in standby is spun up. None: they are never read.
    """

    roots: Roots
    max_age: float | None
    timeout: float | None = DISK_TIMEOUT_S  # Time to wait for disks, seconds; None: no limit
    clock: Callable[[], float] = time.monotonic
    reader: Callable[[], Probe] = Probe
    read_at: float | None = field(default=None, init=False)  # When the superblocks were read, seconds since 1970
    _known: "_Memory | None" = field(default=None, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def read(self) -> Inventory:
        """Returns the inventory; `unseen` lists superblocks that were not read.

        Raises the exceptions that occurred while superblocks were read.
        """
        if self.max_age is None:
            if self._known is None:
                self._known = _Memory(NOT_READ, software=self.reader().read_software(self.roots))
            return read_inventory(self.roots, self._known)
        if (cached := self._read_cached(self.max_age)) is not None:
            return cached
        if self._thread is None or not self._thread.is_alive():
            self._failure = None
            self._thread = threading.Thread(target=self._read, name="superblocks", daemon=True)
            self._thread.start()
        self._thread.join(self.timeout)
        if self._failure is not None:
            raise self._failure
        if (cached := self._read_cached(math.inf)) is not None:
            return cached
        software = self._known.read_software(self.roots) if self._known else None
        return read_inventory(self.roots, _Memory(NO_ANSWER, software=software))

    def _read_cached(self, max_age: float) -> Inventory | None:
        """Returns the inventory if the cache is of the present members and not older than that."""
        known = self._known
        if known is None or self.clock() - known.since >= max_age:
            return None
        inventory_read = read_inventory(self.roots, known)
        return inventory_read if known.mark == _mark(inventory_read, self.roots) else None

    def _read(self) -> None:
        """Reads the members first: a disk that hangs and is in no array must not hide them."""
        reader = self.reader()
        read_at = time.time()
        memory = _Memory(NO_ANSWER, reader)
        memory.since = self.clock()
        try:
            inventory = read_inventory(self.roots, memory, with_outside=False)
            memory.mark = _mark(inventory, self.roots)
            memory.reader = None
            memory.take_superblocks(self._known)
            self._known = memory
            self.read_at = read_at
            for node in find_candidates(self.roots, inventory.arrays, everywhere(self.roots)):
                path = self.roots.device(node.name)
                memory.remember_superblocks(path, reader.read_superblocks(path))
            # A disk that appears later and is in no array is read with the others.
            memory.failure = NOT_READ
        except Exception as error:  # raised by the thread that waits for it
            self._failure = error


class _Memory(Probe):
    """Reads and remembers; without a reader it only remembers, and `failure` is the reason for everything else.

    Leaves out what no metric needs, and what the service has no permission to read.
    """

    mark: object = None  # Result of `_mark` for the members in the memory
    since = 0.0

    def __init__(self, failure: str, reader: Probe | None = None, software: Software | None = None) -> None:
        self.reader = reader
        self.failure = failure
        self._values: dict[object, Any] = {"software": software}

    def _value(self, key: object, read: Callable[[Probe], Value], default: Value) -> Value:
        if self.reader:
            self._values[key] = read(self.reader)
        value: Value = self._values.get(key, default)
        return value

    def remember_superblocks(self, path: Path, reading: SuperblockReading) -> None:
        self._values["superblocks", path] = reading

    def take_superblocks(self, before: "_Memory | None") -> None:
        """Takes what an older memory has of devices that this one has not read yet."""
        for key, value in before.copy_values().items() if before else ():
            self._values.setdefault(key, value)

    def copy_values(self) -> dict[object, Any]:
        return {key: value for key, value in self._values.items() if isinstance(key, tuple) and key[0] == "superblocks"}

    def read_superblocks(self, path: Path) -> SuperblockReading:
        failure = SuperblockReading(failure=self.failure)
        return self._value(("superblocks", path), lambda reader: reader.read_superblocks(path), failure)

    def read_geometry(self, path: Path) -> tuple[Geometry | None, str]:
        failure: tuple[Geometry | None, str] = (None, self.failure)
        return self._value(("geometry", path), lambda reader: reader.read_geometry(path), failure)

    def read_software(self, roots: Roots) -> Software | None:
        return self._value("software", lambda reader: reader.read_software(roots), None)

    def find_users(self, device: BlockDevice, roots: Roots) -> list[str]:  # noqa: ARG002
        """Returns nothing: the search might hang."""
        return []

    def is_repairing(self, uuid: str, roots: Roots) -> bool:
        """Returns False if permission is denied, so that `unseen` is 0 if all is well."""
        return bool(super().is_repairing(uuid, roots))


def _mark(inventory: Inventory, roots: Roots) -> object:
    """Returns values of members in sysfs that change whenever superblocks may have changed."""
    marks: list[object] = []
    for array in inventory.arrays:
        marks += array.name, array.uuid, array.reshaping, [part.name for part in array.parts]
        for member in array.members:
            marks += member.slot, member.states, member.listed, member.unacknowledged, _identity(member.name, roots)
    return marks


def _identity(name: str, roots: Roots) -> tuple[str | None, ...]:
    """Returns values that identify a device; diskseq is unique for each disk (Linux 5.15)."""
    node = (roots.sys / "class/block" / name).resolve()
    disk = node.parent if (node / "partition").exists() else node
    return name, text(node / "dev"), text(node / "size"), text(disk / "diskseq")


Log = Callable[[str], None]
MAX_NEW_LINES = 20  # Lines that one scrape may add to the log


class SharedCollections:
    """Runs a collection once for all scrapes that need it at the same time.

    A collection that takes longer than the deadline goes on in the background. Meanwhile scrapes get the last one.
    """

    def __init__(
        self,
        collect: Callable[[], tuple[list[metrics.Family], bool]],
        deadline: float | None,
        clock: Callable[[], float],
    ) -> None:
        """`collect` returns families, and whether they are complete; it raises nothing."""
        self._collect = collect
        self.deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self._running: Future[list[metrics.Family]] | None = None
        # The last complete collection, and when it was ready
        self._last: tuple[list[metrics.Family], float] | None = None

    def get(self) -> tuple[list[metrics.Family], float]:
        """Returns families and their age in seconds: 0 for those of a collection that ran during the call.

        It waits for the first collection, however long that takes.
        """
        with self._lock:
            last = self._last
            running = self._running
            if running is None:
                running = self._running = Future()
                threading.Thread(target=self._run, args=(running,), name="collection", daemon=True).start()
        try:
            return running.result(None if last is None else self.deadline), 0.0
        except TimeoutError:
            if last is None:
                raise
            families, ready = last
            return families, max(0.0, self._clock() - ready)

    def _run(self, running: "Future[list[metrics.Family]]") -> None:
        try:
            families, is_complete = self._collect()
        except BaseException as error:
            with self._lock:
                self._running = None
            running.set_exception(error)  # raised by the threads that wait for it
            return
        with self._lock:
            self._running = None
            if is_complete:
                self._last = families, self._clock()
        running.set_result(families)


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
