"""Changes of slots on a model of md: what only one disk has is kept, and a killed run is continued."""

import json
import signal

import pytest

from blklab.errors import BlklabError
from blklab.md import probing
from blklab.md.repair import journal, slot_plan
from blklab.md.repair.rewrite import StoppedRepair
from blklab.md.repair.slot_task import DiskFacts, SlotTask
from blklab.md.repair.slots import SlotRepair
from blklab.md.superblocks import SectorRange
from tests.md.conftest import Arrays
from tests.md.repair.model_of_slots import OFFSET, Killed, SlotModel, array_of, fail_out, prepare

BAD = (SectorRange(OFFSET + 64, 8),)


@pytest.fixture
def model(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> SlotModel:
    return prepare(machine, monkeypatch)


def run(model: SlotModel, task: SlotTask) -> str:
    return SlotRepair(task, model, lambda *_: None, lambda *_: None).run()


def resume(model: SlotModel) -> str:
    (path,) = probing.find_journals(model.roots)
    task = journal.read_any_journal(path)
    assert isinstance(task, SlotTask)
    return run(model, task)


def task_of(plan: slot_plan.SlotPlan) -> SlotTask:
    assert not plan.refused, [item.sentence for item in plan.refused]
    return plan.task


def journals(model: SlotModel) -> int:
    return len(probing.find_journals(model.roots))


def state(model: SlotModel, name: str) -> str:
    return (model.md / f"dev-{name}/state").read_text().strip()


def test_an_empty_disk_is_added(model: SlotModel) -> None:
    fail_out(model, "sdb")
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    assert run(model, task).startswith("sdc is in sync")
    assert model.ran == ["/dev/md0 --add /dev/sdc"]
    assert model.measured == [["sda"]]
    assert journals(model) == 0


@pytest.mark.parametrize("disk", ["sdb", "sdc"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_what_only_a_disk_outside_has_is_kept(model: SlotModel, disk: str, is_removed: bool) -> None:
    """Failed and removed, or unplugged: it is no member any more, and was not looked at."""
    model.put_in("sdb", "none", "faulty")
    model.count()
    if is_removed:
        model.take_out("sdb")
    task = task_of(slot_plan.plan_add("md0", disk, model.roots))
    model.unreadable = {"sda": BAD}
    with pytest.raises(
        StoppedRepair, match=r"8 sectors can be read only from \S+/sdb, which is out of the array: 64-71"
    ):
        run(model, task)
    assert (model.ran, journals(model)) == ([], 0)


def test_a_former_member_of_another_slot_is_not_erased(model: SlotModel) -> None:
    """Its slot was filled again, with the same sectors in the new disk's list."""
    fail_out(model, "sdb")
    model.machine.write(model.md, {"raid_disks": "3"})
    model.put_in("sdc", "1")
    model.count()
    for name in "ac":
        model.machine.write(model.md / f"dev-sd{name}", {"bad_blocks": f"{OFFSET + 64} 8"})
    (old,) = [each for each in model.machine.seen().outside if each.name == "sdb"]
    assert old.superblock
    facts = DiskFacts(old.path, "SERIAL-B", old.size or 0, old.superblock.device, old.superblock.offset)
    task = SlotTask("add", array_of("md0", model.roots).uuid, "/dev/md0", 2, facts)
    with pytest.raises(StoppedRepair, match="sdb was a member: it may have their only copy"):
        run(model, task)
    assert model.ran == []


def test_unreadable_sectors_without_a_list_are_not_rebuilt_from(model: SlotModel) -> None:
    fail_out(model, "sdb")
    (model.roots.dev / "sdb").unlink()
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    model.unreadable = {"sda": BAD}
    (member,) = array_of("md0", model.roots).active
    if member.bad_blocks is None:
        with pytest.raises(StoppedRepair, match="a rebuild would fail it"):
            run(model, task)
    else:
        run(model, task)


def test_the_journal_has_facts_only(model: SlotModel) -> None:
    fail_out(model, "sdb")
    found: list[str] = []
    model.before = lambda _: found.extend(path.read_text() for path in probing.find_journals(model.roots))
    run(model, task_of(slot_plan.plan_add("md0", "sdc", model.roots)))
    (content,) = found
    document = json.loads(content)
    assert (document["operation"], document["disk"]["id"]) == ("add", "SERIAL-C")
    assert not any(word in content for word in ("mdadm", "--", "fix"))


def test_a_former_member_that_md_refuses_is_erased_and_added(model: SlotModel) -> None:
    fail_out(model, "sdb")
    model.re_adds = False
    run(model, task_of(slot_plan.plan_add("md0", "sdb", model.roots)))
    assert model.ran == ["/dev/md0 --re-add /dev/sdb", "--zero-superblock /dev/sdb", "/dev/md0 --add /dev/sdb"]


def test_a_replacement_that_ends_at_once(model: SlotModel) -> None:
    result = run(model, task_of(slot_plan.plan_replace("md0", "sdb", "sdc", model.roots)))
    assert result.startswith("sdc is in sync")
    assert model.ran[-1] == "/dev/md0 --remove /dev/sdb"
    assert not (model.md / "dev-sdb").exists()


def test_a_member_with_the_only_copy_is_not_taken_out(model: SlotModel) -> None:
    task = task_of(slot_plan.plan_remove("md0", "sdb", model.roots))
    model.unreadable = {"sda": BAD}
    with pytest.raises(StoppedRepair, match="has 8 sectors"):
        run(model, task)
    assert model.ran == []
    model.unreadable = {}
    assert "keep it as it is until the rebuild has ended" in run(model, task)
    assert model.ran == ["/dev/md0 --fail /dev/sdb", "/dev/md0 --remove /dev/sdb"]


def test_a_faulty_member_is_removed_from_a_complete_array(model: SlotModel) -> None:
    """An audit prints this command for it."""
    model.put_in("sdc", "none", "faulty")
    assert run(model, task_of(slot_plan.plan_remove("md0", "sdc", model.roots))).endswith("which is complete")
    assert model.ran == ["/dev/md0 --remove /dev/sdc"]


def mirror_of_three(model: SlotModel) -> SlotTask:
    model.machine.write(model.md, {"raid_disks": "3"})
    model.put_in("sdc", "2")
    model.count()
    array = array_of("md0", model.roots)
    return SlotTask(
        "rebuild", array.uuid, array.path, 1, DiskFacts(
            str(model.roots.dev / "sdb"), "SERIAL-B", array.members[1].size or 0,
            array.members[1].superblock.device if array.members[1].superblock else "", 4096,
        ),
    )  # fmt: skip


def test_a_rebuild_needs_redundancy_everywhere(model: SlotModel) -> None:
    task = mirror_of_three(model)
    model.unreadable = {"sda": BAD}
    with pytest.raises(StoppedRepair, match=r"without \S+/sdb, only \S+/sdc has 8 sectors"):
        run(model, task)
    assert model.ran == []
    model.unreadable = {}
    run(model, task)
    assert [line.split()[-2] for line in model.ran] == ["--fail", "--remove", "--zero-superblock", "--add"]


@pytest.mark.parametrize("operation", ["add", "add-former", "replace", "rebuild"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_run_is_continued(model: SlotModel, operation: str, moment: str) -> None:
    """At each command of mdadm. Afterwards the disk is in sync, and no journal is left."""
    if operation.startswith("add"):
        fail_out(model, "sdb")
        model.re_adds = False
        disk = "sdc" if operation == "add" else "sdb"
        task = task_of(slot_plan.plan_add("md0", disk, model.roots))
    elif operation == "replace":
        disk, task = "sdc", task_of(slot_plan.plan_replace("md0", "sdb", "sdc", model.roots))
    else:
        disk, task = "sdb", mirror_of_three(model)
    done: list[str] = []

    def kill(line: str) -> None:
        if line not in done:
            done.append(line)
            raise Killed

    setattr(model, moment, kill)
    with pytest.raises(Killed):
        run(model, task)
    for _ in range(10):
        try:
            resume(model)
        except Killed:
            continue
        break
    assert state(model, disk) == "in_sync"
    assert journals(model) == 0
    assert len(done) >= 1


def test_a_continued_rebuild_measures_again(model: SlotModel) -> None:
    """A new error appeared between the power cut and `--resume`: the disk that is out has the only copy."""
    task = mirror_of_three(model)

    def kill(line: str) -> None:
        if "--remove" in line:
            raise Killed

    model.after = kill
    with pytest.raises(Killed):
        run(model, task)
    model.after = lambda _: None
    ran = len(model.ran)
    model.unreadable = {"sda": BAD, "sdc": BAD}
    with pytest.raises(StoppedRepair, match=r"can be read only from \S+/sdb"):
        resume(model)
    assert len(model.ran) == ran


def test_a_continued_rebuild_does_not_erase_what_redundancy_needs(model: SlotModel) -> None:
    task = mirror_of_three(model)
    model.after = lambda line: (_ for _ in ()).throw(Killed) if "--remove" in line else None
    with pytest.raises(Killed):
        run(model, task)
    model.after = lambda _: None
    ran = len(model.ran)
    fail_out(model, "sdc")
    with pytest.raises(StoppedRepair, match="still has its data") as stopped:
        resume(model)
    assert stopped.value.remedy[0].startswith("blklab md fix add")
    assert len(model.ran) == ran


@pytest.mark.parametrize("array_state", ["inactive", "broken", "read-auto"])
def test_nothing_is_added_to_an_array_that_does_not_run(model: SlotModel, array_state: str) -> None:
    fail_out(model, "sdb")
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    journal.write_journal(task, model.roots)
    model.machine.write(model.md, {"array_state": array_state})
    with pytest.raises(BlklabError, match=rf"it is {array_state}: run (blklab md fix restart|mdadm --readwrite)"):
        run(model, task)
    assert (model.ran, journals(model)) == ([], 1)


def test_the_journal_of_another_repair_is_not_overwritten(model: SlotModel) -> None:
    fail_out(model, "sdb")
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    other = SlotTask("rebuild", task.uuid, task.array, 0, DiskFacts("/dev/sdz", "SERIAL-Z"), out=True)
    journal.write_journal(other, model.roots)
    with pytest.raises(BlklabError, match="an earlier repair is not finished"):
        run(model, task)
    (path,) = probing.find_journals(model.roots)
    assert journal.read_any_journal(path) == other


def test_a_path_is_not_believed_after_an_interruption(model: SlotModel) -> None:
    fail_out(model, "sdb")
    (model.roots.sys / "class/block/sdc/device/serial").unlink()
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    assert (task.disk.id, task.disk.device) == ("", "")
    journal.write_journal(task, model.roots)
    with pytest.raises(StoppedRepair, match="has no stable id"):
        resume(model)
    assert model.ran == []
    run(model, task)
    assert model.ran == ["/dev/md0 --add /dev/sdc"]


def test_two_members_with_one_serial_number(model: SlotModel) -> None:
    model.machine.write(model.roots.sys / "class/block/sda", {"device__serial": "SERIAL-B"})
    # The superblock tells them apart.
    run(model, task_of(slot_plan.plan_remove("md0", "sdb", model.roots)))
    assert model.ran[0] == "/dev/md0 --fail /dev/sdb"
    model.put_in("sdb", "1")
    model.count()
    uuid = array_of("md0", model.roots).uuid
    with pytest.raises(BlklabError, match="have the same id"):
        run(model, SlotTask("remove", uuid, "/dev/md0", 1, DiskFacts("/dev/sdb", "SERIAL-B")))


def test_a_disk_that_became_a_spare(model: SlotModel) -> None:
    """md has rebuilt another disk meanwhile: nothing is left to wait for."""
    fail_out(model, "sdb")
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))
    model.rebuilds = False

    def rebuild_other(_line: str) -> None:
        model.put_in("sdb", "1")
        model.count()

    model.after = rebuild_other
    with pytest.raises(StoppedRepair, match=r"is complete: md has rebuilt another disk"):
        run(model, task)
    assert journals(model) == 0


def test_an_interrupt_does_not_kill_mdadm(model: SlotModel) -> None:
    """It comes while a superblock is erased: the disk is added first."""
    fail_out(model, "sdb")
    model.re_adds = False
    task = task_of(slot_plan.plan_add("md0", "sdb", model.roots))
    model.before = lambda line: signal.raise_signal(signal.SIGINT) if "--zero" in line else None
    with pytest.raises(KeyboardInterrupt):
        run(model, task)
    assert model.ran[-1] == "/dev/md0 --add /dev/sdb"
    assert journals(model) == 1
    assert resume(model).startswith("sdb is in sync")
    assert journals(model) == 0


def test_an_interrupt_during_the_measurement_leaves_nothing(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_out(model, "sdb")
    task = task_of(slot_plan.plan_add("md0", "sdc", model.roots))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SlotRepair, "_measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(model, task)
    assert (model.ran, journals(model)) == ([], 0)
