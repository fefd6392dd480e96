"""Two tables of the same kind as one: each row twice, once for each side."""

from collections.abc import Sequence

from blklab.report import formatting
from blklab.report.tables.base import TableColumn, TextTable, text

Heading = tuple[str, bool, int]  # Heading, whether it is a bar, and its number among equal ones

Key = tuple[str, ...]


def side_by_side(tables: Sequence[TextTable], names: Sequence[str]) -> TextTable:
    """Returns one table with the rows of several; empty if they are equal.

    Rows are matched by their texts, and by the first figure where these are not unique. A row that is equal on all
    sides is left out.
    """
    by_heading: dict[Heading, TableColumn] = {}
    for table in tables:
        by_heading.update(dict(zip(_headings(table), table.columns, strict=True)))
    words = [heading for heading, column in by_heading.items() if not column.numeric and not column.bar]
    rest = [heading for heading in by_heading if heading not in words]
    cells = [_rows(table, words) for table in tables]
    if not all(len(rows) == len(table.rows) for rows, table in zip(cells, tables, strict=True)):
        words, rest = [*words, rest[0]], rest[1:]
        cells = [_rows(table, words) for table in tables]
    rows = []
    for key in dict.fromkeys(key for side in cells for key in side):
        matched = [side.get(key) for side in cells]
        if any(matched) and any(row != matched[0] for row in matched):
            for name, row in zip(names, matched, strict=True):
                drawn = [(row or {}).get(heading, "" if heading[1] else formatting.NONE) for heading in rest]
                rows.append([*(key if name == names[0] else [""] * len(key)), name, *drawn])
    columns = [*(by_heading[heading] for heading in words), text(""), *(by_heading[heading] for heading in rest)]
    present = next((table for table in tables if table), tables[0])
    return TextTable(present.title, columns, rows, spare=present.spare)


def _headings(table: TextTable) -> list[Heading]:
    seen: list[tuple[str, bool]] = []
    result = []
    for column in table.columns:
        name = (column.heading, column.bar)
        result.append((*name, seen.count(name)))
        seen.append(name)
    return result


def _rows(table: TextTable, words: Sequence[Heading]) -> dict[Key, dict[Heading, str]]:
    """Returns the cells of each row by heading; an empty text repeats the one above."""
    result: dict[Key, dict[Heading, str]] = {}
    above: dict[Heading, str] = {}
    for row in table.rows:
        cells = dict(zip(_headings(table), row, strict=True))
        above = {heading: cells.get(heading, "") or above.get(heading, "") for heading in words}
        result[tuple(above.values())] = cells
    return result
