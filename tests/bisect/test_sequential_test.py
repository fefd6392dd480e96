"""The sequential test: wrong decisions are as rare as asked for, and large differences are found with few runs."""

import math
import random
from statistics import fmean

import pytest

from blklab.bisect.search import SequentialTest, check_condition
from blklab.compare.fail_if import parse_condition
from blklab.compare.metrics import METRICS
from blklab.errors import UsageError


def sequential_test(condition: str, error_rate: float = 0.01) -> SequentialTest:
    parsed = parse_condition(condition)
    return SequentialTest(parsed, METRICS[parsed.metric], error_rate)


def decided(test: SequentialTest, ratio: float, deviation: float, rng: random.Random) -> tuple[bool, int]:
    """Returns the decision about a commit with a multiple of the baseline's value, and its runs."""
    values: list[float] = []
    baseline: list[float] = []
    while (decision := test.decide(test.evidence(values, baseline, [], abs(math.log(test.condition.bound))))) is None:
        values.append(ratio * math.exp(rng.gauss(0, deviation)))
        baseline.append(math.exp(rng.gauss(0, deviation)))
    return decision, len(values)


@pytest.mark.parametrize(("ratio", "is_true"), [(0.97, True), (1.0, False)])
def test_wrong_decisions_are_rare(ratio: float, is_true: bool) -> None:
    rng = random.Random(7)
    decisions = [decided(sequential_test("iops < 0.985*baseline", 0.02), ratio, 0.02, rng) for _ in range(200)]
    wrong = sum(decision is not is_true for decision, _ in decisions)
    assert wrong <= 9, "4 are expected; 9 or fewer have a probability of 99.2 %"
    assert 5 < fmean(runs for _, runs in decisions) < 15


def test_a_large_difference_needs_few_runs() -> None:
    rng = random.Random(7)
    decisions = [decided(sequential_test("iops < 0.9*baseline", 0.002), 0.6, 0.01, rng) for _ in range(50)]
    assert all(decision for decision, _ in decisions)
    assert fmean(runs for _, runs in decisions) < 3


def test_one_run_decides_nothing() -> None:
    test = sequential_test("iops < 0.9*baseline")
    assert test.evidence([1.0], [1000.0, 1000.0], [[1.0, 1.0]], 0.1) == 0
    assert test.evidence([500.0, 501.0], [1000.0], [], 0.1) == 0


@pytest.mark.parametrize(
    ("condition", "values", "is_true"),
    [
        ("iops < 900", [500.0, 501.0], True),
        ("iops < 900", [1000.0, 1001.0], False),
        ("read.p99 > 5ms", [9e6, 9.1e6], True),
        ("read.p99 > 1.5*baseline", [1000.0, 1001.0], False),
        ("read.p99 > 1.5*baseline", [2000.0, 2001.0], True),
    ],
)
def test_bounds_in_both_directions(condition: str, values: list[float], is_true: bool) -> None:
    test = sequential_test(condition)
    assert test.decide(test.evidence(values, [1000.0, 1001.0], [], 0.1)) is is_true


@pytest.mark.parametrize(
    ("condition", "output"),
    [
        ("iops < 1.1*baseline", "is true for the baseline itself"),
        ("read.p99 >= baseline", "is true for the baseline itself"),
        ("iops < baseline", "its bound is the baseline itself"),
        ("iops < 0", "expected a bound above 0"),
        ("iops < 0*baseline", "expected a bound above 0"),
        ("iops < 1e999", "expected a bound above 0"),
    ],
)
def test_bounds_that_no_test_can_have(condition: str, output: str) -> None:
    with pytest.raises(UsageError, match=output):
        check_condition(parse_condition(condition))
