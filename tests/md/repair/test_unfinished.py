"""An audit tells of repairs that were interrupted."""

from blklab.md.repair import journal
from blklab.md.repair.task import MemberSlot, RepairTask
from tests.md.conftest import Arrays


def test_a_repair_that_is_not_finished(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    assert "repair-unfinished" not in machine.findings_by_code()
    (array,) = machine.seen().arrays
    slot = MemberSlot(0, "device", "/dev/sda")
    journal.write_journal(RepairTask(array.uuid, "/dev/md0", "raid1", 2, 0, (slot,)), machine.roots)
    result = machine.findings_by_code()["repair-unfinished"]
    assert result.severity == "critical"
    assert result.remedy == ("blklab md fix --resume",)
