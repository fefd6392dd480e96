"""An audit tells of repairs that were interrupted."""

from dataclasses import replace

from blklab.md.repair import journal
from blklab.md.repair.task import MemberSlot, RepairTask
from tests.md.conftest import Arrays


def test_a_repair_that_is_not_finished(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    assert "repair-unfinished" not in machine.findings_by_code()
    (array,) = machine.seen().arrays
    slot = MemberSlot(0, "device", "/dev/sda")
    task = RepairTask(array.uuid, "/dev/md0", "raid1", 2, 0, (slot,))
    journal.write_journal(task, machine.roots)
    result = machine.findings_by_code()["repair-unfinished"]
    assert result.severity == "critical"
    assert result.remedy == ("blklab md fix --resume",)
    journal.write_journal(replace(task, stopped=("sdx has the slot", "mdadm /dev/md0 --remove sdx")), machine.roots)
    result = machine.findings_by_code()["repair-unfinished"]
    assert result.message.endswith("not finished: sdx has the slot")
    assert result.remedy == ("mdadm /dev/md0 --remove sdx",)
    machine.write(machine.roots.state, {f"md-fix-{array.uuid}.json": "[]"})
    assert machine.findings_by_code()["repair-unfinished"].remedy == ("blklab md fix --resume",)
