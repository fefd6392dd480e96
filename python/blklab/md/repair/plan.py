"""Plans a repair without changing anything: its steps, risks, times, and what prevents it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.md import command_lines, inventory, probing
from blklab.md.audit import host
from blklab.md.inventory import parse_number
from blklab.md.levels import PARITIES
from blklab.md.model import Array, Software
from blklab.md.probing import read_software
from blklab.md.recipes import Recipe, entries_recipes
from blklab.md.repair.array_state import MemberState, disk_id, find_members_with_lists, read_array_state
from blklab.md.repair.preconditions import check_preconditions, unmet_precondition
from blklab.md.repair.steps import Done, Step, Stop, decide_next_step, failures_tolerated, state_after, step_command
from blklab.md.repair.task import MemberSlot, RepairTask
from blklab.md.repair.write_suspension import can_leave_cgroup
from blklab.system.identity import resolve
from blklab.system.roots import Roots, read_text

MAX_STEPS = 10_000


@dataclass(frozen=True)
class PlannedStep:
    """A step, and the redundancy of the array after it."""

    step: Step
    command: str  # Empty if md does it without a command
    in_sync: int  # Members in sync
    failures_tolerated: int  # How many more members can fail, whichever they are, without data loss


@dataclass(frozen=True)
class RepairPlan:
    array: Array
    task: RepairTask
    refused: tuple[Diagnostic, ...]  # Why blklab cannot repair it now
    recipes: tuple[Recipe, ...]  # What to do about lists with entries, which blklab does not remove
    steps: tuple[PlannedStep, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    rebuild_seconds: float | None = None  # The shortest time of a full rebuild of a member

    @property
    def nothing_to_do(self) -> bool:
        return not self.refused and not self.steps

    def as_dict(self) -> dict[str, Any]:
        """Returns the document for JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [member.name for member in self.array.members if member.ranges],
            "recipes": [{"recipe": recipe.name, "lines": list(recipe.lines)} for recipe in self.recipes],
            "warnings": [warning.sentence for warning in self.warnings],
            "whole_seconds": self.rebuild_seconds,
            "steps": [
                {
                    "step": re.sub(r"(?<=.)(?=[A-Z])", "-", type(plan_step.step).__name__).lower(),
                    "command": plan_step.command or None,
                    "in_sync": plan_step.in_sync,
                    "failures_tolerated": plan_step.failures_tolerated,
                }
                for plan_step in self.steps
            ],
        }


def start_task(name: str, roots: Roots, *, entries: bool = False) -> tuple[Array, RepairTask]:
    """Returns an array, by its path or name, and the task of a repair that has not begun.

    Raises UsageError if it is not an md array, BlklabError if a repair of it is unfinished.
    """
    array = find_array(name, roots)
    refuse_unfinished_repair(array, roots)
    slots = tuple(
        MemberSlot(
            member.slot, member.superblock.device, member.path, member.superblock.offset, disk_id(member.path, roots)
        )
        for member in array.active
        if member.slot is not None and member.superblock
    )
    return array, RepairTask(
        array.uuid, array.path, array.level, array.raid_disks, array.layout, slots, entries=entries
    )


def refuse_unfinished_repair(array: Array, roots: Roots) -> None:
    """Raises BlklabError if a repair of an array is unfinished."""
    if array.repairing:
        path = probing.journal_path(array.uuid, roots)
        resume = command_lines.resume_fix()
        raise BlklabError(f"{array.path}: an earlier repair is not finished ({path}): continue it with {resume}")


def make_plan(name: str, roots: Roots) -> RepairPlan:
    """Returns the plan that removes the lists of an array; as `start_task`."""
    array, task = start_task(name, roots)
    host_software = read_software(roots)
    refusals = tuple(check_preconditions(array, host_software, roots))
    recipes = entries_recipes(array, adding_fails=host.adding_fails(array, host_software))
    steps: tuple[PlannedStep, ...] = ()
    if not refusals:
        steps, reason = _plan_steps(task, roots)
        refusals = (unmet_precondition(array, "no-member-removable", reason),) if reason else ()
    if not refusals and not steps and (paths := find_members_with_lists(array.uuid, roots)):
        message = (
            f"{', '.join(paths)}: not a member in use, and has a list or cannot be read; "
            "to remove the list of a spare, put `CREATE bbl=no` into mdadm.conf, then remove and add the spare"
        )
        refusals = (unmet_precondition(array, "other-lists", message),)
    risks = _risks(array, host_software, roots) if steps else ()
    return RepairPlan(
        array,
        task,
        refusals,
        tuple(recipes),
        steps,
        tuple(Diagnostic(code, "warning", array.path, message) for code, message in risks),
        _rebuild_seconds(array, roots),
    )


def find_array(name: str, roots: Roots) -> Array:
    """Returns an assembled array by its path or name. Raises UsageError if there is none."""
    path = name if "/" in name else f"{roots.dev}/{name}"
    device = resolve(path, roots)
    if not (device.node / "md").is_dir():
        raise UsageError(f"{name}: not an md array; `blklab md audit` lists them")
    return inventory.read_array(device.node, roots)


def _plan_steps(task: RepairTask, roots: Roots) -> tuple[tuple[PlannedStep, ...], str]:
    """Returns the steps if none fails, and why they end early, if they do."""
    state = read_array_state(task, roots)
    steps: list[PlannedStep] = []
    while len(steps) < MAX_STEPS:
        step = decide_next_step(state, task)
        if isinstance(step, Done):
            return tuple(steps), ""
        if isinstance(step, Stop):
            return (), step.reason
        line = step_command(step, task.array)
        state, task = state_after(step, state, task)
        in_sync = sum(slot.state is MemberState.IN_SYNC for slot in state.slots)
        steps.append(PlannedStep(step, line, in_sync, failures_tolerated(task, state)))
    raise AssertionError(steps[-1])


def _risks(array: Array, software: Software, roots: Roots) -> Iterator[tuple[str, str]]:
    if not software.lists_off:
        yield ("config-bbl", "mdadm.conf does not say `CREATE bbl=no`: a disk that you add later gets a list again")
    if array.level in PARITIES and not can_leave_cgroup(roots):
        yield (
            "guard-in-cgroup",
            "blklab cannot leave its cgroup (a container?): "
            "if this is paused or frozen while a member is out, writes stay suspended until it continues: "
            "do not pause it",
        )
    if array.last_action != "check":
        check = command_lines.check_array(array.path)
        yield (
            "never-checked",
            "the last action on the array was not a check: if another member has an unreadable sector, "
            f"reads there fail until the member that is out returns; to find such sectors: {check}",
        )
    if array.mismatches:
        differ = f"{array.mismatches:,} sectors that differ between members"
        yield "mismatches", f"the last check found {differ}"
    for member in array.members:
        if member.errors:
            yield "read-errors", f"{member.name}: md has corrected {member.errors:,} read errors"


def _rebuild_seconds(array: Array, roots: Roots) -> float | None:
    """Returns the time at the maximum rate of md (md.rst, sync_speed_max: KiB/s of a member)."""
    rate = parse_number(read_text(roots.sys / "block" / array.name / "md/sync_speed_max"))
    return array.member_sectors / 2 / rate if rate else None
