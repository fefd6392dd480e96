"""Arrays that do not start: the answer for recorded arrays of people who asked for help, and for made ones."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.console import Console

from blklab.md.model import Array, ArrayMember, Inventory, Software
from blklab.md.rescue import report
from blklab.md.rescue.diagnosis import FEW_EVENTS_EVER, ArrayRescue, Condition, ContentFacts, diagnose
from tests.md.audit.test_cases import HARMFUL, read_case
from tests.md.crafted import make_superblock

START = 1_767_225_600  # When the made superblocks were written


def make_array(*members: ArrayMember, **changes: Any) -> Array:
    """Returns a RAID-5 of three disks that is not assembled."""
    values: dict[str, Any] = {
        "name": "0", "path": "", "uuid": "a:b:c:d", "level": "raid5", "layout": 2, "chunk": 65536, "raid_disks": 3,
        "metadata": "1.2", "live": False, "members": members, "state": "clean", "label": "host:0",
    }  # fmt: skip
    return Array(**values | changes)


def make_member(name: str, slot: int | None, **changes: Any) -> ArrayMember:
    superblock = make_superblock(**{"slot": slot, "events": 1000} | changes)
    return ArrayMember(name, f"/dev/{name}", slot=slot, superblock=superblock)


CONTENTS = {"overwritten": ContentFacts("ext", START - 1_000_000, None), "shrunk": ContentFacts("xfs", None, 1 << 40)}
"""What filesystems on arrays say, by the names of the arrays."""


def diagnose_one(array: Array, **changes: Any) -> ArrayRescue:
    (rescue,) = diagnose(Inventory((array,), **changes), CONTENTS)
    assert not [line for line in rescue.steps if not line.startswith("#") and HARMFUL.search(line)]
    return rescue


def draw(inventory: Inventory) -> str:
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False, width=10_000)
    report.show(console, inventory, diagnose(inventory))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


MADE: dict[str, Array] = {
    "sound": make_array(*(make_member(f"sd{at}", at) for at in range(3))),
    "degraded": make_array(
        make_member("sda", 0, present=[True, True, False]), make_member("sdb", 1, present=[True, True, False])
    ),
    "incomplete": make_array(make_member("sda", 0), make_member("sdb", 1)),
    "unclear": make_array(
        replace(make_member("sda", 0), users=("mounted at /mnt",)), make_member("sdb", 1), make_member("sdc", 2)
    ),
    "unclean": make_array(
        make_member("sda", 0, resync_offset=0, present=[True, True, False]),
        make_member("sdb", 1, resync_offset=0, present=[True, True, False]),
    ),
    "new": make_array(*(make_member(f"sd{at}", at, events=FEW_EVENTS_EVER, created=START) for at in range(3))),
    "overwritten": make_array(
        *(make_member(f"sd{at}", at, events=FEW_EVENTS_EVER, created=START) for at in range(3)), name="overwritten"
    ),
    "shrunk": make_array(*(make_member(f"sd{at}", at) for at in range(3)), name="shrunk", size=1 << 30),
    "behind": make_array(
        make_member("sda", 0, present=[True, False, False]),
        make_member("sdb", 1, events=990, updated=START - 4, present=[True, True, False]),
        make_member("sdc", 2, events=10),
    ),
    "stale": make_array(
        make_member("sda", 0, present=[True, False, False]), make_member("sdb", 1, events=500, updated=START - 90_000)
    ),
    "not-enough": make_array(make_member("sda", 0), make_member("sdb", 1, recovery_offset=96)),
    "reshaping": make_array(make_member("sda", 0, reshape_position=64), make_member("sdb", 1), reshaping=True),
    "refused": make_array(make_member("sda", 0, checksum={"stored": 1, "computed": 2})),
    "unknown": make_array(ArrayMember("sda", "/dev/sda", unseen="permission denied")),
    "foreign": make_array(ArrayMember("sda", "/dev/sda"), metadata="external:imsm", live=True, state="inactive"),
    "running": make_array(make_member("sda", 0), live=True, path="/dev/md0", state="active"),
    "broken": make_array(make_member("sda", 0), live=True, path="/dev/md0", state="broken", degraded=2),
    "diverged": make_array(
        make_member("sda", 0, raid_disks=2, level=1, present=[True, False]),
        make_member("sdb", 1, raid_disks=2, level=1, present=[False, True], events=1500),
        level="raid1",
        raid_disks=2,
    ),
}


def test_every_condition_has_an_array() -> None:
    assert set(MADE) == set(get_args(Condition))


@pytest.mark.parametrize("condition", MADE)
def test_every_condition_is_recognised_and_has_an_answer(condition: str) -> None:
    rescue = diagnose_one(MADE[condition])
    assert rescue.condition == condition
    text = "\n".join((rescue.headline, *rescue.facts, *rescue.steps, *rescue.forbidden))
    assert not re.search(r"[{}]|None|object at|0 ns", text)
    assert rescue.headline.endswith(".")


@pytest.mark.parametrize("condition", sorted(set(MADE) - {"sound", "degraded", "running", "broken", "foreign"}))
def test_no_command_for_disks_is_printed_unless_the_array_is_sound(condition: str) -> None:
    assert all(line.startswith("#") for line in diagnose_one(MADE[condition]).steps)


@pytest.mark.parametrize("condition", sorted(set(MADE) - {"running", "foreign"}))
def test_create_is_forbidden_with_its_reason(condition: str) -> None:
    assert any(line.startswith("--create: ") for line in diagnose_one(MADE[condition]).forbidden)


def test_a_sound_array_of_disks_is_started_by_what_md_checks() -> None:
    rescue = diagnose_one(MADE["sound"])
    assert rescue.headline.startswith("The array is sound: 3 of 3 members are current. ")
    assert [line for line in rescue.steps if not line.startswith("#")] == ["mdadm --assemble --scan"]
    assert rescue.steps[0].startswith("# If someone used --create on these disks, do not start it")


def test_nothing_that_starts_all_arrays_is_printed_if_one_of_them_must_not_start() -> None:
    """`mdadm --assemble --scan` starts every array that it finds."""
    new = replace(MADE["new"], name="1", uuid="e:f:a:b")
    rescues = {rescue.array.name: rescue for rescue in diagnose(Inventory((MADE["sound"], new)))}
    assert rescues["0"].condition == "sound"
    assert all(line.startswith("#") for line in rescues["0"].steps)
    assert "Name its disks instead: /dev/sd0, /dev/sd1, /dev/sd2." in "\n".join(rescues["0"].steps)


def test_a_part_whose_other_disks_may_be_newer_is_not_called_sound() -> None:
    """A half of a mirror, whose other half is not connected and may have run on for a month."""
    half = make_member("sdb", 1, raid_disks=2, level=1, present=[True, True])
    rescue = diagnose_one(make_array(half, level="raid1", raid_disks=2))
    assert rescue.condition == "incomplete"
    assert "the disk of slot 0 is newer: find it first" in rescue.headline
    assert all(line.startswith("#") for line in rescue.steps)


def test_data_are_old_if_the_array_could_run_on_without_a_member() -> None:
    """Of a busy array, the events hardly change: 95 events can be ten minutes of writes."""
    rescue = diagnose_one(
        make_array(
            make_member("sda", 0, present=[True, False, False]), make_member("sdb", 1, events=905, updated=START - 570)
        )
    )
    assert rescue.condition == "stale"


def test_members_that_failed_one_after_another_did_not_run_apart() -> None:
    shape = {"level": 6, "raid_disks": 4}
    rescue = diagnose_one(
        make_array(
            *(make_member(f"sd{at}", at, events=3000, present=[True, False, True, True], **shape) for at in (0, 2, 3)),
            make_member("sd1", 1, events=1000, present=[False, True, True, True], **shape),
            level="raid6",
            raid_disks=4,
        )
    )  # fmt: skip
    assert rescue.condition == "degraded"


def test_a_member_that_the_newest_calls_missing_is_not_current() -> None:
    rescue = diagnose_one(
        make_array(
            make_member("sda", 0, level=1, raid_disks=2, events=1001, present=[True, False]),
            make_member("sdb", 1, level=1, raid_disks=2, events=1000, updated=START - 2_592_000),
            level="raid1",
            raid_disks=2,
        )
    )
    assert rescue.condition == "degraded"
    assert "it can start without slot 1. 1 of 2 members is current." in rescue.headline


def test_a_member_that_failed_is_not_started_with_the_others() -> None:
    """Before Linux 6.8, md takes a member that is one event behind as current, also if the others call it failed."""
    shape = {"raid_disks": 3, "present": [True, True, False]}
    rescue = diagnose_one(
        make_array(
            make_member("sda", 0, events=1001, **shape),
            make_member("sdb", 1, events=1001, **shape),
            make_member("sdc", 2, events=1000, updated=START - 1200),
        )
    )
    assert rescue.condition == "degraded"
    assert all(line.startswith("#") for line in rescue.steps)
    assert "# Name its disks instead: /dev/sda, /dev/sdb." in rescue.steps
    assert any(fact.startswith("sdc is not more than one event behind") for fact in rescue.facts)


@pytest.mark.parametrize(("level", "condition"), [(5, "behind"), (10, "stale")])
def test_hours_between_superblocks_matter_only_without_parity(level: int, condition: str) -> None:
    """RAID-5 refuses all writes without two members; RAID-10 goes on where a pair is left."""
    shape = {"level": level, "raid_disks": 4, "layout": 0x102 if level == 10 else 2, "size": 2048}
    gone = {"events": 990, "updated": START - 10_000, "present": [True] * 4}
    rescue = diagnose_one(
        make_array(
            *(make_member(f"sd{at}", at, present=[True, True, False, False], **shape) for at in (0, 1)),
            *(make_member(f"sd{at}", at, **shape | gone) for at in (2, 3)),
            level=f"raid{level}",
            layout=shape["layout"],
            raid_disks=4,
            member_sectors=2048,
        )
    )
    assert rescue.condition == condition


def make_member_that_left_long_ago(**changes: Any) -> Array:
    """Returns a RAID-5 of four disks of which one left three months ago, with as many events as the newest."""
    alone = {"raid_disks": 4, "present": [True, True, False, False]}
    behind = {"raid_disks": 4, "events": 995, "updated": START - 60, "present": [True, True, True, False]}
    return make_array(
        make_member("sda", 0, **alone),
        make_member("sdb", 1, **alone),
        make_member("sdc", 2, **behind | changes),
        make_member("sdd", 3, raid_disks=4, updated=START - 7_776_000),
        raid_disks=4,
    )


def test_a_member_that_left_long_ago_is_not_chosen_for_its_events() -> None:
    rescue = diagnose_one(make_member_that_left_long_ago())
    assert rescue.condition == "behind"
    assert [member.name for member in rescue.chosen] == ["sda", "sdb", "sdc"]


def test_a_member_that_left_long_ago_is_old_if_it_is_needed() -> None:
    """It left when all others were there: the array ran on without it."""
    rescue = diagnose_one(make_member_that_left_long_ago(recovery_offset=96))
    assert rescue.condition == "stale"
    assert [member.name for member in rescue.chosen] == ["sda", "sdb", "sdd"]


def test_a_member_that_failed_one_event_ago_is_chosen_before_an_old_one() -> None:
    rescue = diagnose_one(
        make_array(
            make_member("sda", 0, present=[True, False, False]),
            make_member("sdb", 1, events=999, updated=START - 1, present=[True, True, False]),
            make_member("sdc", 2, events=500, updated=START - 90_000),
        )
    )
    assert rescue.condition == "behind"
    assert [member.name for member in rescue.chosen] == ["sda", "sdb"]


def test_a_reshape_that_takes_disks_away_does_not_begin_at_the_start() -> None:
    """Its position goes down: 0 is its end."""
    for delta_disks, is_at_start in ((1, True), (-1, False)):
        reshape = {"delta_disks": delta_disks, "level": 5, "layout": 2, "chunk": 65536}
        members = [make_member(f"sd{at}", at, reshape_position=0, reshape=reshape) for at in range(3)]
        headline = diagnose_one(make_array(*members, reshaping=True)).headline
        assert ("still at its start" in headline) == is_at_start


def test_members_with_equal_events_and_dates_far_apart_are_no_array_to_start() -> None:
    members = [make_member("sd0", 0), make_member("sd1", 1, updated=START - 300 * 86_400), make_member("sd2", 2)]
    assert diagnose_one(make_array(*members)).condition == "unclear"


def test_geometry_is_that_of_the_newest_superblock() -> None:
    """md has assembled an old member; the newer ones, of a larger array, are outside."""
    outside = tuple(make_member(f"sd{at}", at, raid_disks=5, events=2000) for at in (1, 2))
    array = make_array(make_member("sda", 0, events=500), live=True, path="/dev/md0", state="inactive", outside=outside)
    rescue = diagnose_one(array)
    assert rescue.array.raid_disks == 5
    assert rescue.condition == "not-enough"


def test_few_events_say_nothing_without_redundancy() -> None:
    """md hardly counts events of RAID-0: years-old arrays have two."""
    members = [make_member(f"sd{at}", at, level=0, raid_disks=2, events=1) for at in range(2)]
    rescue = diagnose_one(make_array(*members, level="raid0", raid_disks=2))
    assert rescue.condition == "sound"


def test_raid0_that_runs_without_a_member_is_broken() -> None:
    member = replace(make_member("sd0", 0, level=0, raid_disks=2), states=("in_sync",))
    gone = replace(make_member("sd1", 1, level=0, raid_disks=2), states=("faulty", "in_sync"))
    array = make_array(member, gone, level="raid0", raid_disks=2, live=True, path="/dev/md0", state="clean")
    assert diagnose_one(array).condition == "broken"


def test_disks_of_a_virtual_machine_are_not_started() -> None:
    members = [replace(make_member(f"dm-{at}", at), logical_volume=True) for at in range(3)]
    rescue = diagnose_one(make_array(*members))
    assert rescue.condition == "unclear"
    assert "virtual machine" in rescue.headline


def test_members_that_are_here_and_refused_are_not_searched_for() -> None:
    wrong = {"checksum": {"stored": 1, "computed": 2}}
    rescue = diagnose_one(
        make_array(make_member("sd0", 0), make_member("sd1", 1, **wrong), make_member("sd2", 2, **wrong))
    )
    assert rescue.condition == "not-enough"
    assert "Find the disks" not in rescue.headline


def test_an_array_that_was_just_made_is_not_called_sound() -> None:
    """After a wrong --create, all superblocks agree: only the number of events shows it."""
    rescue = diagnose_one(MADE["new"])
    assert "someone used --create over the old array: do not start it" in rescue.headline
    assert "The array is sound" not in rescue.headline


def test_the_age_of_the_filesystem_says_whether_create_was_used_over_data() -> None:
    older = diagnose_one(MADE["overwritten"])
    assert older.headline.startswith("The array was made over existing data")
    assert any("blklab rescue --try-orders" in line or "--try-orders" in line for line in older.steps)
    (younger,) = diagnose(Inventory((MADE["new"],)), {"0": ContentFacts("ext", START + 60, None)})
    assert younger.condition == "sound"
    assert any("and the filesystem on it after that" in fact for fact in younger.facts)


def test_an_array_that_is_smaller_than_its_filesystem_is_not_started() -> None:
    """State and events are fine: only the sizes show that the array was made again."""
    rescue = diagnose_one(MADE["shrunk"])
    assert "The array is sound" not in rescue.headline
    assert "The xfs filesystem on it has 1 TiB, and the array only 192 KiB: " in " ".join(rescue.facts)
    assert any("blklab md overlays search" in line for line in rescue.steps)


def test_a_year_with_few_events_is_not_a_new_array() -> None:
    members = [make_member(f"sd{at}", at, events=FEW_EVENTS_EVER, created=START - 31_536_000) for at in range(3)]
    assert diagnose_one(make_array(*members)).condition == "sound"


def test_an_array_whose_write_journal_is_missing_is_not_started() -> None:
    rescue = diagnose_one(make_array(*(make_member(f"sd{at}", at, journal=True) for at in range(3))))
    assert rescue.condition == "unclear"
    assert "Its write journal is missing" in rescue.headline
    assert all(line.startswith("#") for line in rescue.steps)


def test_members_that_are_little_behind_are_chosen_and_the_oldest_is_not() -> None:
    rescue = diagnose_one(MADE["behind"])
    assert "10 events (4 s) behind" in rescue.headline.replace(".00", "")
    assert [member.name for member in rescue.chosen] == ["sda", "sdb"]


def test_a_member_that_was_rebuilt_in_part_is_no_source() -> None:
    rescue = diagnose_one(MADE["not-enough"])
    assert (
        "sdb was rebuilt only up to sector 96 (50.0 %): it is no complete member, although it has a slot."
        in rescue.facts
    )
    assert not rescue.chosen


def test_members_outside_of_an_assembled_array_count() -> None:
    alone = [True, False, False]
    array = make_array(
        make_member("sda", 0, present=alone), live=True, path="/dev/md0", state="inactive",
        outside=(make_member("sdb", 1, events=998, present=[True, True, False]),),
    )  # fmt: skip
    rescue = diagnose_one(array)
    assert rescue.condition == "behind"
    assert [member.name for member in rescue.chosen] == ["sda", "sdb"]


def test_raid5_of_which_three_of_four_members_are_behind(tmp_path: Path) -> None:
    """Case 01: mdadm says "assembled from 1 drive - not enough"; the members differ by six events."""
    inventory = read_case("01-raid5-three-of-four-stale", tmp_path)
    (rescue,) = diagnose(inventory)
    assert rescue.condition == "behind"
    assert (
        "The data are probably all there. It does not start because only 1 of 4 members is current" in rescue.headline
    )
    assert "6 events" in rescue.headline
    assert [(group.events, len(group.members)) for group in rescue.groups] == [(4025, 1), (4019, 3)]
    text = draw(inventory)
    assert "--assemble --force on the disks themselves: it cannot be undone" in text
    assert "it could not run without them meanwhile" in rescue.headline
    assert "blklab md overlays start" in text
    assert "AAAA" in text
    assert "..A." in text


def test_raid6_whose_removed_members_were_not_read(tmp_path: Path) -> None:
    """Case 03: the poster added two removed members, which made them spares, and lost the array."""
    (rescue,) = diagnose(read_case("03-raid6-failed-not-started", tmp_path))
    assert rescue.condition == "not-enough"
    assert "4 of 7 members are current. Find the disks of slots 3, 4 first" in rescue.headline
    assert "sdf1 was rebuilt only up to sector 400,000 (19.1 %)" in "\n".join(rescue.facts)
    assert "/dev/sdg1, /dev/sdh1" in "\n".join(rescue.facts)
    assert any(line.startswith("--add: ") for line in rescue.forbidden)


def test_raid6_with_its_removed_members(tmp_path: Path) -> None:
    inventory = read_case("03-raid6-failed-not-started", tmp_path)
    (array,) = inventory.arrays
    updated = next(member.superblock.updated for member in array.members if member.superblock)
    values = {"level": 6, "raid_disks": 7, "updated": updated - 60}
    removed = tuple(
        ArrayMember(name, f"/dev/{name}", superblock=make_superblock(slot=slot, events=events, **values))
        for name, slot, events in (("sdg1", 3, 288_190), ("sdh1", 4, 288_194))
    )
    rescue = diagnose_one(replace(array, outside=removed))
    assert rescue.condition == "stale"  # It could run without both, for three events
    assert {member.name for member in rescue.chosen} == {"sde1", "sdc1", "sdd1", "sdi1", "sdh1"}


def test_a_reshape_in_images(tmp_path: Path) -> None:
    """Case 06: a member failed while the array grew from three to four disks."""
    (rescue,) = diagnose(read_case("06-reshape-in-images", tmp_path))
    assert rescue.condition == "reshaping"
    assert "The reshape is at sector 600,000 of the array." in rescue.facts
    assert "backup file" in "\n".join(rescue.steps)


def test_two_halves_of_a_mirror(tmp_path: Path) -> None:
    """Case 15: both halves run, as md0 and md127."""
    rescues = diagnose(read_case("15-two-halves-of-one-mirror", tmp_path))
    assert [rescue.condition for rescue in rescues] == ["diverged", "diverged"]
    assert "md127 (9,344 events, last written 2023-11-15T00:49:04Z) and md0 (9,120 events" in rescues[0].facts[0]


def test_an_inactive_array_has_the_state_of_its_superblocks(tmp_path: Path) -> None:
    """Case 17: sysfs has zeros, /proc/mdstat shows all members as spares."""
    (rescue,) = diagnose(read_case("17-inactive-array-wrong-layout", tmp_path))
    assert rescue.condition == "behind"
    assert [member.name for member in rescue.chosen] == ["sdd1", "sdb1", "sde1"]


def test_a_slot_whose_image_was_not_given_does_not_count() -> None:
    """What is absent is not healthy: the superblocks say that the third member is there, and nothing shows it."""
    rescue = diagnose_one(make_array(make_member("sda", 0), make_member("sdb", 1), absent=(2,)))
    assert rescue.condition == "incomplete"
    assert "2 of 3 members are current, but they were written with slot 2" in rescue.headline


def test_two_disks_with_one_slot_are_named_and_not_started() -> None:
    members = [make_member(f"sd{at}", at) for at in range(3)]
    rescue = diagnose_one(make_array(*members, make_member("sdx", 0)))
    assert rescue.condition == "unclear"
    assert "sd0, sdx have the same slot, 0: one is a copy, or was replaced." in rescue.headline


def test_superblocks_of_a_newer_kernel_are_sound_and_need_it() -> None:
    newer = {"reason": "newer-kernel", "message": "logical block size 4096: Linux 6.18 and older refuse it"}
    rescue = diagnose_one(make_array(*(make_member(f"sd{at}", at, refusal_reasons=[newer]) for at in range(3))))
    assert rescue.condition == "sound"
    assert "it needs a newer kernel" in rescue.headline
    assert any("start such a kernel first" in line for line in rescue.steps)


def test_members_that_are_used_otherwise_are_not_assembled() -> None:
    """A half of a mirror that is mounted without md differs from the other, and the superblocks do not show it."""
    rescue = diagnose_one(MADE["unclear"])
    assert all(line.startswith("#") for line in rescue.steps)
    assert "Members are used without md: sda (mounted at /mnt)." in rescue.headline


def test_states_of_an_array_that_was_not_started_do_not_count() -> None:
    """sysfs calls all members spares before md has compared their superblocks."""
    members = [replace(make_member(f"sd{at}", at), states=("spare",)) for at in range(3)]
    rescue = diagnose_one(make_array(*members, live=True, path="/dev/md0", state="inactive"))
    assert rescue.condition == "sound"


def test_hostile_names_are_escaped() -> None:
    member = make_member("sda", 0)
    array = make_array(member, label="x\x1b[31m", name="x\x1b[31m")
    assert "\x1b" not in draw(Inventory((array,)))


def test_a_reshape_with_too_few_current_members_is_tried_with_members_that_are_behind() -> None:
    reshape = {"delta_disks": 1, "level": 5, "layout": 2, "chunk": 65536}
    values = {"reshape_position": 4096, "reshape": reshape}
    array = make_array(
        make_member("sda", 0, present=[True, False, False], **values),
        make_member("sdb", 1, events=990, updated=START - 4, present=[True, True, False], **values),
        reshaping=True,
    )
    rescue = diagnose_one(array)
    assert (
        "Only 1 of 3 members is current, which is not enough; with members that are 10 events (4 s) behind, it has"
        in (" ".join(rescue.facts))
    )
    assert any("Try it on overlays of /dev/sda, /dev/sdb." in line for line in rescue.steps)
    assert [member.name for member in rescue.chosen] == ["sda", "sdb"]  # `md overlays start` takes them
    few = diagnose_one(replace(array, members=array.members[:1]))
    assert not any("overlays of" in line for line in few.steps)
    assert "Find the disks of slots 1, 2 first." in " ".join(few.facts)


def test_a_reshape_that_moves_the_data_needs_no_backup_file() -> None:
    reshape = {"delta_disks": 0, "level": 5, "layout": 2, "chunk": 131072}
    values = {"reshape_position": 4096, "reshape": reshape, "new_data_offset": 1024, "reshape_backwards": True}
    array = make_array(*(make_member(f"sd{at}", at, **values) for at in range(3)), reshaping=True)
    rescue = diagnose_one(array)
    text = " ".join((*rescue.facts, *rescue.steps))
    assert "It moves the data from offset 1 MiB to 512 KiB, and needs no backup file." in text
    assert "It goes from the end of the array to its beginning." in text
    assert "--backup-file" not in text


def test_superblocks_do_not_say_that_an_array_is_not_started() -> None:
    sound = MADE["sound"]
    assert "only not started" not in diagnose_one(sound).headline
    assert "`cat /proc/mdstat` on its host does" in diagnose_one(sound).headline
    for known in ({"lists_running": True}, {"software": Software()}):
        assert diagnose_one(sound, **known).headline.endswith("It is only not started.")
    assert diagnose_one(replace(sound, live=True, state="inactive")).headline.endswith("It is only not started.")
    running = diagnose_one(replace(MADE["running"], raid_disks=0, members=()))
    assert running.headline == "It runs. It needs no rescue."


def test_a_broken_array_names_the_members_that_would_make_it_enough() -> None:
    left = replace(make_member("sdb", 1, events=990, updated=START - 4), slot=None, states=("faulty",))
    first = replace(make_member("sda", 0, present=[True, False, False]), states=("in_sync",))
    rescue = diagnose_one(make_array(first, left, live=True, path="/dev/md0", state="broken", degraded=2))
    assert rescue.condition == "broken"
    assert "With sdb, 10 events (4 s) behind, it has enough members: copy these disks first" in " ".join(rescue.facts)


def test_disks_that_may_be_dead_leave_a_way_on() -> None:
    steps = diagnose_one(MADE["incomplete"]).steps
    assert any("If that disk does not work any more" in line for line in steps)
    assert any("Try it on overlays of /dev/sda, /dev/sdb." in line for line in steps)
