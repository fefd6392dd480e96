"""How much successive repeats depend on each other, and what that does to the variance of their mean.

Repeats share the slow changes of a machine: a first-order process with the correlation ρ from run to run. The mean of
such runs varies by more than their variance and number say, up to (1 + ρ) / (1 - ρ) times. The correlation is that of
the residuals, pooled over all cells of a metric. A few repeats do not show it, so the estimate begins with what is
usual (a normal prior), and is cautious: it is increased by a part of its error. The variance of a correlation is that
of Dufour and Roy, Journal of Econometrics 29, 1985.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

USUAL = 0.1  # The correlation that is assumed of runs about which nothing is known
USUAL_ERROR = 0.15  # The standard deviation of that assumption
CAUTION = 0.8  # The part of its error by which the estimate is increased
FEWEST_RUNS = 3  # Of a cell that shows a correlation
GRID = np.linspace(-0.5, 0.95, 146)  # Correlations among which the estimate is searched


def run_correlation(cells: Sequence[Sequence[float]]) -> float:
    """Returns the correlation of successive runs, at least 0, from the runs of each cell in their order."""
    observed = 0.0
    expected = np.zeros(len(GRID))
    total_weight = 0.0
    information = 0.0
    for values in cells:
        runs = len(values)
        correlation = _lag_correlation(values)
        if correlation is None:
            continue
        weight = 1 / _variance_of_lag_correlation(runs)
        observed += weight * correlation
        expected = expected + weight * np.asarray(_expected_correlations(runs))
        total_weight += weight
        information += weight * _slope(runs) ** 2
    if not total_weight:
        return USUAL + CAUTION * USUAL_ERROR
    # The observed correlation of few runs is smaller than that of the process.
    estimate = float(np.interp(observed, expected, GRID))
    precision = 1 / USUAL_ERROR**2 + information
    middle = (USUAL / USUAL_ERROR**2 + estimate * information) / precision
    return max(0.0, middle + CAUTION / math.sqrt(precision))


def widening(runs: int, correlation: float) -> float:
    """Returns the factor by which the variance of a mean exceeds the observed variance of the runs over their number.

    It contains that the observed variance of dependent runs is too small.
    """
    if runs < 2 or correlation <= 0:
        return 1.0
    share = _variance_of_mean(runs, correlation)
    return (runs - 1) * share / (1 - share)


def _variance_of_mean(runs: int, correlation: float) -> float:
    """Returns the variance of the mean of a first-order process with the variance 1."""
    inner = runs * (1 - correlation**2) - 2 * correlation * (1 - correlation**runs)
    return inner / (runs * (1 - correlation)) ** 2


def _lag_correlation(values: Sequence[float]) -> float | None:
    """Returns the correlation of each run with the next one; None for fewer than `FEWEST_RUNS`, or equal ones."""
    if len(values) < FEWEST_RUNS or min(values) <= 0:
        return None
    logs = np.log(np.asarray(values, dtype=float))
    residuals = logs - logs.mean()
    squares = float(residuals @ residuals)
    if squares <= 1e-18:
        return None
    return float(residuals[:-1] @ residuals[1:]) / squares


def _variance_of_lag_correlation(runs: int) -> float:
    """Returns the variance of the lag correlation of independent normal runs."""
    numerator = runs**4 - 4 * runs**3 + 3 * runs**2 + 4 * runs - 4
    return numerator / ((runs + 1) * runs**2 * (runs - 1) ** 2)


@cache
def _expected_correlations(runs: int) -> tuple[float, ...]:
    """Returns the expected lag correlation of a first-order process with each correlation of `GRID`."""
    places = np.arange(runs)
    distances = np.abs(places[:, None] - places[None, :])
    expected = []
    for correlation in GRID:
        covariances = correlation**distances
        means = covariances.mean(axis=1)
        share = means.mean()
        products = (runs - 1) * correlation - means[:-1].sum() - means[1:].sum() + (runs - 1) * share
        expected.append(float(products / (runs * (1 - share))))
    return tuple(expected)


@cache
def _slope(runs: int) -> float:
    """Returns how much the expected lag correlation grows with the correlation of the process, near 0.2."""
    expected = np.asarray(_expected_correlations(runs))
    return float(np.interp(0.4, GRID, expected) - np.interp(0.0, GRID, expected)) / 0.4
