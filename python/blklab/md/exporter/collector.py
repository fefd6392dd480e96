"""Collects all metrics at each scrape."""

import time
import tomllib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from blklab import __version__
from blklab.caches.model import BlockCache
from blklab.caches.status import read_caches
from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.exporter.device_activity import ActivitySource
from blklab.md.exporter.inventory_cache import NOT_READ, InventoryCache
from blklab.md.inventory import PASSES
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.system.diskstats import DeviceActivity
from blklab.system.roots import Roots
from blklab.text import printable
from blklab.units import SECTOR

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Log = Callable[[str], None]
Result = TypeVar("Result")
MAX_NEW_LINES = 20  # Lines that one scrape may add to the log
REQUEST_KEYS = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")


PREFIX = "blklab_md_"

STATES = (
    "inactive", "suspended", "readonly", "read-auto", "clean", "active", "write-pending", "active-idle", "broken",
)  # fmt: skip
"""States of assembled arrays: drivers/md/md.c, `array_states`, Linux 6.12, without `clear`."""

MEMBER_STATES = (
    "faulty", "in_sync", "journal", "write_mostly", "blocked", "spare", "write_error",
    "want_replacement", "replacement", "external_bbl", "failfast",
)  # fmt: skip
"""States of members: drivers/md/md.c, `state_show`, Linux 6.12."""

ACTIONS = ("idle", *sorted(PASSES))

ARRAY = ("array",)
MEMBER = ("array", "member")
CACHE = ("cache",)


class MetricSpec(NamedTuple):
    """The help and labels of a metric. Names of counters end in `_total`; others are gauges."""

    help: str
    labels: tuple[str, ...] = ()


METRICS = {
    name: MetricSpec(table["help"], tuple(table.get("labels", ())))
    for name, table in tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")).items()
}
"""All metrics, by name without prefix, in the order in which they are exported."""

Sample = tuple[str, tuple[str, ...], float | None]
"""Name without prefix, labels, value; a value of None is unknown and not exported."""

Family = GaugeMetricFamily | CounterMetricFamily


def make_families(samples: Iterable[Sample]) -> list[Family]:
    """Returns every metric for the client library, also those without a sample.

    Control characters in labels are escaped, because names come from disks.
    """
    families_by_name = {
        name: (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(
            PREFIX + name, declared.help, labels=declared.labels
        )
        for name, declared in METRICS.items()
    }
    # Escaped names may be equal, but a series must not appear twice.
    values = {(name, tuple(map(printable, labels))): value for name, labels, value in samples if value is not None}
    for (name, labels), value in values.items():
        families_by_name[name].add_metric(labels, value)
    return list(families_by_name.values())


def array_samples(array: Array) -> Iterator[Sample]:
    """Yields the samples of an array, without its members."""
    name = (array.name,)
    yield "array_info", (*name, array.uuid, array.level, str(array.layout), array.metadata, array.label), 1
    yield "array_size_bytes", name, array.size
    yield "array_chunk_bytes", name, array.chunk
    for state in STATES:
        yield "array_state", (*name, state), array.state == state
    yield "array_raid_disks", name, array.raid_disks
    yield "array_degraded_disks", name, array.degraded
    yield "array_bitmap", name, array.bitmap
    yield "array_writes_suspended", name, array.suspended
    yield "array_mismatch_sectors", name, array.mismatches
    sync = array.sync
    for action in ACTIONS:
        yield "array_sync_action", (*name, action), action == (sync.action if sync else "idle")
    if sync:
        if sync.done_sectors is not None and sync.total_sectors:
            yield "array_sync_done_ratio", name, sync.done_sectors / sync.total_sectors
        speed = None if sync.speed_kib is None else sync.speed_kib << 10
        yield "array_sync_speed_bytes_per_second", name, speed
        yield "array_sync_left_seconds", name, sync.left_seconds


def cache_samples(cache: BlockCache) -> Iterator[Sample]:
    name = (cache.title,)
    yield "cache_info", (*name, cache.kind, cache.mode, cache.policy), 1
    yield "cache_size_bytes", name, cache.size
    yield "cache_used_bytes", name, cache.used
    yield "cache_dirty_bytes", name, cache.dirty
    yield "cache_broken", name, bool(cache.faults)
    for key, value in cache.counters.items():
        if (counter := f"cache_{key}_total") in METRICS:
            yield counter, name, value


def member_samples(array: Array) -> Iterator[Sample]:
    """Yields the samples of an array's members."""
    superblocks = [other.superblock for other in array.members if other.superblock]
    # Damaged superblocks may have any value; those of spares are written at other times.
    sound = [other for other in superblocks if other.accepted and other.role != "spare"]
    newest = max((other.events for other in sound), default=0)
    for member in array.members:
        name = (array.name, member.name)
        slot = "" if member.slot is None else str(member.slot)
        yield "member_info", (*name, slot, member.kind), 1
        yield "member_size_bytes", name, member.size
        for state in MEMBER_STATES:
            yield "member_state", (*name, state), state in member.states
        yield "member_read_errors_total", name, member.errors
        if member.listed is not None or member.superblock:
            yield "member_bad_blocks_entries", name, member.entries
            yield "member_bad_blocks_sectors", name, sum(bad_range.sectors for bad_range in member.ranges)
        if member.listed is not None:
            yield "member_bad_blocks_unacknowledged", name, member.unacknowledged
            yield "member_bad_blocks_cut", name, member.listed_cut
        if superblock := member.superblock:
            yield "member_bad_blocks_configured", name, member.bad_blocks is not None
            yield "member_events", name, superblock.events
            if superblock in sound:
                yield "member_events_behind", name, newest - superblock.events
            yield "member_superblock_checksum_ok", name, superblock.checksum_holds


def activity_samples(array: Array, member: ArrayMember, activity: DeviceActivity) -> Iterator[Sample]:
    """Yields the I/O counters of a member."""
    name = (array.name, member.name)
    for at, word, past in ((0, "read", "read"), (1, "write", "written")):
        yield f"member_{word}s_completed_total", name, activity.ios[at]
        yield f"member_{past}_bytes_total", name, activity.sectors[at] * SECTOR
        yield f"member_{word}_time_seconds_total", name, activity.ticks_ns[at] / 1e9
    yield "member_io_time_seconds_total", name, activity.busy_ns / 1e9
    yield "member_io_time_weighted_seconds_total", name, activity.queue_ns / 1e9


def finding_samples(findings: Iterable[Diagnostic]) -> Iterator[Sample]:
    """Yields the number of findings for each array, severity and rule."""
    for labels, count in Counter((finding.subject, finding.severity, finding.code) for finding in findings).items():
        yield "findings", labels, count


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

    def describe(self) -> list[Family]:
        return make_families(())

    def collect(self) -> list[Family]:
        """Returns every metric. Failures are in `up` and in the log; raises nothing."""
        return self._collections.run((), self._collect)

    def _collect(self) -> list[Family]:
        began = time.perf_counter()
        samples: list[Sample] = []
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
        return [family for family in make_families(samples) if family.samples]

    def _samples(self, problems: list[str]) -> Iterator[Sample]:
        inventory = self._inventories.read()
        problems += list_unseen(inventory)
        problems += self._activity.read()
        for array in inventory.arrays:
            yield from array_samples(array)
            yield from member_samples(array)
            for member in array.members:
                if activity := self._activity.of(member.name):
                    yield from activity_samples(array, member, activity)
        # Only root sees dm-cache, so caches that cannot be read are no problem of this service.
        for cache in read_caches(self._roots).caches:
            yield from cache_samples(cache)
        yield from finding_samples(find_problems(inventory))

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
