"""How sure a difference is: few runs, each of many samples that depend on one another.

Two things vary: a run from the next, and an interval from the next within a run, where neighbours
are alike (autocorrelation). Three runs or more are resampled as they are; within fewer, intervals
are, in blocks longer than their memory (the circular block bootstrap: Politis and Romano, 1992).
Intervals of few runs are widened as Hesterberg does ("What Teachers Should Know About the
Bootstrap", The American Statistician 69(4), 2015, "expanded percentile interval"); those of two
are Student's. The test is Welch's, on runs where there are two or more, else on as many
independent samples as the intervals are worth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DRAWS: Final = 2000
"""Resamples: the ends of a 95 % interval are then the 50th from either side."""

SEED: Final = 20_260
"""The same samples give the same interval, whenever asked."""

ENOUGH: Final = 3
"""Runs that say by themselves how much a run varies."""

MEMORY_BLOCKS: Final = 2
"""Length of a block, in correlation times."""


@dataclass(frozen=True)
class Sample:
    """One run: its figure, and the same over time if it is known."""

    value: float
    series: Sequence[float] = ()


@dataclass(frozen=True)
class Difference:
    """What is known of `other / baseline - 1`."""

    change: float
    low: float | None
    high: float | None
    """The confidence interval; None where nothing tells the spread."""

    p: float | None
    """Probability of such a difference if there were none."""


def correlation_time(values: Sequence[float]) -> float:
    """Returns how many samples are worth an independent one, 1 at least.

    `1 + 2 Σρ` up to where pairs of correlations are no longer positive (Geyer, "Practical Markov
    Chain Monte Carlo", Statistical Science 7(4), 1992: the initial positive sequence).
    """
    import numpy as np

    series = np.asarray(values, dtype=float)
    count = len(series)
    centred = series - series.mean() if count else series
    power = float(centred @ centred)
    if count < 4 or power <= 1e-24 * float(series @ series):
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    rho = np.fft.irfft(spectrum, size)[:count] / power
    total = 0.0
    for lag in range(0, count - 1, 2):
        pair = float(rho[lag] + rho[lag + 1])
        if pair <= 0:
            break
        total += pair
    return float(min(max(1.0, 2 * total - 1), count / 2))


def difference(
    baseline: Sequence[Sample], other: Sequence[Sample], confidence: float = 0.95
) -> Difference | None:
    """Compares two sides, each of one run at least; None if the baseline is nothing."""
    import numpy as np

    means = [float(np.mean([sample.value for sample in side])) for side in (baseline, other)]
    if means[0] == 0:
        return None
    change = means[1] / means[0] - 1
    spreads = [_spread(side) for side in (baseline, other)]
    if None in spreads:
        return Difference(change, None, None, None)
    known = [spread for spread in spreads if spread is not None]
    p = _welch(means, known)
    if any(1 < len(side) < ENOUGH for side in (baseline, other)):
        return Difference(change, *_of_pairs(means, known, change, confidence), p)
    generator = np.random.default_rng(SEED)
    drawn = [_draws(side, generator) for side in (baseline, other)]
    low_share = _expanded((1 - confidence) / 2, min(degrees for _, degrees in known))
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = drawn[1] / drawn[0] - 1
    changes = changes[np.isfinite(changes)]
    if not len(changes):
        return Difference(change, None, None, None)
    low, high = np.quantile(changes, [low_share, 1 - low_share])
    return Difference(change, float(low), float(high), p)


def interval(samples: Sequence[Sample], confidence: float = 0.95) -> tuple[float, float] | None:
    """Returns the confidence interval of the mean of a side's runs; None if nothing tells it.

    Nor of two runs: Student's would be thirteen times as wide as they are apart, and say less than
    the two themselves.
    """
    import numpy as np

    if not samples or 1 < len(samples) < ENOUGH or (spread := _spread(samples)) is None:
        return None
    _, degrees = spread
    share = _expanded((1 - confidence) / 2, degrees)
    drawn = _draws(samples, np.random.default_rng(SEED))
    low, high = np.quantile(drawn, [share, 1 - share])
    return float(low), float(high)


def _spread(side: Sequence[Sample]) -> tuple[float, float] | None:
    """Returns (variance of the mean, degrees of freedom); None for one run without a series."""
    import numpy as np

    if len(side) > 1:
        values = [sample.value for sample in side]
        return float(np.var(values, ddof=1)) / len(side), len(side) - 1.0
    series = np.asarray(side[0].series, dtype=float)
    if len(series) < 8:
        return None
    worth = len(series) / correlation_time(side[0].series)
    if worth < 2:
        return None
    return float(np.var(series, ddof=1)) / worth, worth - 1


def _welch(means: Sequence[float], spreads: Sequence[tuple[float, float]]) -> float:
    """Returns the two-sided p of Welch's t-test (Biometrika 34, 1947)."""
    from scipy.special import stdtr

    variance = sum(spread for spread, _ in spreads)
    if variance == 0:
        return 1.0 if means[0] == means[1] else 0.0
    t = abs(means[1] - means[0]) / math.sqrt(variance)
    return float(2 * stdtr(_degrees(spreads), -t))


def _degrees(spreads: Sequence[tuple[float, float]]) -> float:
    """Returns the degrees of freedom of two spreads together (Welch and Satterthwaite)."""
    total = sum(spread for spread, _ in spreads)
    parts = sum(spread**2 / degrees for spread, degrees in spreads)
    return total**2 / parts if parts else min(degrees for _, degrees in spreads)


def _of_pairs(
    means: Sequence[float],
    spreads: Sequence[tuple[float, float]],
    change: float,
    confidence: float,
) -> tuple[float, float]:
    """Returns the interval of Student's t: two runs can only be resampled into themselves.

    Of the logarithm of the ratio, whose spread is the relative one (the delta method): a ratio is
    never negative, and a large one is as sure as a small one.
    """
    from scipy.special import stdtrit

    if min(means) <= 0:
        return change, change
    relative = [
        (spread / mean**2, degrees) for mean, (spread, degrees) in zip(means, spreads, strict=True)
    ]
    t = float(stdtrit(_degrees(relative), (1 + confidence) / 2))
    reach = t * math.sqrt(sum(spread for spread, _ in relative))
    # Beyond e^50 it is as good as unknown, and no number.
    factor = math.exp(min(reach, 50.0))
    return (1 + change) / factor - 1, (1 + change) * factor - 1


def _expanded(share: float, degrees: float) -> float:
    """Returns which quantile of the bootstrap makes the `share` of a small sample."""
    from scipy.special import ndtr, stdtrit

    count = degrees + 1
    return float(ndtr(math.sqrt(count / degrees) * stdtrit(degrees, share)))


def _draws(side: Sequence[Sample], generator: "np.random.Generator") -> "Array":
    """Returns the means of resampled sides."""
    import numpy as np

    if len(side) >= ENOUGH:  # they differ by what varies within them as well
        within = np.stack([np.full(DRAWS, sample.value) for sample in side])
    else:
        within = np.stack([_within(sample, generator) for sample in side])
    runs = generator.integers(len(side), size=(len(side), DRAWS))
    which = generator.integers(DRAWS, size=(len(side), DRAWS))
    drawn: Any = within[runs, which].mean(axis=0)
    return np.asarray(drawn, dtype=float)


def _within(sample: Sample, generator: "np.random.Generator") -> "Array":
    """Returns a run's figure, as it would be with its intervals resampled in blocks."""
    import numpy as np

    series = np.asarray(sample.series, dtype=float)
    count = len(series)
    if count < 8 or not series.mean():
        return np.full(DRAWS, sample.value)
    length = min(count, math.ceil(MEMORY_BLOCKS * correlation_time(sample.series)))
    blocks = math.ceil(count / length)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:length]]))])
    starts = generator.integers(count, size=(DRAWS, blocks))
    means = (sums[starts + length] - sums[starts]).sum(axis=1) / (blocks * length)
    return np.asarray(sample.value * means / series.mean(), dtype=float)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Returns p values for many differences seen at once (Holm, 1979); None stays None."""
    there = sorted((p, at) for at, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, at) in enumerate(there):
        largest = max(largest, min(1.0, p * (len(there) - rank)))
        adjusted[at] = largest
    return adjusted
