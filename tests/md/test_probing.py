"""What an inventory asks besides sysfs."""

from tests.md.conftest import Arrays


def test_repairs_that_may_not_be_seen_are_said_once(machine: Arrays) -> None:
    machine.mirror()
    machine.array("md1", "9:1", {})
    assert [array.repairing for array in machine.seen().arrays] == [False, False]
    machine.hide_state()
    result = machine.seen()
    assert [array.repairing for array in result.arrays] == [None, None]
    state = machine.roots.state_of_root
    assert result.unseen == (f"{state}: not seen: unfinished repairs: run blklab as root",)
    # What may be seen elsewhere does hold.
    uuid = result.arrays[0].uuid
    machine.write(machine.roots.state, {f"md-fix-{uuid}.json": "{}"})
    assert [array.repairing for array in machine.seen().arrays] == [True, None]


def test_repairs_are_those_of_root_for_any_user(machine: Arrays) -> None:
    machine.mirror()
    (array,) = machine.seen().arrays
    machine.write(machine.roots.state_of_root, {f"md-fix-{array.uuid}.json": "{}"})
    assert "repair-unfinished" in machine.findings_by_code()
