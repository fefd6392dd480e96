"""Anomalies in a series or among repeats: drift, outliers, two levels.

Pure functions of numbers. An anomaly must be large enough to matter (a share of the mean) and too unlikely to be
chance. So long, quiet series do not report a per mille, and short, noisy series do not report their noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from blklab.analysis.variation import series_variance

DRIFT = 0.10
"""Share of the mean: what the SNIA's Solid State Storage Performance Test Specification 2.0.1,
2.1.24, allows a steady state's best line to rise or fall."""

CERTAIN = 0.001  # Probability that chance looks like a drift: one of a thousand steady runs is reported wrongly
FEWEST = 20  # Minimum number of intervals of a series for these checks
SCORE = 5.0
"""Deviation of an outlier from the median, in normal standard deviations estimated from the median absolute deviation.
Iglewicz and Hoaglin ("How to Detect and Handle Outliers", 1993) use 3.5 for one value; a series has thousands."""

NORMAL = 0.6745  # The median absolute deviation of a normal distribution with standard deviation 1
STALL = 0.5  # Share of the median from which a deviation is reported: half the work was not done
CHANCE = 6.0  # Standard deviations of a Poisson count that are accepted as chance
RARE = 0.05  # Share of intervals above which deviations are normal for the series, and not outliers
REPEAT = 0.05  # Share of the median by which a repeat must differ to be reported
LEVELS = 0.85
"""Share of the variance that two levels must explain. The best cut explains 2/π = 0.64 of the
variance of a normal distribution and 0.75 of that of a straight slope."""

APART = 0.2  # Minimum distance of two levels, as a share of the mean
LEAST_SHARE = 0.1  # Minimum share of intervals at the rarer level


def drift(values: Sequence[float]) -> float | None:
    """Returns how much the last third of a series differs from the first, as a share of the first.

    None if there is no drift. The test takes autocorrelation into account.
    """
    third = len(values) // 3
    if len(values) < FEWEST:
        return None
    first, last = values[:third], values[-third:]
    still = _without_line(values)
    # The variance within a third must not include the drift itself.
    before, after = (series_variance(part) for part in (still[:third], still[-third:]))
    means = [sum(part) / third for part in (first, last)]
    if not means[0] or before is None or after is None:
        return None
    change = means[1] / means[0] - 1
    chance = _chance(means[1] - means[0], before[0] + after[0], min(before[1], after[1]))
    return None if abs(change) < DRIFT or chance >= CERTAIN else change


def _chance(difference: float, variance: float, degrees: float) -> float:
    """Returns Student's two-sided p of a difference."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(difference) / math.sqrt(variance))) if variance else 0.0


def _without_line(values: Sequence[float]) -> list[float]:
    """Returns the residuals of a series from the straight line that fits it best."""
    import numpy as np

    series = np.asarray(values, dtype=float)
    place = np.arange(len(series)) - (len(series) - 1) / 2
    slope = float(place @ series) / float(place @ place)
    return [float(value) for value in series - slope * place]


@dataclass(frozen=True)
class Outlier:
    """A value that does not fit the others."""

    at: int
    value: float
    median: float


def stalls(values: Sequence[float], counts: Sequence[float]) -> list[Outlier]:
    """Returns the intervals of a series that are outliers, the largest deviation first.

    `counts` are the I/Os behind each value; their random error is accepted. The first and the last interval are
    ignored, because a run begins and ends in them. Frequent deviations are ignored too.
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
    """Returns the repeats that differ from the others; none if there are fewer than four."""
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
    """A series that alternates between two levels."""

    low: float
    high: float
    share_low: float


def levels(values: Sequence[float], counts: Sequence[float]) -> Levels | None:
    """Returns the two levels of a series; None if it does not have exactly two.

    The cut minimises the variance within the levels (Otsu, "A Threshold Selection Method from
    Gray-Level Histograms", IEEE Transactions on Systems, Man and Cybernetics 9(1), 1979).
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
    """Returns how much a campaign drifted from its first runs to its last; None if it did not.

    `ratios` are the figures of runs divided by the mean of their repeats, in the order of the runs.
    The test is Spearman's rank correlation with this order. The halves must differ by 3 % or more,
    because room temperature or clock differences easily cause that.
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
    # Without correlation, the variance of rho is 1 / (n - 1).
    return change if abs(rho) * math.sqrt(count - 1) >= 3.29 else None
