"""Trends: changes that last, and the noise between campaigns."""

import math

import numpy as np
import pytest

from blklab.compare.decision import history_share
from blklab.compare.trend import has_enough_campaigns, list_level_changes, measure_noise
from blklab.compare.variation import between_campaigns


def nights(seed: int, change: float) -> list[float | None]:
    """Twenty nights with 3 % between them; from the thirteenth on the level is another one."""
    logs = np.random.default_rng(seed).normal(0, 0.03, size=20)
    logs[12:] += math.log1p(change)
    return [float(value) for value in 1e5 * np.exp(logs)]


def test_a_change_that_lasts_is_named_and_is_no_noise() -> None:
    series = {"a": nights(4, -0.2), "b": nights(2, 0.0)}
    (change,) = list_level_changes(series)
    assert (change.cell, change.index) == ("a", 12)
    assert change.change == pytest.approx(-0.2, abs=0.03)
    noise = measure_noise(series)
    assert noise is not None
    assert noise.deviation == pytest.approx(0.03, abs=0.008)
    assert noise.campaigns == 20


def test_a_campaign_without_the_cell_is_left_out() -> None:
    values = nights(4, -0.2)
    values[4] = None
    (change,) = list_level_changes({"a": values})
    assert change.index == 12


def test_few_campaigns_have_no_change_and_no_noise() -> None:
    series = {"a": nights(4, 0.0)[:3]}
    assert (list_level_changes(series), measure_noise(series), has_enough_campaigns(series)) == ([], None, False)


def test_the_variance_between_campaigns_is_around_the_levels() -> None:
    cell = [[value or 0] * 3 for value in nights(4, -0.2)]
    variation = between_campaigns([cell])
    assert variation is not None
    assert math.sqrt(variation[0]) == pytest.approx(0.03, abs=0.008)
    assert variation[1] == 18


def test_the_shares_of_all_campaigns_are_the_whole_error_rate() -> None:
    assert sum(map(history_share, range(5, 100_000))) == pytest.approx(1, abs=0.001)
