"""What is exported: every metric's name, type, help and labels, and its values from an inventory.

Names follow Prometheus's conventions (prometheus.io/docs/practices/naming); states are series of 0
and 1, a series a state, as node_exporter has them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from blklab.diagnostic import Diagnostic
from blklab.md.inventory import PASSES
from blklab.md.model import Array, ArrayMember
from blklab.md.superblocks import SECTOR
from blklab.system.diskstats import DeviceActivity
from blklab.text import printable

PREFIX: Final = "blklab_md_"

STATES: Final = (
    "inactive", "suspended", "readonly", "read-auto", "clean", "active", "write-pending",
    "active-idle", "broken",
)  # fmt: skip
"""Of arrays that are assembled: drivers/md/md.c, `array_states`, Linux 6.12, without `clear`."""

MEMBER_STATES: Final = (
    "faulty", "in_sync", "journal", "write_mostly", "blocked", "spare", "write_error",
    "want_replacement", "replacement", "external_bbl", "failfast",
)  # fmt: skip
"""Of members: drivers/md/md.c, `state_show`, Linux 6.12."""

ACTIONS: Final = ("idle", *sorted(PASSES))

ARRAY: Final = ("array",)
MEMBER: Final = ("array", "member")


class MetricSpec(NamedTuple):
    """What a metric is. Counters' names end in `_total`; all others are gauges."""

    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = {
    "array_info": MetricSpec(
        "What the array is; always 1.", (*ARRAY, "uuid", "level", "layout", "metadata", "name")
    ),
    "array_size_bytes": MetricSpec("Size of the array.", ARRAY),
    "array_chunk_bytes": MetricSpec("Size of its chunks; 0 for levels without.", ARRAY),
    "array_state": MetricSpec("1 for the state that the array is in.", (*ARRAY, "state")),
    "array_raid_disks": MetricSpec("Members that the array has when it is whole.", ARRAY),
    "array_degraded_disks": MetricSpec("Members that are lacking.", ARRAY),
    "array_bitmap": MetricSpec("1 if it has a write-intent bitmap.", ARRAY),
    "array_mismatch_sectors": MetricSpec("Sectors that the last check found unlike.", ARRAY),
    "array_sync_action": MetricSpec("1 for the pass that is under way.", (*ARRAY, "action")),
    "array_sync_done_ratio": MetricSpec("How much of the pass is done, 0 to 1.", ARRAY),
    "array_sync_speed_bytes_per_second": MetricSpec("Speed of the pass, on each member.", ARRAY),
    "array_sync_left_seconds": MetricSpec("Time left of the pass, at its present speed.", ARRAY),
    "member_info": MetricSpec(
        "What the member is, and in which slot; always 1.", (*MEMBER, "slot", "kind")
    ),
    "member_size_bytes": MetricSpec("Size of the device.", MEMBER),
    "member_state": MetricSpec("1 for each state that the member is in.", (*MEMBER, "state")),
    "member_bad_blocks_configured": MetricSpec(
        "1 if the superblock has a bad-block list, empty or not.", MEMBER
    ),
    "member_bad_blocks_entries": MetricSpec("Entries of the bad-block list.", MEMBER),
    "member_bad_blocks_sectors": MetricSpec("Sectors of 512 bytes that are listed bad.", MEMBER),
    "member_bad_blocks_unacknowledged": MetricSpec(
        "Entries of the bad-block list that wait to be written to the disk.", MEMBER
    ),
    "member_bad_blocks_cut": MetricSpec(
        "1 if sysfs shows a page of the bad-block list and no more: it is nearly full.", MEMBER
    ),
    "member_read_errors_total": MetricSpec(
        "Read errors that md mended since the array was assembled.", MEMBER
    ),
    "member_events": MetricSpec("Event count of the superblock.", MEMBER),
    "member_events_behind": MetricSpec(
        "Events that the superblock is behind the freshest of the array.", MEMBER
    ),
    "member_superblock_checksum_ok": MetricSpec("1 if the superblock's checksum holds.", MEMBER),
    "member_reads_completed_total": MetricSpec("Reads that the device completed.", MEMBER),
    "member_writes_completed_total": MetricSpec("Writes that the device completed.", MEMBER),
    "member_read_bytes_total": MetricSpec("Bytes read from the device.", MEMBER),
    "member_written_bytes_total": MetricSpec("Bytes written to the device.", MEMBER),
    "member_read_time_seconds_total": MetricSpec("Time of all reads, added up.", MEMBER),
    "member_write_time_seconds_total": MetricSpec("Time of all writes, added up.", MEMBER),
    "member_io_time_seconds_total": MetricSpec("Time in which anything was in flight.", MEMBER),
    "member_io_time_weighted_seconds_total": MetricSpec(
        "Time multiplied by how many I/Os were in flight.", MEMBER
    ),
    "findings": MetricSpec(
        "What `blklab md audit` finds; array is empty for what is of the whole machine.",
        (*ARRAY, "severity", "rule"),
    ),
    "unseen": MetricSpec("Things that could not be looked at: see the log, or `blklab md audit`."),
    "superblocks_read_timestamp_seconds": MetricSpec("When superblocks were last read."),
    "scrape_duration_seconds": MetricSpec("How long it took to collect this."),
    "up": MetricSpec("1 if everything was collected, 0 if something failed: see the log."),
    "exporter_info": MetricSpec("Version of blklab; always 1.", ("version",)),
}  # fmt: skip
"""Every metric there is, without its prefix, in the order in which they are exported."""

Sample = tuple[str, tuple[str, ...], float | None]
"""Name without prefix, labels, value; None for what is not known, which is not exported."""

Family = GaugeMetricFamily | CounterMetricFamily


def families(samples: Iterable[Sample]) -> list[Family]:
    """Returns every metric for the client library, those without a sample as well.

    Labels are made harmless: names come from disks.
    """
    samples_by_name = {
        name: (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(
            PREFIX + name, declared.help, labels=declared.labels
        )
        for name, declared in METRICS.items()
    }
    # A series must not be there twice, whatever names look alike once they are harmless.
    values = {
        (name, tuple(map(printable, labels))): value
        for name, labels, value in samples
        if value is not None
    }
    for (name, labels), value in values.items():
        samples_by_name[name].add_metric(labels, value)
    return list(samples_by_name.values())


def of_array(array: Array) -> Iterator[Sample]:
    """Yields what there is to say of an array, without its members."""
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


def of_members(array: Array) -> Iterator[Sample]:
    """Yields what there is to say of an array's members."""
    superblocks = [other.superblock for other in array.members if other.superblock]
    # Damaged superblocks say anything; spares' are written when they like.
    sound = [other for other in superblocks if other.checksum_holds and other.role != "spare"]
    newest = max((other.events for other in sound), default=0)
    for member in array.members:
        name = (array.name, member.name)
        slot = "" if member.slot is None else str(member.slot)
        yield "member_info", (*name, slot, member.kind), 1
        yield "member_size_bytes", name, member.size
        for state in MEMBER_STATES:
            yield "member_state", (*name, state), state in member.states
        yield "member_read_errors_total", name, member.errors
        yield from _bad_blocks(member, name)
        if superblock := member.superblock:
            yield "member_events", name, superblock.events
            if superblock in sound:
                yield "member_events_behind", name, newest - superblock.events
            yield "member_superblock_checksum_ok", name, superblock.checksum_holds


def _bad_blocks(member: ArrayMember, name: tuple[str, ...]) -> Iterator[Sample]:
    if member.superblock:
        yield "member_bad_blocks_configured", name, member.bad_blocks is not None
    if member.listed is not None or member.superblock:
        yield "member_bad_blocks_entries", name, member.entries
        yield "member_bad_blocks_sectors", name, sum(range_.sectors for range_ in member.ranges)
    if member.listed is not None:
        yield "member_bad_blocks_unacknowledged", name, member.unacknowledged
        yield "member_bad_blocks_cut", name, member.listed_cut


def of_activity(array: Array, member: ArrayMember, activity: DeviceActivity) -> Iterator[Sample]:
    """Yields what a member did."""
    name = (array.name, member.name)
    for at, word, past in ((0, "read", "read"), (1, "write", "written")):
        yield f"member_{word}s_completed_total", name, activity.ios[at]
        yield f"member_{past}_bytes_total", name, activity.sectors[at] * SECTOR
        yield f"member_{word}_time_seconds_total", name, activity.ticks_ns[at] / 1e9
    yield "member_io_time_seconds_total", name, activity.busy_ns / 1e9
    yield "member_io_time_weighted_seconds_total", name, activity.queue_ns / 1e9


def of_findings(findings: Iterable[Diagnostic]) -> Iterator[Sample]:
    """Yields how many findings there are of each array, severity and rule."""
    for labels, many in Counter(
        (finding.subject, finding.severity, finding.code) for finding in findings
    ).items():
        yield "findings", labels, many
