"""The decision whether cells differ: the only one, for comparisons, gates, sweeps and headlines.

Means are compared as logarithms, with Student's distribution for unequal variances (Welch,
Biometrika 34, 1947; degrees of freedom by Satterthwaite). All comparisons of a metric hold
together: with a confidence of 95 %, no interval of the metric misses its true value (Šidák, Journal
of the American Statistical Association 62, 1967). A verdict, its interval and its p never disagree.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from blklab.analysis.metrics import Metric
from blklab.analysis.variation import RunSample, Spread, mean, spreads

NEGLIGIBLE = 0.005  # A change that is surely smaller is no change, however small the variation is
MARGIN = 0.05  # Two cells are `same` if they surely differ by less than this share
POWER = 0.8  # The probability with which the advised number of repeats decides
MOST_REPEATS = 100  # The largest number of further repeats that is computed
WIDEST = 50.0  # The largest logarithm of a ratio: beyond e^50 an interval is useless, and it would overflow


@dataclass(frozen=True)
class Decision:
    """What is known about `other / baseline - 1`."""

    verdict: str
    """`better`, `worse`, `same` (within the margin), `unclear` (more repeats are needed), `unknown`
    (one run each, and the variation is unknown), or `differ`: one run each, which differ by more
    than the variation within them; the variation between runs is unknown."""

    change: float
    low: float | None = None
    high: float | None = None
    """The confidence interval; None if the variation is unknown. It holds together with those of
    all other comparisons of the metric."""

    p: float | None = None  # Probability of a difference this large in any comparison of the metric if there is none
    once: bool = False  # Whether each side has one run: only the variation within the runs is known
    within: float | None = None  # If the verdict is `same`: the cells differ by less than this share
    repeats: int | None = None
    """If the verdict is `unclear`: about how many more repeats of each side decide; more than
    `MOST_REPEATS` if they are not enough."""

    detectable: float | None = None  # The change that is found with a probability of 80 %
    needed: int | None = None  # The repeats of each side with which a change as large as the margin is found


@dataclass(frozen=True)
class Rule:
    """What a decision needs besides the runs."""

    metric: Metric
    confidence: float = 0.95
    margin: float = MARGIN

    def each(self, count: int) -> float:
        """Returns the confidence of each of `count` intervals that hold together."""
        return float(self.confidence ** (1 / max(1, count)))


Pair = tuple[Sequence[int], Sequence[int]]
"""Positions of cells: those of the baseline, and those compared with them, one by one."""


def decide(
    cells: Sequence[Sequence[RunSample]], sides: Sequence[object], pairs: Sequence[Pair], rule: Rule, least: int = 0
) -> list[Decision | None]:
    """Decides all comparisons of a metric together; None for a pair without values.

    Cells with equal `sides` share what is known about their variation. If a pair has several cells on each side, the
    mean of their changes is decided. `least` is the number of comparisons if these pairs were chosen among more.
    """
    known = spreads(cells, sides, rule.metric.resolution)
    contrasts = [_contrast([[(cells[at], known[at]) for at in side] for side in pair]) for pair in pairs]
    count = sum(contrast is not None and bool(contrast.cells) for contrast in contrasts)
    count = max(count, least)
    return [None if contrast is None else _judge(contrast, rule, count) for contrast in contrasts]


def intervals(
    cells: Sequence[Sequence[RunSample]], sides: Sequence[object], rule: Rule, count: int = 1
) -> list[tuple[float, float] | None]:
    """Returns the confidence interval of each cell's mean; None if its variation is unknown.

    `count` of them hold together. For one run, without repeats elsewhere, the interval describes
    the variation within it.
    """

    def ends(spread: Spread) -> tuple[float, float]:
        error = math.sqrt(spread.variance / spread.runs)
        factor = math.exp(min(WIDEST, _quantile(rule.each(count), spread.degrees) * error))
        return spread.mean / factor, spread.mean * factor

    return [ends(spread) if spread else None for spread in spreads(cells, sides, rule.metric.resolution)]


def repeats_to_find(spread: Spread, change: float, confidence: float) -> int:
    """Returns how many runs of each side find a change with the probability `POWER`; at least 2.

    More than `MOST_REPEATS` if those are not enough.
    """
    log = math.log1p(change)
    for count in range(2, MOST_REPEATS + 1):
        degrees = max(spread.degrees, 2.0 * (count - 1))
        quantiles = _quantile(confidence, degrees) + _quantile(2 * POWER - 1, degrees)
        if quantiles * math.sqrt(2 * spread.variance / count) <= log:
            return count
    return MOST_REPEATS + 1


@dataclass(frozen=True)
class _Contrast:
    """The logarithm of a ratio, and the cells whose variation makes it uncertain."""

    log: float
    cells: Sequence[tuple[Spread, float]]  # With the weight of each; empty if nothing is known about their variation
    once: bool = False

    def error(self, more: int = 0) -> tuple[float, float]:
        """Returns the standard error and its degrees of freedom, with more repeats of each side."""
        parts = [
            (weight**2 * spread.variance / (spread.runs + more), spread.degrees + more) for spread, weight in self.cells
        ]
        total = sum(variance for variance, _ in parts)
        if not total:
            return 0.0, min(degrees for _, degrees in parts)
        degrees = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
        if all(spread.origin == "own" and own == 1 for (spread, _), (_, own) in zip(self.cells, parts, strict=True)):
            # Of two repeats, Satterthwaite's value is too small: docs/explanation/verdicts.md.
            degrees = 0.3 * len(parts) + 0.7 * degrees
        if any(spread.origin == "shared" and spread.runs > 1 for spread, _ in self.cells):
            # Far in the tails, Satterthwaite's value is too large for a fitted variance.
            degrees = math.sqrt(degrees * max(parts)[1])
        return math.sqrt(total), degrees

    def resolved(self, confidence: float, more: int) -> float:
        """Returns the logarithm that is found with the probability `POWER`."""
        error, degrees = self.error(more)
        return (_quantile(confidence, degrees) + _quantile(2 * POWER - 1, degrees)) * error


def _contrast(pair: Sequence[Sequence[tuple[Sequence[RunSample], Spread | None]]]) -> _Contrast | None:
    """Returns the mean change from the first side to the second; None without values."""
    if not all(samples for side in pair for samples, _ in side):
        return None
    means = [[mean(samples) for samples, _ in side] for side in pair]
    if not means[0] or not all(means[0]):
        return None
    logs = [math.log(other / base) if other / base > 0 else -math.inf for base, other in zip(*means, strict=True)]
    middle = sum(logs) / len(logs)
    spreads_of = [spread for side in pair for _, spread in side if spread]
    known = len(spreads_of) == 2 * len(logs) and math.isfinite(middle)
    once = all(len(samples) == 1 for side in pair for samples, _ in side)
    if len(logs) > 1 and once and math.isfinite(middle):
        # Without repeats, the other settings of a full sweep are the repeats.
        variance = sum((log - middle) ** 2 for log in logs) / (len(logs) - 1)
        spread = Spread(1.0, len(logs), max(variance, 1e-6), len(logs) - 1.0, "own")
        return _Contrast(middle, [(spread, 1.0)])
    within = known and all(spread.origin == "within" for spread in spreads_of)
    weight = 1 / len(logs)
    return _Contrast(middle, [(spread, weight) for spread in spreads_of] if known else [], within)


def _quantile(confidence: float, degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def _judge(contrast: _Contrast, rule: Rule, count: int) -> Decision:
    from scipy.special import stdtr

    if not contrast.cells:
        return Decision("unknown", math.expm1(contrast.log))
    once = contrast.once
    each = rule.each(count)
    error, degrees = contrast.error()
    reach = _quantile(each, degrees) * error
    low, high = (math.expm1(min(WIDEST, max(-WIDEST, contrast.log + end))) for end in (-reach, reach))
    largest = max(abs(low), abs(high))
    t = abs(contrast.log) / error if error else math.inf if contrast.log else 0.0
    p = -math.expm1(count * math.log1p(-min(2 * float(stdtr(degrees, -t)), 1 - 1e-16)))
    within = repeats = None
    if largest <= max(NEGLIGIBLE, rule.metric.resolution) or (low <= 0 <= high and largest <= rule.margin):
        verdict, within = ("unclear", None) if once else ("same", largest)
    elif low <= 0 <= high:
        verdict = "unclear"
    elif once:
        verdict = "differ"
    else:
        more = contrast.log > 0
        verdict = "better" if more == rule.metric.more_is_better else "worse"
    margin = math.log1p(rule.margin)
    if verdict == "unclear" and not once:
        # The change is found, or it is found to be less than the margin.
        repeats = max(1, _repeats(contrast, each, max(abs(contrast.log), margin)))
    detectable = math.expm1(min(WIDEST, contrast.resolved(each, 0)))
    runs = min(spread.runs for spread, _ in contrast.cells)
    needed = None if once else runs + _repeats(contrast, each, margin)
    return Decision(verdict, math.expm1(contrast.log), low, high, p, once, within, repeats, detectable, needed)


def _repeats(contrast: _Contrast, confidence: float, log: float) -> int:
    """Returns how many more repeats of each side resolve a logarithm."""
    steps = range(MOST_REPEATS + 1)
    return bisect_left(steps, True, key=lambda more: contrast.resolved(confidence, more) <= log)
