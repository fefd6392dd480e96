"""lsblk, blkid and `mdadm --examine-bitmap` in pasted text: what they add to the arrays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import UsageError
from blklab.md.audit import find_problems
from blklab.md.pasted.listed_devices import ListedDevice, find_devices
from blklab.md.rescue.diagnosis import diagnose
from tests.md.pasted.test_arrays import DETAIL, by_name, read, superblock
from tests.md.pasted.test_firmware import CONTAINER, EXAMINE, STAT, VOLUME
from tests.md.pasted.test_partial import filtered
from tests.md.pasted.test_versions import noted

UTF8 = """\
NAME           MAJ:MIN RM   SIZE RO TYPE  MOUNTPOINTS
sda              8:0    0   7.3T  0 disk
└─sda1           8:1    0   7.3T  0 part
  └─md5          9:5    0  21.8T  0 raid5
    └─vg-home  253:0    0    20T  0 lvm   /home
sdb              8:16   0   7.3T  0 disk
├─sdb1           8:17   0   7.3T  0 part
│ └─md5          9:5    0  21.8T  0 raid5
│   └─vg-home  253:0    0    20T  0 lvm   /home
└─sdb2           8:18   0   512M  0 part  /boot
sr0             11:0    1  1024M  0 rom
"""
ASCII = UTF8.replace("└─", "`-").replace("├─", "|-").replace("│", "|")
COLUMNS = """\
NAME     FSTYPE             SIZE MODEL                SERIAL       MOUNTPOINT
sda                         7,3T WDC WD80EFZX-68UW8N0 VK0ABCDE
└─sda1   linux_raid_member  7,3T
  └─md5  ext4              21,8T                                   /srv
sdb                         7,3T ST8000VN0022-2EL112  ZA10WXYZ
└─sdb1   linux_raid_member  7,3T
"""
BLKID = """\
/dev/sda1: UUID="11111111-2222-2222-3333-333344444444" UUID_SUB="01111111-2222-2222-3333-333344444444" LABEL="nas:5" \
TYPE="linux_raid_member" PARTUUID="00056b0a-01"
/dev/sdd1: UUID="11111111-2222-2222-3333-333344444444"
 UUID_SUB="31111111-2222-2222-3333-333344444444" LABEL="nas:5"
 TYPE="linux_raid_member"
/dev/md5: UUID="5d2f3c6a-58a5-4cbe-8e8f-7ad3c1b4c2aa" TYPE="ext4"
"""
BITMAP = """\
        Filename : /dev/{disk}1
           Magic : 6d746962
         Version : 4
            UUID : 11111111:22222222:33333333:44444444
          Events : {events}
  Events Cleared : {cleared}
           State : OK
       Chunksize : 64 MB
          Daemon : 5s flush period
      Write Mode : Normal
       Sync Size : 7813893120 (7451.91 GiB 8001.43 GB)
          Bitmap : 119231 bits (chunks), {dirty} dirty (0.0%)
"""


def devices(text: str) -> dict[str, ListedDevice]:
    return {device.name: device for device in find_devices(text.splitlines())}


@pytest.mark.parametrize("text", [UTF8, ASCII])
def test_the_tree_of_lsblk(text: str) -> None:
    found = devices(text)
    assert {name: device.parent for name, device in found.items()} == {
        "sda": "", "sda1": "sda", "md5": "sdb1", "vg-home": "md5", "sdb": "", "sdb1": "sdb", "sdb2": "sdb", "sr0": "",
    }  # fmt: skip
    assert (found["sda1"].size, found["sda1"].kind) == (int(7.3 * 2**40), "part")
    assert (found["vg-home"].kind, found["vg-home"].mounts) == ("lvm", ("/home",))


def test_columns_of_lsblk_with_models_and_a_decimal_comma() -> None:
    found = devices(COLUMNS)
    assert (found["sda"].model, found["sda"].serial) == ("WDC WD80EFZX-68UW8N0", "VK0ABCDE")
    assert found["sda"].size == int(7.3 * 2**40)
    assert found["sdb1"].is_member
    assert (found["md5"].filesystem, found["md5"].mounts) == ("ext4", ("/srv",))
    pairs = devices('NAME="sda1" SIZE="7.3T" TYPE="part" FSTYPE="linux_raid_member" MODEL="" SERIAL=""\n')
    assert (pairs["sda1"].is_member, pairs["sda1"].kind) == (True, "part")


def test_a_member_by_blkid_without_its_superblock_is_named() -> None:
    inventory = read(BLKID, superblock(0, "AAAA"), superblock(1, "AAAA"), superblock(2, "AAAA"))
    assert devices(BLKID)["sdd1"].uuid == "11111111:22222222:33333333:44444444"
    wanted = "/dev/sdd1 is a member by blkid, but its --examine is not in the text: run `mdadm --examine /dev/sdd1` and"
    assert noted(inventory, wanted)
    assert not noted(read(BLKID, *(superblock(slot, "AAAA") for slot in range(4))), "is a member by blkid")
    others = read(BLKID.replace("11111111-", "99999999-"), superblock(0, "AAAA"))
    assert noted(others, "/dev/sdd1 is a member of another array (nas:5, UUID 99999999:22222222:33333333:44444444)")


def test_only_lsblk_and_blkid_say_which_outputs_are_missing() -> None:
    inventory = read(UTF8)
    (array,) = inventory.arrays
    assert (array.name, array.level, [member.name for member in array.members]) == ("md5", "raid5", ["sda1", "sdb1"])
    assert noted(inventory, "mdadm --examine /dev/sda1 /dev/sdb1")
    only = read(BLKID)
    assert only.arrays == ()
    assert noted(
        only, "/dev/sda1, /dev/sdd1 are members of an array (nas:5, UUID 11111111:22222222:33333333:44444444) by"
    )
    assert noted(only, "mdadm --examine /dev/sda1 /dev/sdd1")


def test_members_get_their_size_and_disk_and_arrays_what_is_on_them() -> None:
    (array,) = read(DETAIL, COLUMNS).arrays
    sda1 = array.members[0]
    assert (sda1.size, sda1.disk, sda1.id) == (int(7.3 * 2**40), "sda", "WDC_WD80EFZX-68UW8N0_VK0ABCDE")
    assert [part.mounts for part in array.parts] == [("/srv",)]
    (array,) = read(DETAIL, UTF8).arrays
    assert array.users == ("vg-home (lvm), mounted at /home",)


def test_the_bitmap_of_a_member() -> None:
    texts = [superblock(slot, "AAA.", events=900) for slot in range(3)]
    inventory = read(
        *texts, superblock(3, "AAAA", events=880), BITMAP.format(disk="sda", events=900, cleared=870, dirty=12)
    )
    (array,) = inventory.arrays
    bitmap = array.members[0].member_bitmap
    assert bitmap is not None
    assert (bitmap.events, bitmap.events_cleared, bitmap.chunk, bitmap.bits, bitmap.dirty) == (
        900, 870, 64 << 20, 119231, 12,
    )  # fmt: skip
    findings = {finding.code: finding for finding in find_problems(inventory)}
    assert findings["bitmap-dirty"].message == (
        "the bitmap of sda1 has 12 of 119,231 chunks marked as changed (768 MiB): a member that was out and returns "
        "(--re-add) gets only these. sdd1 can return so: it has what the bitmap no longer lists"
    )
    late = read(*texts, superblock(3, "AAAA", events=860), BITMAP.format(disk="sda", events=900, cleared=870, dirty=12))
    (finding,) = [finding for finding in find_problems(late) if finding.code == "bitmap-dirty"]
    assert "sdd1 cannot: it left before event 870, so it needs a full rebuild" in finding.message
    stale = read(*texts, BITMAP.format(disk="sda", events=700, cleared=700, dirty=0))
    (finding,) = [finding for finding in find_problems(stale) if finding.code == "bitmap-stale"]
    assert finding.message == (
        "its bitmap is out of date (700 events, its superblock has 900): md ignores it at the next start, and resyncs "
        "or rebuilds completely"
    )
    assert by_name(stale)


def test_an_array_of_lsblk_that_does_not_run_is_inactive() -> None:
    text = "NAME    MAJ:MIN RM  SIZE RO TYPE\nsda       8:0    0  7.3T  0 disk\n`-md127   9:127  0    0B  0 md\n"
    (array,) = read(text).arrays
    assert (array.name, array.state, array.level) == ("md127", "inactive", "")
    (array,) = read("NAME    FSTYPE            LABEL\nsda\n└─sda1  linux_raid_member nas:5\n  └─md5 ext4\n").arrays
    assert (array.name, array.state) == ("md5", "active")
    assert noted(
        read(BITMAP.format(disk="sda", events=1, cleared=1, dirty=0)), "its superblock is not: mdadm --examine"
    )


@given(data=st.data())
def test_no_text_makes_it_fail(data: st.DataObject) -> None:
    """Lines are dropped, moved and changed."""
    bitmap = BITMAP.format(disk="sda", events=900, cleared=870, dirty=12)
    text = "".join((UTF8, "\n", COLUMNS, "\n", BLKID, bitmap, STAT, CONTAINER, VOLUME, EXAMINE, filtered(), DETAIL))
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(1, 12))):
        position = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                del lines[position]
            case 1:
                lines.insert(position, lines[data.draw(st.integers(0, len(lines) - 1))])
            case _:
                column = data.draw(st.integers(0, len(lines[position])))
                junk = data.draw(st.text(max_size=8) | st.integers(0, 1 << 70).map(str))
                lines[position] = lines[position][:column] + junk + lines[position][column + len(junk) :]
    try:
        inventory = read("\n".join(lines))
    except UsageError:
        return
    for finding in find_problems(inventory):
        assert finding.message
    for rescue in diagnose(inventory):
        assert "0 of 0 members" not in rescue.headline
