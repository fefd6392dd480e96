"""How long and how often to measure, in the terminal and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from blklab.analysis.decision import MOST_REPEATS
from blklab.analysis.run_planning import RunPlan
from blklab.report import formatting
from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable
from blklab.units import format_duration


def table(plans: Sequence[RunPlan], metric: str, change: float) -> TextTable:
    """Returns what each cell needs."""
    names = [label for label in plans[0].labels if len({plan.labels.get(label) for plan in plans}) > 1]
    rows = [
        [
            printable(" ".join(plan.labels.get(name, "") for name in names)) or "all",
            str(plan.runs),
            format_duration(plan.seconds * 1e9),
            formatting.share(plan.variation),
            _count(plan.repeats),
            formatting.NONE if plan.best is None else f"{plan.best[0]} of {format_duration(plan.best[1] * 1e9)}",
        ]
        for plan in plans
    ]
    columns = [text("cell"), *figures("runs", "length", "variation", "needed", "shortest")]
    title = f"Runs that find a change of {metric} by {formatting.share(change)}"
    note = (
        "variation: standard deviation between runs; needed: runs of this length on each side, found in 80 % of cases;"
        " shortest: runs and their length with the least time"
    )
    return TextTable(title, columns, rows, note)


def _count(repeats: int | None) -> str:
    if repeats is None:
        return formatting.NONE
    return f"over {MOST_REPEATS}" if repeats > MOST_REPEATS else str(repeats)


def as_dict(plans: Sequence[RunPlan]) -> list[dict[str, object]]:
    """Returns the JSON document: docs/reference/formats.md, "advice"."""
    return [asdict(plan) for plan in plans]
