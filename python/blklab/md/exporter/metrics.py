"""All metrics with their types, help and labels, and their values from an inventory.

Names follow Prometheus's conventions (prometheus.io/docs/practices/naming). States are series of 0 and 1, one for each
state, as in node_exporter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from blklab.caches.model import BlockCache
from blklab.diagnostic import Diagnostic
from blklab.md.inventory import PASSES
from blklab.md.model import Array, ArrayMember
from blklab.md.superblocks import SECTOR
from blklab.system.diskstats import DeviceActivity
from blklab.text import printable

PREFIX: Final = "blklab_md_"

STATES: Final = (
    "inactive", "suspended", "readonly", "read-auto", "clean", "active", "write-pending", "active-idle", "broken",
)  # fmt: skip
"""States of assembled arrays: drivers/md/md.c, `array_states`, Linux 6.12, without `clear`."""

MEMBER_STATES: Final = (
    "faulty", "in_sync", "journal", "write_mostly", "blocked", "spare", "write_error",
    "want_replacement", "replacement", "external_bbl", "failfast",
)  # fmt: skip
"""States of members: drivers/md/md.c, `state_show`, Linux 6.12."""

ACTIONS: Final = ("idle", *sorted(PASSES))

ARRAY: Final = ("array",)
MEMBER: Final = ("array", "member")
CACHE: Final = ("cache",)


class MetricSpec(NamedTuple):
    """The help and labels of a metric. Names of counters end in `_total`; others are gauges."""

    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = {
    "array_info": MetricSpec(
        "UUID, level, layout, metadata and name of the array; always 1.",
        (*ARRAY, "uuid", "level", "layout", "metadata", "name"),
    ),
    "array_size_bytes": MetricSpec("Size of the array.", ARRAY),
    "array_chunk_bytes": MetricSpec("Chunk size; 0 for levels without chunks.", ARRAY),
    "array_state": MetricSpec("1 for the present state of the array.", (*ARRAY, "state")),
    "array_raid_disks": MetricSpec("Members of the complete array.", ARRAY),
    "array_degraded_disks": MetricSpec("Members that are missing.", ARRAY),
    "array_bitmap": MetricSpec("1 if the array has a write-intent bitmap.", ARRAY),
    "array_writes_suspended": MetricSpec(
        "1 if writes to a part of the array are suspended (suspend_lo, suspend_hi).", ARRAY
    ),
    "array_mismatch_sectors": MetricSpec("Sectors that differed in the last check.", ARRAY),
    "array_sync_action": MetricSpec("1 for the running sync action.", (*ARRAY, "action")),
    "array_sync_done_ratio": MetricSpec("Finished part of the sync action, 0 to 1.", ARRAY),
    "array_sync_speed_bytes_per_second": MetricSpec("Speed of the sync action on each member.", ARRAY),
    "array_sync_left_seconds": MetricSpec("Remaining time of the sync action at its present speed.", ARRAY),
    "member_info": MetricSpec("Slot and kind of the member; always 1.", (*MEMBER, "slot", "kind")),
    "member_size_bytes": MetricSpec("Size of the device.", MEMBER),
    "member_state": MetricSpec("1 for each present state of the member.", (*MEMBER, "state")),
    "member_bad_blocks_configured": MetricSpec("1 if the member has a bad-block list, empty or not.", MEMBER),
    "member_bad_blocks_entries": MetricSpec("Entries of the bad-block list.", MEMBER),
    "member_bad_blocks_sectors": MetricSpec("Sectors of 512 bytes in the bad-block list.", MEMBER),
    "member_bad_blocks_unacknowledged": MetricSpec(
        "Entries of the bad-block list that md has not yet written to the disk.", MEMBER
    ),
    "member_bad_blocks_cut": MetricSpec(
        "1 if sysfs shows only one full page of the bad-block list, which is nearly full.", MEMBER
    ),
    "member_read_errors_total": MetricSpec("Read errors that md corrected since the array was assembled.", MEMBER),
    "member_events": MetricSpec("Event count of the superblock.", MEMBER),
    "member_events_behind": MetricSpec("Difference to the highest event count of the array.", MEMBER),
    "member_superblock_checksum_ok": MetricSpec("1 if the checksum of the superblock is right.", MEMBER),
    "member_reads_completed_total": MetricSpec("Reads that the device completed.", MEMBER),
    "member_writes_completed_total": MetricSpec("Writes that the device completed.", MEMBER),
    "member_read_bytes_total": MetricSpec("Bytes read from the device.", MEMBER),
    "member_written_bytes_total": MetricSpec("Bytes written to the device.", MEMBER),
    "member_read_time_seconds_total": MetricSpec("Sum of the latencies of all reads.", MEMBER),
    "member_write_time_seconds_total": MetricSpec("Sum of the latencies of all writes.", MEMBER),
    "member_io_time_seconds_total": MetricSpec("Time with at least one I/O in flight.", MEMBER),
    "member_io_time_weighted_seconds_total": MetricSpec("Time multiplied by the number of I/Os in flight.", MEMBER),
    "findings": MetricSpec(
        "Findings of `blklab md audit`; array is empty for findings about the host.", (*ARRAY, "severity", "rule")
    ),
    "cache_info": MetricSpec("Kind, mode and policy of a block cache; always 1.", (*CACHE, "kind", "mode", "policy")),
    "cache_size_bytes": MetricSpec("Size of the cache.", CACHE),
    "cache_used_bytes": MetricSpec("Part of the cache that is in use.", CACHE),
    "cache_dirty_bytes": MetricSpec("Data that exist only on the cache device.", CACHE),
    "cache_broken": MetricSpec("1 if the kernel reports that the cache is broken.", CACHE),
    "cache_read_hits_total": MetricSpec("Reads that the cache served.", CACHE),
    "cache_read_misses_total": MetricSpec("Reads that the origin served.", CACHE),
    "cache_write_hits_total": MetricSpec("Writes to cached blocks.", CACHE),
    "cache_write_misses_total": MetricSpec("Writes to other blocks.", CACHE),
    "cache_promotions_total": MetricSpec("Blocks copied to the cache.", CACHE),
    "cache_demotions_total": MetricSpec("Blocks removed from the cache.", CACHE),
    "cache_bypassed_bytes_total": MetricSpec("I/O that bypassed a bcache.", CACHE),
    "cache_written_bytes_total": MetricSpec("Bytes written to the cache device of a bcache.", CACHE),
    "unseen": MetricSpec("Items that could not be read: see the log, or `blklab md audit`."),
    "superblocks_read_timestamp_seconds": MetricSpec("Time at which superblocks were last read."),
    "scrape_duration_seconds": MetricSpec("Duration of this scrape."),
    "up": MetricSpec("1 if all metrics were collected, 0 if an error occurred: see the log."),
    "exporter_info": MetricSpec("Version of blklab; always 1.", ("version",)),
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
    layout = str(array.layout)
    yield "array_info", (*name, array.uuid, array.level, layout, array.metadata, array.label), 1
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
        if sync.done is not None and sync.total:
            yield "array_sync_done_ratio", name, sync.done / sync.total
        speed = None if sync.speed is None else sync.speed << 10
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
