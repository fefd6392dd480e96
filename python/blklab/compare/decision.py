"""The decision whether cells differ: the only one, for comparisons, gates, sweeps and headlines.

Means are compared as logarithms, with Student's distribution for unequal variances (Welch,
Biometrika 34, 1947; degrees of freedom by Satterthwaite). All comparisons that a user sees hold together, those of all
metrics and cells: with a confidence of 95 %, no interval misses its true value (Šidák, Journal of the American
Statistical Association 62, 1967). A verdict, its interval and its p never disagree.

The decision stays valid if more repeats follow because it was open: the first look at the runs has half of the error
rate, and each later one an eighth (a group-sequential test; the intervals of all looks hold together: Jennison and
Turnbull, Journal of the Royal Statistical Society B 51, 1989). If a run is far away from the others, ranks decide (Mann
and Whitney, Annals of Mathematical Statistics 18, 1947; the interval: Hodges and Lehmann, the same 34, 1963).

A prediction has an interval instead of repeats. A measurement is inside or outside of it; two predictions differ only
by more than the error of the model. If this error is so large that the figures are not known, their ratio may be known
although: between kernels, most of the error is common to both.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, median, stdev
from typing import Any

from blklab.compare.dependence import run_correlation, widening
from blklab.compare.metrics import Metric
from blklab.compare.model_errors import ModelError, deviate_ratio
from blklab.compare.variation import (
    FEWEST_CAMPAIGNS,
    RunSample,
    Spread,
    find_unstable_sides,
    mean,
    outlying,
    spreads,
    spreads_of_pairs,
)
from blklab.grouping import by_key
from blklab.outcome import NOMINAL, NOT_KNOWN

NEGLIGIBLE = 0.005  # A change that is surely smaller is no change, also with a margin of 0
MARGIN = 0.05  # Two cells are `same` if they surely differ by less than this share
POWER = 0.8  # The probability with which the advised number of repeats decides
MOST_REPEATS = 100  # The largest number of further repeats that is computed
# A look is a comparison that is made before all repeats are there. Each look may find a difference by chance, so each
# has only a share of the error rate. The shares of all looks are 1.125 together. But later looks contain the runs of
# earlier ones, so fewer verdicts are false than this sum says: docs/explanation/verdicts.md simulates six looks.
FIRST_LOOK = 0.5  # The share of the error rate that the first look at the runs has
LATER_LOOK = 0.125  # That of each later look
MOST_LATER_LOOKS = 5  # The help of `blklab run --until-sure` names this number, and the next one
MORE = 1.6  # The next look has so many times the repeats
AGREEMENTS = ("inside", "outside")  # The verdicts on a measurement against a prediction
SMALLEST_VARIANCE = 1e-6  # Of logarithms, between cells of a full sweep: changes that are equal to 0.1 % say no more
WIDEST = 50.0  # The largest logarithm of a ratio: beyond e^50 an interval is useless, and it would overflow


@dataclass(frozen=True)
class Decision:
    """What is known about `other / baseline - 1`."""

    verdict: str
    """`better`, `worse`, `same` (within the margin), `unclear` (more repeats are needed), `unknown`
    (one run each, and the variation is unknown), or `differ`: one run each, which differ by more
    than the variation within them; the variation between runs is unknown. Of a prediction and a
    measurement: `inside` or `outside` of the prediction's interval."""

    change: float
    low: float | None = None
    high: float | None = None
    """The confidence interval; None if the variation is unknown. It holds together with those of
    all other comparisons, of all metrics. With a prediction: where nine of ten changes are expected;
    if the other side is measured, it is that of the measurement against the prediction."""

    p: float | None = None  # Probability of a difference this large in any of all comparisons if there is none
    once: bool = False  # Whether each side has one run: only the variation within the runs is known
    within: float | None = None  # If the verdict is `same`: the cells differ by less than this share
    repeats: int | None = None
    """If the verdict is `unclear`: how many more repeats of each side to measure before the next
    look; more than `MOST_REPEATS` if those would not be enough."""

    detectable: float | None = None  # The change that is found with a probability of 80 %
    needed: int | None = None  # The repeats of each side with which a change as large as the margin is found
    far: Sequence[float] = ()  # The values of runs that are far away from the others of their side
    of_model: bool = False  # Whether a side is predicted: the interval is that of the model's error, without a p
    known: bool = True
    """Whether the change is known: not if a prediction is not, unless most of its error is common to both sides."""


@dataclass(frozen=True)
class Rule:
    """What a decision needs besides the runs."""

    metric: Metric
    confidence: float = 0.95
    margin: float = MARGIN
    look: float = FIRST_LOOK
    """The share of the error rate: `LATER_LOOK` if fewer runs were compared before, 1 if there is only this look."""

    campaigns: tuple[float, float] | None = None
    """The variance of the logarithm of a campaign's mean from campaign to campaign, and its degrees of freedom, if the
    sides are of two campaigns; None if it is unknown."""

    correlation: float | None = None  # Of successive runs; None: it is estimated from the runs

    def each(self, count: int) -> float:
        """Returns the confidence of each of `count` intervals that hold together, at this look."""
        return 1 - self.look * (1 - float(self.confidence ** (1 / max(1, count))))

    def adjusted(self, p: float, count: int) -> float:
        """Returns the probability for `count` comparisons and all looks together: the inverse of `each`.

        It is below 1 - `confidence` where the interval of `each` excludes 0.
        """
        return -math.expm1(count * math.log1p(-min(p / self.look, 1 - 1e-16)))


Pair = tuple[Sequence[int], Sequence[int]]
"""Positions of cells: those of the baseline, and those compared with them, one by one."""


@dataclass(frozen=True)
class MetricQuestion:
    """The comparisons of one metric."""

    cells: Sequence[Sequence[RunSample]]  # The runs of each cell in the order of measurement
    sides: Sequence[object]  # Of each cell; cells with equal ones share what is known about their variation
    pairs: Sequence[Pair]
    rule: Rule


def decide_family(questions: Sequence[MetricQuestion], least: int = 0) -> list[list[Decision | None]]:
    """Decides all comparisons that a user sees together, of several metrics; None for a pair without values.

    All intervals hold together. If a pair has several cells on each side, the mean of their changes is decided. `least`
    is the number of comparisons if these pairs were chosen among more.
    """
    contrasts_of_questions = [_list_contrasts(question) for question in questions]
    count = 0
    for contrasts in contrasts_of_questions:
        count += sum(bool(contrast and contrast.cells) for contrast in contrasts)
    count = max(count, least)
    decisions = []
    for question, contrasts in zip(questions, contrasts_of_questions, strict=True):
        decisions.append(
            [None if contrast is None else _judge(contrast, question.rule, count) for contrast in contrasts]
        )
    return decisions


def decide(
    cells: Sequence[Sequence[RunSample]], sides: Sequence[object], pairs: Sequence[Pair], rule: Rule, least: int = 0
) -> list[Decision | None]:
    """Decides the comparisons of one metric, as `decide_family` does."""
    return decide_family([MetricQuestion(cells, sides, pairs, rule)], least)[0]


def _list_contrasts(question: MetricQuestion) -> "list[_Contrast | None]":
    cells = question.cells
    resolution = question.rule.metric.resolution
    cell_pairs: list[tuple[int, int]] = []
    for baseline, compared in question.pairs:
        cell_pairs += zip(baseline, compared, strict=True)
    unstable_sides = find_unstable_sides(cells, question.sides, cell_pairs, resolution)
    correlation = _correlation(cells, question.rule)
    cell_spreads = spreads(cells, question.sides, resolution, unstable_sides, correlation)
    pair_spreads = spreads_of_pairs(cells, question.sides, cell_pairs, resolution, correlation)
    return [_contrast(cells, cell_spreads, pair_spreads, pair, resolution) for pair in question.pairs]


def _correlation(cells: Sequence[Sequence[RunSample]], rule: Rule) -> float:
    """Returns the correlation of successive runs of all cells."""
    if rule.correlation is not None:
        return rule.correlation
    measured_values = []
    for cell in cells:
        if not any(sample.prediction for sample in cell):
            measured_values.append([sample.value for sample in cell])
    return run_correlation(measured_values)


def intervals(
    cells: Sequence[Sequence[RunSample]],
    sides: Sequence[object],
    rule: Rule,
    count: int = 1,
    groups: Sequence[Sequence[int]] | None = None,
) -> list[tuple[float, float] | None]:
    """Returns the confidence interval of each cell's mean; None if its variation is unknown.

    With `groups`, positions of cells, the intervals are those of the geometric means of groups. `count` of them hold
    together. For one run, without repeats elsewhere, the interval describes the variation within it. That of a
    prediction holds nine of ten measurements.
    """
    known = spreads(cells, sides, rule.metric.resolution, correlation=_correlation(cells, rule))

    def ends(group: Sequence[int]) -> tuple[float, float] | None:
        means = [mean(cells[at]) for at in group if cells[at]]
        found = [known[at] for at in group]
        if not all(means) or not means:
            return None
        if model := _model_error([cells[at] for at in group]):
            normal = _quantile(NOMINAL, math.inf)
            logs = (-normal * model.below, normal * model.above)
        elif found and all(found):
            # The error of the mean of logarithms, as of a contrast with a fixed number.
            error, degrees = _Contrast(0.0, [(spread, 1 / len(group)) for spread in found if spread]).error()
            reach = _quantile(rule.each(count), degrees) * error
            logs = (-reach, reach)
        else:
            return None
        middle = geometric_mean(means)
        low, high = (middle * math.exp(max(-WIDEST, min(WIDEST, log))) for log in logs)
        return low, high

    if not groups:
        groups = [[position] for position in range(len(cells))]
    return [ends(group) for group in groups]


def mean_over_cells(logs: Sequence[float], groups: Sequence[object]) -> tuple[float, float, float] | None:
    """Returns the mean of the logarithms of cells with one run each, and the 95 % interval of the mean.

    Cells of a group depend on each other, so the means of the groups are the repeats. None for fewer than three groups.
    The interval does not contain what differs from campaign to campaign.
    """
    means = [fmean(values) for values in by_key(zip(groups, logs, strict=True)).values()]
    if len(means) < 3:
        return None
    middle = fmean(means)
    reach = _quantile(0.95, len(means) - 1) * stdev(means) / math.sqrt(len(means))
    return middle, middle - reach, middle + reach


def repeats_to_find(spread: Spread, change: float, confidence: float) -> int:
    """Returns how many runs of each side find a change with the probability `POWER`; at least 2.

    More than `MOST_REPEATS` if those are not enough.
    """
    log = math.log1p(change)
    for count in range(2, MOST_REPEATS + 1):
        degrees = max(spread.degrees, 2.0 * (count - 1))
        quantiles = _quantile(confidence, degrees) + _quantile(2 * POWER - 1, degrees)
        if quantiles * math.sqrt(2 * spread.variance / count) <= log:
            return count
    return MOST_REPEATS + 1


@dataclass(frozen=True)
class _Contrast:
    """The logarithm of a ratio, and the cells whose variation makes it uncertain."""

    log: float
    cells: Sequence[tuple[Spread, float]]  # With the weight of each; empty if nothing is known about their variation
    once: bool = False
    predictions: tuple[ModelError | None, ModelError | None] = (None, None)  # Of each side
    ranked: tuple[Sequence[float], Sequence[float]] | None = None  # The values of both sides, if one is far away
    far: Sequence[float] = ()

    def error(self, more: int = 0) -> tuple[float, float]:
        """Returns the standard error and its degrees of freedom, with more repeats of each side."""
        # One more repeat of a cell adds one degree of freedom.
        parts = [(weight**2 * spread.variance_of_mean(more), spread.degrees + more) for spread, weight in self.cells]
        total = sum(variance for variance, _ in parts)
        if not total:
            return 0.0, min(degrees for _, degrees in parts)
        degrees = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
        part_degrees = [degrees_of_part for _, degrees_of_part in parts]
        has_own_spreads = all(spread.origin == "own" for spread, _ in self.cells)
        if has_own_spreads and all(degrees_of_part == 1 for degrees_of_part in part_degrees):
            # Of two repeats, Satterthwaite's value is too small: docs/explanation/verdicts.md.
            degrees = 0.3 * len(parts) + 0.7 * degrees
        if any(spread.origin == "shared" and spread.runs > 1 for spread, _ in self.cells):
            # Far in the tails, Satterthwaite's value is too large for a fitted variance.
            degrees_of_largest = max(parts)[1]
            degrees = math.sqrt(degrees * degrees_of_largest)
        return math.sqrt(total), degrees

    def resolved(self, confidence: float, more: int) -> float:
        """Returns the logarithm that is found with the probability `POWER`."""
        error, degrees = self.error(more)
        return (_quantile(confidence, degrees) + _quantile(2 * POWER - 1, degrees)) * error


def _contrast(
    cells: Sequence[Sequence[RunSample]],
    cell_spreads: Sequence[Spread | None],
    pair_spreads: Mapping[tuple[int, int], Spread],
    pair: Pair,
    resolution: float,
) -> _Contrast | None:
    """Returns the mean change from the first side to the second; None without values."""
    base_cells = [cells[position] for position in pair[0]]
    other_cells = [cells[position] for position in pair[1]]
    if not all(base_cells) or not all(other_cells):
        return None
    base_means = [mean(cell) for cell in base_cells]
    other_means = [mean(cell) for cell in other_cells]
    if not base_means or not all(base_means):
        return None
    ratios = [other / base for base, other in zip(base_means, other_means, strict=True)]
    logs = [math.log(ratio) if ratio > 0 else -math.inf for ratio in ratios]
    middle = sum(logs) / len(logs)
    predictions = (_model_error(base_cells), _model_error(other_cells))
    measured_cells: list[int] = []
    for side, predicted in zip(pair, predictions, strict=True):
        if not predicted:
            measured_cells += side
    measured_spreads = [cell_spreads[position] for position in measured_cells]
    known_spreads = [spread for spread in measured_spreads if spread]
    all_known = len(known_spreads) == len(measured_cells) and math.isfinite(middle)
    once = all(len(cell) == 1 for cell in (*base_cells, *other_cells))
    if len(logs) > 1 and once and math.isfinite(middle) and not any(predictions):
        # Without repeats, the other settings of a full sweep are the repeats.
        variance = sum((log - middle) ** 2 for log in logs) / (len(logs) - 1)
        spread = Spread(
            mean=1.0, runs=len(logs), variance=max(variance, SMALLEST_VARIANCE), degrees=len(logs) - 1.0, origin="cells"
        )
        return _Contrast(middle, [(spread, 1.0)])
    within = all_known and all(spread.origin == "within" for spread in known_spreads)
    weight = 1 / len(logs)
    weighted_spreads = [(spread, weight) for spread in known_spreads] if all_known else []
    common_spreads = [pair_spreads.get(cell_pair) for cell_pair in zip(*pair, strict=True)]
    if all_known and all(common_spreads):
        # One spread stands for two cells, so its variance counts twice.
        weighted_spreads = [(spread, weight * math.sqrt(2)) for spread in common_spreads if spread]
    base_values = [sample.value for cell in base_cells for sample in cell]
    other_values = [sample.value for cell in other_cells for sample in cell]
    far = outlying(base_values, other_values, resolution) if len(logs) == 1 and all_known else []
    ranked = (base_values, other_values) if far else None
    return _Contrast(middle, weighted_spreads, within, predictions, ranked, far)


def _model_error(cells: Sequence[Sequence[RunSample]]) -> ModelError | None:
    """Returns the error of the mean of predicted cells; None if they are measured.

    One model predicts all cells of a side, so errors do not cancel in their mean.
    """
    errors = [sample.prediction for cell in cells for sample in cell]
    model_errors = [error for error in errors if error]
    if not model_errors or len(model_errors) < len(errors):
        return None
    return ModelError(
        fmean(error.below for error in model_errors),
        fmean(error.above for error in model_errors),
        fmean(error.shared for error in model_errors),
        _common([error.setup for error in model_errors]),
        (fmean(error.processors[0] for error in model_errors), fmean(error.processors[1] for error in model_errors)),
        _mean_of_devices(model_errors),
        _common([error.host for error in model_errors]),
        _common([error.cell for error in model_errors]),
        all(error.is_known for error in model_errors),
    )


def _mean_of_devices(errors: Sequence[ModelError]) -> dict[str, float]:
    """Returns the mean part of each model of a device."""
    models = dict.fromkeys(model for error in errors for model in error.devices)
    return {model: fmean(error.devices.get(model, 0.0) for error in errors) for model in models}


def _common(values: Sequence[Any]) -> Any:
    """Returns the value that all are equal to; None without one."""
    return values[0] if values.count(values[0]) == len(values) else None


def _quantile(confidence: float, degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


_Estimate = tuple[float, float, float, float]
"""The logarithm of a ratio, the ends of its interval, and the probability without a difference."""


def _by_means(contrast: _Contrast, each: float, campaigns: tuple[float, float] | None) -> _Estimate:
    from scipy.special import stdtr

    error, degrees = contrast.error()
    # The variance from campaign to campaign contains that from run to run, so the larger one of the two decides.
    if campaigns and 2 * campaigns[0] > error**2:
        error = math.sqrt(2 * campaigns[0])
        degrees = campaigns[1]
    reach = _quantile(each, degrees) * error
    if error:
        t = abs(contrast.log) / error
    elif contrast.log:
        t = math.inf
    else:
        t = 0.0
    return contrast.log, contrast.log - reach, contrast.log + reach, 2 * float(stdtr(degrees, -t))


def _by_ranks(contrast: _Contrast, each: float) -> _Estimate | None:
    """Returns the shift between two sides by ranks; None if no run is far away, or if there are too few.

    The statistic of Mann and Whitney counts the pairs of runs in which the second side has less. The estimate is the
    median of all differences between a run of each side, and the interval ends at differences of a rank (Hodges and
    Lehmann). Equal values count against a difference. Runs that depend on each other need a smaller probability: the
    normal quantile grows as the standard error of a mean does.
    """
    if contrast.ranked is None:
        return None
    first, second = contrast.ranked
    wider = max(math.sqrt(widening(spread.runs, spread.correlation)) for spread, _ in contrast.cells)
    level = _tail(_quantile(each, math.inf) * wider)
    ways = _rank_counts(len(first), len(second))
    total = sum(ways)
    orders = 0
    p_by_statistic = []
    for count in ways:
        orders += count
        p_by_statistic.append(min(1.0, 2 * orders / total))
    if p_by_statistic[0] > level:
        return None
    differences = sorted(math.log(other / base) for base in first for other in second)
    less = sum(difference < 0 for difference in differences)
    ties = sum(difference == 0 for difference in differences)
    statistic = min(less, len(differences) - less - ties) + ties
    outside = sum(p <= level for p in p_by_statistic)  # Differences beyond each end of the interval
    p = p_by_statistic[min(statistic, len(p_by_statistic) - 1)]
    adjusted_p = _tail(_quantile(1 - p, math.inf) / wider)
    return median(differences), differences[outside - 1], differences[-outside], adjusted_p


def _tail(deviate: float) -> float:
    """Returns the probability that a normal value is farther from 0."""
    return math.erfc(deviate / math.sqrt(2))


def _rank_counts(first: int, second: int) -> list[int]:
    """Returns in how many orders of the values the statistic of Mann and Whitney is 0, 1 …: a Gaussian binomial."""
    size = first * second + 1
    counts = [1] + [0] * (size - 1)
    for at in range(1, first + 1):
        for place in range(size - 1, second + at - 1, -1):
            counts[place] -= counts[place - second - at]
        for place in range(at, size):
            counts[place] += counts[place - at]
    return counts


def _judge(contrast: _Contrast, rule: Rule, count: int) -> Decision:
    if any(contrast.predictions):
        return _judge_predictions(contrast, rule, *contrast.predictions)
    if not contrast.cells:
        return Decision("unknown", math.expm1(contrast.log))
    once = contrast.once
    each = rule.each(count)
    ranks = _by_ranks(contrast, each) if not rule.campaigns else None
    log, *ends, raw_p = ranks or _by_means(contrast, each, rule.campaigns)
    low, high = (math.expm1(min(WIDEST, max(-WIDEST, end))) for end in ends)
    largest = max(abs(low), abs(high))
    within = repeats = None
    # The margin comes first: a change of surely 1 to 3 % is "the same" for a user who does not care about 5 %.
    if largest <= max(NEGLIGIBLE, rule.metric.resolution, rule.margin):
        if once:  # Runs may differ by more than what varies within them
            verdict = "unclear"
        else:
            verdict = "same"
            within = largest
    elif low <= 0 <= high:
        verdict = "unclear"
    elif once:
        verdict = "differ"
    else:
        more = log > 0
        verdict = "better" if more == rule.metric.more_is_better else "worse"
    margin = math.log1p(rule.margin)
    runs = min(1 if spread.origin == "cells" else spread.runs for spread, _ in contrast.cells)
    # More repeats do not help against what differs between campaigns.
    grows = not (once or rule.campaigns)
    if verdict == "unclear" and grows:
        # The change is found, or it is found to be less than the margin.
        needed_more = _repeats(contrast, each, max(abs(contrast.log), margin))
        repeats = needed_more if needed_more > MOST_REPEATS else next_look(runs) - runs
    detectable = None if rule.campaigns else math.expm1(min(WIDEST, contrast.resolved(each, 0)))
    needed = runs + _repeats(contrast, each, margin) if grows else None
    p = rule.adjusted(raw_p, count)
    return Decision(
        verdict,
        change=math.expm1(log),
        low=low,
        high=high,
        p=p,
        once=once,
        within=within,
        repeats=repeats,
        detectable=detectable,
        needed=needed,
        far=contrast.far if ranks else (),
    )


def look_share(earlier: int) -> float:
    """Returns the share of the error rate for a look after `earlier` ones."""
    return LATER_LOOK if earlier else FIRST_LOOK


def history_share(campaigns: int) -> float:
    """Returns the share of the error rate for the newest of so many campaigns of one series, from the fifth one on.

    Who looks at each new campaign looks often: the shares of all campaigns are 1 together.
    """
    return FEWEST_CAMPAIGNS / ((campaigns - 1) * campaigns)


def next_look(runs: int) -> int:
    """Returns the repeats of each side at the next look. A look after each run would find differences by chance."""
    return math.ceil(MORE * runs - 1e-9)


def is_inside(log: float, ends: tuple[float, float], resolution: float = NEGLIGIBLE) -> bool:
    """Returns whether a measurement is inside of a prediction's interval; all are logarithms of ratios to it."""
    return ends[0] <= log <= ends[1] or abs(math.expm1(log)) <= max(NEGLIGIBLE, resolution)


def _judge_predictions(contrast: _Contrast, rule: Rule, base: ModelError | None, other: ModelError | None) -> Decision:
    """Decides with the error of the model, which is lognormal. The interval has the confidence `NOMINAL`."""
    if base and other:
        return _judge_two_predictions(contrast, rule, base, other)
    if base:
        decision = _judge_measurement(contrast, rule, below=base.below, above=base.above)
        return replace(decision, known=base.is_known)
    # The measurement is the baseline, so a prediction that is too large makes the ratio larger.
    predicted = other or ModelError(0.0, 0.0)
    decision = _judge_measurement(contrast, rule, below=predicted.above, above=predicted.below)
    return replace(decision, known=predicted.is_known)


def _judge_measurement(contrast: _Contrast, rule: Rule, *, below: float, above: float) -> Decision:
    """Decides whether a measurement is inside of a prediction's interval, which is around a ratio of 1.

    `below` and `above` are the deviations of the model to both sides. A measurement adds its own variation, with
    Satterthwaite's degrees of freedom.
    """
    change = math.expm1(contrast.log)
    if not (math.isfinite(below) and math.isfinite(above)):
        return Decision("unknown", change, of_model=True)
    error = 0.0
    degrees = math.inf
    if contrast.cells and not contrast.once:
        error, degrees = contrast.error()

    def reach(deviation: float) -> float:
        variance = deviation**2 + error**2
        total_degrees = variance**2 / (error**4 / degrees) if error else math.inf
        return min(WIDEST, _quantile(NOMINAL, total_degrees) * math.sqrt(variance))

    down = reach(below)
    up = reach(above)
    if not is_inside(contrast.log, (-down, up), rule.metric.resolution):
        verdict = "outside"
    elif error > max(below, above):
        verdict = "unclear"  # The measurement varies by more than the model errs: it judges nothing
    else:
        verdict = "inside"
    return Decision(verdict, change, math.expm1(-down), math.expm1(up), of_model=True)


def _judge_two_predictions(contrast: _Contrast, rule: Rule, base: ModelError, other: ModelError) -> Decision:
    """Decides between two predictions; the interval is around their ratio.

    What differs from seed to seed is part of the model's errors. If the predictions differ only in the kernel or the
    host, most of their errors cancels.
    """
    log = contrast.log
    change = math.expm1(log)
    if base.cell is not None and base.cell == other.cell:
        # The same cell was predicted twice: the change is the model's, and has no error.
        verdict = "same" if abs(change) <= rule.margin else "unclear"
        within = abs(change) if verdict == "same" else None
        return Decision(verdict, change, change, change, within=within, of_model=True)
    if not all(map(math.isfinite, (base.below, base.above, other.below, other.above))):
        return Decision("unknown", change, of_model=True)
    down_deviation, up_deviation = deviate_ratio(base, other)
    quantile = _quantile(NOMINAL, math.inf)
    down, up = min(WIDEST, quantile * down_deviation), min(WIDEST, quantile * up_deviation)
    low, high = (math.expm1(min(WIDEST, max(-WIDEST, end))) for end in (log - down, log + up))
    within = None
    if not (base.is_known and other.is_known) and 1 + high > NOT_KNOWN * (1 + low):
        return Decision("unknown", change, low, high, of_model=True, known=False)
    if low <= 0 <= high:
        largest = max(-low, high)
        verdict = "same" if largest <= rule.margin else "unclear"
        within = largest if verdict == "same" else None
    else:
        verdict = "better" if (log > 0) == rule.metric.more_is_better else "worse"
    return Decision(verdict, change, low, high, within=within, of_model=True)


def _repeats(contrast: _Contrast, confidence: float, log: float) -> int:
    """Returns how many more repeats of each side resolve a logarithm."""
    steps = range(MOST_REPEATS + 1)
    return bisect_left(steps, True, key=lambda more: contrast.resolved(confidence, more) <= log)
