"""SNIA's steady state, by hand-made figures."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import UsageError
from blklab.outcome import SteadyStateResult
from blklab.runners.fio.cell import judge_steady_state, until_steady

WANTED: Any = {"round_ns": 10, "rounds": 5, "range": 0.2, "slope": 0.1, "limit_ns": 200}


@pytest.mark.parametrize(
    ("rounds", "reached", "spread", "slope"),
    [
        ([100, 100, 100, 100, 100], True, 0.0, 0.0),
        # The line rises by 2.4 a round, 9.6 in all: (−2·96 − 1·97 + 1·103 + 2·105) / 10.
        ([96, 97, 99, 103, 105], True, 0.09, 0.096),
        # 10.4 in all.
        ([95, 97, 100, 103, 105], False, 0.10, 0.104),
        # Level, but too wide apart.
        ([111, 89, 100, 89, 111], False, 0.22, 0.0),
        ([110, 90, 100, 90, 110], True, 0.20, 0.0),
        # Only the last five count.
        ([900, 500, 100, 100, 100, 100, 100], True, 0.0, 0.0),
        ([100, 100, 100, 100], False, None, None),
        ([0, 0, 0, 0, 0], False, None, None),
    ],
)
def test_judge(rounds: list[float], reached: bool, spread: float | None, slope: float | None) -> None:
    result = judge_steady_state(rounds)
    assert result.reached is reached
    assert result.range == pytest.approx(spread)
    assert result.slope == pytest.approx(slope)


@given(st.lists(st.floats(1, 1e7), min_size=5, max_size=12), st.floats(0.01, 100))
def test_the_unit_does_not_matter(rounds: list[float], factor: float) -> None:
    item, other = judge_steady_state(rounds), judge_steady_state([value * factor for value in rounds])
    assert item.range == pytest.approx(other.range, abs=1e-9)
    assert item.slope == pytest.approx(other.slope, abs=1e-9)


def test_a_window_of_one_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="expected at least 2"):
        judge_steady_state([1.0], window=1)


def test_rounds_go_on_until_they_are_steady() -> None:
    speeds = [500.0, 300.0, 200.0, 110.0, 100.0, 100.0, 100.0, 100.0, 7.0]
    result = until_steady(WANTED, lambda before: speeds[before])
    assert result.reached
    assert result.rounds == speeds[:8]
    assert result.range == pytest.approx(10 / 102)


def test_rounds_end_at_the_limit() -> None:
    result = until_steady(WANTED | {"limit_ns": 69}, lambda before: 100.0 + 100 * before)
    assert not result.reached
    assert len(result.rounds) == 6
    assert (result.slope or 0) > 0.1
    short = until_steady(WANTED | {"limit_ns": 1}, lambda _before: 1.0)
    assert short == SteadyStateResult(False, [1.0])
