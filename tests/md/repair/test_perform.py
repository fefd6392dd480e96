"""Steps are done, and only what is then seen is believed: on a model of md that lies at will."""

# ruff: noqa: ARG002  # the model is of one array

import errno
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blklab.cli import signals
from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.md import probing
from blklab.md.model import Software
from blklab.md.repair import journal, steps
from blklab.md.repair.array_state import ArrayState, BadBlockListState, MemberState
from blklab.md.repair.operations import CommandOutput, MachineOps
from blklab.md.repair.perform import Repair, StepFailed
from blklab.md.repair.task import RepairTask
from blklab.md.repair.write_suspension import MARK
from blklab.system.roots import Roots
from tests.md.repair.test_next_step import changed, state_of, task_of


class Model(MachineOps):
    """An array of two disks, and an mdadm that does to it what it would. Time flies."""

    def __init__(self, roots: Roots, node: Path) -> None:
        super().__init__(roots)
        self.directory = node
        self.state = state_of(task_of())
        self.ran: list[str] = []
        self.lies: set[str] = set()
        """Options with which mdadm says that all went well, and does nothing."""
        self.refuses: list[str] = []
        self.with_lists: list[str] = []
        """Members that are found to have one in the end."""
        self.marks: bool | None = None
        """Whether bits can be set; None: the array has no file for it."""
        self.marked = 0
        self.before: Callable[[str], None] = lambda _: None
        self.later: Callable[[], ArrayState] | None = None
        """What another program has made of the array at the second look after mdadm."""
        self.writing: Callable[[RepairTask], None] = lambda _: None
        self.wrote: Callable[[RepairTask], None] = lambda _: None
        self.removal_error = ""
        self.known = Software(kernel=(6, 1), mdadm=(4, 2), lists_off=True, config="", checked_by="")
        self.now = 0.0

    def find_node(self, task: RepairTask) -> Path:
        return self.directory

    def array_path(self, task: RepairTask) -> str:
        return "/dev/md0"

    def read_state(self, task: RepairTask) -> ArrayState:
        seen = self.state
        if self.later and seen.degraded:
            self.state, self.later = self.later(), None
        return seen

    def check_preconditions(self, task: RepairTask) -> Iterator[Diagnostic]:
        for reason in self.refuses:
            yield Diagnostic("refused", "critical", "", reason)

    def find_members_with_lists(self, task: RepairTask) -> list[str]:
        return self.with_lists

    def find_member_uuid(self, path: str, task: RepairTask) -> str | None:
        return None

    def read_software(self) -> Software:
        return self.known

    def mark_all_dirty(self, task: RepairTask) -> bool:
        self.marked += 1
        return super().mark_all_dirty(task) if self.marks is None else self.marks

    def write_journal(self, task: RepairTask) -> None:
        self.writing(task)
        super().write_journal(task)
        self.wrote(task)

    def remove_journal(self, task: RepairTask) -> None:
        if self.removal_error:
            raise BlklabError(self.removal_error)
        super().remove_journal(task)

    def clock(self) -> float:
        self.now += 7
        return self.now

    def sleep(self, seconds: float) -> None:
        pass

    def run_mdadm(self, *words: str) -> CommandOutput:
        line = " ".join(words)
        self.ran.append(line)
        self.before(line)
        option = next(word for word in words if word.startswith("--"))
        if option in self.lies:
            return CommandOutput(0, ("mdadm: re-added",))
        if option == "--grow":
            self.state = replace(self.state, bitmap=words[1] == "--bitmap=internal")
            return CommandOutput(0, ())
        if option == "--action=idle":
            self.state = replace(changed(self.state, 0, state=MemberState.IN_SYNC), sync="idle")
            return CommandOutput(0, ())
        at = int(words[2][-1])
        if at >= len(self.state.slots):
            return CommandOutput(0, ())
        match option:
            case "--fail":
                self.state = changed(self.state, at, state=MemberState.FAULTY)
            case "--remove":
                self.state = changed(self.state, at, state=MemberState.OUT)
            case "--re-add":
                lists = BadBlockListState.NONE if "--update=no-bbl" in words else self.state.slots[at].list_state
                self.state = changed(self.state, at, state=MemberState.IN_SYNC, list_state=lists)
            case "--add":
                self.state = changed(self.state, at, state=MemberState.IN_SYNC, list_state=BadBlockListState.NONE)
        return CommandOutput(0, ())

    def goes_on(self, path: Path) -> steps.Done | steps.Stop:
        repair = Repair(journal.read_journal(path), self, lambda *_: None, lambda _: None)
        return repair.run(resume=True)

    def repair(self, **task: object) -> steps.Done | steps.Stop:
        wanted = replace(task_of(), **task)  # type: ignore[arg-type]
        return Repair(wanted, self, lambda *_: None, lambda _: None).run()


@pytest.fixture
def model(tmp_path: Path) -> Model:
    node = tmp_path / "md0"
    (node / "md").mkdir(parents=True)
    return Model(Roots(state=tmp_path / "state"), node)


def test_all_goes_well(model: Model) -> None:
    assert model.repair() == steps.Done()
    assert model.ran == [
        "/dev/md0 --fail /dev/sd0",
        "/dev/md0 --remove /dev/sd0",
        "/dev/md0 --re-add /dev/sd0 --update=no-bbl",
        "/dev/md0 --fail /dev/sd1",
        "/dev/md0 --remove /dev/sd1",
        "/dev/md0 --re-add /dev/sd1 --update=no-bbl",
    ]
    assert probing.find_journals(model.roots) == []


def test_steps_are_told_before_they_are_done(model: Model) -> None:
    facts: list[tuple[steps.Step, str]] = []
    Repair(task_of(), model, lambda *step: facts.append(step), lambda _: None).run()
    assert [words.removeprefix("mdadm ") for _, words in facts if words] == model.ran


def test_a_failure_that_does_not_come_about(model: Model) -> None:
    model.lies = {"--fail"}
    with pytest.raises(StepFailed, match="/dev/sd0 is still in sync after `mdadm /dev/md0 --fail"):
        model.repair()
    assert all(slot.state is MemberState.IN_SYNC for slot in model.state.slots)
    # There is nothing to repair.
    assert probing.find_journals(model.roots) == []


def test_a_journal_that_cannot_be_removed_hides_no_error(model: Model) -> None:
    def becomes_read_only(_line: str) -> None:
        model.removal_error = "Read-only file system"

    model.before = becomes_read_only
    model.lies = {"--fail"}
    with pytest.raises(StepFailed, match="/dev/sd0 is still in sync after `mdadm /dev/md0 --fail"):
        model.repair()
    assert len(probing.find_journals(model.roots)) == 1


def test_a_repair_that_is_done_says_that_its_journal_remains(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_path: object, **_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(BlklabError, match=r"md-fix-uuid\.json: cannot remove the journal: Read-only file system"):
        model.repair()
    assert all(slot.list_state is BadBlockListState.NONE for slot in model.state.slots)


def test_an_array_that_breaks_is_left_as_it_is_and_resumed_when_it_runs_again(model: Model) -> None:
    """Its last good member has an error while another one is out: md then refuses every write."""

    def breaks(line: str) -> None:
        if "--remove" in line:
            model.state = replace(model.state, array_state="broken")

    model.before = breaks
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert model.ran[-1] == "/dev/md0 --remove /dev/sd0"
    commands = [line for line in outcome.remedy if line[0] != "#"]
    assert commands == ["blklab md fix restart /dev/md0", "blklab md fix --resume"]
    (path,) = probing.find_journals(model.roots)
    # As long as it is broken, nothing changes, and the same commands are printed.
    count = len(model.ran)
    assert model.goes_on(path) == outcome
    assert (len(model.ran), path.exists()) == (count, True)
    model.before = lambda _: None
    model.state = replace(model.state, array_state="clean")
    assert model.goes_on(path) == steps.Done()
    assert not path.exists()


def test_a_list_that_stays_though_mdadm_says_otherwise(model: Model) -> None:
    def stays(line: str) -> None:
        if "--re-add" in line:
            model.state = changed(model.state, 0, state=MemberState.IN_SYNC)
            model.lies = {"--re-add"}

    model.before = stays
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert "still has a list" in outcome.reason
    # It was tried once, and the other member was left alone.
    assert sum("--fail" in line for line in model.ran) == 1


def test_a_member_that_cannot_be_re_added_is_added_as_a_new_one(model: Model) -> None:
    model.lies = {"--re-add"}
    model.repair()
    assert model.ran[2:6] == [
        "/dev/md0 --re-add /dev/sd0 --update=no-bbl",
        "/dev/md0 --re-add /dev/sd0 --update=no-bbl",
        "/dev/md0 --re-add /dev/sd0",
        "/dev/md0 --add /dev/sd0",
    ]
    assert all(slot.state is MemberState.IN_SYNC for slot in model.state.slots)


def test_but_not_where_that_would_spoil_it(model: Model) -> None:
    model.lies = {"--re-add"}
    model.known = replace(model.known, kernel=(6, 12))
    with pytest.raises(StepFailed, match=r"sd0 is out of /dev/md0, which is degraded, and mdadm cannot add it again"):
        model.repair()
    assert not any("--add " in line for line in model.ran)
    (path,) = probing.find_journals(model.roots)
    assert journal.read_journal(path).taken == "device0"
    model.lies = set()
    assert Repair(journal.read_journal(path), model, lambda *_: None, lambda _: None).run() == steps.Done()
    assert probing.find_journals(model.roots) == []


def test_a_bitmap_that_another_process_removed(model: Model) -> None:
    def refused(line: str) -> None:
        model.lies = set() if model.state.bitmap else {"--re-add"}
        if "--remove" in line:
            model.state = replace(model.state, bitmap=False)

    model.before = refused
    assert model.repair() == steps.Done()
    assert "--grow --bitmap=internal /dev/md0" in model.ran
    assert not any("--add " in line for line in model.ran)


def test_entries_that_come_up_while_a_member_is_taken_out(model: Model) -> None:
    model.marks = True

    def written(line: str) -> None:
        if "--fail" in line:
            model.state = changed(model.state, 0, list_state=BadBlockListState.ENTRIES)

    model.before = written
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert model.marked == 1
    assert model.ran[2] == "/dev/md0 --re-add /dev/sd0"
    assert all(slot.state is MemberState.IN_SYNC for slot in model.state.slots)


def test_bits_that_cannot_be_set(model: Model) -> None:
    model.marks = False

    def written(line: str) -> None:
        if "--fail" in line:
            model.state = changed(model.state, 0, list_state=BadBlockListState.ENTRIES)

    model.before = written
    model.repair()
    # A re-add would present as good what was not written.
    assert model.ran[2] == "/dev/md0 --add /dev/sd0"


def test_a_full_disk_keeps_no_member_out(model: Model) -> None:
    def full(_task: RepairTask) -> None:
        if model.state.degraded:
            raise BlklabError("No space left on device")

    model.writing = full
    assert model.repair() == steps.Done()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_the_member_is_back(model: Model, number: int) -> None:
    def sent(line: str) -> None:
        if "--fail" in line:
            os.kill(os.getpid(), number)

    model.before = sent
    with signals.handle_signals(), pytest.raises((KeyboardInterrupt, SystemExit)):
        model.repair()
    assert [line.split()[1] for line in model.ran] == ["--fail", "--remove", "--re-add"]
    assert all(slot.state is MemberState.IN_SYNC for slot in model.state.slots)
    (path,) = probing.find_journals(model.roots)
    model.before = lambda _: None
    assert Repair(journal.read_journal(path), model, lambda *_: None, lambda _: None).run() == steps.Done()


def test_a_list_that_is_left_is_not_said_to_be_gone(model: Model) -> None:
    model.with_lists = ["/dev/sd9"]
    assert model.repair() == steps.Stop("/dev/sd9: has a bad-block list, or cannot be read")


def test_what_refuses_is_asked_again_before_a_member_is_taken(model: Model) -> None:
    model.refuses = ["sd1 is 9 events behind"]
    with pytest.raises(StepFailed, match="sd1 is 9 events behind"):
        model.repair()
    assert model.ran == []
    assert probing.find_journals(model.roots) == []


def test_what_was_added_and_set_aside_is_given_back(model: Model) -> None:
    def refused(line: str) -> None:
        if "--remove /dev/sd9" in line:
            model.refuses = ["changed meanwhile"]
            model.state = replace(model.state, spares={}, removed_spares={"spare": "/dev/sd9"})
        if "--add /dev/sd9" in line:
            model.state = replace(model.state, removed_spares={})

    model.before = refused
    model.state = replace(model.state, bitmap=False, spares={"spare": "/dev/sd9"})
    with pytest.raises(StepFailed, match="changed meanwhile"):
        model.repair()
    assert model.ran == [
        "--grow --bitmap=internal /dev/md0",
        "/dev/md0 --remove /dev/sd9",
        "/dev/md0 --add /dev/sd9",
        "--grow --bitmap=none /dev/md0",
    ]
    assert probing.find_journals(model.roots) == []


def test_a_member_fails_between_the_check_and_the_step(model: Model) -> None:
    def failing(task: RepairTask) -> None:
        if task.taken:
            model.state = changed(model.state, 1, state=MemberState.FAULTY)

    model.wrote = failing
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert "is faulty, which blklab did not cause" in outcome.reason
    assert model.ran == []


def test_closed_output_does_not_stop_the_repair(model: Model) -> None:
    def tell(_step: steps.Step, words: str) -> None:
        if "--remove" in words:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Repair(task_of(), model, tell, lambda _: None).run()
    # The member is back first.
    assert [line.split()[1] for line in model.ran] == ["--fail", "--remove", "--re-add"]
    assert all(slot.state is MemberState.IN_SYNC for slot in model.state.slots)


@pytest.mark.parametrize(
    ("state", "high", "goes_on"), [("clean", MARK, True), ("inactive", MARK, False), ("clean", 258048, False)]
)
def test_writes_that_a_dead_one_held_back_go_on_first(
    model: Model, tmp_path: Path, state: str, high: int, goes_on: bool
) -> None:
    md = tmp_path / "md0/md"
    (md / "array_state").write_text(state)
    (md / "suspend_hi").write_text(f"{high}\n")
    model.state = replace(state_of(task_of("raid5", 3, 2)), array_state="inactive")
    # An array that was not started has no such file to be written, and says so itself.
    repair = Repair(task_of("raid5", 3, 2), model, lambda *_: None, lambda _: None)
    outcome = repair.run()
    assert isinstance(outcome, steps.Stop)
    assert "the array is inactive: start it" in outcome.reason
    assert ((md / "suspend_hi").read_text() == "0") is goes_on
    assert goes_on or (md / "suspend_hi").read_text() == f"{high}\n"


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("high", [MARK, 258048, (1 << 63) - 1])
def test_no_suspension_is_lifted_during_a_reshape(model: Model, tmp_path: Path, high: int, resume: bool) -> None:
    """mdadm reshapes with a backup file: it has suspended writes to the part that it moves."""
    md = tmp_path / "md0/md"
    for name, value in {"array_state": "clean", "suspend_lo": "0", "suspend_hi": high, "reshape_position": "0"}.items():
        (md / name).write_text(f"{value}\n")
    task = task_of("raid5", 3, 2)
    model.state = replace(state_of(task), array_state="readonly")
    model.write_journal(task)
    repair = Repair(task, model, lambda *_: None, lambda _: None)
    if high == MARK:
        with pytest.raises(BlklabError, match="when the reshape has ended, run blklab md fix --resume"):
            repair.run(resume=resume)
    else:
        assert isinstance(repair.run(resume=resume), steps.Stop)
    assert (md / "suspend_hi").read_text() == f"{high}\n"
    assert model.ran == []


def test_another_disk_in_the_slot_is_named_and_ends_the_repair_when_it_is_rebuilt(model: Model) -> None:
    def monitor(line: str) -> None:
        if "--remove /dev/sd0" in line:
            model.before = lambda _: None
            model.lies = {"--remove"}
            model.state = changed(model.state, 0, state=MemberState.OUT, occupant="/dev/sdx")

    model.before = monitor
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert "/dev/sdx is now in the slot of /dev/sd0" in outcome.reason
    assert "mdadm --wait /dev/md0" in outcome.remedy
    assert [line.split()[1] for line in model.ran] == ["--fail", "--remove"]
    (path,) = probing.find_journals(model.roots)
    assert "/dev/sdx" not in path.read_text()  # no advice is stored: it follows from the present state
    assert model.goes_on(path) == outcome
    # Rebuilt onto the other disk, the array is complete: the member is left over.
    model.state = replace(model.state, degraded=0, has_unplanned_member=True)
    left = model.goes_on(path)
    assert isinstance(left, steps.Stop)
    assert "blklab md fix replace /dev/md0 /dev/sdx /dev/sd0" in left.remedy
    assert probing.find_journals(model.roots) == []


def test_a_disk_that_takes_the_slot_during_a_re_add(model: Model) -> None:
    def monitor(line: str) -> None:
        if "--re-add" in line:
            model.lies = {"--re-add"}
            model.state = changed(model.state, 0, occupant="/dev/sdx")

    model.before = monitor
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert "/dev/sdx is now in the slot" in outcome.reason
    # --add would write a new superblock over the member that has the data.
    assert [line.split()[1] for line in model.ran] == ["--fail", "--remove", "--re-add"]


def test_a_member_that_another_program_re_adds_with_its_list(model: Model) -> None:
    def udev(line: str) -> None:
        if "--remove" in line:
            model.later = lambda: changed(model.state, 0, state=MemberState.IN_SYNC)

    model.before = udev
    outcome = model.repair()
    assert isinstance(outcome, steps.Stop)
    assert "another program may have re-added it" in outcome.reason.lower()
    # Not again and again.
    assert sum("--fail" in line for line in model.ran) == 1


def test_a_check_that_holds_a_member_back_is_stopped(model: Model) -> None:
    def check(line: str) -> None:
        if "--re-add /dev/sd0" in line:
            model.lies = {"--re-add"}
            model.state = replace(changed(model.state, 0, state=MemberState.REBUILDING), sync="check")
        if "--action=idle" in line:
            model.lies = set()
            model.state = changed(model.state, 0, list_state=BadBlockListState.NONE)

    model.before = check
    assert model.repair() == steps.Done()
    assert model.ran[3] == "--action=idle /dev/md0"
