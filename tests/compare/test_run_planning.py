"""How often to measure: against the power of the test, simulated."""

import math
import random

import pytest
from scipy.stats import ttest_ind

from blklab.compare.decision import MOST_REPEATS, repeats_to_find
from blklab.compare.metrics import METRICS
from blklab.compare.run_planning import plan_runs
from blklab.compare.variation import Spread
from blklab.outcome import DirectionResult, Outcome
from blklab.store.query import StoredRun
from blklab.store.series import SeriesPoint


def spread(variation: float) -> Spread:
    return Spread(100.0, 4, variation**2, 1_000.0, "own")


@pytest.mark.parametrize(("variation", "change"), [(0.02, 0.03), (0.05, 0.05), (0.1, 0.05)])
def test_so_many_runs_find_the_change_in_four_of_five_cases(variation: float, change: float) -> None:
    repeats = repeats_to_find(spread(variation), change, 0.95)
    chance = random.Random(7)
    tries, times = 1_500, 0
    for _ in range(tries):
        slow, fast = (
            [math.exp(chance.gauss(level, variation)) for _ in range(repeats)] for level in (0.0, math.log1p(change))
        )
        times += ttest_ind([math.log(value) for value in slow], [math.log(value) for value in fast]).pvalue < 0.05
    assert 0.75 < times / tries < 0.93


def test_a_change_below_the_variation_needs_too_many_runs() -> None:
    assert repeats_to_find(spread(0.2), 0.001, 0.95) == MOST_REPEATS + 1
    assert repeats_to_find(spread(0.001), 0.05, 0.95) == 2


def stored(number: int, iops: float) -> StoredRun:
    outcome = Outcome(60 * 10**9, DirectionResult(1000, iops=iops))
    return StoredRun(
        number, 1, "x", "host", number, {"stack": "a", "repeat": str(number)}, {}, "done", None, None, 60.0,
        outcome, None, {},
    )  # fmt: skip


def test_a_plan_from_stored_runs() -> None:
    runs = [stored(number, iops) for number, iops in enumerate((98, 102, 98, 102), 1)]
    none: list[SeriesPoint] = []
    (plan,) = plan_runs(runs, METRICS["iops"], lambda _: none, 0.03, 0.95)
    assert plan.labels == {"stack": "a"}
    assert (plan.runs, plan.seconds) == (4, 60.0)
    assert plan.variation == pytest.approx(2 * math.sqrt(4 / 3) / 100)  # the standard deviation of these four
    assert plan.repeats is not None and 9 <= plan.repeats <= 13  # 2 (1.96 + 0.84)² 2.31² / 3² = 9.3, with Student's t
    assert plan.best is not None and plan.best[0] == plan.repeats


def test_one_run_without_a_series_says_nothing() -> None:
    none: list[SeriesPoint] = []
    (plan,) = plan_runs([stored(1, 100)], METRICS["iops"], lambda _: none, 0.03, 0.95)
    assert (plan.variation, plan.repeats, plan.best) == (None, None, None)
