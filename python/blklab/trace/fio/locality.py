"""The offsets of a workload as fio's `random_distribution` and `size`.

fio's zipf generator (Gray's approximation, lib/zipf.c) is not exact: its hottest blocks get too few
I/Os near an exponent of 1, and it sums at most 10 million ranks (fio issue 1991). `zoned_abs`, cut
from the measured curve, has neither problem.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from blklab.documents.profile import DeviceProfile, HotnessSummary

BLOCK: Final = 4096
Kind = Literal["random", "zipf", "zoned"]

MOST_ZONES: Final = 24
COLD: Final = 3.0  # Blocks with fewer accesses on average are one zone, because their order is chance
SKEW: Final = 0.05  # Share of the I/O by which the hottest fifth must exceed chance to count as skew


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
        rest = max(zones[-1].bytes - max(0, excess), smallest)
        return replace(self, zones=(*zones[:-1], OffsetZone(zones[-1].percent, rest)))

    def within(self, size: int) -> "OffsetDistribution":
        """Returns the same in a file of at most `size` bytes: all zones shrink in proportion."""
        if self.size <= size:
            return self
        zones = [OffsetZone(z.percent, max(BLOCK, z.bytes * size // self.size // BLOCK * BLOCK)) for z in self.zones]
        if zones:
            zones[-1] = OffsetZone(zones[-1].percent, max(BLOCK, size - sum(z.bytes for z in zones[:-1])))
        why = f"{self.size_why}; limited from {self.size} bytes"
        return OffsetDistribution(self.kind, size, self.why, why, self.theta, tuple(zones))


def locality(device: DeviceProfile, sequential: float, largest: int) -> OffsetDistribution:
    """Returns the distribution of offsets of a device's profile.

    `sequential` is the share of its I/Os that continue a stream, `largest` the largest I/O in
    bytes.
    """
    hot = device["hotness"]
    accesses, blocks = float(hot["accesses"]), float(hot["unique_blocks"])
    span = 512 * ((device["load"]["end_sector"] or 0) - (device["load"]["first_sector"] or 0))
    least = max(1 << 20, 4 * largest)
    per_block = accesses / blocks if blocks else 0.0
    fit = hot["zipf"]
    touched = f"{hot['unique_bytes']} bytes were touched"

    def file_of(wanted: float) -> int:
        capped: float = min(wanted, max(span, hot["unique_bytes"]))
        return max(least, math.ceil(capped / (1 << 20)) * (1 << 20))

    if fit["verdict"] == "zipf" and fit["exponent"] is not None:
        theta = max(0.01, fit["exponent"])
        if abs(theta - 1) < 0.005:  # fio refuses exactly 1
            theta = 1.005
        why = f"the popularity of blocks follows Zipf's law with exponent {fit['exponent']:.3f}"
        return OffsetDistribution("zipf", file_of(hot["unique_bytes"]), why, touched, theta)
    fifth = next((s["io_share"] for s in hot["hottest"] if s["fraction"] == 0.2), 0.0)
    skewed = fifth > fifth_by_chance(per_block) + SKEW
    if fit["verdict"] == "not zipf" and skewed and sequential < 0.9:
        zones = _zones(hot, span)
        if len(zones) > 1:
            why = f"the hottest 20 % of blocks get {fifth:.0%} of the I/O, but not by Zipf's law"
            size = sum(zone.bytes for zone in zones)
            short = least - size
            if short > 0:
                zones[-1] = OffsetZone(zones[-1].percent, zones[-1].bytes + short)
            note = f"{touched}; cold blocks replace those that were not touched by chance"
            return OffsetDistribution("zoned", max(size, least), why, note, zones=tuple(zones))
    why = "blocks are accessed equally, as far as the sample shows"
    if sequential >= 0.5 or not accesses:
        return OffsetDistribution("random", file_of(hot["unique_bytes"]), why, touched)
    note = f"{touched} in {accesses:.0f} accesses: expected for random accesses to a file of this size"
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
    left, share = 0.2, 0.0
    most = int(rate + 12 * math.sqrt(rate) + 20)
    for count in range(most, 0, -1):
        logarithm = count * math.log(rate) - math.lgamma(count + 1) - rate
        part = min(left, math.exp(logarithm) / -math.expm1(-rate))
        share += part * count / max(mean_touched, 1.0)
        left -= part
    return min(1.0, share)


def _zones(hot: HotnessSummary, span: int) -> list[OffsetZone]:
    """Returns zones of whole percents of the I/O from the rank curve, hottest first."""
    accesses, blocks = hot["accesses"], hot["unique_blocks"]
    zones: list[OffsetZone] = []
    percent = fraction = share = 0.0
    step = 100 / MOST_ZONES
    for point in hot["rank_curve"]:
        width, gain = point["fraction"] - fraction, point["io_share"] - share
        if width <= 0 or gain * accesses / (width * blocks) < COLD:
            if zones:
                break
            continue
        whole = round(point["io_share"] * 100)
        if whole - percent >= step and whole < 100:
            zones.append(OffsetZone(int(whole - percent), _blocks(width * blocks)))
            percent, fraction, share = whole, point["fraction"], point["io_share"]
    if percent < 100:
        cold = (1 - fraction) * blocks
        rate = poisson_rate(max(1.0, (1 - share) * accesses / cold))
        most = max(span // BLOCK, cold)
        zones.append(OffsetZone(int(100 - percent), _blocks(min((1 - share) * accesses / rate, most))))
    return zones


def _blocks(count: float) -> int:
    return max(1, round(count)) * BLOCK
