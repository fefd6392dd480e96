"""How sure a difference is: on samples whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.analysis.resampling import RunSample, compare_samples, correlation_time, holm


def correlated(generator: np.random.Generator, count: int, phi: float, level: float) -> list[float]:
    """An AR(1) process around a level: its correlation time is (1 + φ) / (1 − φ)."""
    noise = generator.normal(size=count)
    values = np.empty(count)
    values[0] = noise[0] / np.sqrt(1 - phi**2)
    for at in range(1, count):
        values[at] = phi * values[at - 1] + noise[at]
    return list(level + values)


def run(values: list[float]) -> RunSample:
    return RunSample(float(np.mean(values)), values)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_the_correlation_time_of_a_known_process(phi: float) -> None:
    values = correlated(np.random.default_rng(1), 20_000, phi, 0)
    assert correlation_time(values) == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_what_does_not_vary_has_no_memory() -> None:
    assert correlation_time([5.0] * 100) == 1
    assert correlation_time([]) == 1


@pytest.mark.parametrize("phi", [0.0, 0.7])
def test_intervals_of_single_runs_hold_the_truth_as_often_as_they_say(phi: float) -> None:
    generator = np.random.default_rng(7)
    held = alarms = 0
    trials = 200
    for _ in range(trials):
        item, two = (run(correlated(generator, 300, phi, 100)) for _ in range(2))
        result = compare_samples([item], [two])
        assert result is not None
        assert result.low is not None
        assert result.high is not None
        assert result.p is not None
        held += result.low <= 0 <= result.high
        alarms += result.p < 0.05
    assert held / trials > 0.88
    assert alarms / trials < 0.12


@pytest.mark.parametrize(("count", "least"), [(2, 0.9), (3, 0.86), (5, 0.9)])
def test_intervals_of_few_runs_hold_the_truth_as_often_as_they_say(
    count: int, least: float
) -> None:
    generator = np.random.default_rng(8)
    held = alarms = 0
    trials = 300
    for _ in range(trials):
        item, two = (
            [RunSample(float(x)) for x in generator.normal(100, 3, size=count)] for _ in range(2)
        )
        result = compare_samples(item, two)
        assert result is not None
        assert result.low is not None
        assert result.high is not None
        assert result.p is not None
        held += result.low <= 0 <= result.high
        alarms += result.p < 0.05
    assert held / trials > least
    assert alarms / trials < 0.09


def test_ignoring_memory_would_be_wrong() -> None:
    """The test that follows from independent samples cries wolf on the very same series."""
    generator = np.random.default_rng(9)
    naive = ours = 0
    for _ in range(100):
        item, two = (correlated(generator, 300, 0.8, 100) for _ in range(2))
        error = np.sqrt((np.var(item) + np.var(two)) / 300)
        naive += abs(np.mean(item) - np.mean(two)) / error > 1.96
        result = compare_samples([run(item)], [run(two)])
        assert result is not None
        assert result.p is not None
        ours += result.p < 0.05
    assert naive > 30
    assert ours < 15


def test_a_real_difference_is_seen() -> None:
    generator = np.random.default_rng(10)
    item = [run(correlated(generator, 60, 0.5, 100)) for _ in range(3)]
    two = [run(correlated(generator, 60, 0.5, 90)) for _ in range(3)]
    result = compare_samples(item, two)
    assert result is not None
    assert result.change == pytest.approx(-0.1, abs=0.01)
    assert result.high is not None
    assert result.high < -0.05
    assert result.p is not None
    assert result.p < 0.01


def test_what_nothing_tells() -> None:
    assert compare_samples([RunSample(0.0)], [RunSample(1.0)]) is None
    alone = compare_samples([RunSample(10.0)], [RunSample(11.0, [1.0] * 100)])
    assert alone is not None
    assert (alone.low, alone.high, alone.p) == (None, None, None)
    assert alone.change == pytest.approx(0.1)


def test_runs_that_are_all_equal() -> None:
    same, other = [RunSample(5.0)] * 3, [RunSample(6.0)] * 3
    assert compare_samples(same, same) is not None
    result = [compare_samples(same, same), compare_samples(same, other)]
    assert [item and item.p for item in result] == [1.0, 0.0]


def test_holms_correction() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06], nan_ok=False)


@given(st.lists(st.none() | st.floats(0, 1), max_size=12))
def test_a_corrected_p_is_never_smaller_and_keeps_the_order(values: list[float | None]) -> None:
    adjusted = holm(values)
    pairs = [(p, q) for p, q in zip(values, adjusted, strict=True) if p is not None]
    assert all(q is not None and p <= q <= 1 for p, q in pairs)
    in_order = [q for _, q in sorted(pairs)]
    assert in_order == sorted(q for q in in_order if q is not None)
    assert [q is None for q in adjusted] == [p is None for p in values]


@pytest.mark.parametrize(("phi", "count"), [(0.0, 30), (0.7, 30), (0.9, 60)])
def test_short_runs_with_a_long_memory(phi: float, count: int) -> None:
    """Few samples hide how alike they are; were that not made up for, 84 % and 79 % would hold."""
    generator = np.random.default_rng(11)
    held = 0
    trials = 400
    for _ in range(trials):
        item, two = (run(correlated(generator, count, phi, 100)) for _ in range(2))
        result = compare_samples([item], [two])
        assert result is not None
        assert result.once
        assert result.low is not None
        assert result.high is not None
        held += result.low <= 0 <= result.high
    assert held / trials > 0.88


@pytest.mark.parametrize(("count", "lone"), [(3, 1), (2, 1), (5, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_one_run_varies_as_several_do(count: int, lone: int, turned: bool) -> None:
    """However steady it was by itself: 5 % from run to run, 0.5 % within one."""
    generator = np.random.default_rng(12)
    held = alarms = 0
    trials = 400

    def measured() -> RunSample:
        return run(list(generator.normal(generator.normal(100, 5), 0.5, size=60)))

    for _ in range(trials):
        several, single = ([measured() for _ in range(number)] for number in (count, lone))
        result = compare_samples(single, several) if turned else compare_samples(several, single)
        assert result is not None
        assert not result.once
        assert result.low is not None
        assert result.high is not None
        assert result.p is not None
        held += result.low <= 0 <= result.high
        alarms += result.p < 0.05
    assert held / trials >= 0.88
    assert alarms / trials <= 0.10
