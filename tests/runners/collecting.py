"""A ledger that only remembers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from blklab.experiment.cells import Cell
from blklab.runners.base import Runner
from blklab.store.series import FinishedRun


@dataclass
class Collected:
    """What became of cells."""

    ended: dict[int, FinishedRun] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    begun: list[int] = field(default_factory=list)

    def begin(self, cell: Cell) -> bool:
        self.begun.append(cell.number)
        return True

    def end(self, cell: Cell, finished: FinishedRun) -> None:
        self.ended[cell.number] = finished

    def fail(self, cell: Cell, message: str) -> None:
        self.failed[cell.number] = message


def collected(runner: Runner, cells: Sequence[Cell]) -> Collected:
    """Returns what becomes of cells on a runner."""
    ledger = Collected()
    runner.run(cells, ledger)
    return ledger
