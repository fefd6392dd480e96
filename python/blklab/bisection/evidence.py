"""The runs of all commits, and what the sequential tests say about them."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from blklab.analysis.fail_if import Condition
from blklab.analysis.metrics import METRICS, with_direction
from blklab.analysis.sequential_test import SequentialTest
from blklab.bisection.findings import CommitFigure
from blklab.bisection.git import Commit
from blklab.bisection.measuring import SEARCH, CommitMeasuring, Labels, Outcomes
from blklab.errors import UsageError

LIMIT: Final = 2.0
"""Standard errors that are added to the distance of the nearer end: noise must not bring the hypotheses together."""

TestKey = tuple[Labels, str]  # A cell, and the text of a condition


class BisectionEvidence:
    """The runs by commit and phase, with a test for each cell and condition.

    `good` is the baseline. The condition is true for a commit if it is true in any cell.
    """

    def __init__(self, measuring: CommitMeasuring, good: Commit, bad: Commit) -> None:
        self._measuring = measuring
        self._good, self._bad = good, bad
        self._runs: dict[tuple[str, str], list[Outcomes]] = {}
        self._attempts: Counter[tuple[str, str]] = Counter()  # With those that failed
        self._tests: dict[TestKey, SequentialTest] = {}
        self._halves: dict[TestKey, float] = {}  # Distances of both hypotheses from the bound

    @property
    def relative(self) -> bool:
        """Whether a bound is a multiple of the baseline."""
        return any(test.condition.relative for test in self._tests.values())

    def measure(self, commit: Commit, phase: str) -> None:
        """Adds a run of a commit. Raises BuildFailed and RunFailed."""
        self._attempts[phase, commit.name] += 1
        self._of(commit, phase).append(self._measuring.measure(commit, phase, self._attempts[phase, commit.name]))

    def count(self, commit: Commit, phase: str) -> int:
        """Returns the number of runs of a commit."""
        return len(self._of(commit, phase))

    def is_true(self, commit: Commit, phase: str) -> bool | None:
        """Tells whether the condition is true for a commit; None if more runs are needed."""
        decisions = [self._decision(key, commit, phase) for key in self._tests]
        return True if True in decisions else None if None in decisions else False

    def make_tests(self, conditions: Sequence[Condition], error_rate: float) -> None:
        """Makes the tests from the first run of both ends; `error_rate` is that of a commit. Raises UsageError."""
        good, bad = (self._of(end, SEARCH)[0] for end in (self._good, self._bad))
        for cell in good:
            for condition in conditions:
                metric = METRICS[with_direction(condition.metric, [[good[cell]], [bad[cell]]])]
                if metric.of(good[cell]) and metric.of(bad[cell]):
                    test = SequentialTest(condition, metric, error_rate / len(good) / len(conditions))
                    self._tests[cell, condition.text] = test
        if not self._tests:
            names = ", ".join(condition.metric for condition in conditions)
            raise UsageError(f"--fail-if: the runs of both ends have no {names}")
        for key, test in self._tests.items():
            ends = [abs(self._distance(key, end, SEARCH)) for end in (self._good, self._bad)]
            self._halves[key] = abs(math.log(test.condition.bound)) if test.condition.relative else max(*ends, 1e-9)

    def keep_telling(self) -> bool:
        """Keeps the tests that tell both ends apart; tells whether there are any.

        The hypotheses of each are then no farther from the bound than the nearer end.
        """
        self._tests = {
            key: test
            for key, test in self._tests.items()
            if self._decision(key, self._bad, SEARCH) and self._decision(key, self._good, SEARCH) is False
        }
        for key, test in self._tests.items():
            values = [self._values(key, end, SEARCH) for end in (self._good, self._bad)]
            error, _ = test.standard_error(values[1], values[0], [])
            nearer = min(abs(test.distance(each, values[0])) for each in values)
            self._halves[key] = min(self._halves[key], nearer + LIMIT * error)
        self._measuring.cells = {cell for cell, _ in self._tests}
        return bool(self._tests)

    def figures(self, commit: Commit, phase: str) -> list[CommitFigure]:
        """Returns the figures of a commit, for each test."""
        return [
            CommitFigure(
                " ".join(f"{label}={value}" for label, value in key[0]),
                test.metric.name,
                mean,
                mean / fmean(baseline) if (baseline := self._values(key, self._good, phase)) else None,
                len(values),
            )
            for key, test in self._tests.items()
            if (values := self._values(key, commit, phase)) and (mean := fmean(values))
        ]

    # --- values of a test -------------------------------------------------------------------------

    def _of(self, commit: Commit, phase: str) -> list[Outcomes]:
        return self._runs.setdefault((phase, commit.name), [])

    def _values(self, key: TestKey, commit: Commit, phase: str) -> list[float]:
        metric = self._tests[key].metric
        return [value for run in self._of(commit, phase) if (value := metric.of(run[key[0]]))]

    def _distance(self, key: TestKey, commit: Commit, phase: str) -> float:
        return self._tests[key].distance(self._values(key, commit, phase), self._values(key, self._good, phase))

    def _decision(self, key: TestKey, commit: Commit, phase: str) -> bool | None:
        test = self._tests[key]
        values, baseline = (self._values(key, each, phase) for each in (commit, self._good))
        metric = test.metric
        others = [
            [value for run in runs if (value := metric.of(run[key[0]]))]
            for group, runs in self._runs.items()
            if group not in {(phase, commit.name), (phase, self._good.name)}
        ]
        return test.decide(test.evidence(values, baseline, others, self._halves[key]))
