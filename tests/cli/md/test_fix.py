"""`blklab md fix`, as far as it goes without an array of a kernel's."""

import json
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.md import probing
from blklab.md.repair import journal
from blklab.md.repair import plan as plans
from blklab.md.repair.task import MemberSlot, RepairTask
from blklab.system.identity import BlockDevice, of_node
from blklab.system.roots import Roots
from tests.conftest import Run
from tests.md.conftest import Arrays, image, machine

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def _here(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, roots: Roots) -> BlockDevice:
        return of_node((roots.sys / "class/block" / Path(name).name).resolve(strict=True), roots)

    monkeypatch.setattr("blklab.cli.md.fix.Roots", lambda: machine.roots)
    monkeypatch.setattr(plans, "resolve", resolve)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    machine.roots.state.mkdir(mode=0o700)


def test_the_plan_says_all_and_does_nothing(machine: Arrays, run: Run) -> None:
    machine.mirror(bitmap__location="none")
    done = run("md", "fix", "bbl", "md0", "--plan")
    assert done.status == 0
    dev = machine.roots.dev
    commands = [line.split("  ")[-1].strip() for line in done.out.splitlines() if "mdadm" in line]
    assert commands[:4] == [
        f"mdadm --grow --bitmap=internal {dev}/md0",
        f"mdadm {dev}/md0 --fail {dev}/sda",
        f"mdadm {dev}/md0 --remove {dev}/sda",
        f"mdadm {dev}/md0 --re-add {dev}/sda --update=no-bbl",
    ]
    assert "the array tolerates no failure" in done.out
    assert list(machine.roots.state.iterdir()) == []
    document = json.loads(run("md", "fix", "bbl", "md0", "--plan", "--json").out)
    assert [step["step"] for step in document["steps"]][:5] == [
        "add-bitmap", "fail-member", "remove-member", "re-add-member", "wait-for-sync",
    ]  # fmt: skip
    assert [step["in_sync"] for step in document["steps"]][:5] == [2, 1, 1, 1, 2]


def test_a_list_with_entries(machine: Arrays, run: Run) -> None:
    machine.mirror("raid1-12-populated")
    done = run("md", "fix", "bbl", "md0", "--yes")
    assert done.status == 1
    assert "has bad blocks" in " ".join(done.out.split())
    document = json.loads(run("md", "fix", "bbl", "md0", "--yes", "--json").out)
    assert document["steps"] == []
    assert document["members_with_entries"] == ["sda"]


def test_bad_ranges_to_write_again(machine: Arrays, run: Run) -> None:
    machine.mirror("raid1-12-populated")
    done = run("md", "fix", "entries", "md0", "--plan")
    assert done.status == 0
    (member,) = (line.split() for line in done.out.splitlines() if "/sda" in line)
    assert [member[at] for at in (1, 7)] == ["1,608", "4096-4103,"]
    assert "write the same data again through md (pages: 202)" in done.out
    document = json.loads(run("md", "fix", "entries", "md0", "--plan", "--json").out)
    assert (document["bytes"], document["lost"], document["outcome"]) == (202 * 4096, [], None)
    assert document["members_with_entries"] == ["sda"]
    assert list(machine.roots.state.iterdir()) == []
    done = run("md", "fix", "entries", "md0")
    assert (done.status, "use --yes" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"reshape_position": "4096"}, "reshaped"),
        ({"sync_action": "check"}, "check"),
        ({"array_state": "readonly"}, "the array is readonly"),
        ({"consistency_policy": "ppl"}, "was not tested with it"),
        ({"level": "raid0"}, "does not tolerate the loss of a member"),
    ],
)
def test_bad_ranges_are_not_written_again(machine: Arrays, run: Run, attributes: dict[str, str], reason: str) -> None:
    machine.mirror("raid1-12-populated", **attributes)
    done = run("md", "fix", "entries", "md0", "--yes")
    assert (done.status, reason in " ".join(done.out.split())) == (1, True), done.out + done.err
    assert list(machine.roots.state.iterdir()) == []


def test_sectors_of_a_member_that_is_out_are_not_written_if_no_list_has_them(
    machine: Arrays, run: Run, tmp_path: Path
) -> None:
    machine.mirror()
    file = tmp_path / "sectors"
    run("md", "rescue", "--save", "0-7", "--from", image("raid1-12-bitmap.vda", tmp_path / "dev"), file)
    done = run("md", "fix", "entries", "md0", "--from", file, "--yes")
    assert done.status == 1
    assert "is in the array: expected a member that is out" in " ".join(done.out.split())
    document = json.loads(run("md", "fix", "entries", "md0", "--from", file, "--plan", "--json").out)
    assert (document["bytes"], document["lost"], document["outcome"]) == (0, [], None)
    assert document["refused"]
    file.write_bytes(b"{}")
    done = run("md", "fix", "entries", "md0", "--from", file, "--yes")
    assert (done.status, len(done.err.splitlines())) == (1, 1)


def test_no_bad_ranges(machine: Arrays, run: Run) -> None:
    machine.mirror()
    done = run("md", "fix", "entries", "md0", "--yes")
    assert (done.status, "no list has entries" in done.out) == (0, True)


def test_a_repair_without_a_terminal_needs_yes(machine: Arrays, run: Run) -> None:
    machine.mirror()
    done = run("md", "fix", "bbl", "md0")
    assert (done.status, "cannot ask for confirmation without a terminal: use --yes" in done.err) == (2, True)


def test_what_is_no_array(machine: Arrays, run: Run) -> None:
    machine.mirror()
    done = run("md", "fix", "bbl", "sda", "--plan")
    assert (done.status, "sda: not an md array" in done.err) == (2, True)
    done = run("md", "fix", "bbl")
    assert (done.status, "expected an array such as /dev/md0" in done.err) == (2, True)


def test_one_that_is_not_finished(machine: Arrays, run: Run) -> None:
    machine.mirror()
    (array,) = machine.seen().arrays
    task = RepairTask(array.uuid, "/dev/md0", "raid1", 2, 0, (MemberSlot(0, "device", "/dev/sda"),))
    journal.write_journal(task, machine.roots)
    done = run("md", "fix", "bbl", "md0", "--plan")
    assert (done.status, "an earlier repair is not finished" in done.err) == (1, True)


def test_nothing_to_go_on_with(run: Run) -> None:
    done = run("md", "fix", "--resume")
    assert (done.status, done.out) == (0, "no repair was interrupted\n")


def test_an_array_that_is_not_there_any_more(machine: Arrays, run: Run) -> None:
    task = RepairTask("1:2:3:4", "/dev/md7", "raid1", 2, 0, (MemberSlot(0, "device", "/dev/sda"),))
    journal.write_journal(task, machine.roots)
    done = run("md", "fix", "--resume")
    assert (done.status, "the array 1:2:3:4 is not assembled" in done.err) == (1, True)
    assert len(probing.find_journals(machine.roots)) == 1


@pytest.mark.parametrize("content", ["", "{", '{"task": 1}'])
def test_a_damaged_journal(machine: Arrays, run: Run, content: str) -> None:
    path = probing.journal_path("1:2:3:4", machine.roots)
    path.write_text(content)
    done = run("md", "fix", "--resume")
    assert (done.status, "damaged: expected the journal" in done.err) == (1, True)
    assert "Traceback" not in done.err


def add_mirror(machine: Arrays, number: int, recorded: str, **md: str) -> None:
    """Makes another RAID-1 of two recorded members: md1 of sdc1 and sdd1."""
    names = [f"sd{'ab'[slot]}{number}" for slot in range(2)]
    for slot, name in enumerate(names):
        machine.disk(name, f"8:{32 * number + 16 * slot}", f"{recorded}.vd{'ab'[slot]}")
    machine.array(f"md{number}", f"9:{number}", {name: {} for name in names}, **md)


@pytest.fixture
def repaired(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of arrays whose repair was begun; none is carried out."""
    names: list[str] = []

    def repair(task: RepairTask, *, quiet: bool) -> None:
        del quiet
        names.append(Path(task.array).name)

    monkeypatch.setattr("blklab.cli.md.fix.run_repair", repair)
    return names


def test_all_arrays_of_a_host(machine: Arrays, run: Run, repaired: list[str]) -> None:
    machine.mirror()
    add_mirror(machine, 3, "raid1-12")
    add_mirror(machine, 10, "raid1-12-conf-bblno")
    planned = run("md", "fix", "bbl", "--all", "--plan")
    assert (planned.status, repaired) == (0, []), planned.out
    assert "md10: no member has a bad-block list: nothing to do" in planned.out
    assert [line.split("--fail ")[1] for line in planned.out.splitlines() if "--fail" in line] == [
        f"{machine.roots.dev}/{name}" for name in ("sda", "sdb", "sda3", "sdb3")
    ]
    assert run("md", "fix", "bbl", "--all").status == 2  # it cannot ask
    done = run("md", "fix", "bbl", "--all", "--yes")
    assert (done.status, repaired) == (0, ["md0", "md3"]), done.err
    document = json.loads(run("md", "fix", "bbl", "--all", "--yes", "--json").out)
    assert [(array["array"], array["outcome"]) for array in document["arrays"]] == [("md0", "done"), ("md3", "done")]
    assert document["without_lists"] == ["md10"]


def test_one_refused_array_keeps_all_as_they_are(machine: Arrays, run: Run, repaired: list[str]) -> None:
    machine.mirror()
    add_mirror(machine, 3, "raid1-12", degraded="1")
    for arguments in (("--all",), ("md0", "md3"), ("md3", "md0", "--wait")):
        done = run("md", "fix", "bbl", *arguments, "--yes")
        assert done.status == 1
        assert "the array is degraded" in " ".join(done.out.split())
        assert f"    blklab md fix bbl {machine.roots.dev}/md0\n" in done.out
    assert repaired == []


def test_wait_begins_when_md_has_ended(
    machine: Arrays, run: Run, repaired: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.mirror(sync_action="check", sync_completed="8 / 16")
    refused = run("md", "fix", "bbl", "--all", "--yes")
    assert (refused.status, "a check is running: wait until it ends" in refused.out) == (1, True), refused.out
    node = machine.roots.sys / "block/md0"
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            machine.write(node, {"md__sync_action": "idle", "md__sync_completed": "none"})

    monkeypatch.setattr("blklab.cli.md.fix.time.sleep", sleep)
    done = run("md", "fix", "bbl", "--all", "--yes", "--wait")
    assert (done.status, len(naps), repaired) == (0, 2, ["md0"]), done.err
    assert done.err.endswith("md0: waiting: a check is running: wait until it ends\n")


def test_what_a_check_found_meanwhile_ends_it(
    machine: Arrays, run: Run, repaired: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.mirror(sync_action="check", sync_completed="8 / 16")
    node = machine.roots.sys / "block/md0"

    def sleep(_seconds: float) -> None:
        machine.write(node, {"md__sync_action": "idle", "md__sync_completed": "none", "md__mismatch_cnt": "128"})

    monkeypatch.setattr("blklab.cli.md.fix.time.sleep", sleep)
    done = run("md", "fix", "bbl", "--all", "--yes", "--wait")
    assert (done.status, repaired) == (1, [])
    assert "the last check found 128 sectors that differ between members: look at them first" in done.err


def test_two_arrays_with_one_uuid_are_refused(machine: Arrays, run: Run, repaired: list[str]) -> None:
    machine.mirror(uuid="3156a3e6-4a43-3ea3-f425-167f2e6739fd")
    add_mirror(machine, 3, "raid1-12-bitmap", uuid="3156a3e6-4a43-3ea3-f425-167f2e6739fd")
    done = run("md", "fix", "bbl", "--all", "--yes")
    assert (done.status, "have the same UUID: one is a copy" in done.err, repaired) == (1, True, [])


def test_trouble_ends_it_and_names_what_is_left(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mirror()
    add_mirror(machine, 3, "raid1-12")
    add_mirror(machine, 4, "raid1-11")

    def repair(task: RepairTask, *, quiet: bool) -> None:
        del quiet
        if task.array.endswith("md3"):
            raise BlklabError(f"{task.array}: a member failed")

    monkeypatch.setattr("blklab.cli.md.fix.run_repair", repair)
    done = run("md", "fix", "bbl", "--all", "--yes")
    dev = machine.roots.dev
    assert done.status == 1
    assert f"{dev}/md3: a member failed" in done.err
    assert f"not done: {dev}/md3, {dev}/md4; done: {dev}/md0" in done.err


def test_arrays_without_redundancy_and_on_disks_only(machine: Arrays, run: Run) -> None:
    machine.mirror(level="raid0")
    done = run("md", "fix", "bbl", "--all", "--yes")
    assert (done.status, "can only be removed while it is stopped" in done.out) == (1, True)
    assert run("md", "fix", "bbl", "--all", "md0").status == 2
    assert run("md", "fix", "bbl").status == 2


def test_recipes(machine: Arrays, run: Run) -> None:
    assert "CREATE bbl=no" in run("md", "fix", "bbl", "--recipe", "installer").out
    general = run("md", "fix", "bbl", "--recipe", "offline").out
    assert "mdadm --assemble /dev/md0 --update=no-bbl /dev/sdX1 /dev/sdY1" in general
    machine.mirror()
    dev = machine.roots.dev
    its = run("md", "fix", "bbl", "md0", "--recipe", "offline").out
    assert f"mdadm --assemble {dev}/md0 --update=no-bbl {dev}/sda {dev}/sdb" in its


def test_no_command_is_help(run: Run) -> None:
    done = run("md", "fix")
    assert (done.status, "--resume" in done.out) == (2, True)
    assert run("md", "fix", "--resume", "bbl", "md0").status == 2
