"""md's resync, check or recovery runs next to the load."""

from collections.abc import Iterator

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.array_members import MD_THREAD, syncs
from blklab.report.causes.waiting import Waiting, device_ns, sum_ns

LEAST = 0.05  # Share of the members' bytes from which on it is told


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the arrays that md checks, resyncs or recovers."""
    for array, members in waiting.arrays():
        own = [group for each in members for group in each.groups("processes") if MD_THREAD.fullmatch(group.label)]
        resync = [group for group in own if group.label.endswith("_resync")]
        moved, whole = sum(group.bytes for group in resync or own), sum(each.bytes for each in members)
        if not syncs(array, members, own) or moved < LEAST * whole:
            continue
        waits = [each.data.waits for each in members]
        behind = sum(sum_ns(each.behind_resync) for each in waits)
        count = sum(each.behind_resync.count for each in waits)
        alone, others = sum(sum_ns(each.alone) for each in waits), sum(each.alone.count for each in waits)
        # With parity, one thread reads for the resync and for writes: then the bytes are all that is known.
        share = behind / (sum(map(device_ns, members)) or 1.0) if resync else moved / whole
        told = f"; I/Os that came while it was in flight took {formatting.duration(behind / count)}" if count else ""
        told += f" on average, the others {formatting.duration(alone / others)}" if count and others else ""
        message = (
            f"md checks, resyncs or recovers the array{'' if resync else ', or reads what a missing member had'}:"
            f" {formatting.size(moved)}, {formatting.share(moved / whole)} of the bytes of its members{told}"
        )
        layer = waiting.view.stack.get(array.number)
        limit = f"/sys/block/{layer.name if layer else 'mdX'}/md/sync_speed_max"
        remedy = (
            "see /proc/mdstat: a recovery, or a resync after a crash, brings back the redundancy, so let it end first;"
            f" a check can be slower ({limit}, KiB/s) or run at night",
        )
        yield waiting.cause("md-sync", array, share * device_ns(array), message, *remedy)
