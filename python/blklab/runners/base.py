"""What a runner is: it measures cells, and tells a ledger what becomes of each."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from blklab.spec.cells import Cell, Plan
from blklab.store.finished import Finished


class Ledger(Protocol):
    """Where a runner says what becomes of cells; its methods may be called from any thread."""

    def begin(self, cell: Cell) -> bool:
        """Called before a cell is measured; False if it is not to be: another process does."""

    def end(self, cell: Cell, finished: Finished) -> None:
        """Called with what was measured."""

    def fail(self, cell: Cell, message: str) -> None:
        """Called with what went wrong."""


class Runner(Protocol):
    """Something that measures cells."""

    name: str

    def alone(self) -> AbstractContextManager[None]:
        """Keeps others from measuring, from before the check to after the run.

        Raises BlklabError if another does.
        """

    def check(self, plan: Plan) -> None:
        """Raises UsageError or EnvironmentLacks for a plan that cannot work, before it starts."""

    def environment(self) -> Mapping[str, Any]:
        """Returns what it takes to believe the results: versions, kernel, hardware."""

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Measures cells. What it raises ends the campaign; a cell that failed need not."""
