"""An audit tells of repairs that were interrupted."""

from blklab.md.repair import journal
from blklab.md.repair.task import MemberSlot, RepairTask
from tests.md.conftest import Arrays


def test_a_repair_that_is_not_finished(machine: Arrays) -> None:
    machine.mirror(degraded="1")
    assert "repair-unfinished" not in machine.found()
    (array,) = machine.seen().arrays
    seat = MemberSlot(0, "device", "/dev/sda")
    journal.write(RepairTask(array.uuid, "/dev/md0", "raid1", 2, 0, (seat,)), machine.roots)
    found = machine.found()["repair-unfinished"]
    assert found.severity == "critical"
    assert found.remedy == ("blklab md fix --resume",)
