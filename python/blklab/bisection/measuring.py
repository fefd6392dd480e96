"""Measures commits, a run at a time, and keeps every run in one campaign of the store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from blklab.bisection.git import Commit
from blklab.bisection.source import BisectionSource, BuildFailed, Note
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.outcome import Outcome
from blklab.runners.base import Runner
from blklab.runners.campaign import StoreLedger
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.store import query
from blklab.store.campaigns import Store, StoredCampaign

REPEAT = "repeat"
PHASE = "phase"  # The label that tells the search from the check at its end
SEARCH, CHECK = "search", "check"

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
        every = {_own(cell): self._of_commit(cell, commit, phase, repeat) for cell in plan.cells}
        plan = replace(plan, cells=list(every.values()))
        campaign = self._campaign or self._opened(plan)
        chosen = {own: cell for own, cell in every.items() if not self.cells or own in self.cells}
        if missing := [cell for cell in chosen.values() if _key(cell.labels) not in self._done]:
            self._run(campaign, missing, self._runner(commit, plan))
        return {own: self._done[_key(cell.labels)] for own, cell in chosen.items()}

    def _of_commit(self, cell: Cell, commit: Commit, phase: str, repeat: int) -> Cell:
        labels = {name: value for name, value in cell.labels.items() if name != REPEAT}
        labels |= {self.source.label: commit.short, PHASE: phase, REPEAT: str(repeat)}
        document = {**cell.document, "seed": cell.document["seed"] + repeat - 1}
        if (own := self.source.own_kernel(commit)) is not None:
            document["own_kernel"] = own
        return replace(cell, labels=labels, document=document)

    def _opened(self, plan: ExperimentPlan) -> StoredCampaign:
        """Continues the newest campaign that began with the same cells, if asked, or begins one."""
        # The name of the experiment means its own campaigns.
        plan = replace(plan, path=plan.path.with_name(f"{plan.name}-bisection.toml"))
        campaign = self.store.resume(plan, self.source.host) if self.resume else None
        if campaign is None and self.resume:
            self.note("no bisection with this good end was started before on this machine: this is a new one")
        self._campaign = campaign or self.store.begin(plan, self.source.host)
        stored = query.runs_of(self.store, self._campaign.number)
        self._done = {_key(run.labels): run.outcome for run in stored if run.outcome is not None}
        self._cells = max((run.number for run in stored), default=0)
        return self._campaign

    def _run(self, campaign: StoredCampaign, wanted: Sequence[Cell], runner: Runner) -> None:
        new = [cell for cell in wanted if cell.key not in campaign.waiting]
        numbered = {cell.key: replace(cell, number=self._cells + at) for at, cell in enumerate(new, start=1)}
        self._cells += len(new)
        cells = [numbered.get(cell.key, cell) for cell in wanted]
        added = self.store.extend(campaign.number, list(numbered.values()))
        campaign = self._campaign = StoredCampaign(campaign.number, {**campaign.waiting, **added})
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
            if cell.number in ledger.failed:
                raise RunFailed(ledger.failed[cell.number].removeprefix(f"{cell.name}: "))
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


def _own(cell: Cell) -> Labels:
    """Returns the labels of a cell of the experiment."""
    return tuple((name, value) for name, value in cell.labels.items() if name != REPEAT)


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
