"""The cells of an experiment as a table, in the terms of their runner."""

from collections.abc import Sequence
from typing import Final

from blklab.report import formatting, terminal
from blklab.report.console import Console
from blklab.report.tables.base import TableColumn, TextTable, text
from blklab.runners.kind import CellDescriptions
from blklab.runners.registry import RUNNERS
from blklab.spec.cells import Cell, ExperimentPlan
from blklab.text import printable

NAMED: Final = ("stack", "workload")  # Columns before those of the runner


def print_cells(console: Console, plan: ExperimentPlan) -> None:
    """Prints the cells of an experiment."""
    terminal.draw_table(console, cells_table(plan))
    for line in RUNNERS[plan.runner].spoken().notes(plan):
        console.print(f"· {printable(line)}")


def cells_table(plan: ExperimentPlan) -> TextTable:
    """Returns the table of an experiment's cells."""
    descriptions = RUNNERS[plan.runner].spoken()
    varied = [label for label in plan.varied if label not in descriptions.columns]
    columns = [TableColumn("#"), *(TableColumn(name, name in descriptions.figures) for name in descriptions.columns)]
    if varied:
        columns.append(text("varied"))
    title = printable(plan.title) or "Experiment"
    return TextTable(
        f"{title}: {formatting.plural(len(plan.cells), 'cell')}",
        columns,
        [_row(cell, descriptions, varied) for cell in plan.cells],
    )


def _row(cell: Cell, descriptions: CellDescriptions, varied: Sequence[str]) -> list[str]:
    row = [str(cell.number)]
    for name, of in descriptions.columns.items():
        row.append(f"{cell.labels[name]}: {of(cell)}" if name in NAMED else of(cell))
    if varied:
        row.append(" ".join(f"{label}={cell.labels[label]}" for label in varied))
    return [printable(text) for text in row]


def stack(plan: ExperimentPlan, cell: Cell) -> str:
    """Returns a stack in one line: `md RAID-10 n2 512K [nvme ssd]`."""
    return printable(RUNNERS[plan.runner].spoken().columns["stack"](cell))
