"""Carries out a plan on a runner, with a store that keeps finished cells; can resume after a crash."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from traceback import clear_frames
from typing import Any

from blklab.errors import BlklabError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.runners.base import Runner, RunResult
from blklab.store import query, series
from blklab.store.campaigns import Store, StoredCampaign
from blklab.store.series import FinishedRun


@dataclass
class CampaignOutcome:
    """The results and errors of a plan."""

    results: list[RunResult]  # Of every finished cell, in the order of the plan
    errors: list[str]  # Errors: one line per failed cell, and one for all that this process did not measure
    campaign: int | None  # Its number in the store


def carry_out(
    runner: Runner,
    plan: ExperimentPlan,
    store: Store | None,
    *,
    resume: bool = False,
    campaign: StoredCampaign | None = None,
    on_cell_end: Callable[[int], None] = lambda _done: None,
    note: Callable[[str], object] = lambda _note: None,
) -> CampaignOutcome:
    """Measures the cells of a plan, except those that a resumed campaign has finished already.

    With a `campaign`, the cells are its own. `on_cell_end` is called with the number of finished cells after each, and
    `note` with messages for the user. On an interrupt, the cells in progress are planned again.
    """
    environment = runner.environment()
    host = environment.get("host")
    if store is not None and campaign is None:
        campaign = store.resume(plan, host) if resume else None
        if campaign is None:
            if resume:
                note("no campaign of exactly these cells was started before: this is a new one")
            campaign = store.begin(plan, host)
    ledger = StoreLedger(plan.runner, store, campaign, environment, on_cell_end)
    waiting = [cell for cell in plan.cells if ledger.waits(cell)]
    ledger.done = len(plan.cells) - len(waiting)
    try:
        runner.run(waiting, ledger)
    except BaseException as error:
        # An interrupt may leave a transaction open in a frame of the traceback, which would block the next one.
        clear_frames(error.__traceback__)
        gc.collect()
        ledger.release()
        raise
    results = ledger.results
    if store is not None and campaign is not None and len(results) < len(plan.cells):
        earlier = [run for run in query.runs_of(store, campaign.number) if run.outcome is not None]
        results = {run.number: of_run(store, run) for run in earlier} | results
    missing = [cell.name for cell in plan.cells if cell.number not in results and cell.number not in ledger.errors]
    errors = list(ledger.errors.values())
    if missing:
        many = "1 cell was" if len(missing) == 1 else f"{len(missing)} cells were"
        errors.append(f"{many} taken by another process or removed, the first is {missing[0]}: continue with --resume")
    ordered_results = [results[cell.number] for cell in plan.cells if cell.number in results]
    for result in ordered_results:
        for host in result.outcome.hosts:
            if host.failure:
                errors.append(f"cell {result.number}: measured without {host.name}: {host.failure}")
    return CampaignOutcome(ordered_results, errors, None if campaign is None else campaign.number)


@contextmanager
def open_campaign(
    plan: ExperimentPlan,
    store: Store,
    environment: Mapping[str, Any],
    on_cell_end: Callable[[int], None] = lambda _done: None,
) -> "Iterator[StoreLedger]":
    """Gives a ledger for cells that need not all be measured: the campaign has only the finished ones afterwards.

    Without a finished cell, the campaign is removed.
    """
    campaign = store.begin(plan, environment.get("host"))
    ledger = StoreLedger(plan.runner, store, campaign, environment, on_cell_end)
    try:
        yield ledger
    except BaseException as error:
        clear_frames(error.__traceback__)
        gc.collect()
        raise
    finally:
        ledger.release()
        if ledger.results:
            finished_runs = {result.run for result in ledger.results.values()}
            store.remove(sorted(set(campaign.waiting.values()) - finished_runs), whole_campaigns=False)
        else:
            store.remove([campaign.number], whole_campaigns=True)


def of_run(store: Store, run: query.StoredRun) -> RunResult:
    """Returns the result of a finished run, with its series."""
    outcome = replace(run.figures, series=series.as_outcome(query.points(store, run.id)))
    return RunResult(run.number, run.labels, run.runner, outcome, run.seconds or 0.0, run.id)


def with_repeats(plan: ExperimentPlan, repeats: int, first: ExperimentPlan) -> ExperimentPlan:
    """Returns the cells of a plan that come after `repeats` of each, numbered behind those of the `first` plan."""
    extra_cells = [(int(cell.labels["repeat"]), cell) for cell in plan.cells if int(cell.labels["repeat"]) > repeats]
    of_each = sum(cell.labels["repeat"] == "1" for cell in plan.cells)
    extra_repeats = len(extra_cells) // of_each  # The repeats of a cell follow each other in a plan.
    last = max(cell.number for cell in first.cells)
    done = len(first.cells)
    cells = [
        replace(cell, number=last - done + (repeat - 1) * of_each + index // extra_repeats + 1)
        for index, (repeat, cell) in enumerate(extra_cells)
    ]
    return replace(plan, cells=cells)


@dataclass
class StoreLedger:
    """Collects results and errors, and writes them to a store if there is one."""

    runner: str
    store: Store | None
    campaign: StoredCampaign | None
    environment: Mapping[str, Any]
    on_cell_end: Callable[[int], None] = lambda _done: None
    results: dict[int, RunResult] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    done: int = 0
    under_way: set[int] = field(default_factory=set)

    @property
    def campaign_number(self) -> int:
        """The number of the campaign in the store; 0 without a store."""
        return 0 if self.campaign is None else self.campaign.number

    def waits(self, cell: Cell) -> bool:
        """Tells whether a cell is not finished yet."""
        return self.campaign is None or cell.key in self.campaign.waiting

    def begin(self, cell: Cell) -> bool:
        """Claims the run of a cell; False if another process has it."""
        run = self._run(cell)
        if run is None or self.store is None:
            return True
        self.under_way.add(run)  # first: an interrupt may come when the run is claimed
        if not (is_claimed := self.store.claim(run, self.environment)):
            self.under_way.discard(run)
        return is_claimed

    def end(self, cell: Cell, finished_run: FinishedRun) -> None:
        """Keeps the result of a cell."""
        run = self._write_end(cell, lambda store, run: store.finish(run, finished_run))
        outcome = replace(finished_run.outcome, series=series.as_outcome(finished_run.points))
        self.results[cell.number] = RunResult(cell.number, cell.labels, self.runner, outcome, finished_run.seconds, run)
        self._count()

    def fail(self, cell: Cell, message: str) -> None:
        """Keeps the error of a cell."""
        self._write_end(cell, lambda store, run: store.fail(run, message))
        self.errors[cell.number] = f"{cell.name}: {message}"
        self._count()

    def release(self) -> None:
        """Plans the cells in progress again; the store itself may have failed."""
        if self.store is not None:
            with suppress(BlklabError):
                self.store.release(self.under_way)
        self.under_way.clear()

    def _run(self, cell: Cell) -> int | None:
        return None if self.campaign is None else self.campaign.waiting[cell.key]

    def _write_end(self, cell: Cell, write: Callable[[Store, int], object]) -> int | None:
        """Writes the end of a cell to the store; returns its run there."""
        run = self._run(cell)
        if run is not None and self.store is not None:
            write(self.store, run)
            self.under_way.discard(run)
        return run

    def _count(self) -> None:
        self.done += 1
        self.on_cell_end(self.done)
