"""Print sentences and tables in the terminal."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from blklab.render import formatting
from blklab.render.console import Console, RenderableType, style_text
from blklab.render.formatting import Sentence
from blklab.render.table import TableColumn, TextTable, only

BAR_WIDTH = 12  # Characters of a bar; half of it in narrow terminals
GAP = 2  # Spaces between columns
NARROW = 100  # Terminal width below which bars are halved


def prose(console: Console, shown: Sequence[Sentence]) -> None:
    """Prints sentences next to their topics."""
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold", max_width=110)
    for sentence in shown:
        grid.add_row(sentence.topic, style_text(sentence.text))
    console.print(grid)


def draw_table(console: Console, *tables: TextTable) -> None:
    """Prints tables under their titles, without columns that do not fit; nothing of empty ones."""
    for table in filter(None, tables):
        _draw(console, table)


def _draw(console: Console, table: TextTable) -> None:
    from rich.table import Table as Grid

    shown, hidden_headings = fit_table(table, console.width)
    width, full_columns = _fit_columns(shown, console.width)
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim", width=width)
    for index, column in enumerate(shown.columns):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        grid.add_column(style_text(column.heading), justify=justify, no_wrap=index in full_columns, overflow="fold")
    for index, row in enumerate(shown.rows):
        cells = [_cell(column, cell, console) for column, cell in zip(shown.columns, row, strict=True)]
        grid.add_row(*cells, style="bold" if index in shown.strong else None)
    console.print()
    console.print(style_text(table.title, "bold"))
    console.print(grid, crop=False)
    if shown.note:
        print_note(console, shown.note)
    if hidden_headings:
        print_note(console, f"Columns hidden (terminal too narrow): {', '.join(hidden_headings)}")


LEAST_WIDTH = 60  # Columns of a terminal that has room for these columns of a table:
KEPT = frozenset({"p99", "change", "±", "±IOPS"})


def fit_table(table: TextTable, width: int) -> tuple[TextTable, list[str]]:
    """Returns the table without the hidden columns, and their headings."""
    from rich.cells import cell_len

    hidden_headings: list[str] = []
    for heading in table.spare:
        if heading in KEPT and width >= LEAST_WIDTH:
            continue
        widths = []
        for number, column in enumerate(table.columns):
            cells = [column.heading, *(row[number] for row in table.rows)]
            widths.append(_bar_width(width) if column.bar else max(map(cell_len, cells)))
        if sum(widths) + GAP * (len(widths) - 1) <= width:
            break
        # The first column identifies a row.
        names = [column.heading if index or column.numeric else None for index, column in enumerate(table.columns)]
        if heading in names:
            table = only(table, [index for index, name in enumerate(names) if name != heading])
            if heading:
                hidden_headings.append(heading)
            note = table.note.replace(table.explanations.get(heading, "\0"), "")
            note = re.sub(rf"(^| ){re.escape(heading)}: [^.;]*([.;]|$)", "", note) if heading else note
            table = replace(table, note=note.strip())
    return table, hidden_headings


def _fit_columns(table: TextTable, width: int) -> tuple[int | None, set[int]]:
    """Returns the table's width if it is not the terminal's, and the columns that are not wrapped.

    These are figures, paths, and names where they fit. The table is wider than the terminal if its paths need that: a
    path with a line break cannot be copied.
    """
    from rich.cells import cell_len

    paths = set()
    names = set()
    for number in range(len(table.columns)):
        cells = [row[number] for row in table.rows]
        if any(cell.startswith("/") for cell in cells):
            paths.add(number)
        if not any(" " in cell for cell in cells):
            names.add(number)
    full_columns = {number for number, column in enumerate(table.columns) if column.numeric or column.bar} | paths
    need = GAP * (len(table.columns) - 1)
    for number, column in enumerate(table.columns):
        unbroken = [column.heading, *(row[number] for row in table.rows)]
        if number not in full_columns:
            unbroken = " ".join(unbroken).split()
        need += _bar_width(width) if column.bar else max(map(cell_len, unbroken), default=0)
    if need <= width:
        return None, full_columns | names
    return (need if paths else None), full_columns


def _bar_width(width: int) -> int:
    return BAR_WIDTH if width >= NARROW else BAR_WIDTH // 2


def _cell(column: TableColumn, cell: str, console: Console) -> RenderableType:
    if column.bar:
        cell = bar(float(cell or 0), 1.0, _bar_width(console.width))
    if cell.translate(ASCII) != cell:
        return style_text(blocks(cell, console), "cyan")
    return style_text(cell, style="" if cell != formatting.NONE else "dim")


EIGHTHS = " ▏▎▍▌▋▊▉█"
ASCII = str.maketrans(formatting.BLOCKS + EIGHTHS[1:-1], "_.-:=+*#-------")
"""Characters for block characters on a terminal without them."""


def blocks(text: str, console: Console) -> str:
    """Returns block characters, or others if the terminal's encoding has none."""
    try:
        text.encode(console.encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII)
    return text


def bar(value: float, longest: float, width: int) -> str:
    """Returns a bar of up to `width` characters for a value; a value above 0 is always visible."""
    if longest <= 0 or value <= 0:
        return ""
    full, eighths = divmod(max(1, round(8 * width * min(1.0, value / longest))), 8)
    return "█" * full + (EIGHTHS[eighths] if eighths else "")


def print_note(console: Console, note: str) -> None:
    """Prints a line that matters less."""
    console.print(style_text(note, "dim"))
