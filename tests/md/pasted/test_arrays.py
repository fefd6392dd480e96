"""`mdadm --detail`, /proc/mdstat and superblocks as text: the arrays of them, what is not shown, and what they mean."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import UsageError
from blklab.md.audit import find_problems
from blklab.md.model import Array, Inventory
from blklab.md.pasted.inventory import read_texts
from tests.conftest import Run

TEXTS = Path(__file__).parents[2] / "data/md/text"
DETAILS = sorted(TEXTS.glob("*.detail.txt"))

MDSTAT = """\
Personalities : [raid1] [raid6] [raid5] [raid4] [raid10]
md5 : active raid5 sdd1[4](F) sdc1[2] sdb1[1] sda1[0] sde1[5]
      23441679360 blocks super 1.2 level 5, 512k chunk, algorithm 2 [4/3] [UUU_]
      [=>...................]  recovery =  8.5% (664181248/7813893120)
finish=700.1min speed=170201K/sec
      bitmap: 3/59 pages [12KB], 65536KB chunk

md1 : active (auto-read-only) raid1 nvme0n1p2[0] nvme1n1p2[1](W) sdf[2](S)
      1046528 blocks super 1.2 [2/2] [UU]
        resync=PENDING

md0 : inactive sdg1[1](S) sdh1[0](S)
      4190208 blocks super 1.2

unused devices: <none>
"""

DETAIL = """\
/dev/md5:
           Version : 1.2
     Creation Time : Sat Feb  3 10:00:00 2024
        Raid Level : raid6
        Array Size : 23441679360 (21.83 TiB 24.00 TB)
     Used Dev Size : 7813893120 (7.28 TiB 8.00 TB)
      Raid Devices : 5
     Total Devices : 5
       Persistence : Superblock is persistent

       Update Time : Sun Mar  3 10:00:00 2024
             State : clean, degraded, recovering
    Active Devices : 3
   Working Devices : 4
    Failed Devices : 1
     Spare Devices : 1

            Layout : left-symmetric
        Chunk Size : 512K

Consistency Policy : resync

    Rebuild Status : 12% complete

              Name : nas:5  (local to host nas)
              UUID : 11111111:22222222:33333333:44444444
            Events : 4711

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      active sync writemostly   /dev/sdb1
       5       8       81        2      spare rebuilding   /dev/sdf1
       3       8       49        3      active sync   /dev/sdd1
       -       0        0        4      removed

       4       8       65        -      faulty   /dev/sde1
"""

EXAMINE = """\
/dev/{disk}1:
          Magic : a92b4efc
        Version : 1.2
    Feature Map : {features}
     Array UUID : 11111111:22222222:33333333:44444444
           Name : nas:5
  Creation Time : Sat Feb  3 10:00:00 2024
     Raid Level : raid5
   Raid Devices : 4

 Avail Dev Size : 15627786240 sectors (7.28 TiB 8.00 TB)
     Array Size : 23441679360 KiB (21.83 TiB 24.00 TB)
    Data Offset : 264192 sectors
   Super Offset : 8 sectors
          State : {state}
    Device UUID : {slot}1111111:22222222:33333333:44444444

    Update Time : Sun Mar  3 {time} 2024
       Checksum : 12345678 - correct
         Events : {events}

         Layout : left-symmetric
     Chunk Size : 512K

   Device Role : Active device {slot}
   Array State : {letters} ('A' == active, '.' == missing, 'R' == replacing)
"""


def superblock(slot: int, letters: str, *, events: int = 500, time: str = "10:00:00", state: str = "clean") -> str:
    disk = f"sd{'abcd'[slot]}"
    return EXAMINE.format(disk=disk, slot=slot, letters=letters, events=events, time=time, state=state, features="0x0")


def read(*texts: str) -> Inventory:
    return read_texts([(f"mail {number}", text) for number, text in enumerate(texts, 1)])


def by_name(inventory: Inventory) -> dict[str, Array]:
    return {array.name: array for array in inventory.arrays}


@pytest.mark.parametrize("path", DETAILS, ids=lambda path: path.name)
def test_detail_and_mdstat_of_one_array_agree(path: Path) -> None:
    detail, mdstat = path.read_text().split("$ cat /proc/mdstat")
    (by_detail,) = read(detail).arrays
    (by_mdstat,) = read(mdstat).arrays
    assert by_mdstat.chunk in {by_detail.chunk, 0}  # RAID-10 of two disks shows none
    for name in ("name", "path", "level", "layout", "raid_disks", "metadata", "size", "degraded", "bitmap"):
        assert getattr(by_detail, name) == getattr(by_mdstat, name), name
    assert {member.path for member in by_detail.members} == {member.path for member in by_mdstat.members}
    assert all(member.states == ("in_sync",) for member in (*by_detail.members, *by_mdstat.members))
    (array,) = read(detail, mdstat).arrays
    assert array == by_detail


def test_fields_of_mdstat() -> None:
    arrays = by_name(read(MDSTAT))
    md5 = arrays["md5"]
    assert (md5.level, md5.layout, md5.chunk, md5.raid_disks, md5.degraded) == ("raid5", 2, 512 << 10, 4, 1)
    assert md5.sync is not None
    assert (md5.sync.action, md5.sync.done_sectors, md5.sync.speed_kib) == ("recover", 2 * 664181248, 170201)
    assert {member.name: (member.slot, member.states) for member in md5.members} == {
        "sdd1": (None, ("faulty",)), "sdc1": (2, ("in_sync",)), "sdb1": (1, ("in_sync",)), "sda1": (0, ("in_sync",)),
        "sde1": (None, ("in_sync",)),
    }  # fmt: skip
    md1 = arrays["md1"]
    assert (md1.state, md1.sync and md1.sync.action, md1.degraded) == ("read-auto", "resync", 0)
    assert [member.states for member in md1.members] == [("in_sync",), ("in_sync", "write_mostly"), ("spare",)]
    assert (arrays["md0"].state, arrays["md0"].level, arrays["md0"].bitmap) == ("inactive", "", False)


def test_fields_of_detail() -> None:
    (array,) = read(DETAIL).arrays
    assert (array.name, array.uuid, array.label) == ("md5", "11111111:22222222:33333333:44444444", "nas:5")
    assert (array.level, array.raid_disks, array.degraded, array.member_sectors) == ("raid6", 5, 2, 2 * 7813893120)
    assert array.sync is not None
    assert array.sync.action == "recover"
    assert {member.name: (member.slot, member.states) for member in array.members} == {
        "sda1": (0, ("in_sync",)), "sdb1": (1, ("in_sync", "write_mostly")), "sdf1": (2, ("spare",)),
        "sdd1": (3, ("in_sync",)), "sde1": (None, ("faulty",)),
    }  # fmt: skip


def test_mdstat_says_which_member_of_the_table_replaces_another() -> None:
    detail = DETAIL.replace("active sync writemostly   /dev/sdb1", "active sync   /dev/sdb1")
    stat = "md5 : active raid6 sda1[0] sdb1[1](W)(R) sdd1[3]\n      23441679360 blocks super 1.2 [5/3] [UU_U_]\n"
    (array,) = read(detail, stat).arrays
    assert array.members[1].states == ("in_sync", "write_mostly", "replacement")


def test_what_the_text_does_not_show_is_named_with_its_command() -> None:
    unseen = read(MDSTAT).unseen
    line = "md5, md1, md0: the text does not show the superblocks of 10 members: mdadm --examine /dev/sdd1 /dev/sdc1"
    assert unseen[0].startswith(line)
    assert unseen[1] == "md5, md1, md0: the text does not show details: mdadm --detail /dev/md5 /dev/md1 /dev/md0"
    three = read("".join(superblock(slot, "AAAA") for slot in (0, 1, 2)))
    assert any("does not show the member of slot 3" in reason for reason in three.unseen)
    assert "not-given" in {finding.code for finding in find_problems(three)}
    none = read("Personalities : [raid1]\nunused devices: <none>\n")
    assert none.arrays == ()
    assert "it shows no array" in none.unseen[0]


def test_a_running_array_of_mdstat_is_degraded_and_not_broken() -> None:
    text = MDSTAT.replace("[4/3] [UUU_]", "[4/3] [_UUU]").replace("sda1[0] ", "")
    codes = {finding.code for finding in find_problems(read(text)) if finding.subject == "md5"}
    assert "degraded" in codes
    assert "broken" not in codes


def test_superblocks_of_several_texts_are_one_array_with_its_table() -> None:
    detail = DETAIL.replace("raid6", "raid5").replace("Raid Devices : 5", "Raid Devices : 4")
    inventory = read(detail, superblock(0, "AAAA"), superblock(2, "AAAA", events=300))
    (array,) = inventory.arrays
    assert array.live
    assert [member.path for member in array.members if member.superblock] == ["/dev/sda1"]
    assert [member.path for member in array.outside] == ["/dev/sdc1"]


def test_an_inactive_array_of_mdstat_gets_its_level_from_the_superblocks() -> None:
    mdstat = "md0 : inactive sda1[0](S) sdb1[1](S) sdc1[2](S)\n      4190208 blocks super 1.2\n"
    (array,) = read(mdstat, *(superblock(slot, "AAA.") for slot in (0, 1, 2))).arrays
    assert (array.level, array.raid_disks, array.degraded) == ("raid5", 4, 1)
    assert {finding.code for finding in find_problems(Inventory((array,)))} >= {"inactive"}


def test_an_inactive_array_without_superblocks_in_the_text_is_examined_first() -> None:
    (finding,) = [finding for finding in find_problems(read(MDSTAT)) if finding.code == "inactive"]
    assert "is not known, because the text does not show all superblocks" in finding.message
    assert finding.remedy == ("mdadm --examine /dev/sdg1 /dev/sdh1",)


def test_a_superblock_that_cannot_be_read_may_be_there() -> None:
    gone = "mdadm: No md superblock detected on /dev/sdd1.\n"
    errors = "[    2.874764] sd 2:0:0:0: [sdd] Sense Key : Medium Error [current]\n"
    for text, wanted in ((gone + errors, "read errors of its disk"), (gone, "is not a member of an md array")):
        findings = find_problems(read(text + superblock(0, "AAAA")))
        (finding,) = [finding for finding in findings if finding.code == "no-superblock"]
        assert wanted in finding.message


def test_members_that_dropped_out_together_are_no_degraded_array() -> None:
    """All members have the same event count, and two of them were not there when the others wrote last."""
    texts = [superblock(slot, "AAAA") for slot in (0, 1)] + [
        superblock(slot, "..AA", time="10:00:20") for slot in (2, 3)
    ]
    findings = {finding.code: finding for finding in find_problems(read(*texts))}
    assert "degraded" not in findings
    message = findings["cannot-run"].message
    assert "counts only slots 2, 3 as working, and RAID-5 survives the loss of 1" in message
    assert "sda1, sdb1 dropped out within 20 s before it" in message
    assert any("written last: sda1, sdb1, sdc1, sdd1." in line for line in findings["cannot-run"].remedy)
    healthy = read(*(superblock(slot, "AAAA") for slot in range(4)))
    assert "cannot-run" not in {finding.code for finding in find_problems(healthy)}


def test_a_member_whose_event_count_was_raised_is_not_used() -> None:
    texts = [
        superblock(0, "AAAA", time="02:00:00"),
        superblock(1, ".AAA", events=480, time="09:30:00"),
        *(superblock(slot, "..AA", time="10:00:20") for slot in (2, 3)),
    ]
    (finding,) = [finding for finding in find_problems(read(*texts)) if finding.code == "cannot-run"]
    assert "sda1 has the newest event count, but its data are old" in finding.message
    assert any("written last: sdb1, sdc1, sdd1." in line for line in finding.remedy)


def test_rescue_reads_the_same_text(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    texts = [superblock(slot, "AAAA") for slot in (0, 1)]
    mail.write_text("".join(texts) + superblock(2, ".AAA", time="10:00:20") + superblock(3, "..AA", time="10:00:20"))
    done = run("md", "rescue", mail)
    assert done.status == 1
    assert "It does not start because only 2 of 4 members are current" in done.out
    assert "blklab md overlays start 11111111:22222222:33333333:44444444 DIRECTORY" in done.out
    assert run("md", "rescue", mail, "--save-metadata", tmp_path / "new").status == 2
    mail.write_text("".join(superblock(slot, "AAAA") for slot in range(4)))
    assert "The array is sound: 4 of 4 members are current" in run("md", "rescue", mail).out


def test_a_raid_of_firmware_is_named() -> None:
    text = "/dev/sdc:\n          Magic : Intel Raid ISM Cfg Sig.\n        Version : 1.3.00\n"
    (stray,) = read(text).strays
    assert stray.foreign == ("Intel IMSM",)


def test_a_container_knows_the_disk_that_no_volume_uses() -> None:
    text = """\
md125 : active raid1 sdb[0]
      1048576 blocks super external:/md127/0 [2/1] [_U]

md127 : inactive sdb[1](S) sda[0](S)
      10402 blocks super external:imsm

unused devices: <none>
"""
    inventory = read(text)
    messages = {finding.code: finding.message for finding in find_problems(inventory)}
    assert messages["unused-disk"].startswith("no volume uses sda:")
    volume = "/dev/md126:\n Container : /dev/md/imsm0, member 1\n Raid Level : raid5\n Raid Devices : 4\n"
    (array,) = read(volume + " State : clean, degraded\n Active Devices : 3\n").arrays
    assert (array.container, array.degraded) == ("imsm0", 1)


@given(data=st.data())
def test_no_text_makes_it_fail(data: st.DataObject) -> None:
    """Lines are dropped, doubled, cut, moved and changed."""
    lines = "".join((MDSTAT, DETAIL, superblock(0, "AAAA"), superblock(1, "AA.."))).splitlines()
    for _ in range(data.draw(st.integers(1, 12))):
        position = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.integers(0, 4)):
            case 0:
                del lines[position]
            case 1:
                lines.insert(position, lines[data.draw(st.integers(0, len(lines) - 1))])
            case 2:
                lines[position] = lines[position][: data.draw(st.integers(0, 40))]
            case 3:
                lines[position] = lines[position].replace(" : ", data.draw(st.text(max_size=3)), 1)
            case _:
                column = data.draw(st.integers(0, len(lines[position])))
                junk = data.draw(st.text(max_size=8) | st.integers(0, 1 << 70).map(str))
                lines[position] = lines[position][:column] + junk + lines[position][column:]
    try:
        inventory = read("\n".join(lines))
    except UsageError:
        return
    for finding in find_problems(inventory):
        assert finding.message


def test_the_command_reads_files_and_stdin(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail, other, image = tmp_path / "mail.txt", tmp_path / "mdstat.txt", tmp_path / "sda1.img"
    mail.write_text(f"Hello,\n\nplease help:\n\n{DETAIL}\nThank you\n")
    other.write_text(MDSTAT)
    image.write_bytes(bytes(8192))
    both = run("md", "audit", mail, other)
    assert (both.status, "degraded" in both.out, "mdadm --examine /dev/sda1" in both.out) == (1, True, True)
    only = run("md", "audit", mail, other, "--array", "md1")
    assert "md5" not in only.out.split("Not seen")[0]
    refused = run("md", "audit", image)
    assert (refused.status, f"--image {image}" in refused.err) == (2, True)
    mail.write_text("no array here")
    nothing = run("md", "audit", mail)
    assert (nothing.status, "mdadm --examine" in nothing.err, nothing.err.count("\n")) == (2, True, 1)
    missing = run("md", "audit", tmp_path / "none.txt")
    assert (missing.status, "No such file" in missing.err) == (2, True)
    obvious = run(other)
    assert f"{other} is a text with output of mdadm or /proc/mdstat: blklab md audit {other}" in obvious.err
    with other.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert "md5" in run("md", "audit", "-").out
