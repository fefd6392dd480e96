"""Writes the bad ranges of an array again, from good copies: `blklab md fix entries`.

blklab reads a page through md, which takes it from a good copy, and writes the same data again through md, to all
members. md removes a range from a member's list when the member has stored it (Linux 6.1: drivers/md/raid1.c,
`handle_write_finished`; raid10.c, `handle_write_completed`; raid5.c, `R5_MadeGood`). The data never change, so that an
interrupted run can simply be done again.
"""

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines, inventory
from blklab.md.good_copies import PAGE, Pages, find_lost_ranges, find_rewritable_pages
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember
from blklab.md.probing import journal_path, read_software
from blklab.md.repair import journal
from blklab.md.repair.array_state import find_array_node
from blklab.md.repair.copied_lists import drop_lists, find_disagreement
from blklab.md.repair.pages import PAGE_BYTES, read_page, write_page
from blklab.md.repair.plan import start_task
from blklab.md.repair.preconditions import check_preconditions
from blklab.md.repair.task import RepairTask
from blklab.md.superblocks import SectorRange
from blklab.system.identity import device_number
from blklab.system.roots import Roots, open_descriptor, read_text
from blklab.units import SECTOR

LISTS_TIMEOUT_S = 60.0  # Time for md to write its lists to the disks
COMPARE_PAGES = "read them again from the members, and compare"  # What the last but one step does
WAIT_FOR_LISTS = "wait until md has written the lists to the disks"  # What the last step does


def describe_reads(pages: int) -> str:
    """Returns what the first step does."""
    return f"read the bad ranges from good copies (pages of 4 KiB: {pages:,})"


def describe_writes(pages: int) -> str:
    """Returns what the second step does."""
    return f"write the same data again through md (pages: {pages:,}); stop if a member does not store a page"


class StoppedRepair(BlklabError):
    """A repair stopped for a reason that blklab cannot remove; `remedy` has commands for the user."""

    def __init__(self, message: str, remedy: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class RewritePlan:
    """What is written again."""

    array: Array
    task: RepairTask
    refused: tuple[Diagnostic, ...]  # Why blklab cannot do it now
    pages: Pages
    lost: tuple[SectorRange, ...]  # Sectors of the array of which there is no good copy by the lists
    disagreement: str = ""  # Why the lists of these sectors cannot be dropped; empty if all copies agree

    @property
    def listed(self) -> list[ArrayMember]:
        """The members whose lists have entries."""
        return [member for member in self.array.distinct if member.ranges]

    @property
    def drops_lists(self) -> bool:
        """Whether the lists are dropped, because members can read all that they list, and their copies agree."""
        return bool(self.lost) and not self.pages and not self.disagreement

    @property
    def nothing_to_do(self) -> bool:
        return not self.refused and not self.pages and not self.drops_lists

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [member.name for member in self.listed],
            "bytes": len(self.pages) * PAGE_BYTES,
            "lost": [{"sector": sector_range.sector, "sectors": sector_range.sectors} for sector_range in self.lost],
            "drops_lists": self.drops_lists,
        }


def make_rewrite_plan(name: str, roots: Roots) -> RewritePlan:
    """Returns the plan for an array, by its path or name.

    Raises UsageError if it is not an md array, BlklabError if a repair of it is unfinished.
    """
    return _plan(*start_task(name, roots, entries=True), roots)


def _plan(array: Array, task: RepairTask, roots: Roots) -> RewritePlan:
    refusals = tuple(check_preconditions(array, read_software(roots), roots, entries=True))
    return _describe_entries(array, task, refusals)


def _describe_entries(array: Array, task: RepairTask, refusals: tuple[Diagnostic, ...] = ()) -> RewritePlan:
    """Returns what is in the lists, and whether the members can read and agree on what has no good copy by them."""
    pages = find_rewritable_pages(array)
    lost = find_lost_ranges(array)
    disagreement = find_disagreement(array) if lost and not pages and not refusals else ""
    return RewritePlan(array, task, refusals, pages, lost, disagreement)


def rewrite_entries(
    task: RepairTask, roots: Roots, report: Callable[[str, str], object], advance: Callable[[int, int], object]
) -> RewritePlan:
    """Writes all bad ranges that have a good copy again, verifies them on the members, and drops copied lists.

    `report` is called with each step and its command, `advance` with the pages done and all pages. Returns what is left
    in the lists. Raises StoppedRepair if the array must not be changed now, if a good copy cannot be read (nothing was
    written then), or if a member does not store its data. After the last two nothing is left to undo or to continue:
    the journal is removed.
    """
    node = find_array_node(task.uuid, roots)
    with journal.lock_array(node.name, roots):
        try:
            plan = _rewrite_pages(node, task, roots, report, advance)
            if plan.drops_lists:
                _check_unused(plan, roots)
                journal.write_journal(task, roots)
                drop_lists(plan.array, roots, report)
                plan = _describe_entries(inventory.read_array(node, roots), task)
        except BlklabError:
            with suppress(BlklabError):
                journal.remove_journal(task, roots)
            raise
        journal.remove_journal(task, roots)
    return plan


def _rewrite_pages(
    node: Path,
    task: RepairTask,
    roots: Roots,
    report: Callable[[str, str], object],
    advance: Callable[[int, int], object],
) -> RewritePlan:
    """Writes all pages with a good copy again, and returns what is left in the lists."""
    path = roots.dev / node.name
    array = inventory.read_array(node, roots)
    if not find_rewritable_pages(array):
        if os.path.lexists(journal_path(task.uuid, roots)):  # an interrupted run has written all
            report(
                "an earlier run has written everything, and was ended before it compared what the disks have; "
                "this compares them:",
                command_lines.check_array(str(path)),
            )
        return _describe_entries(array, task)
    # Nothing can mount it, or put a volume or swap on it, meanwhile.
    with ExitStack() as stack:
        with SystemErrors(StoppedRepair, f"{path}: cannot open it alone", ": stop what uses it"):
            descriptor = stack.enter_context(open_descriptor(path, os.O_RDWR | os.O_DIRECT | os.O_EXCL))
        plan = _plan(inventory.read_array(node, roots), task, roots)
        if os.fstat(descriptor).st_rdev != device_number(read_text(node / "dev") or "") or plan.array.uuid != task.uuid:
            raise StoppedRepair(f"{path}: it is another array now: nothing was written")
        if plan.refused:
            raise StoppedRepair(str(plan.refused[0]), plan.refused[0].remedy)
        journal.write_journal(task, roots)
        _Rewrite(plan, node / "md", descriptor, report, advance).run()
        report(WAIT_FOR_LISTS, "")
        return _wait_for_lists(node, task, roots)


def _check_unused(plan: RewritePlan, roots: Roots) -> None:
    """Raises StoppedRepair if an array cannot be stopped now."""
    now = _plan(plan.array, plan.task, roots)
    if now.refused:
        raise StoppedRepair(str(now.refused[0]), now.refused[0].remedy)
    with (
        SystemErrors(StoppedRepair, f"{plan.array.path}: cannot open it alone", ": stop what uses it"),
        open_descriptor(plan.array.path, os.O_RDONLY | os.O_EXCL),
    ):
        return


@dataclass(frozen=True)
class _Rewrite:
    """Writes the pages of one plan."""

    _plan: RewritePlan
    _md: Path  # `/sys/block/md0/md`
    _descriptor: int  # Of the array, with O_DIRECT and O_EXCL
    _report: Callable[[str, str], object]
    _advance: Callable[[int, int], object]

    @property
    def _array(self) -> Array:
        return self._plan.array

    @property
    def _members(self) -> list[ArrayMember]:
        return [member for member in self._array.distinct if member.slot is not None]

    def run(self) -> None:
        pages = sorted(self._plan.pages)
        self._report(describe_reads(len(pages)), "")
        for page in pages:
            self._read(page)
        for member in self._members:
            if "write_error" in member.states:
                line = command_lines.clear_write_error(self._array.name, member.name)
                self._report(f"clear write_error of {member.path}, so that md writes to its bad blocks", line)
                clear_write_error(self._md / f"dev-{member.name}")
        self._report(describe_writes(len(pages)), "")
        digests = {}
        for done, page in enumerate(pages):
            self._advance(done, 2 * len(pages))
            data = self._read(page)
            digests[page] = _digest(data)
            try:
                write_page(self._descriptor, page * PAGE_BYTES, data)
                self._check_states(page)
            except OSError as error:
                self._check_states(page, error.strerror or str(error))
        # Not before: a stripe is consistent when all of its bad pages are written.
        self._report(COMPARE_PAGES, "")
        differing: list[tuple[ArrayMember, int]] = []
        for done, page in enumerate(pages, len(pages)):
            self._advance(done, 2 * len(pages))
            if wrong := [
                position for position in self._plan.pages[page] if not self._is_stored(*position, digests[page])
            ]:
                self._list_again(wrong, page, digests[page])
                differing += wrong
        for member, sector in differing[:1]:
            position = sector + (member.data_offset or 0)
            message = (
                f"{member.path}: sector {position:,} of the member was written, and has other data now; "
                "all such sectors are in its list again, so that md reads them from other members: "
                "the disk, its cable or its controller fails, or another program has written to the array"
            )
            raise StoppedRepair(message, self._remedy)

    def _read(self, page: int) -> bytes:
        """Returns a page of the array; its last one may be shorter. Raises StoppedRepair if it cannot be read."""
        length = min(PAGE_BYTES, (self._array.size or 0) - page * PAGE_BYTES)
        try:
            return read_page(self._descriptor, page * PAGE_BYTES, length)
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"{self._array.path}: cannot read sector {page * PAGE:,}: {reason}"
            raise StoppedRepair(message, (command_lines.audit_arrays(),)) from None

    def _check_states(self, page: int, failure: str = "") -> None:
        """Raises StoppedRepair if the write of a page failed, or a member has not stored it or has left the array."""
        states = {
            member.path: read_text(self._md / f"dev-{member.name}" / "state") or "missing" for member in self._members
        }
        bad = {"write_error", "faulty", "missing"}
        if failing := [f"{path} ({state})" for path, state in states.items() if bad & {*state.split(",")}]:
            message = (
                f"sector {page * PAGE:,} of the array was not stored by {', '.join(failing)}: "
                "the disk, its cable or its controller fails"
            )
            raise StoppedRepair(message, self._remedy)
        if failure:
            message = (
                f"{self._array.path}: cannot write sector {page * PAGE:,}: {failure}; "
                "no member has confirmed that it stored it"
            )
            raise StoppedRepair(message, (command_lines.audit_arrays(),))

    @property
    def _remedy(self) -> tuple[str, ...]:
        return (
            "# The data are on the members that do not list these sectors now. "
            "How to replace a disk of this array without loss:",
            command_lines.plan_fix_bbl(self._array.path),
        )

    def _list_again(self, wrong: list[tuple[ArrayMember, int]], page: int, digest: bytes) -> None:
        """Puts sectors back into members' lists: md then reads them from the others, and does not write them here."""
        with SystemErrors(StoppedRepair, f"{self._array.path}: cannot list sector {page * PAGE} again"):
            for member, sector in wrong:
                node = self._md / f"dev-{member.name}"
                on_disk = sector + (member.data_offset or 0)
                (node / "state").write_text("write_error")
                (node / "bad_blocks").write_text(f"{on_disk} {min(PAGE, self._array.member_sectors - sector)}")
            # md writes its lists to the disks with the next write. Nothing but the data from before is written.
            if _digest(data := self._read(page)) == digest:
                write_page(self._descriptor, page * PAGE_BYTES, data)

    def _is_stored(self, member: ArrayMember, sector: int, digest: bytes) -> bool:
        """Compares what a member has now. With parity, also whether the stripe is consistent: P is the XOR of the data.

        Q of RAID-6 is read only.
        """
        array = self._array
        on_member = SectorRange(sector, min(PAGE, array.member_sectors - sector))
        data = self._read_member(member, on_member)
        good = not array.map_pieces(member.slot or 0, on_member) or _digest(data) == digest
        if array.level in PARITIES:
            stripe = {other.slot or 0: self._read_member(other, on_member) for other in self._members}
            parity = [slot for slot in stripe if not array.map_pieces(slot, on_member)]
            content = (int.from_bytes(stripe[slot]) for slot in stripe if slot not in parity)
            good &= reduce(xor, content) in {int.from_bytes(stripe[slot]) for slot in parity}
        return good

    def _read_member(self, member: ArrayMember, sector_range: SectorRange) -> bytes:
        begin = (sector_range.sector + (member.data_offset or 0)) * SECTOR
        try:
            with open_descriptor(member.path, os.O_RDONLY | os.O_DIRECT) as descriptor:
                return read_page(descriptor, begin, sector_range.sectors * SECTOR)
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"{member.path}: cannot read sector {begin // SECTOR:,}: {reason}"
            raise StoppedRepair(message, self._remedy) from None


def _wait_for_lists(node: Path, task: RepairTask, roots: Roots) -> RewritePlan:
    """Waits until md has written the lists, and returns what is left in them. Raises StoppedRepair if ranges remain."""
    deadline = time.monotonic() + LISTS_TIMEOUT_S
    while True:
        array = inventory.read_array(node, roots)
        plan = _describe_entries(array, task)
        if not plan.pages:
            return plan
        if time.monotonic() > deadline:
            members = ", ".join(member.path for member in plan.listed)
            message = f"{members}: md has not removed all entries of sectors that were written again"
            raise StoppedRepair(message, (command_lines.audit_arrays(),))
        with suppress(OSError):  # md writes its superblocks, with the lists; it refuses while a write is in flight
            (node / "md/array_state").write_text("clean")
        time.sleep(0.25)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def clear_write_error(node: Path) -> None:
    """Makes md write to the bad blocks of a member again (md.rst, `state`)."""
    with SystemErrors(BlklabError, f"{node / 'state'}: cannot clear write_error"):
        (node / "state").write_text("-write_error")
