"""Decisions about samples whose truth is known."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.compare.decision import (
    MOST_REPEATS,
    Decision,
    Rule,
    decide,
    intervals,
    look_share,
    mean_over_cells,
    next_look,
)
from blklab.compare.metrics import METRICS
from blklab.compare.model_errors import ModelError
from blklab.compare.variation import RunSample, between_campaigns, spreads_of_pairs
from blklab.outcome import NORMAL, Outcome
from tests.compare.test_variation import correlated

IOPS = Rule(METRICS["iops"])
ONE_LOOK = Rule(METRICS["iops"], look=1)
INDEPENDENT = Rule(METRICS["iops"], look=1, correlation=0)  # Check values of other programs are for independent runs
Draw = Callable[[np.random.Generator, float, int], Sequence[float]]


def compared(
    baseline: Sequence[Sequence[float]], other: Sequence[Sequence[float]], rule: Rule = IOPS
) -> list[Decision]:
    """The decisions about cells, each with a list of values on both sides."""
    cells = [[RunSample(value) for value in cell] for cell in [*baseline, *other]]
    count = len(baseline)
    pairs = [([at], [at + count]) for at in range(count)]
    decisions = decide(cells, ["a"] * count + ["b"] * count, pairs, rule)
    assert None not in decisions
    return [decision for decision in decisions if decision]


def normal(generator: np.random.Generator, cv: float, count: int) -> Sequence[float]:
    return list(np.maximum(generator.normal(1, cv, size=count), 0.01))


def lognormal(generator: np.random.Generator, cv: float, count: int) -> Sequence[float]:
    sigma = math.sqrt(math.log1p(cv**2))
    return list(np.exp(generator.normal(-(sigma**2) / 2, sigma, size=count)))


@pytest.mark.parametrize("draw", [normal, lognormal])
@pytest.mark.parametrize("spreads", [(0.01, 0.01), (0.05, 0.05), (0.3, 0.3), (0.05, 0.15)])
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_intervals_hold_the_truth_as_often_as_they_claim(draw: Draw, spreads: tuple[float, float], count: int) -> None:
    """At least 93 % of the time: with 400 trials, chance alone takes up to 2 points more."""
    generator = np.random.default_rng(20_260)
    held = 0
    for _ in range(400):
        (decision,) = compared([draw(generator, spreads[0], count)], [draw(generator, spreads[1], count)])
        assert decision.low is not None
        assert decision.high is not None
        held += decision.low <= 0 <= decision.high
    assert held / 400 >= 0.91


@pytest.mark.parametrize("cv", [0.01, 0.3])
def test_intervals_of_two_repeats_claim_almost_what_they_hold(cv: float) -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(4000):
        (decision,) = compared([lognormal(generator, cv, 2)], [lognormal(generator, cv, 2)], INDEPENDENT)
        held += (decision.low or 0) <= 0 <= (decision.high or 0)
    assert 0.95 <= held / 4000 <= 0.97


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_intervals_of_a_metric_hold_together(count: int) -> None:
    """Twelve cells, from quiet to variable: no interval misses, in 95 % of comparisons."""
    generator = np.random.default_rng(3)
    variations = [0.01, 0.3, 0.05, 0.1, 0.02, 0.05] * 2
    alarms = 0
    for _ in range(200):
        base, other = ([normal(generator, cv, count) for cv in variations] for _ in range(2))
        verdicts = {decision.verdict for decision in compared(base, other)}
        alarms += bool(verdicts & {"better", "worse"})
    assert alarms / 200 <= 0.08


values = st.lists(st.floats(90, 110), min_size=1, max_size=4)
sides = st.integers(1, 5).flatmap(lambda count: st.tuples(*[st.lists(values, min_size=count, max_size=count)] * 2))


@given(sides)
def test_verdict_interval_and_p_never_disagree(
    both: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]],
) -> None:
    for decision in compared(*both):
        if decision.p is None or decision.low is None or decision.high is None:
            assert decision.verdict == "unknown"
            continue
        includes = decision.low <= 0 <= decision.high
        if abs(decision.p - 0.05) > 1e-9:
            assert (decision.p >= 0.05) == includes
        if decision.verdict in {"better", "worse"}:
            assert not includes
            assert (decision.verdict == "better") == (decision.change > 0)
        if decision.verdict == "same":
            assert max(-decision.low, decision.high) == decision.within
            assert decision.within is not None
            assert decision.within <= 0.05
        assert (decision.verdict == "unclear") == (decision.repeats is not None)


@given(sides)
def test_swapped_sides_give_the_mirrored_decision(
    both: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]],
) -> None:
    opposite = {"better": "worse", "worse": "better"}
    for there, back in zip(compared(*both), compared(both[1], both[0]), strict=True):
        assert 1 + back.change == pytest.approx(1 / (1 + there.change))
        assert back.p == pytest.approx(there.p)
        if there.high is not None and back.low is not None:
            assert 1 + back.low == pytest.approx(1 / (1 + there.high))
        if "same" not in {there.verdict, back.verdict}:  # +5 % is −4.8 % the other way round
            assert back.verdict == opposite.get(there.verdict, there.verdict)


def test_an_eightfold_change_of_five_cells_with_three_repeats_is_seen() -> None:
    """194 MiB/s against 1.5 GiB/s, although runs vary by 30 %."""
    generator = np.random.default_rng(4)
    slow = [[194 * x for x in normal(generator, 0.3, 3)] for _ in range(5)]
    fast = [[1536 * x for x in normal(generator, 0.3, 3)] for _ in range(5)]
    assert [decision.verdict for decision in compared(slow, fast)] == ["better"] * 5


@pytest.mark.parametrize("other", [(139.5, 139.5), (139.4, 139.6)])
@pytest.mark.parametrize("base", [(100.0, 100.0), (99.9, 100.1)])
def test_a_change_of_two_simulations_is_seen(base: tuple[float, float], other: tuple[float, float]) -> None:
    decisions = compared([base] * 3, [other] * 3)
    assert [decision.verdict for decision in decisions] == ["better"] * 3


def test_equal_repeats_are_not_better_by_nothing() -> None:
    (decision,) = compared([[100.0] * 5], [[100.1] * 5])
    assert decision.verdict == "same"
    assert decision.within is not None
    assert decision.within < 0.005


def test_the_advised_repeats_find_a_change_as_large_as_the_margin() -> None:
    generator = np.random.default_rng(7)
    (first,) = compared([normal(generator, 0.1, 20)], [normal(generator, 0.1, 20)])
    assert first.verdict == "unclear"
    assert first.repeats is not None
    assert first.repeats == 12  # the next look has 32
    assert first.needed is not None
    assert 32 < first.needed <= MOST_REPEATS
    verdicts = [
        compared([normal(generator, 0.1, first.needed)], [[1.05 * x for x in normal(generator, 0.1, first.needed)]])[
            0
        ].verdict
        for _ in range(200)
    ]
    assert 0.65 <= verdicts.count("better") / 200 <= 0.95
    assert "worse" not in verdicts


def test_two_single_runs_can_only_differ() -> None:
    generator = np.random.default_rng(8)
    steady = [RunSample(100.0, correlated(generator, 100, 0.5, 100))]
    other = [RunSample(50.0, correlated(generator, 100, 0.5, 50))]
    (decision,) = decide([steady, other], [0, 1], [([0], [1])], IOPS)
    assert decision is not None
    assert (decision.verdict, decision.once, decision.repeats) == ("differ", True, None)
    short = [[RunSample(sample.value, sample.series[:30])] for sample in (*steady, *other)]
    (unknown,) = decide(short, [0, 1], [([0], [1])], IOPS)
    assert unknown is not None
    assert (unknown.verdict, unknown.low) == ("unknown", None)


def test_without_repeats_other_settings_are_the_repeats() -> None:
    cells = [[RunSample(value)] for value in (100.0, 200.0, 400.0, 121.0, 240.0, 479.0)]
    (decision,) = decide(cells, [0] * 6, [([0, 1, 2], [3, 4, 5])], IOPS)
    assert decision is not None
    assert decision.verdict == "better"
    assert decision.change == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("count", [3, 5])
def test_the_interval_of_a_mean_holds_it(count: int) -> None:
    generator = np.random.default_rng(9)
    held = 0
    for _ in range(400):
        cell = [RunSample(value) for value in normal(generator, 0.1, count)]
        (ends,) = intervals([cell], [0], IOPS)
        assert ends is not None
        held += ends[0] <= 1 <= ends[1]
    assert 0.91 <= held / 400 <= 0.99


@pytest.mark.parametrize("metric", ["iops", "read.mean", "write.p99"])
def test_identical_campaigns_are_never_better_or_worse(metric: str) -> None:
    """Eight campaigns of fio on a loop device, interleaved: all 56 ordered pairs."""
    path = Path(__file__).parent.parent / "data/identical-campaigns.json"
    campaigns = json.loads(path.read_text())
    of = METRICS[metric].compute
    sides = [
        [[value for run in runs if (value := of(Outcome.from_document(run))) is not None] for runs in campaign.values()]
        for campaign in campaigns
    ]
    verdicts = Counter[str]()
    gates = 0
    for base, other in itertools.permutations(sides, 2):
        there = [(a, b) for a, b in zip(base, other, strict=True) if a]
        decisions = compared([a for a, _ in there], [b for _, b in there], Rule(METRICS[metric]))
        verdicts.update(decision.verdict for decision in decisions)
        gates += any(decision.high is not None and decision.high < 0 for decision in decisions)
    assert set(verdicts) <= {"unclear", "same"}
    assert gates == 0


SLOW = (100.0, 103, 98, 101, 99, 102, 97, 100)
FAST = (104.0, 108, 103, 109, 102, 106, 105, 107)


@pytest.mark.parametrize(
    ("runs", "earlier", "low", "high", "p", "verdict"),
    [
        (3, 0, -0.0257, 0.1240, 0.1805, "unclear"),
        (5, 1, -0.0125, 0.1158, 0.1454, "unclear"),
        (8, 2, 0.0187, 0.0925, 0.00187, "better"),
    ],
)
def test_a_later_look_needs_more(runs: int, earlier: int, low: float, high: float, p: float, verdict: str) -> None:
    """Check values of Welch's test on logarithms at the levels 0.025 and 0.00625, by scipy."""
    rule = Rule(METRICS["iops"], look=look_share(earlier), correlation=0)
    (decision,) = compared([SLOW[:runs]], [FAST[:runs]], rule)
    assert [decision.low, decision.high] == pytest.approx([low, high], abs=0.002)
    assert decision.p == pytest.approx(p, rel=0.03)
    assert decision.verdict == verdict
    assert decision.repeats == (None if verdict == "better" else {3: 2, 5: 3}[runs])


@pytest.mark.parametrize(("runs", "later"), [(2, 4), (4, 7), (7, 12), (3, 5), (5, 8), (8, 13), (13, 21), (21, 34)])
def test_the_repeats_of_the_next_look(runs: int, later: int) -> None:
    assert next_look(runs) == later


def test_equal_cells_are_rarely_called_unlike_by_who_follows_the_advice() -> None:
    """Five cells, three repeats, up to five more looks: 5 % are promised; 400 trials take up to 2 points more."""
    generator = np.random.default_rng(5)
    false = 0
    for _ in range(400):
        base, other = ([normal(generator, 0.05, 34) for _ in range(5)] for _ in range(2))
        for earlier, count in enumerate((3, 5, 8, 13, 21, 34)):
            rule = Rule(METRICS["iops"], look=look_share(earlier))
            decisions = compared([cell[:count] for cell in base], [cell[:count] for cell in other], rule)
            if any(decision.verdict in {"better", "worse"} for decision in decisions):
                false += 1
                break
            if all(decision.verdict == "same" for decision in decisions):
                break
    assert false / 400 <= 0.07


def of_variance(variance: float, centre: float = 1000.0) -> list[float]:
    """Three values with a mean and a variance."""
    return [centre - math.sqrt(variance), centre, centre + math.sqrt(variance)]


def test_two_sides_that_vary_alike_share_a_variance() -> None:
    """Check values of limma's moderated variances, with the standard error of the fit and no smaller than seen."""
    base, other = (4, 1, 9, 2, 6), (5, 2, 4, 3, 8)
    cells = [[RunSample(value) for value in of_variance(variance)] for variance in (*base, *other)]
    pairs = [(at, at + 5) for at in range(5)]
    known = spreads_of_pairs(cells, [0] * 5 + [1] * 5, pairs, 0)
    assert [known[pair].variance * 1e6 for pair in pairs] == pytest.approx([4.5, 3.33879, 6.5, 3.68461, 7], rel=1e-5)
    assert [known[pair].degrees for pair in pairs] == pytest.approx([11.5667] * 5, rel=1e-5)
    # A side that varies three times as much shares nothing.
    wide = [*cells[:5], *([RunSample(value) for value in of_variance(9 * variance)] for variance in base)]
    assert spreads_of_pairs(wide, [0] * 5 + [1] * 5, pairs, 0) == {}


def test_ranks_decide_if_a_run_is_far_away() -> None:
    """Check values of the exact test of Mann and Whitney, and of the interval of Hodges and Lehmann."""
    (decision,) = compared([(100, 101, 99, 100, 62)], [(104, 105, 103, 106, 104)], INDEPENDENT)
    assert decision.far == [62]
    assert decision.p == pytest.approx(0.00794, abs=1e-5)
    assert [decision.change, decision.low, decision.high] == pytest.approx([0.05, 0.0297, 0.677], abs=1e-3)
    assert decision.verdict == "better"
    (few,) = compared([(100, 101, 62)], [(104, 105, 103)], ONE_LOOK)
    assert few.far == ()  # The ranks of three runs cannot decide.
    assert few.verdict == "unclear"


def predicted(value: float, factor: float, *, shared: float = 0, devices: object = None) -> list[RunSample]:
    deviation = math.log(factor) / NORMAL
    return [RunSample(value, (), ModelError(deviation, deviation, shared, devices))]


@pytest.mark.parametrize(
    ("runs", "verdict", "low", "high"),
    [
        ((130.0, 0.02), "inside", 76.76, 130.27),
        ((140.0, 0.02), "outside", 76.76, 130.27),
        ((133.0, 0.10), "inside", 72.94, 137.09),
    ],
)
def test_a_measurement_is_inside_or_outside(runs: tuple[float, float], verdict: str, low: float, high: float) -> None:
    """Check values for a prediction of 100 with a factor of 1.3, and five runs with this standard error."""
    middle, error = runs
    step = middle * error * math.sqrt(2)  # the standard error of five values with this distance is error
    cells = [predicted(100, 1.3), [RunSample(middle + step * at) for at in (-2, -1, 0, 1, 2)]]
    for order, ends in (((0, 1), (low, high)), ((1, 0), (1e4 / high, 1e4 / low))):
        (decision,) = decide([cells[at] for at in order], [0, 1], [([0], [1])], INDEPENDENT)
        assert decision is not None
        assert (decision.verdict, decision.p, decision.repeats) == (verdict, None, None)
        assert [100 * (1 + (end or 0)) for end in (decision.low, decision.high)] == pytest.approx(ends, abs=0.05)


def test_the_error_of_one_host_cancels() -> None:
    """With 0.3 of each error from the host, the ratio has what is left, and the difference of the two parts."""

    def reach(hosts: tuple[str, str], parts: tuple[float, float]) -> tuple[float, float]:
        cells = [
            [RunSample(100, (), ModelError(math.hypot(0.1, part), 0.1, processors=(part, 0.0), host=host))]
            for host, part in zip(hosts, parts, strict=True)
        ]
        (decision,) = decide(cells, [0, 1], [([0], [1])], IOPS)
        assert decision is not None and decision.low is not None and decision.high is not None
        return math.log1p(decision.low) / NORMAL, math.log1p(decision.high) / NORMAL

    assert reach(("a", "a"), (0.3, 0.3)) == pytest.approx((-math.hypot(0.1, 0.1), math.hypot(0.1, 0.1)), rel=0.01)
    low, high = reach(("a", "b"), (0.3, 0.3))
    assert -low == high == pytest.approx(math.hypot(0.1, 0.1, 0.3), rel=0.01)
    low, high = reach(("a", "a"), (0.3, 0.1))
    assert -low == pytest.approx(math.hypot(0.1, 0.1), rel=0.01)
    assert high == pytest.approx(math.hypot(0.1, 0.1, 0.2), rel=0.01)


def test_the_error_of_one_model_of_disks_cancels() -> None:
    """Of two arrangements of the same disks, only the difference of what the disks contribute is left."""

    def reach(base: dict[str, float], other: dict[str, float]) -> float:
        cells = [
            [
                RunSample(
                    100,
                    (),
                    ModelError(
                        math.hypot(0.1, sum(parts.values())), math.hypot(0.1, sum(parts.values())), devices=parts
                    ),
                )
            ]
            for parts in (base, other)
        ]
        (decision,) = decide(cells, [0, 1], [([0], [1])], IOPS)
        assert decision is not None and decision.low is not None and decision.high is not None
        assert -math.log1p(decision.low) == pytest.approx(math.log1p(decision.high))
        return math.log1p(decision.high) / NORMAL

    own = math.hypot(0.1, 0.1)
    assert reach({"a": 0.8}, {"a": 0.8}) == pytest.approx(own, rel=0.01)
    assert reach({"a": 0.8}, {"a": 0.5}) == pytest.approx(math.hypot(own, 0.3), rel=0.01)
    assert reach({"a": 0.8}, {"b": 0.5}) == pytest.approx(math.hypot(own, 0.8, 0.5), rel=0.01)
    assert reach({"a": 0.4, "b": 0.2}, {"a": 0.4}) == pytest.approx(math.hypot(own, 0.2), rel=0.01)


def test_errors_do_not_reach_beyond_the_intervals() -> None:
    """A load that is complete has no error, although its disks and its host have one."""
    complete = ModelError(0.0, 0.0, processors=(0.2, 0.0), devices={"a": 0.3})
    slow = ModelError(0.3, 0.3, devices={"b": 0.2, "c": 0.1})

    def reach(base: ModelError, other: ModelError) -> tuple[float, float]:
        cells = [[RunSample(100, (), error)] for error in (base, other)]
        (decision,) = decide(cells, [0, 1], [([0], [1])], IOPS)
        assert decision is not None and decision.low is not None and decision.high is not None
        return -math.log1p(decision.low) / NORMAL, math.log1p(decision.high) / NORMAL

    assert reach(complete, replace(complete, devices={"b": 0.3})) == pytest.approx((0.03, 0.03), rel=0.01)
    # The ratio to a figure that is exactly known has the interval of the other one.
    assert reach(complete, slow) == pytest.approx((0.3, 0.3), rel=0.01)
    assert reach(replace(slow, below=0.15), complete) == pytest.approx((0.3, 0.15), rel=0.03)


def test_two_predictions_differ_by_more_than_the_error_of_the_model() -> None:
    """A factor of 1.3 for each: 1.449 for the ratio, and less if the devices are equal, whose error cancels."""

    def ratio(change: float, devices: tuple[str, str]) -> Decision:
        cells = [predicted(100 * ratio, 1.3, shared=0.14, devices=of)
                 for ratio, of in zip((1, change), devices, strict=True)]  # fmt: skip
        (decision,) = decide(cells, [0, 1], [([0], [1])], IOPS)
        assert decision is not None
        assert decision.p is None
        return decision

    apart = ratio(1.3, ("a", "b"))
    assert apart.verdict == "unclear"
    assert 1 + (apart.high or 0) == pytest.approx(1.3 * 1.449, rel=1e-3)
    assert ratio(1.5, ("a", "b")).verdict == "better"
    assert ratio(0.6, ("a", "b")).verdict == "worse"
    assert ratio(1.3, ("a", "a")).verdict == "better"
    unknown = decide([[RunSample(1, (), ModelError(math.inf, math.inf))]] * 2, [0, 1], [([0], [1])], IOPS)[0]
    assert unknown is not None
    assert (unknown.verdict, unknown.low) == ("unknown", None)


def test_the_ratio_of_two_predictions_may_be_known_although_they_are_not() -> None:
    """Each is between a seventh and seven times the figure; nearly all of it is common to both kernels."""

    def decide_pair(change: float, devices: tuple[str, str]) -> Decision:
        cells = [
            replace_known(predicted(100 * ratio, 7, shared=0.99 * math.log(7) / NORMAL, devices=of))
            for ratio, of in zip((1, change), devices, strict=True)
        ]
        (decision,) = decide(cells, [0, 1], [([0], [1])], IOPS)
        assert decision is not None
        return decision

    for change in (1.3, 1000.0):  # A ratio that the model's error does not explain is not known, either
        apart = decide_pair(change, ("a", "b"))
        assert (apart.verdict, apart.known) == ("unknown", False)
        assert apart.low is not None
    same = decide_pair(2.0, ("a", "a"))
    assert (same.verdict, same.known) == ("better", True)
    measurement = decide([replace_known(predicted(100, 7)), [RunSample(50)]], [0, 1], [([0], [1])], IOPS)[0]
    assert measurement is not None
    assert (measurement.verdict, measurement.known) == ("inside", False)


def replace_known(samples: list[RunSample]) -> list[RunSample]:
    """Returns predictions that are not known."""
    return [
        replace(sample, prediction=replace(sample.prediction, is_known=False))
        for sample in samples
        if sample.prediction is not None
    ]


def test_two_campaigns_differ_by_more_than_their_runs_show() -> None:
    """Runs and campaigns vary by 5 % each. Six earlier campaigns say so: 5 % are promised."""
    generator = np.random.default_rng(6)
    false = {True: 0, False: 0}
    for _ in range(400):
        campaigns = [math.exp(generator.normal(0, 0.05)) * generator.normal(1, 0.05, size=3) for _ in range(8)]
        known = between_campaigns([[list(runs) for runs in campaigns[:6]]])
        for knows in false:
            rule = Rule(METRICS["iops"], look=1, campaigns=known if knows else None)
            (decision,) = compared([list(campaigns[6])], [list(campaigns[7])], rule)
            false[knows] += decision.verdict in {"better", "worse"}
            assert (decision.detectable is None) == knows
            assert not (knows and decision.repeats)
    assert false[True] / 400 <= 0.07
    assert false[False] / 400 >= 0.1


def test_cells_with_one_run_are_the_repeats_of_a_headline() -> None:
    """Check values: the unweighted mean of seven ratios."""
    logs = [math.log(ratio) for ratio in (1.20, 1.28, 1.41, 1.33, 1.25, 1.38, 1.30)]
    known = mean_over_cells(logs, range(7))
    assert known is not None
    assert [math.exp(value) for value in known] == pytest.approx([1.3054, 1.2396, 1.3747], abs=1e-4)
    assert mean_over_cells(logs[:4], [0, 0, 1, 1]) is None
