"""Finds the first commit with a new verdict: git chooses the commits, a sequential test decides about each.

The test measures until it is known whether a condition holds, with the error rate that was asked for. The two
hypotheses are that the value is at least a distance on the good, or on the bad, side of the bound. The logarithm of
their likelihood ratio is the evidence, and a decision ends when the evidence is as large as Wald's boundary (Wald,
"Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16, 1945). The variation is not known:
with a prior of 1/σ, the likelihood is Student's, and a hypothesis takes its most likely value.
docs/explanation/verdicts.md has the error rates in simulations.

Commits are measured a run at a time, and every run is kept in one campaign of the store.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from blklab.bisect.findings import Bisection, CommitFigure, CommitVerdict
from blklab.bisect.git import BisectionState, Commit, GitBisect
from blklab.bisect.source import BisectionSource, BuildFailed, Note
from blklab.compare.diagnostics import drift
from blklab.compare.fail_if import Condition
from blklab.compare.metrics import METRICS, Metric, with_directions
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.documents import minimum_ns
from blklab.outcome import Outcome
from blklab.render import formatting
from blklab.runners.base import Runner
from blklab.runners.campaign import StoreLedger
from blklab.store import query
from blklab.store.campaigns import Store, StoredCampaign
from blklab.units import format_duration

REPEAT = "repeat"
PHASE = "phase"  # The label that tells the search from the check at its end
SEARCH = "search"
CHECK = "check"

Labels = tuple[tuple[str, str], ...]
PlanOf = Callable[[Commit], ExperimentPlan]
Outcomes = Mapping[Labels, Outcome]  # By the labels of the experiment


class RunFailed(BlklabError):
    """A run failed: the kernel did not boot, or the stack could not be built."""


@dataclass
class CommitMeasuring:
    """Measures the cells of an experiment for commits; runs that the store has are not repeated."""

    source: BisectionSource
    plan_of: PlanOf  # Returns the experiment for a commit, with one repeat
    store: Store
    resume: bool
    note: Note
    cells: Collection[Labels] = ()  # The cells to measure, by their labels; all if it is empty
    _runners: dict[str, Runner] = field(default_factory=dict)
    _sessions: ExitStack = field(default_factory=ExitStack)
    _campaign: StoredCampaign | None = None
    _done: dict[Labels, Outcome] = field(default_factory=dict)
    _cells: int = 0  # The number of cells of the campaign

    @property
    def campaign(self) -> int | None:
        """The number of the campaign; None before the first run."""
        return None if self._campaign is None else self._campaign.number

    def close(self) -> None:
        """Ends the sessions of all runners."""
        self._sessions.close()

    def measure(self, commit: Commit, phase: str, repeat: int) -> Outcomes:
        """Measures all cells once. Raises BuildFailed, RunFailed, and errors that end the bisection."""
        plan = self.plan_of(commit)
        cells_by_labels = {
            _experiment_labels(cell): self._make_commit_cell(cell, commit, phase, repeat) for cell in plan.cells
        }
        plan = replace(plan, cells=list(cells_by_labels.values()))
        campaign = self._campaign or self._open_campaign(plan)
        selected_cells = {
            labels: cell for labels, cell in cells_by_labels.items() if not self.cells or labels in self.cells
        }
        if missing := [cell for cell in selected_cells.values() if _key(cell.labels) not in self._done]:
            self._run(campaign, missing, self._runner(commit, plan))
        return {labels: self._done[_key(cell.labels)] for labels, cell in selected_cells.items()}

    def _make_commit_cell(self, cell: Cell, commit: Commit, phase: str, repeat: int) -> Cell:
        labels = {name: value for name, value in cell.labels.items() if name != REPEAT}
        labels |= {self.source.label: commit.short, PHASE: phase, REPEAT: str(repeat)}
        document = {**cell.document, "seed": cell.document["seed"] + repeat - 1}
        if (kernel := self.source.own_kernel(commit)) is not None:
            document["own_kernel"] = kernel
        return replace(cell, labels=labels, document=document)

    def _open_campaign(self, plan: ExperimentPlan) -> StoredCampaign:
        """Continues the newest campaign that began with the same cells, if asked, or begins one."""
        # The name of the experiment means its own campaigns.
        plan = replace(plan, path=plan.path.with_name(f"{plan.name}-bisection.toml"))
        campaign = self.store.resume(plan, self.source.host) if self.resume else None
        if campaign is None and self.resume:
            self.note("no bisection with this good end was started before on this machine: this is a new one")
        self._campaign = campaign or self.store.begin(plan, self.source.host)
        runs = query.runs_of(self.store, self._campaign.number)
        self._done = {_key(run.labels): run.outcome for run in runs if run.outcome is not None}
        self._cells = max((run.number for run in runs), default=0)
        return self._campaign

    def _run(self, campaign: StoredCampaign, missing_cells: Sequence[Cell], runner: Runner) -> None:
        new_cells = [cell for cell in missing_cells if cell.key not in campaign.waiting]
        numbered_cells = {
            cell.key: replace(cell, number=self._cells + offset) for offset, cell in enumerate(new_cells, start=1)
        }
        self._cells += len(new_cells)
        cells = [numbered_cells.get(cell.key, cell) for cell in missing_cells]
        new_runs = self.store.extend(campaign.number, list(numbered_cells.values()))
        campaign = self._campaign = StoredCampaign(campaign.number, {**campaign.waiting, **new_runs})
        ledger = StoreLedger(self.source.runner_name, self.store, campaign, runner.environment())
        try:
            runner.run(cells, ledger)
        except (EnvironmentLacks, UsageError):
            ledger.release()
            raise
        except BlklabError as error:  # The guest did not boot
            for cell in cells:
                if campaign.waiting[cell.key] in ledger.under_way:
                    ledger.fail(cell, str(error))
            raise RunFailed(str(error)) from None
        except BaseException:
            ledger.release()
            raise
        for cell in cells:
            if cell.number in ledger.errors:
                raise RunFailed(ledger.errors[cell.number].removeprefix(f"{cell.name}: "))
        self._done |= {_key(result.labels): result.outcome for result in ledger.results.values()}

    def _runner(self, commit: Commit, plan: ExperimentPlan) -> Runner:
        if commit.name not in self._runners:
            try:
                runner = self.source.runner(commit)
                self._sessions.enter_context(runner.session())
                runner.check(plan)
            except (BuildFailed, EnvironmentLacks, UsageError):
                raise
            except BlklabError as error:  # Not a kernel, no such module, no sources of md
                raise BuildFailed(str(error)) from None
            self._runners[commit.name] = runner
        return self._runners[commit.name]


def _experiment_labels(cell: Cell) -> Labels:
    """Returns the labels of a cell of the experiment."""
    return tuple((name, value) for name, value in cell.labels.items() if name != REPEAT)


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


_STEPS = 32
_FACTORS = [2 ** (8 * step / _STEPS) for step in range(_STEPS)]
_SUM_OF_WEIGHTS = sum(1 / factor for factor in _FACTORS)
_PRIOR = [(factor, 1 / factor / _SUM_OF_WEIGHTS) for factor in _FACTORS]
"""Multiples of the distance, and their weights: half of the weight is below twice the distance."""

FEWEST = 2  # Runs of each side before a decision: one run can be an outlier
ALIKE = 0.01
"""The probability that ends which differ are called alike. It is larger than that of a wrong verdict on a commit: such
an answer costs a second try, and not a wrong culprit."""


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
        self, values: Sequence[float], baseline: Sequence[float], other_values: Sequence[Sequence[float]]
    ) -> tuple[float, int]:
        """Returns the standard error of `distance`, and its degrees of freedom, at least 1.

        `other_values` are the values of other commits, which have the same variation.
        """
        groups = [group for group in (values, baseline, *other_values) if group]
        degrees = max(1, sum(len(group) - 1 for group in groups))
        deviations: list[float] = []
        for group in groups:
            mean = _log_mean(group)
            deviations += [math.log(value) - mean for value in group]
        squares = sum(deviation**2 for deviation in deviations)
        variance = max(squares / degrees, self.metric.resolution**2 / 12)
        parts = 1 / len(values)
        if self.condition.relative:
            parts += 1 / len(baseline)
        return math.sqrt(variance * parts), degrees

    def evidence(
        self, values: Sequence[float], baseline: Sequence[float], other_values: Sequence[Sequence[float]], half: float
    ) -> float:
        """Returns the evidence that the condition is false; negative if it is true. 0 with too few runs.

        `half` is the distance of both hypotheses from the bound.
        """
        if len(values) < FEWEST or (self.condition.relative and len(baseline) < FEWEST):
            return 0.0
        middle = self.distance(values, baseline)
        error, degrees = self.standard_error(values, baseline, other_values)
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


LEAST_DRIFT = -0.99  # A run that stops has no logarithm
TRIES = 2  # Failed runs after which a commit is skipped: a busy machine can lose a guest
RUNNER_WITHOUT_TIME = "sim"  # Simulated loads take another time than they say
FURTHER = 5  # Decisions besides those of the steps: both ends, both commits of the check, and a skipped one


LIMIT = 2.0
"""Standard errors that are added to the distance of the nearer end: noise must not bring the hypotheses together."""

TestKey = tuple[Labels, str]  # A cell, and the text of a condition with its metric


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
        if True in decisions:
            return True
        if None in decisions:
            return None
        return False

    def make_tests(self, conditions: Sequence[Condition], error_rate: float) -> None:
        """Makes the tests from the first run of both ends; `error_rate` is that of a commit. Raises UsageError."""
        good, bad = (self._of(end, SEARCH)[0] for end in (self._good, self._bad))
        for cell in good:
            for condition in conditions:
                metrics = [METRICS[name] for name in with_directions(condition.metric, [[good[cell]], [bad[cell]]])]
                for metric in metrics:
                    if metric.compute(good[cell]) and metric.compute(bad[cell]):
                        rate_of_test = error_rate / len(good) / len(conditions) / len(metrics)
                        key = (cell, f"{condition.text} ({metric.name})")
                        self._tests[key] = SequentialTest(condition, metric, rate_of_test)
        if not self._tests:
            names = ", ".join(condition.metric for condition in conditions)
            raise UsageError(f"--fail-if: the runs of both ends have no {names}")
        for key, test in self._tests.items():
            best, worst = (self._values(key, end, SEARCH) for end in (self._good, self._bad))
            ends = [abs(test.distance(values, best)) for values in (best, worst)]
            self._halves[key] = abs(math.log(test.condition.bound)) if test.condition.relative else max(*ends, 1e-9)

    def ends_are_alike(self) -> bool:
        """Tells whether no condition can tell the ends apart, with a probability of `ALIKE` that one does."""
        boundary = math.log(1 / ALIKE)
        for key in self._tests:
            is_bad_end_good = self._evidence(key, self._bad, SEARCH) >= boundary
            is_good_end_bad = self._evidence(key, self._good, SEARCH) <= -boundary
            if not (is_bad_end_good or is_good_end_bad):
                return False
        return True

    def drifts(self, commit: Commit) -> list[tuple[str, float]]:
        """Returns the cells whose I/Os per second change within a run by so much that the verdict depends on it.

        A change is that of the last third of a run over the first, as a share: more than half of the way to the bound.
        """
        found = []
        for cell in dict.fromkeys(cell for cell, _ in self._tests):
            halves = [half for (labels, _), half in self._halves.items() if labels == cell]
            changes = []
            for run in self._of(commit, SEARCH):
                change = drift([float(sum(point["ios"])) for point in run[cell].series])
                changes.append(change or 0.0)
            middle = median(changes)
            if abs(math.log1p(max(middle, LEAST_DRIFT))) > min(halves) / 2:
                found.append((" ".join(f"{label}={value}" for label, value in cell), middle))
        return found

    def keep_decisive_tests(self) -> bool:
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
            nearer = min(abs(test.distance(end_values, values[0])) for end_values in values)
            self._halves[key] = min(self._halves[key], nearer + LIMIT * error)
        self._measuring.cells = {cell for cell, _ in self._tests}
        return bool(self._tests)

    def figures(self, commit: Commit, phase: str) -> list[CommitFigure]:
        """Returns the figures of a commit, for each test."""
        figures = []
        for key, test in self._tests.items():
            values = self._values(key, commit, phase)
            mean = fmean(values) if values else 0.0
            if not mean:
                continue
            baseline = self._values(key, self._good, phase)
            ratio = mean / fmean(baseline) if baseline else None
            labels = " ".join(f"{label}={value}" for label, value in key[0])
            figures.append(CommitFigure(labels, test.metric.name, mean, ratio, len(values)))
        return figures

    # --- values of a test -------------------------------------------------------------------------

    def _of(self, commit: Commit, phase: str) -> list[Outcomes]:
        return self._runs.setdefault((phase, commit.name), [])

    def _values(self, key: TestKey, commit: Commit, phase: str) -> list[float]:
        return self._values_of(key, self._of(commit, phase))

    def _values_of(self, key: TestKey, runs: Sequence[Outcomes]) -> list[float]:
        """Returns the values of a test's metric in runs, without those that are unknown or 0."""
        metric = self._tests[key].metric
        labels, _ = key
        values = [metric.compute(run[labels]) for run in runs]
        return [value for value in values if value]

    def _decision(self, key: TestKey, commit: Commit, phase: str) -> bool | None:
        return self._tests[key].decide(self._evidence(key, commit, phase))

    def _evidence(self, key: TestKey, commit: Commit, phase: str) -> float:
        """Returns the evidence that the condition is false for a commit; negative if it is true."""
        test = self._tests[key]
        values, baseline = (self._values(key, side, phase) for side in (commit, self._good))
        other_values = []
        for group, runs in self._runs.items():
            if group not in {(phase, commit.name), (phase, self._good.name)}:
                other_values.append(self._values_of(key, runs))
        return test.evidence(values, baseline, other_values, self._halves[key])


@dataclass(frozen=True)
class BisectionRule:
    """When a verdict is certain."""

    conditions: Sequence[Condition]
    sure: float  # The probability with which the result is correct
    max_runs: int  # Runs after which a commit is skipped as unclear


@dataclass
class BisectionSearch:
    source: BisectionSource
    measuring: CommitMeasuring
    rule: BisectionRule
    note: Callable[[str], object]  # Shows the progress
    log: Callable[[str], object]  # Receives git's log after each verdict
    verdicts: list[CommitVerdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    _run_seconds: list[float] = field(default_factory=list)  # Of each run that was measured, with its build
    _decisions_left: int = 0  # Ends, steps and the check that are not decided yet

    def __post_init__(self) -> None:
        """Raises UsageError if both ends are the same."""
        good, bad = self.source.good, self.source.bad
        if good.name == bad.name:
            raise UsageError(f"--good and --bad are the same {self.source.label}, {good.short}")
        self.fixes = self.source.repository.is_ancestor(bad.name, good.name)
        self.evidence = BisectionEvidence(self.measuring, good, bad)

    def find(self) -> Bisection:
        """Bisects. Raises UsageError if the condition does not tell the ends apart."""
        good, bad = self.source.good, self.source.bad
        repository = self.source.repository
        old, new = (bad, good) if self.fixes else (good, bad)
        history = [old.name, *repository.run("rev-list", "--reverse", "--topo-order", new.name, f"^{old.name}").split()]
        # git also tests merge bases, which are older.
        places = {name: position for position, name in enumerate(history)}
        count = len(history) - 1
        steps = math.ceil(math.log2(max(2, count)))
        self.note(f"{self.source.label}s between both ends: {count - 1} (steps: about {steps})")
        self._decisions_left = 2 + steps + 2
        self._note_least_time()
        self._compare_ends((1 - self.rule.sure) / (steps + FURTHER))
        terms = ("broken", "fixed") if self.fixes else ("good", "bad")
        bisect = GitBisect(repository, new.name, *terms)
        bisect.judge(old.name, new=False)
        state = bisect.judge(new.name, new=True)
        while state.next is not None:
            self.log(bisect.log())
            state = self._step(bisect, self.source.commit(state.next), state.progress)
        self.log(bisect.log())
        culprit = None if state.culprit is None else self.source.commit(state.culprit)
        check = [] if culprit is None else self._check(culprit)
        return Bisection(
            condition=" or ".join(condition.text for condition in self.rule.conditions),
            kind=self.source.label,
            fixes=self.fixes,
            campaign=self.measuring.campaign,
            verdicts=sorted(self.verdicts, key=lambda verdict: places.get(verdict.commit.name, 0)),
            culprit=culprit,
            candidates=[self.source.commit(name) for name in state.candidates],
            check=check,
            notes=self.notes,
        )

    def _compare_ends(self, error_rate: float) -> None:
        """Measures both ends until the condition is known to be true for the bad one only. Raises UsageError."""
        ends = (self.source.good, self.source.bad)
        evidence = self.evidence
        for end in ends:
            self._measure_end(end)
        evidence.make_tests(self.rule.conditions, error_rate)
        while None in [evidence.is_true(end, SEARCH) for end in ends]:
            following = min(ends, key=lambda end: evidence.count(end, SEARCH))
            if evidence.count(following, SEARCH) >= self.rule.max_runs or evidence.ends_are_alike():
                break
            self._measure_end(following)
        figures = {end.short: evidence.figures(end, SEARCH) for end in ends}
        if not evidence.keep_decisive_tests():
            descriptions = []
            for name, of_end in figures.items():
                for figure in of_end[:1]:
                    value = METRICS[figure.metric].with_unit(figure.value)
                    descriptions.append(f"{figure.metric} of {name}: {value} ({figure.runs} runs)")
            shown = "; ".join(descriptions)
            raise UsageError(f"--fail-if: expected a condition that is true for the bad end only; {shown}")
        for end, verdict in zip(ends, ("good", "bad"), strict=True):
            self._record(CommitVerdict(end, verdict, evidence.figures(end, SEARCH)))
        self._warn_of_drifts()

    def _warn_of_drifts(self) -> None:
        """Says which cells are not steady: with runs of another length, another commit can be the culprit."""
        for end in (self.source.good, self.source.bad):
            for cell, change in self.evidence.drifts(end):
                direction = "more" if change > 0 else "fewer"
                line = (
                    f"{end.short}, {cell}: {formatting.share(abs(change))} {direction} I/Os per second at the end of a "
                    "run than at its beginning. Runs of another length may find another commit: set a longer runtime, "
                    "or a ramp"
                )
                self.notes.append(line)
                self.note(f"  {line}")

    def _measure_end(self, end: Commit) -> None:
        try:
            self._measure(end, SEARCH)
        except (BuildFailed, RunFailed) as error:
            raise BlklabError(f"{end.short}: cannot be measured: {error}") from None

    def _measure(self, commit: Commit, phase: str) -> None:
        """Adds a run of a commit, and says what it measured. Raises BuildFailed, and RunFailed if several runs fail."""
        for attempt in range(1, TRIES + 1):
            begun = self.clock()
            try:
                self.evidence.measure(commit, phase)
            except RunFailed:
                if attempt == TRIES:
                    raise
                continue
            self._run_seconds.append(self.clock() - begun)
            self._note_run(commit, phase)
            return

    def _note_least_time(self) -> None:
        """Says before the first run how many runs there are at least, and how long their loads take."""
        least_runs = FEWEST * self._decisions_left
        line = f"at least {least_runs} runs"
        if self.source.runner_name != RUNNER_WITHOUT_TIME:
            cells = self.measuring.plan_of(self.source.good).cells
            load_ns = sum(minimum_ns(cell.document) for cell in cells)
            line += (
                f", each with {format_duration(load_ns)} of load: {format_duration(load_ns * least_runs)} in all, "
                "and the time to build and boot"
            )
        self.note(line)

    def _note_run(self, commit: Commit, phase: str) -> None:
        """Says which run has ended, its first figure, and the least time that is left.

        Every commit that is not decided needs FEWEST runs; noise makes it more.
        """
        seconds = fmean(self._run_seconds)
        runs_left = max(0, FEWEST * self._decisions_left - self.evidence.count(commit, phase))
        figures = self.evidence.figures(commit, phase)[:1]
        shown = "".join(f", {figure.metric} {METRICS[figure.metric].with_unit(figure.value)}" for figure in figures)
        if figures and figures[0].of_baseline is not None and commit.name != self.source.good.name:
            shown += f" ({figures[0].of_baseline:.2f} of the good end)"
        left = ""
        if runs_left:
            left = f"; at least {formatting.plural(runs_left, 'run')} left"
            if seconds * runs_left >= 1:
                left += f", {format_duration(round(seconds * runs_left) * 1e9)}"
        self.note(f"  {commit.short}: run {self.evidence.count(commit, phase)}{shown}{left}")

    def _step(self, bisect: GitBisect, commit: Commit, progress: str) -> BisectionState:
        self.note(f"{commit.short} {commit.subject}: {progress}")
        is_bad, reason = self._judge_commit(commit)
        verdict = "bad" if is_bad else "good"
        if is_bad is None:
            verdict = "skipped"
        self._record(CommitVerdict(commit, verdict, self.evidence.figures(commit, SEARCH), reason))
        return bisect.judge(commit.name, new=None if is_bad is None else is_bad is not self.fixes)

    def _judge_commit(self, commit: Commit) -> tuple[bool | None, str]:
        """Measures a commit until the verdict is known; None with the reason if it must be skipped."""
        while (is_bad := self.evidence.is_true(commit, SEARCH)) is None:
            runs, baseline = (self.evidence.count(side, SEARCH) for side in (commit, self.source.good))
            if runs >= self.rule.max_runs:
                return None, f"unclear after {runs} runs"
            try:
                self._measure(self.source.good if baseline < runs and self.evidence.relative else commit, SEARCH)
            except (BuildFailed, RunFailed) as error:
                return None, str(error)
        return is_bad, ""

    def _check(self, culprit: Commit) -> list[CommitVerdict]:
        """Measures the culprit and the commit before it again, next to the good end, with new runs only."""
        before = self.source.commit(self.source.repository.run("rev-parse", f"{culprit.name}^"))
        self.note(f"measuring both sides again: {before.short} and {culprit.short}")
        pair = {commit.name: commit for commit in (before, culprit)}
        commits: dict[str, Commit] = {}
        if self.evidence.relative:
            commits[self.source.good.name] = self.source.good
        commits |= pair
        while None in [self.evidence.is_true(side, CHECK) for side in pair.values()]:
            following = min(commits.values(), key=lambda side: self.evidence.count(side, CHECK))
            if self.evidence.count(following, CHECK) >= self.rule.max_runs:
                break
            try:
                self._measure(following, CHECK)
            except (BuildFailed, RunFailed) as error:
                self.notes.append(f"{following.short} could not be measured again: {error}")
                break
        verdicts = {None: "unclear", True: "bad", False: "good"}
        return [
            CommitVerdict(side, verdicts[self.evidence.is_true(side, CHECK)], self.evidence.figures(side, CHECK))
            for side in pair.values()
        ]

    def _record(self, verdict: CommitVerdict) -> None:
        self.verdicts.append(verdict)
        self._decisions_left = max(2, self._decisions_left - 1)  # Both sides of the check come last
        runs = max((figure.runs for figure in verdict.figures), default=0)
        figures = ", ".join(
            f"{figure.metric} {METRICS[figure.metric].with_unit(figure.value)}" for figure in verdict.figures[:2]
        )
        reason = verdict.reason or f"{figures} ({runs} runs)"
        self.note(f"  {verdict.commit.short}: {verdict.verdict}: {reason}")
