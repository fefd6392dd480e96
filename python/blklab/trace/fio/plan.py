"""The plan of a fio job for the workload of a device: figures, not text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from blklab.documents.profile import DeviceProfile, HotnessSummary, LevelSummary, Profile, SizeCount, StreamsSummary
from blklab.errors import BlklabError
from blklab.units import SECTOR, format_size

Way = Literal["read", "write", "trim"]
Loop = Literal["closed", "open"]

WAYS: dict[str, Way] = {"read": "read", "write": "write", "discard": "trim"}  # fio's word for each operation
DEEPEST = 1024
UNKNOWN_DEPTH = 32
"""I/Os in flight if the trace has no completions: enough for a rate, and moderate for a device."""
OVERLAPS = 10
"""I/Os that independent arrivals would have started during another one: if none did, each waits for the last one."""
SEQUENTIAL = 0.9  # Share of I/Os that continue a stream from which a direction counts as sequential


BLOCK = 4096
Kind = Literal["random", "zipf", "zoned"]

MOST_ZONES = 24
COLD = 3.0  # Blocks with fewer accesses on average are one zone, because their order is chance
SKEW = 0.05  # Share of the I/O by which the hottest fifth must exceed chance to count as skew


MOST_SIZES = 64


@dataclass(frozen=True)
class SizeShare:
    """A size and its share of the I/Os in percent."""

    bytes: int
    percent: int


def split(counts: Sequence[tuple[int, int]], max_sizes: int = MOST_SIZES) -> tuple[SizeShare, ...]:
    """Returns sizes with whole percents that sum to 100, ascending, from (bytes, I/Os) pairs.

    The I/Os, ordered by size, are cut into a hundred equal parts. Each part gets the size in it that is nearest to its
    mean. So the cumulative distribution differs by at most one point, and rare sizes merge with their neighbours. Sizes
    are rounded up to sectors for direct I/O. Empty for no I/O.
    """
    by_size: dict[int, int] = {}
    for size, count in counts:
        if size > 0 and count > 0:
            aligned_size = -(-size // SECTOR) * SECTOR
            by_size[aligned_size] = by_size.get(aligned_size, 0) + count
    sorted_sizes = sorted(by_size.items())
    total = sum(by_size.values())
    if not total:
        return ()
    percents: dict[int, int] = {}
    for part in _hundredths(sorted_sizes, total):
        mean = sum(size * share for size, share in part) / sum(share for _, share in part)
        nearest = min(part, key=lambda piece: (abs(piece[0] - mean), -piece[1]))[0]
        percents[nearest] = percents.get(nearest, 0) + 1
    return _fold([SizeShare(size, percent) for size, percent in sorted(percents.items())], max_sizes)


def _hundredths(sorted_sizes: Sequence[tuple[int, int]], total: int) -> list[list[tuple[int, int]]]:
    """Cuts the I/Os into a hundred equal parts of (size, hundredths of an I/O)."""
    parts: list[list[tuple[int, int]]] = [[]]
    room = total
    for size, count in sorted_sizes:
        remaining = count * 100
        while remaining:
            if not room:
                parts.append([])
                room = total
            portion = min(remaining, room)
            parts[-1].append((size, portion))
            remaining -= portion
            room -= portion
    return parts


def _fold(shares: list[SizeShare], max_sizes: int) -> tuple[SizeShare, ...]:
    """Merges the smallest share with its nearest neighbour until there are few enough sizes."""
    while len(shares) > max_sizes:
        index = min(range(len(shares)), key=lambda i: shares[i].percent)
        adjacent = [i for i in (index - 1, index + 1) if 0 <= i < len(shares)]
        to = min(adjacent, key=lambda i: abs(math.log(shares[i].bytes / shares[index].bytes)))
        shares[to] = SizeShare(shares[to].bytes, shares[to].percent + shares[index].percent)
        del shares[index]
    return tuple(shares)


def mean(shares: Sequence[SizeShare]) -> float:
    """Returns the mean size; 0 for no sizes."""
    return sum(share.bytes * share.percent for share in shares) / 100


def alignment(shares: Sequence[SizeShare]) -> int:
    """Returns the alignment of offsets: the largest power of two that divides all sizes, at most 4096."""
    divisor = math.gcd(*(share.bytes for share in shares))
    return min(divisor & -divisor, 4096)


@dataclass(frozen=True)
class OffsetZone:
    """A part of the file and its share of the I/O in percent."""

    percent: int
    bytes: int


@dataclass(frozen=True)
class OffsetDistribution:
    """The distribution of offsets, and the size of the file."""

    kind: Kind
    size: int
    why: str
    size_why: str
    theta: float | None = None
    zones: tuple[OffsetZone, ...] = ()

    @property
    def option(self) -> str:
        """The value of fio's `random_distribution`."""
        if self.kind == "zipf":
            return f"zipf:{self.theta:.3f}"
        if self.kind == "zoned":
            return "zoned_abs:" + ":".join(f"{z.percent}/{z.bytes}" for z in self.zones)
        return "random"

    def for_sizes_from(self, smallest: int, align: int) -> "OffsetDistribution":
        """Returns the same for I/Os of at least `smallest` bytes at multiples of `align`.

        Each zone needs space for one I/O, and fio cuts `smallest - align` off the end of the file (io_u.c, last_block).
        With zones beyond that end, a section ends at once and reports success.
        """
        if not self.zones or (smallest <= align and smallest <= min(z.bytes for z in self.zones)):
            return self
        zones = [OffsetZone(z.percent, max(z.bytes, -(-smallest // BLOCK) * BLOCK)) for z in self.zones]
        excess = sum(zone.bytes for zone in zones) - (self.size - (smallest - align))
        last_bytes = max(zones[-1].bytes - max(0, excess), smallest)
        return replace(self, zones=(*zones[:-1], OffsetZone(zones[-1].percent, last_bytes)))


def locality(device: DeviceProfile, sequential: float, largest: int) -> OffsetDistribution:
    """Returns the distribution of offsets of a device's profile.

    `sequential` is the share of its I/Os that continue a stream, `largest` the largest I/O in
    bytes.
    """
    hot = device.hotness
    accesses = float(hot.accesses)
    blocks = float(hot.unique_blocks)
    span = SECTOR * ((device.load.end_sector or 0) - (device.load.first_sector or 0))
    least = max(1 << 20, 4 * largest)
    per_block = accesses / blocks if blocks else 0.0
    fit = hot.zipf
    size_note = f"{hot.unique_bytes} bytes were touched"

    def file_of(target_bytes: float) -> int:
        limited_bytes: float = min(target_bytes, max(span, hot.unique_bytes))
        return max(least, math.ceil(limited_bytes / (1 << 20)) * (1 << 20))

    if fit.verdict == "zipf" and fit.exponent is not None:
        theta = max(0.01, fit.exponent)
        if abs(theta - 1) < 0.005:  # fio refuses exactly 1
            theta = 1.005
        why = f"the popularity of blocks follows Zipf's law with exponent {fit.exponent:.3f}"
        return OffsetDistribution("zipf", file_of(hot.unique_bytes), why, size_note, theta)
    fifth = next((s.io_share for s in hot.hottest if s.fraction == 0.2), 0.0)
    is_skewed = fifth > fifth_by_chance(per_block) + SKEW
    if fit.verdict == "not zipf" and is_skewed and sequential < 0.9:
        zones = _zones(hot, span)
        if len(zones) > 1:
            why = f"the hottest 20 % of blocks get {100 * fifth:.0f} % of the I/O, but not by Zipf's law"
            size = sum(zone.bytes for zone in zones)
            short = least - size
            if short > 0:
                zones[-1] = OffsetZone(zones[-1].percent, zones[-1].bytes + short)
            note = f"{size_note}; cold blocks replace those that were not touched by chance"
            return OffsetDistribution("zoned", max(size, least), why, note, zones=tuple(zones))
    why = "blocks are accessed equally, as far as the sample shows"
    if sequential >= 0.5 or not accesses:
        return OffsetDistribution("random", file_of(hot.unique_bytes), why, size_note)
    note = f"{size_note} in {accesses:.0f} accesses: expected for random accesses to a file of this size"
    return OffsetDistribution("random", file_of(accesses / poisson_rate(per_block) * BLOCK), why, note)


def poisson_rate(mean_touched: float) -> float:
    """Returns the mean accesses of all blocks, if the touched ones have `mean_touched` each.

    Solves x / (1 - exp(-x)) = m, the mean of a zero-truncated Poisson distribution; at least 1e-4.
    """
    low, high = 1e-4, max(2.0, mean_touched)
    for _ in range(80):
        middle = (low + high) / 2
        if middle / -math.expm1(-middle) < mean_touched:
            low = middle
        else:
            high = middle
    return low


def fifth_by_chance(mean_touched: float) -> float:
    """Returns the hottest fifth's share of the I/O if all blocks are equal."""
    rate = poisson_rate(mean_touched)
    remaining = 0.2
    share = 0.0
    for count in range(int(rate + 12 * math.sqrt(rate) + 20), 0, -1):
        logarithm = count * math.log(rate) - math.lgamma(count + 1) - rate
        part = min(remaining, math.exp(logarithm) / -math.expm1(-rate))
        share += part * count / max(mean_touched, 1.0)
        remaining -= part
    return min(1.0, share)


def _zones(hot: HotnessSummary, span: int) -> list[OffsetZone]:
    """Returns zones of whole percents of the I/O from the rank curve, hottest first."""
    accesses, blocks = hot.accesses, hot.unique_blocks
    zones: list[OffsetZone] = []
    percent = fraction = share = 0.0
    step = 100 / MOST_ZONES
    for point in hot.rank_curve:
        width = point.fraction - fraction
        gain = point.io_share - share
        if width <= 0 or gain * accesses / (width * blocks) < COLD:
            if zones:
                break
            continue
        rounded_percent = round(point.io_share * 100)
        if rounded_percent - percent >= step and rounded_percent < 100:
            zones.append(OffsetZone(int(rounded_percent - percent), _blocks(width * blocks)))
            percent = rounded_percent
            fraction = point.fraction
            share = point.io_share
    if percent < 100:
        cold = (1 - fraction) * blocks
        rate = poisson_rate(max(1.0, (1 - share) * accesses / cold))
        max_blocks = max(span // BLOCK, cold)
        zones.append(OffsetZone(int(100 - percent), _blocks(min((1 - share) * accesses / rate, max_blocks))))
    return zones


def _blocks(count: float) -> int:
    return max(1, round(count)) * BLOCK


@dataclass(frozen=True)
class DirectionPlan:
    """The I/Os of one direction."""

    direction: Way
    ios: int
    rate: float  # I/Os per second
    sizes: tuple[SizeShare, ...]
    sequential: float  # Share that continues a stream, 0..=1
    in_flight: float  # I/Os in flight on average: rate × mean latency (Little's law)

    @property
    def align(self) -> int:
        """Alignment of offsets, bytes."""
        return alignment(self.sizes)

    @property
    def mean_bytes(self) -> float:
        """Mean size of the I/Os that fio will issue."""
        return mean(self.sizes)


@dataclass(frozen=True)
class JobPlan:
    """One section of the job file."""

    name: str
    directions: tuple[DirectionPlan, ...]
    iodepth: int
    numjobs: int = 1
    flush_every: int | None = None  # Writes per flush
    flushes: int = 0
    dsync: bool = False
    thinktime_us: int = 0  # Pause after each I/O

    @property
    def ios(self) -> int:
        """I/Os of these directions in the trace."""
        return sum(direction.ios for direction in self.directions)


@dataclass(frozen=True)
class FioPlan:
    """A workload for fio, with the reasons for its figures."""

    source: str
    device: str
    ios: int
    duration_ns: int
    runtime_ns: int
    loop: Loop
    loop_why: str
    depth_known: bool
    poisson: bool
    arrivals: str
    jobs: tuple[JobPlan, ...]
    locality: OffsetDistribution
    notes: tuple[str, ...]


def make_plan(profile: Profile, *, loop: Loop | None = None, runtime_ns: int | None = None) -> FioPlan:
    """Returns the plan for the main device of `profile` (see blklab.trace.profile).

    `loop` selects whether I/Os wait for earlier ones (closed) or arrive at their own times (open),
    instead of inferring it from the I/Os in flight. Raises BlklabError if the profile has no I/O.
    """
    device = focus_device(profile)
    name = device.name or device.device
    ops = device.load.ops
    duration = max(1, device.last_ns - device.first_ns)
    directions = [_direction(device, op, duration) for op in WAYS if ops[op].ios]
    if not any(direction.sizes for direction in directions):
        raise BlklabError(f"{name}: no read, write or discard in the trace as filtered")
    directions = [direction for direction in directions if direction.sizes]
    weight = sum(direction.ios for direction in directions)
    level = device.in_flight if device.life["all"].completed * 2 >= weight else None  # None without completions
    judged_loop, why = judge_loop(level, weight)
    if loop:
        judged_loop = loop
        why = f"as requested; {why}"
    arrivals = device.pattern.arrivals.pattern or "too few"
    sequential = sum(direction.sequential * direction.ios for direction in directions) / weight
    largest = max(share.bytes for direction in directions for share in direction.sizes)
    return FioPlan(
        source=", ".join(part.name or part.files[0] for part in profile.trace.inputs),
        device=name,
        ios=weight,
        duration_ns=duration,
        runtime_ns=runtime_ns or max(duration, 10**9),
        loop=judged_loop,
        loop_why=why,
        depth_known=level is not None,
        poisson=arrivals in {"bursty", "random"},
        arrivals=arrivals,
        jobs=_jobs(device, directions, judged_loop, level),
        locality=locality(device, sequential, largest),
        notes=tuple(_notes(device, directions, judged_loop, arrivals)),
    )


def focus_device(profile: Profile) -> DeviceProfile:
    """Returns the profile of the main device. Raises BlklabError if there is none."""
    for device in profile.devices:
        if device.device == profile.focus:
            return device
    raise BlklabError("no I/O in the selection: nothing to reproduce")


def judge_loop(level: LevelSummary | None, ios: int) -> tuple[Loop, str]:
    """Infers from the I/Os in flight whether their number is limited (closed loop)."""
    if level is None:
        return "open", "the trace has no completions, so the job keeps the arrivals"
    idle = level.idle_share or 0.0
    max_in_flight = level.max
    p95 = level.p95 or 0
    busy = level.mean_when_busy or 0.0
    idle_share = f"idle {100 * idle:.0f} % of the time"
    figures = f"in flight {busy:.1f} when busy, {p95} at the 95th percentile, at most {max_in_flight}; {idle_share}"
    if max_in_flight == 1 and ios * (1 - idle) >= OVERLAPS:
        return "closed", f"{figures}: each I/O waited for the one before"
    steady = idle <= 0.3 and max_in_flight <= 1.34 * p95 and busy >= 0.4 * max_in_flight
    if steady:
        return "closed", f"{figures}: the number in flight is limited, so the job keeps it"
    return "open", f"{figures}: the number in flight is not limited, so the job keeps the arrivals"


def streams_of(device: DeviceProfile, op: str) -> StreamsSummary | None:
    """Returns the sequential streams of reads or writes; other operations have none."""
    pattern = device.pattern
    return {"read": pattern.read_streams, "write": pattern.write_streams}.get(op)


def _direction(device: DeviceProfile, op: str, duration: int) -> DirectionPlan:
    operation = device.load.ops[op]
    rate = operation.ios / duration * 1e9
    streams = streams_of(device, op)
    life = device.life.get(op)
    took = life.latency_ns["q2c"].mean if life else None
    return DirectionPlan(
        direction=WAYS[op],
        ios=operation.ios,
        rate=rate,
        sizes=split([(size.bytes, size.count) for size in operation.sizes.exact]),
        sequential=(streams.sequential_share if streams else None) or 0.0,
        in_flight=rate * (took or 0.0) / 1e9,
    )


def _jobs(
    device: DeviceProfile, directions: list[DirectionPlan], loop: Loop, level: LevelSummary | None
) -> tuple[JobPlan, ...]:
    """Distributes the directions to sections.

    Reads and writes are one mixed section, unless there are flushes: a mixed section repeats its
    `fdatasync` after reads that follow the write (measured with fio 3.33). Discards need their own
    section: fio mixes them only with the write that follows.
    """
    ops = device.load.ops
    flushes = ops["flush"].ios
    by_way = {direction.direction: direction for direction in directions}
    flushed_writes = None
    if flushes and loop == "open" and "write" in by_way:
        parts = _split_flushed_writes(by_way["write"], _sizes(device, "write"), flushes)
        if parts is not None:
            by_way["write"], flushed_writes = parts
    mixed_directions = [by_way[direction] for direction in ("read", "write") if direction in by_way]
    is_separate = flushes and flushed_writes is None and len(mixed_directions) == 2
    groups = []
    if is_separate:
        groups = [[direction] for direction in mixed_directions]
    elif mixed_directions:
        groups = [mixed_directions]
    if "trim" in by_way:
        groups.append([by_way["trim"]])
    depth = UNKNOWN_DEPTH
    if level is not None:
        depth = level.max if loop == "open" else level.p95 or 1
    weight = sum(direction.in_flight for direction in directions) or 1.0
    jobs = []
    for group in groups:
        share = sum(direction.in_flight for direction in group) / weight if len(groups) > 1 else 1.0
        job_depth = depth if loop == "open" else round(depth * share)
        job = JobPlan(
            name="mixed" if len(group) > 1 else f"{group[0].direction}s",
            directions=tuple(group),
            iodepth=1 if group[0].direction == "trim" else min(DEEPEST, max(1, job_depth)),
        )
        if group[-1].direction == "write":
            writes = ops["write"]
            job = replace(job, dsync=writes.fua * 2 >= writes.ios)
            if flushes and flushed_writes is None:
                job = replace(job, flushes=flushes, flush_every=max(1, round(writes.ios / flushes)))
        if loop == "closed" and depth == 1 and len(groups) == 1 and level is not None:
            pause = (level.idle_share or 0.0) * level.time_ns / max(1, job.ios)
            job = replace(job, thinktime_us=round(pause / 1000))
        jobs.append(_by_stream(job, device, loop))
    if flushed_writes is not None:
        jobs.append(JobPlan("flushed", (flushed_writes,), iodepth=1, flush_every=1, flushes=flushes))
    return tuple(jobs)


def _split_flushed_writes(
    direction: DirectionPlan, sizes: list[SizeCount], flushes: int
) -> tuple[DirectionPlan, DirectionPlan] | None:
    """Separates as many writes as there are flushes, all of the most frequent size.

    An open loop cannot flush among its writes: with flushes, fio 3.33 dies of a Poisson process
    (see blklab.trace.fio.jobfile). Its steady pace counts bytes, so it needs equal sizes. None if
    there are not enough writes of that size.
    """
    counts = {size.bytes: size.count for size in sizes}
    mode = max(counts, key=lambda size: counts[size])
    remaining_ios = direction.ios - flushes
    if counts[mode] < flushes or remaining_ios <= 0:
        return None
    flushed_sizes = split([(mode, flushes)])
    counts[mode] -= flushes
    other_writes = replace(
        direction,
        ios=remaining_ios,
        rate=direction.rate * remaining_ios / direction.ios,
        sizes=split([*counts.items()]),
    )
    flushed_writes = replace(direction, ios=flushes, rate=direction.rate * flushes / direction.ios, sizes=flushed_sizes)
    return other_writes, flushed_writes


def _by_stream(job: JobPlan, device: DeviceProfile, loop: Loop) -> JobPlan:
    """Gives each concurrent sequential stream of a closed loop its own process."""
    if loop != "closed" or any(direction.sequential < SEQUENTIAL for direction in job.directions):
        return job
    summaries = [streams_of(device, direction.direction) for direction in job.directions]
    streams = max((stream.peak_concurrent_streams for stream in summaries if stream), default=1)
    numjobs = max(1, min(streams, job.iodepth, 64))
    return replace(job, numjobs=numjobs, iodepth=max(1, round(job.iodepth / numjobs)))


def _notes(device: DeviceProfile, directions: list[DirectionPlan], loop: Loop, arrivals: str) -> Iterator[str]:
    if loop == "open" and arrivals == "bursty":
        yield "arrivals are bursty; fio's are at most Poisson (--iolog keeps the bursts)"
    fua = device.load.ops["write"].fua
    writes = device.load.ops["write"].ios
    if writes and 0 < fua < writes / 2:
        yield f"{fua} of {writes} writes were FUA: too few to set sync= for all"
    if any(size.bytes % 512 for op in WAYS for size in _sizes(device, op)):
        yield "sizes were rounded up to multiples of 512 bytes for direct I/O"
    for op, word in WAYS.items():
        true = device.load.ops[op].sizes.mean_bytes or 0.0
        for direction in directions:
            if direction.direction == word and abs(direction.mean_bytes - true) > 0.05 * true:
                yield (
                    f"fio takes whole percents of sizes: the mean {op} is {format_size(direction.mean_bytes)} in the"
                    f" job and {format_size(true)} in the trace"
                )
    if any(direction.direction == "trim" for direction in directions):
        yield "on a block device, set ioengine=libaio for [trims]: falloc punches holes"


def _sizes(device: DeviceProfile, op: str) -> list[SizeCount]:
    return device.load.ops[op].sizes.exact
