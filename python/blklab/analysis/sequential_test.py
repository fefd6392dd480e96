"""A sequential test: measures until it is known whether a condition holds, with the error rate that was asked for.

The two hypotheses are that the value is at least a distance on the good, or on the bad, side of the bound. The
logarithm of their likelihood ratio is the evidence, and a decision ends when the evidence is as large as Wald's
boundary (Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16, 1945). The variation
is not known: with a prior of 1/σ, the likelihood is Student's, and a hypothesis takes its most likely value.
docs/explanation/verdicts.md has the error rates in simulations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from blklab.analysis.fail_if import Condition
from blklab.analysis.metrics import Metric
from blklab.errors import UsageError

_STEPS = 32
_FACTORS = [2 ** (8 * step / _STEPS) for step in range(_STEPS)]
_PRIOR = [(factor, 1 / factor / sum(1 / each for each in _FACTORS)) for factor in _FACTORS]
"""Multiples of the distance, and their weights: half of the weight is below twice the distance."""

FEWEST = 2  # Runs of each side before a decision: one run can be an outlier


def check_condition(condition: Condition) -> None:
    """Raises UsageError for a bound that no sequential test can have, such as one that the baseline does not pass."""
    if not 0 < condition.bound < math.inf:
        raise UsageError(f"--fail-if {condition.text!r}: expected a bound above 0")
    if condition.relative and condition.holds(1.0):
        raise UsageError(f"--fail-if {condition.text!r}: is true for the baseline itself; use another factor")
    if condition.relative and condition.bound == 1:
        raise UsageError(f"--fail-if {condition.text!r}: its bound is the baseline itself; use a factor: 0.95*baseline")


@dataclass(frozen=True)
class SequentialTest:
    """The test of one condition on the values of one cell."""

    condition: Condition
    metric: Metric
    error_rate: float  # The probability of a wrong decision, if the value is as far from the bound as the ends are

    def distance(self, values: Sequence[float], baseline: Sequence[float]) -> float:
        """Returns how far the mean is from the bound, as a logarithm; negative if the condition is true."""
        bound = math.log(self.condition.bound)
        if self.condition.relative:
            bound += _log_mean(baseline)
        sign = 1 if self.condition.sign.startswith("<") else -1
        return sign * (_log_mean(values) - bound)

    def standard_error(
        self, values: Sequence[float], baseline: Sequence[float], others: Sequence[Sequence[float]]
    ) -> tuple[float, int]:
        """Returns the standard error of `distance`, and its degrees of freedom, at least 1.

        `others` are the values of other commits, which have the same variation.
        """
        groups = [group for group in (values, baseline, *others) if group]
        degrees = max(1, sum(len(group) - 1 for group in groups))
        squares = sum((math.log(value) - _log_mean(group)) ** 2 for group in groups for value in group)
        variance = max(squares / degrees, self.metric.resolution**2 / 12)
        return math.sqrt(variance * (1 / len(values) + (1 / len(baseline) if self.condition.relative else 0))), degrees

    def evidence(
        self, values: Sequence[float], baseline: Sequence[float], others: Sequence[Sequence[float]], half: float
    ) -> float:
        """Returns the evidence that the condition is false; negative if it is true. 0 with too few runs.

        `half` is the distance of both hypotheses from the bound.
        """
        if len(values) < FEWEST or (self.condition.relative and len(baseline) < FEWEST):
            return 0.0
        middle = self.distance(values, baseline)
        error, degrees = self.standard_error(values, baseline, others)
        size = _evidence(abs(middle) / error, half / error, degrees)
        return math.copysign(max(0.0, size), middle)

    def decide(self, evidence: float) -> bool | None:
        """Tells whether the condition is true; None if more runs are needed."""
        boundary = math.log(1 / self.error_rate)
        return None if abs(evidence) < boundary else evidence < 0


def _log_mean(values: Sequence[float]) -> float:
    return fmean(map(math.log, values))


def _evidence(middle: float, half: float, degrees: int) -> float:
    """Returns the logarithm of the likelihood ratio for a mean on the side of `middle`; in standard errors."""

    def likelihood(mean: float) -> float:
        return -(degrees + 1) / 2 * math.log1p((middle - mean) ** 2 / degrees)

    logs = [math.log(weight) + likelihood(factor * half) for factor, weight in _PRIOR]
    largest = max(logs)
    return largest + math.log(sum(math.exp(log - largest) for log in logs)) - likelihood(-half)
