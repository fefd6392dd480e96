"""How much the values of a cell vary: from its repeats, from other cells, or within one run.

Variances are relative to the square of the mean: those of logarithms, by the delta method. Few repeats say little about
their variance, so cells of one side share what they know: the distribution of their variances is fitted by moments
(Smyth, "Linear models and empirical Bayes methods", Statistical Applications in Genetics and Molecular Biology 3(1),
2004), and it counts as at most `MAX_PRIOR` further degrees of freedom. It never makes a variance smaller than the one
observed: cells of one experiment can differ thirtyfold, and a variable cell must not look stable.
Two sides that vary alike share their variances, too: whether they do is decided by the variances alone, never by the
difference of the means. If the variances of the same cells differ between two sides by more than chance explains, few
repeats do not show how much a cell varies, such as one with two modes: then no cell is believed to be quiet.

Successive repeats may depend on each other, so their mean varies by more than their number says. How much they do is
estimated in `blklab.compare.dependence`. docs/explanation/verdicts.md has the simulations.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from blklab.compare.change_points import LIMIT, deviate_from_levels
from blklab.compare.dependence import widening
from blklab.compare.model_errors import ModelError

FEWEST_CELLS = 4  # Number of cells with repeats from which the distribution of variances is fitted
MAX_PRIOR = 4.0  # Maximum degrees of freedom of that distribution, if it is of one side
FEWEST_CAMPAIGNS = 4  # From which the variance between campaigns is known well enough
APART = (1.5, 1.2)  # Two groups of runs are apart if the nearest values differ by this factor: of few runs, of five …
FEWEST_APART = 5
UNSTABLE_DEGREES = 8.0  # The degrees of freedom of the peers' mean variance, if variances are not stable
UNSTABLE = 2.0  # Variances are not stable from so many standard deviations above what chance explains
WIDER = 4.0  # … and by so many times the range within a group, both logarithmic
FAR = 3.5  # A run is far away if its distance from the median of its side is more than this many deviations
LEAST_SAMPLES = 60
"""Number of intervals from which one run has a confidence interval: with 30 and a correlation of
0.9, a 95 % interval would hold the true value in 90 % of cases."""


@dataclass(frozen=True)
class RunSample:
    """The value of a run, and its series over time if known."""

    value: float
    series: Sequence[float] = ()
    prediction: ModelError | None = None  # None if the run is measured


@dataclass(frozen=True)
class Spread:
    """The mean of a cell, and how much the values of its runs vary."""

    mean: float
    runs: int
    variance: float  # The relative variance of one run
    degrees: float  # The degrees of freedom of the variance
    origin: str
    """`own` repeats, `shared` with other cells, `both` sides of a pair, `cells` that stand for repeats, or `within` the
    only run."""

    correlation: float = 0.0  # That of successive runs

    def variance_of_mean(self, more: int = 0) -> float:
        """Returns the relative variance of the mean, with more runs; runs that depend on each other say less."""
        runs = self.runs + more
        return self.variance / runs * widening(runs, self.correlation)


def mean(samples: Sequence[RunSample]) -> float:
    """Returns the mean of a cell's runs."""
    return sum(sample.value for sample in samples) / len(samples)


def spreads(
    cells: Sequence[Sequence[RunSample]],
    sides: Sequence[object],
    resolution: float,
    unstable_sides: Collection[object] = (),
    correlation: float = 0.0,
) -> list[Spread | None]:
    """Returns the variation of each cell; None if nothing is known about it.

    `sides` says which cells share what they know. A cell with one run takes the variation of the others, or the
    variation within the run if no cell has repeats. Predictions have none. `resolution` is the relative step in which
    the metric is recorded. A cell of `unstable_sides` (see `find_unstable_sides`) is not quieter than its peers.
    `correlation` is that of successive runs.
    """
    floor = resolution**2 / 12  # of a uniform rounding error: less cannot be seen
    cell_variances = [_own(cell, floor) for cell in cells]
    by_side: dict[object, list[_Variance]] = {}
    for side, cell_variance in zip(sides, cell_variances, strict=True):
        by_side.setdefault(side, []).extend([cell_variance] if cell_variance else [])
    all_pooled = _pool_variances([cell_variance for cell_variance in cell_variances if cell_variance])
    unstable_peers: list[_Variance] = []
    for side, peers in by_side.items():
        if side in unstable_sides:
            unstable_peers += peers
    usual_unstable = _pool_variances(unstable_peers)
    fits = {side: _fit(peers) for side, peers in by_side.items() if len(peers) >= FEWEST_CELLS}
    pooled_by_side = {side: _pool_variances(peers) for side, peers in by_side.items()}
    result: list[Spread | None] = []
    for cell, cell_variance, side in zip(cells, cell_variances, sides, strict=True):
        fit = fits.get(side)
        pooled_of_side = pooled_by_side[side]
        if not cell or mean(cell) <= 0 or cell[0].prediction:
            result.append(None)
        elif cell_variance and usual_unstable and side in unstable_sides:
            widened = _widen_to_peers(cell_variance, usual_unstable)
            result.append(Spread(mean(cell), len(cell), *widened, "shared", correlation))
        elif cell_variance and fit and pooled_of_side:
            degrees = min(cell_variance.degrees + fit.degrees, pooled_of_side.degrees)
            pooled = _pool_variances([cell_variance, fit]) or cell_variance
            variance = max(cell_variance.variance, pooled.variance)
            result.append(Spread(mean(cell), len(cell), variance, degrees, "shared", correlation))
        elif cell_variance:
            result.append(Spread(mean(cell), len(cell), *cell_variance, "own", correlation))
        elif peer_variance := fit or pooled_of_side or all_pooled:
            result.append(Spread(mean(cell), 1, *peer_variance, "shared"))
        else:
            within = _within(cell[0])
            result.append(within and Spread(mean(cell), 1, *within, "within"))
    return result


def spreads_of_pairs(
    cells: Sequence[Sequence[RunSample]],
    sides: Sequence[object],
    pairs: Sequence[tuple[int, int]],
    resolution: float,
    correlation: float = 0.0,
) -> dict[tuple[int, int], Spread]:
    """Returns the common variation of both cells of a pair, for pairs of sides that vary alike.

    A pair is two positions in `cells`. Two sides vary alike if, over at least `FEWEST_CELLS` pairs with as many repeats
    on both sides, the logarithms of the ratios of variances are what chance explains: their mean and their sum of
    squares. The result then has these pairs; each cell may be in one. `correlation` is that of successive runs.
    """
    floor = resolution**2 / 12
    by_sides: dict[tuple[object, object], list[tuple[int, int]]] = {}
    for first, second in pairs:
        if len(cells[first]) == len(cells[second]):
            by_sides.setdefault((sides[first], sides[second]), []).append((first, second))
    result: dict[tuple[int, int], Spread] = {}
    for members in by_sides.values():
        pair_variances = {pair: (_own(cells[pair[0]], floor), _own(cells[pair[1]], floor)) for pair in members}
        complete_pairs = {
            pair: (a, b) for pair, (a, b) in pair_variances.items() if a and b and a.variance and b.variance
        }
        distinct = {position for pair in complete_pairs for position in pair}
        if len(complete_pairs) < FEWEST_CELLS or len(distinct) < 2 * len(complete_pairs):
            continue
        squares = [
            (math.log(first.variance / second.variance), 2 * _log_variance(first.degrees))
            for first, second in complete_pairs.values()
        ]
        count = len(squares)
        shift = sum(log for log, _ in squares) / math.sqrt(sum(chance for _, chance in squares))
        excess = sum(log**2 / chance for log, chance in squares)
        if abs(shift) >= 1 or excess >= count + math.sqrt(2 * count):
            continue
        variances = [_pool_variances(sides_of) for sides_of in complete_pairs.values()]
        common = [variance for variance in variances if variance]
        fit = _fit(common, math.inf)
        all_degrees = sum(variance.degrees for variance in common)
        for pair, of_pair in zip(complete_pairs, common, strict=True):
            pooled = _pool_variances([of_pair, fit]) or of_pair
            degrees = min(of_pair.degrees + fit.degrees, all_degrees)
            variance = max(of_pair.variance, pooled.variance)
            result[pair] = Spread(1.0, len(cells[pair[0]]), variance, degrees, "both", correlation)
    return result


def find_unstable_sides(
    cells: Sequence[Sequence[RunSample]], sides: Sequence[object], pairs: Sequence[tuple[int, int]], resolution: float
) -> set[object]:
    """Returns the sides on which the variance of few repeats does not say how much a cell varies.

    A pair is two positions in `cells`. The same cell varies alike on two sides, up to a factor that all cells share. If
    the ratios of variances differ from cell to cell by more than chance explains, a cell has two modes, or runs far
    away, and repeats that are alike by chance make it look quiet.
    """
    floor = resolution**2 / 12
    logs_by_sides: dict[tuple[object, object], list[tuple[float, float]]] = {}
    for first, second in pairs:
        variances = (_own(cells[first], floor), _own(cells[second], floor))
        if variances[0] and variances[1] and variances[0].variance and variances[1].variance:
            log = math.log(variances[0].variance / variances[1].variance)
            chance = sum(_log_variance(variance.degrees) for variance in variances if variance)
            logs_by_sides.setdefault((sides[first], sides[second]), []).append((log, chance))
    unstable_sides: set[object] = set()
    for pair_of_sides, logs in logs_by_sides.items():
        if len(logs) < FEWEST_CELLS:
            continue
        weight = sum(1 / chance for _, chance in logs)
        shift = sum(log / chance for log, chance in logs) / weight
        excess = sum((log - shift) ** 2 / chance for log, chance in logs)
        degrees = len(logs) - 1
        if excess > degrees + UNSTABLE * math.sqrt(2 * degrees):
            unstable_sides |= {*pair_of_sides}
    return unstable_sides


def between_campaigns(cells: Sequence[Sequence[Sequence[float]]]) -> tuple[float, float] | None:
    """Returns the variance of the logarithm of a campaign's mean, and its degrees of freedom.

    `cells` has the values of each cell in each of several campaigns, in the order of measurement. It is the variance
    around the levels between change points: a change that lasts is not noise. Campaigns are shared by all cells, so
    more cells do not add degrees of freedom. None with fewer than `FEWEST_CAMPAIGNS`.
    """
    if not cells or len(cells[0]) < FEWEST_CAMPAIGNS:
        return None
    count = len(cells[0])
    variances = []
    most_levels = 1
    for cell in cells:
        logs = [fmean(map(math.log, values)) for values in cell]
        squares, level_count = deviate_from_levels(logs, LIMIT / len(cells))
        variances.append(squares / (count - level_count))
        most_levels = max(most_levels, level_count)
    return fmean(variances), float(count - most_levels)


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Returns the values of runs in two groups that are apart, the lower one first; None if they are not.

    This only describes the runs: it decides nothing. At least three are needed.
    """
    sorted_values = sorted(values)
    if len(sorted_values) < 3 or sorted_values[0] <= 0:
        return None
    logs = [math.log(value) for value in sorted_values]
    gap, cut = max((high - low, cut) for cut, (low, high) in enumerate(pairwise(logs), 1))
    within = max(logs[cut - 1] - logs[0], logs[-1] - logs[cut])
    least = APART[1] if len(sorted_values) >= FEWEST_APART else APART[0]
    return (sorted_values[:cut], sorted_values[cut:]) if gap >= max(math.log(least), WIDER * within) else None


def outlying(first: Sequence[float], second: Sequence[float], resolution: float) -> list[float]:
    """Returns the values that are far away from the median of their side.

    The deviation is that of both sides together (1.4826 times the median of the distances of logarithms), so the rule
    does not see the difference between the sides.
    """
    from statistics import median

    if min((*first, *second), default=0) <= 0 or max(len(first), len(second)) < 2:
        return []
    distances = []
    for side in (first, second):
        if len(side) > 1:
            middle = median(side)
            distances += [(abs(math.log(value / middle)), value) for value in side]
    deviation = max(1.4826 * median(distance for distance, _ in distances), resolution / math.sqrt(12), 1e-6)
    return [value for distance, value in distances if distance > FAR * deviation]


class _Variance(NamedTuple):
    variance: float
    degrees: float


def _widen_to_peers(own: _Variance, peers: _Variance) -> _Variance:
    """Returns a cell's variance together with the mean one of its peers; never less than its own."""
    degrees = own.degrees + UNSTABLE_DEGREES
    pooled = (own.variance * own.degrees + peers.variance * UNSTABLE_DEGREES) / degrees
    return _Variance(max(own.variance, pooled), own.degrees + min(MAX_PRIOR, peers.degrees - own.degrees))


def _own(cell: Sequence[RunSample], floor: float) -> _Variance | None:
    """Returns the relative variance of repeats."""
    if len(cell) < 2 or (middle := mean(cell)) <= 0 or cell[0].prediction:
        return None
    squares = sum((sample.value - middle) ** 2 for sample in cell)
    return _Variance(max(floor, squares / (len(cell) - 1) / middle**2), len(cell) - 1.0)


def _pool_variances(variances: Sequence[_Variance]) -> _Variance | None:
    degrees = sum(variance.degrees for variance in variances)
    if not degrees:
        return None
    return _Variance(sum(variance.variance * variance.degrees for variance in variances) / degrees, degrees)


def _fit(peers: Sequence[_Variance], max_prior: float = MAX_PRIOR) -> _Variance:
    """Returns the usual variance of cells, and how many degrees of freedom it counts as.

    The variance of the logarithms is increased by its standard error: few cells that vary alike by
    chance are not trusted.
    """
    import numpy as np
    from scipy.special import digamma, polygamma

    variances, degrees = np.asarray(peers, dtype=float).T
    half = degrees / 2
    logs = np.log(variances) - digamma(half) + np.log(half)
    chance = float(polygamma(1, half).mean())
    log_variance = float(logs.var(ddof=1))
    error = math.sqrt((polygamma(3, half).mean() + 2 * max(log_variance, chance) ** 2) / len(peers))
    prior = min(max_prior, 2 * _inverse_trigamma(max(log_variance - chance + error, 1e-3)))
    usual = float(np.exp(logs.mean() + digamma(prior / 2) - math.log(prior / 2)))
    return _Variance(usual, prior)


@cache
def _log_variance(degrees: float) -> float:
    """Returns the variance of the logarithm of a variance of normal values."""
    from scipy.special import polygamma

    return float(polygamma(1, degrees / 2))


def _inverse_trigamma(value: float) -> float:
    """Returns x with trigamma(x) = value, by Newton's method (Smyth, 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(12):
        trigamma = polygamma(1, x)
        x += float(trigamma * (1 - trigamma / value) / polygamma(2, x))
    return x


def _within(sample: RunSample) -> _Variance | None:
    """Returns the relative variance of a run's value, from the variation within it."""
    variance = series_variance(sample.series) if len(sample.series) >= LEAST_SAMPLES else None
    return variance and _Variance(variance[0] / sample.value**2, variance[1])


def series_variance(values: Sequence[float]) -> tuple[float, float] | None:
    """Returns the variance of the mean of an autocorrelated series, and its degrees of freedom.

    None if the series is too short for its autocorrelation.
    """
    import numpy as np

    if len(values) < 8:
        return None
    independent = len(values) / correlation_time(values)
    if independent <= 1:
        return None
    # The second factor corrects the bias of a variance around the sample's own mean.
    variance = float(np.var(values, ddof=1)) / independent / (1 - 1 / independent)
    return variance, independent - 1


def correlation_time(values: Sequence[float]) -> float:
    """Returns how many samples carry the information of one independent sample, at least 1.

    The larger of two estimates: `1 + 2 Σρ`, up to where sums of pairs of correlations are no longer positive (Geyer,
    "Practical Markov Chain Monte Carlo", Statistical Science 7(4), 1992: initial positive sequence), and that of a
    first-order process, whose correlation is corrected for its bias (Kendall, Biometrika 41, 1954).
    """
    import numpy as np

    series = np.asarray(values, dtype=float)
    count = len(series)
    deviations = series - series.mean() if count else series
    power = float(deviations @ deviations)
    if count < 4 or power <= 1e-24 * float(series @ series):
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(deviations, size)) ** 2
    rho = np.fft.irfft(spectrum, size)[:count] / power
    pairs = rho[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    sum_estimate = 2 * float(pairs[: ends[0] if len(ends) else None].sum()) - 1
    first = max(0.0, float(rho[1]))
    first = min(first + (1 + 3 * first) / count, 0.999)
    return max(1.0, sum_estimate, (1 + first) / (1 - first))
