"""Drops bad-block lists that say nothing about the disks: every listed sector can be read, and all copies agree.

A recovery copies entries from one member to another. If enough members list the same sectors, md refuses to read and
to write them, although the disks can (Linux 6.1: drivers/md/raid5.c, `handle_failed_stripe`; raid1.c, `read_balance`).
Only `mdadm --assemble --update=force-no-bbl` drops such lists. It also presents stale data as good, so blklab first
compares what the members have in each listed page, and again when the array is stopped.
"""

import os
from collections import defaultdict
from collections.abc import Callable
from functools import reduce
from operator import xor
from pathlib import Path

from blklab.errors import BlklabError
from blklab.md import command_lines
from blklab.md.good_copies import PAGE, find_lost_ranges, find_rewritable_pages, has_garbage_list, subtract_ranges
from blklab.md.inventory import read_array
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, merge_ranges
from blklab.md.repair import operations
from blklab.md.repair.pages import read_page
from blklab.md.repair.perform import SignalDeferral
from blklab.md.superblocks import SectorRange, read_superblocks
from blklab.system.roots import Roots, open_descriptor
from blklab.units import SECTOR


def find_disagreement(array: Array) -> str:
    """Returns why the lists of an array cannot be dropped; empty if all copies of every listed page agree.

    Reads only. `array` must be complete, without ranges that md can still write again from good copies.
    """
    if array.degraded or array.reshaping or any(member.unseen for member in array.members):
        return "not all members are there"
    if any(has_garbage_list(member) for member in array.members):
        return "a list is damaged"
    if find_rewritable_pages(array):
        return "some sectors can still be written again from good copies"
    members = [member for member in array.distinct if member.slot is not None]
    if len(members) != array.raid_disks:
        return "not all members are there"
    try:
        if array.level in PARITIES:
            return _compare_stripes(array, members)
        return _compare_copies(array, members)
    except OSError as error:
        return f"a member cannot read a listed sector ({error.strerror or error})"


def _compare_copies(array: Array, members: list[ArrayMember]) -> str:
    copies: dict[int, list[tuple[ArrayMember, SectorRange]]] = defaultdict(list)
    for member in members:
        for row in _find_list_pages(array, member):
            on_member = _page_of_member(array, row)
            for piece in array.map_pieces(member.slot or 0, on_member) or ():
                copies[piece.sector // PAGE].append((member, on_member))
    for page, places in copies.items():
        holders = array.sector_map.slots(page * PAGE) if array.sector_map else []
        if len(places) != len(holders):
            return f"not all copies of array sector {page * PAGE} are listed"
        contents = {_read(member, on_member) for member, on_member in places}
        if len(contents) > 1:
            return f"the copies of array sector {page * PAGE} differ"
    return ""


def _compare_stripes(array: Array, members: list[ArrayMember]) -> str:
    """Compares parity with data. Q of RAID-6 is read only."""
    rows = {row for member in members for row in _find_list_pages(array, member)}
    for row in sorted(rows):
        on_member = _page_of_member(array, row)
        stripe = {member.slot or 0: _read(member, on_member) for member in members}
        parity = [slot for slot in stripe if not array.map_pieces(slot, on_member)]
        data = [int.from_bytes(stripe[slot]) for slot in stripe if slot not in parity]
        if reduce(xor, data) not in {int.from_bytes(stripe[slot]) for slot in parity}:
            return f"parity does not match the data at sector {on_member.sector} of the members' data"
    return ""


def _find_list_pages(array: Array, member: ArrayMember) -> set[int]:
    """Returns the pages of a member's data that its list touches, by their number."""
    offset = member.data_offset or 0
    pages: set[int] = set()
    for bad_range in member.ranges:
        first = max(0, bad_range.sector - offset)
        end = min(bad_range.end - offset, array.member_sectors)
        pages.update(range(first // PAGE, -(-end // PAGE)))
    return pages


def _page_of_member(array: Array, row: int) -> SectorRange:
    return SectorRange(row * PAGE, min(PAGE, array.member_sectors - row * PAGE))


def _read(member: ArrayMember, sector_range: SectorRange) -> bytes:
    with open_descriptor(member.path, os.O_RDONLY | os.O_DIRECT) as descriptor:
        return read_page(
            descriptor, (sector_range.sector + (member.data_offset or 0)) * SECTOR, sector_range.sectors * SECTOR
        )


def _find_change(array: Array) -> str:
    """Returns why the lists on the disks of a stopped array are not those that were compared; empty if they are."""
    for member in array.members:
        if member.slot is None:
            continue
        superblocks = [
            superblock for superblock in read_superblocks(Path(member.path)).members if superblock.uuid == array.uuid
        ]
        on_disk = [superblock.bad_blocks.ranges if superblock.bad_blocks else () for superblock in superblocks]
        if len(superblocks) != 1 or (member.superblock and superblocks[0].device != member.superblock.device):
            return f"{member.path} is another disk"
        if subtract_ranges(merge_ranges(on_disk[0]), member.ranges):
            return f"the list of {member.path} has new entries"
    return ""


def drop_lists(array: Array, roots: Roots, report: Callable[[str, str], object]) -> None:
    """Stops an array whose copies agree, and assembles it without bad-block lists.

    Raises BlklabError if it cannot be stopped, or does not run afterwards. If the copies do not agree any more, the
    array is assembled with its lists.
    """
    # Spares too: after the assembly, the array must not have fewer than before.
    members = [member.path for member in array.members if "faulty" not in member.states]
    with SignalDeferral() as signals:
        line = command_lines.stop_array(array.path)
        report(f"stop {array.name}", line)
        signals.defer()
        output = operations.run_line(line)
        if (roots.sys / "block" / array.name / "md").exists():
            raise BlklabError(f"{array.path}: cannot be stopped (mdadm printed: {output.last}): stop what uses it")
        disagreement = _find_change(array) or find_disagreement(array)
        if disagreement:
            line = command_lines.assemble_array(array.path, members)
            report(f"assemble it with its lists, because {disagreement} now", line)
        else:
            line = command_lines.assemble_dropping_lists(array.path, members)
            report("assemble it without lists", line)
        output = operations.run_line(line)
    after = read_array(Path(roots.sys / "block" / array.name), roots)
    if after.uuid != array.uuid or after.degraded or find_lost_ranges(after):
        audit = command_lines.audit_arrays()
        raise BlklabError(f"{array.path}: not as expected after `{line}` (mdadm printed: {output.last}): run {audit}")
