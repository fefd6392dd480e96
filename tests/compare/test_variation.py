"""How much cells vary: on samples whose truth is known."""

import math

import numpy as np
import pytest

from blklab.compare.variation import (
    RunSample,
    between_campaigns,
    correlation_time,
    series_variance,
    spreads,
    two_groups,
)


def correlated(generator: np.random.Generator, count: int, phi: float, level: float) -> list[float]:
    """An AR(1) process around a level: its correlation time is (1 + φ) / (1 − φ)."""
    noise = generator.normal(size=count)
    values = np.empty(count)
    values[0] = noise[0] / np.sqrt(1 - phi**2)
    for at in range(1, count):
        values[at] = phi * values[at - 1] + noise[at]
    return list(level + values)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_the_correlation_time_of_a_known_process(phi: float) -> None:
    values = correlated(np.random.default_rng(1), 20_000, phi, 0)
    assert correlation_time(values) == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def test_constant_values_have_no_correlation_time() -> None:
    assert correlation_time([5.0] * 100) == 1
    assert correlation_time([]) == 1


@pytest.mark.parametrize("count", [60, 300])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_mean_of_a_series_varies_as_its_variance_says(count: int, phi: float) -> None:
    generator = np.random.default_rng(11)
    ratios = []
    for _ in range(400):
        values = correlated(generator, count, phi, 100)
        if known := series_variance(values):
            ratios.append((np.mean(values) - 100) / math.sqrt(known[0]))
    assert len(ratios) > 320
    assert np.quantile(np.abs(ratios), 0.5) < 0.8  # 0.67 with many degrees of freedom


def test_cells_share_what_they_know_but_no_cell_looks_quieter_than_it_is() -> None:
    generator = np.random.default_rng(2)
    cells = [[RunSample(x) for x in generator.normal(100, 2, size=3)] for _ in range(7)]
    cells.append([RunSample(x) for x in (50.0, 100.0, 150.0)])
    known = spreads(cells, ["a"] * 8, 0.0)
    own = [np.var([s.value for s in cell], ddof=1) / np.mean([s.value for s in cell]) ** 2
           for cell in cells]  # fmt: skip
    assert all(each is not None and each.degrees > 2 for each in known)
    assert all(each.variance >= least - 1e-12 for each, least in zip(known, own, strict=True) if each)
    # Three cells are too few: each has its own variance.
    few = spreads(cells[:3], ["a"] * 3, 0.0)
    assert [each and each.variance for each in few] == pytest.approx(own[:3])


def test_one_run_varies_as_the_repeats_of_other_cells() -> None:
    several, single = [RunSample(x) for x in (99.0, 100.0, 101.0)], [RunSample(50.0)]
    (first, second) = spreads([several, single], ["a", "b"], 0.0)
    assert first is not None
    assert second is not None
    assert (second.variance, second.degrees) == (first.variance, first.degrees)
    assert spreads([single, single], ["a", "b"], 0.0) == [None, None]


def test_how_much_campaigns_vary() -> None:
    """Check value: the variance of the mean logarithms of four campaigns."""
    campaigns = [[100, 102, 101], [110, 109, 112], [97, 99, 98], [104, 103, 105]]
    known = between_campaigns([campaigns])
    assert known == pytest.approx((0.0025533, 3), rel=1e-3)
    assert between_campaigns([campaigns] * 5) == pytest.approx(known)
    assert between_campaigns([campaigns[:3]]) is None


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([100, 102, 40], ([40], [100, 102])),
        ([100, 102, 101, 250, 255], ([100, 101, 102], [250, 255])),
        ([100, 118, 101], None),
        ([100, 110, 121, 133, 146], None),
        ([100, 200], None),
        ([0, 100, 101], None),
    ],
)
def test_runs_in_two_groups_are_found(values: list[float], groups: tuple[list[float], list[float]] | None) -> None:
    assert two_groups(values) == groups
