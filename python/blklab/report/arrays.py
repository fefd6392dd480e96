"""Prints md arrays and findings about them, in the terminal and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

from blklab.diagnostic import Diagnostic
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.report import diagnostics
from blklab.report.console import Console
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.text import printable
from blklab.units import format_size

FORMAT_VERSION: Final = 1
LAYOUTS: Final = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric")
"""Of parity levels (mdadm(8), --layout)."""

NO_VALUE: Final = "–"


def show(console: Console, inventory: Inventory, findings: Sequence[Diagnostic]) -> None:
    """Prints arrays, their members, and the findings, the worst first."""
    from rich.text import Text

    if not inventory.arrays:
        console.print(Text("No md array found.", style="bold"))
    draw_table(console, arrays_table(inventory))
    for array in inventory.arrays:
        draw_table(console, members_table(array))
    diagnostics.print_diagnostics(console, findings, "Findings")
    unseen = [*inventory.unseen, *(reason for array in inventory.arrays for reason in array.unseen)]
    if unseen:
        console.print()
        console.print(Text("Not seen", style="bold"))
        for line in unseen:
            console.print(Text(f"• {printable(line)}", overflow="fold"))
    counts = diagnostics.counts(findings)
    numbers = [f"{count} {severity}" for severity, count in counts.items()]
    console.print()
    console.print(Text(" · ".join(numbers), style="dim"))


def arrays_table(inventory: Inventory) -> TextTable:
    """Returns the table of arrays."""
    rows = [
        [
            printable(array.title),
            printable(array.level),
            layout_text(array),
            format_size(array.size) if array.size else NO_VALUE,
            format_size(array.chunk) if array.chunk else NO_VALUE,
            printable(array.metadata),
            {True: "yes", False: "none", None: NO_VALUE}[array.bitmap],
            array_state_text(array),
            f"{array.raid_disks - (array.degraded or 0)}/{array.raid_disks}",
        ]
        for array in inventory.arrays
    ]
    columns = [
        text("array"), text("level"), text("layout"), *figures("size", "chunk"), text("metadata"),
        text("bitmap"), text("state"), *figures("members"),
    ]  # fmt: skip
    return TextTable("Arrays", columns, rows, spare=("chunk", "bitmap", "layout", "metadata"))


def members_table(array: Array) -> TextTable:
    """Returns the table of an array's members."""
    rows = [
        [
            printable(member.name),
            NO_VALUE if member.slot is None else str(member.slot),
            _member_state_text(member),
            member.kind or NO_VALUE,
            format_size(member.size) if member.size else NO_VALUE,
            f"{member.superblock.events:,}" if member.superblock else NO_VALUE,
            _bad_blocks_text(member),
        ]
        for member in array.members
    ]
    columns = [
        text("member"), *figures("slot"), text("state"), text("kind"), *figures("size", "events"),
        text("bad blocks"),
    ]  # fmt: skip
    title = printable(array.title)
    mounts = [printable(mount) for part in array.parts for mount in part.mounts]
    if mounts:
        title += f", mounted on {', '.join(mounts[:3])}"
    return TextTable(title, columns, rows, spare=("kind", "size"))


def layout_text(array: Array) -> str:
    """Returns an array's layout in mdadm's words."""
    if array.level == "raid10":
        near, far, offset = array.layout & 0xFF, array.layout >> 8 & 0xFF, array.layout >> 16 & 1
        if far > 1:
            return f"{'offset' if offset else 'far'}={far}" + (f" near={near}" if near > 1 else "")
        return f"near={near}"
    if array.level in {"raid5", "raid6"} and 0 <= array.layout < len(LAYOUTS):
        return LAYOUTS[array.layout]
    return NO_VALUE


def array_state_text(array: Array) -> str:
    """Returns an array's state in up to three words."""
    words = [printable(array.state) or "?"]
    if array.degraded:
        words.append("degraded")
    if array.sync:
        words.append(array.sync.action)
    return ", ".join(words)


def _member_state_text(member: ArrayMember) -> str:
    if member.states:
        return printable(", ".join(member.states))
    return member.superblock.role if member.superblock else NO_VALUE


def _bad_blocks_text(member: ArrayMember) -> str:
    count = member.entries
    if count:
        return f"{count} {'entry' if count == 1 else 'entries'}"
    if member.superblock is None:
        return "not seen" if member.listed is None else "none in sysfs"
    return "empty" if member.bad_blocks else "no list"


def as_dict(inventory: Inventory, findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit`."""
    software = inventory.software
    return {
        "format_version": FORMAT_VERSION,
        "software": None
        if software is None
        else {
            "kernel": software.kernel and ".".join(map(str, software.kernel)),
            "mdadm": software.mdadm and ".".join(map(str, software.mdadm)),
            "create_bbl_no": software.lists_off,
            "config": software.config or None,
            "checked_by": software.checked_by or None,
        },
        "arrays": [array.as_dict() for array in inventory.arrays],
        "strays": [stray.as_dict() for stray in inventory.strays],
        "disks": None if inventory.disks is None else [disk.as_dict() for disk in inventory.disks],
        "lvm_raids": list(inventory.volumes),
        "findings": [_finding_as_dict(finding) for finding in findings],
        "counts": diagnostics.counts(findings),
        "unseen": [*inventory.unseen, *(reason for array in inventory.arrays for reason in array.unseen)],
    }


def _finding_as_dict(finding: Diagnostic) -> dict[str, Any]:
    """Returns a finding as JSON, also with the older names of three fields."""
    document = diagnostics.as_dict(finding)
    older_names = {"rule": document["code"], "array": document["subject"], "commands": document["remedy"]}
    return {**document, **older_names, "ranges": list(finding.ranges)}
