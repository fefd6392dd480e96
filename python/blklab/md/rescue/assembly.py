"""Starts an array that does not start by itself: on its disks, after everything was saved and tried on overlays.

What is sound is assembled as it is. Members that are behind are forced only if their metadata are saved, nothing has
changed since, and the same members ran on overlays (`blklab md overlays start`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.md import command_lines
from blklab.md.availability import is_past_redundancy
from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.repair import journal
from blklab.md.repair.perform import SignalDeferral
from blklab.md.repair.preconditions import Reason, unmet_precondition
from blklab.md.repair.rewrite import StoppedRepair
from blklab.md.repair.slot_plan import SlotStep, read_array_by_name
from blklab.md.repair.steps import RUNNING_STATES
from blklab.md.rescue.diagnosis import (
    ArrayRescue,
    Condition,
    find_current,
    find_journals,
    list_all_members,
    needs_newer_kernel,
)
from blklab.md.rescue.metadata_changes import find_changes
from blklab.md.rescue.overlay_record import METADATA, MemberFacts, OverlayRecord, find_device, read_record
from blklab.md.rescue.overlays import find_arrays_to_stop, find_free_name, find_overlay_nodes
from blklab.md.rescue.trial import Report, try_command
from blklab.system.roots import Roots

FORCED: tuple[Condition, ...] = (
    "behind",
    "stale",
    "unclean",
    "incomplete",
    "diverged",
    "unclear",
    "new",
    "overwritten",
    "shrunk",
    "reshaping",
)
"""Conditions in which an array is started only as it was tried on overlays."""

SURE: tuple[Condition, ...] = ("behind", "unclean")
"""Those of them in which a good result on the overlays is enough. In the others, only people can judge the files."""


@dataclass(frozen=True)
class AssemblyPlan:
    """How an array is started."""

    array: Array
    condition: Condition
    members: tuple[ArrayMember, ...]  # With which it is assembled
    is_forced: bool
    path: str  # What the array will be called
    arrays_to_stop: tuple[str, ...]  # Paths of arrays that hold the members and do not run
    left_out: tuple[ArrayMember, ...]
    refused: tuple[Diagnostic, ...]
    backup_file: str = ""  # Of an interrupted reshape

    @property
    def nothing_to_do(self) -> bool:
        """Whether it runs already."""
        return self.condition == "running"

    @property
    def steps(self) -> tuple[SlotStep, ...]:
        """What is done, for people."""
        disks = [member.path for member in self.members]
        steps = [
            SlotStep(f"stop {array}, which does not run and holds members", command_lines.stop_array(array))
            for array in self.arrays_to_stop
        ]
        names = ", ".join(member.name for member in self.members)
        if self.is_forced:
            line = command_lines.assemble_by_force(self.path, disks, self.backup_file)
        else:
            line = command_lines.assemble_and_run(self.path, disks)
        steps.append(SlotStep(f"assemble it from {names}", line))
        return tuple(steps)

    @property
    def warnings(self) -> list[str]:
        """What the user must know before, and what is left to do afterwards."""
        lines = []
        if self.is_forced:
            lines.append("mdadm writes new superblocks. The old ones are in the saved metadata.")
            lines.append("Then check the filesystem, and copy what is important, before you use the array.")
        for member in self.left_out:
            line = command_lines.fix_add(self.path, member.path)
            lines.append(f"{member.path} stays out. When the files are right, `{line}` brings it back.")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "operation": "assemble",
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [member.name for member in self.array.members if member.ranges],
            "steps": [{"step": step.what, "command": step.command or None} for step in self.steps],
            "warnings": self.warnings,
        }


def plan_assembly(
    rescue: ArrayRescue,
    inventory: Inventory,
    overlays: Path | None,
    *,
    files_are_right: bool,
    backup_file: str = "",
    roots: Roots,
) -> AssemblyPlan:
    """Returns how an array is started, or why not. `overlays` is the directory in which it was tried.

    Raises UsageError for a directory without overlays, or for those of another array.
    """
    array = rescue.array
    record = read_record(overlays) if overlays else None
    if record and record.array_uuid != array.uuid:
        raise UsageError(
            f"{overlays}: it has the overlays of the array {record.array_uuid}, expected those of {array.uuid}"
        )
    reasons: list[Reason] = []
    members = (*find_current(array), *find_journals(array))
    if record is not None and rescue.condition in FORCED:
        record_members = find_members(array, record.members, roots)
        missing = [facts.path for facts, member in zip(record.members, record_members, strict=True) if member is None]
        for path in missing:
            reasons.append(("changed", f"{path}: its superblock is not as it was on the overlays: try it again there"))
        members = tuple(member for member in record_members if member is not None)
    reasons += check_condition(rescue, inventory, record, files_are_right=files_are_right)
    if overlays is not None and record is not None and rescue.condition in FORCED:
        reasons += check_trial(overlays, record, roots)
    arrays_to_stop: tuple[str, ...] = ()
    try:
        arrays_to_stop = find_arrays_to_stop(members, roots)
    except UsageError as error:
        reasons.append(("in-use", str(error)))
    refusals = tuple(unmet_precondition(array, code, message, *remedy) for code, message, *remedy in reasons)
    member_paths = {member.path for member in members}
    return AssemblyPlan(
        array=array,
        condition=rescue.condition,
        members=members,
        is_forced=rescue.condition in FORCED,
        path=array.path if array.live and array.path else f"/dev/{find_free_name(roots)}",
        arrays_to_stop=arrays_to_stop,
        left_out=tuple(
            member for member in list_all_members(array) if member.superblock and member.path not in member_paths
        ),
        refused=refusals if rescue.condition != "running" else (),
        backup_file=backup_file,
    )


def find_members(array: Array, facts: Sequence[MemberFacts], roots: Roots) -> list[ArrayMember | None]:
    """Returns the members with exactly these superblocks, by what they hold, not by their names; None if one is not.

    If a member was copied to another disk, it is the one with the stable ids of then.
    """
    members: list[ArrayMember | None] = []
    for member_facts in facts:
        matches = []
        for member in list_all_members(array):
            superblock = member.superblock
            if superblock is None:
                continue
            identity = (superblock.device, superblock.slot, superblock.events, superblock.updated)
            if identity == (member_facts.device_uuid, member_facts.slot, member_facts.events, member_facts.updated):
                matches.append(member)
        if len(matches) > 1:
            device = find_device(member_facts, roots)
            matches = [member for member in matches if device is not None and member.path == device.path]
        members.append(matches[0] if len(matches) == 1 else None)
    return members


def check_condition(
    rescue: ArrayRescue, inventory: Inventory, record: OverlayRecord | None, *, files_are_right: bool
) -> list[Reason]:
    """Returns why the condition of an array does not allow a start."""
    condition = rescue.condition
    array = rescue.array
    if condition == "running":
        return []
    if condition in {"sound", "degraded"}:
        reasons: list[Reason] = []
        if needs_newer_kernel(array):
            reasons.append(("refused", "its superblocks are those of Linux 6.19 or newer: start such a kernel"))
        for line in inventory.listed:
            if line.ignored and line.describes(array):
                reasons.append(("ignored", f"{line.file} says that it must not be assembled: ARRAY <ignore>"))
        return reasons
    if condition not in FORCED:
        return [("condition", f"it must not be started: {rescue.headline}")]
    if record is None or record.trial is None:
        return [
            (
                "no-overlays",
                "it was not tried on overlays: `blklab md overlays start`, look at its files, "
                "`blklab md overlays stop`, then this command with --overlays DIRECTORY",
            )
        ]
    verdict = record.trial.verdict
    if verdict == "failed":
        return [("failed", f"it failed on the overlays, so it would fail here: {' '.join(record.trial.lines)}")]
    if files_are_right or (verdict == "good" and condition in SURE):
        return []
    if verdict == "good":
        why = "the filesystem had no errors on the overlays, but files may be old or mixed with older ones"
    else:
        why = f"the overlays showed: {' '.join(record.trial.lines)}"
    return [("files", f"{why}: look at the files there, and add --files-are-right if they are")]


def check_trial(directory: Path, record: OverlayRecord, roots: Roots) -> list[Reason]:
    """Returns why the result on the overlays does not hold any more, or the overlays still exist."""
    if find_overlay_nodes(record, roots):
        return [("overlays", "its overlays still exist: stop them first", command_lines.stop_overlays(str(directory)))]
    try:
        changes = find_changes(directory / METADATA, roots)
    except BlklabError as error:
        return [("not-saved", f"its metadata are not saved: {error}")]
    return [("changed", change) for change in changes]


def assemble_as_planned(plan: AssemblyPlan, report: Report, roots: Roots) -> str:
    """Carries a plan out, and returns what the user must know at the end.

    Raises StoppedRepair if the array does not run afterwards.
    """
    with journal.lock_array(plan.array.uuid or plan.array.name, roots), SignalDeferral() as signals:
        signals.defer()
        last = ""
        for step in plan.steps:
            report(step.what, step.command)
            output = try_command(step.command)
            last = output.last
        try:
            after = read_array_by_name(Path(plan.path).name, roots)
        except BlklabError:
            raise StoppedRepair(f"{plan.path}: it does not run (mdadm printed: {last})") from None
        is_running = after.state in RUNNING_STATES | {"read-auto", "readonly"} and not is_past_redundancy(after)
        if after.uuid != plan.array.uuid or not is_running:
            try_command(command_lines.stop_array(plan.path))  # As it was: not assembled
            raise StoppedRepair(
                f"{plan.path}: it does not run (mdadm printed: {last})", (command_lines.audit_arrays(),)
            )
    missing = f", {after.degraded} of {after.raid_disks} members are missing" if after.degraded else ""
    lines = [f"{after.path} runs{missing}"]
    if plan.is_forced:
        lines.append("check its filesystem before you write to it")
    lines += [f"to bring {member.path} back: {command_lines.fix_add(after.path, member.path)}"
              for member in plan.left_out]  # fmt: skip
    return "\n".join(lines)
