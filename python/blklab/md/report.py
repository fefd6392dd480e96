"""Prints md arrays and findings about them, in the terminal and as JSON."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from blklab.diagnostic import SEVERITIES, Diagnostic
from blklab.grouping import by_key
from blklab.md.audit.rule import list_names
from blklab.md.availability import count_tolerated
from blklab.md.levels import layout_name
from blklab.md.model import FIELDS_NOT_IN_TEXT, LIST_NOT_IN_TEXT, Array, ArrayMember, Inventory, Software
from blklab.md.remote import RemoteHost
from blklab.render import diagnostics
from blklab.render.console import Console, assemble_text, style_text
from blklab.render.diagnostics import counts
from blklab.render.formatting import listing, plural
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.text.printing import printable
from blklab.units import format_size

FORMAT_VERSION = 1
NO_VALUE = "–"
MOST_ARRAYS = 8  # With more arrays, only the worst ones are shown
MOST_OVERVIEW_LINES = 8  # Of each host, if there are several


def show(console: Console, inventory: Inventory, findings: Sequence[Diagnostic]) -> None:
    """Prints arrays, their members, and the findings, the worst first.

    Of more than MOST_ARRAYS arrays, only those with a critical or warning finding are shown.
    """
    shown, other_lines = (
        _worst_arrays(inventory, findings) if len(inventory.arrays) > MOST_ARRAYS else (inventory.arrays, [])
    )
    absent = [array for array in inventory.unassembled if not all(member.users for member in array.members)]
    if not inventory.arrays:
        is_expected = absent or any(not line.ignored for line in inventory.listed)
        title = "No md array is assembled." if is_expected else "No md array found."
        if inventory.log and inventory.software is None:
            title = "The text shows no array, only a kernel log."
        console.print(style_text(title, "bold"))
    draw_table(console, arrays_table(replace(inventory, arrays=(*absent[:MOST_ARRAYS], *shown[:MOST_ARRAYS]))))
    for line in other_lines:
        console.print(style_text(line))
    for array in absent[:MOST_ARRAYS]:
        draw_table(console, members_table(array))
    for array in shown if len(shown) <= MOST_ARRAYS else ():
        draw_table(console, members_table(array))
    names = {}
    for array in (*inventory.arrays, *inventory.unassembled):
        names[array.name] = [array.path, array.name]
        for member in array.members:
            names[array.name] += [member.path, member.name]
    diagnostics.print_diagnostics(console, findings, "Findings", names=names)
    if unseen := _unseen(inventory):
        console.print()
        console.print(style_text("Not seen", "bold"))
        parts = (line.partition(": ") for line in unseen)
        for reason, places in by_key((colon + reason, place) for place, colon, reason in parts).items():
            console.print(style_text(f"• {printable(list_names(places) + reason)}"))
    numbers = [f"{count} {severity}" for severity, count in diagnostics.counts(findings).items()]
    console.print()
    console.print(style_text(" · ".join(numbers), "dim"))


def _worst_arrays(inventory: Inventory, findings: Sequence[Diagnostic]) -> tuple[list[Array], list[str]]:
    """Returns the arrays that need attention, the worst first, and lines about the others."""
    ranks: dict[str, int] = {}
    disks = {disk.name: disk.arrays for disk in inventory.disks or ()}
    for finding in findings:
        for name in [finding.subject] if finding.subject else disks.get(finding.member, ()):
            ranks[name] = min(finding.rank, ranks.get(name, finding.rank))
    note = SEVERITIES.index("note")
    other_states = {
        array.name: array_state_text(array)
        for array in inventory.arrays
        if ranks.get(array.name, note) == note and array.usable == array.raid_disks
    }
    shown = [array for array in inventory.arrays if array.name not in other_states]
    shown.sort(key=lambda array: ranks.get(array.name, note))
    lines = []
    if len(shown) > MOST_ARRAYS:
        number = plural(len(shown) - MOST_ARRAYS, "more array")
        lines.append(f"{number} with findings or missing members; --array NAME shows an array with its members")
    states = Counter(other_states.values()).most_common()
    states_text = states[0][0] if len(states) == 1 else listing([f"{count} {state}" for state, count in states])
    if other_states:
        number = plural(len(other_states), "other array" if shown else "array")
        lines.append(f"{number}: {states_text}; all members in sync, no finding above {SEVERITIES[note]}")
    return shown, lines


def _unseen(inventory: Inventory) -> list[str]:
    return [*inventory.unseen, *inventory.unread, *(reason for array in inventory.arrays for reason in array.unseen)]


def arrays_table(inventory: Inventory) -> TextTable:
    rows = [
        [
            printable(array.title),
            printable(array.level),
            layout_text(array),
            format_size(array.size) if array.size else NO_VALUE,
            format_size(array.chunk) if array.chunk else NO_VALUE,
            printable(array.metadata),
            _bitmap_text(array),
            array_state_text(array),
            f"{array.usable}/{array.raid_disks}" if array.raid_disks else NO_VALUE,
        ]
        for array in inventory.arrays
    ]
    columns = [
        text_column("array"),
        text_column("level"),
        text_column("layout"),
        *number_columns("size", "chunk"),
        text_column("metadata"),
        text_column("bitmap"),
        text_column("state"),
        *number_columns("members"),
    ]
    return TextTable("Arrays", columns, rows, spare=("chunk", "bitmap", "layout", "metadata"))


def members_table(array: Array) -> TextTable:
    rows = [
        [
            printable(member.name),
            NO_VALUE if member.slot is None else str(member.slot),
            _member_state_text(array, member),
            member.kind or NO_VALUE,
            format_size(member.size) if member.size else NO_VALUE,
            f"{member.superblock.events:,}" if member.superblock else NO_VALUE,
            _bad_blocks_text(member),
        ]
        for member in array.members
    ]
    columns = [
        text_column("member"),
        *number_columns("slot"),
        text_column("state"),
        text_column("kind"),
        *number_columns("size", "events"),
        text_column("bad blocks"),
    ]
    title = printable(array.title)
    mounts = [printable(mount) for part in array.parts for mount in part.mounts]
    if mounts:
        title += f", mounted on {', '.join(mounts[:3])}"
    return TextTable(title, columns, rows, spare=("kind", "size"))


def layout_text(array: Array) -> str:
    """Returns an array's layout in mdadm's words; sysfs has zeros for an array that does not run."""
    return layout_name(array.level, array.layout) or NO_VALUE if array.raid_disks else NO_VALUE


def _bitmap_text(array: Array) -> str:
    if array.bitmap is None:
        return NO_VALUE
    return "yes" if array.bitmap else "none"


def array_state_text(array: Array) -> str:
    """Returns an array's state in up to three words."""
    if array.is_container:
        return "assembled"  # sysfs says inactive of all containers
    parts = [printable(array.state) or "?"]
    if array.degraded:
        max_failures = count_tolerated(array)
        has_failed = max_failures is not None and array.degraded > max_failures and array.level != "raid10"
        parts.append("failed" if has_failed else "degraded")
    if array.sync:
        parts.append(array.sync.action)
    return ", ".join(parts)


def _member_state_text(array: Array, member: ArrayMember) -> str:
    if array.is_container:
        names = []
        for volume in array.volumes:
            if member.name in {own.name for own in volume.members}:
                names.append(volume.name)
        return f"in {printable(', '.join(names))}" if names else "unused"
    if member.states:
        return printable(", ".join(member.states))
    return member.superblock.role if member.superblock else NO_VALUE


def _bad_blocks_text(member: ArrayMember) -> str:
    count = member.entries
    if count:
        return "1 entry" if count == 1 else f"{count} entries"
    if member.unseen == LIST_NOT_IN_TEXT:
        return "has entries"
    if member.superblock is None or member.unseen == FIELDS_NOT_IN_TEXT:
        return "not seen" if member.listed is None else "none in sysfs"
    return "empty" if member.bad_blocks else "no list"


def as_dict(inventory: Inventory, findings: Sequence[Diagnostic]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit`."""
    return {
        "format_version": FORMAT_VERSION,
        "software": inventory.software and _software_as_dict(inventory.software),
        "arrays": [array.as_dict() for array in inventory.arrays],
        "strays": [stray.as_dict() for stray in inventory.strays],
        "unassembled": [array.as_dict() for array in inventory.unassembled],
        "outside": [member.as_dict() for member in inventory.outside],
        "listed": [line.as_dict() for line in inventory.listed],
        "disks": None if inventory.disks is None else [disk.as_dict() for disk in inventory.disks],
        "lvm_raids": list(inventory.volumes),
        "findings": [_finding_as_dict(finding) for finding in findings],
        "counts": diagnostics.counts(findings),
        "unseen": _unseen(inventory),
    }


def _software_as_dict(software: Software) -> dict[str, object]:
    versions = {"kernel": software.kernel, "mdadm": software.mdadm}
    return {
        **{name: version and ".".join(map(str, version)) for name, version in versions.items()},
        "create_bbl_no": software.lists_off,
        "config": software.config or None,
        "checked_by": software.checked_by or None,
        "kernels": list(software.kernels),
    }


def _finding_as_dict(finding: Diagnostic) -> dict[str, Any]:
    """Returns a finding as JSON, also with the older names of three fields."""
    document = diagnostics.as_dict(finding)
    older_names = {"rule": document["code"], "array": document["subject"], "commands": document["remedy"]}
    return {**document, **older_names, "ranges": list(finding.ranges), "timeline": list(finding.timeline)}


def show_hosts(console: Console, hosts: Sequence[RemoteHost], threshold: int, *, is_full: bool = False) -> None:
    """Prints each host, and a table of all. Hosts with many arrays get an overview, unless `is_full`.

    With several hosts, those without a finding of severity `threshold`, an index of SEVERITIES, or worse get one line.
    """
    from rich.rule import Rule

    count = sum(len(host.inventory.arrays) for host in hosts if host.inventory)
    if len(hosts) > 1 and count > MOST_ARRAYS and not is_full:
        show_hosts_overview(console, hosts)
        return
    for host in hosts:
        name = printable(host.name)
        line = assemble_text((name, "bold"), ": ")
        if host.inventory is None:
            console.print(line.append(printable(host.failure), "bold red"))
        elif len(hosts) > 1 and all(finding.rank > threshold for finding in host.findings):
            count = len(host.inventory.arrays)
            worse = " or worse" if threshold else ""
            noun = "array" if count == 1 else "arrays"
            summary = f"{count} {noun}, no finding of severity {SEVERITIES[threshold]}{worse}"
            console.print(line.append(summary + ("; some data could not be read" if host.unseen else "")))
        else:
            has_commands = any(finding.remedy for finding in host.findings)
            title = style_text(name, "bold").append(" · run the commands on this host" if has_commands else "", "dim")
            console.print(Rule(title, align="left", style="dim"))
            show(console, host.inventory, host.findings)
            console.print()
    if len(hosts) > 1:
        draw_table(console, hosts_table(hosts))


def show_hosts_overview(console: Console, hosts: Sequence[RemoteHost]) -> None:
    """Prints a table of all hosts, and of each host what is critical or a warning, without commands.

    For many arrays: `show_hosts` prints more than fits on a screen.
    """
    draw_table(console, hosts_table(hosts))
    for host in hosts:
        if host.failure:
            line = assemble_text((printable(host.name), "bold"), ": ", (printable(host.failure), "bold red"))
            console.print(line)
    for host in hosts:
        lines = _overview_lines(host)
        if lines:
            console.print()
            console.print(style_text(printable(host.name), "bold"))
        for severity, sentence in lines[:MOST_OVERVIEW_LINES]:
            head = style_text(severity, diagnostics.STYLES[severity])
            console.print(assemble_text(head, " " * (diagnostics.INDENT - len(severity)), sentence))
        if len(lines) > MOST_OVERVIEW_LINES:
            console.print(style_text(f"and {len(lines) - MOST_OVERVIEW_LINES} more", "dim"))
    console.print()
    console.print(style_text("Commands, members and notes: repeat this with --full, or for one host alone.", "dim"))


def _overview_lines(host: RemoteHost) -> list[tuple[str, str]]:
    """Returns the severity of each critical finding and warning of a host, and its first clause.

    Findings with the same code are on one line, with the clause of the first of them.
    """
    names: dict[tuple[str, str], list[str]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    for finding in host.findings:
        severity: str = finding.severity
        if severity == "note":
            continue
        key = (severity, finding.code)
        clause = re.split(r"\. |; ", finding.message)[0]
        names.setdefault(key, []).append(" ".join(filter(None, (finding.subject, finding.member))))
        texts.setdefault(key, []).append(clause)
    lines: list[tuple[str, str]] = []
    for key, subjects in names.items():
        clauses = texts[key]
        subject = list_names(list(dict.fromkeys(filter(None, subjects))), MOST_ARRAYS)
        prefix = f"{subject}: " if subject else ""
        suffix = "" if len(set(clauses)) == 1 else f" (the first of {len(clauses)})"
        lines.append((key[0], printable(f"{prefix}{clauses[0]}{suffix} [{key[1]}]")))
    return lines


def hosts_table(hosts: Sequence[RemoteHost]) -> TextTable:
    rows = []
    for host in hosts:
        numbers = [NO_VALUE] * (1 + len(SEVERITIES))
        if host.inventory:
            numbers = [str(len(host.inventory.arrays)), *map(str, counts(host.findings).values())]
        extent = "all"
        if host.failure:
            extent = "nothing"
        elif host.unseen:
            extent = "partly"
        rows.append([printable(host.name), *numbers, extent])
    return TextTable("Hosts", [text_column("host"), *number_columns("arrays", *SEVERITIES), text_column("read")], rows)


def hosts_as_dict(hosts: Sequence[RemoteHost]) -> dict[str, Any]:
    """Returns the JSON document: docs/reference/formats.md, `md audit` of several hosts."""
    documents = []
    for host in hosts:
        empty = dict.fromkeys(("arrays", "findings", "unseen"), ())
        audit = as_dict(host.inventory, host.findings) if host.inventory else empty
        audit.pop("format_version", None)
        documents.append({"host": host.name, "failure": host.failure or None, **audit})
    return {"format_version": FORMAT_VERSION, "hosts": documents}
