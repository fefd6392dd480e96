"""Outputs of mdadm --examine that someone has filtered with grep."""

from pathlib import Path

from blklab.md.audit import find_problems
from blklab.md.rescue.diagnosis import diagnose
from tests.conftest import Run
from tests.md.pasted.test_arrays import read
from tests.md.pasted.test_versions import noted

MEMBER = """\
/dev/sd{disk}1:
          State : clean
         Events : {events}
   Device Role : Active device {slot}
   Array State : {letters} ('A' == active, '.' == missing, 'R' == replacing)
"""
STAT = """\
Personalities : [raid6] [raid5] [raid4]
md0 : {state} sdc1[3] sdd1[4] sdb1[0]
      11720265216 blocks super 1.2 level 5, 512k chunk, algorithm 2 [4/3] [U_UU]

unused devices: <none>
"""


def filtered() -> str:
    members = [("b", 77944, 0, "A.AA"), ("c", 77944, 2, "A.AA"), ("d", 77944, 3, "A.AA"), ("e", 60360, 1, "AAAA")]
    return "".join(
        MEMBER.format(disk=disk, events=events, slot=slot, letters=letters) for disk, events, slot, letters in members
    )


def test_fields_that_grep_has_left_are_completed_from_the_array() -> None:
    inventory = read(STAT.format(state="active raid5"), filtered())
    (array,) = inventory.arrays
    assert (array.name, array.level) == ("md0", "raid5")
    assert [member.superblock.events for member in array.members if member.superblock] == [77944] * 3
    (outside,) = array.outside
    assert outside.superblock is not None
    assert (outside.path, outside.superblock.events, outside.superblock.slot) == ("/dev/sde1", 60360, 1)
    assert noted(inventory, "the text shows only some fields of mdadm --examine: level and layout are those of md0")
    (finding,) = [finding for finding in find_problems(inventory) if finding.code == "degraded"]
    assert "Keep sde1" in finding.message
    assert "bbl-none" not in {finding.code for finding in find_problems(inventory)}
    (rescue,) = diagnose(inventory)
    assert rescue.headline == (
        "It runs, with 3 of 4 members, without redundancy for another failure. It needs no rescue, but a new member."
    )


def test_fields_without_an_array_are_named() -> None:
    inventory = read(filtered() + "Personalities : [raid1]\nunused devices: <none>\n")
    assert inventory.arrays == ()
    assert noted(inventory, "/dev/sdb1, /dev/sdc1, /dev/sdd1, /dev/sde1: not seen: the text shows only some fields")


def test_what_grep_has_left_out_is_not_claimed(run: Run, tmp_path: Path) -> None:
    """An inactive array, whose geometry only mdadm --detail of an earlier time shows."""
    text = tmp_path / "mail.txt"
    text.write_text(STAT.format(state="active raid5") + filtered())
    audit, rescue = run("md", "audit", text).out, run("md", "rescue", text).out
    assert "no list" not in audit + rescue
    assert "holds" not in rescue
    assert "1970" not in rescue + audit
