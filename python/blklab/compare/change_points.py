"""Change points in a series: where the level of a figure changes from campaign to campaign.

The method is E-divisive (Matteson and James, Journal of the American Statistical Association 109, 2014) as Apache Otava
uses it (Fleming and others, "Hunter", ICPE 2023): the energy statistic proposes the point at which two parts differ
most, and Student's t-test accepts it. Points are first accepted at a larger probability, since a point may only be seen
when its neighbour is known; then the weakest are removed. Otava divides squares by the number of values, which makes p
too small: here they are divided by one less. Otava tests the whole rest of a segment: here, the part with the largest
statistic is tested, so a level between two others is found.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

LIMIT = 0.001  # The largest p of a change point: the place was chosen, so this p is smaller than the error rate
WEAK = 10.0  # The first pass accepts so many times the limit
FEWEST_VALUES = 8  # Of a series with change points
FEWEST_IN_SEGMENT = 3
SMALLEST_CHANGE = 0.01  # Smaller changes are no change points

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChangePoint:
    index: int  # The first value of the new level
    p: float  # Of Student's test of both neighbouring segments
    change: float  # Of the level, relative


def find_change_points(logs: Sequence[float], limit: float = LIMIT) -> list[ChangePoint]:
    """Returns the change points of a series of logarithms in their order; none if it is short."""
    values = np.asarray(logs, dtype=float)
    if len(values) < FEWEST_VALUES:
        return []
    indexes: list[int] = []
    while True:
        candidates = []
        for begin, end in _segments(indexes, len(values)):
            candidate = best_split(values[begin:end])
            if candidate is not None:
                statistic, index, until = candidate
                candidates.append((statistic, begin, begin + index, begin + until))
        candidates.sort(reverse=True)
        index_of_best = None
        for _, begin, index, until in candidates:
            if compare_parts(values[begin:index], values[index:until]) <= WEAK * limit:
                index_of_best = index
                break
        if index_of_best is None:
            break
        indexes = sorted([*indexes, index_of_best])
    return _remove_weak(values, indexes, limit)


def levels(logs: Sequence[float], points: Sequence[ChangePoint]) -> list[float]:
    """Returns the mean of its segment for each value."""
    result: list[float] = []
    for begin, end in _segments([point.index for point in points], len(logs)):
        result += [fmean(logs[begin:end])] * (end - begin)
    return result


def deviate_from_levels(logs: Sequence[float], limit: float = LIMIT) -> tuple[float, int]:
    """Returns the sum of squares around the levels between change points, and the number of levels."""
    points = find_change_points(logs, limit)
    squares = sum((log - level) ** 2 for log, level in zip(logs, levels(logs, points), strict=True))
    return squares, len(points) + 1


def best_split(values: Array) -> tuple[float, int, int] | None:
    """Returns the largest energy statistic of a segment, its split, and the end of its second part; None if too short.

    The second part may end before the segment does: where the next change is.
    """
    distances = np.abs(values[:, None] - values[None, :])
    sums = np.zeros((len(values) + 1, len(values) + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    best: tuple[float, int, int] | None = None
    for split in range(FEWEST_IN_SEGMENT, len(values) - FEWEST_IN_SEGMENT + 1):
        left = sums[split, split]
        for end in range(split + FEWEST_IN_SEGMENT, len(values) + 1):
            between = sums[split, end] - left
            right = sums[end, end] - 2 * sums[split, end] + left
            statistic = energy(between, left / 2, right / 2, split, end - split)
            if best is None or statistic > best[0]:
                best = (statistic, split, end)
    return best


def energy(between: float, left: float, right: float, first: int, second: int) -> float:
    """Returns the energy statistic of two parts with `first` and `second` values, from the sums of their distances.

    `between` is the sum over pairs of both parts, `left` and `right` are the sums over pairs within them.
    """
    statistic = 2 / (first + second) * between
    if first > 1:
        statistic -= 2 * second / ((first + second) * (first - 1)) * left
    if second > 1:
        statistic -= 2 * first / ((first + second) * (second - 1)) * right
    return float(statistic)


def compare_parts(first: Array, second: Array) -> float:
    """Returns the p of Student's test of equal means and variances."""
    from scipy.special import stdtr

    degrees = len(first) + len(second) - 2
    squares = float(((first - first.mean()) ** 2).sum() + ((second - second.mean()) ** 2).sum())
    difference = abs(float(second.mean() - first.mean()))
    if squares <= 0:
        return 0.0 if difference else 1.0
    error = math.sqrt(squares / degrees * (1 / len(first) + 1 / len(second)))
    return 2 * float(stdtr(degrees, -difference / error))


def _segments(indexes: Sequence[int], count: int) -> list[tuple[int, int]]:
    return list(zip([0, *indexes], [*indexes, count], strict=True))


def _remove_weak(values: Array, indexes: Sequence[int], limit: float) -> list[ChangePoint]:
    """Returns the points that are left when the weakest has been removed again and again."""
    left = list(indexes)
    while True:
        points = []
        segments = _segments(left, len(values))
        for (begin, index), (_, end) in pairwise(segments):
            first, second = values[begin:index], values[index:end]
            change = math.expm1(float(second.mean() - first.mean()))
            points.append(ChangePoint(index, compare_parts(first, second), change))
        weak_points = [point for point in points if point.p > limit]
        small_points = [point for point in points if abs(point.change) < SMALLEST_CHANGE]
        if weak_points:
            left.remove(max(weak_points, key=lambda point: point.p).index)
        elif small_points:
            left.remove(min(small_points, key=lambda point: abs(point.change)).index)
        else:
            return points
