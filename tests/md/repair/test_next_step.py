"""The next step in any state: no needed member is taken out, and all come back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md.plan_report import describe_situation
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState, SlotState
from blklab.md.repair.steps import (
    AddBitmap,
    AddSpare,
    Done,
    FailMember,
    ReAddMember,
    RemoveBitmap,
    RemoveMember,
    RemoveSpare,
    Step,
    Stop,
    StopCheck,
    WaitForSync,
    decide_next_step,
    failures_tolerated,
    state_after,
    step_command,
)
from blklab.md.repair.task import MemberSlot, RemovedSpare, RepairTask

LEVELS = [("raid1", 2, 0), ("raid1", 3, 0), ("raid10", 4, 0x102), ("raid5", 3, 2), ("raid6", 4, 2)]


def task_of(level: str = "raid1", disks: int = 2, layout: int = 0) -> RepairTask:
    slots = tuple(MemberSlot(at, f"device{at}", f"/dev/sd{at}") for at in range(disks))
    return RepairTask("uuid", "/dev/md0", level, disks, layout, slots)


def state_of(task: RepairTask, **now: Any) -> ArrayState:
    slots = tuple(
        SlotState(slot.device, slot.path, MemberState.IN_SYNC, BadBlockListState.EMPTY) for slot in task.slots
    )
    return ArrayState(**{"slots": slots, "bitmap": True, "degraded": 0, **now})


def changed(array: ArrayState, at: int, **now: Any) -> ArrayState:
    slots = list(array.slots)
    slots[at] = replace(slots[at], **now)
    missing = sum(slot.state is not MemberState.IN_SYNC for slot in slots)
    return replace(array, slots=tuple(slots), degraded=missing)


def played(state: ArrayState, task: RepairTask) -> tuple[list[Step], ArrayState, RepairTask]:
    steps: list[Step] = []
    while not steps or not isinstance(steps[-1], Done | Stop):
        steps.append(decide_next_step(state, task))
        state, task = state_after(steps[-1], state, task)
        assert len(steps) < 200
    return steps, state, task


@pytest.mark.parametrize(("level", "disks", "layout"), LEVELS)
@pytest.mark.parametrize("bitmap", [True, False])
@pytest.mark.parametrize("spare", [True, False])
def test_a_sound_array(level: str, disks: int, layout: int, bitmap: bool, spare: bool) -> None:
    task = task_of(level, disks, layout)
    spares = {"spare": "/dev/sdz"} if spare else {}
    before = state_of(task, bitmap=bitmap, spares=spares)
    steps, state, _ = played(before, task)
    assert all(slot.list_state is BadBlockListState.NONE for slot in state.slots)
    assert replace(state, slots=before.slots) == before
    cycle = [FailMember, RemoveMember, ReAddMember, WaitForSync] * disks
    wanted: list[type] = [*[AddBitmap] * (not bitmap), *[RemoveSpare] * spare, *cycle]
    wanted += [*[AddSpare] * spare, *[RemoveBitmap] * (not bitmap), Done]
    assert [type(step) for step in steps] == wanted


def test_nothing_to_do() -> None:
    task = task_of()
    state = state_of(task)
    slots = tuple(replace(slot, list_state=BadBlockListState.NONE) for slot in state.slots)
    assert decide_next_step(replace(state, slots=slots), task) == Done()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"list_state": BadBlockListState.ENTRIES}, "has bad blocks"),
    ({"list_state": BadBlockListState.UNKNOWN}, "cannot read"),
    ({"has_write_error": True}, "a write to /dev/sd1 failed"),
    ({"state": MemberState.FAULTY}, "is faulty, which blklab did not cause"),
    ({"state": MemberState.OUT}, "is out, which blklab did not cause"),
    ({"state": MemberState.GONE}, "is gone, which blklab did not cause"),
    ({"state": MemberState.REBUILDING}, "is being rebuilt, which blklab did not start"),
]


@pytest.mark.parametrize(("slot", "reason"), REFUSED)
def test_one_member_in_trouble_and_none_is_taken(slot: dict[str, Any], reason: str) -> None:
    task = task_of("raid6", 4, 2)
    step = decide_next_step(changed(state_of(task), 1, **slot), task)
    assert isinstance(step, Stop)
    assert reason in step.reason


@pytest.mark.parametrize("mode", ["readonly", "read-auto", "inactive", "broken", "suspended", ""])
def test_an_array_that_does_not_run(mode: str) -> None:
    task = task_of()
    assert isinstance(decide_next_step(state_of(task, array_state=mode), task), Stop)


def test_an_array_with_parity_that_md_does_not_start() -> None:
    task = replace(task_of("raid5", 3, 2), taken="device1")
    step = decide_next_step(state_of(task, array_state="inactive"), task)
    assert isinstance(step, Stop)
    assert step.remedy == ("blklab md fix restart /dev/md0", "blklab md fix --resume")


def test_what_md_is_at_is_waited_for() -> None:
    task = task_of()
    assert decide_next_step(state_of(task, sync="check"), task) == WaitForSync()
    assert isinstance(decide_next_step(state_of(task, sync="frozen"), task), Stop)


@pytest.mark.parametrize("layout", [0x101, 0x103])
def test_copies_decide_how_many_failures_raid10_tolerates(layout: int) -> None:
    task = task_of("raid10", 4, layout)
    step = decide_next_step(state_of(task), task)
    assert isinstance(step, Stop if layout == 0x101 else FailMember)


def test_the_last_one_in_sync() -> None:
    task = task_of("raid1", 1)
    step = decide_next_step(state_of(task), task)
    assert isinstance(step, Stop)
    assert "the array would lose data" in step.reason


def taken(at: int = 0, **now: Any) -> tuple[ArrayState, RepairTask]:
    task = replace(task_of("raid5", 3, 2), taken=f"device{at}", bitmap_added=True)
    return changed(state_of(task), at, **now), task


def test_a_list_that_got_entries_meanwhile_is_kept() -> None:
    state, task = taken(state=MemberState.OUT, list_state=BadBlockListState.ENTRIES)
    assert decide_next_step(state, task) == ReAddMember("device0", "/dev/sd0", without_list=False)


def test_so_is_that_of_a_member_whose_sources_have_bad_blocks() -> None:
    # Without a list it could not be rebuilt: md stops where a source cannot be read.
    state, task = taken(state=MemberState.OUT)
    state = changed(state, 1, list_state=BadBlockListState.ENTRIES)
    assert decide_next_step(state, task) == ReAddMember("device0", "/dev/sd0", without_list=False)


def test_and_that_of_a_suspect() -> None:
    state, task = taken(state=MemberState.OUT)
    assert decide_next_step(state, task) == ReAddMember("device0", "/dev/sd0", without_list=True)
    assert decide_next_step(state, replace(task, suspect=True)) == ReAddMember("device0", "/dev/sd0", False)


def test_our_member_comes_back_though_another_one_fails() -> None:
    state, task = taken(state=MemberState.OUT)
    state = changed(state, 2, state=MemberState.FAULTY)
    assert isinstance(decide_next_step(state, task), ReAddMember)
    state = changed(state, 0, state=MemberState.IN_SYNC)
    step = decide_next_step(state, task)
    assert isinstance(step, Stop)
    assert "/dev/sd2 is faulty" in step.reason


def test_a_member_that_fails_while_it_is_rebuilt_is_left_to_people() -> None:
    state, task = taken(state=MemberState.FAULTY)
    assert isinstance(decide_next_step(state, task), RemoveMember)
    task = replace(task, returned=True)
    step = decide_next_step(state, task)
    assert isinstance(step, Stop)
    assert "failed while md rebuilt it" in step.reason
    # The spare, if there was one, is what helps now.
    task = replace(task, spares=(RemovedSpare("spare", "/dev/sdz"),))
    assert decide_next_step(replace(state, removed_spares={"spare": "/dev/sdz"}), task) == AddSpare("spare", "/dev/sdz")


def test_a_disk_that_was_replaced_meanwhile() -> None:
    state, task = taken(state=MemberState.GONE)
    state = replace(state, degraded=0, has_unplanned_member=True)
    # The bitmap that we added goes first.
    assert decide_next_step(state, task) == RemoveBitmap()
    step = decide_next_step(replace(state, bitmap=False), task)
    assert isinstance(step, Stop)
    assert step.reason.endswith("run blklab md fix bbl /dev/md0 again for a new plan")


def test_a_disk_that_md_rebuilds_in_the_slot_is_named_at_once() -> None:
    state, task = taken(state=MemberState.OUT, occupant="/dev/sdx")
    step = decide_next_step(replace(state, sync="recover"), task)
    assert isinstance(step, Stop)
    assert step.reason.startswith("/dev/sdx is now in the slot of /dev/sd0")
    # Nothing is taken out: the member that is out has the data until the rebuild ends.
    commands = ["mdadm --wait /dev/md0", "blklab md fix --resume"]
    assert [line for line in step.remedy if line[0] != "#"] == commands
    # As soon as the other disk is out, the member comes back.
    assert isinstance(decide_next_step(changed(state, 0, occupant=""), task), ReAddMember)
    # A failed member leaves first.
    assert isinstance(decide_next_step(changed(state, 0, state=MemberState.FAULTY), task), RemoveMember)


@pytest.mark.parametrize("state", [MemberState.OUT, MemberState.REBUILDING])
def test_a_spare_that_took_the_slot_for_good(state: MemberState) -> None:
    array, task = taken(state=state, occupant="/dev/sdx")
    step = decide_next_step(replace(array, degraded=0, has_unplanned_member=True, bitmap=False), task)
    assert isinstance(step, Stop)
    assert [line for line in step.remedy if line[0] != "#"] == ["blklab md fix replace /dev/md0 /dev/sdx /dev/sd0"]


def test_a_member_with_the_only_good_copy_is_not_wiped() -> None:
    array, task = taken(state=MemberState.OUT, occupant="/dev/sdx")
    array = replace(array, degraded=0, has_unplanned_member=True, bitmap=False, with_bad_blocks=("/dev/sd1",))
    step = decide_next_step(array, task)
    assert isinstance(step, Stop)
    assert not any("--zero-superblock" in line or "--add" in line for line in step.remedy)
    assert step.remedy[0].startswith("# Keep /dev/sd0 as it is: /dev/sd1 has bad blocks")


def test_a_check_keeps_no_member_out() -> None:
    state, task = taken(state=MemberState.REBUILDING)
    step = decide_next_step(replace(state, sync="check"), task)
    assert step == StopCheck("/dev/sd0")
    assert step_command(step, task.array) == "mdadm --action=idle /dev/md0"
    # No other action is stopped, and a check of a complete array is waited for.
    assert decide_next_step(replace(state, sync="resync"), task) == WaitForSync("/dev/sd0")
    assert decide_next_step(state_of(task_of(), sync="check"), task_of()) == WaitForSync()


def test_no_member_is_taken_while_a_neighbour_is_checked() -> None:
    task = task_of()
    assert decide_next_step(state_of(task, busy_neighbour="md1: check"), task) == WaitForSync()


def test_a_broken_array_is_said_to_be_broken() -> None:
    task = task_of("raid5", 3, 2)
    step = decide_next_step(changed(state_of(task, array_state="broken"), 1, state=MemberState.FAULTY), task)
    assert isinstance(step, Stop)
    assert "the array is broken" in step.reason
    assert "blklab md fix restart /dev/md0" in step.remedy


@pytest.mark.parametrize(
    ("now", "remedy", "lines"),
    [
        ({"array_state": "broken", "degraded": 1}, ("# why", "mdadm --stop /dev/md0", "mdadm …"),
         ("state: /dev/md0 is broken, 2 of 3 members are in sync, /dev/sd0 is out",
          "data at risk: yes: every write fails; do not add, remove or wipe a member",
          "next command: mdadm --stop /dev/md0   (then the other commands above)")),
        ({"degraded": 1}, (),
         ("state: /dev/md0 is clean, 2 of 3 members are in sync, /dev/sd0 is out",
          "data at risk: yes: the next failure of a member loses data", "next command: blklab md fix --resume")),
        ({"with_bad_blocks": ("/dev/sd1",)}, (),
         ("state: /dev/md0 is clean, 2 of 3 members are in sync, /dev/sd0 is out",
          "data at risk: yes: /dev/sd1 has bad blocks; do not remove another member",
          "next command: blklab md fix --resume")),
    ],
)  # fmt: skip
def test_a_failed_repair_ends_with_three_lines(
    now: dict[str, Any], remedy: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    state, task = taken(state=MemberState.OUT)
    assert describe_situation(task, replace(state, **now), remedy, has_journal=True) == lines
    missing = describe_situation(task, None, (), has_journal=True)
    assert missing[2] == "next command: mdadm --assemble --scan"
    sound = state_of(task_of("raid6", 4, 2))
    ended = describe_situation(task_of("raid6", 4, 2), sound, (), has_journal=False)
    assert ended[1:] == ("data at risk: no: the array tolerates 2 more failures", "next command: blklab md audit")


def test_a_list_that_does_not_go_is_not_tried_again() -> None:
    task = replace(task_of(), tried=frozenset({"device1"}))
    state = changed(state_of(task), 0, list_state=BadBlockListState.NONE)
    step = decide_next_step(state, task)
    assert isinstance(step, Stop)
    assert "still has a list" in step.reason


events = st.sampled_from(["step", "step", "step", "fail", "entries", "has_write_error", "crash", "back"])


@given(st.sampled_from(LEVELS), st.booleans(), st.booleans(), st.lists(events), st.data())
def test_any_sequence_of_events(  # noqa: PLR0912
    kind: tuple[str, int, int], bitmap: bool, spare: bool, happens: list[str], data: st.DataObject
) -> None:
    task = task_of(*kind)
    state = state_of(task, bitmap=bitmap, spares={"spare": "/dev/sdz"} if spare else {})
    real = False
    for event in [*happens, *["step"] * 60]:
        at = data.draw(st.integers(0, kind[1] - 1)) if event not in {"step", "crash"} else 0
        slot = state.slots[at]
        if event == "fail" and failures_tolerated(task, state) and slot.state is MemberState.IN_SYNC:
            state, real = changed(state, at, state=MemberState.FAULTY), True
        elif event == "entries" and slot.state is MemberState.IN_SYNC:
            state, real = changed(state, at, list_state=BadBlockListState.ENTRIES), True
        elif event == "has_write_error" and slot.state is MemberState.IN_SYNC:
            state, real = changed(state, at, has_write_error=True), True
        elif event == "back" and slot.device == task.taken and slot.state is MemberState.OUT:
            # As udev and mdadm do when a machine is booted.
            state = changed(state, at, state=MemberState.IN_SYNC)
        elif event == "crash":
            # What was done last may not have been written down.
            task = replace(task, returned=False)
        elif event == "step":
            step = decide_next_step(state, task)
            if isinstance(step, FailMember):
                assert failures_tolerated(task, state) >= 1
                assert state.bitmap
                assert not state.spares
                assert all(item.state is MemberState.IN_SYNC for item in state.slots)
                assert not any(
                    item.list_state is BadBlockListState.ENTRIES or item.has_write_error for item in state.slots
                )
            if isinstance(step, ReAddMember) and step.without_list:
                assert not any(item.list_state is BadBlockListState.ENTRIES for item in state.slots)
            if isinstance(step, RemoveBitmap):
                assert not state.degraded
            if isinstance(step, Done | Stop):
                break
            before = state
            state, task = state_after(step, state, task)
            if isinstance(step, WaitForSync):
                # Waiting does not repair a real failure.
                missing = sum(item.state is not MemberState.IN_SYNC for item in state.slots)
                state = replace(state, degraded=missing)
                assert state != before or before.sync != "idle"
            if task.taken and state.slot(task.taken).state is MemberState.IN_SYNC:
                task = replace(task, taken="", returned=False, suspect=False)
    else:
        raise AssertionError("it goes on for ever")
    ours = [item for item in state.slots if item.device == task.taken]
    assert all(item.state in {MemberState.IN_SYNC, MemberState.FAULTY} for item in ours)
    assert not state.removed_spares
    if not real:
        assert step == Done()
        assert all(item.list_state is BadBlockListState.NONE for item in state.slots)
        assert state.bitmap == bitmap
