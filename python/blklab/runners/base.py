"""What a runner is: it measures cells, and tells a ledger what becomes of each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from blklab import __version__
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.store.finished_run import FinishedRun

if TYPE_CHECKING:
    from blklab.runners.fio.process import FioProgress


class Ledger(Protocol):
    """Where a runner says what becomes of cells; its methods may be called from any thread."""

    def begin(self, cell: Cell) -> bool:
        """Called before a cell is measured; False if it is not to be: another process does."""

    def end(self, cell: Cell, finished: FinishedRun) -> None:
        """Called with what was measured."""

    def fail(self, cell: Cell, message: str) -> None:
        """Called with what went wrong."""


class Runner(ABC):
    """Something that measures cells; `kind.Kind` tells the rest of it."""

    progress: "Callable[[Cell, FioProgress], object]" = staticmethod(lambda _cell, _live: None)
    """Called while a cell is measured, if the runner can say how far it is."""

    def alone(self) -> AbstractContextManager[None]:
        """Keeps others from measuring, from before the check to after the run.

        Raises BlklabError if another does.
        """
        return nullcontext()

    def planned(self, plan: ExperimentPlan) -> ExperimentPlan:
        """Returns the plan as it is carried out, with what this runner was told in its cells.

        Raises UsageError if that does not go together.
        """
        return plan

    @abstractmethod
    def check(self, plan: ExperimentPlan) -> None:
        """Raises UsageError or EnvironmentLacks for a plan that cannot work, before it starts."""

    def environment(self) -> Mapping[str, Any]:
        """Returns what it takes to believe the results: versions, kernel, hardware."""
        return {"blklab": __version__}

    @abstractmethod
    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Measures cells. What it raises ends the campaign; a cell that failed need not."""
