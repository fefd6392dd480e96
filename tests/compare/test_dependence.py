"""Runs that depend on each other: the correlation is found, and the mean is as uncertain as it is."""

import math

import numpy as np
import pytest

from blklab.compare.decision import MetricQuestion, Rule, decide, decide_family, look_share
from blklab.compare.dependence import CAUTION, USUAL, USUAL_ERROR, run_correlation, widening
from blklab.compare.metrics import METRICS
from blklab.compare.variation import RunSample, find_unstable_sides

LOOKS = (3, 5, 8, 13, 21, 34)


def dependent_runs(generator: np.random.Generator, cells: int, runs: int, correlation: float) -> "np.ndarray":
    """Logarithms of runs with a deviation of 5 %, by cell."""
    logs = generator.normal(0, 0.05, size=(cells, runs))
    for run in range(1, runs):
        logs[:, run] = correlation * logs[:, run - 1] + math.sqrt(1 - correlation**2) * logs[:, run]
    return logs


def two_tight_modes(generator: np.random.Generator, cells: int, runs: int) -> "np.ndarray":
    """Three of ten runs are 26 % slower; all vary by 0.5 %."""
    return generator.normal(0, 0.005, size=(cells, runs)) - 0.3 * (generator.random((cells, runs)) < 0.3)


def samples(logs: "np.ndarray") -> list[list[RunSample]]:
    return [[RunSample(float(value)) for value in row] for row in np.exp(logs)]


def question(base: "np.ndarray", other: "np.ndarray", metric: str = "iops", look: float = 1) -> MetricQuestion:
    count = len(base)
    pairs = [([cell], [cell + count]) for cell in range(count)]
    return MetricQuestion(
        samples(np.concatenate([base, other])), [0] * count + [1] * count, pairs, Rule(METRICS[metric], look=look)
    )


def count_false(questions: list[MetricQuestion]) -> int:
    decisions = [decision for of_metric in decide_family(questions) for decision in of_metric]
    return sum(decision is not None and decision.verdict in {"better", "worse"} for decision in decisions)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_the_correlation_of_many_runs_is_found(correlation: float) -> None:
    logs = dependent_runs(np.random.default_rng(1), 40, 50, correlation)
    assert run_correlation(np.exp(logs).tolist()) == pytest.approx(correlation, abs=0.06)


def test_few_runs_do_not_show_a_correlation() -> None:
    assert run_correlation([[100.0, 101.0]]) == USUAL + CAUTION * USUAL_ERROR
    assert 0.1 < run_correlation([[100.0, 101.0, 99.0], [100.0, 101.0, 102.0]]) < 0.3


@pytest.mark.parametrize(
    ("runs", "correlation", "factor"), [(5, 0.0, 1.0), (1, 0.5, 1.0), (2, 0.3, 1.857), (3, 0.3, 1.896)]
)
def test_the_widening_of_few_runs(runs: int, correlation: float, factor: float) -> None:
    """Check values: the variance of the mean, and the mean of the variance, from the matrix of covariances."""
    assert widening(runs, correlation) == pytest.approx(factor, abs=0.001)


def test_the_widening_of_many_runs_is_that_of_the_process() -> None:
    assert widening(10_000, 0.5) == pytest.approx(1.5 / 0.5, rel=0.001)


def test_intervals_of_dependent_runs_are_wider() -> None:
    logs = dependent_runs(np.random.default_rng(3), 8, 21, 0.6)
    (decision, *_) = decide_family([question(logs[:4], logs[4:])])[0]
    cells = samples(logs)
    independent = Rule(METRICS["iops"], look=1, correlation=0)
    pairs = [([cell], [cell + 4]) for cell in range(4)]
    (narrow, *_) = decide(cells, [0] * 4 + [1] * 4, pairs, independent)
    assert decision is not None
    assert narrow is not None
    width, narrow_width = (math.log1p(each.high or 0) - math.log1p(each.low or 0) for each in (decision, narrow))
    assert 1.6 < width / narrow_width < 2.4  # sqrt(1.6 / 0.4) = 2


def test_a_cell_that_is_quiet_by_chance_is_not_believed() -> None:
    """Two modes: in the first cell, all runs of a side are in the same one."""
    noisy = [[1000.0, 740.0, 1002.0], [998.0, 1001.0, 742.0], [741.0, 1003.0, 999.0], [1001.0, 999.0, 1000.5]]
    base = np.log([[1000.0, 1003.0, 998.0], *noisy])
    other = np.log([[741.0, 739.0, 742.0], *reversed(noisy)])
    asked = question(base, other)
    assert find_unstable_sides(asked.cells, asked.sides, [(cell, cell + 5) for cell in range(5)], 0.002) == {0, 1}
    assert count_false([asked]) == 0


def test_cells_that_always_vary_differently_are_believed() -> None:
    """A cell varies by 1 %, another one by 30 %, on both sides: the quiet one is decided by its own runs."""
    generator = np.random.default_rng(4)
    deviations = np.array([0.01, 0.3, 0.3, 0.1, 0.3])[:, None]
    base, other = (generator.normal(0, 1, size=(5, 8)) * deviations for _ in range(2))
    other[0] += math.log(1.1)
    decisions = decide_family([question(base, other)])[0]
    assert [decision and decision.verdict for decision in decisions] == ["better"] + ["unclear"] * 4


def test_all_metrics_are_one_family() -> None:
    generator = np.random.default_rng(6)
    base, other = (generator.normal(0, 0.05, size=(2, 3)) for _ in range(2))
    alone = decide_family([question(base, other)])[0]
    together = decide_family([question(base, other, metric) for metric in ("iops", "read.mean", "read.p99")])
    for decision, of_family in zip(alone, together[0], strict=True):
        assert decision is not None
        assert of_family is not None
        assert of_family.low is not None
        assert of_family.low < (decision.low or 0)
        assert (of_family.p or 0) >= (decision.p or 0)


@pytest.mark.parametrize(("metrics", "cells"), [(3, 1), (3, 5)])
def test_three_metrics_are_rarely_called_unlike(metrics: int, cells: int) -> None:
    """Who follows the advice gets a false verdict in any metric in at most 6 of 100 cases."""
    generator = np.random.default_rng(7)
    names = ("iops", "read.mean", "read.p99")[:metrics]
    false = 0
    for _ in range(100):
        sides = [[generator.normal(0, 0.05, size=(cells, LOOKS[-1])) for _ in range(2)] for _ in names]
        for look, runs in enumerate(LOOKS):
            questions = []
            for name, (base, other) in zip(names, sides, strict=True):
                questions.append(question(base[:, :runs], other[:, :runs], name, look_share(look)))
            if count_false(questions):
                false += 1
                break
    assert false <= 6


@pytest.mark.parametrize("cells", [5, 20])
def test_two_tight_modes_are_rarely_called_unlike(cells: int) -> None:
    generator = np.random.default_rng(8)
    false = 0
    for _ in range(100):
        base, other = two_tight_modes(generator, cells, 3), two_tight_modes(generator, cells, 3)
        false += count_false([question(base, other, look=look_share(0))]) > 0
    assert false <= 8
