"""The interface of a runner: it measures cells, and reports each to a ledger; the result of a run, in fio's words."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from blklab import __version__
from blklab.errors import BlklabError
from blklab.outcome import Outcome
from blklab.store.series import FinishedRun

if TYPE_CHECKING:
    from blklab.experiment.cells import Cell, ExperimentPlan
    from blklab.runners.fio.process import FioProgress


class Ledger(Protocol):
    """Where a runner reports on cells; its methods may be called from any thread."""

    def begin(self, cell: "Cell") -> bool:
        """Called before a cell is measured; False if another process has it."""

    def end(self, cell: "Cell", finished_run: FinishedRun) -> None:
        """Called with the result of a cell."""

    def fail(self, cell: "Cell", message: str) -> None:
        """Called with the error of a cell."""


class Runner(ABC):
    """Measures cells; `registry.RunnerKind` describes it."""

    progress: "Callable[[Cell, FioProgress], object]" = staticmethod(lambda _cell, _live: None)
    """Called while a cell is measured, if the runner can report progress."""

    def session(self) -> AbstractContextManager[None]:
        """Holds what the whole campaign needs, from before the check to the end: a lock, a connection.

        Raises BlklabError if it cannot.
        """
        return nullcontext()

    def adapt_plan(self, plan: "ExperimentPlan") -> "ExperimentPlan":
        """Returns the plan with this runner's options in its cells.

        Raises UsageError if the options do not fit the plan.
        """
        return plan

    @abstractmethod
    def check(self, plan: "ExperimentPlan") -> None:
        """Raises UsageError or EnvironmentLacks for a plan that cannot work, before it starts."""

    def environment(self) -> Mapping[str, Any]:
        """Returns what is needed to judge the results: versions, kernel, hardware."""
        return {"blklab": __version__}

    @abstractmethod
    def run(self, cells: "Sequence[Cell]", ledger: Ledger) -> None:
        """Measures cells. An exception ends the campaign; a failed cell need not."""

    def measure_each(
        self,
        cells: "Sequence[Cell]",
        ledger: Ledger,
        measure: "Callable[[Cell], FinishedRun]",
        fatal: tuple[type[BlklabError], ...] = (),
    ) -> None:
        """Measures cells one after the other, and reports their results and errors; `fatal` errors are raised."""
        for cell in sorted(cells, key=lambda cell: cell.turn):
            if not ledger.begin(cell):
                continue
            try:
                finished_run = measure(cell)
            except fatal:
                raise
            except BlklabError as error:
                ledger.fail(cell, str(error))
            else:
                ledger.end(cell, finished_run)


@dataclass(frozen=True)
class RunResult:
    """One cell's figures."""

    number: int  # The cell's number in its experiment
    labels: Mapping[str, str]  # How the cell differs from the others
    runner: str  # Its runner: `sim`, `host`
    outcome: Outcome  # The figures: docs/reference/formats.md, "result". Times are ns, rates per second.
    seconds: float  # Real duration of the run, ns
    run: int | None = None  # Its number in the store, if it is in one

    def as_dict(self) -> dict[str, Any]:
        """Returns the result for `--json`."""
        return {
            **{name: getattr(self, name) for name in ("run", "number", "runner")},
            "labels": dict(self.labels),
            **self.outcome.as_json(),
        }
