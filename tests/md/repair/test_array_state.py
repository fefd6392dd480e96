"""Where members are: those that are out must be the very disks that went."""

from pathlib import Path

import pytest

from blklab.md.repair import array_state as states
from blklab.md.repair.array_state import BadBlockListState, MemberState, read_array_state
from blklab.md.repair.task import MemberSlot, RepairTask
from blklab.system.roots import Roots
from tests.md.conftest import Arrays, image

UUID = "3156a3e6-4a43-3ea3-f425-167f2e6739fd"


@pytest.fixture
def task(machine: Arrays, monkeypatch: pytest.MonkeyPatch) -> RepairTask:
    """A mirror of sda and sdb, of which sdb was taken out."""
    machine.mirror(uuid=UUID)
    (array,) = machine.seen().arrays
    ids = {"sda": "disk-a", "sdb": "disk-b"}

    def disk_id(path: str, _roots: Roots) -> str:
        return ids.get(Path(path).name, "")

    monkeypatch.setattr(states, "disk_id", disk_id)
    slots = tuple(
        MemberSlot(
            item.slot or 0, item.superblock.device, item.path, item.superblock.offset,
            ids[item.name],
        )
        for item in array.members
        if item.superblock
    )  # fmt: skip
    out(machine, "sdb")
    return RepairTask(array.uuid, array.path, "raid1", 2, 0, slots, taken=slots[1].device)


def out(machine: Arrays, name: str) -> None:
    directory = machine.roots.sys / "block/md0/md" / f"dev-{name}"
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    (machine.roots.sys / "class/block" / name / "holders/md0").unlink()
    machine.write(machine.roots.sys / "block/md0", {"md__degraded": "1"})


def test_it_is_where_it_was(machine: Arrays, task: RepairTask) -> None:
    seen = read_array_state(task, machine.roots)
    assert [slot.state for slot in seen.slots] == [MemberState.IN_SYNC, MemberState.OUT]
    assert [slot.list_state for slot in seen.slots] == [BadBlockListState.EMPTY, BadBlockListState.EMPTY]
    assert seen.degraded == 1


def moved(machine: Arrays, name: str, number: str) -> None:
    """Has what was sdb be another name."""
    (machine.roots.dev / "sdb").rename(machine.roots.dev / name)
    machine.device(name, number, size="524288")


def test_it_has_another_name(machine: Arrays, task: RepairTask, monkeypatch: pytest.MonkeyPatch) -> None:
    moved(machine, "sdq", "65:0")
    monkeypatch.setattr(states, "disk_id", lambda path, _: "disk-b" if "sdq" in path else "x")
    assert read_array_state(task, machine.roots).slots[1].path == str(machine.roots.dev / "sdq")


def test_a_copy_on_another_disk_is_not_it(machine: Arrays, task: RepairTask, monkeypatch: pytest.MonkeyPatch) -> None:
    moved(machine, "sdq", "65:0")
    monkeypatch.setattr(states, "disk_id", lambda path, _: "disk-q" if "sdq" in path else "x")
    assert read_array_state(task, machine.roots).slots[1].state is MemberState.GONE


def test_nor_are_two_that_might_be(machine: Arrays, task: RepairTask, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = image("raid1-12-bitmap.vdb", machine.root)
    machine.device("loop0", "7:0", size="524288")
    (machine.roots.dev / "loop0").symlink_to(copy)
    monkeypatch.setattr(states, "disk_id", lambda *_: "")
    assert read_array_state(task, machine.roots).slots[1].state is MemberState.GONE


def test_nor_one_that_something_else_holds(machine: Arrays, task: RepairTask) -> None:
    machine.device("dm-0", "253:0", slaves="sdb")
    assert read_array_state(task, machine.roots).slots[1].state is MemberState.GONE


def test_a_superblock_in_another_place_is_another_device(machine: Arrays, task: RepairTask) -> None:
    # As of a whole disk, whose last partition has its superblock at the end they share.
    slots = (task.slots[0], MemberSlot(1, task.slots[1].device, task.slots[1].path, 1 << 30, "disk-b"))
    elsewhere = RepairTask(task.uuid, task.array, "raid1", 2, 0, slots, taken=task.taken)
    assert read_array_state(elsewhere, machine.roots).slots[1].state is MemberState.GONE


def test_a_member_that_cannot_be_read_is_known_by_its_path(machine: Arrays, task: RepairTask) -> None:
    (machine.roots.dev / "sda").unlink()
    (machine.roots.dev / "sda").write_bytes(b"")
    slot = read_array_state(task, machine.roots).slots[0]
    assert (slot.state, slot.list_state) == (MemberState.IN_SYNC, BadBlockListState.UNKNOWN)


def test_a_foreign_disk_in_the_slot_is_seen(machine: Arrays, task: RepairTask) -> None:
    machine.disk("sdx", "8:80", "raid1-12.vda")  # a member of another array
    machine.write(machine.roots.sys / "block/md0/md/dev-sdx", {"slot": "1", "state": "spare"})
    (machine.roots.sys / "block/md0/md/dev-sdx/block").symlink_to(machine.roots.sys / "class/block/sdx")
    (machine.roots.sys / "block/md0/md/dev-sdx/offset").write_text("2048")
    first, second = read_array_state(task, machine.roots).slots
    assert (first.occupant, second.occupant) == ("", str(machine.roots.dev / "sdx"))
    assert second.state is MemberState.OUT


@pytest.mark.parametrize(
    ("metadata", "uuid"),
    [("0.90", "2b231f6d:d0c448ae:3d186b3c:53958f34"), ("1.2", "6d1f232b:ae48c4d0:3c6b183d:348f9553")],
)
def test_an_array_is_found_by_the_uuid_of_its_superblocks(tmp_path: Path, metadata: str, uuid: str) -> None:
    md = tmp_path / "sys/block/md0/md"
    md.mkdir(parents=True)
    (md / "uuid").write_text("6d1f232b-ae48-c4d0-3c6b-183d348f9553\n")
    (md / "metadata_version").write_text(f"{metadata}\n")
    assert states.find_array_node(uuid, Roots(sys=tmp_path / "sys")).name == "md0"
