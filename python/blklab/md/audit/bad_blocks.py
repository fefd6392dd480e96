"""Rules about bad-block lists.

The effects were observed on Linux 6.1 and 6.12 with mdadm 4.2: md skips the member silently when it writes to a listed
range, `repair` of a RAID-1 writes garbage from RAM there, and recovery copies entries.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.md.audit.host import adding_fails
from blklab.md.audit.rule import array_finding, list_names, quote_command
from blklab.md.model import PARITIES, Array, ArrayMember, Software, merge_ranges
from blklab.md.sector_mapping import array_ranges
from blklab.md.superblocks import SECTOR, SectorRange

MAX_RANGES_SHOWN = 8  # Ranges that a message names; the JSON has all


def check_entries(array: Array, software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries: this member's data in these ranges are lost or stale."""
    for member in array.members:
        if not member.ranges:
            continue
        details = tuple(_range_details(array, member, bad_range) for bad_range in member.ranges)
        sectors = sum(bad_range.sectors for bad_range in member.ranges)
        places = list_names([_range_text(detail) for detail in details], MAX_RANGES_SHOWN)
        diagnostic = array_finding(
            array,
            "critical",
            "bbl-entries",
            f"bad-block list has {_count(member.entries, 'entry')}, {_count(sectors, 'sector')}:"
            f" {places}; {_effect(array, member)}",
            *_remedy(array, member, software),
            member=member.name,
        )
        yield replace(diagnostic, ranges=details)


def check_repair(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A RAID-1 has bad blocks: do not run `repair` on it, because that corrupts data."""
    bad = [member.name for member in array.members if member.ranges]
    if array.level != "raid1" or not bad:
        return
    running = array.sync is not None and array.sync.action == "repair"
    yield array_finding(
        array,
        "critical",
        "repair-corrupts",
        ("A REPAIR IS RUNNING: stop it. " if running else "DO NOT run `repair` on this array. ")
        + f"Where {list_names(bad)} has bad blocks, `repair` of a RAID-1 writes garbage from RAM"
        " and removes the entry; the garbage may then replace the good copy. `check` is safe",
        *([quote_command("mdadm", "--action=idle", array.path)] if running else []),
    )


def check_lost_ranges(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """Too many members have bad blocks in the same place: the data there are lost."""
    lost_ranges = find_lost_ranges(array)
    if lost_ranges:
        details = tuple(_lost_range_details(array, lost_range) for lost_range in lost_ranges)
        places = list_names([str(lost_range) for lost_range in lost_ranges], MAX_RANGES_SHOWN)
        unit = "array sectors" if array.level in {"raid1", "raid10"} else "sectors of the members"
        diagnostic = array_finding(
            array,
            "critical",
            "bbl-lost",
            f"too many members have bad blocks in the same place: reads there fail"
            f" ({unit} {places}); restore the data there from a backup",
        )
        yield replace(diagnostic, ranges=details)


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
        message = (
            f"{list_names(names)} have {_count(len(shared), 'bad range')} in common: different disks do not fail in "
            "the same sectors, so a recovery has copied the entries from one member to another (md does this where it "
            "has no good source)"
        )
        yield array_finding(array, "critical", "bbl-copied", message)


def check_full_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list is full: md fails the member at the next write error."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.full and not bad.empty_entries:
            message = (
                f"bad-block list is full ({bad.room} entries; sysfs shows only the first page of them): md fails the "
                "member at the next write error"
            )
            yield array_finding(array, "critical", "bbl-full", message, member=member.name)
        elif member.listed_cut and bad is None:
            message = (
                "sysfs shows a full page of bad blocks: the list is full or nearly full; run as root to read all of it "
                "from the disk"
            )
            yield array_finding(array, "critical", "bbl-full", message, member=member.name)


def check_empty_entries(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A bad-block list has entries of 0 sectors: its area was never written."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.empty_entries:
            message = (
                f"bad-block list is marked as in use, but {bad.empty_entries} of its entries have 0 sectors: its area "
                "was never written; a failed `--add` on Linux 6.12 leaves such a list"
            )
            yield array_finding(array, "warning", "bbl-zeros", message, member=member.name)


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
            yield array_finding(array, "warning", "bbl-disagree", message, member=member.name)


def check_write_errors(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """A write to a member failed, and md reported it to no one."""
    for member in array.members:
        states_shown = [word for word in ("write_error", "want_replacement") if word in member.states]
        if states_shown and "in_sync" in member.states and "faulty" not in member.states:
            disk = quote_command("smartctl", "--all", member.path)
            message = (
                f"is in sync and has the state {' and '.join(states_shown)}: a write failed, and md listed it as a bad "
                "block; /proc/mdstat, mdadm --detail and mdadm's mail do not report this"
            )
            yield array_finding(array, "critical", "write-error", message, disk, member=member.name)


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
        message = (
            f"{list_names(names)} {'have empty bad-block lists' if names[1:] else 'has an empty bad-block list'}: the "
            "next write error is hidden there, and the array still looks healthy; without a list, md fails the member"
        )
        yield array_finding(
            array, "note", "bbl-empty", message, quote_command("blklab", "md", "fix", "bbl", array.path)
        )


def check_no_lists(array: Array, _software: Software | None) -> Iterator[Diagnostic]:
    """No member has a bad-block list: write errors cannot be hidden."""
    if array.members and all(member.superblock and member.bad_blocks is None for member in array.members):
        yield array_finding(array, "note", "bbl-none", "no bad-block list is configured on any member")


def find_lost_ranges(array: Array) -> tuple[SectorRange, ...]:
    """Returns the ranges where more members have bad blocks than the level tolerates.

    RAID-1 and 10: sectors of the array. Parity: sectors of the members, from their data offset.
    """
    if not array.redundant or array.reshaping:
        return ()
    edges: dict[int, int] = defaultdict(int)
    for member in array.distinct:
        for bad_range in member.ranges if member.slot is not None else ():
            for piece in _comparable_ranges(array, member, bad_range):
                edges[piece.sector] += 1
                edges[piece.end] -= 1
    lacking = array.degraded or 0
    if array.level == "raid10":
        tolerated = (array.layout & 0xFF) * (array.layout >> 8 & 0xFF) - 1
        lacking = 0  # which copies a missing member held is not known here
    else:
        tolerated = PARITIES.get(array.level, array.raid_disks - 1)
    lost_ranges, depth, begin = [], 0, 0
    for at in sorted(edges):
        if depth and depth + lacking > tolerated and at > begin:
            lost_ranges.append(SectorRange(begin, at - begin))
        depth, begin = depth + edges[at], at
    return merge_ranges(tuple(lost_ranges))


def _comparable_ranges(array: Array, member: ArrayMember, bad_range: SectorRange) -> tuple[SectorRange, ...]:
    if array.level in {"raid1", "raid10"}:
        return array_ranges(array, member, bad_range) or ()
    begin = max(0, bad_range.sector - (member.data_offset or 0))
    last = bad_range.end - (member.data_offset or 0)
    return (SectorRange(begin, last - begin),) if last > begin else ()


def _range_details(array: Array, member: ArrayMember, bad_range: SectorRange) -> dict[str, Any]:
    return {
        "member_sector": bad_range.sector,
        "sectors": bad_range.sectors,
        **_file_locations(array, array_ranges(array, member, bad_range)),
    }


def _lost_range_details(array: Array, lost_range: SectorRange) -> dict[str, Any]:
    """Returns a range of `find_lost_ranges`: with parity, the data that all members have there."""
    if array.level in {"raid1", "raid10"}:
        return {"member_sector": None, "sectors": lost_range.sectors, **_file_locations(array, (lost_range,))}
    mapped = []
    for member in array.distinct:
        if member.slot is not None and member.ranges and member.data_offset is not None:
            on_member = SectorRange(lost_range.sector + member.data_offset, lost_range.sectors)
            mapped += list(array_ranges(array, member, on_member) or ())
    return {"member_sector": None, "sectors": lost_range.sectors, **_file_locations(array, merge_ranges(tuple(mapped)))}


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
    if array.level in PARITIES:
        return "md computes the data there from the other members, which then tolerate one failure fewer"
    good = [
        other.name
        for other in array.distinct
        if other.slot not in {None, member.slot} and not other.ranges and _is_current(array, other)
    ]
    if array.level != "raid1" or not good:
        return "one copy fewer there: only the other members hold current data"
    copies = "the only good copy is" if len(good) == 1 else "good copies are"
    return f"one copy fewer there: {copies} on {list_names(good)}"


def _is_current(array: Array, member: ArrayMember) -> bool:
    """Whether a member holds all data, apart from its bad blocks."""
    if array.live:
        return "in_sync" in member.states
    superblock = member.superblock
    newest = max((other.superblock.events for other in array.distinct if other.superblock), default=0)
    return superblock is not None and superblock.recovery is None and superblock.events >= newest - 1


def _remedy(array: Array, member: ArrayMember, software: Software | None) -> list[str]:
    """Returns commands that rewrite a member's bad ranges, then those that rebuild the member."""
    examine = quote_command("mdadm", "--examine-badblocks", member.path)
    others = [other for other in array.active if other is not member and "in_sync" in other.states]
    complete = len(others) >= array.raid_disks - 1 and not array.degraded and array.sync is None
    if not (complete and array.redundant and member.slot is not None) or find_lost_ranges(array):
        return [examine]
    commands = [
        quote_command("smartctl", "--all", member.path),
        "# If the disk is healthy, rewrite the bad ranges. Unmount first: nothing else may write to the array then.",
        *rewrite_commands(array, member, MAX_RANGES_SHOWN),
        f"{examine}   # must show no entries",
    ]
    # A disk that cannot be added again must stay in the array.
    if not any(other.ranges or other.unseen for other in others) and not adding_fails(array, software):
        commands.append("# Only if entries remain, rebuild the whole member: hours with one copy or parity fewer.")
        commands += rebuild_commands(array, member)
    return commands


def rewrite_commands(array: Array, member: ArrayMember, most: int | None = None) -> Iterator[str]:
    """Yields commands that read bad ranges from the array and write them back, in full pages.

    At most `most` ranges.
    """
    yield f"echo -write_error > {shlex.quote(f'/sys/block/{array.name}/md/dev-{member.name}/state')}"
    for bad_range in member.ranges[:most]:
        mapped = array_ranges(array, member, bad_range)
        if not mapped:
            yield f"# {bad_range} of the member holds parity or no data: only a rebuild rewrites it."
        for at in mapped or ():
            first, last = at.sector // 8, -(-at.end // 8)
            yield quote_command(
                "dd", f"if={array.path}", f"of={array.path}", "bs=4096", f"skip={first}",
                f"seek={first}", f"count={last - first}", "iflag=direct", "oflag=direct",
                "conv=notrunc",
            )  # fmt: skip
    if most is not None and len(member.ranges) > most:
        plan = quote_command("blklab", "md", "fix", "bbl", array.path, "--plan")
        yield f"# and {len(member.ranges) - most} more ranges: `{plan}` prints all commands"


def rebuild_commands(array: Array, member: ArrayMember) -> list[str]:
    """Returns the commands that rebuild all of a member, as if it were a new disk."""
    return [
        quote_command("mdadm", array.path, "--fail", member.path),
        quote_command("mdadm", array.path, "--remove", member.path),
        quote_command("mdadm", "--zero-superblock", member.path),
        quote_command("mdadm", array.path, "--add", member.path),
    ]


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
