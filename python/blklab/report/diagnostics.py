"""Diagnostics in the terminal, on pages and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from blklab.diagnostic import SEVERITIES, Diagnostic
from blklab.report.console import Console
from blklab.report.formatting import Sentence
from blklab.text import printable
from blklab.units import format_size

STYLES: Final = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan"}
MOST_FILES: Final = 20  # File extents that are shown under a diagnostic
TITLES: Final = {  # Titles of codes whose own words are not clear
    "cpus": "CPUs",
    "impossible-rate": "A cache, or no such disk",
    "page-cache": "The page cache answered",
    "small-data": "Data set too small",
}


def print_diagnostics(
    console: Console, found_diagnostics: Sequence[Diagnostic], title: str, *, most: int | None = None
) -> None:
    """Prints diagnostics under a title, the first `most` of them; nothing if there are none."""
    from rich.table import Table as Grid
    from rich.text import Text

    if not found_diagnostics:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for diagnostic in found_diagnostics[:most]:
        where = " ".join(part for part in (printable(diagnostic.subject), printable(diagnostic.member)) if part)
        line = Text.assemble(
            (f"{where}: " if where else "", "bold"),
            (printable(diagnostic.message), "red" if diagnostic.severity == "critical" else ""),
            (f" [{diagnostic.code}]", "dim"),
            overflow="fold",
        )
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=8, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(diagnostic.severity, style=STYLES[diagnostic.severity]), line)
        console.print(grid)
        for where in located(diagnostic):
            console.print(Text(f"{'':12}{where}", overflow="fold"))
        for remedy in diagnostic.remedy:
            # Users copy commands, so they are not wrapped.
            line = Text(f"{'':12}{printable(remedy)}", style="green")
            console.print(line, soft_wrap=True)
    if most is not None and len(found_diagnostics) > most:
        console.print(Text(f"and {len(found_diagnostics) - most} more", style="dim"))


def located(diagnostic: Diagnostic) -> list[str]:
    """Returns the contents of bad blocks, one line each: files first."""
    files = [at for each in diagnostic.ranges for at in each.get("files", ())]
    lines = [
        f"{format_size(at['bytes'])} of {printable(at['path'])}"
        + (f", {at['what']}" if at["what"] else "")
        + (f" from byte {at['offset_bytes']:,}" if at["offset_bytes"] is not None else "")
        for at in files[:MOST_FILES]
    ]
    if len(files) > MOST_FILES:
        lines.append(f"and {len(files) - MOST_FILES:,} more file extents: --json lists all")
    rest: dict[tuple[str, str], int] = {}
    for each in diagnostic.ranges:
        for at in each.get("others", ()):
            key = (at["what"], at["device"])
            rest[key] = rest.get(key, 0) + at["bytes"]
    for (what, device), many in rest.items():
        lines.append(f"{format_size(many)} of {printable(device)}: {what}")
    return lines


def counts(found_diagnostics: Sequence[Diagnostic]) -> dict[str, int]:
    """Returns the number of diagnostics of each severity."""
    return {
        severity: sum(diagnostic.severity == severity for diagnostic in found_diagnostics) for severity in SEVERITIES
    }


def title(code: str) -> str:
    """Returns a code as a title: `two-levels` is `Two levels`."""
    return TITLES.get(code) or code.replace("-", " ").capitalize()


def sentences(found_diagnostics: Sequence[Diagnostic]) -> list[Sentence]:
    """Returns diagnostics as sentences for a page or Markdown, which escape them."""
    return [Sentence(title(diagnostic.code), printable(str(diagnostic))) for diagnostic in found_diagnostics]


def as_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, "diagnostic"."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "subject": diagnostic.subject or None,
        "member": diagnostic.member or None,
        "message": diagnostic.message,
        "remedy": list(diagnostic.remedy),
    }
