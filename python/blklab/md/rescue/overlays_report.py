"""Prints what was seen on overlays, in the terminal and as JSON."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from blklab.md import command_lines
from blklab.md.rescue.geometry_trial import FOUND
from blklab.md.rescue.overlay_record import OverlayRecord, Verdict
from blklab.render.console import Console, style_text
from blklab.text.printing import printable

HEADLINES: dict[Verdict, str] = {
    "failed": "The array does not run on the overlays. Do not force it on the disks.",
    "damaged": "The array runs on the overlays, but what is on it is damaged.",
    "unchecked": "The array runs on the overlays. blklab cannot check what is on it.",
    "good": "The array runs on the overlays, and nothing is wrong with what was checked.",
}


def show(console: Console, record: OverlayRecord, usage: Mapping[str, str], directory: Path) -> None:
    """Prints the result, what was seen, and what to do next. `usage` says how full each overlay is."""
    trial = record.trial
    if trial is None:
        console.print(style_text(printable(f"{record.array_name}: the overlays were not finished"), "bold"))
    else:
        console.print(style_text(printable(f"{record.array_name}: {HEADLINES[trial.verdict]}"), "bold"))
        for line in trial.lines:
            console.print(style_text(f"• {printable(line)}"))
    for name, usage_text in usage.items():
        console.print(style_text(f"• {printable(name)}: {printable(usage_text)}"))
    if record.stopped:
        console.print(style_text("• The overlays are gone."))
    console.print()
    console.print(style_text("What to do", "bold"))
    for line in describe_next(record, directory):
        is_command = not line.startswith("#")
        shown = printable(line.removeprefix("# "))
        console.print(style_text(f"    {shown}" if is_command else f"• {shown}", "green" if is_command else ""))


def describe_next(record: OverlayRecord, directory: Path) -> list[str]:
    """Returns what to do after the trial; lines that begin with # are not commands."""
    lines = []
    verdict = record.trial.verdict if record.trial else "failed"
    if not record.stopped:
        if verdict != "failed":
            lines.append("# Look at your files. Copy what you cannot lose from here first: this is the safest moment.")
        lines.append("# When you have seen enough, remove the overlays:")
        lines.append(command_lines.stop_overlays(str(directory)))
    if verdict == "failed":
        lines.append("# Ask on the linux-raid list, with the output of `blklab md rescue`.")
        return lines
    if not record.array_uuid and verdict == "damaged":
        lines.append("# No geometry that was tried gives a sound filesystem: do not put one of them on the disks.")
        lines.append("# Ask on the linux-raid list, with this output.")
        return lines
    if not record.array_uuid:  # Of a search for an old array
        lines.append("# The safest way: copy all your files from there to other disks, and make a new array.")
        command = command_lines.fix_metadata(str(directory / FOUND))
        lines.append(
            f"# Or put the superblocks of this geometry on the disks: `{command}`. "
            f"Then `blklab md rescue` again, which asks for another trial before it starts the array."
        )
        return lines
    lines.append("# If the files are right, start the array on its disks:")
    # The name holds a directory, so this is no line of command_lines: it is printed only for people.
    option = "" if verdict == "good" else " --files-are-right"
    lines.append(
        f"# `{command_lines.fix_assemble(record.array_uuid)} --overlays {shlex.quote(str(directory))}{option}`"
    )
    return lines


def as_dict(record: OverlayRecord, usage: Mapping[str, str]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md overlays`."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    return {**document, "usage": dict(usage)}
