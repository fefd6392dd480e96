"""Writes sectors of a member that is out to its array, which has lost them: `md fix entries ARRAY --from FILE`.

A normal write through md stores them on all members that have bad blocks there, and md removes these entries
(Linux 6.1: drivers/md/raid1.c, `handle_write_finished`; raid10.c, `handle_write_completed`). Of RAID-4, 5 and 6, md
refuses such a write (raid5.c, `handle_failed_stripe`).

The sectors must not have changed since the member left: the write-intent bitmap proves this. As long as the array is
degraded, md clears no bits of it, and keeps in `events_cleared` up to which event it cleared some (md-bitmap.c,
`md_bitmap_endwrite`). After a write of blklab the bits are dirty: so the proof is recorded before, and an interrupted
run can be repeated. Sectors that are still lost then were not written meanwhile: a write would have removed the entry.
"""

import hashlib
import json
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines, inventory
from blklab.md.audit.rule import list_names
from blklab.md.good_copies import find_lost_ranges, is_current, subtract_ranges
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember, merge_ranges
from blklab.md.probing import read_software
from blklab.md.repair import journal
from blklab.md.repair.pages import PAGE_BYTES, read_page, write_page
from blklab.md.repair.perform import SignalDeferral
from blklab.md.repair.plan import find_array, refuse_unfinished_repair
from blklab.md.repair.preconditions import Reason, check_preconditions, unmet_precondition
from blklab.md.repair.rewrite import LISTS_TIMEOUT_S, StoppedRepair, clear_write_error
from blklab.md.repair.slot_plan import read_array_with_outside
from blklab.md.rescue.saved_sectors import SectorsHeader, read_header, read_ranges
from blklab.md.superblocks import SectorRange
from blklab.output import replace as replace_file
from blklab.system import state_directory
from blklab.system.identity import device_number
from blklab.system.roots import Roots, open_descriptor, read_text
from blklab.units import SECTOR, format_size

BITMAP_EVENTS = struct.Struct("<24xQQ")  # events and events_cleared (drivers/md/md-bitmap.h, bitmap_super_t)
BITMAP_HEADER = 256  # Bytes in front of the bits
BIT_BITMAPS = {3, 4}  # Versions with one bit for each chunk, in the order of the machine; blklab runs on little-endian
PAGE = PAGE_BYTES // SECTOR

Report = Callable[[str, str], object]


@dataclass(frozen=True)
class SectorsPlan:
    """What of a file is written to an array."""

    array: Array
    file: Path
    header: SectorsHeader
    lost: tuple[SectorRange, ...]  # Sectors of the file that no member can return: they are written
    refused: tuple[Diagnostic, ...]

    @property
    def nothing_to_do(self) -> bool:
        return not self.refused and not self.lost

    @property
    def steps(self) -> tuple[str, ...]:
        """What is done, for people."""
        size = format_size(sum(sector_range.sectors for sector_range in self.lost) * SECTOR)
        return (
            "compare the other sectors of the file with the array; stop if one differs",
            f"write {size} of {self.file} through md to array {list_names(list(map(str, self.lost)))}",
            "read them again and compare",
            "wait until md has removed their entries from the lists",
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "file": str(self.file),
            "refused": [reason.sentence for reason in self.refused],
            "bytes": sum(sector_range.sectors for sector_range in self.lost) * SECTOR,
            "lost": [{"sector": sector_range.sector, "sectors": sector_range.sectors} for sector_range in self.lost],
        }


def plan_sectors(name: str, file: Path, roots: Roots) -> SectorsPlan:
    """Returns the plan for an array, by its path or name, and a file of `md rescue --save`.

    Raises UsageError if it is not an md array, BlklabError if the file is damaged or a repair is unfinished.
    """
    named_array = find_array(name, roots)
    refuse_unfinished_repair(named_array, roots)
    array = read_array_with_outside(named_array.name, named_array.uuid, roots)
    header = read_header(file)
    for _ in read_ranges(file, header):  # Compares them with their checksums
        pass
    return _plan(array, file, header, roots)


def _plan(array: Array, file: Path, header: SectorsHeader, roots: Roots) -> SectorsPlan:
    file_ranges = merge_ranges(tuple(SectorRange(place.array_sector, place.sectors) for place in header.ranges))
    lost = subtract_ranges(file_ranges, subtract_ranges(file_ranges, find_lost_ranges(array)))
    refusals = list(check_preconditions(array, read_software(roots), roots, entries=True))
    reasons = list(_check_origin(array, header))
    if not reasons and lost:
        reasons += _check_alignment(array, lost, roots)
        if not _is_recorded(array, header, roots):
            reasons += _check_unchanged(array, header, lost)
    refusals += [unmet_precondition(array, code, message, *remedy) for code, message, *remedy in reasons]
    return SectorsPlan(array, file, header, lost, tuple(refusals))


def _check_origin(array: Array, header: SectorsHeader) -> Iterator[Reason]:
    """Yields why sectors are not those of an array, or can be newer or older than it."""
    if header.array_uuid != array.uuid:
        yield "other-array", f"the file is of array {header.array_uuid}, expected {array.uuid}"
        return
    shape = (header.level, header.layout, header.chunk_bytes, header.raid_disks, header.member_sectors)
    if shape != (array.level, array.layout, array.chunk, array.raid_disks, array.member_sectors):
        yield "reshaped", "the array has another level, layout, chunk or size than when the sectors were saved"
    if array.level in PARITIES:
        yield (
            "parity",
            f"md writes to no stripe of {array.level} of which it has lost more than its parity: copy the files on "
            "these sectors elsewhere, with the data of the file",
        )
    for member in array.members:
        superblock = member.superblock
        if superblock and superblock.device == header.device_uuid and "faulty" not in member.states:
            yield "inside", f"{member.name}, of which the sectors are, is in the array: expected a member that is out"
    for member in array.outside:
        superblock = member.superblock
        if superblock and superblock.device == header.device_uuid and superblock.events != header.events:
            yield (
                "changed",
                f"{member.name} has {superblock.events:,} events now, and had {header.events:,} when its sectors were "
                "saved: save them again",
            )
    newest = max((member.superblock.events for member in array.members if member.superblock), default=0)
    if header.events > newest:
        yield (
            "newer",
            f"the sectors are of a member with {header.events:,} events, the array has only {newest:,}: it was written "
            "to apart from the array",
        )


def _check_alignment(array: Array, lost: Sequence[SectorRange], roots: Roots) -> Iterator[Reason]:
    """Yields why single sectors cannot be written: the logical block of the array is larger."""
    size = read_text(roots.sys / "block" / array.name / "queue/logical_block_size") or ""
    block = int(size) // SECTOR if size.isdecimal() else 1
    uneven = [
        sector_range
        for sector_range in lost
        if block > 1 and (sector_range.sector % block or sector_range.sectors % block)
    ]
    if uneven:
        yield "alignment", f"array {uneven[0]} is no whole number of logical blocks of {block * SECTOR} bytes"


def _check_unchanged(array: Array, header: SectorsHeader, lost: Sequence[SectorRange]) -> Iterator[Reason]:
    """Yields why sectors may have changed since the member left, by the bitmaps of all members in sync."""
    members = [member for member in array.distinct if is_current(array, member)]
    if not members:
        yield "no-member", "no member is in sync"
    for member in members:
        try:
            reason = find_change(member, header, lost)
        except OSError as error:
            reason = f"its bitmap cannot be read: {error.strerror or error}"
        if reason:
            yield "may-have-changed", f"{member.name}: {reason}"


def find_change(member: ArrayMember, header: SectorsHeader, lost: Sequence[SectorRange]) -> str:
    """Returns why a member's bitmap does not prove that sectors of the array are unchanged; empty if it does.

    Of RAID-1 and RAID-10, bits are for sectors of the array (raid10.c, `raid10_write_request`). Raises OSError.
    """
    superblock = member.superblock
    bitmap = superblock.bitmap_superblock if superblock else None
    if superblock is None or bitmap is None:
        return "it has no internal bitmap: whether these sectors were written since the member left is not known"
    if superblock.bitmap_distrusted or bitmap.version not in BIT_BITMAPS or bitmap.chunk < SECTOR:
        return "its bitmap is marked as stale or damaged, or is of another kind than version 4"
    with open_descriptor(member.path, os.O_RDONLY | os.O_DIRECT) as device:
        events, min_event = BITMAP_EVENTS.unpack_from(_read_bytes(device, bitmap.offset, BITMAP_HEADER))
        if events + 1 < superblock.events:
            return f"its bitmap is of event {events:,}, its superblock of {superblock.events:,}: it is not current"
        if min_event > header.events:
            return (
                f"its bitmap knows only what was written since event {min_event:,}, and the member of the file left at "
                f"{header.events:,}"
            )
        for sector_range in lost:
            if sector_range.end > bitmap.sync_size:
                return f"its bitmap covers {bitmap.sync_size:,} sectors, expected array {sector_range} among them"
            first = sector_range.sector * SECTOR // bitmap.chunk
            last = (sector_range.end - 1) * SECTOR // bitmap.chunk
            content = _read_bytes(device, bitmap.offset + BITMAP_HEADER + first // 8, last // 8 - first // 8 + 1)
            bits = int.from_bytes(content, "little") >> first % 8
            if bits & ((1 << (last - first + 1)) - 1):
                return f"by its bitmap, something was written near array {sector_range} since the member left"
    return ""


def _read_bytes(device: int, begin: int, length: int) -> bytes:
    """Reads bytes of a device by whole pages. Raises OSError."""
    content = b""
    first = begin // PAGE_BYTES * PAGE_BYTES
    for offset in range(first, begin + length, PAGE_BYTES):
        content += read_page(device, offset, PAGE_BYTES)
    return content[begin - first : begin - first + length]


def write_sectors(plan: SectorsPlan, roots: Roots, report: Report) -> str:
    """Writes lost sectors to an array, and waits until their entries are gone. Returns what the user must know.

    Raises StoppedRepair if the array is not as it was in the plan, or has other data (nothing was written then), or if
    a member does not store them. It can be repeated with the same file.
    """
    name = plan.array.name
    node = (roots.sys / "block" / name).resolve()
    path = roots.dev / name
    with journal.lock_array(name, roots), SignalDeferral() as signals, ExitStack() as stack:
        with SystemErrors(StoppedRepair, f"{path}: cannot open it alone", ": stop what uses it"):
            descriptor = stack.enter_context(open_descriptor(path, os.O_RDWR | os.O_DIRECT | os.O_EXCL))
        current_plan = _plan(inventory.read_array(node, roots), plan.file, plan.header, roots)
        number = device_number(read_text(node / "dev") or "")
        if os.fstat(descriptor).st_rdev != number or current_plan.array.uuid != plan.array.uuid:
            raise StoppedRepair(f"{path}: it is another array now: nothing was written")
        if current_plan.refused:
            raise StoppedRepair(str(current_plan.refused[0]), current_plan.refused[0].remedy)
        if current_plan.lost != plan.lost:
            raise StoppedRepair(f"{path}: its lists have changed since the plan: run the command again")
        report(current_plan.steps[0], "")
        _compare_others(current_plan, descriptor)
        signals.defer()
        _record(current_plan, roots)
        report(current_plan.steps[1], "")
        for member in current_plan.array.distinct:
            if "write_error" in member.states:
                clear_write_error(node / "md" / f"dev-{member.name}")
        _write_lost(current_plan, descriptor, node / "md")
        report(current_plan.steps[2], "")
        _compare_written(current_plan, descriptor)
        report(current_plan.steps[3], "")
        _wait_for_lists(current_plan, node, roots)
        _remove_record(current_plan.array, roots)
    size = format_size(sum(sector_range.sectors for sector_range in current_plan.lost) * SECTOR)
    return f"{plan.array.path}: {size} written; no list has these sectors any more, and {plan.file} may be deleted"


def _find_pages(plan: SectorsPlan) -> Iterator[tuple[SectorRange, bytes, bool]]:
    """Yields the content of the file in pieces of at most a page, and whether the array has lost them."""
    for place, offset, content in read_ranges(plan.file, plan.header):
        file_range = SectorRange(place.array_sector + offset, len(content) // SECTOR)
        other_ranges = subtract_ranges((file_range,), plan.lost)
        lost_ranges = subtract_ranges((file_range,), other_ranges)
        for ranges, is_lost in ((other_ranges, False), (lost_ranges, True)):
            for part in ranges:
                for sector in range(part.sector, part.end, PAGE):
                    piece = SectorRange(sector, min(PAGE, part.end - sector))
                    begin = (sector - file_range.sector) * SECTOR
                    yield piece, content[begin : begin + piece.sectors * SECTOR], is_lost


def _compare_others(plan: SectorsPlan, descriptor: int) -> None:
    """Raises StoppedRepair if md returns other data than the file, or returns sectors that it should have lost."""
    for page, content, is_lost in _find_pages(plan):
        try:
            data = read_page(descriptor, page.sector * SECTOR, len(content))
        except OSError as error:
            if is_lost:
                continue
            reason = f"cannot be read: {error.strerror or error}"
            raise StoppedRepair(f"{plan.array.path}: array {page} {reason}; nothing was written") from None
        if is_lost:
            raise StoppedRepair(
                f"{plan.array.path}: md can read array {page}, although it lists it: nothing was written"
            )
        if data != content:
            raise StoppedRepair(
                f"{plan.array.path}: md has other data at array {page} than the file: save only sectors that are lost; "
                "nothing was written"
            )


def _write_lost(plan: SectorsPlan, descriptor: int, md: Path) -> None:
    """Writes all lost sectors. Raises StoppedRepair if md or a member does not store them."""
    for page, content, is_lost in _find_pages(plan):
        if not is_lost:
            continue
        failure = ""
        try:
            write_page(descriptor, page.sector * SECTOR, content)
        except OSError as error:
            failure = error.strerror or str(error)
        members = [member for member in plan.array.distinct if is_current(plan.array, member)]
        states = {member.path: read_text(md / f"dev-{member.name}" / "state") or "missing" for member in members}
        bad = {"write_error", "faulty", "missing"}
        failing = [f"{path} ({state})" for path, state in states.items() if bad & {*state.split(",")}]
        if failing or failure:
            who = f"not stored by {', '.join(failing)}" if failing else f"not written: {failure}"
            raise StoppedRepair(
                f"{plan.array.path}: array {page} was {who}: the disk, its cable or its controller fails; "
                f"keep {plan.file}: the command can be repeated with it",
                (command_lines.audit_arrays(),),
            )


def _compare_written(plan: SectorsPlan, descriptor: int) -> None:
    """Raises StoppedRepair if md does not return what was written."""
    for page, content, _ in _find_pages(plan):
        with SystemErrors(StoppedRepair, f"{plan.array.path}: array {page} cannot be read after it was written"):
            data = read_page(descriptor, page.sector * SECTOR, len(content))
        if data != content:
            raise StoppedRepair(
                f"{plan.array.path}: array {page} has other data than what was written: keep {plan.file}"
            )


def _wait_for_lists(plan: SectorsPlan, node: Path, roots: Roots) -> None:
    """Waits until md has removed the entries. Raises StoppedRepair if some remain."""
    deadline = time.monotonic() + LISTS_TIMEOUT_S
    while True:
        lost = find_lost_ranges(inventory.read_array(node, roots))
        remainder = subtract_ranges(plan.lost, subtract_ranges(plan.lost, lost))
        if not remainder:
            return
        if time.monotonic() > deadline:
            message = (
                f"{plan.array.path}: md has not removed all entries of sectors that were written: array {remainder[0]}"
            )
            raise StoppedRepair(message, (command_lines.audit_arrays(),))
        with suppress(OSError):  # md writes its superblocks, with the lists; it refuses while a write is in flight
            (node / "md/array_state").write_text("clean")
        time.sleep(0.25)


def _record_path(array: Array, roots: Roots) -> Path:
    return roots.state / f"saved-sectors-{array.uuid.replace('/', '!')}.json"


def _describe_proof(array: Array, header: SectorsHeader) -> dict[str, str]:
    """Returns what a proof is of: an array, and a file by its header, which has the checksums of its ranges."""
    digest = hashlib.sha256(json.dumps(msgspec.to_builtins(header), sort_keys=True).encode())
    return {"array_uuid": array.uuid, "header_sha256": digest.hexdigest()}


def _record(plan: SectorsPlan, roots: Roots) -> None:
    """Records that the sectors of a file were unchanged before anything of it was written."""
    path = _record_path(plan.array, roots)
    with SystemErrors(BlklabError, f"{path}: cannot be written", "; without it, blklab changes nothing"):
        directory = state_directory.prepare(roots)
        proof = _describe_proof(plan.array, plan.header)
        replace_file(path, json.dumps(proof).encode("ascii"), mode=0o600)
        state_directory.sync(directory)


def _is_recorded(array: Array, header: SectorsHeader, roots: Roots) -> bool:
    """Whether an interrupted run has proved that the sectors of the same file were unchanged."""
    path = _record_path(array, roots)
    if not os.path.lexists(path):
        return False
    try:
        return bool(json.loads(state_directory.read(path)) == _describe_proof(array, header))
    except (ValueError, RecursionError):
        return False


def _remove_record(array: Array, roots: Roots) -> None:
    path = _record_path(array, roots)
    with SystemErrors(BlklabError, f"{path}: cannot be removed"):
        path.unlink(missing_ok=True)
        state_directory.sync(roots.state)
