"""The type of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

WIDE = 7  # Columns of a table from which it takes the whole width
LONG = 40  # Characters of a cell from which its table takes the whole width


class LinkedCell(str):
    """The text of a cell that is a link on a page."""

    href: str

    def __new__(cls, text: str, href: str) -> "LinkedCell":
        """Returns the text, with the address behind it."""
        cell = super().__new__(cls, text)
        cell.href = href
        return cell


class ChoiceCell(str):
    """The text of a cell that is the label of a checkbox on a page; the text is its value."""

    choice: str

    def __new__(cls, text: str, choice: str) -> "ChoiceCell":
        """Returns the text; `choice` is the name of the checkbox."""
        cell = super().__new__(cls, text)
        cell.choice = choice
        return cell


@dataclass(frozen=True)
class TableColumn:
    """A column: its heading and its format."""

    heading: str
    numeric: bool = True  # Whether figures are aligned to the right
    bar: bool = False  # Whether cells are shares 0..=1 as text, drawn as bars


@dataclass(frozen=True)
class TextTable:
    """Rows of text under headings. Names are printable, but not escaped for HTML."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    note: str = ""  # A line below the table, such as the meaning of a figure
    strong: frozenset[int] = field(default_factory=frozenset)  # Rows to emphasise: the device in focus, a total
    spare: Sequence[str] = ()
    """Columns that can be hidden if space is short, the first one first; those of `KEPT` below 60 columns only."""

    explanations: Mapping[str, str] = field(default_factory=dict)
    """By column, the words of `note` that explain it, if they are not `heading: meaning`. They are hidden with it."""

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of the page."""
        return len(self.columns) > WIDE or any(len(cell) > LONG for row in self.rows for cell in row)

    def __bool__(self) -> bool:
        return bool(self.rows)


BAR = TableColumn("", numeric=False, bar=True)


def text_column(heading: str) -> TableColumn:
    return TableColumn(heading, numeric=False)


def number_columns(*headings: str) -> list[TableColumn]:
    return [TableColumn(heading) for heading in headings]


def drop_empty_columns(table: TextTable) -> TextTable:
    """Returns the table without columns that contain only `–` or 0."""
    empty = {"", "0", "–", "0 B", "0 %"}
    indices = []
    for number, column in enumerate(table.columns):
        if not column.numeric or any(row[number] not in empty for row in table.rows):
            indices.append(number)
    return only(table, indices)


def only(table: TextTable, indices: Sequence[int]) -> TextTable:
    """Returns the table with the columns at these positions."""
    rows = [[row[index] for index in indices] for row in table.rows]
    return replace(table, columns=[table.columns[index] for index in indices], rows=rows)
