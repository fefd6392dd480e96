"""Each reason for which mdadm or the kernel refuses a change; tests/md/guest/test_plan.py compares with real calls."""

from dataclasses import replace
from typing import Any

import pytest

from blklab.md.model import Software, SyncPass
from blklab.md.plan.add import judge_add
from blklab.md.plan.change import ChangePlan, NewDisk
from blklab.md.plan.disks import name_new_disk
from blklab.md.plan.grow import judge_grow
from blklab.md.plan.level import NewLevel, judge_level
from blklab.md.plan.replace import judge_replace
from blklab.md.plan.report import describe_answer
from blklab.md.plan.reshape import Shape, judge_reshape
from tests.md.crafted import make_superblock
from tests.md.plan.arrays import CHECK, CONDITIONS, MIB, SECTORS, disk, make_array

FAR, OFFSET_LAYOUT = 0x201, 0x10201
HALF_SIZE = 2 * SECTORS * 512
"""Bytes of a RAID-5 of four members after --array-size for three."""


def add(level: str = "raid1", count: int = 2, new: NewDisk | None = None, **values: Any) -> ChangePlan:
    return judge_add(make_array(level, count, **values), [new or disk()], CONDITIONS)


def reshape(level: str, count: int, shape: Shape, **values: Any) -> ChangePlan:
    return judge_reshape(make_array(level, count, **values), shape, CONDITIONS)


def change(level: str, count: int, new: NewLevel, **values: Any) -> ChangePlan:
    return judge_level(make_array(level, count, **values), new, CONDITIONS)


def grow(level: str, count: int, kib: int | None = None, **values: Any) -> ChangePlan:
    return judge_grow(make_array(level, count, **values), kib, CONDITIONS)


def replace_first(level: str, count: int, new: NewDisk | None = None, **values: Any) -> ChangePlan:
    array = make_array(level, count, **values)
    return judge_replace(array, array.members[0], new, CONDITIONS)


def reshape_of_unequal_disks() -> ChangePlan:
    """A RAID-0 whose second disk is larger."""
    array = make_array("raid0", 2)
    first, second = array.members
    superblock = make_superblock(
        level=0, layout=0, raid_disks=2, slot=1, size=0, data_size=2 * SECTORS, bitmap=False,
    )  # fmt: skip
    array = replace(array, members=(first, replace(second, superblock=superblock)))
    return judge_reshape(array, Shape(3, new=(disk(),)), CONDITIONS)


REFUSED = [
    # Add
    ("inactive", add(state="inactive"), "is not an active md array"),
    ("external", add(metadata="external:imsm"), ""),
    ("too-small", add(new=disk(size=32 * MIB)), "/dev/sdx not large enough to join array"),
    ("too-small", add(version="0.90", new=disk(size=32 * MIB)), "not large enough"),
    ("too-small", add(version="1.0", new=disk(size=32 * MIB)), "not large enough"),
    ("too-large", add(version="0.90", new=disk(size=5 << 40)), "is larger than /dev/md0 can effectively use."),
    ("in-use", add(new=disk(users=("sdx is mounted at /srv",))), "Cannot open /dev/sdx: Device or resource busy"),
    ("member", add(new=disk(is_member=True)), "Cannot open /dev/sdx: Device or resource busy"),
    ("spare", add(new=disk(is_spare=True)), "Cannot open /dev/sdx: Device or resource busy"),
    ("no-spares", add("raid0"), "add new device failed for /dev/sdx"),
    ("read-only", add(state="readonly"), "add new device failed for /dev/sdx"),
    ("no-spares", add("linear"), "add new device failed for /dev/sdx"),
    ("failed", add("raid5", 4, degraded=2, state="broken"), "/dev/md0 has failed so using --add cannot work and might"),
    ("faulty", add(new=disk(is_faulty=True), degraded=1), "Cannot open /dev/sdx: Device or resource busy"),
    # Replace
    ("failed", replace_first("raid5", 3, disk(), degraded=2, state="broken"), ""),
    ("degraded", replace_first("raid6", 4, disk(), degraded=1), "Failed to set /dev/sdx as preferred replacement."),
    ("too-small", replace_first("raid5", 3, disk(size=MIB)), "/dev/sdx not large enough to join array"),
    ("busy", replace_first("raid5", 3, disk(), sync=CHECK), "Failed to set /dev/sdx as preferred replacement."),
    # Grow
    ("busy", grow("raid5", 3, sync=CHECK), "is performing resync/recovery and cannot be"),
    ("reshaping", grow("raid5", 3, reshaping=True), "is performing resync/recovery"),
    ("read-only", grow("raid1", 2, state="readonly"), "Cannot set device size for /dev/md0: Read-only file system"),
    ("journal", grow("raid5", 3, consistency="journal"), "Cannot set device size for /dev/md0: Invalid argument"),
    ("ppl", grow("raid5", 3, consistency="ppl"), "Cannot set device size for /dev/md0: Invalid argument"),
    ("no-size", grow("raid0", 2), "Cannot set device size in this type of array."),
    ("far-layout", grow("raid10", 4, layout=FAR), "Cannot set device size for /dev/md0: Invalid argument"),
    ("size-below-chunk", grow("raid5", 3, 32), "component size must be larger than chunk size."),
    ("no-space", grow("raid5", 3, 100 * 1024), "Cannot set device size for /dev/md0: No space left on device"),
    ("failed", grow("raid5", 3, degraded=2, state="broken"), ""),
    # Reshape
    ("failed", reshape("raid5", 3, Shape(chunk=131072), degraded=2, state="broken"), "Cannot set device shape for"),
    ("degraded", reshape("raid5", 3, Shape(4, new=(disk(),)), degraded=1), "is performing resync/recovery and cannot"),
    ("degraded", reshape("raid1", 2, Shape(3, new=(disk(),)), degraded=1), "is performing resync/recovery and cannot"),
    ("spares", reshape("raid5", 3, Shape(4)), "Need 1 spare to avoid degraded array, and only have 0."),
    ("spares", reshape("raid6", 4, Shape(6), spares=1), "Need 2 spares to avoid degraded array, and only have 1."),
    ("array-size", reshape("raid5", 4, Shape(3)), "this change will reduce the size of the array."),
    ("array-size", reshape("raid10", 4, Shape(3)), "this change will reduce the size of the array."),
    ("backup-file", reshape("raid5", 4, Shape(3), size=HALF_SIZE), "Cannot set new_offset for"),
    ("backup-file", reshape("raid5", 3, Shape(chunk=131072), version="0.90"), "Cannot grow - need backup-file"),
    ("chunk", reshape("raid5", 3, Shape(chunk=131072), member_sectors=SECTORS + 128), "New chunk size (128K)"),
    ("chunk-power", reshape("raid5", 3, Shape(chunk=3072)), ""),
    ("chunk-power", reshape("raid10", 4, Shape(chunk=2048)), ""),
    ("most-disks", reshape("raid5", 3, Shape(1921)), "Cannot increase raid-disks on this array beyond 1920"),
    (
        "most-disks",
        reshape("raid5", 3, Shape(28), version="0.90"),
        "Cannot increase raid-disks on this array beyond 27",
    ),
    ("chunk", reshape("raid1", 2, Shape(chunk=131072)), "chunk size not meaningful for this level"),
    ("layout", reshape("raid5", 3, Shape(layout="n2")), "layout n2 not understood for this level"),
    ("layout", reshape("raid1", 2, Shape(layout="n2")), "layout not meaningful with this level"),
    ("layout", reshape("raid10", 4, Shape(layout="x")), "layout x not understood for this level"),
    ("far-layout", reshape("raid10", 4, Shape(5), layout=FAR, spares=1), "Cannot reshape RAID10 in far-mode"),
    ("far-layout", reshape("raid10", 4, Shape(layout="f2")), "Cannot reshape RAID10 to far-mode"),
    ("copies", reshape("raid10", 4, Shape(layout="n3")), "Cannot change number of copies when reshaping RAID10"),
    ("old-metadata", reshape("raid10", 4, Shape(5), version="0.90", spares=1), "Metadata version doesn't support"),
    ("members", reshape("raid1", 3, Shape(2)), "failed to set raid disks"),
    ("journal", reshape("raid5", 3, Shape(4), spares=1, consistency="journal"), "Cannot set device shape for /dev/md0"),
    ("ppl", reshape("raid5", 3, Shape(4), spares=1, consistency="ppl"), "Cannot set device shape for /dev/md0"),
    ("read-only", reshape("raid5", 3, Shape(4), spares=1, state="readonly"), "Cannot set device shape for /dev/md0"),
    ("array-size", reshape("raid5", 4, Shape(3), size=None), "this change will reduce the size of the array."),
    ("few-disks", reshape("raid5", 3, Shape(1)), ""),
    ("zones", reshape_of_unequal_disks(), "cannot takeover raid0 with more than one zone."),
    # Levels
    ("failed", change("raid6", 4, NewLevel("raid5"), degraded=3, state="broken"), ""),
    ("degraded", change("raid5", 3, NewLevel("raid6", new=(disk(),)), degraded=1), "is performing resync/recovery"),
    ("same-level", change("raid5", 3, NewLevel("raid5")), "/dev/md0: no change requested"),
    ("level", change("raid1", 2, NewLevel("raid6")), "Impossibly level change request for RAID1"),
    ("two-disks", change("raid1", 3, NewLevel("raid5")), "Can only convert a 2-device array to RAID5"),
    ("two-disks", change("raid5", 3, NewLevel("raid1")), "Can only convert a 2-device array to RAID1"),
    ("level", change("raid5", 3, NewLevel("raid10")), "Impossible level change requested"),
    ("level", change("raid6", 4, NewLevel("raid0")), "Impossible level change requested"),
    ("level", change("raid0", 2, NewLevel("raid6")), "could not set level to raid6"),
    ("level", change("raid0", 2, NewLevel("raid1")), "Impossible level change requested"),
    ("level", change("raid10", 4, NewLevel("raid5")), "RAID10 can only be changed to RAID0"),
    ("layout", change("raid10", 4, NewLevel("raid0"), layout=FAR), "Cannot Grow RAID10 with far/offset layout"),
    ("layout", change("raid10", 5, NewLevel("raid0")), "RAID10 layout too complex for Grow operation"),
    ("array-size", change("raid5", 4, NewLevel("raid6", 4, backup_file="/b")), "this change will reduce the size"),
    ("array-size", change("raid6", 5, NewLevel("raid5", 3, backup_file="/b")), "this change will reduce the size"),
    ("few-disks", change("raid5", 3, NewLevel("raid6", 1)), ""),
    ("layout", change("raid5", 3, NewLevel("raid6", 4, "n2"), spares=1), "layout n2 not understood for this level"),
    ("spares", change("raid5", 3, NewLevel("raid6", 4)), "Need 1 spare to avoid degraded array, and only have 0."),
]


@pytest.mark.parametrize(("code", "plan", "printed"), REFUSED)
def test_a_refusal_has_the_sentence_that_mdadm_prints(code: str, plan: ChangePlan, printed: str) -> None:
    first = plan.refusals[0]
    assert first.code == code
    assert printed in first.printed
    assert first.reason
    assert not first.reason.endswith(".")
    assert not plan.commands
    assert plan.estimate is None


@pytest.mark.parametrize(
    ("software", "code"),
    [(Software(kernel=(3, 2), mdadm=(4, 2)), "old-kernel"), (Software(kernel=(6, 1), mdadm=(3, 2)), "old-mdadm")],
)
def test_replacement_needs_kernel_and_mdadm_of_its_time(software: Software, code: str) -> None:
    array = make_array("raid1", 2)
    plan = judge_replace(array, array.members[0], disk(), replace(CONDITIONS, software=software))
    assert [refusal.code for refusal in plan.refusals] == [code]


def test_member_that_is_not_active_is_not_replaced() -> None:
    array = make_array("raid1", 2)
    member = replace(array.members[0], states=("faulty",))
    plan = judge_replace(array, member, disk(), CONDITIONS)
    assert plan.refusals[0].printed == "/dev/sda is not active and so cannot be replaced."


ACCEPTED = [
    add(),
    add(degraded=1),
    replace_first("raid5", 3, disk()),
    replace_first("raid1", 2, spares=1),
    grow("raid5", 3),
    grow("raid10", 4, layout=OFFSET_LAYOUT),
    reshape("raid5", 3, Shape(4), spares=1),
    reshape("raid5", 3, Shape(4, new=(disk(),))),
    reshape("raid5", 3, Shape(4), version="0.90", spares=1),
    reshape("raid5", 4, Shape(3, backup_file="/b"), size=HALF_SIZE),
    reshape("raid1", 2, Shape(3), spares=1),
    reshape("raid10", 4, Shape(5), spares=1),
    change("raid1", 2, NewLevel("raid5")),
    change("raid5", 3, NewLevel("raid6", 4), spares=1),
    change("raid6", 4, NewLevel("raid5", 3)),
]


@pytest.mark.parametrize("plan", ACCEPTED)
def test_what_is_accepted_has_commands(plan: ChangePlan) -> None:
    assert plan.is_accepted
    assert plan.commands
    assert not plan.dangers


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace_first("raid0", 2), "raid0 has no redundancy"),
        (replace_first("raid1", 2), "the array has no spare"),
        (replace_first("raid1", 2, spares=1, state="readonly"), "the array is read-only"),
    ],
)
def test_replacement_that_mdadm_accepts_and_md_does_not_begin_has_no_effect(plan: ChangePlan, reason: str) -> None:
    assert plan.is_accepted
    assert plan.no_effect.startswith(reason)
    assert plan.estimate is None
    assert not plan.commands


def test_offset_layout_of_a_near_array_is_a_danger() -> None:
    assert "the array was broken" in reshape("raid10", 4, Shape(layout="o2")).dangers[0]


def test_disk_with_data_is_a_danger_and_has_no_commands() -> None:
    plan = add(new=disk(contents=("ext4",)))
    assert plan.is_accepted
    assert plan.dangers == ("sdx is not empty (ext4): mdadm --add overwrites it without asking",)
    assert not plan.commands


def test_member_of_another_array_is_a_danger() -> None:
    plan = add(new=disk(array_uuid="1:2:3:4"))
    assert "is a member of another array" in plan.dangers[0]
    assert not plan.commands


def test_shrinking_is_a_danger_whose_last_command_is_a_comment() -> None:
    plan = grow("raid5", 3, 16 * 1024)
    assert "the array shrinks to 32 MiB" in plan.dangers[0]
    assert "mdadm --grow /dev/md0 --array-size=32768" in plan.commands
    assert plan.commands[-1] == "# mdadm --grow /dev/md0 --size=16384"


def test_larger_logical_blocks_are_a_caveat() -> None:
    assert "logical blocks of 4096 bytes" in add(new=disk(logical_block=4096)).caveats[0]


def test_assembly_after_a_power_cut_names_no_disk() -> None:
    plan = reshape("raid5", 3, Shape(4, new=(disk(),), backup_file="/mnt/my usb/b"))
    assert "mdadm --assemble /dev/md0 --uuid=a:b:c:d '--backup-file=/mnt/my usb/b'" in plan.interruption
    assert not any("/dev/sd" in line for line in plan.interruption)


def test_assembly_without_a_uuid_says_that_it_must_be_written_down() -> None:
    plan = reshape("raid5", 3, Shape(4), spares=1, uuid="")
    assert "mdadm --detail /dev/md0" in plan.interruption
    assert "# If the array does not run: mdadm --assemble /dev/md0 --uuid=UUID" in plan.interruption


def test_two_disks_for_two_empty_slots_are_both_added_with_care() -> None:
    array = make_array("raid6", 4, degraded=2)
    plan = judge_add(array, [disk(), disk("sdy"), disk("sdz")], CONDITIONS)
    assert plan.commands[1:] == (
        "blklab md fix add /dev/md0 /dev/sdx",
        "blklab md fix add /dev/md0 /dev/sdy",
        "mdadm /dev/md0 --add /dev/sdz",
    )


def test_what_is_refused_has_no_power_cut() -> None:
    assert not add(state="readonly", degraded=1).interruption
    assert not replace_first("raid1", 2).interruption


def test_disks_of_a_text_are_known_as_members() -> None:
    array = make_array("raid1", 2, spares=1)
    failed = replace(array.members[1], states=("faulty",))
    array = replace(array, members=(array.members[0], failed, array.members[2]))
    disks = [name_new_disk(f"/dev/{name}", array) for name in ("sda", "sdb", "sdc", "sdx")]
    codes = [[refusal.code for refusal in judge_add(array, [disk], CONDITIONS).refusals] for disk in disks]
    assert codes == [["member"], ["faulty"], ["spare"], []]


def test_the_present_shape_is_no_change() -> None:
    plan = reshape("raid5", 3, Shape(3, chunk=65536))
    assert plan.is_accepted
    assert plan.no_effect.startswith("the array has this shape already")
    assert not plan.commands
    assert plan.estimate is None


def test_a_mirror_of_three_without_one_has_redundancy() -> None:
    plan = grow("raid1", 3, degraded=1)
    assert plan.work
    assert not any("degraded" in line for line in reshape("raid1", 3, Shape(4), degraded=1, spares=0).caveats)


def test_a_degraded_raid10_compares_the_pairs_that_are_complete() -> None:
    assert grow("raid10", 4, degraded=1).work


def test_unknown_sizes_are_said() -> None:
    array = make_array("raid1", 2)
    array = replace(array, members=tuple(replace(member, size=None) for member in array.members))
    largest = judge_grow(array, None, CONDITIONS)
    assert describe_answer(largest).endswith("accept it; how long it takes is not known.")
    assert largest.commands[0] == "mdadm --grow /dev/md0 --size=max"
    given = judge_grow(array, 60 * 1024, CONDITIONS)
    assert given.caveats == ("the sizes of the disks are not known: md refuses a size that one of them does not have",)
    unknown = judge_grow(replace(array, member_sectors=0), 60 * 1024, CONDITIONS)
    assert "the size that the array uses of each member is not known" in unknown.dangers[0]
    assert not unknown.commands


def test_a_pass_of_unknown_length_has_no_duration() -> None:
    plan = add(degraded=1, member_sectors=0)
    assert plan.estimate is None
    assert describe_answer(plan).endswith("accept it; how long it takes is not known.")


def test_a_reshape_of_members_with_listed_sectors_is_a_danger() -> None:
    array = make_array("raid5", 3)
    entries = [{"sector": 4096, "sectors": 8}]
    superblock = make_superblock(
        data_size=SECTORS, size=SECTORS,
        bad_blocks={"sector": 0, "sectors": 8, "shift": 0, "active": True, "entries": entries},
    )  # fmt: skip
    array = replace(array, members=(replace(array.members[0], superblock=superblock), *array.members[1:]))
    for plan in (
        judge_reshape(array, Shape(4, new=(disk(),)), CONDITIONS),
        judge_level(array, NewLevel("raid6", new=(disk(),)), CONDITIONS),
    ):
        assert plan.dangers[0].startswith("the bad-block list of sda has 8 sectors")
        assert not plan.commands


def test_a_disk_next_to_a_member_that_md_rebuilds_becomes_a_spare() -> None:
    plan = add("raid5", 3, degraded=1, sync=SyncPass("recover", 10, 100, 1000))
    assert not plan.work
    assert plan.commands == ("mdadm /dev/md0 --add /dev/sdx",)


def test_a_disk_for_another_empty_slot_waits_for_the_recovery() -> None:
    plan = add("raid6", 5, degraded=2, sync=SyncPass("recover", 10, 100, 1000))
    assert plan.commands[0] == "mdadm --wait /dev/md0"
    assert plan.commands[-1] == "blklab md fix add /dev/md0 /dev/sdx"
