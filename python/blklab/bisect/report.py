"""The result of a bisection."""

from collections.abc import Sequence

from blklab.bisect.findings import Bisection, CommitVerdict
from blklab.compare.figure_text import figure
from blklab.compare.metrics import METRICS
from blklab.render import formatting, terminal
from blklab.render.console import Console
from blklab.render.formatting import Sentence
from blklab.render.shell import Item, PageSection, PlainText, SentenceList
from blklab.render.table import TableColumn, TextTable, only, text_column
from blklab.text.printing import printable


def print_bisection(console: Console, bisection: Bisection) -> None:
    """Prints the figures of every commit, the culprit with its message, and the check."""
    terminal.draw_table(console, *tables(bisection))
    console.print()
    console.print(printable(bisection.summary), markup=False, highlight=False)
    for line in details(bisection):
        console.print(line, markup=False, highlight=False)


def section(bisections: Sequence[Bisection]) -> PageSection:
    """Returns the section of a page about the bisections among its campaigns."""
    items: list[Item] = []
    for bisection in bisections:
        items += [SentenceList([Sentence("Result", printable(bisection.summary))]), *tables(bisection)]
        items.append(PlainText("The commit" if bisection.culprit else "Notes", "\n".join(details(bisection)).strip()))
    return PageSection("bisection", "Bisection", "Bisection", items)


def tables(bisection: Bisection) -> list[TextTable]:
    """Returns the figures of every commit, and those of the check."""
    return [
        _table(f"Verdicts: {bisection.condition}", bisection.kind, bisection.verdicts),
        _table("Both sides again", bisection.kind, bisection.check),
    ]


def details(bisection: Bisection) -> list[str]:
    """Returns the message of the culprit, or the commits that remain, and the notes."""
    lines = [f"note: {printable(note)}" for note in bisection.notes]
    if bisection.culprit is not None:
        return [*lines, "", *(f"    {printable(line)}".rstrip() for line in bisection.culprit.message.splitlines())]
    return [*lines, *(f"    {commit.short} {printable(commit.subject)}" for commit in bisection.candidates)]


def _table(title: str, kind: str, verdicts: Sequence[CommitVerdict]) -> TextTable:
    all_figures = [commit_figure for verdict in verdicts for commit_figure in verdict.figures]
    cells = {commit_figure.cell for commit_figure in all_figures}
    metrics = {commit_figure.metric for commit_figure in all_figures}
    rows = []
    for verdict in verdicts:
        commit_cells = [printable(verdict.commit.short), verdict.verdict]
        reason = printable(verdict.reason or verdict.commit.subject)
        for commit_figure in verdict.figures:
            names = []
            if len(cells) > 1:
                names.append(commit_figure.cell)
            if len(metrics) > 1:
                names.append(commit_figure.metric)
                value = METRICS[commit_figure.metric].with_unit(commit_figure.value)
            else:
                value = figure(commit_figure.metric, commit_figure.value)
            figure_cells = [
                " ".join(names),
                value,
                formatting.number(commit_figure.of_baseline),
                str(commit_figure.runs),
            ]
            rows.append([*commit_cells, *figure_cells, reason])
            commit_cells = ["", ""]
            reason = ""
        if not verdict.figures:
            rows.append([*commit_cells, "", "", "", "", reason])
    heading = METRICS[next(iter(metrics))].description if len(metrics) == 1 else "value"
    columns = [
        text_column(kind),
        text_column("verdict"),
        text_column("cell"),
        TableColumn(heading),
        TableColumn("of the good end"),
    ]
    columns += [TableColumn("runs"), text_column("")]
    table = TextTable(title, columns, rows)
    may_be_empty = {2, 4}  # The cell, and its share of the good end
    shown = []
    for number in range(len(columns)):
        if number not in may_be_empty or any(row[number].strip(formatting.NONE) for row in rows):
            shown.append(number)
    return only(table, shown)
