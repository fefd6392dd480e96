"""The steps of a repair, their commands, and the choice of the next step: by the plan and by the repair."""

from dataclasses import dataclass, replace

from blklab.md import command_lines
from blklab.md.levels import PARITIES
from blklab.md.recipes import keep_running
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState, SlotState
from blklab.md.repair.task import RemovedSpare, RepairTask


@dataclass(frozen=True)
class _DiskStep:
    device: str
    path: str


class RemoveSpare(_DiskStep):
    """Removes a spare, so that md does not rebuild onto it while a member is out."""


@dataclass(frozen=True)
class AddBitmap:
    """Adds a bitmap, without which md rebuilds all of a member that comes back."""


class FailMember(_DiskStep):
    """Fails a member."""


class RemoveMember(_DiskStep):
    """Removes a failed member."""


@dataclass(frozen=True)
class ReAddMember(_DiskStep):
    """Re-adds a member, with or without its list."""

    without_list: bool


@dataclass(frozen=True)
class WaitForSync:
    """Waits until md has finished its sync action."""

    path: str = ""  # The member that md rebuilds; empty: any action on the array


@dataclass(frozen=True)
class StopCheck:
    """Stops a check of the array, after which md would only rebuild the member that is back."""

    path: str


class AddSpare(_DiskStep):
    """Adds a removed spare again."""


@dataclass(frozen=True)
class RemoveBitmap:
    """Removes the bitmap that blklab added."""


@dataclass(frozen=True)
class Done:
    """The repair is done."""


@dataclass(frozen=True)
class Stop:
    """The repair must stop, for a reason."""

    reason: str
    remedy: tuple[str, ...] = ()  # Commands for the user, in order; lines that begin with # explain them


Step = _DiskStep | AddBitmap | WaitForSync | StopCheck | RemoveBitmap | Done | Stop


def step_command(step: Step, array: str) -> str:
    """Returns the command of a step, quoted for a shell; empty for steps without one.

    --add makes a list unless mdadm.conf says `CREATE bbl=no` (mdadm 4.2 ignores --config with --add).
    """
    match step:
        case RemoveSpare(_, path) | RemoveMember(_, path):
            return command_lines.remove_disk(array, path)
        case AddBitmap():
            return command_lines.add_bitmap(array)
        case FailMember(_, path):
            return command_lines.fail_disk(array, path)
        case ReAddMember(_, path, without_list=True):
            return command_lines.re_add_without_list(array, path)
        case ReAddMember(_, path):
            return command_lines.re_add_disk(array, path)
        case AddSpare(_, path):
            return command_lines.add_disk(array, path)
        case RemoveBitmap():
            return command_lines.remove_bitmap(array)
        case StopCheck():
            return command_lines.make_idle(array)
    return ""


RUNNING_STATES = {"clean", "active", "active-idle", "write-pending"}  # `array_state` of a running, writable array
STOPPED_STATES = {"inactive", "clear", ""}
"""`array_state` of an array that was not started: --add would only damage superblocks."""


def decide_next_step(state: ArrayState, task: RepairTask) -> Step:
    """Returns the next step. A member that blklab took out comes back first."""
    if state.array_state in STOPPED_STATES:
        message = f"the array is {state.array_state or 'not there'}: start it first"
        return Stop(message, (command_lines.fix_restart(task.array), command_lines.resume_fix()))
    if state.array_state == "broken":
        return _explain_broken(state, task)
    if task.taken:
        taken_slot = state.slot(task.taken)
        # A complete array needs no disk that is gone: the user has replaced it.
        if taken_slot.state is not MemberState.IN_SYNC and (state.degraded or taken_slot.state is not MemberState.GONE):
            return _bring_back(taken_slot, state, task)
    reason = _find_stop_reason(state, task)
    spares = [spare for spare in task.spares if spare.device in state.removed_spares]
    if spares and (reason or not _next_member(state, task)):
        return AddSpare(spares[0].device, state.removed_spares[spares[0].device])
    if reason is None or reason.is_temporary:
        if state.sync not in {"idle", "frozen"}:
            return WaitForSync()
        if reason is None and (slot := _next_member(state, task)):
            # md would rebuild a member only after the action on the other array.
            return WaitForSync() if state.busy_neighbour else _take_out(slot, state, task)
    if (reason is None or not state.degraded) and state.bitmap and task.bitmap_added:
        return RemoveBitmap()
    return Done() if reason is None else Stop(reason.text)


def _explain_broken(state: ArrayState, task: RepairTask) -> Stop:
    """Returns why md refuses all writes, and how to start the array without the member that blklab took out."""
    reason = "the array is broken: a member failed that it cannot do without, and md refuses every write"
    if state.unusable:
        return Stop(reason, keep_running(state.unusable))
    lines = [
        f"# Find out why the disk failed (dmesg; cable, controller). Unmount the filesystems of {task.array}.",
        command_lines.fix_restart(task.array),
    ]
    if task.taken:
        lines.append(command_lines.resume_fix())
    return Stop(reason, tuple(lines))


@dataclass(frozen=True)
class _StopReason:
    text: str
    is_temporary: bool = False  # It ends without blklab, because md is working on it


def _bring_back(away: SlotState, state: ArrayState, task: RepairTask) -> Step:
    if away.occupant and away.state in {MemberState.OUT, MemberState.REBUILDING}:
        return _give_up_slot(away, state, task)
    others_bad = any(slot.list_state is BadBlockListState.ENTRIES for slot in state.slots if slot.device != away.device)
    match away.state:
        case MemberState.REBUILDING if state.degraded and state.sync == "check":
            return StopCheck(away.path)
        case MemberState.REBUILDING if state.degraded:
            return WaitForSync(away.path)
        case MemberState.FAULTY if task.returned:
            return _give_up_member(state, task, f"{away.path} failed while md rebuilt it: replace the disk")
        case MemberState.FAULTY:
            return RemoveMember(away.device, away.path)
        case MemberState.OUT if state.degraded:
            # From a source with bad blocks, md can rebuild only a member with a list.
            clean = away.list_state is not BadBlockListState.ENTRIES and not task.suspect and not others_bad
            return ReAddMember(away.device, away.path, without_list=clean)
    if not state.degraded:
        return _give_up_slot(away, state, task)
    reason = "no disk has its superblock, or several disks have it"
    return _give_up_member(
        state, task, f"{away.path} is gone: {reason}; connect it, then run {command_lines.resume_fix()}"
    )


def _give_up_slot(away: SlotState, state: ArrayState, task: RepairTask) -> Step:
    """Returns the steps that remain when another disk has the slot, and then the commands to bring the member back."""
    other = away.occupant or "another disk"
    reason = f"{other} is now in the slot of {away.path}, and blklab did not put it there"
    if not away.occupant:
        return _give_up_member(state, task, reason)
    if state.degraded:
        waiting = (
            f"# Keep {away.path} as it is until md has rebuilt {other}: it has the data.",
            command_lines.wait_for_sync(task.array),
            command_lines.resume_fix(),
        )
        return Stop(f"{reason}; md rebuilds it", waiting)
    if state.with_bad_blocks:
        bad = ", ".join(state.with_bad_blocks)
        warning = f"# Keep {away.path} as it is: {bad} has bad blocks, and it may have the only good copy there."
        return _give_up_member(state, task, reason, (warning, command_lines.plan_fix_bbl(task.array)))
    lines = (
        f"# The array is complete. To give {away.path} its slot again and free {other}, without loss of redundancy:",
        command_lines.fix_replace(task.array, other, away.path),
    )
    return _give_up_member(state, task, reason, lines)


def _give_up_member(state: ArrayState, task: RepairTask, reason: str, remedy: tuple[str, ...] = ()) -> Step:
    """Returns the steps that remain when a member is lost: spares come back first."""
    for device, path in state.removed_spares.items():
        return AddSpare(device, path)
    if state.sync == "recover":
        return WaitForSync()
    if state.bitmap and task.bitmap_added and not state.degraded:
        return RemoveBitmap()
    return Stop(reason, remedy)


def _find_stop_reason(state: ArrayState, task: RepairTask) -> _StopReason | None:
    """Returns why no member may be taken out; None if one may."""
    other_slots = [slot for slot in state.slots if slot.device != task.taken]
    for slot in other_slots:
        if slot.state is MemberState.REBUILDING:
            return _StopReason(f"{slot.path} is being rebuilt, which blklab did not start", is_temporary=True)
        if slot.state is not MemberState.IN_SYNC and (state.degraded or not state.has_unplanned_member):
            return _StopReason(f"{slot.path} is {slot.state.value}, which blklab did not cause: restore it first")
    for slot in state.slots:
        if slot.state is MemberState.IN_SYNC and (problem := _member_problem(slot, task)):
            return _StopReason(problem)
    if state.degraded:
        return _StopReason("the array is degraded", is_temporary=state.sync == "recover")
    if state.has_unplanned_member:
        command = command_lines.fix_bbl(task.array)
        return _StopReason(f"a disk is in sync that is not in the plan: run {command} again for a new plan")
    if state.array_state not in RUNNING_STATES:
        return _StopReason(f"the array is {state.array_state or 'not running'}")
    if state.sync == "frozen":
        return _StopReason("the array is frozen: another program is changing it")
    return None


def _member_problem(slot: SlotState, task: RepairTask) -> str:
    """Returns why no member may be taken out because of this one; empty if one may."""
    if slot.list_state is BadBlockListState.ENTRIES:
        return f"{slot.path} has bad blocks: another member may have the only good copy there, so none may be taken out"
    if slot.has_write_error:
        return f"a write to {slot.path} failed: check or replace this disk first"
    if slot.list_state is BadBlockListState.UNKNOWN:
        return f"{slot.path}: cannot read its superblock"
    if slot.list_state is BadBlockListState.EMPTY and slot.device in task.tried:
        return (
            f"{slot.path} still has a list after a re-add: blklab tries each member only once. "
            "Another program may have re-added it (udev, if mdadm.conf has a POLICY with action=re-add)"
        )
    return ""


def _next_member(state: ArrayState, task: RepairTask) -> SlotState | None:
    for slot in state.slots:
        if (
            slot.state is MemberState.IN_SYNC
            and slot.list_state is BadBlockListState.EMPTY
            and slot.device not in task.tried
        ):
            return slot
    return None


def _take_out(slot: SlotState, state: ArrayState, task: RepairTask) -> Step:
    if failures_tolerated(task, state) < 1:
        return Stop(f"{slot.path} cannot be taken out: the array would lose data")
    if not state.bitmap:
        return AddBitmap()
    if state.spares:
        return RemoveSpare(*next(iter(state.spares.items())))
    return FailMember(slot.device, slot.path)


def count_in_sync(task: RepairTask, state: ArrayState) -> int:
    """Returns the slots with a member in sync, also one that is not in the task."""
    if not state.degraded and state.has_unplanned_member:
        return task.raid_disks
    return sum(slot.state is MemberState.IN_SYNC for slot in state.slots)


def failures_tolerated(task: RepairTask, state: ArrayState) -> int:
    """Returns how many more members can fail, whichever they are, without data loss."""
    missing = task.raid_disks - count_in_sync(task, state)
    if task.level == "raid10":
        copies = (task.layout & 0xFF) * (task.layout >> 8 & 0xFF)
        return max(0, copies - 1 - missing)
    redundancy = PARITIES.get(task.level, task.raid_disks - 1)
    return max(0, redundancy - missing)


def state_after(step: Step, state: ArrayState, task: RepairTask) -> tuple[ArrayState, RepairTask]:
    """Returns the state and the task after a successful step, for plans."""

    def change_slots(device: str, **now: object) -> tuple[SlotState, ...]:
        return tuple(
            replace(slot, **now) if slot.device == device else slot  # type: ignore[arg-type]
            for slot in state.slots
        )

    match step:
        case RemoveSpare(device, path):
            out = {**state.removed_spares, device: path}
            return replace(state, spares=_without(state.spares, device), removed_spares=out), replace(
                task, spares=(*task.spares, RemovedSpare(device, path))
            )
        case AddBitmap():
            return replace(state, bitmap=True), replace(task, bitmap_added=True)
        case FailMember(device):
            slots = change_slots(device, state=MemberState.FAULTY)
            new_task = replace(task, taken=device, returned=False)
            return replace(state, slots=slots, degraded=state.degraded + 1), new_task
        case RemoveMember(device):
            return replace(state, slots=change_slots(device, state=MemberState.OUT)), task
        case ReAddMember(device, _, without_list):
            changes = {"list_state": BadBlockListState.NONE} if without_list else {}
            slots = change_slots(device, state=MemberState.REBUILDING, **changes)
            tried_devices = task.tried | {device}
            return replace(state, slots=slots), replace(task, returned=True, tried=tried_devices)
        case StopCheck():
            return replace(state, sync="recover"), task
        case WaitForSync():
            slots = tuple(
                replace(slot_state, state=MemberState.IN_SYNC)
                if slot_state.state is MemberState.REBUILDING
                else slot_state
                for slot_state in state.slots
            )
            now_idle = replace(state, slots=slots, sync="idle", degraded=0, busy_neighbour="")
            return now_idle, replace(task, taken="", returned=False, suspect=False)
        case AddSpare(device, path):
            still_out = _without(state.removed_spares, device)
            return replace(state, spares={**state.spares, device: path}, removed_spares=still_out), task
        case RemoveBitmap():
            return replace(state, bitmap=False), replace(task, bitmap_added=False)
    return state, task


def _without(paths: dict[str, str], device: str) -> dict[str, str]:
    return {name: path for name, path in paths.items() if name != device}
