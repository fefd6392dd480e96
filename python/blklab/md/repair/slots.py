"""Puts a disk into a slot of an array, replaces a member, or takes one out, after all members were read.

mdadm's own commands, typed one after the other, destroy data if something has changed in between: a sector that cannot
be read any more, another disk of the same name. blklab looks again before each step, under one lock, and writes into
its journal what must be continued after a crash. It decides only by what sysfs and the superblocks show then.
"""

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines
from blklab.md.good_copies import (
    find_bad_pieces,
    find_lost_ranges,
    find_ranges_only_outside,
    find_sources_outside,
    is_redundant_without,
    subtract_ranges,
)
from blklab.md.inventory import parse_number
from blklab.md.model import Array, ArrayMember
from blklab.md.probing import journal_path
from blklab.md.recipes import DISK, NEW_DISK
from blklab.md.repair import journal
from blklab.md.repair.array_state import find_array_node
from blklab.md.repair.measure import Advance, Measurement
from blklab.md.repair.operations import CommandOutput, MachineOps
from blklab.md.repair.perform import POLL_INTERVAL_S, STALL_TIMEOUT_S, STEP_TIMEOUT_S, SignalDeferral
from blklab.md.repair.rewrite import StoppedRepair
from blklab.md.repair.slot_plan import (
    check_adding,
    check_duplicates,
    check_new_disk,
    find_device,
    find_own_superblock,
    read_array_by_name,
    read_array_with_outside,
)
from blklab.md.repair.slot_task import DiskFacts, SlotTask
from blklab.md.repair.steps import RUNNING_STATES
from blklab.md.superblocks import SectorRange, Superblock, read_superblocks
from blklab.system.identity import BlockDevice, device_number, find_by_id, of_node
from blklab.system.roots import entries, open_descriptor, read_text
from blklab.system.signatures import signatures

Report = Callable[[str, str], object]  # Called with each step, and its command or an empty string
Unreadable = dict[str, tuple[SectorRange, ...]]  # By the path of a member


class SlotRepair:
    """Carries out one task on a slot of an array."""

    def __init__(self, task: SlotTask, ops: MachineOps, report: Report, advance: Advance) -> None:
        self.task = task
        self._ops = ops
        self._roots = ops.roots
        self._report = report
        self._advance = advance
        self._signals = SignalDeferral()
        self._name = ""  # Of the array in sysfs, `md0`
        self._is_resumed = False  # The journal is of an earlier run: names of disks may be others by now

    def run(self) -> str:
        """Carries out the task, or continues it after a crash. Returns what the user must know at the end.

        Raises StoppedRepair if the array must not be changed now: nothing is left to undo then.
        """
        self._name = find_array_node(self.task.uuid, self._roots).name
        with journal.lock_array(self._name, self._roots), self._signals:
            self._is_resumed = self._has_journal()
            self._check_running()
            try:
                match self.task.operation:
                    case "add":
                        result = self._add()
                    case "replace":
                        result = self._replace()
                    case "rebuild":
                        result = self._rebuild()
                    case "remove":
                        result = self._remove()
            except StoppedRepair:
                with suppress(BlklabError):
                    journal.remove_journal(self.task, self._roots)
                raise
            journal.remove_journal(self.task, self._roots)
        return result

    # --- the operations ---

    def _add(self) -> str:
        disk = self._find_in_array(self.task.disk)
        if disk is None or "faulty" in disk.states:
            unreadable = self._measure(self._read().active)
            self._stop_if_unique_data_is_outside(unreadable)
            journal.write_journal(self.task, self._roots)
            self._signals.defer()  # An mdadm that is killed leaves a disk half added
            self._put_in(self.task.disk, whole=False)
            self._signals.deliver()
        name = self._wait_until_in_sync(self.task.disk)
        return self._describe_result(name)

    def _replace(self) -> str:
        old = self._find_in_array(self._old)
        if old is None:
            return self._finish_replacement()
        new = self._find_in_array(self.task.disk)
        if new is None:
            array = self._read()
            self._stop_unless_complete(array)
            device = self._find_disk(self.task.disk)
            if self._check_again(array, device) is not None:
                self._stop_if_former_member_is_needed(device)
            journal.write_journal(self.task, self._roots)
            self._signals.defer()
            self._add_empty(device, self.task.disk)
            self._signals.deliver()
            new = self._find_in_array(self.task.disk)
        if new is not None and "in_sync" not in new.states and "replacement" not in new.states:
            line = command_lines.replace_disk(self._path, old.path, new.path)
            self._report(f"copy {old.name} onto {new.name}", line)
            output = self._run_mdadm(line)
            # A small array is copied before blklab looks: then the new disk is in sync, and no replacement any more.
            if not self._happens(lambda: bool({"replacement", "in_sync", "faulty"} & {*self._states(self.task.disk)})):
                message = f"{self._path}: md does not replace {old.path} (mdadm printed: {output.last})"
                raise StoppedRepair(f"{message}: {old.path} is still in the array", (command_lines.audit_arrays(),))
        self._wait_until_in_sync(self.task.disk)
        return self._finish_replacement()

    def _finish_replacement(self) -> str:
        """Removes the old member, which md has failed when the new one was in sync."""
        new = self._find_in_array(self.task.disk)
        if new is None or "in_sync" not in new.states:
            raise StoppedRepair(f"{self._path}: {self.task.disk.path} is not in sync: see blklab md audit")
        old = self._find_in_array(self._old)
        if old is not None and "faulty" in old.states:
            self._remove_failed(old)
        return self._describe_result(new.name)

    def _remove(self) -> str:
        member = self._find_in_array(self.task.disk)
        if member is None:
            return f"{self.task.disk.path} is out of {self._path}"
        if "faulty" not in member.states:
            array = self._read()
            self._stop_unless_complete(array)
            other_members = [other for other in array.active if other.name != member.name]
            unreadable = self._measure(other_members)
            array = self._read()
            self._stop_unless_complete(array)
            member = self._find_again()
            self._stop_if_lost_without(array, member, unreadable)
            self._fail(member)
        self._remove_failed(member)
        if not self._read().degraded:
            return f"{member.path} is out of {self._path}, which is complete"
        return (
            f"{member.path} is out of {self._path}: keep it as it is until the rebuild has ended. When the new disk is"
            f" connected: {command_lines.fix_add(self._path, NEW_DISK)}"
        )

    def _rebuild(self) -> str:
        member = self._find_in_array(self.task.disk)
        # A rebuilt disk has another superblock: this one was not taken out before the crash.
        is_untouched = member is not None and "in_sync" in member.states and bool(self.task.disk.device)
        if not self.task.out or is_untouched:
            array = self._read()
            self._stop_unless_complete(array)
            member = self._find_again()
            other_members = [other for other in array.active if other.name != member.name]
            unreadable = self._measure(other_members)
            array = self._read()
            self._stop_unless_complete(array)
            member = self._find_again()
            self._stop_unless_redundant_without(array, member, unreadable)
            self.task = replace(self.task, out=True)
            journal.write_journal(self.task, self._roots)
            self._signals.defer()
            self._fail(member)
        elif self._is_resumed and (member is None or "faulty" in member.states):
            self._stop_if_old_copy_is_needed()
        member = self._find_in_array(self.task.disk)
        if member is not None and "faulty" in member.states:
            self._remove_failed(member)
            member = None
        if member is None:
            self._put_in(self.task.disk, whole=True)
        self._signals.deliver()
        return self._describe_result(self._wait_until_in_sync(self.task.disk))

    # --- what must be true ---

    def _has_journal(self) -> bool:
        """Whether the task is continued. Raises BlklabError if the journal of this array is of another task."""
        path = journal_path(self.task.uuid, self._roots)
        if not os.path.lexists(path):
            return False
        if journal.read_any_journal(path) != self.task:
            resume = command_lines.resume_fix()
            raise BlklabError(f"{self._path}: an earlier repair is not finished ({path}): continue it with {resume}")
        return True

    def _check_running(self) -> None:
        """Raises BlklabError if md does not write to the array: --add would only damage superblocks."""
        state = self._read().state
        if state not in RUNNING_STATES:
            start = command_lines.fix_restart(self._path)
            if state == "read-auto":
                start = command_lines.make_writable(self._path)
            after = command_lines.resume_fix() if self._is_resumed else "the same command again"
            raise BlklabError(f"{self._path}: it is {state or 'not running'}: run {start}, then {after}")

    @property
    def _was_member(self) -> bool:
        return bool(self.task.disk.device or self.task.disk.offset)

    def _stop_unless_complete(self, array: Array) -> None:
        problem = ""
        if array.degraded:
            problem = f"{array.degraded} of {array.raid_disks} members are missing now"
        elif array.sync is not None:
            problem = f"md does a {array.sync.action} now"
        elif array.state not in RUNNING_STATES:
            problem = f"it is {array.state or 'not running'} now"
        for _, message in check_duplicates(array, self._roots):
            problem = message
        if problem:
            raise StoppedRepair(f"{self._path}: {problem}: nothing was changed", (command_lines.audit_arrays(),))

    def _stop_if_unique_data_is_outside(self, unreadable: Unreadable) -> None:
        """Stops if the members that are in sync cannot give all data for the new disk."""
        self._check_running()
        array = read_array_with_outside(self._name, self.task.uuid, self._roots)
        if not array.degraded:
            raise StoppedRepair(
                f"{self._path}: no member is missing any more: nothing was changed", (command_lines.audit_arrays(),)
            )
        for _, message in check_duplicates(array, self._roots):
            raise StoppedRepair(f"{self._path}: {message}", (command_lines.audit_arrays(),))
        if unreadable and find_bad_pieces(array, unreadable=unreadable) is None:
            raise StoppedRepair(
                f"{self._path}: {', '.join(unreadable)} cannot read some sectors, and blklab does not know where they"
                " are on the array (a rare layout): nothing was changed",
                (command_lines.audit_arrays(),),
            )
        only_outside = find_ranges_only_outside(array, unreadable)
        if only_outside:
            sectors = sum(run.sectors for run in only_outside)
            sources = ", ".join(source.path for source in find_sources_outside(array))
            raise StoppedRepair(
                f"{self._path}: {sectors:,} sectors can be read only from {sources}, which is out of the array:"
                f" {_places(only_outside)}. Nothing was changed. Keep {sources} as it is: do not add, wipe or re-add"
                " it",
                (command_lines.audit_arrays(),),
            )
        lost = find_lost_ranges(array, unreadable=unreadable)
        if lost and self._was_member:  # perhaps of a slot that another disk has now
            raise StoppedRepair(self._explain_only_copy(lost, self.task.disk.path), (command_lines.audit_arrays(),))
        for member in array.active:
            ranges = unreadable.get(member.path, ())
            if ranges and member.bad_blocks is None and lost:
                raise StoppedRepair(
                    f"{self._path}: {member.path} cannot read {sum(run.sectors for run in ranges):,} sectors"
                    f" ({_places(ranges)} of the member), and a rebuild would fail it. Nothing was changed. Copy it to"
                    " a healthy disk first (ddrescue), or write these sectors again from a backup",
                    (command_lines.audit_arrays(),),
                )

    def _stop_if_former_member_is_needed(self, device: BlockDevice) -> None:
        """Stops if a disk that was a member may have the only copy of what the array has lost."""
        unreadable = self._measure(self._read().active)
        lost = find_lost_ranges(self._read(), unreadable=unreadable)
        if lost:
            raise StoppedRepair(self._explain_only_copy(lost, device.path), (command_lines.audit_arrays(),))

    def _stop_if_old_copy_is_needed(self) -> None:
        """Stops a rebuild that was interrupted if the others have not all data any more, or no redundancy."""
        unreadable = self._measure(self._read().active)
        self._stop_if_unique_data_is_outside(unreadable)
        out = ArrayMember("", "", self.task.slot)
        is_there = self._find_in_array(self.task.disk) is not None
        device = None if is_there else self._find_disk(self.task.disk)
        is_erased = device is not None and find_own_superblock(self._read(), device, self._roots) is None
        if not is_erased and not is_redundant_without(self._read(), out):
            again = command_lines.fix_add(self._path, self.task.disk.id or self.task.disk.path)
            raise StoppedRepair(
                f"{self._path}: more members are missing than when the rebuild began, and {self.task.disk.path} still"
                " has its data: it was not erased. Bring it back",
                (again,),
            )

    def _explain_only_copy(self, lost: tuple[SectorRange, ...], path: str) -> str:
        return (
            f"{self._path}: no member can read {sum(run.sectors for run in lost):,} sectors ({_places(lost)} of the"
            f" array), and {path} was a member: it may have their only copy. Nothing was changed. Keep {path} as it is"
        )

    def _stop_if_lost_without(self, array: Array, member: ArrayMember, unreadable: Unreadable) -> None:
        slots = frozenset({member.slot or 0})
        before = find_lost_ranges(array, unreadable=unreadable)
        lost = subtract_ranges(find_lost_ranges(array, slots, unreadable), before)
        if lost:
            raise StoppedRepair(
                f"{self._path}: only {member.path} has {sum(run.sectors for run in lost):,} sectors ({_places(lost)} of"
                " the array), because other members cannot read them: nothing was changed. Replace it while it stays"
                " connected",
                (command_lines.fix_replace(self._path, member.path, NEW_DISK),),
            )

    def _stop_unless_redundant_without(self, array: Array, member: ArrayMember, unreadable: Unreadable) -> None:
        """Stops if, without a member, the loss of any other one would lose data that can be read now."""
        self._stop_if_lost_without(array, member, unreadable)
        without = find_lost_ranges(array, frozenset({member.slot or 0}), unreadable)
        for other in array.active:
            if other.slot == member.slot:
                continue
            slots = frozenset({member.slot or 0, other.slot or 0})
            lost = subtract_ranges(find_lost_ranges(array, slots, unreadable), without)
            if lost:
                raise StoppedRepair(
                    f"{self._path}: without {member.path}, only {other.path} has {sum(run.sectors for run in lost):,}"
                    f" sectors ({_places(lost)} of the array): nothing was changed. Replace {member.path} while it"
                    " stays connected",
                    (command_lines.fix_replace(self._path, member.path, NEW_DISK),),
                )

    def _check_again(self, array: Array, device: BlockDevice) -> Superblock | None:
        """Returns the array's superblock on a disk. Raises StoppedRepair if the disk cannot become a member now."""
        superblock = find_own_superblock(array, device, self._roots)
        is_erased = superblock is None and self._is_resumed  # by blklab, before it was interrupted
        if (superblock.device if superblock else "") != self.task.disk.device and not is_erased:
            raise StoppedRepair(f"{device.path}: its superblock has changed since the plan: nothing was changed")
        for _, message, *_ in check_new_disk(array, device, superblock, self._roots):
            raise StoppedRepair(f"{message}: nothing was changed")
        return superblock

    def _hold_alone(self, device: BlockDevice) -> None:
        """Raises StoppedRepair if a disk cannot be opened alone, or its path is another device now."""
        path = self._roots.device(device.name)
        with (
            SystemErrors(StoppedRepair, f"{path}: cannot open it alone", ": stop what uses it"),
            open_descriptor(path, os.O_RDONLY | os.O_EXCL) as descriptor,
        ):
            if os.fstat(descriptor).st_rdev != device_number(device.number):
                raise StoppedRepair(f"{path}: it is another device now than {device.number}: nothing was changed")

    # --- the steps ---

    def _measure(self, members: tuple[ArrayMember, ...] | list[ArrayMember]) -> Unreadable:
        in_sync = [member for member in members if "in_sync" in member.states]
        names = ", ".join(member.name for member in in_sync)
        self._report(f"read {names} completely", "")
        return Measurement(self._read(), in_sync, self._roots).read(self._advance)

    def _put_in(self, disk: DiskFacts, *, whole: bool) -> None:
        """Adds a disk to an empty slot. A former member comes back with its data, unless `whole`."""
        inside = self._find_in_array(disk)
        if inside is not None and "faulty" in inside.states:
            self._remove_failed(inside)
        device = self._find_disk(disk)
        array = self._read()
        superblock = find_own_superblock(array, device, self._roots)
        if not whole or self._is_resumed:
            superblock = self._check_again(array, device)
        if superblock is not None and not whole:
            line = command_lines.re_add_disk(self._path, device.path)
            self._report(f"bring {device.name} back", line)
            self._hold_alone(device)
            self._run_mdadm(line)
            if self._happens(lambda: self._find_in_array(disk) is not None, seconds=2):
                return
        self._add_empty(device, disk)

    def _add_empty(self, device: BlockDevice, disk: DiskFacts) -> None:
        """Adds a disk as an empty one. A superblock of this array is erased before, any other content stops it."""
        path = str(self._roots.device(device.name))
        array = self._read()
        for _, message in check_adding(array, self._ops.read_software()):
            raise StoppedRepair(f"{path} was not added: {message}")
        superblock = find_own_superblock(array, device, self._roots)
        self._hold_alone(device)
        if superblock is not None:
            if disk.device and superblock.device != disk.device:
                raise StoppedRepair(f"{path}: it is another member of the array than in the plan: nothing was changed")
            line = command_lines.zero_superblock(path)
            self._report(f"erase the superblock of {device.name}, whose data the other members have", line)
            self._run_mdadm(line)
        elif signatures(self._roots.device(device.name)):
            raise StoppedRepair(f"{path}: it is not empty any more: nothing was changed")
        if disk.device:
            # A new superblock has a new UUID: from now on, the disk is found by its id.
            self.task = replace(self.task, disk=replace(disk, device="", offset=0))
            journal.write_journal(self.task, self._roots)
        line = command_lines.add_disk(self._path, path)
        self._report(f"add {device.name}", line)
        output = self._run_mdadm(line)
        if not self._happens(lambda: self._member_named(device.name) is not None):
            raise StoppedRepair(
                f"{path} was not added to {self._path} (mdadm printed: {output.last})", (command_lines.audit_arrays(),)
            )

    def _fail(self, member: ArrayMember) -> None:
        line = command_lines.fail_disk(self._path, member.path)
        self._report(f"fail {member.name}", line)
        self._run_mdadm(line)
        if not self._happens(lambda: "in_sync" not in self._states(self.task.disk)):
            raise StoppedRepair(f"{self._path}: {member.path} is still in sync after `{line}`")

    def _remove_failed(self, member: ArrayMember) -> None:
        line = command_lines.remove_disk(self._path, member.path)
        self._report(f"remove {member.name}", line)

        def is_out() -> bool:
            if self._member_named(member.name) is None:
                return True
            self._run_mdadm(line)  # md removes a busy member only after a while
            return False

        if not self._happens(is_out):
            raise BlklabError(f"{self._path}: {member.path} is still in the array after `{line}`")

    def _wait_until_in_sync(self, disk: DiskFacts) -> str:
        """Waits until md has rebuilt a disk. Returns its name."""
        member = self._find_in_array(disk)
        if member is None:
            raise StoppedRepair(
                f"{self._path}: {disk.path} is not in the array any more", (command_lines.audit_arrays(),)
            )
        self._report(f"wait until {member.name} is in sync", "")
        md = self._md
        last_busy = self._ops.clock()
        while True:
            states = (read_text(md / f"dev-{member.name}" / "state") or "missing").split(",")
            action = read_text(md / "sync_action") or "idle"
            if "in_sync" in states:
                return member.name
            if {"faulty", "missing"} & {*states}:
                raise StoppedRepair(
                    f"{self._path}: {member.path} failed while md rebuilt it; the other members are as before: replace"
                    " this disk, or its cable",
                    (command_lines.audit_arrays(),),
                )
            if action != "idle":
                last_busy = self._ops.clock()
            elif self._ops.clock() - last_busy > STALL_TIMEOUT_S and not self._read().degraded and "spare" in states:
                raise StoppedRepair(
                    f"{self._path} is complete: md has rebuilt another disk, and {member.path} is a spare now",
                    (command_lines.audit_arrays(),),
                )
            elif self._ops.clock() - last_busy > STALL_TIMEOUT_S:
                # It is in the array, so nothing is left to undo or to continue, and no journal may block other repairs.
                raise StoppedRepair(
                    f"{self._path}: md does not rebuild {member.path}, which is in the array: see dmesg and"
                    " /proc/mdstat",
                    (command_lines.audit_arrays(),),
                )
            done, _, total = (read_text(md / "sync_completed") or "").partition(" / ")
            self._advance(parse_number(done) or 0, parse_number(total) or 0)
            self._ops.sleep(POLL_INTERVAL_S)

    def _describe_result(self, name: str) -> str:
        """Returns a sentence on the array after a rebuild, and on the entries that it has brought."""
        array = self._read()
        member = next((member for member in array.members if member.name == name), None)
        if member is not None and member.ranges:
            count = sum(run.sectors for run in member.ranges)
            return (
                f"{name} is in sync, but {count:,} sectors are in its bad-block list: no member could give their data,"
                f" or {name} did not store them. Keep every disk that is out, and run {command_lines.audit_arrays()}"
            )
        missing = f"; {array.degraded} of {array.raid_disks} members are still missing" if array.degraded else ""
        return f"{name} is in sync in {self._path}{missing}"

    # --- what is there now ---

    @property
    def _md(self) -> Path:
        return self._roots.sys / "block" / self._name / "md"

    @property
    def _path(self) -> str:
        return str(self._roots.device(self._name))

    @property
    def _old(self) -> DiskFacts:
        if self.task.old is None:
            raise BlklabError("the journal has no old member: run the command again")
        return self.task.old

    def _read(self) -> Array:
        array = read_array_by_name(self._name, self._roots)
        if array.uuid != self.task.uuid:
            raise StoppedRepair(f"{self._path}: it is another array now: nothing was changed")
        return array

    def _member_named(self, name: str) -> ArrayMember | None:
        return next((member for member in self._read().members if member.name == name), None)

    def _find_in_array(self, disk: DiskFacts) -> ArrayMember | None:
        """Returns the member of the array that is this disk; None if the disk is out.

        Raises BlklabError if several members have its id: cheap disks share serial numbers.
        """
        members = self._read().members
        if disk.device:
            for member in members:
                if member.superblock is not None and member.superblock.device == disk.device:
                    return member
            members = tuple(member for member in members if member.superblock is None)
        if disk.id:
            names = {device.name for device in find_by_id(disk.id, self._roots)}
            matches = [member for member in members if member.name in names]
        else:
            matches = [] if self._is_resumed else [member for member in members if member.path == disk.path]
        if len(matches) > 1:
            paths = ", ".join(member.path for member in matches)
            raise BlklabError(f"{self._path}: {paths} have the same id {disk.id}: blklab cannot tell which is meant")
        return matches[0] if matches else None

    def _find_again(self) -> ArrayMember:
        """Returns the disk of the task in the array. Raises StoppedRepair if it is out."""
        member = self._find_in_array(self.task.disk)
        if member is None:
            raise StoppedRepair(
                f"{self.task.disk.path} is not in {self._path} any more: see {command_lines.audit_arrays()}"
            )
        return member

    def _states(self, disk: DiskFacts) -> tuple[str, ...]:
        member = self._find_in_array(disk)
        return member.states if member else ()

    def _find_disk(self, disk: DiskFacts) -> BlockDevice:
        """Returns a disk that is out of the array, by its id or by its superblock. Raises StoppedRepair."""
        if disk.id:
            devices = find_by_id(disk.id, self._roots)
            if len(devices) == 1:
                return devices[0]
        matches = []
        for entry in entries(self._roots.sys / "class/block"):
            if not disk.device or (read_text(entry / "size") or "0") == "0":
                continue
            for superblock in read_superblocks(self._roots.device(entry.name)).members:
                identity = (superblock.uuid, superblock.device, superblock.offset)
                if identity == (self.task.uuid, disk.device, disk.offset) and not entries(entry / "holders"):
                    match = of_node(entry.resolve(), self._roots)
                    if not (disk.id and match.ids and not match.is_called(disk.id)):  # else it is a copy
                        matches.append(match)
        if len(matches) == 1:
            return matches[0]
        if not disk.id and not disk.device and not self._is_resumed:
            device = find_device(disk.path, self._roots)
            if device.size == disk.size:
                return device
        again = command_lines.fix_add(self._path, disk.id or DISK)
        if not disk.id and not disk.device:
            raise StoppedRepair(
                f"{disk.path} has no stable id: after an interruption, blklab cannot tell whether it is the same disk."
                " Look at the disk, then add it",
                (again,),
            )
        raise StoppedRepair(f"{disk.id or disk.path} is not there, or several disks have its superblock", (again,))

    def _run_mdadm(self, line: str) -> CommandOutput:
        if line.startswith("#"):
            raise StoppedRepair(line.removeprefix("# "))
        return self._ops.run_mdadm(*shlex.split(line)[1:])

    def _happens(self, condition: Callable[[], bool], seconds: float = STEP_TIMEOUT_S) -> bool:
        """Waits until a condition holds. Returns whether it does."""
        deadline = self._ops.clock() + seconds
        while not condition():
            if self._ops.clock() > deadline:
                return False
            self._ops.sleep(POLL_INTERVAL_S)
        return True


def _places(ranges: tuple[SectorRange, ...], limit: int = 4) -> str:
    shown = ", ".join(str(run) for run in ranges[:limit])
    return f"{shown} and {len(ranges) - limit} more" if len(ranges) > limit else shown
