"""What a table is."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

WIDE: Final = 7
"""Columns above which a table does not stand beside another."""


@dataclass(frozen=True)
class TableColumn:
    """A column: its heading, and how its cells stand."""

    heading: str
    numeric: bool = True
    """Figures stand to the right."""

    bar: bool = False
    """Cells are shares 0..=1 as text of a float, drawn as bars."""


@dataclass(frozen=True)
class TextTable:
    """Rows of text under headings. Names in them are printable, but not escaped for HTML."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """One line below it: what a figure means, or what was left out."""

    strong: frozenset[int] = field(default_factory=frozenset)
    """Rows to set off: the device in focus, a total."""

    spare: Sequence[str] = ()
    """Headings of the columns to do without where there is no room, the first of them first."""

    @property
    def wide(self) -> bool:
        """Whether it takes the whole width of the page."""
        return len(self.columns) > WIDE

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.rows)


BAR: Final = TableColumn("", numeric=False, bar=True)


def text(heading: str) -> TableColumn:
    """Returns a column of words."""
    return TableColumn(heading, numeric=False)


def figures(*headings: str) -> list[TableColumn]:
    """Returns columns of figures."""
    return [TableColumn(heading) for heading in headings]


def pruned(table: TextTable) -> TextTable:
    """Returns the table without the columns of figures in which nothing stands (`–` or 0)."""
    empty = {"", "0", "–", "0 B", "0 %"}
    return only(
        table,
        [
            at
            for at, column in enumerate(table.columns)
            if not column.numeric or any(row[at] not in empty for row in table.rows)
        ],
    )


def only(table: TextTable, kept: Sequence[int]) -> TextTable:
    """Returns the table with only the columns at these places."""
    return replace(
        table,
        columns=[table.columns[at] for at in kept],
        rows=[[row[at] for at in kept] for row in table.rows],
    )
