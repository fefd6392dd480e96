"""The next step of a repair, of nothing but what is there and what was written down before.

Pure, so that the plan, the repair and its going on after a crash are one and the same.
"""

from dataclasses import dataclass, replace

from blklab.md.model import PARITIES
from blklab.md.repair import steps
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState, SlotState
from blklab.md.repair.task import RemovedSpare, RepairTask

RUNS = {"clean", "active", "active-idle", "write-pending"}
"""States (`array_state`) of an array that is written to."""

STOPPED = {"inactive", "clear", ""}
"""States of one that was not started: adding to it would only spoil superblocks."""


def decide(state: ArrayState, task: RepairTask) -> steps.Step:
    """Returns the next step. A member that we took out comes back before all else."""
    if state.mode in STOPPED:
        return steps.Stop(
            f"the array is {state.mode or 'not there'}: start it (mdadm --run {task.array}), then"
            " blklab md fix --resume"
        )
    if task.taken:
        away = state.slot(task.taken)
        if away.where is not MemberState.IN_SYNC:
            return _bring_back(away, state, task)
    reason = _trouble(state, task)
    hidden = [spare for spare in task.spares if spare.device in state.set_aside]
    if hidden and (reason or not _to_take(state, task)):
        return steps.AddSpare(hidden[0].device, state.set_aside[hidden[0].device])
    if reason is None or reason.passes:
        if state.sync not in {"idle", "frozen"}:
            return steps.WaitForSync()
        if reason is None and (slot := _to_take(state, task)):
            # md would rebuild a member only after that.
            return steps.WaitForSync() if state.neighbour else _take(slot, state, task)
    if (reason is None or not state.degraded) and state.bitmap and task.bitmap_added:
        return steps.RemoveBitmap()
    return steps.Done() if reason is None else steps.Stop(reason.words)


@dataclass(frozen=True)
class _UnexpectedState:
    words: str
    passes: bool = False
    """With time: md is at work on it."""


def _bring_back(away: SlotState, state: ArrayState, task: RepairTask) -> steps.Step:
    others_bad = any(
        slot.lists is BadBlockListState.ENTRIES
        for slot in state.slots
        if slot.device != away.device
    )
    match away.where:
        case MemberState.REBUILDING if state.degraded:
            return steps.WaitForSync(away.path)
        case MemberState.FAULTY if task.returned:
            return _after(state, task, f"{away.path} has failed for real while it was rebuilt")
        case MemberState.FAULTY:
            return steps.RemoveMember(away.device, away.path)
        case MemberState.OUT if state.degraded:
            # With a source that has bad blocks only a member with a list can be rebuilt.
            clean = (
                away.lists is not BadBlockListState.ENTRIES and not task.suspect and not others_bad
            )
            return steps.ReAddMember(away.device, away.path, without_list=clean)
    if not state.degraded:
        return _after(state, task, f"another disk has the place of {away.path}")
    reason = "no disk that it may have been has its superblock, or several have"
    return _after(state, task, f"{away.path} is gone: {reason}")


def _after(state: ArrayState, task: RepairTask, reason: str) -> steps.Step:
    """What is still to be done when a member is lost: spares come back."""
    for device, path in state.set_aside.items():
        return steps.AddSpare(device, path)
    if state.sync == "recover":
        return steps.WaitForSync()
    if state.bitmap and task.bitmap_added and not state.degraded:
        return steps.RemoveBitmap()
    return steps.Stop(reason)


def _trouble(state: ArrayState, task: RepairTask) -> _UnexpectedState | None:
    """Why no member may be taken out; None if nothing is in the way."""
    if state.mode == "broken":
        return _UnexpectedState("more members have failed than the array outlives")
    others = [slot for slot in state.slots if slot.device != task.taken]
    for slot in others:
        if slot.where is MemberState.REBUILDING:
            return _UnexpectedState(f"{slot.path} is being rebuilt, not by us", passes=True)
        if slot.where is not MemberState.IN_SYNC and (state.degraded or not state.strangers):
            return _UnexpectedState(f"{slot.path} is {slot.where.value}, and not because of us")
    for slot in state.slots:
        if slot.where is MemberState.IN_SYNC and (words := _of_member(slot, task)):
            return _UnexpectedState(words)
    if state.degraded:
        return _UnexpectedState("the array is degraded", passes=state.sync == "recover")
    if state.strangers:
        return _UnexpectedState(
            "a disk is in sync that was not there when this was planned: plan it anew"
        )
    if state.mode not in RUNS:
        return _UnexpectedState(f"the array is {state.mode or 'not running'}")
    if state.sync == "frozen":
        return _UnexpectedState("the array is frozen: someone else is changing it")
    return None


def _of_member(slot: SlotState, task: RepairTask) -> str:
    """Why a member that is in sync keeps all of them in; nothing if it does not."""
    if slot.lists is BadBlockListState.ENTRIES:
        return (
            f"{slot.path} has bad blocks: where they are, the others have the only good copy, so"
            " none of them may be taken out"
        )
    if slot.erring:
        return f"a write to {slot.path} failed: the disk is not to be trusted"
    if slot.lists is BadBlockListState.UNKNOWN:
        return f"{slot.path}: its superblock cannot be read"
    if slot.lists is BadBlockListState.EMPTY and slot.device in task.tried:
        return f"{slot.path} still has a list: it was taken out once, and is not a second time"
    return ""


def _to_take(state: ArrayState, task: RepairTask) -> SlotState | None:
    for slot in state.slots:
        if (
            slot.where is MemberState.IN_SYNC
            and slot.lists is BadBlockListState.EMPTY
            and slot.device not in task.tried
        ):
            return slot
    return None


def _take(slot: SlotState, state: ArrayState, task: RepairTask) -> steps.Step:
    if outlives(task, state) < 1:
        return steps.Stop(f"{slot.path} is the last that is in sync: it cannot be taken out")
    if not state.bitmap:
        return steps.AddBitmap()
    if state.spares:
        return steps.RemoveSpare(*next(iter(state.spares.items())))
    return steps.FailMember(slot.device, slot.path)


def outlives(task: RepairTask, state: ArrayState) -> int:
    """Returns how many members more may fail, whichever they are, and all data still be there."""
    missing = task.raid_disks - sum(slot.where is MemberState.IN_SYNC for slot in state.slots)
    if task.level == "raid10":
        copies = (task.layout & 0xFF) * (task.layout >> 8 & 0xFF)
        return max(0, copies - 1 - missing)
    spare = PARITIES.get(task.level, task.raid_disks - 1)
    return max(0, spare - missing)


def after(step: steps.Step, state: ArrayState, task: RepairTask) -> tuple[ArrayState, RepairTask]:
    """Returns what is there once a step went as it should: what plans are made with."""

    def moved(device: str, **now: object) -> tuple[SlotState, ...]:
        return tuple(
            replace(slot, **now) if slot.device == device else slot  # type: ignore[arg-type]
            for slot in state.slots
        )

    match step:
        case steps.RemoveSpare(device, path):
            hidden = {**state.set_aside, device: path}
            return replace(state, spares=_without(state.spares, device), set_aside=hidden), replace(
                task, spares=(*task.spares, RemovedSpare(device, path))
            )
        case steps.AddBitmap():
            return replace(state, bitmap=True), replace(task, bitmap_added=True)
        case steps.FailMember(device):
            slots = moved(device, where=MemberState.FAULTY)
            taken = replace(task, taken=device, returned=False)
            return replace(state, slots=slots, degraded=state.degraded + 1), taken
        case steps.RemoveMember(device):
            return replace(state, slots=moved(device, where=MemberState.OUT)), task
        case steps.ReAddMember(device, _, without_list):
            now = {"lists": BadBlockListState.NONE} if without_list else {}
            slots = moved(device, where=MemberState.REBUILDING, **now)
            tried = task.tried | {device}
            return replace(state, slots=slots), replace(task, returned=True, tried=tried)
        case steps.WaitForSync():
            slots = tuple(
                replace(slot_state, where=MemberState.IN_SYNC)
                if slot_state.where is MemberState.REBUILDING
                else slot_state
                for slot_state in state.slots
            )
            now_idle = replace(state, slots=slots, sync="idle", degraded=0, neighbour="")
            return now_idle, replace(task, taken="", returned=False, suspect=False)
        case steps.AddSpare(device, path):
            rest = _without(state.set_aside, device)
            return replace(state, spares={**state.spares, device: path}, set_aside=rest), task
        case steps.RemoveBitmap():
            return replace(state, bitmap=False), replace(task, bitmap_added=False)
    return state, task


def _without(paths: dict[str, str], device: str) -> dict[str, str]:
    return {name: path for name, path in paths.items() if name != device}
