"""Drift, outliers, levels: found where they are, and not in what is merely noisy."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.compare import diagnostics

MANY = [1000.0] * 200


def noisy(mean: float, deviation: float, count: int = 60, seed: int = 1) -> list[float]:
    luck = random.Random(seed)
    return [luck.gauss(mean, deviation) for _ in range(count)]


def test_a_drift_is_told() -> None:
    values = [value * (1.3 - 0.6 * at / 60) for at, value in enumerate(noisy(1000, 20))]
    change = diagnostics.drift(values)
    assert change is not None
    assert -0.36 < change < -0.3


def test_what_is_too_small_or_too_short_is_no_drift() -> None:
    assert diagnostics.drift([100 - at / 10 for at in range(60)]) is None
    assert diagnostics.drift([100.0, 50.0] * 5) is None
    assert diagnostics.drift([100.0] * 60) is None


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.001, 0.3))
def test_noise_is_neither_drift_nor_levels_nor_stall(seed: int, deviation: float) -> None:
    values = [max(1.0, value) for value in noisy(1000, 1000 * deviation, 90, seed)]
    assert diagnostics.drift(values) is None
    assert diagnostics.levels(values, values) is None
    assert [item for item in diagnostics.stalls(values, values) if deviation < 0.1] == []


def test_a_stall_is_told_with_where_it_was() -> None:
    values = noisy(1000, 10)
    values[17] = 3.0
    (stall,) = diagnostics.stalls(values, values)
    assert (stall.index, stall.value) == (17, 3.0)
    assert abs(stall.median - 1000) < 5


def test_the_ends_of_a_run_and_few_ios_are_no_stall() -> None:
    values = noisy(1000, 10)
    values[0] = values[-1] = 0.0
    assert diagnostics.stalls(values, values) == []
    values = noisy(1000, 10)
    values[30] = 300.0
    assert diagnostics.stalls(values, [6.0] * 60) == []
    assert len(diagnostics.stalls(values, MANY[:60])) == 1


def test_what_happens_often_is_no_outlier() -> None:
    values = [1000.0 if at % 5 else 1.0 for at in range(60)]
    assert diagnostics.stalls(values, values) == []


def test_repeats_that_do_not_belong() -> None:
    assert [item.index for item in diagnostics.misfits([100, 101, 99, 100.5, 70])] == [4]
    assert diagnostics.misfits([100, 101, 99, 100.5, 103]) == []
    assert diagnostics.misfits([100, 101, 50]) == []


def test_two_levels() -> None:
    luck = random.Random(3)
    values = [luck.gauss(1000 if luck.random() < 0.7 else 300, 20) for _ in range(100)]
    result = diagnostics.levels(values, values)
    assert result is not None
    assert abs(result.low - 300) < 20
    assert abs(result.high - 1000) < 20
    assert 0.2 < result.share_low < 0.4


def test_a_slope_is_not_two_levels() -> None:
    values = [float(100 + at) for at in range(100)]
    assert diagnostics.levels(values, [1e6] * 100) is None


def test_a_campaign_that_drifts() -> None:
    ratios = [1.05 - at / 200 for at in range(20)]
    change = diagnostics.course(ratios)
    assert change is not None
    assert -0.06 < change < -0.04
    luck = random.Random(5)
    assert diagnostics.course([luck.gauss(1, 0.01) for _ in range(40)]) is None
    assert diagnostics.course([1.0, 0.9, 0.8]) is None
