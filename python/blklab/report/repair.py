"""Plans of repairs, and how they go, in the terminal and as JSON."""

from typing import TYPE_CHECKING, Any

from blklab.md.model import PARITIES
from blklab.md.repair import steps
from blklab.md.repair.plan import RepairPlan
from blklab.report import diagnostics
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.text import printable
from blklab.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

FORMAT_VERSION = 1


def sentence(step: steps.Step) -> str:
    """Returns what a step is for, in a few words."""
    match step:
        case steps.RemoveSpare(_, path):
            words = f"set the spare {path} aside, lest md take it"
        case steps.AddBitmap():
            words = "add a bitmap, for re-adding"
        case steps.FailMember(_, path):
            words = f"fail {path}"
        case steps.RemoveMember(_, path):
            words = f"take {path} out"
        case steps.ReAddMember(_, path, without_list):
            words = f"re-add {path} " + ("without its list" if without_list else "as it was")
        case steps.WaitForSync(path):
            words = f"wait for {path} to be in sync" if path else "wait for md"
        case steps.AddSpare(_, path):
            words = f"add the spare {path} again, without a list"
        case steps.RemoveBitmap():
            words = "remove the bitmap, which was not there"
        case steps.Stop(reason):
            words = reason
        case _:
            words = "done"
    return printable(words)


def show(console: "Console", plan: RepairPlan, recipes: list[str]) -> None:
    """Prints a plan: its steps, or why there are none."""
    from rich.text import Text

    name = printable(plan.array.path)
    if plan.nothing_to_do:
        console.print(Text(f"{name}: no member has a bad-block list: there is nothing to be done"))
    if plan.steps:
        _steps(console, plan)
    diagnostics.print_diagnostics(console, plan.refused, f"{name}: not touched")
    for words in recipes:
        console.print()
        recipe(console, words)


def recipe(console: "Console", words: str) -> None:
    """Prints a recipe: its lines are to be copied, so none of them is broken."""
    from rich.text import Text

    for line in words.splitlines():
        style = "" if line.startswith("#") else "green"
        console.print(Text(printable(line), style=style), soft_wrap=True)


def _steps(console: "Console", plan: RepairPlan) -> None:
    from rich.text import Text

    rows = [
        [
            str(number),
            sentence(planned.step),
            f"{planned.in_sync}/{plan.array.raid_disks}",
            str(planned.outlives),
        ]
        for number, planned in enumerate(plan.steps, 1)
    ]
    columns = [*figures("step"), text("what"), *figures("in sync", "outlives")]
    draw_table(console, TextTable(f"Plan for {printable(plan.array.path)}", columns, rows))
    console.print()
    console.print(Text("Commands", style="bold"))
    for number, planned in enumerate(plan.steps, 1):
        if planned.command:
            console.print(
                Text(f"{number:4}  {printable(planned.command)}", style="green"), soft_wrap=True
            )
    console.print()
    for line in _redundancy(plan):
        console.print(Text(f"• {line}", overflow="fold"))
    diagnostics.print_diagnostics(console, plan.warnings, "Beware")


def _redundancy(plan: RepairPlan) -> list[str]:
    """What the table does not say: risks and times."""
    least = min(planned.outlives for planned in plan.steps)
    lines = [
        "After each step the array is looked at, and only that is believed.",
        "While a member is out, the array outlives "
        + ("no failure more." if least == 0 else f"{least} failures more.")
        + " mdadm --monitor will mail of each member that is failed.",
        "Members get what is written meanwhile: seconds, where little is"
        + (
            f"; one that must be written as a whole takes {format_duration(whole * 1e9)} at least."
            if (whole := plan.whole_seconds)
            else "."
        ),
    ]
    if plan.task.level in PARITIES:
        lines.append(
            "Writes wait while a member is out, seconds a member, and reads go on: a power failure"
            " then leaves an array that starts."
        )
    return lines


def as_dict(plan: RepairPlan, outcome: steps.Step | None = None) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md fix`."""
    return {
        "format_version": FORMAT_VERSION,
        **plan.as_dict(),
        "diagnostics": [diagnostics.as_dict(reason) for reason in (*plan.refused, *plan.warnings)],
        "outcome": None if outcome is None else sentence(outcome),
    }
