"""An audit tells of repairs that were interrupted."""

from blklab.md.repair import journal
from blklab.md.repair.task import MemberSlot, RepairTask
from blklab.md.repair.unfinished import describe_unfinished_repair
from tests.md.conftest import Arrays


def test_a_repair_that_is_not_finished(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    assert "repair-unfinished" not in machine.findings_by_code()
    (array,) = machine.seen().arrays
    slot = MemberSlot(0, "device", str(machine.roots.dev / "sda"))
    task = RepairTask(array.uuid, "/dev/md0", "raid1", 2, 0, (slot,))
    journal.write_journal(task, machine.roots)
    result = machine.findings_by_code()["repair-unfinished"]
    assert result.severity == "critical"
    assert result.remedy == ("blklab md fix --resume",)
    assert result.message == "a repair by blklab is not finished: if it is not running now, continue it"
    machine.write(machine.roots.state, {f"md-fix-{array.uuid}.json": "[]"})
    result = machine.findings_by_code()["repair-unfinished"]
    assert "damaged" in result.message  # and it says to delete the file
    assert result.remedy == ("blklab md audit",)


def test_advice_is_of_the_present_state(machine: Arrays) -> None:
    """Stored commands named a disk that was another one later: they destroyed another array."""
    machine.mirror(degraded="1", array_state="broken")
    (array,) = machine.seen().arrays
    slots = tuple(
        MemberSlot(member.slot or 0, member.superblock.device, member.path, member.superblock.offset)
        for member in array.members
        if member.superblock
    )
    task = RepairTask(array.uuid, array.path, "raid1", 2, 0, slots, taken=slots[0].device)
    journal.write_journal(task, machine.roots)
    advice = describe_unfinished_repair(array.uuid, machine.roots)
    assert "is broken" in advice[0]
    assert advice[-2:] == (f"blklab md fix restart {array.path}", "blklab md fix --resume")
    path = next(machine.roots.state.iterdir())
    path.rename(machine.root / "elsewhere")
    path.symlink_to(machine.root / "elsewhere")
    assert describe_unfinished_repair(array.uuid, machine.roots)[1:] == ("blklab md audit",)
