"""Several outputs about one member or array: the newest counts, and that there are several is said."""

from blklab.md.audit import find_problems
from blklab.md.model import Inventory
from blklab.md.rescue.diagnosis import diagnose
from tests.md.pasted.test_arrays import DETAIL, read, superblock

UUID = "11111111:22222222:33333333:44444444"


def noted(inventory: Inventory, words: str) -> bool:
    return any(words in reason for reason in inventory.unseen)


def test_the_most_events_count_wherever_they_are_in_the_text() -> None:
    new, old = superblock(0, "A..A", events=900, time="11:00:00"), superblock(0, "AAAA", events=100, time="08:00:00")
    for texts in ((new, old), (old, new), (new + old,), (old + new,)):
        inventory = read(*texts)
        (array,) = inventory.arrays
        (member,) = array.members
        assert member.superblock is not None
        assert member.superblock.events == 900
        assert noted(inventory, "/dev/sda1: several outputs of different times: the one with the most events counts")
    assert not noted(read(new, new), "several outputs")


def test_a_member_with_two_names_is_one_member() -> None:
    old = superblock(1, "AAAA", events=100)
    inventory = read(old, old.replace("/dev/sdb1", "/dev/sdx1").replace("Events : 100", "Events : 200"))
    (array,) = inventory.arrays
    assert [member.path for member in array.members] == ["/dev/sdx1"]
    assert noted(inventory, "/dev/sdb1, /dev/sdx1: the same member by its device UUID")


def test_the_superblock_of_an_older_array_is_not_forgotten() -> None:
    """After --create, only the older output has the order of the disks."""
    old = superblock(2, "AAAA", events=52_177)
    new = (
        superblock(0, "AAAA", events=1)
        .replace(UUID, "99999999:22222222:33333333:44444444")
        .replace("/dev/sda1", "/dev/sdc1")
        .replace("Sat Feb  3 10:00:00 2024", "Sun Mar  3 09:00:00 2024")
    )
    for texts in ((old, new), (new, old)):
        inventory = read(*texts)
        assert [array.uuid[:8] for array in inventory.arrays] == ["99999999"]
        (note,) = [reason for reason in inventory.unseen if "older array" in reason]
        assert f"raid5 of 4, UUID {UUID}, made 2024-02-03T10:00:00Z, 52,177 events, slot 2" in note
        assert "If someone used --create, keep that output" in note


def test_a_superblock_that_another_output_does_not_show_may_be_gone() -> None:
    gone = "mdadm: No md superblock detected on /dev/sda1.\n"
    assert noted(read(superblock(0, "AAAA") + gone), "/dev/sda1: a later output shows no superblock on it")
    assert noted(read(gone + superblock(0, "AAAA")), "/dev/sda1: an earlier output shows no superblock on it")


def test_arrays_of_two_hosts_are_two_arrays() -> None:
    other = DETAIL.replace(UUID, "55555555:22222222:33333333:44444444").replace("/dev/sd", "/dev/nvme")
    inventory = read(DETAIL, other)
    assert [array.name for array in inventory.arrays] == ["md5", "md5 (2)"]
    assert noted(inventory, "/dev/md5: outputs about several arrays with this name")
    stats = read(
        "md0 : active raid1 sda1[0] sdb1[1]\n      1046528 blocks super 1.2 [2/2] [UU]\n",
        "md0 : active raid1 sdx1[0] sdy1[1]\n      2046528 blocks super 1.2 [2/1] [U_]\n",
    )
    assert [(array.name, array.degraded) for array in stats.arrays] == [("md0", 0), ("md0 (2)", 1)]
    assert noted(stats, "md0: /proc/mdstat shows it with other disks too")


def test_the_later_one_of_a_running_and_an_inactive_output_counts() -> None:
    inactive = "md5 : inactive sda1[0](S) sdb1[1](S)\n      15627786240 blocks super 1.2\n"
    later = read(DETAIL + inactive)
    assert [array.state for array in later.arrays] == ["inactive"]
    assert noted(later, "/proc/mdstat is later in the text, so it counts as inactive")
    assert not any(rescue.condition == "running" for rescue in diagnose(later))
    earlier = read(inactive + DETAIL)
    assert [array.state for array in earlier.arrays] == ["clean"]
    assert noted(earlier, "mdadm --detail is later in the text, so it counts as running")


def test_a_detail_that_is_older_than_the_superblocks_does_not_count() -> None:
    detail = DETAIL.replace("raid6", "raid5").replace("Raid Devices : 5", "Raid Devices : 4")
    newer = "".join(superblock(slot, "A...", events=9_000, time="12:00:00") for slot in (0, 1))
    inventory = read(detail + newer)
    assert [array.live for array in inventory.arrays] == [False]
    assert noted(inventory, "the output of mdadm --detail (4,711 events) is older than the superblocks (9,000 events)")


def test_superblocks_with_other_slots_than_the_table_are_joined_by_their_slots() -> None:
    detail = DETAIL.replace("raid6", "raid5").replace("Raid Devices : 5", "Raid Devices : 4")
    renamed = superblock(3, "AAAA", events=4711).replace("/dev/sdd1", "/dev/sda1")
    inventory = read(detail, renamed)
    (array,) = inventory.arrays
    slots = {member.slot: member.path for member in array.members if member.superblock}
    assert slots == {3: "/dev/sda1"}
    assert noted(inventory, "md5: the slots of sda1 in the table of mdadm --detail are others than in the superblocks")


def test_a_spare_of_metadata_0_90_has_no_slot() -> None:
    text = """\
/dev/sde1:
          Magic : a92b4efc
        Version : 0.90.00
           UUID : 3f720601:29af5283:96fc04a8:108a4af7
     Raid Level : raid5
   Raid Devices : 3
         Events : 18
          State : clean

      Number   Major   Minor   RaidDevice State
this     3       8       65       -1      spare   /dev/sde1

   0     0       8        1        0      active sync   /dev/sda1
   1     1       8       17        1      active sync   /dev/sdb1
   2     2       0        0        2      faulty removed
   3     3       8       65        3      spare   /dev/sde1
"""
    (array,) = read(text).arrays
    (member,) = array.members
    assert member.superblock is not None
    assert (member.superblock.role, member.slot) == ("spare", None)
    assert member.superblock.present == [True, True, False]


def test_superblocks_of_spares_only_are_not_refused_by_the_kernel() -> None:
    text = superblock(0, "AAAA").replace("Active device 0", "spare")
    (rescue,) = diagnose(read(text))
    assert rescue.condition == "not-enough"
    assert not any("it has no data of the array" in fact for fact in rescue.facts)


def test_a_raid10_without_both_copies_is_no_running_array() -> None:
    text = """\
md0 : active raid10 sda1[0] sdb1[1] sdc1[2](F) sdd1[3](F)
      15627786240 blocks super 1.2 512K chunks 2 near-copies [4/2] [UU__]
"""
    inventory = read(text)
    (array,) = inventory.arrays
    assert array.member_sectors == 15_627_786_240
    findings = {finding.code: finding for finding in find_problems(inventory)}
    assert "degraded" not in findings
    assert "and reads too" in findings["broken"].message
