"""What is odd in a series of figures, or among repeats: drift, outliers, two levels.

Pure functions of numbers. Each wants a difference that matters (a share of the mean) as well as one
that chance does not make, so that long and quiet series raise no alarm over a per mille, and short
and noisy ones none over their noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from blklab.analysis.resampling import RunSample, difference

DRIFT: Final = 0.10
"""Share of the mean: what the SNIA's Solid State Storage Performance Test Specification 2.0.1,
2.1.24, allows a steady state's best line to rise or fall."""

CERTAIN: Final = 0.001
"""Probability by chance of what is called a drift: of a thousand steady runs, one is accused."""

FEWEST: Final = 20
"""Intervals of a series below which it says nothing of its course."""

SCORE: Final = 5.0
"""Of an outlier: deviation from the median in normal standard deviations as the median absolute
deviation tells them. Iglewicz and Hoaglin ("How to Detect and Handle Outliers", 1993) have 3.5 for
one look; here, there are thousands."""

NORMAL: Final = 0.6745
"""The median absolute deviation of a normal distribution of deviation 1."""

STALL: Final = 0.5
"""Share of the median from which an interval's deviation is worth a word: half the work undone."""

CHANCE: Final = 6.0
"""Deviations of a Poisson count that its own chance is allowed."""

RARE: Final = 0.05
"""Share of intervals above which deviations are no outliers, but how it is."""

REPEAT: Final = 0.05
"""Share of the median by which a repeat has to be off."""

LEVELS: Final = 0.85
"""Share of the variance that two levels have to explain. The best cut explains 2/π = 0.64 of a
normal distribution's and 0.75 of a straight slope's."""

APART: Final = 0.2
"""Share of the mean that two levels have to be apart."""

LEAST_SHARE: Final = 0.1
"""Share of the intervals that the rarer level has to have."""


def drift(values: Sequence[float]) -> float | None:
    """Returns by how much the last third of a series differs from its first; None if it does not.

    As a share of the first third. The test knows that neighbours are alike.
    """
    third = len(values) // 3
    if len(values) < FEWEST:
        return None
    first, last = values[:third], values[-third:]
    still = _without_line(values)
    # How much a third varies does not count its share of the drift itself.
    sides = [
        [RunSample(sum(part) / len(part), varies)]
        for part, varies in ((first, still[:third]), (last, still[-third:]))
    ]
    change = difference(sides[0], sides[1])
    if change is None or change.p is None or change.p >= CERTAIN or abs(change.change) < DRIFT:
        return None
    return change.change


def _without_line(values: Sequence[float]) -> list[float]:
    """Returns what is left of a series about its mean without the line that fits it best."""
    import numpy as np

    series = np.asarray(values, dtype=float)
    place = np.arange(len(series)) - (len(series) - 1) / 2
    slope = float(place @ series) / float(place @ place)
    return [float(value) for value in series - slope * place]


@dataclass(frozen=True)
class Outlier:
    """One value that does not belong to the others."""

    at: int
    value: float
    median: float


def stalls(values: Sequence[float], counts: Sequence[float]) -> list[Outlier]:
    """Returns the intervals of a series that fall out of it, the furthest first.

    `counts` are the I/Os behind each value: their chance is allowed for. The first and the last
    interval, in which a run begins and ends, are not looked at, nor is what happens often.
    """
    if len(values) < FEWEST:
        return []
    middle = median(values)
    spread = median([abs(value - middle) for value in values]) / NORMAL
    usual = median(counts)
    noise = CHANCE / math.sqrt(usual) * middle if usual else math.inf
    outliers = [
        Outlier(at, values[at], middle)
        for at in range(1, len(values) - 1)
        if abs(values[at] - middle) > max(SCORE * spread, STALL * middle, noise)
    ]
    if len(outliers) > RARE * len(values):
        return []
    return sorted(outliers, key=lambda outlier: -abs(outlier.value - outlier.median))


def misfits(values: Sequence[float]) -> list[Outlier]:
    """Returns the repeats that are unlike the others; of fewer than four, none can be told."""
    if len(values) < 4:
        return []
    middle = median(values)
    spread = median([abs(value - middle) for value in values]) / NORMAL
    return [
        Outlier(at, value, middle)
        for at, value in enumerate(values)
        if abs(value - middle) > max(SCORE * spread, REPEAT * middle)
    ]


@dataclass(frozen=True)
class Levels:
    """A series that goes between two levels."""

    low: float
    high: float
    share_low: float


def levels(values: Sequence[float], counts: Sequence[float]) -> Levels | None:
    """Returns the two levels of a series, None if it does not have just two.

    The cut is the one that leaves the least variance within (Otsu, "A Threshold Selection Method
    from Gray-Level Histograms", IEEE Transactions on Systems, Man and Cybernetics 9(1), 1979).
    """
    ordered = sorted(values)
    count, total = len(ordered), sum(ordered)
    if count < FEWEST or total <= 0:
        return None
    mean = total / count
    variance = sum((value - mean) ** 2 for value in ordered)
    if variance <= 0:
        return None
    best, cut, below = 0.0, 0, 0.0
    for at in range(1, count):
        below += ordered[at - 1]
        low, high = below / at, (total - below) / (count - at)
        between = at * (count - at) / count * (high - low) ** 2
        if between > best:
            best, cut = between, at
    low, high = sum(ordered[:cut]) / cut, sum(ordered[cut:]) / (count - cut)
    share = cut / count
    noise = CHANCE / math.sqrt(usual) if (usual := median(counts)) else math.inf
    wide = high - low > mean * max(APART, noise)
    common = min(share, 1 - share) >= LEAST_SHARE
    return Levels(low, high, share) if best / variance >= LEVELS and wide and common else None


def course(ratios: Sequence[float]) -> float | None:
    """Returns by how much a campaign drifted from its first runs to its last, None if it did not.

    `ratios` are each run's figure over the mean of its repeats, in the order in which they ran. By
    Spearman's rank correlation with that order, and 3 % between the halves at least: what two
    sockets' clocks or a room's temperature easily make.
    """
    count = len(ratios)
    if count < 8:
        return None
    half = count // 2
    first, last = sum(ratios[:half]) / half, sum(ratios[-half:]) / half
    change = last / first - 1 if first else 0.0
    if abs(change) < 0.03:
        return None
    from scipy.stats import spearmanr

    rho = float(spearmanr(range(count), ratios).statistic)
    # Under no correlation, rho has a variance of 1 / (n - 1).
    return change if abs(rho) * math.sqrt(count - 1) >= 3.29 else None
