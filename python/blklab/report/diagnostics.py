"""Diagnostics in the terminal, on pages and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from blklab.diagnostic import SEVERITIES, Diagnostic
from blklab.report.formatting import Sentence
from blklab.text import printable
from blklab.units import format_size

if TYPE_CHECKING:
    from rich.console import Console

STYLES: Final = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan"}

MOST_FILES: Final = 20
"""Pieces of files that are shown under a diagnostic."""

TITLES: Final = {
    "cpus": "CPUs",
    "impossible-rate": "A cache, or no such disk",
    "page-cache": "The page cache answered",
    "small-data": "Data set too small",
}
"""Codes that read badly as a title."""


def show(
    console: "Console", found: Sequence[Diagnostic], title: str, *, most: int | None = None
) -> None:
    """Prints diagnostics under a title, the first `most` of them; nothing if there are none."""
    from rich.table import Table as Grid
    from rich.text import Text

    if not found:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for one in found[:most]:
        where = " ".join(part for part in (printable(one.subject), printable(one.member)) if part)
        line = Text.assemble(
            (f"{where}: " if where else "", "bold"),
            (printable(one.message), "red" if one.severity == "critical" else ""),
            (f" [{one.code}]", "dim"),
            overflow="fold",
        )
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=8, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(one.severity, style=STYLES[one.severity]), line)
        console.print(grid)
        for where in located(one):
            console.print(Text(f"{'':12}{where}", overflow="fold"))
        for remedy in one.remedy:
            # They are to be copied: none of them is broken.
            line = Text(f"{'':12}{printable(remedy)}", style="green")
            console.print(line, soft_wrap=True)
    if most is not None and len(found) > most:
        console.print(Text(f"and {len(found) - most} more", style="dim"))


def located(one: Diagnostic) -> list[str]:
    """Returns what lies on the bad blocks, a line each: files, then the rest together."""
    files = [at for each in one.ranges for at in each.get("files", ())]
    lines = [
        f"{format_size(at['bytes'])} of {printable(at['path'])}"
        + (f", {at['what']}" if at["what"] else "")
        + (f" from byte {at['offset_bytes']:,}" if at["offset_bytes"] is not None else "")
        for at in files[:MOST_FILES]
    ]
    if len(files) > MOST_FILES:
        lines.append(f"and {len(files) - MOST_FILES:,} more pieces of files: --json has them all")
    rest: dict[tuple[str, str], int] = {}
    for each in one.ranges:
        for at in each.get("others", ()):
            key = (at["what"], at["device"])
            rest[key] = rest.get(key, 0) + at["bytes"]
    for (what, device), many in rest.items():
        lines.append(f"{format_size(many)} of {printable(device)}: {what}")
    return lines


def counts(found: Sequence[Diagnostic]) -> dict[str, int]:
    """Returns how many there are of each severity."""
    return {severity: sum(one.severity == severity for one in found) for severity in SEVERITIES}


def title(code: str) -> str:
    """Returns a code as the title of what is told: `two-levels` is `Two levels`."""
    return TITLES.get(code) or code.replace("-", " ").capitalize()


def sentences(found: Sequence[Diagnostic]) -> list[Sentence]:
    """Returns diagnostics for a page or Markdown, which escape them."""
    return [Sentence(title(one.code), printable(str(one))) for one in found]


def as_dict(one: Diagnostic) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, "diagnostic"."""
    return {
        "code": one.code,
        "severity": one.severity,
        "subject": one.subject or None,
        "member": one.member or None,
        "message": one.message,
        "remedy": list(one.remedy),
    }
