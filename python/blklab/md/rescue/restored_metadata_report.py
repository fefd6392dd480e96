"""Prints what saved metadata would change, in the terminal and as JSON."""

from pathlib import Path
from typing import Any

from blklab.md.rescue.restored_metadata import DeviceRestore, MetadataPlan
from blklab.render.console import Console, style_text
from blklab.text.printing import printable
from blklab.units import format_size

FORMAT_VERSION = 1


def show(console: Console, plan: MetadataPlan) -> None:
    """Prints a line for each device, and what stays as it is."""
    for device in plan.devices:
        console.print(style_text(printable(f"{device.path}: {describe(device)}"), "red" if device.refused else ""))
        for line in device.notes:
            console.print(style_text(printable(f"• {device.path}: {line}")))
    if plan.refused:
        hint = "; to restore only others, name them with --member" if len(plan.devices) > 1 else ""
        console.print(style_text(f"nothing was written{hint}"))
    elif plan.nothing_to_do:
        console.print(style_text("all of it is on the devices: nothing to do"))


def describe(device: DeviceRestore) -> str:
    """Returns what is done to a device, or why nothing."""
    if device.refused:
        return f"not restored: {device.refused}"
    if not device.differing:
        return f"{device.what}: nothing differs"
    total = sum(len(part.content) for part in device.parts)
    return f"{device.what}: {format_size(device.differing)} of {format_size(total)} differ: they must be written"


def as_dict(plan: MetadataPlan, before: Path | None = None) -> dict[str, Any]:
    """Returns the JSON document; `before` has what was there before, if something was written."""
    outcome = None
    if before is not None:
        outcome = "done"
    elif plan.nothing_to_do:
        outcome = "nothing-to-do"
    return {
        "format_version": FORMAT_VERSION,
        **plan.as_dict(),
        "outcome": outcome,
        "before": None if before is None else str(before),
    }
