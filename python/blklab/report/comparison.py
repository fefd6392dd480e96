"""Tables of a comparison, one for each metric."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from blklab.analysis.metrics import METRICS
from blklab.report import diagnostics, formatting, terminal
from blklab.report.tables.base import TableColumn, TextTable, text
from blklab.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.analysis.comparison import CellValue, Comparison, ComparisonRow
    from blklab.analysis.resampling import Difference

SAID: Final[Mapping[str, str]] = {
    "better": "better",
    "worse": "worse",
    "same": "no difference seen",
    "differ": "these two runs differ",
    "unknown": "not known",
}
"""Verdicts as text."""


def print_comparison(console: "Console", comparison: "Comparison") -> None:
    """Prints a comparison."""
    for table in tables(comparison):
        terminal.draw_table(console, table)
    diagnostics.print_diagnostics(console, comparison.notes, "Notes")


def tables(comparison: "Comparison") -> list[TextTable]:
    """Returns a table for each metric, with one row for each cell and compared side."""
    names = list(dict.fromkeys(row.metric for row in comparison.rows))
    return [
        _table(comparison, name, [row for row in comparison.rows if row.metric == name])
        for name in names
    ]


def _table(comparison: "Comparison", name: str, rows: "Sequence[ComparisonRow]") -> TextTable:
    sides = [printable(side) for side in comparison.sides]
    many = len(sides) > 2
    columns = [text(label) for label in comparison.by]
    columns += [TableColumn(sides[0])]
    columns += [text("against")] if many else []
    columns += [
        TableColumn("" if many else sides[1]),
        TableColumn("change"),
        TableColumn("95 % interval"),
    ]
    columns += [TableColumn("p"), text("")]
    drawn = [
        [
            *(printable(row.labels[label]) for label in comparison.by),
            value(name, row.values[0]),
            *([sides[at]] if many else []),
            value(name, row.values[at]),
            *_difference(row.differences[at - 1]),
            SAID[row.verdicts[at - 1]],
        ]
        for row in rows
        for at in range(1, len(row.values))
    ]
    # The labels and the verdict are hidden last.
    spare = ("p", "95 % interval", sides[0], "" if many else sides[1], "change")
    return TextTable(f"{METRICS[name].what} ({name})", columns, drawn, spare=spare)


def value(metric: str, cell_value: "CellValue | None") -> str:
    """Returns a value with the largest deviation of its runs: `12,345 ±1.7 %`."""
    if cell_value is None:
        return formatting.NONE
    mean = figure(metric, cell_value.mean)
    if cell_value.runs == 1 or not cell_value.mean:
        return mean
    reach = (
        max(cell_value.most - cell_value.mean, cell_value.mean - cell_value.least) / cell_value.mean
    )
    return f"{mean} ±{formatting.share(reach)}"


def figure(metric: str, amount: float) -> str:
    """Returns a value with its unit."""
    match METRICS[metric].kind:
        case "time":
            return formatting.duration(amount)
        case "bandwidth":
            return formatting.rate(amount)
    return f"{amount:,.0f}"


def _difference(difference: "Difference | None") -> list[str]:
    if difference is None:
        return [formatting.NONE] * 3
    return [change(difference.change), interval(difference), probability(difference.p)]


def interval(difference: "Difference") -> str:
    """Returns the confidence interval, or a dash."""
    if difference.low is None or difference.high is None:
        return formatting.NONE
    return f"{change(difference.low)} to {change(difference.high)}"


def change(share: float) -> str:
    """Returns a change in percent with its sign; a factor of 100 or more is shown as a factor."""
    if share >= 100:
        return ">+10,000 %"
    return f"{100 * share:+.1f} %".replace("-", "−")


def probability(p: float | None) -> str:
    """Returns a p value."""
    if p is None:
        return formatting.NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"
