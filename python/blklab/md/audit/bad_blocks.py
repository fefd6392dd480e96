"""Rules about bad-block lists.

The effects were observed on Linux 6.1 and 6.12 with mdadm 4.2: md skips the member silently when it writes to a listed
range, `repair` of a RAID-1 writes garbage from RAM there, and recovery copies entries.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from blklab.diagnostic import Diagnostic
from blklab.md import command_lines
from blklab.md.audit.rule import list_names, make_finding, moment_text
from blklab.md.good_copies import (
    find_bad_pieces,
    find_bad_ranges,
    find_end,
    find_lost_ranges,
    find_ranges_only_outside,
    find_sources_outside,
    has_garbage_list,
    is_current,
    subtract_ranges,
)
from blklab.md.levels import PARITIES
from blklab.md.model import FIELDS_NOT_IN_TEXT, LIST_NOT_IN_TEXT, Array, ArrayMember, Software, merge_ranges
from blklab.md.recipes import rewrite_recipe, stop_users
from blklab.md.superblocks import SectorRange
from blklab.units import SECTOR

MAX_RANGES_SHOWN = 8  # Ranges that a message names; the JSON has all


def check_only_outside(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Sectors that the present members have lost can be read only from a member that is out of the array."""
    ranges = find_ranges_only_outside(array)
    if not ranges:
        return
    sources = find_sources_outside(array)
    names = list_names([source.name for source in sources])
    dates = [moment_text(source.superblock.updated) for source in sources if source.superblock]
    verb = "are" if sources[1:] else "is"
    places = list_names([str(run) for run in ranges], MAX_RANGES_SHOWN)
    message = (
        f"{_count(sum(run.sectors for run in ranges), 'sector')} of {array.name} can be read only from {names}, which "
        f"{verb} out: do not add, remove or replace a disk yet. Array sectors {places}, as they were when {names} went "
        f"out ({list_names(dates)})"
    )
    keep = f"# Keep {names} connected and as it is. Copy the files that you need from {array.path} to another place."
    remedy = [keep]
    if array.level in {"raid1", "raid10"}:
        save = command_lines.save_sectors(ranges[0].sector, ranges[0].end - 1, sources[0].path, "FILE")
        write = command_lines.fix_entries_from(array.path, "FILE")
        remedy.append(f"# Or copy them to a file: `{save}`; then write them through md: `{write}`.")
    details = tuple(_describe_lost_range(array, run) for run in ranges)
    yield replace(make_finding(array, "critical", "only-out", message, *remedy), ranges=details)


def check_garbage(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Entries of bad-block lists are beyond the end of their disks: the lists are damaged, not the disks."""
    members = [member for member in array.members if has_garbage_list(member)]
    if not members:
        return
    ends = {member.name: find_end(member) or 0 for member in members}
    beyond = []
    within = []
    for member in members:
        for bad_range in member.ranges:
            if bad_range.end > ends[member.name]:
                beyond.append(bad_range)
            else:
                within.append(bad_range)
    names = list_names(list(ends))
    lists = "lists" if members[1:] else "list"
    lists_verb = "are" if members[1:] else "is"
    beyond_verb = "is" if len(beyond) == 1 else "are"
    message = (
        f"the bad-block {lists} of {names} {lists_verb} damaged, not the disks: "
        f"{len(beyond):,} of {_count(len(beyond) + len(within), 'bad range')} {beyond_verb} "
        f"beyond the end of the disk (the first is sector {min(beyond).sector:,} of {ends[members[0].name]:,}). "
        "md refuses or ignores such entries, and may refuse the member. To drop the lists, stop the array, and "
        "assemble it once with mdadm --assemble --update=force-no-bbl"
    )
    if within:
        ranges = list_names([str(entry) for entry in within], 3)
        message += f"; read these sectors of the members first, which may be real entries: {ranges}"
    yield make_finding(array, "critical", "bbl-garbage", message)


def check_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries: this member's data in these ranges are lost or stale."""
    bad = [member for member in array.members if find_bad_ranges(member)]
    copied_ranges = find_copied_ranges(array)
    for member in bad:
        details = tuple(_range_details(array, member, bad_range) for bad_range in member.ranges)
        sectors = sum(bad_range.sectors for bad_range in member.ranges)
        places = list_names([_range_text(detail) for detail in details], MAX_RANGES_SHOWN)
        counts = f"{_count(member.entries, 'entry')}, {_count(sectors, 'sector')}"
        message = f"bad-block list has {counts}: {places}; {_effect(array, member)}"
        remedy = _remedy(array) if member is bad[0] and not copied_ranges else ()
        diagnostic = make_finding(array, "critical", "bbl-entries", message, *remedy, member=member.name)
        yield replace(diagnostic, ranges=details)


def check_repair(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A RAID-1 has bad blocks: do not run `repair` on it, because that corrupts data."""
    bad = [member.name for member in array.members if find_bad_ranges(member)]
    if array.level != "raid1" or not bad:
        return
    running = array.sync is not None and array.sync.action == "repair"
    do = "A REPAIR IS RUNNING: stop it" if running else "DO NOT run `repair` on this array"
    have = "have" if bad[1:] else "has"
    message = (
        f"{do}. Where {list_names(bad)} {have} bad blocks, `repair` of a RAID-1 writes garbage from RAM and removes "
        "the entry; the garbage may then replace the good copy. `check` is safe"
    )
    stop = [command_lines.make_idle(array.path)] if running else []
    yield make_finding(array, "critical", "repair-corrupts", message, *stop)


def check_lost_ranges(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Too many members have bad blocks in the same place, or are missing: reads there fail.

    Ranges that only a copied list has may be readable on the disks: then this is no statement about data.
    """
    lost = subtract_ranges(find_lost_ranges(array), find_ranges_only_outside(array))
    certain = subtract_ranges(find_lost_ranges(_without_copies(array)), find_ranges_only_outside(array))
    if certain:
        if array.degraded and not find_sources_outside(array):
            backup = "a missing member may have a good copy: connect it again, and do not wipe it. Otherwise restore "
        else:
            backup = "restore "
        places = list_names([str(lost_range) for lost_range in certain], MAX_RANGES_SHOWN)
        message = f"no member has a good copy of array sectors {places}: reads there fail; {backup}"
        message += "the data there from a backup"
        details = tuple(_describe_lost_range(array, lost_range) for lost_range in certain)
        yield replace(make_finding(array, "critical", "bbl-lost", message), ranges=details)
    refused_ranges = subtract_ranges(lost, certain)
    if refused_ranges:
        places = list_names([str(lost_range) for lost_range in refused_ranges], MAX_RANGES_SHOWN)
        message = (
            f"md refuses to read array sectors {places}: whether the disks can read them is not known, because the "
            "lists were copied (see bbl-copied)"
        )
        details = tuple(_describe_lost_range(array, lost_range) for lost_range in refused_ranges)
        yield replace(make_finding(array, "critical", "bbl-lost", message), ranges=details)


def check_copied_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Several members list the same bad blocks: a recovery copied the list, so it says little about the disks."""
    copied_ranges = find_copied_ranges(array)
    if not copied_ranges:
        return
    members = [member for member in array.distinct if member.name in copied_ranges]
    ranges = merge_ranges(tuple(run for member in members for run in copied_ranges[member.name]))
    number = max(len(copied_ranges[member.name]) for member in members)
    ranges_text = "bad range" if number == 1 else f"{number:,} bad ranges"
    message = (
        f"{list_names([member.name for member in members])} list the same {ranges_text} "
        f"({list_names([str(run) for run in ranges], 3)} of each): these are copies of one list, not defects of the "
        "disks, because different disks do not fail in the same sectors (a recovery copies entries for which it has "
        "no source). If the disks can read these sectors, probably nothing is lost"
    )
    yield Diagnostic("bbl-copied", "critical", array.name, message, tuple(_advise_on_copies(array)))


def _advise_on_copies(array: Array) -> Iterator[str]:
    if not array.live:
        yield "# Read every listed range of every member with dd (iflag=direct). If all can be read, assemble"
        yield "# the array: `md fix entries` compares all copies and drops the entries."
        yield "# Or assemble it with --update=force-no-bbl, and run a check."
        yield "# Where a write failed, a member has old data: write it again from a good copy first."
    elif array.sync is None and not array.degraded and array.state != "inactive":
        yield "# This reads the ranges from the disks, and drops the entries only if all copies agree:"
        yield from stop_users(array)
        yield command_lines.fix_entries(array.path)


def find_copied_ranges(array: Array) -> dict[str, tuple[SectorRange, ...]]:
    """Returns the bad ranges that several members have in the same place, by the names of the members."""
    holders: dict[SectorRange, list[tuple[str, SectorRange]]] = defaultdict(list)
    for member in array.distinct:
        for bad_range in find_bad_ranges(member):
            begin = bad_range.sector - (member.data_offset or 0)
            holders[SectorRange(begin, bad_range.sectors)].append((member.name, bad_range))
    copied_ranges: dict[str, tuple[SectorRange, ...]] = {}
    for holding in holders.values():
        for name, bad_range in holding if len(holding) > 1 else ():
            copied_ranges[name] = (*copied_ranges.get(name, ()), bad_range)
    return copied_ranges


def _without_copies(array: Array) -> Array:
    """Returns an array as if the lists of its members had no copied entries."""
    copied_ranges = find_copied_ranges(array)
    members = []
    for member in array.members:
        if member.name in copied_ranges:
            ranges = tuple(
                bad_range for bad_range in find_bad_ranges(member) if bad_range not in copied_ranges[member.name]
            )
            superblock = member.superblock and msgspec.structs.replace(member.superblock, bad_blocks=None)
            members.append(replace(member, listed=ranges, superblock=superblock))
        else:
            members.append(member)
    return replace(array, members=tuple(members))


def check_full_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list is full: md fails the member at the next write error."""
    for member in array.members:
        bad = member.bad_blocks
        if has_garbage_list(member):
            continue
        if bad and len(bad.ranges) >= bad.room > 0 and not bad.empty_entries:
            message = (
                f"bad-block list is full ({bad.room} entries; sysfs shows only the first page of them): "
                "md fails the member at the next write error"
            )
            yield make_finding(array, "critical", "bbl-full", message, member=member.name)
        elif member.listed_cut and bad is None:
            message = (
                "sysfs shows a full page of bad blocks: the list is full or nearly full; "
                "run as root to read all of it from the disk"
            )
            yield make_finding(array, "critical", "bbl-full", message, member=member.name)


def check_empty_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries of 0 sectors: its area was never written."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.empty_entries and not has_garbage_list(member):
            message = (
                f"bad-block list is marked as in use, but {bad.empty_entries} of its entries have 0 sectors: "
                "its area was never written; a failed `--add` on Linux 6.12 leaves such a list"
            )
            yield make_finding(array, "warning", "bbl-zeros", message, member=member.name)


def check_kernel_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The kernel's bad-block list differs from the one on the disk."""
    for member in array.members:
        bad = member.bad_blocks
        if member.listed is None or member.listed_cut or (bad is None and member.unseen):
            continue
        disk = merge_ranges(bad.ranges) if bad else ()
        memory = merge_ranges(member.listed)
        if disk != memory:
            message = (
                f"bad-block list on the disk has {_sector_count(disk)}, the kernel's list has {_sector_count(memory)}: "
                "md writes it with the next superblock; it is lost if the machine stops first"
            )
            yield make_finding(array, "warning", "bbl-disagree", message, member=member.name)


def check_write_errors(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A write to a member failed, and md reported it to no one."""
    for member in array.members:
        states_shown = [word for word in ("write_error", "want_replacement") if word in member.states]
        if states_shown and "in_sync" in member.states and "faulty" not in member.states:
            message = (
                f"is in sync and has the state {' and '.join(states_shown)}: "
                "a write failed, and md listed it as a bad block; "
                "/proc/mdstat, mdadm --detail and mdadm's mail do not report this"
            )
            show = command_lines.show_smart(member.path)
            yield make_finding(array, "critical", "write-error", message, show, member=member.name)


def check_unseen_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """The superblock says that the list has entries, and pasted text does not show them."""
    for member in array.members:
        if member.unseen == LIST_NOT_IN_TEXT:
            message = (
                "its bad-block list has entries, which the text does not show: another member may have the only good "
                "copy of these sectors. Do not run `repair`, and do not remove a member before you know them"
            )
            command = command_lines.examine_bad_blocks(member.path)  # only reads, also if the array does not run
            yield Diagnostic("bbl-unseen", "critical", array.name, message, (command,), member=member.name)


def check_empty_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Members have empty bad-block lists: the next write error will be hidden in one."""
    if not array.redundant:
        return
    names = [
        member.name
        for member in array.members
        if member.bad_blocks
        and not member.ranges
        and not member.bad_blocks.empty_entries
        and member.unseen != LIST_NOT_IN_TEXT
    ]
    if names:
        have = "have empty bad-block lists" if names[1:] else "has an empty bad-block list"
        if array.degraded or (array.sync is not None and array.sync.action == "recover"):
            pronoun = "them" if names[1:] else "it"
            message = (
                f"{list_names(names)} {have}: keep {pronoun} until the array is complete. With a list, a rebuild goes "
                "on behind a sector that cannot be read, and only some KiB fail; without one, the first such sector "
                "ends the rebuild"
            )
            yield make_finding(array, "note", "bbl-empty", message)
            return
        message = (
            f"{list_names(names)} {have}: the next write error is hidden there, and the array still looks healthy; "
            "without a list, md fails the member"
        )
        yield make_finding(array, "note", "bbl-empty", message, command_lines.fix_bbl(array.path))


def check_no_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """No member has a bad-block list: write errors cannot be hidden."""
    is_partial = any(member.unseen == FIELDS_NOT_IN_TEXT for member in array.members)
    has_no_list = all(member.superblock and member.bad_blocks is None for member in array.members)
    if array.members and has_no_list and not is_partial:
        yield make_finding(array, "note", "bbl-none", "no bad-block list is configured on any member")


def _describe_lost_range(array: Array, lost_range: SectorRange) -> dict[str, Any]:
    return {"member_sector": None, "sectors": lost_range.sectors, **find_file_locations(array, (lost_range,))}


def _range_details(array: Array, member: ArrayMember, bad_range: SectorRange) -> dict[str, Any]:
    return {
        "member_sector": bad_range.sector,
        "sectors": bad_range.sectors,
        **find_file_locations(array, array.array_ranges(member, bad_range)),
    }


def _range_text(detail: dict[str, Any]) -> str:
    on_member = str(SectorRange(detail["member_sector"], detail["sectors"]))
    array_ranges = detail["array_ranges"]
    if array_ranges is None:
        return f"{on_member} (of the member)"
    if not array_ranges:
        return f"{on_member} (no data of the array)"
    return f"{on_member} (array {list_names([str(SectorRange(**sector_range)) for sector_range in array_ranges], 3)})"


def _effect(array: Array, member: ArrayMember) -> str:
    """Returns what bad blocks of a member mean for the data there."""
    if not array.redundant:
        return "reads there fail"
    pieces = find_bad_pieces(array)
    if pieces is None or member.slot is None:
        return "whether other members have good copies is not known"
    member_pieces = [piece for piece in pieces if member.slot in piece.bad]
    lost = any(piece.lost for piece in member_pieces)
    reason = "bbl-lost"
    if find_ranges_only_outside(array):
        reason = "only-out"
    elif not find_lost_ranges(_without_copies(array)):
        reason = "bbl-copied"
    if lost and all(piece.lost for piece in member_pieces):
        if reason == "bbl-copied":
            return f"md can read the data there from no member: see {reason}"
        return f"no member has a good copy there: see {reason}"
    if array.level in PARITIES:
        effect = "md computes the data there from the other members, which then tolerate one failure fewer"
    elif array.level == "raid1" and not lost:
        missing_slots = frozenset[int]().union(*(piece.gone for piece in member_pieces))
        good = [
            other.name
            for other in array.distinct
            if other.slot not in {None, *missing_slots} and is_current(array, other)
        ]
        if not good:
            copies = "each sector has a good copy on another member"
        elif len(good) == 1:
            copies = f"the only good copy is on {good[0]}"
        else:
            copies = f"good copies are on {list_names(good)}"
        effect = f"one copy fewer there: {copies}"
    else:
        effect = "one copy fewer there: other members have good copies"
    return effect + (f", but of some sectors there is none: see {reason}" if lost else "")


def _remedy(array: Array) -> tuple[str, ...]:
    """Returns how to write the bad ranges of all members again."""
    recipe = rewrite_recipe(array)
    return recipe.lines if recipe else ()


def _count(count: int, noun: str) -> str:
    if count == 1:
        return f"{count:,} {noun}"
    plural = "entries" if noun == "entry" else f"{noun}s"
    return f"{count:,} {plural}"


def _sector_count(ranges: tuple[SectorRange, ...]) -> str:
    sectors = sum(bad_range.sectors for bad_range in ranges)
    return f"{_count(sectors, 'sector')} in {_count(len(ranges), 'range')}"


def find_file_locations(array: Array, array_ranges: tuple[SectorRange, ...] | None) -> dict[str, Any]:
    """Returns where ranges are on the array and, if the inventory has them, the files there."""
    summary = (
        None
        if array_ranges is None
        else [{"sector": sector_range.sector, "sectors": sector_range.sectors} for sector_range in array_ranges]
    )
    if array.contents is None:
        return {"array_ranges": summary}
    files: list[dict[str, Any]] = []
    sizes: dict[tuple[str, str], int] = {}
    for content in array.contents:
        for sector_range in array_ranges or ():
            first = max(content.begin, sector_range.sector * SECTOR)
            size = min(content.begin + content.bytes, sector_range.end * SECTOR) - first
            if size <= 0:
                continue
            if not content.path:
                sizes[content.device, content.what] = sizes.get((content.device, content.what), 0) + size
                continue
            offset = None if content.offset < 0 else content.offset + first - content.begin
            last = files[-1] if files else None
            if last and _is_contiguous(last, content.path, content.what, offset):
                last["bytes"] += size
            else:
                location = {"device": content.device, "path": content.path, "offset_bytes": offset}
                files.append({**location, "bytes": size, "what": content.what or None})
    other_contents = [{"device": device, "what": usage, "bytes": size} for (device, usage), size in sizes.items()]
    return {"array_ranges": summary, "files": files, "others": other_contents}


def _is_contiguous(last: dict[str, Any], path: str, usage: str, offset: int | None) -> bool:
    end = None if last["offset_bytes"] is None else last["offset_bytes"] + last["bytes"]
    return (last["path"], last["what"], end) == (path, usage or None, offset)
