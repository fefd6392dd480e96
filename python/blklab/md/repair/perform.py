"""Executes the steps of a repair, and reads the state of the array after each.

What always holds while a repair runs:

- One process repairs an array: it holds the array's lock.
- At most one member is out of the array because of blklab. `task.taken` is its device.
- The journal names this member before it is failed, and until it is in sync again. So `--resume` can bring it back
  after a crash at any time.
- A step is decided by the state that md shows now (`steps.decide_next_step`), never by what an earlier step should have
  done. A step that has no effect within its time ends the repair.
- While a member is out, signals wait, and neither a full disk nor a failed report ends the repair.
- While writes are suspended, blklab writes no file: the file may be on the array, and would wait for itself. Writes
  resume at the end of `run`, also after an error.
- A member is failed only if all preconditions hold at this moment, and, with parity, while no write is in flight.
"""

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

from blklab.errors import BlklabError
from blklab.md import command_lines
from blklab.md.audit.host import has_add_bug
from blklab.md.inventory import parse_number
from blklab.md.levels import PARITIES
from blklab.md.repair import journal, operations, steps, write_suspension
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState
from blklab.md.repair.operations import MachineOps
from blklab.md.repair.steps import STOPPED_STATES, decide_next_step
from blklab.md.repair.task import RepairTask
from blklab.system.roots import read_text

STEP_TIMEOUT_S = 60.0  # Time for a step of mdadm to show its effect; md removes a busy member only after a while
STALL_TIMEOUT_S = 30.0  # Time without activity of md after which a rebuild counts as stalled
POLL_INTERVAL_S = 0.25  # Time between two reads of sysfs
DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
DISK_INTERVAL_S = 5.0  # Time between two reads of the disks while md is working


@dataclass(frozen=True)
class RebuildProgress:
    """Progress of a rebuild, sectors; None while md does not report it."""

    done: int | None
    total: int | None
    action: str  # `sync_action` in sysfs


ReportStep = Callable[[steps.Step, str], object]  # Called with each step when it begins, and its command


class SignalDeferral:
    """Defers signals between `defer` and `deliver`, or the end of the `with` block.

    It replaces handlers, because a signal mask holds for one thread only, and another thread would
    get the signal. Only the main thread may use it.
    """

    def __init__(self) -> None:
        self._handlers: dict[signal.Signals, Callable[..., Any] | int | None] = {}
        self._received: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.deliver()

    def defer(self) -> None:
        """Defers signals from now on."""
        if not self._handlers:
            self._handlers = {number: signal.signal(number, self._record) for number in DEFERRED}

    def deliver(self) -> None:
        """Delivers the deferred signals; exceptions of their handlers are raised here."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signals, self._received = self._received, []
        for received_number in dict.fromkeys(signals):
            signal.raise_signal(received_number)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)


class StepFailed(BlklabError):
    """A step was executed and did not have its effect."""


class Repair:
    def __init__(
        self, task: RepairTask, ops: MachineOps, report_step: ReportStep, progress: Callable[[RebuildProgress], object]
    ) -> None:
        self.task = task
        self._ops = ops
        self._report_step = report_step
        self._progress = progress
        self._signals = SignalDeferral()
        self._suspension: write_suspension.WriteSuspension | None = None
        self._unreported: list[tuple[steps.Step, str]] = []
        """Steps to report when writes resume: the output may go to a file on the array."""
        self._forced = False  # md rebuilds the array in parallel with others on the same disks
        self._report_error: OSError | None = None  # Why steps cannot be reported any more; raised when no member is out

    def run(self, *, resume: bool = False) -> steps.Done | steps.Stop:
        """Executes steps until the repair is done or must stop.

        `resume`: with the task in the journal. Signals are deferred while a member is out. Raises BlklabError if a step
        has no effect; the error describes the array, and the journal is kept if blklab must still undo something.
        """
        md = self._ops.find_node(self.task) / "md"
        with journal.lock_array(md.parent.name, self._ops.roots), self._signals:
            if self.task.level in PARITIES and (read_text(md / "array_state") or "") not in STOPPED_STATES:
                write_suspension.resume_leftover(md)
            if resume:
                self.task = self._ops.read_journal(self.task)
            else:
                self._ops.write_journal(self.task)
            try:
                return self._run_steps()
            except BlklabError:
                with suppress(BlklabError):
                    self._resume_writes()
                    self._undo()
                raise
            finally:
                self._resume_writes()

    def _run_steps(self) -> steps.Done | steps.Stop:
        while True:
            step = self._decide_next()
            if isinstance(step, steps.Done | steps.Stop):
                self._resume_writes()
                return self._finish(step)
            self._start_step(step)

    def _decide_next(self) -> steps.Step:
        step = decide_next_step(self._read_settled_state(), self.task)
        if isinstance(step, steps.Stop):
            # Between two changes by md, the array may look worse than it is.
            self._ops.sleep(1.0)
            step = decide_next_step(self._read_settled_state(), self.task)
        return step

    def _read_settled_state(self) -> ArrayState:
        """Reads the state, and records in the journal if the member that was out is back."""
        state = self._read_state()
        if self.task.taken and state.slot(self.task.taken).state is MemberState.IN_SYNC:
            self._resume_writes()
            self._force_parallel(self._ops.find_node(self.task) / "md", False)
            self._update_task(taken="", returned=False, suspect=False)
            self._signals.deliver()
            self._report_pending()
        return state

    def _resume_writes(self) -> None:
        """Resumes writes, then writes the journal and reports the steps that had to wait."""
        if self._suspension is not None:
            suspension, self._suspension = self._suspension, None
            suspension.resume()
            if self.task.taken:
                self._update_task()
        self._report_pending()

    def _report_pending(self) -> None:
        """Reports pending steps; a failed report is raised only when no member is out."""
        pending, self._unreported = self._unreported, []
        try:
            for step, command in pending:
                self._report_step(step, command)
        except OSError as error:
            self._report_error = self._report_error or error
        if self._report_error and not self.task.taken:
            raise self._report_error

    def _read_state(self) -> ArrayState:
        state = self._ops.read_state(self.task)
        for slot in state.slots:
            self.task = self.task.with_path(slot.device, slot.path)
        self.task = replace(self.task, array=self._ops.array_path(self.task))
        return state

    def _update_task(self, **changes: object) -> None:
        """Changes the task and its journal. While a member is out, a full disk is no error."""
        self.task = replace(self.task, **changes)  # type: ignore[arg-type]
        if self._suspension is not None:
            return  # the journal may be on the array: the write would wait for itself
        try:
            self._ops.write_journal(self.task)
        except BlklabError:
            if not self.task.taken:
                raise

    def _start_step(self, step: steps.Step) -> None:
        line = steps.step_command(step, self.task.array)
        self._unreported.append((step, line))
        if self._suspension is None:
            self._report_pending()
        if not isinstance(step, steps.WaitForSync):
            self._signals.defer()
        self._execute_step(step, line)
        if not self.task.taken:
            self._signals.deliver()

    def _execute_step(self, step: steps.Step, line: str) -> None:
        match step:
            case steps.RemoveSpare(device, path):
                spare = self._ops.read_spare(device, path, self.task)
                other_spares = tuple(other for other in self.task.spares if other.device != device)
                self._update_task(spares=(*other_spares, spare))
                in_array = f"the spare {path} is still in the array"
                self._run_until(line, lambda state: device in state.removed_spares, in_array)
            case steps.AddBitmap():
                self._update_task(bitmap_added=True)
                self._run_until(line, lambda state: state.bitmap, "the array still has no bitmap")
            case steps.FailMember(device, path):
                self._fail_member(device, path, line)
            case steps.RemoveMember(device, path):
                self._remove_member(device, path, line)
            case steps.ReAddMember(device, path):
                self._re_add(device, path, line)
            case steps.WaitForSync(path):
                self._wait_for_sync(path)
            case steps.StopCheck():
                failure = "md still checks the array"
                self._run_until(line, lambda state: state.sync != "check" or not state.degraded, failure)
            case steps.AddSpare(device, path):
                still_out = f"the spare {path} is still out of the array"
                self._run_until(line, lambda state: device not in state.removed_spares, still_out)
            case steps.RemoveBitmap():
                self._run_until(line, lambda state: not state.bitmap, "the array still has a bitmap")
                self._update_task(bitmap_added=False)

    def _has_left(self, device: str, *states: MemberState) -> Callable[[ArrayState], bool]:
        return lambda state: state.slot(device).state not in states

    def _run_mdadm(self, line: str) -> operations.CommandOutput:
        if line.startswith("#"):
            raise StepFailed(line.removeprefix("# "))
        return self._ops.run_mdadm(*shlex.split(line)[1:])

    def _run_until(
        self,
        line: str,
        has_effect: Callable[[ArrayState], bool],
        failure: str,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        """Runs mdadm until it has an effect. Raises StepFailed after STEP_TIMEOUT_S."""
        deadline = self._ops.clock() + STEP_TIMEOUT_S
        while True:
            before()
            output = self._run_mdadm(line)
            if has_effect(self._read_state()):
                return
            if self._ops.clock() > deadline:
                raise StepFailed(f"{failure} after `{line}`, which printed: {output.last}")
            self._ops.sleep(POLL_INTERVAL_S)

    def _fail_member(self, device: str, path: str, line: str) -> None:
        for reason in self._ops.check_preconditions(self.task):
            raise StepFailed(str(reason))
        new_task = replace(self.task, taken=device, returned=False)
        self._ops.write_journal(new_task)
        if self.task.level in PARITIES:
            self._suspension = write_suspension.WriteSuspension(self._ops.find_node(self.task) / "md")
            self._suspension.suspend()
        # Writes in flight are now on the disks, or a member has failed.
        if decide_next_step(self._read_state(), self.task) != steps.FailMember(device, path):
            self._resume_writes()
            return
        self.task = new_task
        self._run_until(line, self._has_left(device, MemberState.IN_SYNC), f"{path} is still in sync")

    def _remove_member(self, device: str, path: str, line: str) -> None:
        def before() -> None:
            # Bad blocks that appeared just before it was failed may be in memory only.
            slot = self._read_state().slot(device)
            if (slot.list_state is BadBlockListState.ENTRIES or slot.has_write_error) and not self.task.suspect:
                self._update_task(suspect=True)
            if not Path(path).exists():  # unplugged: mdadm has no name for it
                node = self._ops.find_node(self.task) / "md" / f"dev-{Path(path).name}"
                with suppress(OSError):
                    (node / "state").write_text("remove")

        inside = (MemberState.FAULTY, MemberState.REBUILDING, MemberState.IN_SYNC)
        out = self._has_left(device, *inside)
        self._run_until(line, out, f"{path} is still in the array", before)
        self._update_task(tried=self.task.tried | {device})

    def _re_add(self, device: str, path: str, line: str) -> None:
        """Brings a member back: by re-add, without or with its list, or by --add as a new disk."""
        can_re_add = not self.task.suspect or self._ops.mark_all_dirty(self.task)
        output = operations.CommandOutput(0, ())
        for variant in self._re_add_variants(path, line, can_re_add=can_re_add):
            if self._read_state().slot(device).occupant:
                return  # only the user can decide which disk goes
            output = self._run_mdadm(variant)
            if self._is_back(device, path):
                self._update_task(returned=True, tried=self.task.tried | {device})
                return
        raise StepFailed(
            f"{path} is out of {self.task.array}, which is degraded, and mdadm cannot add it again"
            f" (it printed: {output.last}): correct this, then run {command_lines.resume_fix()}"
        )

    def _re_add_variants(self, path: str, line: str, *, can_re_add: bool) -> Iterator[str]:
        """Yields commands that may bring a member back, those with the least work first."""
        array = self.task.array
        plain = command_lines.re_add_disk(array, path)
        if can_re_add:
            yield from (line, line, plain)
        if can_re_add and not self._read_state().bitmap:
            yield command_lines.add_bitmap(array)
            yield from (line, plain)
        # --add makes a new superblock, and with some kernels it then fails. A rebuild from members
        # with bad blocks would overwrite good copies.
        state = self._read_state()
        other_slots = [slot for slot in state.slots if slot.device != self.task.taken]
        bad = any(slot.list_state is BadBlockListState.ENTRIES for slot in other_slots)
        can_add = state.degraded and state.sync == "idle" and not bad
        if can_add and not has_add_bug(self._ops.read_software()):
            yield command_lines.add_disk(array, path)

    def _is_back(self, device: str, path: str) -> bool:
        """Whether a member is in the array again, with its old or a new UUID."""
        self._ops.sleep(POLL_INTERVAL_S)
        state = self._read_state()
        if state.slot(device).state in {MemberState.REBUILDING, MemberState.IN_SYNC}:
            return True
        device_now = self._ops.find_member_uuid(path, self.task)
        if device_now is None:
            return False
        slots = tuple(replace(slot, device=device_now) if slot.device == device else slot for slot in self.task.slots)
        device_out = device_now if self.task.taken == device else self.task.taken
        self.task = replace(self.task, slots=slots, taken=device_out)
        return True

    def _wait_for_sync(self, path: str) -> None:
        """Waits until md is done. Ctrl-C is not deferred here, because md continues alone."""
        if self._suspension is None:
            self._signals.deliver()
        md = self._ops.find_node(self.task) / "md"
        last_busy = last_look = self._ops.clock()
        while True:
            now = self._ops.clock()
            idle = (read_text(md / "sync_action") or "idle") in {"idle", "frozen"}
            if idle or now - last_look > DISK_INTERVAL_S:
                last_look = now
                if not isinstance(decide_next_step(self._read_state(), self.task), steps.WaitForSync):
                    return
            if self._suspension is not None and self._suspension.is_overdue:
                self._resume_writes()
                self._signals.deliver()
            neighbour = self._ops.find_busy_neighbour(self.task)
            if not idle or (neighbour and not self.task.taken):
                last_busy = now
            elif now - last_busy > STALL_TIMEOUT_S:
                raise StepFailed(
                    f"{path or self.task.array}: md does not rebuild it: see dmesg and"
                    f" /proc/mdstat, then run {command_lines.resume_fix()}"
                )
            if self._suspension is None:
                self._show_progress(md, neighbour)
            self._ops.sleep(POLL_INTERVAL_S)

    def _show_progress(self, md: Path, neighbour: str) -> None:
        sync_completed = read_text(md / "sync_completed") or ""
        if neighbour and self.task.taken and "/" not in sync_completed:
            # A member is out: md must not wait for the check of another array (md.rst).
            self._force_parallel(md, True)
        done, _, total = sync_completed.partition(" / ")
        try:
            action = read_text(md / "sync_action") or "idle"
            self._progress(RebuildProgress(parse_number(done), parse_number(total), action))
        except OSError as error:
            self._report_error = self._report_error or error

    def _force_parallel(self, md: Path, force: bool) -> None:
        if force is not self._forced:
            with suppress(OSError):
                (md / "sync_force_parallel").write_text(str(int(force)))
            self._forced = force

    def _undo(self) -> None:
        """Adds the spares again, which help first, and removes blklab's bitmap."""
        state = self._read_state()
        for path in state.removed_spares.values():
            self._run_mdadm(command_lines.add_disk(self.task.array, path))
        if state.bitmap and self.task.bitmap_added and not state.degraded and state.sync == "idle":
            self._run_mdadm(command_lines.remove_bitmap(self.task.array))
        self._end_journal()

    def _end_journal(self) -> None:
        """Removes the journal, unless blklab or the user must still undo something.

        Without the member that blklab took out, a complete array has another disk in the slot: nothing is left to undo.
        """
        state = self._read_state()
        member_state = state.slot(self.task.taken).state if self.task.taken else MemberState.IN_SYNC
        out = state.degraded and member_state is not MemberState.IN_SYNC
        must_remove_bitmap = self.task.bitmap_added and state.bitmap
        if out or must_remove_bitmap or state.removed_spares:
            self._update_task()
        else:
            self._ops.remove_journal(self.task)

    def _finish(self, step: steps.Done | steps.Stop) -> steps.Done | steps.Stop:
        """Removes the journal and checks the result: Done only if no member has a list."""
        self._end_journal()
        paths = self._ops.find_members_with_lists(self.task)
        if paths and isinstance(step, steps.Done):
            return steps.Stop(f"{', '.join(paths)}: has a bad-block list, or cannot be read")
        return step
