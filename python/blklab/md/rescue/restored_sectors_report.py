"""Prints what of a file with sectors is written to an array, in the terminal and as JSON."""

from typing import Any

from blklab.md.rescue.restored_sectors import SectorsPlan
from blklab.render import diagnostics
from blklab.render.console import Console, style_text
from blklab.text.printing import printable

FORMAT_VERSION = 1


def show(console: Console, plan: SectorsPlan) -> None:
    """Prints the steps, or why there are none."""
    name = printable(plan.array.path)
    if plan.nothing_to_do:
        console.print(style_text(f"{name}: md can read all sectors of the file: nothing to do"))
    for number, step in enumerate(() if plan.refused or plan.nothing_to_do else plan.steps, 1):
        console.print(style_text(printable(f"{number:4}  {step}")))
    diagnostics.print_diagnostics(console, plan.refused, f"{name}: not written, because")


def as_dict(plan: SectorsPlan, outcome: str | None = None) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md fix`."""
    return {
        "format_version": FORMAT_VERSION,
        **plan.as_dict(),
        "diagnostics": [diagnostics.as_dict(reason) for reason in plan.refused],
        "outcome": outcome,
    }
