"""Plans for slots of arrays made of files, and what is refused."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import UsageError
from blklab.md.model import Software
from blklab.md.repair import slot_plan, slot_task
from blklab.md.repair.array_state import find_array_node
from blklab.md.repair.slot_task import DiskFacts, SlotTask
from blklab.system.identity import resolve
from blklab.system.users import Opener
from tests.md.conftest import Arrays, program
from tests.md.crafted import changed
from tests.md.repair.model_of_slots import SlotModel, array_of, fail_out, prepare


@pytest.fixture
def model(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> SlotModel:
    return prepare(machine, monkeypatch)


def refused(plan: slot_plan.SlotPlan) -> dict[str, str]:
    return {item.code: item.sentence for item in plan.refused}


def add(model: SlotModel, disk: str = "sdc") -> dict[str, str]:
    return refused(slot_plan.plan_add("md0", disk, model.roots))


def test_a_complete_array_gets_no_disk(model: SlotModel) -> None:
    assert "no member is missing" in add(model)["complete"]
    plan = slot_plan.plan_add("md0", "sdc", model.roots)
    assert plan.task.slot == -1


def test_the_steps_of_an_empty_disk(model: SlotModel) -> None:
    fail_out(model, "sdb")
    plan = slot_plan.plan_add("md0", "sdc", model.roots)
    assert (refused(plan), plan.task.slot) == ({}, 1)
    assert [step.command for step in plan.steps if step.command] == [
        f"mdadm {plan.array.path} --add {model.roots.dev}/sdc"
    ]
    assert plan.task.disk == DiskFacts(f"{model.roots.dev}/sdc", "SERIAL-C", 256 << 20)


def test_a_former_member_comes_back(model: SlotModel) -> None:
    fail_out(model, "sdb")
    plan = slot_plan.plan_add("md0", "sdb", model.roots)
    assert refused(plan) == {}
    assert (plan.task.slot, plan.task.disk.offset, bool(plan.task.disk.device)) == (1, 4096, True)
    assert any("--re-add" in step.command for step in plan.steps)


def test_disks_with_other_data(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_out(model, "sdb")
    monkeypatch.setattr(slot_plan, "signatures", lambda _: ["ext4 at 0x438"])
    assert "is not empty: it has ext4 at 0x438" in add(model)["not-empty"]


@pytest.mark.parametrize(("kind", "at"), [("swap", 4086), ("zfs_member", 0x3F000), ("linux_raid_member", 0)])
def test_a_former_member_that_was_used_for_something_else(
    model: SlotModel, monkeypatch: pytest.MonkeyPatch, kind: str, at: int
) -> None:
    """The superblock at 4096 survives mkswap and the first label of ZFS."""
    fail_out(model, "sdb")
    monkeypatch.setattr(slot_plan, "locate_signatures", lambda _: [("linux_raid_member", 4096), (kind, at)])
    assert f"also {kind} at byte {at}" in add(model, "sdb")["other-data"]
    # What is on the array may be found on its members.
    monkeypatch.setattr(slot_plan, "locate_signatures", lambda _: [("linux_raid_member", 4096), (kind, 2 << 20)])
    assert add(model, "sdb") == {}


def test_disks_that_are_in_use(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_out(model, "sdb")
    model.machine.mount("8:32", Path("/srv"), "ext4", "/dev/sdc")
    assert "sdc is mounted at /srv" in add(model)["in-use"]
    (model.roots.proc / "self/mountinfo").unlink()
    monkeypatch.setattr(slot_plan, "openers", lambda *_: [Opener(7, "dd", "sdc", writes=True)])
    assert "dd (process 7) has it open for writing" in add(model)["in-use"]


def test_disks_of_the_wrong_shape(model: SlotModel) -> None:
    fail_out(model, "sdb")
    model.machine.write(model.roots.sys / "class/block/sdc", {"size": "4096"})
    assert "too small" in add(model)["too-small"]
    model.machine.device("sdc1", "8:33", parent="sdc")
    assert "partitions" in add(model)
    assert "is a member of" in add(model, "sda")["member"]


def test_the_array_itself_is_no_disk_for_it(model: SlotModel) -> None:
    fail_out(model, "sdb")
    model.machine.device("dm-0", "253:0", slaves="md0")
    (model.roots.dev / "dm-0").write_bytes(b"")
    assert "itself" in add(model, "dm-0")


def set_superblock(model: SlotModel, name: str, at: int, content: bytes) -> None:
    changed((model.roots.dev / name).resolve(), at, content)


def test_a_disk_that_was_written_to_apart(model: SlotModel) -> None:
    fail_out(model, "sdb")
    set_superblock(model, "sdb", 200, struct.pack("<Q", 1 << 40))
    assert "written to apart" in add(model, "sdb")["newer"]


def test_halves_with_fewer_events_are_not_mixed(model: SlotModel) -> None:
    """Both ran without the other. The events of the disk are fewer: they tell nothing."""
    fail_out(model, "sdb")
    set_superblock(model, "sda", 200, struct.pack("<Q", 1 << 40))
    assert add(model, "sdb") == {}
    set_superblock(model, "sda", 256, struct.pack("<2H", 0, 0xFFFF))
    assert add(model, "sdb") == {}  # It failed
    set_superblock(model, "sdb", 256, struct.pack("<2H", 0xFFFF, 1))
    assert "each has data that the other has not" in add(model, "sdb")["split"]


def test_two_arrays_with_one_uuid(model: SlotModel) -> None:
    fail_out(model, "sdb")
    uuid = array_of("md0", model.roots).uuid.replace(":", "")
    dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    model.machine.disk("sdd", "8:48")
    model.machine.array("md1", "9:1", {"sdd": {}}, uuid=dashed)
    assert "md1 has the same UUID" in add(model)["split"]


def test_software_that_damages_superblocks(model: SlotModel) -> None:
    fail_out(model, "sdb")
    model.machine.proc("sys/kernel/osrelease", "6.12.0")
    program(model.machine, "4.2")
    assert "install mdadm 4.5" in add(model).get("add-fails", "install mdadm 4.5")


ARRAYS: list[tuple[dict[str, str], str]] = [
    ({"level": "raid0"}, "no-redundancy"),
    ({"level": "linear"}, "no-redundancy"),
    ({"metadata_version": "external:imsm"}, "external"),
    ({"array_state": "inactive"}, "state"),
    ({"array_state": "broken"}, "broken"),
    ({"sync_action": "recover"}, "under-way"),
    ({"reshape_position": "64"}, "reshape"),
    ({"raid_disks": "0"}, "complete"),
]


@pytest.mark.parametrize(("md", "code"), ARRAYS)
def test_arrays_that_are_not_changed(model: SlotModel, md: dict[str, str], code: str) -> None:
    fail_out(model, "sdb")
    model.machine.write(model.md, md)
    assert code in add(model)
    for plan in (
        slot_plan.plan_replace("md0", "sda", "sdc", model.roots),
        slot_plan.plan_remove("md0", "sda", model.roots),
        slot_plan.plan_rebuild("md0", "sda", model.roots),
    ):
        assert plan.refused


def test_other_users_and_hosts_without_mdadm(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(slot_plan, "find_array", lambda *_: model.machine.seen().arrays[0])
    monkeypatch.setattr(slot_plan, "find_device", resolve)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("blklab.md.repair.operations.PATH", str(model.machine.root))
    monkeypatch.setattr(slot_plan, "read_software", lambda _: Software())
    found = refused(slot_plan.plan_rebuild("md0", "1", model.roots))
    assert "run blklab as root" in found["no-root"]
    assert "mdadm is not installed" in found["no-mdadm"]


def test_a_mirror_of_two_is_not_rebuilt(model: SlotModel) -> None:
    plan = slot_plan.plan_rebuild("md0", "1", model.roots)
    assert [item.code for item in plan.refused] == ["no-redundancy-left"]
    assert plan.refused[0].remedy[0].startswith("blklab md fix replace")


def test_a_spare_would_be_used_at_once(model: SlotModel) -> None:
    model.put_in("sdc", "none", "spare")
    for plan in (slot_plan.plan_remove("md0", "sdb", model.roots), slot_plan.plan_rebuild("md0", "sdb", model.roots)):
        assert "rebuild onto the spare" in refused(plan)["spare"]
    plan = slot_plan.plan_replace("md0", "sdb", "sdc", model.roots)
    assert not any("--add" in step.command for step in plan.steps)


def test_words_that_are_no_member(model: SlotModel) -> None:
    for word in ("2", "sdc", "٣"):
        with pytest.raises((UsageError, FileNotFoundError)):
            slot_plan.find_member(array_of("md0", model.roots), word, model.roots)
    with pytest.raises(UsageError, match=r"expected the disk or the slot of one: 0 \(sda\), 1 \(sdb\)"):
        slot_plan.plan_remove("md0", "7", model.roots)


def test_the_old_disk_is_not_the_new_one(model: SlotModel) -> None:
    assert "same-disk" in refused(slot_plan.plan_replace("md0", "sdb", "sdb", model.roots))


def test_metadata_0_90_has_other_words_in_sysfs(machine: Arrays) -> None:
    machine.mirror("raid1-090", metadata_version="0.90")
    (array,) = machine.seen().arrays
    swapped = "".join(bytes.fromhex(word)[::-1].hex() for word in array.uuid.split(":"))
    machine.write(machine.roots.sys / "block/md0/md", {"uuid": swapped})
    assert find_array_node(array.uuid, machine.roots).name == "md0"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FACTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("path", "id", "size", "device", "offset"), json_values))
FIELDS = {
    "slot_task": st.just(1) | json_values,
    "operation": st.sampled_from(["add", "remove"]) | json_values,
    "uuid": st.text() | json_values,
    "array": st.text() | json_values,
    "slot": st.integers() | json_values,
    "disk": FACTS | json_values,
    "old": st.none() | FACTS | json_values,
    "out": st.booleans() | json_values,
    "other": json_values,
}


@given(
    st.fixed_dictionaries({}, optional=FIELDS)
    | st.fixed_dictionaries({k: v for k, v in FIELDS.items() if k != "other"})
)
def test_a_damaged_journal_is_refused(document: dict[str, Any]) -> None:
    try:
        task = slot_task.from_dict(document)
    except (ValueError, KeyError, TypeError):
        return
    assert isinstance(task, SlotTask)
    assert slot_task.from_dict(task.as_dict()) == task


def test_a_disk_without_signature_that_is_not_empty_gets_a_warning(model: SlotModel) -> None:
    """Plain dm-crypt has no signature."""
    fail_out(model, "sdb")
    disk = model.roots.dev / "sdc"
    disk.write_bytes(bytes(1 << 20))
    assert slot_plan.plan_add("md0", "sdc", model.roots).warnings == ()
    disk.write_bytes(b"\xa5" * (1 << 20))
    plan = slot_plan.plan_add("md0", "sdc", model.roots)
    (warning,) = plan.warnings
    assert warning.startswith("sdc has no filesystem and no other signature, but it is not empty")
    assert plan.as_dict()["warnings"] == [warning]
