"""Rules about bad-block lists.

The effects were observed on Linux 6.1 and 6.12 with mdadm 4.2: md skips the member silently when it writes to a listed
range, `repair` of a RAID-1 writes garbage from RAM there, and recovery copies entries.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.md.audit.rule import array_finding, audit_message, list_names, told
from blklab.md.good_copies import find_bad_pieces, find_lost_ranges, is_current
from blklab.md.model import Array, ArrayMember, Software, merge_ranges
from blklab.md.recipes import command, rewrite_recipe
from blklab.md.superblocks import SectorRange
from blklab.md_levels import PARITIES
from blklab.units import SECTOR

MAX_RANGES_SHOWN = 8  # Ranges that a message names; the JSON has all


def check_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries: this member's data in these ranges are lost or stale."""
    bad = [member for member in array.members if member.ranges]
    for member in bad:
        details = tuple(_range_details(array, member, bad_range) for bad_range in member.ranges)
        sectors = sum(bad_range.sectors for bad_range in member.ranges)
        places = list_names([_range_text(detail) for detail in details], MAX_RANGES_SHOWN)
        counts = f"{_count(member.entries, 'entry')}, {_count(sectors, 'sector')}"
        words = {"counts": counts, "places": places, "effect": _effect(array, member)}
        remedy = _remedy(array) if member is bad[0] else ()
        diagnostic = told(array, "critical", "bbl-entries", *remedy, member=member.name, **words)
        yield replace(diagnostic, ranges=details)


def check_repair(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A RAID-1 has bad blocks: do not run `repair` on it, because that corrupts data."""
    bad = [member.name for member in array.members if member.ranges]
    if array.level != "raid1" or not bad:
        return
    running = array.sync is not None and array.sync.action == "repair"
    do = "A REPAIR IS RUNNING: stop it" if running else "DO NOT run `repair` on this array"
    stop = [command("idle", array=array.path)] if running else []
    yield told(array, "critical", "repair-corrupts", *stop, do=do, members=list_names(bad))


def check_lost_ranges(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Too many members have bad blocks in the same place, or are missing: the data there are lost."""
    lost_ranges = find_lost_ranges(array)
    if lost_ranges:
        details = tuple(
            {"member_sector": None, "sectors": at.sectors, **_file_locations(array, (at,))} for at in lost_ranges
        )
        places = list_names([str(at) for at in lost_ranges], MAX_RANGES_SHOWN)
        backup = "restore the data there from a backup"
        if array.degraded:
            backup = "the missing member may have a good copy: connect it again, do not wipe it; otherwise " + backup
        yield replace(told(array, "critical", "bbl-lost", places=places, backup=backup), ranges=details)


def check_copied_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Several members list the same bad blocks: most likely, a recovery copied the list."""
    holders: dict[SectorRange, list[str]] = defaultdict(list)
    for member in array.distinct:
        for bad_range in member.ranges:
            begin = bad_range.sector - (member.data_offset or 0)
            holders[SectorRange(begin, bad_range.sectors)].append(member.name)
    shared = {bad_range: names for bad_range, names in holders.items() if len(names) > 1}
    if shared:
        names = sorted({name for holding in shared.values() for name in holding})
        ranges = _count(len(shared), "bad range")
        yield told(array, "critical", "bbl-copied", members=list_names(names), ranges=ranges)


def check_full_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list is full: md fails the member at the next write error."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and len(bad.ranges) >= bad.room > 0 and not bad.empty_entries:
            yield told(array, "critical", "bbl-full", room=bad.room, member=member.name)
        elif member.listed_cut and bad is None:
            yield array_finding(array, "critical", "bbl-full", audit_message("bbl-full-in-sysfs"), member=member.name)


def check_empty_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries of 0 sectors: its area was never written."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.empty_entries:
            yield told(array, "warning", "bbl-zeros", count=bad.empty_entries, member=member.name)


def check_kernel_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The kernel's bad-block list differs from the one on the disk."""
    for member in array.members:
        bad = member.bad_blocks
        if member.listed is None or member.listed_cut or (bad is None and member.unseen):
            continue
        disk = merge_ranges(bad.ranges) if bad else ()
        memory = merge_ranges(member.listed)
        if disk != memory:
            counts = {"disk": _sector_count(disk), "memory": _sector_count(memory)}
            yield told(array, "warning", "bbl-disagree", member=member.name, **counts)


def check_write_errors(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A write to a member failed, and md reported it to no one."""
    for member in array.members:
        states_shown = [word for word in ("write_error", "want_replacement") if word in member.states]
        if states_shown and "in_sync" in member.states and "faulty" not in member.states:
            disk = command("show-smart", disk=member.path)
            states = " and ".join(states_shown)
            yield told(array, "critical", "write-error", disk, states=states, member=member.name)


def check_empty_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Members have empty bad-block lists: the next write error will be hidden in one."""
    if not array.redundant:
        return
    names = [
        member.name
        for member in array.members
        if member.bad_blocks and not member.ranges and not member.bad_blocks.empty_entries
    ]
    if names:
        have = "have empty bad-block lists" if names[1:] else "has an empty bad-block list"
        fix = command("fix", array=array.path)
        yield told(array, "note", "bbl-empty", fix, members=list_names(names), have=have)


def check_no_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """No member has a bad-block list: write errors cannot be hidden."""
    if array.members and all(member.superblock and member.bad_blocks is None for member in array.members):
        yield told(array, "note", "bbl-none")


def _range_details(array: Array, member: ArrayMember, bad_range: SectorRange) -> dict[str, Any]:
    return {
        "member_sector": bad_range.sector,
        "sectors": bad_range.sectors,
        **_file_locations(array, array.array_ranges(member, bad_range)),
    }


def _range_text(detail: dict[str, Any]) -> str:
    on_member = str(SectorRange(detail["member_sector"], detail["sectors"]))
    mapped = detail["array_ranges"]
    if mapped is None:
        return f"{on_member} (of the member)"
    if not mapped:
        return f"{on_member} (no data of the array)"
    return f"{on_member} (array {list_names([str(SectorRange(**at)) for at in mapped], 3)})"


def _effect(array: Array, member: ArrayMember) -> str:
    """Returns what bad blocks of a member mean for the data there."""
    if not array.redundant:
        return "reads there fail"
    pieces = find_bad_pieces(array)
    if pieces is None or member.slot is None:
        return "whether other members have good copies is not known"
    own = [piece for piece in pieces if member.slot in piece.bad]
    lost = any(piece.lost for piece in own)
    if lost and all(piece.lost for piece in own):
        return "no member has a good copy there: see bbl-lost"
    if array.level in PARITIES:
        effect = "md computes the data there from the other members, which then tolerate one failure fewer"
    elif array.level == "raid1" and not lost:
        gone = frozenset[int]().union(*(piece.gone for piece in own))
        good = [other.name for other in array.distinct if other.slot not in {None, *gone} and is_current(array, other)]
        copies = f"the only good copy is on {good[0]}" if len(good) == 1 else f"good copies are on {list_names(good)}"
        effect = f"one copy fewer there: {copies if good else 'each sector has a good copy on another member'}"
    else:
        effect = "one copy fewer there: other members have good copies"
    return effect + (", but of some sectors there is none: see bbl-lost" if lost else "")


def _remedy(array: Array) -> tuple[str, ...]:
    """Returns how to write the bad ranges of all members again, and where the other ways are explained."""
    if recipe := rewrite_recipe(array):
        return (*recipe.lines, "# How to replace a disk of this array without loss:", command("plan", array=array.path))
    return tuple(command("examine-badblocks", disk=member.path) for member in array.members if member.ranges)


def _count(count: int, noun: str) -> str:
    plural = {"entry": "entries"}.get(noun, noun + "s")
    return f"{count:,} {noun if count == 1 else plural}"


def _sector_count(ranges: tuple[SectorRange, ...]) -> str:
    sectors = sum(bad_range.sectors for bad_range in ranges)
    return f"{_count(sectors, 'sector')} in {_count(len(ranges), 'range')}"


def _file_locations(array: Array, mapped: tuple[SectorRange, ...] | None) -> dict[str, Any]:
    """Returns where ranges are on the array and, if the inventory has them, the files there."""
    summary = None if mapped is None else [{"sector": at.sector, "sectors": at.sectors} for at in mapped]
    if array.contents is None:
        return {"array_ranges": summary}
    files: list[dict[str, Any]] = []
    others: dict[tuple[str, str], int] = {}
    for content in array.contents:
        for at in mapped or ():
            first = max(content.begin, at.sector * SECTOR)
            size = min(content.begin + content.bytes, at.end * SECTOR) - first
            if size <= 0:
                continue
            if not content.path:
                others[content.device, content.what] = others.get((content.device, content.what), 0) + size
                continue
            offset = None if content.offset < 0 else content.offset + first - content.begin
            last = files[-1] if files else None
            if last and _is_contiguous(last, content.path, content.what, offset):
                last["bytes"] += size
            else:
                where = {"device": content.device, "path": content.path, "offset_bytes": offset}
                files.append({**where, "bytes": size, "what": content.what or None})
    unnamed = [{"device": device, "what": what, "bytes": size} for (device, what), size in others.items()]
    return {"array_ranges": summary, "files": files, "others": unnamed}


def _is_contiguous(last: dict[str, Any], path: str, what: str, offset: int | None) -> bool:
    end = None if last["offset_bytes"] is None else last["offset_bytes"] + last["bytes"]
    return (last["path"], last["what"], end) == (path, what or None, offset)
