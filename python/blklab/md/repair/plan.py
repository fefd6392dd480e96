"""What a repair will do, before anything is done: its steps, what stands in its way, how long."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.md import inventory, journal_directory
from blklab.md.audit import host
from blklab.md.audit.rule import AuditedHost
from blklab.md.host_software import software
from blklab.md.members import number
from blklab.md.model import Array, ArrayMember, Software
from blklab.md.repair import mdadm
from blklab.md.repair.array_state import MemberState, disk_id, observe, with_lists
from blklab.md.repair.next_step import after, decide, outlives
from blklab.md.repair.preconditions import refusal, refusals
from blklab.md.repair.steps import Done, Step, Stop, command
from blklab.md.repair.task import MemberSlot, RepairTask
from blklab.system.identity import resolve
from blklab.system.roots import Roots, text

MOST_STEPS: Final = 10_000


@dataclass(frozen=True)
class PlannedStep:
    """A step, and what there is once it is done."""

    step: Step
    command: str
    """Empty where md does it by itself."""
    in_sync: int
    """Members."""
    outlives: int
    """Failures more, whichever members they hit, that no data are lost by."""


@dataclass(frozen=True)
class RepairPlan:
    """Of one array."""

    array: Array
    task: RepairTask
    refused: tuple[Diagnostic, ...]
    """Why nothing can be done now."""
    with_entries: tuple[ArrayMember, ...]
    """Members whose lists hold entries: they are explained and not forced."""
    steps: tuple[PlannedStep, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    adding_fails: bool = False
    """With this kernel and mdadm, of an array whose lists have entries."""
    whole_seconds: float | None = None
    """The least time that a member needs that is written anew as a whole."""

    @property
    def nothing_to_do(self) -> bool:
        """Whether no member has a list."""
        return not self.refused and not self.steps

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "array": self.array.name,
            "uuid": self.array.uuid,
            "refused": [reason.sentence for reason in self.refused],
            "members_with_entries": [reason.name for reason in self.with_entries],
            "warnings": [reason.sentence for reason in self.warnings],
            "whole_seconds": self.whole_seconds,
            "steps": [
                {
                    "step": re.sub(r"(?<=.)(?=[A-Z])", "-", type(planned.step).__name__).lower(),
                    "command": planned.command or None,
                    "in_sync": planned.in_sync,
                    "outlives": planned.outlives,
                }
                for planned in self.steps
            ],
        }


def plan(name: str, roots: Roots) -> RepairPlan:
    """Returns the plan for an array, by its path or name. Changes nothing.

    Raises UsageError if it is no md array, BlklabError if a repair of it is unfinished.
    """
    array = array_of(name, roots)
    if array.repairing:
        where = journal_directory.path_of(array.uuid, roots)
        raise BlklabError(
            f"{array.path}: a repair of it is not finished ({where}): blklab md fix --resume"
        )
    known = software(roots)
    slots = tuple(
        MemberSlot(
            member.slot,
            member.superblock.device,
            member.path,
            member.superblock.offset,
            disk_id(member.path, roots),
        )
        for member in array.active
        if member.slot is not None and member.superblock
    )
    task = RepairTask(array.uuid, array.path, array.level, array.raid_disks, array.layout, slots)
    refused = tuple(refusals(array, known, roots))
    entries = tuple(one for one in array.members if one.ranges)
    steps: tuple[PlannedStep, ...] = ()
    if not refused:
        steps, reason = _steps(task, roots)
        refused = (refusal(array, "no-step", reason),) if reason else ()
    if not refused and not steps and (having := with_lists(array.uuid, roots)):
        refused = (
            refusal(
                array,
                "other-lists",
                f"{', '.join(having)} is no member in use and has a list, or cannot be read",
                "a spare's goes by --remove and --add, with `CREATE bbl=no` in mdadm.conf",
            ),
        )
    return RepairPlan(
        array,
        task,
        refused,
        entries,
        steps,
        tuple(_warnings(array, known)) if steps else (),
        host.adding_fails(array, AuditedHost(known)),
        _whole_seconds(array, roots),
    )


def array_of(name: str, roots: Roots) -> Array:
    """Returns an assembled array by its path or name. Raises UsageError if it is none."""
    path = name if "/" in name else f"{roots.dev}/{name}"
    device = resolve(path, roots)
    if not (device.node / "md").is_dir():
        raise UsageError(f"{name}: not an md array (blklab md audit lists them)")
    return inventory.array(device.node, roots)


def _steps(task: RepairTask, roots: Roots) -> tuple[tuple[PlannedStep, ...], str]:
    """Returns the steps as they will be if all goes well, and why they end early, if so."""
    state = observe(task, roots)
    steps: list[PlannedStep] = []
    while len(steps) < MOST_STEPS:
        step = decide(state, task)
        if isinstance(step, Done):
            return tuple(steps), ""
        if isinstance(step, Stop):
            return (), step.reason
        words = command(step, task.array)
        state, task = after(step, state, task)
        whole = sum(slot.where is MemberState.IN_SYNC for slot in state.slots)
        shown = mdadm.shown(words) if words else ""
        steps.append(PlannedStep(step, shown, whole, outlives(task, state)))
    raise AssertionError(steps[-1])


def _warnings(array: Array, known: Software) -> Iterator[Diagnostic]:
    for code, message in _risks(array, known):
        yield Diagnostic(code, "warning", array.path, message)


def _risks(array: Array, known: Software) -> Iterator[tuple[str, str]]:
    if not known.lists_off:
        yield (
            "config-bbl",
            "mdadm.conf does not say `CREATE bbl=no`: the next --add makes a list again",
        )
    if array.last_action != "check":
        yield (
            "never-checked",
            "no check was seen since the array was assembled: while a member is out, a sector of"
            f" the others that cannot be read is lost (first: mdadm --action=check {array.path})",
        )
    if array.mismatches:
        differ = f"{array.mismatches:,} sectors that differ between members"
        yield "mismatches", f"the last check found {differ}"
    for member in array.members:
        if member.errors:
            yield "read-errors", f"{member.name}: {member.errors:,} read errors were mended"


def _whole_seconds(array: Array, roots: Roots) -> float | None:
    """At the rate that md is held to (md.rst, sync_speed_max: KiB/s of a member)."""
    fastest = number(text(roots.sys / "block" / array.name / "md/sync_speed_max"))
    return array.member_sectors / 2 / fastest if fastest else None
