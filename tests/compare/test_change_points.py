"""Change points: check values of Otava's method, and how often chance makes one."""

import math

import numpy as np
import pytest

from blklab.compare.change_points import best_split, compare_parts, find_change_points, levels

THREE_LEVELS = (0.3, 2.4, 1.5, -0.9, -0.5, 99.7, 98.3, 99.1, 149, 149.7, 149.5, 149.1, 148.8, 150)
HALVED = (1.02, 0.95, 0.99, 1, 1.12, 1, 1.01, 0.98, 1.01, 0.96, 0.5, 0.51, 0.48, 0.48, 0.55, 0.5, 0.49, 0.51, 0.5, 0.49)
SLOWER = (100, 102, 99, 101, 100, 103, 95, 94, 96, 93, 95, 94)


@pytest.mark.parametrize(
    ("values", "statistic", "index", "p"),
    [(THREE_LEVELS, 761.2821, 5, 7.675e-8), (HALVED, 4.6822, 10, 3.63e-17), (SLOWER, 28.8, 6, 6.32e-6)],
)
def test_the_first_split(values: tuple[float, ...], statistic: float, index: int, p: float) -> None:
    """Check values by an independent implementation of the published formulas."""
    series = np.asarray(values, dtype=float)
    split = best_split(series)
    assert split is not None
    assert split[0] == pytest.approx(statistic, rel=1e-5)
    assert split[1:] == (index, len(values))
    assert compare_parts(series[:index], series[index:]) == pytest.approx(p, rel=0.01)


@pytest.mark.parametrize(("values", "indexes"), [(THREE_LEVELS, [5, 8]), (HALVED, [10]), (SLOWER, [6])])
def test_change_points_begin_a_new_level(values: tuple[float, ...], indexes: list[int]) -> None:
    assert [point.index for point in find_change_points(values)] == indexes


def test_the_change_is_that_of_the_level() -> None:
    logs = [math.log(value) for value in HALVED]
    (point,) = find_change_points(logs)
    assert point.change == pytest.approx(-0.5, abs=0.01)
    assert levels(logs, [point])[9:11] == pytest.approx([math.log(1.003), math.log(0.501)], abs=0.01)


def test_a_short_series_has_no_change_points() -> None:
    assert find_change_points(SLOWER[3:9]) == []
    assert find_change_points([1.0] * 12) == []


def test_equal_nights_rarely_have_a_change_point() -> None:
    generator = np.random.default_rng(1)
    false = sum(bool(find_change_points(generator.normal(0, 0.03, size=14).tolist())) for _ in range(400))
    assert false <= 8  # 2 of 100


def test_a_shift_of_four_deviations_is_found() -> None:
    generator = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        logs = generator.normal(0, 0.03, size=20)
        logs[12:] -= 0.12
        found += any(abs(point.index - 12) <= 1 for point in find_change_points(logs.tolist()))
    assert found >= 90


def test_a_level_between_two_others_is_found() -> None:
    logs = np.random.default_rng(3).normal(0, 0.02, size=40)
    logs[15:] += 0.2
    logs[28:] -= 0.3
    assert [point.index for point in find_change_points(logs.tolist())] == [15, 28]


def test_the_points_are_those_of_another_program() -> None:
    ruptures = pytest.importorskip("ruptures")
    generator = np.random.default_rng(3)
    logs = generator.normal(0, 0.02, size=40)
    logs[15:] += 0.2
    logs[28:] -= 0.3
    found = [point.index for point in find_change_points(logs.tolist())]
    assert found == ruptures.Dynp(model="l2", min_size=3, jump=1).fit(logs).predict(n_bkps=2)[:-1]
