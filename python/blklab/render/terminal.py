"""Print sentences and tables in the terminal."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Literal

from blklab.render import formatting
from blklab.render.console import Console, Text, assemble_text, style_text
from blklab.render.formatting import Sentence
from blklab.render.table import TableColumn, TextTable, only

BAR_WIDTH = 12  # Characters of a bar; half of it in narrow terminals
GAP = 2  # Spaces between columns
MOST_STYLED = 500  # Rows of a table with styles
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


_COLLECTED: ContextVar[list[TextTable] | None] = ContextVar("collected", default=None)


@contextmanager
def collect_tables() -> Iterator[list[TextTable]]:
    """Collects the tables that are drawn during the block, instead of printing them."""
    tables: list[TextTable] = []
    token = _COLLECTED.set(tables)
    try:
        yield tables
    finally:
        _COLLECTED.reset(token)


def is_collecting() -> bool:
    """Whether tables are collected at the moment."""
    return _COLLECTED.get() is not None


def draw_table(console: Console, *tables: TextTable) -> None:
    """Prints tables under their titles, without columns that do not fit; nothing of empty ones."""
    collected = _COLLECTED.get()
    for table in filter(None, tables):
        if collected is None:
            _draw(console, table)
        else:
            collected.append(table)


THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def as_csv(tables: Sequence[TextTable]) -> str:
    """Returns tables as CSV (RFC 4180), each with its headings.

    Several tables are separated by an empty line, and have their titles in a line that begins with `#`. Cells are as
    they are printed, but numbers have no separators of thousands, and what is unknown is empty.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for number, table in enumerate(tables):
        if number:
            buffer.write("\n")
        if len(tables) > 1:
            buffer.write(f"# {table.title}\n")
        writer.writerow([column.heading for column in table.columns])
        for row in table.rows:
            writer.writerow([_csv_cell(cell) for cell in row])
    return buffer.getvalue()


def _csv_cell(cell: str) -> str:
    text = str(cell).replace("−", "-").lstrip(" └")  # Without the lines of a tree
    if text == formatting.NONE:
        return ""
    return text.replace(",", "") if THOUSANDS.fullmatch(text) else text


def _draw(console: Console, table: TextTable) -> None:
    limit = table_width(console)
    is_long = len(table.rows) > MOST_STYLED
    shown = table
    hidden_headings: list[str] = []
    if not is_long or limit < UNLIMITED:  # Thousands of rows take seconds to measure
        shown, hidden_headings = fit_table(table, limit)
    console.print()
    console.print(style_text(table.title, "bold"))
    needed_width = 0 if is_long else measure_words(shown, limit)
    if is_long:
        _print_lines(console, shown)
    elif needed_width > limit and not _path_columns(shown):
        _print_records(console, shown)
    else:
        _print_grid(console, shown, limit, needed_width)
    if shown.note:
        print_note(console, shown.note)
    if hidden_headings:
        print_note(console, f"Columns hidden (terminal too narrow): {', '.join(hidden_headings)}")


UNLIMITED = 100_000  # Columns


def table_width(console: Console) -> int:
    """Returns how wide a table may be: as wide as it needs to be if lines have no limit, as in a pipe."""
    return UNLIMITED if console.soft_wrap else console.width


def _print_grid(console: Console, table: TextTable, limit: int, needed_width: int) -> None:
    from rich.table import Table as Grid

    # A path with a line break cannot be copied: the table is wider than the terminal if its paths need that
    width = needed_width if needed_width > limit else None
    full_columns = _full_columns(table)
    if needed_width <= limit:
        full_columns |= _unbroken_columns(table)
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim", width=width)
    for index, column in enumerate(table.columns):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        grid.add_column(style_text(column.heading), justify=justify, no_wrap=index in full_columns, overflow="fold")
    for index, row in enumerate(table.rows):
        cells = [_cell(column, cell, console) for column, cell in zip(table.columns, row, strict=True)]
        grid.add_row(*cells, style="bold" if index in table.strong else None)
    width_before = console.width
    console.width = max(limit, width_before)
    console.print(grid, crop=False)
    console.width = width_before


def _print_lines(console: Console, table: TextTable) -> None:
    """Prints a line for each row, without styles and line breaks: for thousands of rows, rich takes minutes."""
    has_bars = any(column.bar for column in table.columns)
    rows = [[column.heading for column in table.columns]]
    for row in table.rows:
        text = "".join(row)
        if has_bars or text.translate(ASCII) != text:
            rows.append([_cell(column, cell, console).plain for column, cell in zip(table.columns, row, strict=True)])
        else:
            rows.append(list(row))
    widths = [max(map(_text_width, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        parts = []
        for column, width, cell in zip(table.columns, widths, cells, strict=True):
            space = " " * (width - _text_width(cell))
            parts.append(space + cell if column.numeric else cell + space)
        lines.append((" " * GAP).join(parts).rstrip())
    console.print(style_text("\n".join(lines)), soft_wrap=True)


def _text_width(text: str) -> int:
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def _print_records(console: Console, table: TextTable) -> None:
    """Prints a line for each cell, where the terminal is too narrow for the words of the table."""
    for number, row in enumerate(table.rows):
        if number:
            console.print()
        for column, cell in zip(table.columns, row, strict=True):
            text = _cell(column, cell, console)
            label = f"{column.heading}: " if column.heading else ""
            console.print(assemble_text((label, "dim"), text), soft_wrap=False)


LEAST_WIDTH = 60  # Columns of a terminal that has room for these columns of a table:
KEPT = frozenset({"p99", "change", "±", "±IOPS"})


def fit_table(table: TextTable, width: int) -> tuple[TextTable, list[str]]:
    """Returns the table without the hidden columns, and their headings.

    Columns are hidden so that each cell has one line; those of `KEPT` only so that no word is cut.
    """
    hidden_headings: list[str] = []
    for heading in table.spare:
        if heading in KEPT and width >= LEAST_WIDTH:
            continue
        if _measure_cells(table, width) <= width:
            break
        table, was_shown = _hide_column(table, heading)
        if was_shown and heading:
            hidden_headings.append(heading)
    for heading in table.spare:
        if heading in KEPT and measure_words(table, width) > width:
            table, was_shown = _hide_column(table, heading)
            if was_shown:
                hidden_headings.append(heading)
    return table, hidden_headings


def _hide_column(table: TextTable, heading: str) -> tuple[TextTable, bool]:
    """Returns the table without the columns of a heading and what explains them, and whether it had any."""
    # The first column identifies a row.
    names = [column.heading if index or column.numeric else None for index, column in enumerate(table.columns)]
    was_shown = heading in names
    if was_shown:
        table = only(table, [index for index, name in enumerate(names) if name != heading])
        note = table.note.replace(table.explanations.get(heading, "\0"), "")
        if heading:
            note = re.sub(rf"(^| ){re.escape(heading)}: [^.;]*([.;]|$)", "", note)
        table = replace(table, note=note.strip())
    return table, was_shown


def _measure_cells(table: TextTable, width: int) -> int:
    """Returns the width of the table if each cell has one line; `width` is that of the terminal."""
    from rich.cells import cell_len

    widths = []
    for number, column in enumerate(table.columns):
        cells = [column.heading, *(row[number] for row in table.rows)]
        widths.append(_bar_width(width) if column.bar else max(map(cell_len, cells)))
    return sum(widths) + GAP * (len(widths) - 1)


def measure_words(table: TextTable, width: int) -> int:
    """Returns the width of the table if text is broken between words; figures and paths are not broken."""
    from rich.cells import cell_len

    full_columns = _full_columns(table)
    widths = []
    for number, column in enumerate(table.columns):
        unbroken = [column.heading, *(row[number] for row in table.rows)]
        if number not in full_columns:
            unbroken = " ".join(unbroken).split()
        widths.append(_bar_width(width) if column.bar else max(map(cell_len, unbroken), default=0))
    return sum(widths) + GAP * (len(widths) - 1)


def _full_columns(table: TextTable) -> set[int]:
    """Returns the columns that are not broken: figures, bars and paths."""
    numbers = {number for number, column in enumerate(table.columns) if column.numeric or column.bar}
    return numbers | _path_columns(table)


def _path_columns(table: TextTable) -> set[int]:
    columns = set()
    for number in range(len(table.columns)):
        if any(row[number].startswith("/") for row in table.rows):
            columns.add(number)
    return columns


def _unbroken_columns(table: TextTable) -> set[int]:
    """Returns the columns of single words."""
    columns = set()
    for number in range(len(table.columns)):
        if not any(" " in row[number] for row in table.rows):
            columns.add(number)
    return columns


def _bar_width(width: int) -> int:
    return BAR_WIDTH if width >= NARROW else BAR_WIDTH // 2


def _cell(column: TableColumn, cell: str, console: Console) -> Text:
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
