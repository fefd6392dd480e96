"""Starts an array again that md has stopped writing to (`broken`), or that was assembled and not started.

blklab stops it and assembles it from the members that have all data. If these are too few, it takes the members that md
has failed last. mdadm does the same with `--assemble --force`, from the disks that it is given: blklab gives it the
members that it has just examined, and keeps a copy of all superblocks, which mdadm changes.
"""

import datetime
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, SystemErrors
from blklab.md import command_lines
from blklab.md.availability import is_past_redundancy, is_whole, runs_with
from blklab.md.good_copies import is_current
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember
from blklab.md.probing import read_software
from blklab.md.recipes import stop_users
from blklab.md.repair import journal, operations
from blklab.md.repair.perform import SignalDeferral
from blklab.md.repair.plan import find_array
from blklab.md.repair.preconditions import Reason, unmet_precondition
from blklab.md.repair.rewrite import StoppedRepair
from blklab.md.repair.slot_plan import SlotStep, check_duplicates, read_array_by_name
from blklab.md.repair.steps import RUNNING_STATES, STOPPED_STATES
from blklab.md.superblocks import read_superblocks
from blklab.output import replace as replace_file
from blklab.system import state_directory
from blklab.system.identity import device_number
from blklab.system.roots import Roots, open_descriptor, read_text

SUPERBLOCK_BYTES = 256 << 10  # Before and after a superblock: its bitmap and bad-block list, before it with version 1.0

Report = Callable[[str, str], object]


@dataclass(frozen=True)
class RestartPlan:
    array: Array
    members: tuple[ArrayMember, ...]  # With which it is assembled
    forced_members: tuple[ArrayMember, ...]  # Those of them that md has failed
    left_out: tuple[ArrayMember, ...]  # Those that are behind: a rebuild brings them back
    refused: tuple[Diagnostic, ...]

    @property
    def nothing_to_do(self) -> bool:
        return not self.refused and self.array.state in RUNNING_STATES and not is_past_redundancy(self.array)

    @property
    def steps(self) -> tuple[SlotStep, ...]:
        """What is done, for people."""
        disks = [member.path for member in self.members]
        assemble = command_lines.assemble_by_force(self.array.path, disks)
        return (
            SlotStep("copy all superblocks to a file"),
            SlotStep(f"stop {self.array.name}", command_lines.stop_array(self.array.path)),
            SlotStep(f"assemble it from {', '.join(member.name for member in self.members)}", assemble),
        )

    @property
    def warnings(self) -> list[str]:
        """What the user must know before, and what is left to do afterwards."""
        lines = [
            f"{member.path} was failed by md: what was being written when it failed may be damaged, so check the"
            " filesystem. If it fails again, copy it to another disk first (ddrescue)"
            for member in self.forced_members
        ]
        for member in self.left_out:
            lines.append(
                f"{member.path} is behind and stays out: `{_add(self.array, member)}` brings it back afterwards"
            )
        lines += [
            f"{member.path} is a spare and stays out: `{_add(self.array, member)}` adds it afterwards"
            for member in self.array.members
            if member.spare and member not in (*self.members, *self.left_out) and self.array.state != "inactive"
        ]
        dirty = any(member.superblock and member.superblock.resync_offset is not None for member in self.members)
        if self.array.level in PARITIES and dirty and len(self.members) < self.array.raid_disks:
            lines.append(
                "the array was not stopped cleanly, and a member is missing: what was being written then may be damaged"
                ", and other data in the same stripes, so check the filesystem"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "operation": "restart",
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [member.name for member in self.array.members if member.ranges],
            "steps": [{"step": step.what, "command": step.command or None} for step in self.steps],
            "warnings": self.warnings,
        }


def plan_restart(name: str, roots: Roots) -> RestartPlan:
    """Returns the plan that starts an array again. Raises UsageError if it is not an md array."""
    return _plan(find_array(name, roots), roots)


def restart_array(plan: RestartPlan, roots: Roots, report: Report) -> str:
    """Stops an array and assembles it again. Returns what the user must know at the end.

    Raises StoppedRepair if it is not as it was in the plan, or does not start.
    """
    name = plan.array.name
    with journal.lock_array(name, roots), SignalDeferral() as signals:
        now = _plan(read_array_by_name(name, roots), roots)
        if now.refused:
            raise StoppedRepair(str(now.refused[0]), now.refused[0].remedy)
        if [member.path for member in now.members] != [member.path for member in plan.members]:
            raise StoppedRepair(f"{plan.array.path}: its members have changed since the plan: run the command again")
        copy = _copy_superblocks(now, roots)
        report(f"copied the superblocks to {copy}", "")
        signals.defer()
        for step in plan.steps[1:]:
            report(step.what, step.command)
            output = operations.run_line(step.command)
        after = read_array_by_name(name, roots)
        is_running = after.state in RUNNING_STATES | {"read-auto", "readonly"} and not is_past_redundancy(after)
        if after.uuid != plan.array.uuid or not is_running:
            raise StoppedRepair(
                f"{plan.array.path}: it does not run (mdadm printed: {output.last}); the superblocks as they were are"
                f" in {copy}",
                (command_lines.audit_arrays(),),
            )
    missing = f", {after.degraded} of {after.raid_disks} members are missing" if after.degraded else ""
    lines = [f"{after.path} runs{missing}"]
    lines += [f"to bring {member.path} back: {_add(after, member)}" for member in now.left_out]
    return "\n".join(lines)


def _plan(array: Array, roots: Roots) -> RestartPlan:
    current, forced_members, left_out = choose_members(array)
    reasons = list(_check(array, [*current, *forced_members], roots))
    refusals = tuple(unmet_precondition(array, code, message, *remedy) for code, message, *remedy in reasons)
    return RestartPlan(array, (*current, *forced_members), tuple(forced_members), tuple(left_out), refusals)


def choose_members(array: Array) -> tuple[list[ArrayMember], list[ArrayMember], list[ArrayMember]]:
    """Returns the members that have all data, those that must be forced, and those that stay out.

    Only of a broken array members are forced: the freshest failed ones, until it can run. A member that was rebuilt
    only in part is none of them, although it is the freshest.
    """
    members = [member for member in array.members if member.superblock and member.superblock.slot is not None]
    current = [member for member in members if "faulty" not in member.states and is_current(array, member)]
    candidates = [member for member in members if member not in current]
    candidates.sort(key=lambda member: member.superblock.events if member.superblock else 0, reverse=True)
    forced_members: list[ArrayMember] = []
    for member in candidates if is_past_redundancy(array) else ():
        slots = {other.superblock.slot for other in (*current, *forced_members) if other.superblock}
        if is_whole(member) and member.superblock and member.superblock.slot not in slots:
            if _can_run(array, [*current, *forced_members]):
                break
            forced_members.append(member)
    return current, forced_members, [member for member in candidates if member not in forced_members]


def _can_run(array: Array, members: list[ArrayMember]) -> bool:
    slots = {member.superblock.slot for member in members if member.superblock and member.superblock.slot is not None}
    return runs_with(array, slots) is True


def _check(array: Array, members: list[ArrayMember], roots: Roots) -> list[Reason]:
    """Returns why an array cannot be started again."""
    reasons: list[Reason] = []
    if os.geteuid() != 0:
        reasons.append(("no-root", "permission denied: run blklab as root"))
    if array.external or array.level not in {"raid1", "raid10", "raid4", "raid5", "raid6"}:
        reasons.append(("level", f"it has level {array.level or 'none'}: expected RAID-1, 4, 5, 6 or 10 of Linux md"))
        return reasons
    past_redundancy = is_past_redundancy(array)
    if array.state in RUNNING_STATES and not past_redundancy:
        return reasons
    if not past_redundancy and array.state not in STOPPED_STATES:
        reasons.append(("state", f"it is {array.state}: expected broken or inactive"))
    if array.reshaping:
        reasons.append(("reshape", "it is being reshaped, and may need its backup file: assemble it with mdadm"))
    if any(member.superblock and member.superblock.role == "journal" for member in array.members):
        reasons.append(("journal", "it has a journal, without which data would be lost: assemble it with mdadm"))
    if array.users:
        reasons.append(("in-use", f"it is in use: {'; '.join(array.users)}: stop this first", *stop_users(array)))
    for _, message in check_duplicates(array, roots):
        reasons.append(("split", message))
    if not _can_run(array, members):
        reasons.append(("too-few", f"it cannot run: {len(members)} of {array.raid_disks} members have all data"))
    kernel = read_software(roots).kernel
    unusable = [member.path for member in members if member.is_refused_by(kernel)]
    if unusable:
        message = f"this kernel would not accept {', '.join(unusable)} again, whose bad-block list was never written"
        reasons.append(("refused", message))
    for member in members:
        number = read_text(roots.sys / "class/block" / member.name / "dev") or ""
        superblocks = read_superblocks(Path(member.path)).members
        if not number or all(superblock.uuid != array.uuid for superblock in superblocks):
            reasons.append(("no-superblock", f"{member.path}: it has no superblock of this array any more"))
    return reasons


def _copy_superblocks(plan: RestartPlan, roots: Roots) -> Path:
    """Writes the superblocks of all members into a new directory of the state directory, and returns it.

    Those that mdadm changes must be readable, the others need not.
    """
    array = plan.array
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    directory = state_directory.prepare(roots) / f"superblocks-{array.uuid.replace('/', '!')}-{stamp}"
    with SystemErrors(BlklabError, f"{directory}: cannot copy the superblocks", "; without a copy, nothing is changed"):
        directory.mkdir(mode=0o700, exist_ok=True)
        for member in array.members:
            if member.superblock is None:
                continue
            begin = max(0, member.superblock.offset - SUPERBLOCK_BYTES)
            try:
                content = _read_area(member, begin, member.superblock.offset + SUPERBLOCK_BYTES, array, roots)
            except (OSError, BlklabError):
                if member in plan.members:
                    raise
                continue
            replace_file(directory / f"{member.name.replace('/', '!')}-at-byte-{begin}", content, mode=0o600)
    return directory


def _read_area(member: ArrayMember, begin: int, end: int, array: Array, roots: Roots) -> bytes:
    with open_descriptor(member.path, os.O_RDONLY) as descriptor:
        number = read_text(roots.sys / "class/block" / member.name / "dev") or ""
        if os.fstat(descriptor).st_rdev != device_number(number):
            raise BlklabError(f"{member.path}: it is another device than the member of {array.path}")
        return os.pread(descriptor, end - begin, begin)


def _add(array: Array, member: ArrayMember) -> str:
    return command_lines.fix_add(array.path, member.path)
