"""Causes in arrays and caches: one of the devices below, or what md does with them."""

import re
from collections.abc import Iterator, Sequence
from statistics import median

from blklab.diagnostic import Diagnostic
from blklab.render.formatting import duration, number, ops, size
from blklab.render.formatting import share as share_text
from blklab.trace.array_members import MD_THREAD, syncs
from blklab.trace.causes.waiting import FEWEST, Waiting, device_ns, sum_ns
from blklab.trace.view import DeviceView, OriginGroup

BUSY = 0.9  # A member that is busy for this share of a time limits the array in this time,
LESS_BUSY = 0.5  # if the others are busy for at most this part of that,
SLOWER = 3.0  # and if an I/O takes at least so many times as long on it,
ALIKE = 2.0  # whose mean size is at most so many times that on the others
LEAST_HELD = 0.2  # Smallest share of the array's I/O in flight, so that a short moment is no cause


def slow_member(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the members that limit their arrays.

    One member limits its array: it is busy while the others are idle, and slower than they are.
    """
    for array, members in waiting.arrays():
        if any(waiting.role(member) for member in members):
            continue  # A cache and what is below it differ by intention
        parts = [_by_time(device) for device in (array, *members)]
        width = max(step for step, _ in parts)
        area, *busy = (_merge_slices(step, slices, width) for step, slices in parts)
        for index, member in enumerate(members):
            if cause := _find_limit(waiting, array, member, members, width, area, index, busy):
                yield cause


def _by_time(device: DeviceView) -> tuple[int, list[tuple[float, float]]]:
    depth = device.data.depth_over_time
    return depth.width_ns, [(part.area_ns, part.busy_ns) for part in depth.slices]


def _merge_slices(step: int, slices: Sequence[tuple[float, float]], width: int) -> list[tuple[float, float]]:
    """Returns slices of `width`, which is a multiple of theirs."""
    group_size = max(1, width // step)
    result = []
    for start in range(0, len(slices), group_size):
        group = slices[start : start + group_size]
        area = sum(part[0] for part in group)
        busy = sum(part[1] for part in group)
        result.append((area, busy))
    return result


def _find_limit(
    waiting: Waiting,
    array: DeviceView,
    member: DeviceView,
    members: Sequence[DeviceView],
    width: int,
    area: Sequence[tuple[float, float]],
    position: int,
    busy: Sequence[Sequence[tuple[float, float]]],
) -> Diagnostic | None:
    def share(index: int, part: int) -> float:
        return busy[index][part][1] / width if part < len(busy[index]) else 0.0

    limiting_parts = []
    for part in range(len(area)):
        others_usage = median(share(index, part) for index in range(len(members)) if index != position)
        if share(position, part) >= BUSY and others_usage <= LESS_BUSY * share(position, part):
            limiting_parts.append(part)
    total = sum(entry[0] for entry in area)
    limited_area = sum(area[part][0] for part in limiting_parts)
    op, slow, usual = _slowest_op(member, [entry for entry in members if entry is not member])
    if not limiting_parts or limited_area < LEAST_HELD * total or slow < SLOWER * usual:
        return None
    shares_of_others = []
    for index in range(len(members)):
        if index != position:
            shares_of_others.append(sum(share(index, part) for part in limiting_parts) / len(limiting_parts))
    others_usage = median(shares_of_others)
    usage = sum(share(position, part) for part in limiting_parts) / len(limiting_parts)
    start = duration(limiting_parts[0] * width)
    end = duration((limiting_parts[-1] + 1) * width)
    return waiting.cause(
        "slow-member",
        array,
        device_ns(array) * limited_area / total,
        f"{member.label} limits {array.label}: from {start} to {end} it is busy for {share_text(usage)} of the time, "
        f"other members for {share_text(others_usage)}; "
        f"{ops(op)} take {duration(slow)} on it, {duration(usual)} on others",
        f"look for what is wrong with {member.label}: smartctl -a, its cable, other load on it",
        "blklab advise runs the array with other members, and blklab md audit checks it",
        member=member.label,
    )


def _slowest_op(member: DeviceView, other_members: Sequence[DeviceView]) -> tuple[str, float, float]:
    """Returns the operation in which a member differs most, its mean time, and the median of the others'."""
    operations = [("write", 0.0, 1.0)]
    for op in ("read", "write"):
        member_latency = member.latency(op)
        latencies_of_others = [other.latency(op) for other in other_members]
        times = [latency.mean or 0.0 for latency in latencies_of_others if latency and latency.count >= FEWEST]
        devices = (member, *other_members)
        sizes = [device.op(op).sizes.mean_bytes or 0.0 for device in devices if device.op(op).ios >= FEWEST]
        if member_latency and member_latency.count >= FEWEST and times and max(sizes) <= ALIKE * min(sizes):
            operations.append((op, member_latency.mean or 0.0, max(1.0, median(times))))
    return max(operations, key=lambda operation: operation[1] / operation[2])


PARITY_THREAD = re.compile(r"md\w*_raid[456]")
LEAST_READS = 0.5  # Reads of md for each write from which on it is the cause
RESYNC_READS = 4.0  # More reads of each member for each write are not because of writes, but a resync


def parity_reads(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the arrays with parity whose members are read because of writes.

    Small writes on RAID-4, 5 or 6: md reads before it writes (read, modify, write).
    """
    for array, members in waiting.arrays():
        writes = array.op("write").ios
        threads = _threads(members, PARITY_THREAD)
        reads = sum(thread.ios.get("read", 0) for thread in threads) / max(1, writes)
        if writes < FEWEST or not LEAST_READS <= reads <= RESYNC_READS * len(members):
            continue
        written = sum(member.op("write").ios for member in members) / writes
        written_size = size(array.op("write").sizes.mode_bytes)
        yield waiting.cause(
            "read-modify-write",
            array,
            waiting.op_ns(array, "write"),
            f"md reads before it writes: each write, mostly of {written_size}, "
            f"causes {number(reads)} reads and {number(written)} writes on the members",
            "write whole stripes (chunk size times data disks) or in sequence, so that md needs no reads; "
            "but if a member is missing (/proc/mdstat), md reads for that: replace it first",
            "for small random writes, RAID-1 or RAID-10: blklab advise compares them",
        )


def _threads(members: Sequence[DeviceView], name: re.Pattern[str]) -> list[OriginGroup]:
    """Returns the kernel's threads that queued I/Os on the members, by the pattern of their names."""
    groups = [group for member in members for group in member.groups("processes")]
    return [group for group in groups if name.fullmatch(group.label)]


LEAST_SYNCED = 0.05  # Share of the members' bytes from which on it is told


def md_sync(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the arrays that md checks, resyncs or recovers.

    md's resync, check or recovery runs next to the load.
    """
    for array, members in waiting.arrays():
        threads = _threads(members, MD_THREAD)
        resync = [thread for thread in threads if thread.label.endswith("_resync")]
        moved_bytes = sum(thread.bytes for thread in resync or threads)
        total_bytes = sum(member.bytes for member in members)
        if not syncs(array, members, threads) or moved_bytes < LEAST_SYNCED * total_bytes:
            continue
        waits = [member.data.waits for member in members]
        behind_ns = sum(sum_ns(member_waits.behind_resync) for member_waits in waits)
        behind_count = sum(member_waits.behind_resync.count for member_waits in waits)
        alone_ns = sum(sum_ns(member_waits.alone) for member_waits in waits)
        alone_count = sum(member_waits.alone.count for member_waits in waits)
        # With parity, one thread reads for the resync and for writes: then the bytes are all that is known.
        share = behind_ns / (sum(map(device_ns, members)) or 1.0) if resync else moved_bytes / total_bytes
        times = ""
        if behind_count:
            times = f"; I/Os that came while it was in flight took {duration(behind_ns / behind_count)}"
            if alone_count:
                times += f" on average, the others {duration(alone_ns / alone_count)}"
        layer = waiting.view.stack.get(array.number)
        name = layer.name if layer else "mdX"
        reads = "" if resync else ", or reads what a missing member had"
        yield waiting.cause(
            "md-sync",
            array,
            share * device_ns(array),
            f"md checks, resyncs or recovers the array{reads}: {size(moved_bytes)}, "
            f"{share_text(moved_bytes / total_bytes)} of the bytes of its members{times}",
            "see /proc/mdstat: a recovery, or a resync after a crash, brings back the redundancy, so let it end first; "
            f"a check can be slower (/sys/block/{name}/md/sync_speed_max, KiB/s) or run at night",
        )


FEWEST_READS = 100  # Reads
PAST = 0.5  # Share of the bytes read that comes from the slow device
KEPT = 0.2  # Share of these that is written to the cache, from which on the cache is being filled


def cache_bypass(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the caches past which most reads go.

    Reads go past a cache: they come from the slow device and are not kept.
    """
    for device, lower in waiting.arrays():
        roles = {waiting.role(member): member for member in lower}
        cache = roles.get("cache")
        backing = roles.get("backing")
        reads = device.op("read")
        if cache is None or backing is None or reads.ios < FEWEST_READS:
            continue
        bypassed_bytes = backing.op("read").bytes
        filled_bytes = cache.op("write").bytes
        if bypassed_bytes < PAST * reads.bytes or filled_bytes >= KEPT * bypassed_bytes:
            continue
        sequential = device.streams("read").sequential_share
        yield waiting.cause(
            "cache-bypass",
            device,
            waiting.op_ns(backing, "read"),
            f"{share_text(bypassed_bytes / reads.bytes)} of the bytes read go past the cache {cache.label}: "
            f"they come from {backing.label} and are not kept; "
            f"reads are mostly of {size(reads.sizes.mode_bytes)}, {share_text(sequential)} of them sequential",
            "bcache lets streams pass: bcache/sequential_cutoff, and congested_read_threshold_us of its cache set",
            "dm-cache keeps what is read often: it needs time; blklab cache shows what a cache could do",
        )
