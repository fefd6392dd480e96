"""The metrics of `blklab md watch`, and their samples."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from blklab.caches.status import BlockCache
from blklab.diagnostic import Diagnostic
from blklab.md.inventory import PASSES
from blklab.md.model import Array, ArrayMember
from blklab.system.diskstats import DeviceActivity
from blklab.text.printing import printable
from blklab.units import SECTOR

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

Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True)
class ExportedMetric:
    """What is exported of each array, member or cache, or once."""

    name: str  # Without prefix; those of counters end in `_total`, others are gauges
    help: str
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"

    def make_family(self) -> Family:
        """Returns the metric for the client library, without samples."""
        if self.kind == "counter":
            return CounterMetricFamily(PREFIX + self.name, self.help, labels=self.labels)
        return GaugeMetricFamily(PREFIX + self.name, self.help, labels=self.labels)


METRICS: dict[str, ExportedMetric] = {}
"""All metrics by name, in the order in which they are exported."""


def _declare(name: str, meaning: str, *labels: str) -> ExportedMetric:
    METRICS[name] = ExportedMetric(name, meaning, labels)
    return METRICS[name]


ARRAY_INFO = _declare(
    "array_info",
    "UUID, level, layout, metadata and name of the array; always 1.",
    "array",
    "uuid",
    "level",
    "layout",
    "metadata",
    "name",
)
ARRAY_ABSENT = _declare(
    "array_absent",
    "1 for an array that is not assembled: of mdadm.conf, of members on the disks, or seen since this process started.",
    "array",
    "uuid",
)
ARRAY_SIZE_BYTES = _declare("array_size_bytes", "Size of the array.", "array")
ARRAY_CHUNK_BYTES = _declare("array_chunk_bytes", "Chunk size; 0 for levels without chunks.", "array")
ARRAY_STATE = _declare("array_state", "1 for the present state of the array.", "array", "state")
ARRAY_RAID_DISKS = _declare("array_raid_disks", "Members of the complete array.", "array")
ARRAY_DEGRADED_DISKS = _declare("array_degraded_disks", "Members that are missing.", "array")
ARRAY_BITMAP = _declare("array_bitmap", "1 if the array has a write-intent bitmap.", "array")
ARRAY_WRITES_SUSPENDED = _declare(
    "array_writes_suspended", "1 if writes to a part of the array are suspended (suspend_lo, suspend_hi).", "array"
)
ARRAY_MISMATCH_SECTORS = _declare("array_mismatch_sectors", "Sectors that differed in the last check.", "array")
ARRAY_SYNC_ACTION = _declare("array_sync_action", "1 for the running sync action.", "array", "action")
ARRAY_SYNC_DONE_RATIO = _declare("array_sync_done_ratio", "Finished part of the sync action, 0 to 1.", "array")
ARRAY_SYNC_SPEED_BYTES_PER_SECOND = _declare(
    "array_sync_speed_bytes_per_second", "Speed of the sync action on each member.", "array"
)
ARRAY_SYNC_LEFT_SECONDS = _declare(
    "array_sync_left_seconds", "Remaining time of the sync action at its present speed.", "array"
)
MEMBER_INFO = _declare("member_info", "Slot and kind of the member; always 1.", "array", "member", "slot", "kind")
MEMBER_SIZE_BYTES = _declare("member_size_bytes", "Size of the device.", "array", "member")
MEMBER_STATE = _declare("member_state", "1 for each present state of the member.", "array", "member", "state")
MEMBER_BAD_BLOCKS_CONFIGURED = _declare(
    "member_bad_blocks_configured", "1 if the member has a bad-block list, empty or not.", "array", "member"
)
MEMBER_BAD_BLOCKS_ENTRIES = _declare("member_bad_blocks_entries", "Entries of the bad-block list.", "array", "member")
MEMBER_BAD_BLOCKS_SECTORS = _declare(
    "member_bad_blocks_sectors", "Sectors of 512 bytes in the bad-block list.", "array", "member"
)
MEMBER_BAD_BLOCKS_UNACKNOWLEDGED = _declare(
    "member_bad_blocks_unacknowledged",
    "Entries of the bad-block list that md has not yet written to the disk.",
    "array",
    "member",
)
MEMBER_BAD_BLOCKS_CUT = _declare(
    "member_bad_blocks_cut",
    "1 if sysfs shows only one full page of the bad-block list, which is nearly full.",
    "array",
    "member",
)
MEMBER_READ_ERRORS_TOTAL = _declare(
    "member_read_errors_total", "Read errors that md corrected since the array was assembled.", "array", "member"
)
MEMBER_EVENTS = _declare("member_events", "Event count of the superblock.", "array", "member")
MEMBER_EVENTS_BEHIND = _declare(
    "member_events_behind", "Difference to the highest event count of the array.", "array", "member"
)
MEMBER_SUPERBLOCK_CHECKSUM_OK = _declare(
    "member_superblock_checksum_ok", "1 if the checksum of the superblock is right.", "array", "member"
)
MEMBER_READS_COMPLETED_TOTAL = _declare(
    "member_reads_completed_total", "Reads that the device completed.", "array", "member"
)
MEMBER_WRITES_COMPLETED_TOTAL = _declare(
    "member_writes_completed_total", "Writes that the device completed.", "array", "member"
)
MEMBER_READ_BYTES_TOTAL = _declare("member_read_bytes_total", "Bytes read from the device.", "array", "member")
MEMBER_WRITTEN_BYTES_TOTAL = _declare("member_written_bytes_total", "Bytes written to the device.", "array", "member")
MEMBER_READ_TIME_SECONDS_TOTAL = _declare(
    "member_read_time_seconds_total", "Sum of the latencies of all reads.", "array", "member"
)
MEMBER_WRITE_TIME_SECONDS_TOTAL = _declare(
    "member_write_time_seconds_total", "Sum of the latencies of all writes.", "array", "member"
)
MEMBER_IO_TIME_SECONDS_TOTAL = _declare(
    "member_io_time_seconds_total", "Time with at least one I/O in flight.", "array", "member"
)
MEMBER_IO_TIME_WEIGHTED_SECONDS_TOTAL = _declare(
    "member_io_time_weighted_seconds_total", "Time multiplied by the number of I/Os in flight.", "array", "member"
)
FINDINGS = _declare(
    "findings",
    "Findings of `blklab md audit`; array is empty for findings about the host.",
    "array",
    "severity",
    "rule",
)
CACHE_INFO = _declare(
    "cache_info", "Kind, mode and policy of a block cache; always 1.", "cache", "kind", "mode", "policy"
)
CACHE_SIZE_BYTES = _declare("cache_size_bytes", "Size of the cache.", "cache")
CACHE_USED_BYTES = _declare("cache_used_bytes", "Part of the cache that is in use.", "cache")
CACHE_DIRTY_BYTES = _declare("cache_dirty_bytes", "Data that exist only on the cache device.", "cache")
CACHE_BROKEN = _declare("cache_broken", "1 if the kernel reports that the cache is broken.", "cache")
CACHE_READ_HITS_TOTAL = _declare("cache_read_hits_total", "Reads that the cache served.", "cache")
CACHE_READ_MISSES_TOTAL = _declare("cache_read_misses_total", "Reads that the origin served.", "cache")
CACHE_WRITE_HITS_TOTAL = _declare("cache_write_hits_total", "Writes to cached blocks.", "cache")
CACHE_WRITE_MISSES_TOTAL = _declare("cache_write_misses_total", "Writes to other blocks.", "cache")
CACHE_PROMOTIONS_TOTAL = _declare("cache_promotions_total", "Blocks copied to the cache.", "cache")
CACHE_DEMOTIONS_TOTAL = _declare("cache_demotions_total", "Blocks removed from the cache.", "cache")
CACHE_BYPASSED_BYTES_TOTAL = _declare("cache_bypassed_bytes_total", "I/O that bypassed a bcache.", "cache")
CACHE_WRITTEN_BYTES_TOTAL = _declare(
    "cache_written_bytes_total", "Bytes written to the cache device of a bcache.", "cache"
)
UNSEEN = _declare("unseen", "Items that could not be read: see the log, or `blklab md audit`.")
SUPERBLOCKS_READ_TIMESTAMP_SECONDS = _declare(
    "superblocks_read_timestamp_seconds", "Time at which superblocks were last read."
)
SCRAPE_DURATION_SECONDS = _declare("scrape_duration_seconds", "Duration of this scrape.")
COLLECTION_AGE_SECONDS = _declare(
    "collection_age_seconds", "Age of these figures: above 0 if a newer collection was not ready within a second."
)
UP = _declare("up", "1 if all metrics were collected, 0 if an error occurred: see the log.")
EXPORTER_INFO = _declare("exporter_info", "Version of blklab; always 1.", "version")

Sample = tuple[ExportedMetric, tuple[str, ...], float | None]
"""Metric, labels, value; a value of None is unknown and not exported."""


def make_families(samples: Iterable[Sample]) -> list[Family]:
    """Returns every metric for the client library, also those without a sample.

    Control characters in labels are escaped, because names come from disks.
    """
    families_by_name = {name: metric.make_family() for name, metric in METRICS.items()}
    # Escaped names may be equal, but a series must not appear twice.
    values = {
        (metric.name, tuple(map(printable, labels))): value for metric, labels, value in samples if value is not None
    }
    for (name, labels), value in values.items():
        families_by_name[name].add_metric(labels, value)
    return list(families_by_name.values())


def array_samples(array: Array) -> Iterator[Sample]:
    """Yields the samples of an array, without its members."""
    name = (array.name,)
    yield ARRAY_INFO, (*name, array.uuid, array.level, str(array.layout), array.metadata, array.label), 1
    yield ARRAY_SIZE_BYTES, name, array.size
    yield ARRAY_CHUNK_BYTES, name, array.chunk
    for state in STATES:
        yield ARRAY_STATE, (*name, state), array.state == state
    yield ARRAY_RAID_DISKS, name, array.raid_disks
    yield ARRAY_DEGRADED_DISKS, name, array.degraded
    yield ARRAY_BITMAP, name, array.bitmap
    yield ARRAY_WRITES_SUSPENDED, name, array.suspended
    yield ARRAY_MISMATCH_SECTORS, name, array.mismatches
    sync = array.sync
    for action in ACTIONS:
        yield ARRAY_SYNC_ACTION, (*name, action), action == (sync.action if sync else "idle")
    if sync:
        if sync.done_sectors is not None and sync.total_sectors:
            yield ARRAY_SYNC_DONE_RATIO, name, sync.done_sectors / sync.total_sectors
        speed = None if sync.speed_kib is None else sync.speed_kib << 10
        yield ARRAY_SYNC_SPEED_BYTES_PER_SECOND, name, speed
        yield ARRAY_SYNC_LEFT_SECONDS, name, sync.left_seconds


CACHE_COUNTERS = {
    "read_hits": CACHE_READ_HITS_TOTAL,
    "read_misses": CACHE_READ_MISSES_TOTAL,
    "write_hits": CACHE_WRITE_HITS_TOTAL,
    "write_misses": CACHE_WRITE_MISSES_TOTAL,
    "promotions": CACHE_PROMOTIONS_TOTAL,
    "demotions": CACHE_DEMOTIONS_TOTAL,
    "bypassed_bytes": CACHE_BYPASSED_BYTES_TOTAL,
    "written_bytes": CACHE_WRITTEN_BYTES_TOTAL,
}
"""Counters of `BlockCache` that are exported."""


def cache_samples(cache: BlockCache) -> Iterator[Sample]:
    name = (cache.title,)
    yield CACHE_INFO, (*name, cache.kind, cache.mode, cache.policy), 1
    yield CACHE_SIZE_BYTES, name, cache.size
    yield CACHE_USED_BYTES, name, cache.used
    yield CACHE_DIRTY_BYTES, name, cache.dirty
    yield CACHE_BROKEN, name, bool(cache.faults)
    for key, value in cache.counters.items():
        if key in CACHE_COUNTERS:
            yield CACHE_COUNTERS[key], name, value


def member_samples(array: Array) -> Iterator[Sample]:
    """Yields the samples of an array's members."""
    superblocks = [other.superblock for other in array.members if other.superblock]
    # Damaged superblocks may have any value; those of spares are written at other times.
    sound = [other for other in superblocks if other.accepted and other.role != "spare"]
    newest = max((other.events for other in sound), default=0)
    for member in array.members:
        name = (array.name, member.name)
        slot = "" if member.slot is None else str(member.slot)
        yield MEMBER_INFO, (*name, slot, member.kind), 1
        yield MEMBER_SIZE_BYTES, name, member.size
        for state in MEMBER_STATES:
            yield MEMBER_STATE, (*name, state), state in member.states
        yield MEMBER_READ_ERRORS_TOTAL, name, member.errors
        if member.listed is not None or member.superblock:
            yield MEMBER_BAD_BLOCKS_ENTRIES, name, member.entries
            yield MEMBER_BAD_BLOCKS_SECTORS, name, sum(bad_range.sectors for bad_range in member.ranges)
        if member.listed is not None:
            yield MEMBER_BAD_BLOCKS_UNACKNOWLEDGED, name, member.unacknowledged
            yield MEMBER_BAD_BLOCKS_CUT, name, member.listed_cut
        if superblock := member.superblock:
            yield MEMBER_BAD_BLOCKS_CONFIGURED, name, member.bad_blocks is not None
            yield MEMBER_EVENTS, name, superblock.events
            if superblock in sound:
                yield MEMBER_EVENTS_BEHIND, name, newest - superblock.events
            yield MEMBER_SUPERBLOCK_CHECKSUM_OK, name, superblock.checksum_holds


def activity_samples(array: Array, member: ArrayMember, activity: DeviceActivity) -> Iterator[Sample]:
    """Yields the I/O counters of a member."""
    name = (array.name, member.name)
    reads, writes = activity.ios
    sectors_read, sectors_written = activity.sectors
    read_ns, write_ns = activity.ticks_ns
    yield MEMBER_READS_COMPLETED_TOTAL, name, reads
    yield MEMBER_READ_BYTES_TOTAL, name, sectors_read * SECTOR
    yield MEMBER_READ_TIME_SECONDS_TOTAL, name, read_ns / 1e9
    yield MEMBER_WRITES_COMPLETED_TOTAL, name, writes
    yield MEMBER_WRITTEN_BYTES_TOTAL, name, sectors_written * SECTOR
    yield MEMBER_WRITE_TIME_SECONDS_TOTAL, name, write_ns / 1e9
    yield MEMBER_IO_TIME_SECONDS_TOTAL, name, activity.busy_ns / 1e9
    yield MEMBER_IO_TIME_WEIGHTED_SECONDS_TOTAL, name, activity.queue_ns / 1e9


def finding_samples(findings: Iterable[Diagnostic]) -> Iterator[Sample]:
    """Yields the number of findings for each array, severity and rule."""
    for labels, count in Counter((finding.subject, finding.severity, finding.code) for finding in findings).items():
        yield FINDINGS, labels, count
