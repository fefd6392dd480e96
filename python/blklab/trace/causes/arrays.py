"""Causes in arrays and caches: one of the devices below, or what md does with them."""

import re
from collections.abc import Iterator, Sequence
from statistics import median

from blklab.diagnostic import Diagnostic
from blklab.render.formatting import duration, number, ops, size
from blklab.render.formatting import share as share_text
from blklab.trace.array_members import MD_THREAD, syncs
from blklab.trace.causes.io_shape import describe_shift, shifted_by
from blklab.trace.causes.users import is_program, victims_text
from blklab.trace.causes.waiting import FEWEST, Waiting, device_ns, program_waits, sum_ns
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
    window = limiting_parts[0] * width, (limiting_parts[-1] + 1) * width
    other_members = [entry for entry in members if entry is not member]
    when = f"from {duration(window[0])} to {duration(window[1])} it"
    if waiting.is_whole(array, window):
        # The figures of the tables, which are those of the whole trace
        usage = member.busy or usage
        others_usage = median(entry.busy or 0.0 for entry in other_members)
        when = "it"
    return waiting.cause(
        "slow-member",
        array,
        _excess_ns(array, member, other_members),
        f"{member.label} slows {array.label} down: {ops(op)} take {duration(slow)} on it, {duration(usual)} on the "
        f"other members; {when} is busy for {share_text(usage)} of the time, "
        f"the others for {share_text(others_usage)}",
        f"look for what is wrong with {member.label}: smartctl -a, its cable, other load on it",
        "blklab advise runs the array with other members, and blklab md audit checks it",
        member=member.label,
        window=window,
    )


def _excess_ns(array: DeviceView, member: DeviceView, other_members: Sequence[DeviceView]) -> float:
    """Returns the time that programs wait only because a member is slower than the median of the others."""
    excess_ns = 0.0
    for op in ("read", "write"):
        latency = member.latency(op)
        other_latencies = [other.latency(op) for other in other_members]
        times = [other.mean or 0.0 for other in other_latencies if other and other.count >= FEWEST]
        if not latency or not times:
            continue
        load = array.op(op)
        waited = 1.0
        if op == "write" and array.capabilities.layers and any(map(sum_ns, program_waits(array))):
            waited = load.sync / max(1, load.ios)
        excess_ns += waited * max(0.0, sum_ns(latency) - latency.count * median(times))
    return min(excess_ns, device_ns(array))


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
        remedies = [
            "write whole stripes (chunk size times data disks) or in sequence, so that md needs no reads; "
            "but if a member is missing (/proc/mdstat), md reads for that: replace it first",
            "for small random writes, RAID-1 or RAID-10: blklab advise compares them",
        ]
        shift_text = ""
        if shifted_by(array):
            # No write of whole stripes is one: its first and its last block are written in part.
            shift_text, remedy = describe_shift(waiting, array)
            shift_text = shift_text.replace("such a multiple", "a multiple of 4 KiB")
            remedies.insert(0, remedy)
        yield waiting.cause(
            "read-modify-write",
            array,
            waiting.op_ns(array, "write"),
            f"md reads before it writes: each write, mostly of {written_size}, "
            f"causes {number(reads)} reads and {number(written)} writes on the members{shift_text}",
            *remedies,
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
        share = moved_bytes / total_bytes
        held_ns = 0.0
        held_count = 1
        if resync:
            # Only what the resync adds: it is no cause if I/O takes as long without it.
            usual_ns = alone_ns / alone_count if alone_count >= FEWEST else 0.0
            share = max(0.0, behind_ns - behind_count * usual_ns) / (sum(map(device_ns, members)) or 1.0)
            held_ns, held_count = _held(array, members)
            share = min(1.0, share + held_ns / (device_ns(array) or 1.0))
        times = ""
        if behind_count:
            victims = _resync_victims(members)
            by = f" of {victims}" if victims else ""
            times = f"; I/Os{by} that came while it was in flight took {duration(behind_ns / behind_count)}"
            if alone_count:
                times += f" on average, the others {duration(alone_ns / alone_count)}"
        if held_ns:
            times += f"; md holds I/Os back for {duration(held_ns / held_count)} on average before its members get them"
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
MISSES = 0.5  # Share of the bytes read that comes from the slow device
KEPT = 0.2  # Share of these that is written to the cache, from which on the cache is being filled
SLOWER_BACKING = 2.0  # A read takes at least so many times as long on the slow device as on the cache


def _resync_victims(members: Sequence[DeviceView]) -> str:
    """Returns the processes that wait behind a resync on the members."""
    times = []
    for member in members:
        times += [(user, user.behind_resync) for user in member.data.users.users]
    return victims_text(times)


def _held(array: DeviceView, members: Sequence[DeviceView]) -> tuple[float, int]:
    """Returns the time for which md holds I/Os back, because a resync is at work there, and the number of all I/Os.

    It is what they take longer on the array than on the slowest member.
    """
    held_ns = 0.0
    ios = 0
    for op in ("read", "write"):
        latency = array.latency(op)
        member_latencies = [member.latency(op) for member in members]
        times = [entry.mean or 0.0 for entry in member_latencies if entry]
        if latency and times:
            held_ns += max(0.0, sum_ns(latency) - latency.count * max(times))
            ios += latency.count
    return held_ns, max(1, ios)


def cache_misses(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the caches whose reads mostly come from the slow device: they miss, or go past the cache.

    What goes past a cache is not kept; what misses is copied to the cache.
    """
    for device, lower in waiting.arrays():
        roles = {waiting.role(member): member for member in lower}
        cache = roles.get("cache")
        backing = roles.get("backing")
        reads = device.op("read")
        if cache is None or backing is None or reads.ios < FEWEST_READS:
            continue
        missed_bytes = _read_bytes(backing, device)
        # What programs write to the cache is no copy of a read.
        copied_bytes = max(0, cache.op("write").bytes - device.op("write").bytes)
        if missed_bytes < MISSES * reads.bytes:
            continue
        hits = max(0.0, 1.0 - missed_bytes / max(1, reads.bytes))
        if copied_bytes < KEPT * missed_bytes:
            yield _cache_bypass(waiting, device, cache, backing, missed_bytes)
        elif _is_slower(backing, cache, device):
            yield waiting.cause(
                "cache-misses",
                device,
                waiting.op_ns(backing, "read"),
                f"the cache {cache.label} misses: {share_text(hits)} of the bytes that {_readers_text(device)} reads "
                f"from {device.label} are hits, the rest comes from {backing.label}, where a read takes "
                f"{duration(_mean_ns(backing, device))}, {duration(_mean_ns(cache, device))} on the cache; "
                f"{size(copied_bytes)} were copied to the cache meanwhile",
                "a larger cache, if what is read does not fit: blklab cache curve shows the hit ratio by size",
                "or more time, if the cache has just been created: blklab cache advise says how long it takes to fill",
            )


def _read_bytes(lower: DeviceView, upper: DeviceView) -> int:
    """Returns the bytes that a device reads from the one below, without what its promotions read there.

    bcache does not trace remaps: then all reads count.
    """
    sources = [source for source in lower.data.load.sources if source.name == upper.number]
    return sum(source.bytes.get("read", 0) for source in sources) if sources else lower.op("read").bytes


def _cache_bypass(
    waiting: Waiting, device: DeviceView, cache: DeviceView, backing: DeviceView, missed_bytes: int
) -> Diagnostic:
    reads = device.op("read")
    sequential = device.streams("read").sequential_share
    return waiting.cause(
        "cache-bypass",
        device,
        waiting.op_ns(backing, "read"),
        f"{share_text(min(1.0, missed_bytes / reads.bytes))} of the bytes that {_readers_text(device)} reads go past "
        f"the cache {cache.label}: they come from {backing.label} and are not kept; "
        f"reads are mostly of {size(reads.sizes.mode_bytes)}, {share_text(sequential)} of them sequential",
        "bcache lets streams pass: bcache/sequential_cutoff, and congested_read_threshold_us of its cache set",
        "dm-cache keeps what is read often: it needs time; blklab cache shows what a cache could do",
    )


def _readers_text(device: DeviceView) -> str:
    """Returns the process that reads most from a device."""
    readers = [group for group in device.groups("processes") if group.ios.get("read") and is_program(group.label)]
    return max(readers, key=lambda group: group.ios["read"]).label if readers else "a program"


def _mean_ns(lower: DeviceView, upper: DeviceView) -> float:
    """Returns the mean time of the reads that `_read_bytes` counts."""
    sources = [source.read_q2c_ns for source in lower.data.load.sources if source.name == upper.number]
    if sources:
        return sum(map(sum_ns, sources)) / max(1, sum(source.count for source in sources))
    latency = lower.latency("read") or lower.latency("read", "d2c")
    return (latency.mean or 0.0) if latency else 0.0


def _is_slower(backing: DeviceView, cache: DeviceView, upper: DeviceView) -> bool:
    """Returns whether reads take clearly longer on the slow device, so that misses cost time."""
    cache_ns = _mean_ns(cache, upper)
    return cache_ns == 0.0 or _mean_ns(backing, upper) >= SLOWER_BACKING * cache_ns
