"""Prints what is known about arrays that do not start, in the terminal and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from blklab.md.audit.log import check_log
from blklab.md.audit.rule import list_names, moment_text
from blklab.md.model import FIELDS_NOT_IN_TEXT, LIST_NOT_IN_TEXT, ArrayMember, Inventory
from blklab.md.rescue.diagnosis import (
    ArrayRescue,
    describe_age,
    describe_moment,
    describe_role,
    draw_array_state,
    list_all_members,
)
from blklab.md.rescue.geometry_search import GeometrySearch, OldGeometry, describe_geometry, describe_verdict
from blklab.md.rescue.lost_members import ArrayNote
from blklab.md.rescue.saved_sectors import SavedSectors
from blklab.md.superblocks import Superblock
from blklab.render.console import Console, style_text
from blklab.render.table import TextTable, number_columns, only, text_column
from blklab.render.terminal import draw_table
from blklab.text.printing import printable
from blklab.units import SECTOR, format_size

FORMAT_VERSION = 1
NO_VALUE = "–"


def add_notes(rescues: Sequence[ArrayRescue], notes: Sequence[ArrayNote]) -> tuple[list[ArrayRescue], list[str]]:
    """Returns the arrays with their notes as further facts, and the sentences of the other notes."""
    result = []
    names = {rescue.array.name for rescue in rescues}
    for rescue in rescues:
        sentences = tuple(note.sentence for note in notes if note.array_name == rescue.array.name)
        result.append(replace(rescue, facts=(*rescue.facts, *sentences)))
    return result, [note.sentence for note in notes if note.array_name not in names]


def describe_log(inventory: Inventory) -> Iterator[ArrayNote]:
    """Yields what the kernel's log in a text says about each array: what it means, then the timeline."""
    for finding in check_log(inventory):
        name = finding.subject or finding.member
        yield ArrayNote(finding.subject, finding.message if finding.subject else f"{name}: {finding.message}")
        for line in finding.timeline:
            yield ArrayNote(finding.subject, line if finding.subject else f"{name}: {line}")


def show(
    console: Console, inventory: Inventory, rescues: Sequence[ArrayRescue], other_notes: Sequence[str] = ()
) -> None:
    """Prints each array: the answer, its reasons, the members, what to do, and what not to type.

    `other_notes` are sentences about disks that belong to none of these arrays.
    """
    for number, rescue in enumerate(rescues):
        if number:
            console.print()
        _show_rescue(console, rescue)
    if other_notes:
        if rescues:
            console.print()
        console.print(style_text("On other disks", "bold"))
        for line in other_notes:
            console.print(style_text(f"• {printable(line)}"))
    unseen = [*inventory.unseen, *inventory.unread]
    if unseen:
        console.print()
        console.print(style_text("Not seen", "bold"))
        for line in unseen:
            console.print(style_text(f"• {printable(line)}"))


def _show_rescue(console: Console, rescue: ArrayRescue) -> None:
    array = rescue.array
    console.print(style_text(printable(f"{array.title}: {rescue.headline}"), "bold"))
    for fact in rescue.facts:
        console.print(style_text(f"• {printable(fact)}"))
    if not array.external or rescue.groups:
        draw_table(console, members_table(rescue))
    if rescue.steps:
        console.print()
        console.print(style_text("What to do", "bold"))
        for line in rescue.steps:
            is_command = not line.startswith("#")
            shown = printable(line) if is_command else printable(line.removeprefix("# "))
            console.print(style_text(f"    {shown}" if is_command else f"• {shown}", "green" if is_command else ""))
    if rescue.forbidden:
        console.print()
        console.print(style_text("Do not type", "bold"))
        for line in rescue.forbidden:
            console.print(style_text(f"• {printable(line)}", "red"))


MOST_SHOWN = 8  # Geometries in the terminal; all are in the JSON document
SAFETY = (
    "Nothing was written, and no array was assembled.",
    "The order is proven only by overlays and a filesystem check: put an overlay on each device, make the array of the "
    "overlays with this geometry, and run fsck -n on it.",
    "Do not run mdadm --create on the devices themselves.",
)


def show_search(console: Console, search: GeometrySearch) -> None:
    """Prints a search for an old geometry: the verdict, the geometries, what is not certain, and what is safe."""
    console.print(style_text(printable(describe_verdict(search)), "bold"))
    for number, geometry in enumerate(search.geometries[:MOST_SHOWN], start=1):
        console.print()
        title = "Geometry" if len(search.geometries) == 1 else f"Geometry {number} of {len(search.geometries)}"
        console.print(style_text(title, "bold"))
        _show_geometry(console, geometry)
    if len(search.geometries) > MOST_SHOWN:
        console.print(style_text(f"{len(search.geometries) - MOST_SHOWN} more: see --json"))
    console.print()
    for line in (*search.notes, *search.limits, *SAFETY):
        console.print(style_text(f"• {printable(line)}"))


def _show_geometry(console: Console, geometry: OldGeometry) -> None:
    for line in describe_geometry(geometry):
        console.print(style_text(f"    {printable(line)}"))


def search_as_dict(search: GeometrySearch) -> dict[str, Any]:
    """Returns the JSON document of a search for an old geometry."""
    return {"format_version": FORMAT_VERSION, **search.as_dict(), "safety": list(SAFETY)}


def show_sectors(console: Console, copy: SavedSectors, file: str) -> None:
    """Prints what was saved of a member, and what not."""
    header = copy.header
    size = format_size(sum(place.sectors for place in header.ranges) * SECTOR)
    console.print(
        style_text(
            printable(
                f"{file}: {size} of array {header.array_uuid}, from slot {header.slot} "
                f"({header.events:,} events, last written {moment_text(header.updated)}); read again and compared"
            )
        )
    )
    reasons = (
        (copy.elsewhere, "not on this member: name another one"),
        (copy.listed, "not saved: in the bad-block list of this member"),
        (copy.unread, "not saved: cannot be read from this member"),
    )
    for ranges, reason in reasons:
        if ranges:
            console.print(style_text(f"• array {list_names(list(map(str, ranges)))}: {reason}"))


def sectors_as_dict(copy: SavedSectors) -> dict[str, Any]:
    """Returns the JSON document of saved sectors: the header of the file, and what is not in it."""
    document: dict[str, Any] = {"format_version": FORMAT_VERSION, "header": msgspec.to_builtins(copy.header)}
    missing = {"elsewhere": copy.elsewhere, "listed": copy.listed, "unread": copy.unread}
    for name, ranges in missing.items():
        document[name] = [{"sector": gap.sector, "sectors": gap.sectors} for gap in ranges]
    return document


def members_table(rescue: ArrayRescue) -> TextTable:
    """Returns the table of an array's members: one row each, the newest superblocks first."""
    array = rescue.array
    newest = rescue.groups[0].events if rescue.groups else 0
    latest = max((group.updated for group in rescue.groups), default=0)
    in_order = [member for group in rescue.groups for member in group.members]
    unread = [member for member in (*array.members, *array.outside) if member.superblock is None]
    columns = [
        text_column("member"),
        text_column("disk"),
        *number_columns("slot"),
        text_column("role"),
        *number_columns("events", "behind"),
        text_column("last written"),
        *number_columns("earlier"),
        text_column("saw"),
        *number_columns("data offset"),
        text_column("checksum"),
        text_column("list"),
    ]
    rows = [_row(member, newest, latest) for member in (*in_order, *unread)]
    table = TextTable(
        f"Members of {printable(array.title)}",
        columns,
        rows,
        "earlier: than the newest superblock; saw: the members of the array as this one saw them last, . is missing",
        spare=("list", "data offset", "checksum", "disk"),
    )
    if any(member.id for member in list_all_members(array)):
        return table
    return only(table, [index for index, column in enumerate(columns) if column.heading != "disk"])


def _row(member: ArrayMember, newest: int, latest: int) -> list[str]:
    superblock = member.superblock
    if superblock is None:
        return [printable(member.name), printable(member.id), *[NO_VALUE] * 10]
    behind = newest - superblock.events
    is_partial = member.unseen == FIELDS_NOT_IN_TEXT
    list_text = NO_VALUE if is_partial else "no list"
    if member.unseen == LIST_NOT_IN_TEXT:
        list_text = "has entries"
    elif superblock.bad_blocks:
        list_text = f"{len(superblock.bad_blocks.ranges)} entries" if superblock.bad_blocks.ranges else "empty"
    return [
        printable(member.name),
        printable(member.id),
        NO_VALUE if superblock.slot is None else str(superblock.slot),
        describe_role(superblock),
        f"{superblock.events:,}",
        f"{behind:,}" if behind else "",
        describe_moment(superblock) if superblock.updated else NO_VALUE,
        describe_age(superblock, latest) if superblock.updated else "",
        draw_array_state(superblock),
        NO_VALUE if is_partial else format_size(superblock.data_offset * 512),
        _checksum_text(superblock, is_partial=is_partial),
        list_text,
    ]


def _checksum_text(superblock: Superblock, *, is_partial: bool) -> str:
    if is_partial:
        return NO_VALUE
    return "holds" if superblock.checksum_holds else "WRONG"


def as_dict(inventory: Inventory, rescues: Sequence[ArrayRescue], other_notes: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md rescue`."""
    return {
        "format_version": FORMAT_VERSION,
        "arrays": [rescue.as_dict() for rescue in rescues],
        "other_disks": list(other_notes),
        "unseen": [*inventory.unseen, *inventory.unread],
    }
