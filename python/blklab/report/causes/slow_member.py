"""One member limits its array: it is busy while the others are idle, and slower than they are."""

from collections.abc import Iterator, Sequence
from statistics import median

from blklab.diagnostic import Diagnostic
from blklab.report import formatting
from blklab.report.causes.waiting import FEWEST, Waiting, device_ns
from blklab.report.view import DeviceView

BUSY = 0.9  # A member that is busy for this share of a time limits the array in this time,
LESS_BUSY = 0.5  # if the others are busy for at most this part of that,
SLOWER = 3.0  # and if an I/O takes at least so many times as long on it,
ALIKE = 2.0  # whose mean size is at most so many times that on the others
LEAST = 0.2  # Smallest share of the array's I/O in flight, so that a short moment is no cause


def find(waiting: Waiting) -> Iterator[Diagnostic]:
    """Yields the members that limit their arrays."""
    for array, members in waiting.arrays():
        if any(waiting.role(each) for each in members):
            continue  # A cache and what is below it differ by intention
        parts = [_by_time(device) for device in (array, *members)]
        width = max(step for step, _ in parts)
        area, *busy = (_merged(step, slices, width) for step, slices in parts)
        for at, member in enumerate(members):
            if cause := _cause(waiting, array, member, members, width, area, at, busy):
                yield cause


def _by_time(device: DeviceView) -> tuple[int, list[tuple[float, float]]]:
    depth = device.data.depth_over_time
    return depth.width_ns, [(part.area_ns, part.busy_ns) for part in depth.slices]


def _merged(step: int, slices: Sequence[tuple[float, float]], width: int) -> list[tuple[float, float]]:
    """Returns slices of `width`, which is a multiple of theirs."""
    many = max(1, width // step)
    groups = [slices[at : at + many] for at in range(0, len(slices), many)]
    return [(sum(part[0] for part in group), sum(part[1] for part in group)) for group in groups]


def _cause(
    waiting: Waiting,
    array: DeviceView,
    member: DeviceView,
    members: Sequence[DeviceView],
    width: int,
    area: Sequence[tuple[float, float]],
    at: int,
    busy: Sequence[Sequence[tuple[float, float]]],
) -> Diagnostic | None:
    def share(index: int, part: int) -> float:
        return busy[index][part][1] / width if part < len(busy[index]) else 0.0

    limited = []
    for part in range(len(area)):
        others = median(share(index, part) for index in range(len(members)) if index != at)
        if share(at, part) >= BUSY and others <= LESS_BUSY * share(at, part):
            limited.append(part)
    whole = sum(each[0] for each in area)
    held = sum(area[part][0] for part in limited)
    op, slow, usual = _slowest_op(member, [each for each in members if each is not member])
    if not limited or held < LEAST * whole or slow < SLOWER * usual:
        return None
    others = median(sum(share(i, p) for p in limited) / len(limited) for i in range(len(members)) if i != at)
    own = sum(share(at, part) for part in limited) / len(limited)
    start, end = (formatting.duration(each * width) for each in (limited[0], limited[-1] + 1))
    message = (
        f"{member.label} limits {array.label}: from {start} to {end} it is busy for {formatting.share(own)} of the"
        f" time, other members for {formatting.share(others)}; {formatting.ops(op)} take {formatting.duration(slow)} on"
        f" it, {formatting.duration(usual)} on others"
    )
    remedy = (
        f"look for what is wrong with {member.label}: smartctl -a, its cable, other load on it",
        "blklab advise runs the array with other members, and blklab md audit checks it",
    )
    return waiting.cause("slow-member", array, device_ns(array) * held / whole, message, *remedy, member=member.label)


def _slowest_op(member: DeviceView, others: Sequence[DeviceView]) -> tuple[str, float, float]:
    """Returns the operation in which a member differs most, its mean time, and the median of the others'."""
    found = [("write", 0.0, 1.0)]
    for op in ("read", "write"):
        own = member.latency(op)
        times = [took.mean or 0.0 for each in others if (took := each.latency(op)) and took.count >= FEWEST]
        sizes = [each.op(op).sizes.mean_bytes or 0.0 for each in (member, *others) if each.op(op).ios >= FEWEST]
        if own and own.count >= FEWEST and times and max(sizes) <= ALIKE * min(sizes):
            found.append((op, own.mean or 0.0, max(1.0, median(times))))
    return max(found, key=lambda each: each[1] / each[2])
