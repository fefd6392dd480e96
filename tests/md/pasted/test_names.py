"""One array under two md names, as after a restart, and what is two arrays."""

import re

from blklab.md.audit import find_problems
from blklab.md.rescue.diagnosis import diagnose
from tests.md.pasted.test_arrays import DETAIL, MDSTAT, by_name, read, superblock
from tests.md.pasted.test_versions import noted

INACTIVE = """\
/dev/md127:
           Version : 1.2
        Raid Level : raid0
     Total Devices : 5
       Persistence : Superblock is persistent

             State : inactive
   Working Devices : 5

              Name : nas:5
              UUID : 11111111:22222222:33333333:44444444
            Events : 4711

    Number   Major   Minor   RaidDevice

       -       8        1        -        /dev/sda1
       -       8       17        -        /dev/sdb1
       -       8       49        -        /dev/sdd1
"""
STAT = """\
Personalities : [raid6]
{} : {} sdd1[3]{} sdb1[1]{} sda1[0]{}
      {} blocks super 1.2 {}

unused devices: <none>
"""


def codes(text: str) -> set[str]:
    return {finding.code for finding in find_problems(read(text))}


def test_an_array_that_got_another_name_is_one_array() -> None:
    inventory = read(DETAIL + INACTIVE)
    (array,) = inventory.arrays
    assert (array.name, array.state, array.level, array.raid_disks) == ("md127", "inactive", "raid6", 5)
    assert noted(inventory, "md5, md127: one array (UUID 11111111:22222222:33333333:44444444) under two names")
    assert noted(inventory, "md127 is the later one in the text, and counts")
    assert "split" not in codes(DETAIL + INACTIVE)
    assert [rescue.array.name for rescue in diagnose(inventory)] == ["md127"]


def test_the_later_output_counts_in_either_order() -> None:
    (array,) = read(INACTIVE + DETAIL).arrays
    assert (array.name, array.state) == ("md5", "clean")


def test_two_copies_of_mdstat_with_the_same_disks_are_one_array() -> None:
    running = STAT.format(
        "md5", "active raid6", "", "", "", 23441679360, "level 6, 512k chunk, algorithm 2 [5/3] [UU_U_]"
    )
    stopped = STAT.format("md127", "inactive", "(S)", "(S)", "(S)", 23441679360, "")
    assert [array.name for array in read(running, stopped).arrays] == ["md127"]
    assert [array.name for array in read(running + stopped, INACTIVE).arrays] == ["md127"]


def test_halves_that_one_copy_of_mdstat_shows_at_once_are_split() -> None:
    other = re.sub(r"/dev/sd(?=[abd]1)", "/dev/sdx", INACTIVE)
    assert "split" in codes(DETAIL + other)
    both = STAT.format("md5", "active raid6", "", "", "", 23441679360, "level 6, 512k chunk, algorithm 2 [5/3] [UU_U_]")
    both = both.replace("unused", "md127 : inactive sdxa1[0](S)\n      1000 blocks super 1.2\n\nunused")
    assert "split" in codes(both + DETAIL + other)


def test_a_resync_that_waits_is_explained_by_what_it_waits_for() -> None:
    messages = {finding.subject: finding for finding in find_problems(read(MDSTAT)) if finding.code == "under-way"}
    assert messages["md1"].message == "resync waits for the first write to the array (auto-read-only)"
    assert messages["md1"].remedy == ("# Without a write, this starts it:", "mdadm --readwrite /dev/md1")
    delayed = {f.subject: f.message for f in find_problems(read(MDSTAT.replace("PENDING", "DELAYED")))}
    assert "resync waits for another array on the same disks" in {
        finding.message for finding in find_problems(read(MDSTAT.replace("PENDING", "DELAYED")))
    }, delayed
    remote = find_problems(read(MDSTAT.replace("PENDING", "REMOTE").replace("(auto-read-only) ", "")))
    assert "resync runs on another node of the cluster" in {finding.message for finding in remote}
    pending = read(
        DETAIL.replace("recovering", "resyncing (PENDING)").replace("    Rebuild Status : 12% complete\n", "")
    )
    assert "resync is pending: it has not begun" in {finding.message for finding in find_problems(pending)}


def test_a_raid0_that_lacks_a_member_is_dead_and_says_what_helps() -> None:
    level = "RAID-0"
    for name in ("raid0", "linear"):
        text = DETAIL.replace("raid6", name).replace("clean, degraded, recovering", "clean, FAILED")
        text = re.sub(r"(?m)^.*(Rebuild Status|spare rebuilding|Layout).*\n", "", text)
        (finding,) = [finding for finding in find_problems(read(text)) if finding.code in {"broken", "cannot-run"}]
        assert finding.message.startswith(f"is dead: {level if name == 'raid0' else 'linear'} has no redundancy")
        assert "3 of 5 members are there" in finding.message
        assert any("ddrescue" in line for line in finding.remedy)
        assert not any("fix restart" in line for line in finding.remedy)
        superblocks = "".join(
            superblock(slot, "AAAA").replace("Raid Level : raid5", f"Raid Level : {name}") for slot in (0, 1, 3)
        )
        stopped = STAT.format("md5", "inactive", "(S)", "(S)", "(S)", 23441679360, "")
        (finding,) = [f for f in find_problems(read(superblocks + stopped)) if f.code in {"broken", "cannot-run"}]
        assert finding.message.startswith("is dead: ")
        assert any("find the disk" in line.lower() for line in finding.remedy)
        (array,) = by_name(read(superblocks + stopped)).values()
        assert array.level == name


def test_members_outside_are_not_newer_than_superblocks_that_the_text_does_not_show() -> None:
    outside = superblock(2, "AAAA", events=4711).replace("/dev/sdc1", "/dev/mapper/sdc1")
    assert "split" not in codes(DETAIL + outside)
    inside = superblock(0, "AAAA", events=300)
    assert "split" in codes(DETAIL + inside + outside)
