"""Diagnostics in the terminal, on pages and as JSON."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.diagnostic import SEVERITIES, Diagnostic
from blklab.render.console import Console, Text, assemble_text, style_text
from blklab.render.formatting import Sentence
from blklab.text.printing import printable
from blklab.units import format_size

STYLES = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan"}
INDENT = 10  # Characters before a diagnostic's message
MOST_FILES = 20  # File extents that are shown under a diagnostic
LEAST_ALIKE = 3  # Diagnostics that are printed once if only names differ
MOST_ALIKE = 20  # Their subjects that are named

TITLES = {  # Titles of diagnostics whose codes are not clear
    "cpus": "CPUs",
    "impossible-rate": "A cache, or no such disk",
    "page-cache": "The page cache answered",
    "small-data": "Data set too small",
    "unwritten": "No flash was read",
}


def print_diagnostics(
    console: Console,
    found_diagnostics: Sequence[Diagnostic],
    title: str,
    *,
    limit: int | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Prints diagnostics under a title, the first `limit` of them; nothing if there are none.

    With `names`, those of each subject, diagnostics that differ only in them are printed once.
    """
    if not found_diagnostics:
        return
    console.print()
    console.print(style_text(title, "bold"))
    groups = _group_alike(found_diagnostics, names) if names is not None else [[item] for item in found_diagnostics]
    for diagnostic, *similar in groups[:limit]:
        subject = _subject(diagnostic)
        line = assemble_text(
            (f"{subject}: " if subject else "", "bold"),
            (printable(diagnostic.message), "red" if diagnostic.severity == "critical" else ""),
            (f" [{diagnostic.code}]", "dim"),
        )
        _print_hanging(console, style_text(diagnostic.severity, style=STYLES[diagnostic.severity]), line)
        if similar:
            _print_hanging(console, style_text(""), style_text(_others_text(diagnostic, similar)))
        for content in list_contents(diagnostic):
            console.print(style_text(f"{'':12}{content}"))
        for moment in diagnostic.timeline:
            console.print(style_text(f"{'':12}{printable(moment)}"))
        for remedy in diagnostic.remedy:
            console.print(style_text(f"{'':12}{printable(remedy)}", "green"))
    if limit is not None and len(groups) > limit:
        console.print(style_text(f"and {len(groups) - limit} more", "dim"))


def _print_hanging(console: Console, head: Text, text: Text) -> None:
    """Prints text next to its head; on a terminal, in lines that end between words. Commands are not wrapped."""
    keeps_line = not console.is_terminal or re.search(r"\b(blklab [a-z]|mdadm --)", text.plain)
    width = len(text.plain) if keeps_line else max(console.width - INDENT, 20)
    end = 0
    for line in textwrap.wrap(text.plain, width, break_long_words=False, break_on_hyphens=False):
        start = text.plain.index(line, end)
        end = start + len(line)
        console.print(assemble_text(head, " " * (INDENT - len(head)), text[start:end]))
        head = style_text("")


def _subject(diagnostic: Diagnostic) -> str:
    return printable(" ".join(filter(None, (diagnostic.subject, diagnostic.member))))


def _group_alike(found_diagnostics: Sequence[Diagnostic], names: Mapping[str, Sequence[str]]) -> list[list[Diagnostic]]:
    """Returns groups of diagnostics that differ in names only, in their order; small groups are split."""
    groups: dict[tuple[object, ...], list[Diagnostic]] = {}
    for diagnostic in found_diagnostics:
        device_names = filter(None, {diagnostic.member, *names.get(diagnostic.subject, ())})
        pattern = "|".join(map(re.escape, sorted(device_names, key=len, reverse=True)))
        texts = (diagnostic.message, *diagnostic.remedy)
        plain = [re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "·", phrase) if pattern else phrase for phrase in texts]
        key = (diagnostic.code, diagnostic.severity, *plain, *list_contents(diagnostic), *diagnostic.timeline)
        groups.setdefault(key, []).append(diagnostic)
    parts = []
    for group in groups.values():
        if len(group) >= LEAST_ALIKE:
            parts.append(group)
        else:
            parts += [[diagnostic] for diagnostic in group]
    return parts


def _others_text(diagnostic: Diagnostic, similar: Sequence[Diagnostic]) -> str:
    """Returns where else there is the same, and whose commands follow."""
    subjects = ", ".join(_subject(other) for other in similar[:MOST_ALIKE])
    if len(similar) > MOST_ALIKE:
        subjects += f" and {len(similar) - MOST_ALIKE} more (--json lists all)"
    commands = f"; the commands below are for {_subject(diagnostic)}" if diagnostic.remedy else ""
    return f"The same {len(similar)} times more: {subjects}{commands}"


def list_contents(diagnostic: Diagnostic) -> list[str]:
    """Returns the contents of bad blocks, one line each: files first."""
    files = [extent for bad_range in diagnostic.ranges for extent in bad_range.get("files", ())]
    lines = []
    for extent in files[:MOST_FILES]:
        line = f"{format_size(extent['bytes'])} of {printable(extent['path'])}"
        if extent["what"]:
            line += f", {extent['what']}"
        if extent["offset_bytes"] is not None:
            line += f" from byte {extent['offset_bytes']:,}"
        lines.append(line)
    if len(files) > MOST_FILES:
        lines.append(f"and {len(files) - MOST_FILES:,} more file extents: --json lists all")
    bytes_by_content: dict[tuple[str, str], int] = {}
    for bad_range in diagnostic.ranges:
        for content in bad_range.get("others", ()):
            key = (content["what"], content["device"])
            bytes_by_content[key] = bytes_by_content.get(key, 0) + content["bytes"]
    for (kind, device), size in bytes_by_content.items():
        lines.append(f"{format_size(size)} of {printable(device)}: {kind}")
    return lines


def counts(found_diagnostics: Sequence[Diagnostic]) -> dict[str, int]:
    """Returns the number of diagnostics of each severity."""
    severities = [diagnostic.severity for diagnostic in found_diagnostics]
    return {severity: severities.count(severity) for severity in SEVERITIES}


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
