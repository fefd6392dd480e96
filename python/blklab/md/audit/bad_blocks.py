"""Bad-block lists: what they hold, and what they do to an array.

What they do was seen on Linux 6.1 and 6.12 with mdadm 4.2: writes to a listed range skip the
member without a word, `repair` of a RAID-1 writes other memory there, and recovery copies entries.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.md.audit.host import adding_fails
from blklab.md.audit.rule import AuditedHost, command, listed, say
from blklab.md.model import PARITIES, Array, ArrayMember, merged
from blklab.md.sector_mapping import array_ranges
from blklab.md.superblocks import SECTOR, SectorRange

SHOWN = 8
"""Ranges that a message has; all are in the JSON."""


def entries(array: Array, host: AuditedHost) -> Iterator[Diagnostic]:
    """Lists that have entries: the copies there are lost or stale."""
    for member in array.members:
        if not member.ranges:
            continue
        details = tuple(_detail(array, member, range_) for range_ in member.ranges)
        sectors = sum(one.sectors for one in member.ranges)
        words = listed([_words(detail) for detail in details], SHOWN)
        meaning = (
            "what lies there has a copy or parity less"
            if array.redundant
            else "reading there is an error"
        )
        diagnostic = say(
            array,
            "critical",
            "bbl-entries",
            f"bad-block list has {_count(member.entries, 'entry')}, {_count(sectors, 'sector')}"
            f"; {meaning}: {words}",
            *_refill(array, member, host),
            member=member.name,
        )
        yield replace(diagnostic, ranges=details)


def repair(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A RAID-1 with entries must not be repaired."""
    bad = [member.name for member in array.members if member.ranges]
    if array.level != "raid1" or not bad:
        return
    running = array.sync is not None and array.sync.action == "repair"
    yield say(
        array,
        "critical",
        "repair-corrupts",
        ("A REPAIR IS RUNNING: stop it. " if running else "DO NOT `repair` this array: ")
        + f"where {listed(bad)} has bad blocks, repair of a RAID-1 writes other memory's content"
        " and drops the entry, and the wrong data may then replace the good copy; `check` is"
        " harmless",
        *([command("mdadm", "--action=idle", array.path)] if running else []),
    )


def lost(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Ranges that no copy and no parity is left of."""
    gone = sectors_lost(array)
    if gone:
        details = tuple(_lost(array, range_) for range_ in gone)
        words = listed([str(one) for one in gone], SHOWN)
        what = "array sectors" if array.level in {"raid1", "raid10"} else "sectors of the members"
        diagnostic = say(
            array,
            "critical",
            "bbl-lost",
            f"too many members have bad blocks in the same place: reading is an error there"
            f" ({what} {words}); restore what lies there from a backup, by writing it",
        )
        yield replace(diagnostic, ranges=details)


def copied(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """The same entries on several members: copied by a recovery, most likely."""
    holders: dict[SectorRange, list[str]] = defaultdict(list)
    for member in array.members:
        for range_ in member.ranges:
            begin = range_.sector - (member.data_offset or 0)
            holders[SectorRange(begin, range_.sectors)].append(member.name)
    shared = {one: names for one, names in holders.items() if len(names) > 1}
    if shared:
        names = sorted({name for holding in shared.values() for name in holding})
        yield say(
            array,
            "critical",
            "bbl-copied",
            f"{listed(names)} list {_count(len(shared), 'same range')}: different disks do not fail"
            " in the same sectors, so a recovery has copied the list from one to the other (it does"
            " where it has no good source)",
        )


def full(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """A list without room: the next error throws the member out."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.full and not bad.empty_entries:
            yield say(
                array,
                "critical",
                "bbl-full",
                f"bad-block list is full ({bad.room} entries; sysfs shows fewer, for it ends at a"
                " page): at the next write error the member is failed",
                member=member.name,
            )
        elif member.listed_cut and bad is None:
            yield say(
                array,
                "critical",
                "bbl-full",
                "sysfs shows a page of bad blocks and no more: the list is full or nearly so, and"
                " only the disk tells it all (read it as root)",
                member=member.name,
            )


def zeros(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Entries of no sectors: an area of zeros that is said to be a list."""
    for member in array.members:
        bad = member.bad_blocks
        if bad and bad.empty_entries:
            yield say(
                array,
                "warning",
                "bbl-zeros",
                f"bad-block list is said to have entries, and {bad.empty_entries} of them are of 0"
                " sectors: an area that was never written, as a failed `--add` leaves it on Linux"
                " 6.12",
                member=member.name,
            )


def disagreement(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """What the kernel has in memory, and what is on the disk."""
    for member in array.members:
        bad = member.bad_blocks
        if member.listed is None or member.listed_cut or (bad is None and member.unseen):
            continue
        disk = merged(bad.ranges) if bad else ()
        memory = merged(member.listed)
        if disk != memory:
            yield say(
                array,
                "warning",
                "bbl-disagree",
                f"bad-block list on the disk has {_sectors(disk)}, the kernel's has"
                f" {_sectors(memory)}, which is written with the next superblock, and lost if the"
                " machine stops before",
                member=member.name,
            )


def states(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Write errors that nobody was told of."""
    for member in array.members:
        states_shown = [
            word for word in ("write_error", "want_replacement") if word in member.states
        ]
        if states_shown and "in_sync" in member.states and "faulty" not in member.states:
            disk = command("smartctl", "--all", member.path)
            yield say(
                array,
                "critical",
                "write-error",
                f"is in sync and has {' and '.join(states_shown)}: a write failed and was"
                " listed as a bad block; mdstat, --detail and mdadm's mail say nothing of it",
                disk,
                member=member.name,
            )


def empty(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Lists that are configured and empty: the next write error will be hidden in them."""
    if not array.redundant:
        return
    having = [
        member for member in array.members if member.bad_blocks is not None and not member.ranges
    ]
    having = [one for one in having if one.bad_blocks and not one.bad_blocks.empty_entries]
    if having:
        yield say(
            array,
            "note",
            "bbl-empty",
            f"bad-block lists of {listed([one.name for one in having])} are empty: a write error"
            " would be hidden in one, and the array look whole, instead of failing the member",
            command("blklab", "md", "fix", "bbl", array.path),
        )


def none(array: Array, _host: AuditedHost) -> Iterator[Diagnostic]:
    """Nothing to fear from lists: said, so that nobody must wonder."""
    if array.members and all(
        member.superblock and member.bad_blocks is None for member in array.members
    ):
        yield say(array, "note", "bbl-none", "no bad-block list is configured on any member")


def sectors_lost(array: Array) -> tuple[SectorRange, ...]:
    """Returns where more members have bad blocks than the level outlives.

    Sectors of the array for RAID-1 and 10; of the members, without data offset, for parity.
    """
    if not array.redundant or array.reshaping:
        return ()
    edges: dict[int, int] = defaultdict(int)
    for member in array.active:
        for range_ in member.ranges:
            for piece in _pieces(array, member, range_):
                edges[piece.sector] += 1
                edges[piece.end] -= 1
    lacking = array.degraded or 0
    if array.level == "raid10":
        outlived = (array.layout & 0xFF) * (array.layout >> 8 & 0xFF) - 1
        lacking = 0  # which copies were on a member that is gone is not told here
    else:
        outlived = PARITIES.get(array.level, array.raid_disks - 1)
    lost_ranges, depth, begin = [], 0, 0
    for at in sorted(edges):
        if depth and depth + lacking > outlived and at > begin:
            lost_ranges.append(SectorRange(begin, at - begin))
        depth, begin = depth + edges[at], at
    return merged(tuple(lost_ranges))


def _pieces(array: Array, member: ArrayMember, range_: SectorRange) -> tuple[SectorRange, ...]:
    if array.level in {"raid1", "raid10"}:
        return array_ranges(array, member, range_) or ()
    begin = max(0, range_.sector - (member.data_offset or 0))
    last = range_.end - (member.data_offset or 0)
    return (SectorRange(begin, last - begin),) if last > begin else ()


def _detail(array: Array, member: ArrayMember, range_: SectorRange) -> dict[str, Any]:
    mapped = array_ranges(array, member, range_)
    return {
        "member_sector": range_.sector,
        "sectors": range_.sectors,
        **_file_locations(array, mapped),
    }


def _lost(array: Array, range_: SectorRange) -> dict[str, Any]:
    """A range of `sectors_lost`: of parity, what of each member's data is there."""
    if array.level in {"raid1", "raid10"}:
        return {
            "member_sector": None,
            "sectors": range_.sectors,
            **_file_locations(array, (range_,)),
        }
    mapped = []
    for member in array.active:
        if member.ranges and member.data_offset is not None:
            own = SectorRange(range_.sector + member.data_offset, range_.sectors)
            mapped += list(array_ranges(array, member, own) or ())
    return {
        "member_sector": None,
        "sectors": range_.sectors,
        **_file_locations(array, merged(tuple(mapped))),
    }


def _words(detail: dict[str, Any]) -> str:
    own = str(SectorRange(detail["member_sector"], detail["sectors"]))
    mapped = detail["array_ranges"]
    if mapped is None:
        return f"{own} (of the member)"
    if not mapped:
        return f"{own} (no data of the array)"
    return f"{own} (array {listed([str(SectorRange(**at)) for at in mapped], 3)})"


def _refill(array: Array, member: ArrayMember, host: AuditedHost) -> list[str]:
    """Commands that have a member written anew from the others: only where all of it is there."""
    others = [
        member_ for member_ in array.active if member_ is not member and "in_sync" in member_.states
    ]
    alone = len(others) >= array.raid_disks - 1 and not array.degraded and array.sync is None
    # A disk that cannot be added again must not be taken out.
    if (
        not (alone and array.redundant and member.slot is not None)
        or any(one.ranges or one.unseen for one in others)
        or adding_fails(array, host)
    ):
        return [command("mdadm", "--examine-badblocks", member.path)]
    return [command("smartctl", "--all", member.path), *written_anew(array, member)]


def written_anew(array: Array, member: ArrayMember) -> list[str]:
    """Returns the commands that have all of a member written anew, as if it were another disk."""
    return [
        command("mdadm", array.path, "--fail", member.path),
        command("mdadm", array.path, "--remove", member.path),
        command("mdadm", "--zero-superblock", member.path),
        command("mdadm", array.path, "--add", member.path),
    ]


def _count(many: int, what: str) -> str:
    many_of = {"entry": "entries"}.get(what, what + "s")
    return f"{many:,} {what if many == 1 else many_of}"


def _sectors(ranges: tuple[SectorRange, ...]) -> str:
    sectors = sum(range_.sectors for range_ in ranges)
    return f"{_count(sectors, 'sector')} in {_count(len(ranges), 'range')}"


def _file_locations(array: Array, mapped: tuple[SectorRange, ...] | None) -> dict[str, Any]:
    """Returns where ranges are on the array and, if that was asked, which files lie there."""
    summary = (
        None if mapped is None else [{"sector": at.sector, "sectors": at.sectors} for at in mapped]
    )
    if array.contents is None:
        return {"array_ranges": summary}
    files: list[dict[str, Any]] = []
    others: dict[tuple[str, str], int] = {}
    for content in array.contents:
        for at in mapped or ():
            first = max(content.begin, at.sector * SECTOR)
            many = min(content.begin + content.bytes, at.end * SECTOR) - first
            if many <= 0:
                continue
            if not content.path:
                others[content.device, content.what] = (
                    others.get((content.device, content.what), 0) + many
                )
                continue
            offset = None if content.offset < 0 else content.offset + first - content.begin
            last = files[-1] if files else None
            if last and _goes_on(last, content.path, content.what, offset):
                last["bytes"] += many
            else:
                files.append(
                    {
                        "device": content.device,
                        "path": content.path,
                        "offset_bytes": offset,
                        "bytes": many,
                        "what": content.what or None,
                    }
                )
    rest = [{"device": on, "what": what, "bytes": many} for (on, what), many in others.items()]
    return {"array_ranges": summary, "files": files, "others": rest}


def _goes_on(last: dict[str, Any], path: str, what: str, offset: int | None) -> bool:
    if (last["path"], last["what"]) != (path, what or None):
        return False
    begin = last["offset_bytes"]
    return (None if begin is None else begin + last["bytes"]) == offset
