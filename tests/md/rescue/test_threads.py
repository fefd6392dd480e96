"""Arrays of the linux-raid list that did not start: what blklab says, next to what experts advised.

The arrays are made from the facts in the mails (`mdadm --examine` of the members). docs/explanation/rescue.md has the
table of the threads: what the experts had people do, and how it ended.
"""

from datetime import UTC, datetime
from typing import Any

from blklab.md.model import Array, ArrayMember, Inventory
from blklab.md.rescue.diagnosis import ArrayRescue, diagnose
from tests.md.audit.test_cases import HARMFUL
from tests.md.rescue.test_diagnosis import make_array, make_member

WRONG = {"stored": 0, "computed": 1}  # A checksum that does not hold


def seconds(text: str) -> int:
    """Returns a date of a mail in seconds since 1970; the time zones of the mails do not matter here."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def seen(states: str) -> list[bool]:
    """Returns the array as a member saw it: `AA.A`, as `mdadm --examine` draws it."""
    return [state == "A" for state in states]


def make_thread_member(
    name: str, slot: int | None, events: int, updated: str, states: str, **changes: Any
) -> ArrayMember:
    values = {"raid_disks": len(states), "present": seen(states), "events": events, "updated": seconds(updated)}
    if slot is None:
        values["role"] = "spare"
    return make_member(name, slot, **values | changes)


def make_thread_array(level: int, *members: ArrayMember, **changes: Any) -> Array:
    """Returns an array of these members that is not assembled."""
    raid_disks = members[0].superblock.raid_disks if members[0].superblock else 0
    values = {"level": f"raid{level}", "raid_disks": raid_disks}
    return make_array(*members, **values | changes)


def diagnose_thread(array: Array) -> ArrayRescue:
    (rescue,) = diagnose(Inventory((array,)))
    assert not [line for line in rescue.steps if not line.startswith("#") and HARMFUL.search(line)]
    return rescue


def write_all(rescue: ArrayRescue) -> str:
    return "\n".join((rescue.headline, *rescue.facts, *rescue.steps, *rescue.forbidden))


def make_spare_that_failed() -> Array:
    """Raid5 2 drive failure (and my spare failed too), 2019-08."""
    shape = {"created": seconds("2015-05-13T22:12:44")}
    last = "2019-07-24T12:30:48"
    return make_thread_array(
        5,
        make_thread_member("sdc1", 0, 83_042, last, "AAA.A.", **shape),
        make_thread_member("sdl1", 1, 83_042, last, "AAA.A.", **shape),
        make_thread_member("sdk1", 2, 83_042, last, "AAA.A.", **shape),
        make_thread_member("sdb1", 3, 83_013, "2019-07-23T18:51:47", "AAAAA.", **shape),
        make_thread_member("sdj1", 4, 83_042, last, "AAA.A.", **shape),
        make_thread_member("sde1", 5, 38_721, "2019-07-07T02:46:07", "AAAAAA", resync_offset=0, **shape),
        make_thread_member(
            "sdi1", 5, 39_824, "2019-07-07T12:56:23", "AAAAAA", recovery_offset=7_397_574_840,
            size=7_813_770_240, **shape,
        ),
    )  # fmt: skip


def make_two_arrays() -> tuple[Array, Array]:
    """Two raid5 arrays are inactive and have changed UUIDs, 2020-01."""
    first = {"created": seconds("2018-09-22T19:10:10")}
    second = {"created": seconds("2018-09-25T23:31:31"), "uuid": "e:f:a:b"}
    dropped = make_thread_array(
        5,
        make_thread_member("sdc1", 0, 10_080, "2020-01-04T16:58:47", "A.AA", **first),
        make_thread_member("sdd1", 1, 10_070, "2020-01-04T16:56:09", "AAAA", **first),
        make_thread_member("sde1", 2, 10_070, "2020-01-04T16:56:09", "AAAA", **first),
        make_thread_member("sdf1", 3, 10_080, "2020-01-04T16:58:47", "A.AA", **first),
    )
    degraded = make_thread_array(
        5,
        make_thread_member("sdj1", 0, 5_948, "2019-11-28T09:41:00", "AAAA", **second),
        make_thread_member("sdk1", 1, 38_643, "2020-01-04T16:52:59", ".AAA", **second),
        make_thread_member("sdl1", 2, 38_643, "2020-01-04T16:52:59", ".AAA", **second),
        make_thread_member("sdm1", 3, 38_643, "2020-01-04T16:52:59", ".AAA", **second),
        name="1",
        uuid="e:f:a:b",
    )
    return dropped, degraded


def make_raid10() -> Array:
    """All disk ar reported as spare disks, 2020-01."""
    shape = {
        "level": 10,
        "layout": 0x102,
        "chunk": 512 * 1024,
        "created": seconds("2012-10-09T23:30:23"),
        "size": 5_840_999_424,
    }
    return make_thread_array(
        10,
        make_thread_member("sdb1", 0, 2_864, "2020-01-14T22:49:49", "AA..", **shape),
        make_thread_member("sdb2", 1, 2_864, "2020-01-14T22:49:49", "AA..", **shape),
        make_thread_member("sda1", 2, 2_719, "2020-01-12T00:11:05", "AAA.", resync_offset=0, **shape),
        layout=0x102,
    )


def make_partitioned_disks() -> Array:
    """Requesting assistance recovering RAID-5 array, 2020-03."""
    return make_thread_array(
        5,
        make_thread_member(
            "sdc",
            1,
            103_087,
            "2020-03-29T15:43:14",
            ".AAA",
            data_offset=261_120,
            created=seconds("2018-12-26T14:13:35"),
        ),
    )


def make_reshape_at_start() -> Array:
    """Raid-6 won't boot, and Raid-6 cannot reshape, 2020-03 and 2020-04."""
    reshape = {"delta_disks": 1, "level": 6, "layout": 2, "chunk": 512 * 1024}
    shape = {"level": 6, "chunk": 512 * 1024, "reshape_position": 0, "reshape": reshape, "resync_offset": 0}
    slots = {"sda3": 0, "sdb3": 1, "sdc3": 2, "sdd3": 3, "sde3": 6, "sdf3": 5, "sdg3": 4}
    return make_thread_array(
        6,
        *(
            make_thread_member(name, slot, 316_485, "2020-02-25T09:21:27", "AAAAAAA", **shape)
            for name, slot in slots.items()
        ),
    )


def make_journaled_array() -> Array:
    """Assemblin journaled array fails, 2020-05."""
    shape = {"journal": True, "bitmap": False, "version": "1.1"}
    names = ("sdg1", "sdh1", "sdi1", "sdj1")
    return make_thread_array(
        5,
        *(
            make_thread_member(name, slot, 56_289, "2020-05-09T15:05:22", "AAAA", **shape)
            for slot, name in enumerate(names)
        ),
        make_thread_member("md127", None, 56_289, "2020-05-09T15:05:22", "AAAA", **shape | {"role": "journal"}),
    )


def make_normalised_array() -> Array:
    """4-disk RAID6 (non-standard layout) normalise hung, now all disks spare, 2021-06."""
    reshape = {"delta_disks": -1, "level": 6, "layout": 2, "chunk": 512 * 1024}
    shape = {
        "level": 6, "layout": 18, "chunk": 512 * 1024, "reshape_position": 39_006_208 * 2, "reshape": reshape,
        "resync_offset": 0, "raid_disks": 5, "present": seen("AAAA."),
    }  # fmt: skip
    names = ("sdb", "sdc", "sdd", "sde")
    return make_thread_array(
        6,
        *(
            make_thread_member(name, slot, 184_251, "2021-06-18T08:56:43", "AAAA.", **shape)
            for slot, name in enumerate(names)
        ),
    )


def make_unplugged_disks() -> Array:
    """Raid 5 where 2 disks out of 4 were unplugged, 2021-08."""
    return make_thread_array(
        5,
        make_thread_member("sda3", 0, 469_678, "2021-07-08T18:01:51", "AAA."),
        make_thread_member("sdb3", 1, 469_678, "2021-07-08T18:01:51", "AAA."),
        make_thread_member("sdc3", 2, 469_667, "2021-07-08T13:15:58", "AAAA"),
        make_thread_member("sdd3", 3, 469_667, "2021-07-08T13:15:58", "AAAA"),
    )


def make_equal_counts() -> Array:
    """RAID5 - can't assemble array of 5, 2021-10."""
    shape = {"created": seconds("2019-11-21T00:37:08")}
    return make_thread_array(
        5,
        make_thread_member("sda", 0, 600_481, "2021-07-12T21:16:46", "AAAAA", **shape),
        make_thread_member("sdc", 2, 597_632, "2021-10-15T09:27:03", ".AAAA", resync_offset=0, **shape),
        make_thread_member("sdd", 3, 600_481, "2021-10-15T11:13:37", ".A.AA", **shape),
        make_thread_member("sde", 4, 600_481, "2021-10-15T11:13:37", ".A.AA", **shape),
    )


def make_members_called_spares() -> Array:
    """RAID6 recovery, event count mismatch, 2022-12."""
    shape = {"level": 6, "created": seconds("2018-01-29T02:48:26")}
    last = "2022-12-04T00:57:01"
    return make_thread_array(
        6,
        make_thread_member("dm-12", 3, 2_554_495, last, "...A.A", **shape),
        make_thread_member("dm-13", 5, 2_554_495, last, "...A.A", **shape),
        make_thread_member("dm-9", None, 2_554_492, "2022-11-26T09:59:17", "...A.A", **shape),
        make_thread_member("dm-10", None, 2_554_488, "2022-11-26T09:35:16", "...A.A", **shape),
        make_thread_member("dm-11", None, 2_554_490, "2022-11-26T09:47:17", "...A.A", **shape),
    )


def make_replacement_in_reshape() -> Array:
    """md: cannot handle concurrent replacement and reshape, 2023-04."""
    reshape = {"delta_disks": 0, "level": 6, "layout": 2, "chunk": 256 * 1024}
    shape = {
        "level": 6, "layout": 18, "chunk": 256 * 1024, "reshape_position": 419_875_840 * 2, "reshape": reshape,
        "created": seconds("2023-03-06T18:17:30"), "size": 1_953_260_544,
    }  # fmt: skip
    last = "2023-04-27T17:36:15"
    slots = {"sdf": 0, "sdb": 1, "sdc": 2, "sdj": 4, "sdi": 5}
    return make_thread_array(
        6,
        *(make_thread_member(name, slot, 4_700, last, "AAAAAAA", **shape) for name, slot in slots.items()),
        make_thread_member("sdg", 4, 4_700, last, "AAAAAAA", replacement=True, recovery_offset=167_950_336, **shape),
        make_thread_member("sda", None, 0, last, "AAAAAA.", **shape),
        make_thread_member("sdh", None, 0, last, "AAAAAAA", **shape),
        layout=18,
    )


def make_failed_one_event_ago() -> Array:
    """raid6 corruption after assembling with event counter difference of 1, 2023-11."""
    newest = [
        make_thread_member(f"sd{at}", at, 2_834_681, "2023-11-20T12:20:00", "AAAAA.", level=6, resync_offset=0)
        for at in range(5)
    ]
    failed = make_thread_member("sd5", 5, 2_834_680, "2023-11-20T12:00:00", "AAAAAA", level=6, resync_offset=0)
    return make_thread_array(6, *newest, failed)


def make_wiped_disks() -> Array:
    """RAID wiped superblock recovery, 2020-05: three superblocks were made by hand, with wrong checksums."""
    shape = {"level": 6, "data_offset": 262_144, "created": seconds("2016-10-22T10:52:47")}
    last = "2020-05-02T09:49:27"
    slots = {"sda": 0, "sdb": 2, "sdc": 1, "sdd": 3}
    return make_thread_array(
        6,
        *(make_thread_member(name, slot, 2_687_251, last, "AAAAAAA", **shape) for name, slot in slots.items()),
        make_thread_member("sdf", None, 2_687_251, last, ".......", checksum=WRONG, **shape),
        make_thread_member("sdg", None, 0, "1970-01-01T01:00:00", ".......", checksum=WRONG, **shape),
        make_thread_member("sdh", None, 0, "1970-01-01T01:00:00", ".......", checksum=WRONG, **shape),
    )


def make_created_over_reshape() -> Array:
    """The same thread as `make_replacement_in_reshape`, after --create was typed on the disks, 2023-05."""
    shape = {"created": seconds("2023-05-04T12:38:27"), "chunk": 256 * 1024}
    names = ("sde", "sdc", "sdb", "sda", "sdi", "sdj")
    return make_thread_array(
        5,
        *(
            make_thread_member(name, slot, 1, "2023-05-04T12:38:30", "AAAAAA", **shape)
            for slot, name in enumerate(names)
        ),
    )


def test_a_disk_that_left_last_is_chosen_and_the_half_rebuilt_spare_is_not() -> None:
    rescue = diagnose_thread(make_spare_that_failed())
    assert rescue.condition == "behind"
    assert "4 of 6 members are current; with members that are 29 events (17h 39m) behind" in rescue.headline
    assert sorted(member.name for member in rescue.chosen) == ["sdb1", "sdc1", "sdj1", "sdk1", "sdl1"]
    assert any(fact.startswith("sdi1 was rebuilt only up to sector 7,397,574,840 (94.7 %)") for fact in rescue.facts)


def test_two_disks_that_a_controller_dropped_and_one_that_left_long_ago() -> None:
    dropped, degraded = diagnose(Inventory(make_two_arrays()))
    assert dropped.condition == "behind"
    assert "10 events (2m 38s) behind" in dropped.headline
    assert degraded.condition == "degraded"
    assert "it can start without slot 0. 3 of 4 members are current." in degraded.headline
    steps = "\n".join(degraded.steps)
    assert "Name its disks instead: /dev/sdk1, /dev/sdl1, /dev/sdm1." in steps
    assert "sdj1" not in steps


def test_raid10_goes_on_where_a_pair_is_left() -> None:
    """Its members are no spares, as /proc/mdstat calls those of every array that does not run."""
    rescue = diagnose_thread(make_raid10())
    assert rescue.condition == "stale"
    assert [member.name for member in rescue.chosen] == ["sdb1", "sdb2", "sda1"]
    assert "is a spare" not in write_all(rescue)
    assert {"--add", "--zero-superblock, wipefs, a new partition table"} <= {
        line.split(":")[0] for line in rescue.forbidden
    }


def test_disks_whose_superblocks_a_partition_table_overwrote_are_searched_for_by_content() -> None:
    rescue = diagnose_thread(make_partitioned_disks())
    assert rescue.condition == "not-enough"
    assert "1 of 4 members is current. Find the disks of slots 0, 2, 3 first." in rescue.headline
    assert "The newest superblock has no member in slot 0: a disk from there is old." in rescue.headline
    assert "`blklab md rescue --try-orders`" in "\n".join(rescue.steps)
    assert any(line.startswith("--create: ") for line in rescue.forbidden)


def test_a_reshape_that_moved_nothing_is_not_called_two_layouts() -> None:
    rescue = diagnose_thread(make_reshape_at_start())
    assert rescue.condition == "reshaping"
    assert "still at its start: the data are in the old layout" in rescue.headline
    assert "It adds 1 disk: 6 were there before, 7 after it." in rescue.facts
    assert "--update=revert-reshape" in "\n".join(rescue.steps)
    assert any("on overlays only" in line for line in rescue.steps)


def test_a_journal_that_is_there_is_replayed() -> None:
    rescue = diagnose_thread(make_journaled_array())
    assert rescue.condition == "sound"
    assert "4 of 4 members are current" in rescue.headline
    assert "first replays the write journal. That can take hours" in "\n".join(rescue.steps)


def test_a_reshape_with_a_backup_file_needs_it() -> None:
    rescue = diagnose_thread(make_normalised_array())
    assert rescue.condition == "reshaping"
    assert "The data are in two layouts" in rescue.headline
    assert "The reshape is at sector 78,012,416 of the array." in rescue.facts
    assert any("add --backup-file FILE" in line for line in rescue.steps)
    assert "revert-reshape" not in "\n".join(rescue.steps)


def test_parity_that_could_not_run_without_two_unplugged_disks_has_its_data() -> None:
    """Their superblocks are hours older than the others: no write can have succeeded in these hours."""
    rescue = diagnose_thread(make_unplugged_disks())
    assert rescue.condition == "behind"
    assert "11 events (4h 46m) behind, it has enough, and it could not run without them meanwhile" in rescue.headline
    assert len(rescue.chosen) == 3


def test_an_old_disk_with_as_many_events_as_the_newest_is_not_current() -> None:
    rescue = diagnose_thread(make_equal_counts())
    assert rescue.condition == "stale"
    assert "Only 2 of 5 members are current; with members that are 2,849 events (94d 14h) behind" in rescue.headline
    assert any(fact.startswith("sda is not more than one event behind") for fact in rescue.facts)
    assert any(line.startswith("# Find the disk of slot 1 first") for line in rescue.steps)


def test_members_that_came_back_as_spares_may_have_their_data() -> None:
    rescue = diagnose_thread(make_members_called_spares())
    assert rescue.condition == "not-enough"
    assert "Spares may be among them: dm-9, dm-10, dm-11." in rescue.headline
    assert any(fact.startswith("dm-9 is a spare: its superblock has no slot.") for fact in rescue.facts)
    assert "it has no data of the array" not in write_all(rescue)
    assert "`blklab md rescue --try-orders`" in "\n".join(rescue.steps)


def test_a_replacement_keeps_an_array_with_a_reshape_from_starting() -> None:
    rescue = diagnose_thread(make_replacement_in_reshape())
    assert rescue.condition == "reshaping"
    assert any("Leave the replacements out" in fact and "sdg" in fact for fact in rescue.facts)
    (overlays,) = [line for line in rescue.steps if line.startswith("# Try it on overlays of ")]
    assert "/dev/sdf, /dev/sdb, /dev/sdc, /dev/sdj, /dev/sdi." in overlays


def test_an_array_that_was_made_over_another_one_is_not_started() -> None:
    rescue = diagnose_thread(make_created_over_reshape())
    assert rescue.condition == "new"
    assert "someone used --create over the old array: do not start it" in rescue.headline
    assert all(line.startswith("#") for line in rescue.steps)


def test_a_member_that_failed_one_event_ago_is_left_out() -> None:
    rescue = diagnose_thread(make_failed_one_event_ago())
    assert rescue.condition == "unclean"
    assert [member.name for member in rescue.chosen] == ["sd0", "sd1", "sd2", "sd3", "sd4"]
    assert any(fact.startswith("sd5 is not more than one event behind") for fact in rescue.facts)
    assert all(line.startswith("#") for line in rescue.steps)


def test_disks_of_which_only_the_order_is_known_in_part_are_searched_by_content() -> None:
    rescue = diagnose_thread(make_wiped_disks())
    assert rescue.condition == "not-enough"
    assert "4 of 7 members are current. Find the disks of slots 4, 5, 6 first." in rescue.headline
    assert "Spares may be among them: sdf, sdg, sdh." in rescue.headline
    assert "sdg: the checksum of its superblock is wrong: the kernel refuses it." in rescue.facts
    assert "`blklab md rescue --try-orders`" in "\n".join(rescue.steps)
