"""Does the steps of a repair, and looks after each whether it is so."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from blklab.errors import BlklabError
from blklab.md.audit.host import is_of_the_pair
from blklab.md.members import number
from blklab.md.model import PARITIES
from blklab.md.repair import journal, mdadm, steps, write_suspension
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState
from blklab.md.repair.next_step import STOPPED, decide
from blklab.md.repair.operations import ArrayOps
from blklab.md.repair.signal_deferral import SignalDeferral
from blklab.md.repair.task import RepairTask
from blklab.system.roots import text

PATIENCE: Final = 60.0
"""Seconds that md may take for what it does at once: a member that is busy is removed later."""

STALLED: Final = 30.0
"""Seconds after which a rebuild that does not begin, or go on, will not."""

POLL: Final = 0.25
"""Seconds between two looks at sysfs."""

SELDOM: Final = 5.0
"""Seconds between two looks at the disks while md is at work."""


@dataclass(frozen=True)
class RebuildProgress:
    """How far a rebuild is: sectors; None while md does not say."""

    done: int | None
    total: int | None


Tell = Callable[[steps.Step, str], object]
"""Is told each step as it begins, with its command."""


class StepFailed(BlklabError):
    """A step was done, and what it is for did not come about."""


class Repair:
    """The repair of one array."""

    def __init__(
        self,
        task: RepairTask,
        ops: ArrayOps,
        tell: Tell,
        progress: Callable[[RebuildProgress], object],
    ) -> None:
        self.task = task
        self._ops = ops
        self._tell = tell
        self._progress = progress
        self._shield = SignalDeferral()
        self._writes: write_suspension.WriteSuspension | None = None
        self._untold: list[tuple[steps.Step, str]] = []
        """What is said once writes go on: where it is written to may be on the array."""
        self._forced = False
        """The array is rebuilt beside others on the same disks."""
        self._deaf: OSError | None = None
        """Why nothing can be told any more: raised once no member is out."""

    def run(self, *, again: bool = False) -> steps.Done | steps.Stop:
        """Goes on until nothing is left to be done, or nothing more may be.

        `again`: with what was written down. Signals wait while a member is out. Raises BlklabError
        if a step does not do what it is for; the array is then as told, and the journal is kept if
        anything is left to be undone.
        """
        md = self._ops.node(self.task) / "md"
        with journal.held(md), self._shield:
            if self.task.level in PARITIES and (text(md / "array_state") or "") not in STOPPED:
                write_suspension.go_on(md)  # whoever held them back is no more
            if again:
                self.task = self._ops.written(self.task)
            else:
                self._ops.write(self.task)
            try:
                return self._steps()
            except BlklabError:
                with suppress(BlklabError):
                    self._release()
                    self._undo()
                raise
            finally:
                self._release()

    def _steps(self) -> steps.Done | steps.Stop:
        while True:
            step = self._next()
            if isinstance(step, steps.Done | steps.Stop):
                self._release()
                return self._ended(step)
            self._do(step)

    def _next(self) -> steps.Step:
        step = decide(self._settled(), self.task)
        if isinstance(step, steps.Stop):
            # Between two of md's moments things look worse than they are.
            self._ops.sleep(1.0)
            step = decide(self._settled(), self.task)
        return step

    def _settled(self) -> ArrayState:
        """Looks at the array, and notes that the member that was out is back, if it is."""
        state = self._look()
        if self.task.taken and state.slot(self.task.taken).where is MemberState.IN_SYNC:
            self._release()
            self._parallel(self._ops.node(self.task) / "md", False)
            self._note(taken="", returned=False, suspect=False)
            self._shield.down()
            self._say()
        return state

    def _hold(self) -> None:
        self._writes = write_suspension.WriteSuspension(self._ops.node(self.task) / "md")
        self._writes.hold()

    def _release(self) -> None:
        """Has writes go on, and says and writes down what had to wait."""
        if self._writes is not None:
            held, self._writes = self._writes, None
            held.release()
            if self.task.taken:
                self._note()
        self._say()

    def _say(self) -> None:
        """Tells the steps that were not told; that nobody listens is no matter while one is out."""
        untold, self._untold = self._untold, []
        try:
            for step, words in untold:
                self._tell(step, words)
        except OSError as error:
            self._deaf = self._deaf or error
        if self._deaf and not self.task.taken:
            raise self._deaf

    def _look(self) -> ArrayState:
        state = self._ops.observe(self.task)
        for slot in state.slots:
            self.task = self.task.found_at(slot.device, slot.path)
        self.task = replace(self.task, array=self._ops.array(self.task))
        return state

    def _note(self, **now: object) -> None:
        """Writes down what has been done. A full disk does not keep a member from coming back."""
        self.task = replace(self.task, **now)  # type: ignore[arg-type]
        if self._writes is not None:
            return  # it might wait for itself
        try:
            self._ops.write(self.task)
        except BlklabError:
            if not self.task.taken:
                raise

    def _do(self, step: steps.Step) -> None:
        words = steps.command(step, self.task.array)
        self._untold.append((step, mdadm.shown(words) if words else ""))
        if self._writes is None:
            self._say()
        if not isinstance(step, steps.WaitForSync):
            self._shield.up()
        self._done(step, words)
        if not self.task.taken:
            self._shield.down()

    def _done(self, step: steps.Step, words: list[str]) -> None:
        match step:
            case steps.RemoveSpare(device, path):
                spare = self._ops.spare_at(device, path, self.task)
                others = tuple(other for other in self.task.spares if other.device != device)
                self._note(spares=(*others, spare))
                self._mdadm(words, lambda state: device in state.set_aside, f"{path} is still in")
            case steps.AddBitmap():
                self._note(bitmap_added=True)
                self._mdadm(words, lambda state: state.bitmap, "there is no bitmap")
            case steps.FailMember(device, path):
                self._take(device, path, words)
            case steps.RemoveMember(device, path):
                self._remove(device, path, words)
            case steps.ReAddMember(device, path):
                self._re_add(device, path, words)
            case steps.WaitForSync(path):
                self._wait(path)
            case steps.AddSpare(device, path):
                gone = f"the spare {path} could not be added again"
                self._mdadm(words, lambda state: device not in state.set_aside, gone)
            case steps.RemoveBitmap():
                self._mdadm(words, lambda state: not state.bitmap, "the bitmap is still there")
                self._note(bitmap_added=False)

    def _is_not(self, device: str, *where: MemberState) -> Callable[[ArrayState], bool]:
        return lambda state: state.slot(device).where not in where

    def _mdadm(
        self,
        words: list[str],
        holds: Callable[[ArrayState], bool],
        otherwise: str,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        """Runs mdadm until what it is for holds. Raises Failed if it never does."""
        deadline = self._ops.clock() + PATIENCE
        while True:
            before()
            output = self._ops.mdadm(*words)
            if holds(self._look()):
                return
            if self._ops.clock() > deadline:
                raise StepFailed(
                    f"{otherwise} after {mdadm.shown(words)}, which said: {output.last}"
                )
            self._ops.sleep(POLL)

    def _take(self, device: str, path: str, words: list[str]) -> None:
        for reason in self._ops.refused(self.task):
            raise StepFailed(str(reason))
        taken = replace(self.task, taken=device, returned=False)
        self._ops.write(taken)
        if self.task.level in PARITIES:
            self._hold()
        # What was in flight is written, or has failed somebody.
        if decide(self._look(), self.task) != steps.FailMember(device, path):
            self._release()
            return
        self.task = taken
        self._mdadm(words, self._is_not(device, MemberState.IN_SYNC), f"{path} is not failed")

    def _remove(self, device: str, path: str, words: list[str]) -> None:
        def suspected() -> None:
            # What came up between the look at its list and its failure may be in memory alone.
            slot = self._look().slot(device)
            if (slot.lists is BadBlockListState.ENTRIES or slot.erring) and not self.task.suspect:
                self._note(suspect=True)
            if not Path(path).exists():  # unplugged: mdadm has no name for it
                node = self._ops.node(self.task) / "md" / f"dev-{Path(path).name}"
                with suppress(OSError):
                    (node / "state").write_text("remove")

        inside = (MemberState.FAULTY, MemberState.REBUILDING, MemberState.IN_SYNC)
        out = self._is_not(device, *inside)
        self._mdadm(words, out, f"{path} cannot be removed", suspected)

    def _re_add(self, device: str, path: str, words: list[str]) -> None:
        """Has a member come back, by what is least: a re-add, one as it was, or as a new disk."""
        again = not self.task.suspect or self._ops.mark_all(self.task)
        output = mdadm.CommandOutput(0, ())
        for attempt in self._re_add_variants(path, words, again=again):
            output = self._ops.mdadm(*attempt)
            if self._came_back(device, path):
                self._note(returned=True, tried=self.task.tried | {device})
                return
        raise StepFailed(
            f"{path} is out of {self.task.array} and cannot be added again (mdadm: {output.last}):"
            " the array is degraded; once that is mended: blklab md fix --resume"
        )

    def _re_add_variants(self, path: str, words: list[str], *, again: bool) -> Iterator[list[str]]:
        """Yields what may bring a member back, the gentlest first; `again`: by a re-add, too."""
        array = self.task.array
        plain = [array, "--re-add", path]
        if again:
            yield from (words, words, plain)
        if again and not self._look().bitmap:
            yield ["--grow", "--bitmap=internal", array]
            yield from (words, plain)
        # That makes its superblock anew, which with some kernels is all it does; and a rebuild out
        # of what has bad blocks would write over good copies.
        state = self._look()
        others = [slot for slot in state.slots if slot.device != self.task.taken]
        bad = any(slot.lists is BadBlockListState.ENTRIES for slot in others)
        may = state.degraded and state.sync == "idle" and not bad
        if may and not is_of_the_pair(self._ops.software()):
            yield steps.adding(array, path)

    def _came_back(self, device: str, path: str) -> bool:
        """Tells whether a member is in the array again, under whichever UUID."""
        self._ops.sleep(POLL)
        state = self._look()
        if state.slot(device).where in {MemberState.REBUILDING, MemberState.IN_SYNC}:
            return True
        device_now = self._ops.device_at(path, self.task)
        if device_now is None:
            return False
        slots = tuple(
            replace(slot, device=device_now) if slot.device == device else slot
            for slot in self.task.slots
        )
        taken = device_now if self.task.taken == device else self.task.taken
        self.task = replace(self.task, slots=slots, taken=taken)
        return True

    def _wait(self, path: str) -> None:
        """Waits until md is done; Ctrl-C may come: md goes on by itself."""
        if self._writes is None:
            self._shield.down()
        md = self._ops.node(self.task) / "md"
        worked = looked = self._ops.clock()
        while True:
            now = self._ops.clock()
            idle = (text(md / "sync_action") or "idle") in {"idle", "frozen"}
            if idle or now - looked > SELDOM:
                looked = now
                if not isinstance(decide(self._look(), self.task), steps.WaitForSync):
                    return
            if self._writes is not None and self._writes.long:
                self._release()
                self._shield.down()
            neighbour = self._ops.busy_neighbour(self.task)
            if not idle or (neighbour and not self.task.taken):
                worked = now
            elif now - worked > STALLED:
                who = path or self.task.array
                raise StepFailed(f"{who} is not rebuilt: md does nothing (see dmesg, /proc/mdstat)")
            if self._writes is None:
                self._progress_of(md, neighbour)
            self._ops.sleep(POLL)

    def _progress_of(self, md: Path, neighbour: str) -> None:
        completed = text(md / "sync_completed") or ""
        if neighbour and self.task.taken and "/" not in completed:
            # A member is out: it is not to wait for another array's check (md.rst).
            self._parallel(md, True)
        done, _, total = completed.partition(" / ")
        try:
            self._progress(RebuildProgress(number(done), number(total)))
        except OSError as error:
            self._deaf = self._deaf or error

    def _parallel(self, md: Path, wanted: bool) -> None:
        if wanted is not self._forced:
            with suppress(OSError):
                (md / "sync_force_parallel").write_text(str(int(wanted)))
            self._forced = wanted

    def _undo(self) -> None:
        """Gives back what is not the array's any more: spares first, for they help."""
        state = self._look()
        for path in state.set_aside.values():
            self._ops.mdadm(*steps.adding(self.task.array, path))
        if state.bitmap and self.task.bitmap_added and not state.degraded and state.sync == "idle":
            self._ops.mdadm(*steps.command(steps.RemoveBitmap(), self.task.array))
        self._forget()

    def _forget(self) -> None:
        """Forgets the task, unless something of it is left to be undone."""
        state = self._look()
        # One that is out of an array that lacks nothing has lost its place.
        taken = self.task.taken and state.slot(self.task.taken).where is not MemberState.IN_SYNC
        out = taken and state.degraded
        added = self.task.bitmap_added and state.bitmap
        if not (out or added or state.set_aside):
            self._ops.remove(self.task)

    def _ended(self, step: steps.Done | steps.Stop) -> steps.Done | steps.Stop:
        """Looks a last time, and believes no more than that."""
        self._forget()
        having = self._ops.with_lists(self.task)
        if having and isinstance(step, steps.Done):
            return steps.Stop(f"{', '.join(having)} has a bad-block list, or cannot be read")
        return step
