"""Completion latency of one or several jobs, merged from fio's bins where they are available."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from blklab.errors import BlklabError
from blklab.fio.node import JsonNode
from blklab.outcome import LatencyResult

RELATIVE_ERROR = 1 / 128
"""Relative error of a quantile: fio counts in 64 buckets per octave and reports the middle of a
bucket (stat.h of fio 3.33: about 1/2^(FIO_IO_U_PLAT_BITS+1), with FIO_IO_U_PLAT_BITS = 6).
"""

PERCENT = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
QUANTILES = {f"p{percent:g}".replace(".", "_"): percent for percent in PERCENT}  # The quantiles of a result, in percent


@dataclass(frozen=True)
class LatencySummary:
    """Latencies of `count` I/Os, ns."""

    count: int = 0
    mean: float = 0.0
    stddev: float = 0.0
    low: float = 0.0
    high: float = 0.0
    bins: Mapping[int, int] | None = None  # I/Os by latency, from JSON+; None without it
    quantiles: Mapping[str, float] = field(default_factory=dict)  # Quantiles from fio, if there are no bins

    def as_result(self) -> LatencyResult:
        """Returns `clat_ns` of a result."""
        if not self.count:
            return LatencyResult()
        quantiles = self._compute_quantiles() if self.bins else self.quantiles
        return LatencyResult(
            self.count,
            self.mean,
            self.stddev,
            round(self.low),
            round(self.high),
            **{name: round(value) for name, value in quantiles.items()},
            relative_error=RELATIVE_ERROR if quantiles else 0.0,
            bins=[[value, self.bins[value]] for value in sorted(self.bins)] if self.bins else (),
        )

    def _compute_quantiles(self) -> dict[str, float]:
        """Returns the quantiles by nearest rank, like fio's calc_clat_percentiles (stat.c)."""
        bins = sorted((self.bins or {}).items())
        total = sum(count for _, count in bins)
        latencies: dict[str, float] = {}
        quantiles = list(QUANTILES.items())
        below = 0
        for value, count in bins:
            below += count
            while quantiles and below >= quantiles[0][1] / 100 * total:
                latencies[quantiles.pop(0)[0]] = float(value)
        # 100 % of a large total can be rounded up.
        latencies = {**{name: float(bins[-1][0]) for name, _ in quantiles}, **latencies}
        return {name: _within(value, self.low, self.high) for name, value in latencies.items()}


def _within(value: float, low: float, high: float) -> float:
    """Returns a quantile within minimum and maximum: the middle of the last bucket can exceed them."""
    return min(max(value, low), high)


NOTHING = LatencySummary()  # The latency of no I/O, or of I/O without measured latency


def parse_latency(direction: JsonNode, total_ios: int, key: str = "clat_ns") -> LatencySummary:
    """Returns the latency of one direction of a job: `clat_ns`, or `clat` in µs (fio 2)."""
    table = direction.part(key)
    unit = 1
    if table is None:
        table = direction.part("clat")
        unit = 1000
    if table is None or not total_ios:
        return NOTHING
    high = table.number("max", 0) * unit
    mean = table.number("mean", 0) * unit
    # Without `N` (fio 2), a latency of 0 means that none was measured: disable_clat, gtod_reduce.
    count = table.count("N", total_ios if high or mean else 0)
    if not count:
        return NOTHING
    bins: dict[int, int] | None = None
    if (bin_table := table.part("bins")) is not None:
        bins = {}
        for value, number in bin_table.numbers():
            if number:
                if not number.is_integer():
                    raise BlklabError(f"{bin_table.location}: found {number:g}, expected a count")
                bins[round(value * unit)] = int(number)
    low = min(table.number("min", 0) * unit, high)
    stddev = table.number("stddev", 0) * unit
    quantiles: dict[str, float] = {}
    if (percentiles := table.part("percentile")) is not None:
        # fio 2 pads with "0.00".
        by_percentage = dict(percentiles.numbers())
        quantiles = {
            name: _within(by_percentage[percentage] * unit, low, high)
            for name, percentage in QUANTILES.items()
            if percentage in by_percentage
        }
    return LatencySummary(count, mean, stddev, low, high, bins or None, quantiles)


def merge(parts: Sequence[LatencySummary]) -> LatencySummary:
    """Returns the latencies of all I/Os of several jobs.

    Quantiles come from merged bins. Without bins of all jobs there are none, because quantiles
    cannot be averaged. Means and standard deviations are pooled.
    """
    parts = [part for part in parts if part.count]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING
    count = sum(part.count for part in parts)
    mean = math.fsum(part.mean * (part.count / count) for part in parts)
    # fio uses sample standard deviations with n − 1 (stat.c, calc_lat).
    squares = math.fsum(
        part.stddev**2 * ((part.count - 1) / max(1, count - 1))
        + (part.mean - mean) ** 2 * (part.count / max(1, count - 1))
        for part in parts
    )
    bins: Counter[int] | None = Counter()
    for part in parts:
        if part.bins is None or bins is None:
            bins = None
        else:
            bins.update(part.bins)
    return LatencySummary(
        count, mean, math.sqrt(squares), min(part.low for part in parts), max(part.high for part in parts), bins
    )
