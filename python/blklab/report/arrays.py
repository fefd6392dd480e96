"""md arrays and what is wrong with them, in the terminal and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from blklab.diagnostic import Diagnostic
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.report import diagnostics
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.text import printable
from blklab.units import format_size

if TYPE_CHECKING:
    from rich.console import Console

FORMAT_VERSION: Final = 1

LAYOUTS: Final = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric")
"""Of parity levels (mdadm(8), --layout)."""

NOTHING: Final = "–"


def show(console: "Console", inventory: Inventory, findings: Sequence[Diagnostic]) -> None:
    """Prints arrays, their members, and findings, the worst first."""
    from rich.text import Text

    if not inventory.arrays:
        console.print(Text("No md array was found.", style="bold"))
    draw_table(console, overview(inventory))
    for array in inventory.arrays:
        draw_table(console, members(array))
    diagnostics.print_diagnostics(console, findings, "Findings")
    unseen = [*inventory.unseen, *(reason for array in inventory.arrays for reason in array.unseen)]
    if unseen:
        console.print()
        console.print(Text("Not seen", style="bold"))
        for line in unseen:
            console.print(Text(f"• {printable(line)}", overflow="fold"))
    numbers = [f"{many} {severity}" for severity, many in diagnostics.counts(findings).items()]
    console.print()
    console.print(Text(" · ".join(numbers), style="dim"))


def overview(inventory: Inventory) -> TextTable:
    """Returns the table of arrays."""
    rows = [
        [
            printable(array.name),
            printable(array.level),
            layout(array),
            format_size(array.size) if array.size else NOTHING,
            format_size(array.chunk) if array.chunk else NOTHING,
            printable(array.metadata),
            {True: "yes", False: "none", None: NOTHING}[array.bitmap],
            state(array),
            f"{array.raid_disks - (array.degraded or 0)}/{array.raid_disks}",
        ]
        for array in inventory.arrays
    ]
    columns = [
        text("array"), text("level"), text("layout"), *figures("size", "chunk"), text("metadata"),
        text("bitmap"), text("state"), *figures("members"),
    ]  # fmt: skip
    return TextTable("Arrays", columns, rows, spare=("chunk", "bitmap", "layout", "metadata"))


def members(array: Array) -> TextTable:
    """Returns the table of an array's members."""
    rows = [
        [
            printable(member.name),
            NOTHING if member.slot is None else str(member.slot),
            _state_of(member),
            member.kind or NOTHING,
            format_size(member.size) if member.size else NOTHING,
            f"{member.superblock.events:,}" if member.superblock else NOTHING,
            _list_of(member),
        ]
        for member in array.members
    ]
    columns = [
        text("member"), *figures("slot"), text("state"), text("kind"), *figures("size", "events"),
        text("bad blocks"),
    ]  # fmt: skip
    title = printable(array.name)
    mounts = [printable(mount) for part in array.parts for mount in part.mounts]
    if mounts:
        title += f", mounted on {', '.join(mounts[:3])}"
    return TextTable(title, columns, rows, spare=("kind", "size"))


def layout(array: Array) -> str:
    """Returns an array's layout as mdadm says it."""
    if array.level == "raid10":
        near, far, offset = array.layout & 0xFF, array.layout >> 8 & 0xFF, array.layout >> 16 & 1
        if far > 1:
            return f"{'offset' if offset else 'far'}={far}" + (f" near={near}" if near > 1 else "")
        return f"near={near}"
    if array.level in {"raid5", "raid6"} and 0 <= array.layout < len(LAYOUTS):
        return LAYOUTS[array.layout]
    return NOTHING


def state(array: Array) -> str:
    """Returns an array's state in a word or three."""
    words = [printable(array.state) or "?"]
    if array.degraded:
        words.append("degraded")
    if array.sync:
        words.append(array.sync.action)
    return ", ".join(words)


def _state_of(member: ArrayMember) -> str:
    if member.states:
        return printable(", ".join(member.states))
    return member.superblock.role if member.superblock else NOTHING


def _list_of(member: ArrayMember) -> str:
    many = member.entries
    if many:
        return f"{many} {'entry' if many == 1 else 'entries'}"
    if member.superblock is None:
        return "not seen" if member.listed is None else "none in sysfs"
    return "empty" if member.bad_blocks else "no list"


def as_dict(inventory: Inventory, findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit`."""
    known = inventory.software
    return {
        "format_version": FORMAT_VERSION,
        "software": None
        if known is None
        else {
            "kernel": known.kernel and ".".join(map(str, known.kernel)),
            "mdadm": known.mdadm and ".".join(map(str, known.mdadm)),
            "create_bbl_no": known.lists_off,
            "config": known.config or None,
            "checked_by": known.checked_by or None,
        },
        "arrays": [array.as_dict() for array in inventory.arrays],
        "strays": [stray.as_dict() for stray in inventory.strays],
        "disks": None if inventory.disks is None else [disk.as_dict() for disk in inventory.disks],
        "lvm_raids": list(inventory.volumes),
        "findings": [_finding(disk) for disk in findings],
        "counts": diagnostics.counts(findings),
        "unseen": [
            *inventory.unseen,
            *(reason for array in inventory.arrays for reason in array.unseen),
        ],
    }


def _finding(finding: Diagnostic) -> dict[str, Any]:
    """Returns a diagnostic, and what its fields were called before there was one type of them."""
    document = diagnostics.as_dict(finding)
    before = {
        "rule": document["code"],
        "array": document["subject"],
        "commands": document["remedy"],
    }
    return {**document, **before, "ranges": list(finding.ranges)}
