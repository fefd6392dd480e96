"""Arrays of people who asked for help: what blklab says of them, and which commands it does not print."""

import gzip
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from blklab.diagnostic import Diagnostic
from blklab.md import images, report
from blklab.md.audit import find_problems, reshape
from blklab.md.model import Array, ArrayMember, Inventory, Software, SyncPass
from blklab.md.pasted.inventory import read_texts
from blklab.md.remote import read_probe_file
from blklab.md.superblocks import SectorRange
from tests.md.crafted import make_superblock
from tests.md.test_good_copies import OFFSET, array_of

CASES = Path(__file__).parents[2] / "data" / "md" / "cases"
HARMFUL = re.compile(r"--(add(?!-journal)|re-add|create|force|fail|zero-superblock|replace|remove|assemble --force)\b")


def read_case(name: str, directory: Path) -> Inventory:
    """Returns the inventory of a case: of its images, or of its probe."""
    paths = []
    for packed in sorted((CASES / name).glob("*.gz")):
        path = directory / packed.stem
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        paths.append(path)
    if paths[0].suffix != ".probe":
        return images.read_images(paths)
    inventory = read_probe_file(str(paths[0])).inventory
    assert inventory is not None
    return inventory


def audit(inventory: Inventory) -> list[Diagnostic]:
    """Returns the findings, and asserts that no command of them is harmful."""
    findings = find_problems(inventory)
    assert not [line for line in commands(findings) if HARMFUL.search(line)]
    return findings


def commands(findings: list[Diagnostic]) -> list[str]:
    return [line for finding in findings for line in finding.remedy if not line.startswith("#")]


def codes(findings: list[Diagnostic]) -> list[str]:
    return [finding.code for finding in findings]


def everything(finding: Diagnostic) -> str:
    return "\n".join((finding.message, *finding.remedy))


def findings_text(inventory: Inventory) -> str:
    """Returns the part of the report with the findings."""
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False, width=10_000)
    report.show(console, inventory, find_problems(inventory))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().partition("Findings\n")[2].partition("\n\n")[0] + "\n"


def test_raid5_with_three_of_four_members_behind_cannot_run(tmp_path: Path) -> None:
    first, *others = audit(read_case("01-raid5-three-of-four-stale", tmp_path))
    text = everything(first)
    assert first.code == "cannot-run"
    assert "cannot run: 1 of 4 members is there and current, RAID-5 survives the loss of 1" in text
    assert "sdf1.img (slot 3, 4,019 events, 6 behind, last written 2011-07-07T02:00:19Z)" in text
    assert "6 events are little: the data are probably not lost yet" in text
    assert "copy the superblocks of all members" in text
    assert "`mdadm --assemble --force` can start it with the freshest members" in text
    assert "Do not use --add, --re-add or --create" in text
    assert codes(others) == ["metadata-end"]


def test_raid6_that_was_not_started_needs_its_removed_members(tmp_path: Path) -> None:
    inventory = read_case("03-raid6-failed-not-started", tmp_path)
    (array,) = inventory.arrays
    superblocks = [member.superblock for member in array.members if member.superblock]
    values = {"level": 6, "raid_disks": 7, "updated": superblocks[0].updated - 60}
    removed = tuple(
        ArrayMember(name, f"/dev/{name}", superblock=make_superblock(slot=slot, events=events, **values))
        for name, slot, events in (("sdg1", 3, 288_190), ("sdh1", 4, 288_194))
    )
    array = replace(array, outside=removed)
    findings = audit(replace(inventory, arrays=(array,)))
    text = everything(findings[0])
    assert codes(findings) == ["cannot-run", "config-bbl"]
    assert "cannot run: 4 of 7 members are there and current, RAID-6 survives the loss of 2" in text
    assert "sdf1 (slot 0, rebuilt only up to sector 400,000)" in text
    assert "sdg1 (slot 3, 288,190 events, 7 behind" in text
    assert "sdh1 (slot 4, 288,194 events, 3 behind" in text
    assert "Use them with --assemble --force, not --add: --add overwrites their role" in text
    assert "the freshest members that it needs: sde1, sdc1, sdh1, sdd1, sdi1" in text
    assert not commands(findings)


def test_without_the_removed_members_nothing_is_forced(tmp_path: Path) -> None:
    findings = audit(read_case("03-raid6-failed-not-started", tmp_path))
    assert "All known members together are not enough: find the disks of slots 0, 3, 4 first" in everything(findings[0])


def test_two_halves_of_one_mirror_are_not_added_to_each_other(tmp_path: Path) -> None:
    findings = audit(read_case("15-two-halves-of-one-mirror", tmp_path))
    assert codes(findings) == ["split", "degraded", "degraded", "config-bbl"]
    text = everything(findings[0])
    assert "md0 and md127 are parts of the same array (UUID 11111111:22223333:44445555:55555555)" in text
    assert "each was written to without the other: do not add" in text
    assert "Newer by events: md127 (9,344 events, last written 2023-11-15T00:49:04Z); md0 has 9,120" in text
    assert "Decide which half is right" in text
    assert not commands(findings)


def test_images_of_two_halves_are_split(tmp_path: Path) -> None:
    inventory = read_case("15-two-halves-of-one-mirror", tmp_path)
    members = tuple(member for array in inventory.arrays for member in array.members)
    array = images.make_array([replace(member, states=()) for member in members])
    findings = audit(Inventory((array,)))
    assert codes(findings)[0] == "split"
    assert "sdb1 and sda1 are parts of the same array" in findings[0].message


def test_inactive_array_has_the_geometry_of_its_superblocks(tmp_path: Path) -> None:
    inventory = read_case("17-inactive-array-wrong-layout", tmp_path)
    (array,) = inventory.arrays
    assert (array.level, array.layout, array.chunk, array.raid_disks) == ("raid5", 2, 65536, 4)
    row = report.arrays_table(inventory).rows[0]
    assert row[:5] == ["md0", "raid5", "left-symmetric", "3.00 GiB", "64 KiB"]
    assert row[-1] == "1/4"
    assert [member.slot for member in array.members] == [0, 1, 2, 3]
    findings = audit(inventory)
    assert codes(findings) == ["cannot-run", "metadata-end", "config-bbl"]
    assert "`mdadm --assemble --scan` will fail again, because too few members are current" in everything(findings[0])
    assert not commands(findings)


def test_inactive_array_without_superblocks_has_no_geometry(tmp_path: Path) -> None:
    (array,) = read_case("17-inactive-array-wrong-layout", tmp_path).arrays
    blank = replace(array, level="raid5", layout=0, raid_disks=0, chunk=0, size=0, bitmap=None)
    row = report.arrays_table(Inventory((blank,))).rows[0]
    assert (row[2], row[3], row[4], row[6], row[-1]) == ("–",) * 5


def test_copied_list_is_no_loss(tmp_path: Path) -> None:
    findings = audit(read_case("19-bbl-three-lists-readable", tmp_path))
    assert codes(findings)[:2] == ["bbl-copied", "bbl-lost"]
    text = everything(findings[0])
    assert "sdc3.img, sdd3.img, sde3.img list the same bad range (13086517288-13086517319 of each)" in text
    assert "copies of one list, not defects of the disks" in text
    assert "Read every listed range of every member with dd" in text
    assert "--update=force-no-bbl, and run a check" in text
    assert "Where a write failed, a member has old data" in text
    assert findings[1].message.startswith("md refuses to read array sectors 39258759208-39258759239")
    assert "backup" not in "".join(map(everything, findings))


def test_garbage_is_one_finding(tmp_path: Path) -> None:
    findings = audit(read_case("20-bbl-garbage", tmp_path))
    assert codes(findings) == ["bbl-garbage", "bbl-empty"]
    text = findings[0].message
    assert "the bad-block lists of sdc1.img, sdf1.img are damaged, not the disks" in text
    assert "the first is sector 87,961,001,545,728 of 2,002,048" in text
    assert "--update=force-no-bbl" in text


# What is read at 3 a.m.: the state, the risk, and at most one command.


def listed_on_disks(array: Array) -> Array:
    """Returns an array whose members' disks have the lists of the kernel."""
    members = []
    for member in array.members:
        entries = [{"sector": at.sector, "sectors": at.sectors} for at in member.listed or ()]
        bad_blocks = {"sector": 0, "sectors": 8, "shift": 0, "active": True, "entries": entries} if entries else None
        members.append(replace(member, superblock=make_superblock(slot=member.slot, bad_blocks=bad_blocks)))
    return replace(array, members=tuple(members))


def raid5_with_an_unreadable_sector(outside: bool = False) -> Array:
    """Returns the array whose member in slot 2 failed, and whose member in slot 1 cannot read 16 sectors."""
    array = listed_on_disks(array_of("raid5", 2, 3, {1: [(64, 16)]}, missing=[2]))
    superblock = make_superblock(slot=2, events=90)
    old = ArrayMember("vdc", "/dev/vdc", None, ("faulty",), superblock=superblock, data_offset=OFFSET)
    members = array.members if outside else (*array.members, old)
    return replace(array, members=members, outside=(old,) if outside else ())


def mirror_with_an_unreadable_sector() -> Array:
    """Returns a RAID-1 whose member in slot 1 left, and whose other member cannot read 16 sectors."""
    array = listed_on_disks(array_of("raid1", 0, 2, {0: [(64, 16)]}, missing=[1]))
    superblock = make_superblock(slot=1, events=90, level=1, raid_disks=2)
    old = ArrayMember("vdc", "/dev/vdc", superblock=superblock, data_offset=OFFSET)
    return replace(array, outside=(old,))


def broken_raid5() -> Array:
    array = array_of("raid5", 2, 3, {}, missing=[1, 2])
    failed = tuple(ArrayMember(name, f"/dev/{name}", None, ("faulty",)) for name in ("dm-0", "vdc"))
    errors = ("read error not correctable (sector 60000 on dm-0)", "Disk failure on dm-0, disabling device")
    return replace(array, state="broken", members=(*array.members, *failed), kernel_errors=errors, last_action="none")


NIGHT = {
    "degraded": raid5_with_an_unreadable_sector,
    "degraded-without-source": lambda: listed_on_disks(array_of("raid5", 2, 3, {1: [(64, 16)]}, missing=[2])),
    "mirrors": lambda: listed_on_disks(array_of("raid1", 0, 2, {0: [(64, 8)], 1: [(128, 8)]})),
    "broken": broken_raid5,
}


@pytest.mark.parametrize("name", sorted(NIGHT))
def test_text_of_the_night(name: str) -> None:
    array = NIGHT[name]()
    text = findings_text(Inventory((array,)))
    assert text == (CASES / "night" / f"{name}.txt").read_text()
    assert len(text.splitlines()) <= 6
    assert len(commands(audit(Inventory((array,))))) <= 1


@pytest.mark.parametrize("outside", [False, True])
def test_member_that_is_out_is_kept_while_it_is_the_only_source(outside: bool) -> None:
    findings = audit(Inventory((raid5_with_an_unreadable_sector(outside),)))
    first = findings[0]
    assert first.code == "only-out"
    assert "16 sectors of md0 can be read only from vdc, which is out: do not add, remove or replace" in first.message
    assert "bbl-lost" not in codes(findings)
    assert not commands(findings)


def test_of_a_mirror_the_sectors_can_be_copied_from_the_member_that_is_out() -> None:
    findings = audit(Inventory((mirror_with_an_unreadable_sector(),)))
    (finding,) = [found for found in findings if found.code == "only-out"]
    assert "`blklab md rescue --save 64-79 --from /dev/vdc FILE`" in finding.remedy[1]
    assert "`blklab md fix entries /dev/md0 --from FILE`" in finding.remedy[1]
    assert not commands([finding])


def test_broken_array_has_one_command() -> None:
    array = broken_raid5()
    findings = audit(Inventory((array,)))
    assert codes(findings) == ["broken"]
    assert commands(findings) == ["blklab md fix restart /dev/md0"]
    assert "Copy /dev/dm-0 first (ddrescue)" in everything(findings[0])
    # Linux before 5.19 calls it clean.
    assert codes(audit(Inventory((replace(array, state="clean"),)))) == ["broken"]


def test_inactive_array_says_what_it_waits_for() -> None:
    members = tuple(
        ArrayMember(f"sd{slot}", f"/dev/sd{slot}", slot, superblock=make_superblock(slot=slot)) for slot in (0, 1)
    )
    old = ArrayMember("sdx", "/dev/sdx", superblock=make_superblock(slot=2, events=90))
    array = replace(array_of("raid5", 2, 3, {}), members=members, state="inactive", degraded=1)
    findings = audit(Inventory((replace(array, outside=(old,)),)))
    assert codes(findings) == ["inactive"]
    assert "it waits for slot 2 (slot 2 was last on /dev/sdx, written 2026-01-01T00:00:00Z)" in findings[0].message
    assert commands(findings)[-2:] == ["mdadm --stop /dev/md0", "mdadm --assemble --scan"]


def test_newer_member_next_to_an_array_is_not_added() -> None:
    array = replace(array_of("raid1", 0, 2, {}, missing=[1]), uuid="a:b:c:d")
    own = make_superblock(level=1, raid_disks=2, events=100, present=[True, False])
    array = replace(array, members=(replace(array.members[0], superblock=own),))
    for values, found in (
        ({"events": 200}, True),
        ({"events": 90}, False),
        ({"events": 90, "present": [False, True]}, True),
    ):
        other = make_superblock(**{"level": 1, "raid_disks": 2, "slot": 1, **values})
        others = ArrayMember("sdx", "/dev/sdx", superblock=other)
        findings = audit(Inventory((replace(array, outside=(others,)),)))
        assert ("split" in codes(findings)) == found
        assert commands(findings) == ([] if found else ["blklab md fix add /dev/md0 DISK"])
    unassembled = replace(array, live=False, path="", members=(others,), name="host:0")
    assert "split" in codes(audit(Inventory((array,), unassembled=(unassembled,))))


def test_raid10_cannot_run_without_both_copies() -> None:
    array = replace(array_of("raid10", 0x102, 4, {}), live=False, path="")
    members = tuple(
        replace(
            member,
            states=(),
            superblock=make_superblock(slot=slot, level=10, raid_disks=4, events=100 - 9 * (slot < 2)),
        )
        for slot, member in enumerate(array.members)
    )
    assert "cannot-run" in codes(audit(Inventory((replace(array, members=members),))))
    apart = tuple(
        replace(member, superblock=make_superblock(slot=slot, level=10, raid_disks=4, events=100 - 9 * (slot % 2)))
        for slot, member in enumerate(members)
    )
    assert "cannot-run" not in codes(audit(Inventory((replace(array, members=apart),))))
    absent = replace(array, members=members[2:], absent=(0, 1))
    assert "cannot-run" not in codes(audit(Inventory((absent,))))


def test_names_with_line_breaks_are_no_commands() -> None:
    array = array_of("raid1", 0, 2, {}, missing=[1])
    (finding,) = [each for each in find_problems(Inventory((replace(array, path="/dev/md\nreboot"),))) if each.remedy]
    assert not commands([finding])
    assert all("\n" not in line for line in finding.remedy)
    assert "Not a command, because a name" in finding.remedy[-1]


def test_garbage_with_entries_within_the_data_says_to_read_them() -> None:
    array = array_of("raid1", 0, 2, {0: [(64, 8), (1 << 40, 8)]})
    first = replace(array.members[0], superblock=make_superblock(level=1, raid_disks=2))
    findings = audit(Inventory((replace(array, members=(first, array.members[1])),)))
    assert "read these sectors of the members first, which may be real entries: 2112-2119" in findings[0].message
    assert SectorRange(2112, 8) in first.ranges


@pytest.mark.parametrize("read", [True, False])
def test_older_member_in_an_array_of_its_own_is_not_called_diverged(read: bool) -> None:
    newer, older = (
        make_superblock(level=1, raid_disks=2, slot=slot, events=events, present=[True, slot == 1])
        for slot, events in ((0, 100), (1, 90))
    )
    array = replace(array_of("raid1", 0, 2, {}, missing=[1]), uuid="a:b:c:d")
    first = replace(array.members[0], superblock=newer if read else None)
    second = ArrayMember("sdx", "/dev/sdx", 1, superblock=older if read else None, unseen="" if read else "denied")
    other = replace(array, name="md127", path="/dev/md127", state="inactive", members=(second,))
    findings = audit(Inventory((replace(array, members=(first,)), other)))
    (finding,) = [each for each in findings if each.code == "split"]
    assert "md0 and md127 are parts of the same array (UUID a:b:c:d): do not add" in finding.message
    assert "written to without the other" not in finding.message
    assert ("Newer by events: md0 (100 events" if read else "run blklab as root") in finding.message


def test_an_unfinished_reshape_of_images_is_named(tmp_path: Path) -> None:
    findings = audit(read_case("06-reshape-in-images", tmp_path))
    (reshape,) = [finding for finding in findings if finding.code == "reshape-unfinished"]
    assert "It is at sector 600,000 of the array (10.0 %)" in reshape.message
    assert "It adds 1 disk: 3 were there before, 4 after it" in reshape.message
    assert "backup file" in reshape.message


def test_a_reshape_that_almost_stands_is_named(tmp_path: Path) -> None:
    findings = audit(read_case("09-reshape-3-KiB-per-s", tmp_path))
    (stalled,) = [finding for finding in findings if finding.code == "sync-stalled"]
    assert stalled.message.startswith("reshape has almost stopped: 3 KiB/s, although md keeps at least 1,000 KiB/s")
    assert "Do not fail or remove a member during a reshape" in stalled.message
    (running,) = [finding for finding in findings if finding.code == "under-way"]
    assert "It adds 1 disk: 3 were there before, 4 after it" in running.message
    assert commands(findings) == []  # Neither a disk to add nor a check


def test_a_resync_at_the_minimum_says_why_and_no_check_is_printed(tmp_path: Path) -> None:
    findings = audit(read_case("11-slow-resync-and-action-check", tmp_path))
    (stalled,) = [finding for finding in findings if finding.code == "sync-stalled"]
    assert "1,015 KiB/s, the minimum that md keeps while other I/O goes on" in stalled.message
    assert commands(findings) == ["echo 50000 > /sys/block/md0/md/sync_speed_min"]


def test_an_array_without_its_write_journal_is_critical(tmp_path: Path) -> None:
    first, *_ = findings = audit(read_case("12-journal-missing-read-only", tmp_path))
    assert (first.code, first.severity) == ("journal-missing", "critical")
    assert first.message.startswith("refuses every write: its write journal is missing")
    assert first.remedy[0].startswith("# Only if the journal's disk is really lost")
    assert commands(findings) == [
        "mdadm /dev/md0 --add-journal NEW-DISK",
        "echo resync > /sys/block/md0/md/consistency_policy",
        "mdadm --readwrite /dev/md0",
    ]


def test_a_sync_is_judged_by_the_limits_of_its_array() -> None:
    def check(speed: int, minimum: int | None = 1000, maximum: int | None = 200_000) -> list[str]:
        sync = SyncPass("resync", 100, 1000, speed, minimum, maximum)
        return codes(list(reshape.check_stalled_sync(replace(array_of("raid5", 2, 3, {}), sync=sync), None)))

    assert check(50_000) == []
    assert check(1050) == check(899) == ["sync-stalled"]
    assert check(899, minimum=None) == ["sync-stalled"]
    assert check(5000, minimum=10_000) == []  # A minimum above what the disks can do
    assert check(50, minimum=10_000) == ["sync-stalled"]
    assert check(195_000) == ["sync-limited"]
    waiting = replace(array_of("raid5", 2, 3, {}), sync=SyncPass("resync"))
    assert not list(reshape.check_stalled_sync(waiting, None))


def test_a_reshape_does_not_go_on_without_a_disk() -> None:
    made = array_of("raid5", 2, 3, {})
    members = [replace(member, superblock=make_superblock(slot=member.slot)) for member in made.members[:2]]
    stopped = replace(made, live=True, state="inactive", reshaping=True, members=tuple(members))
    (found,) = [finding for finding in find_problems(Inventory((stopped,))) if finding.code == "inactive"]
    assert "it waits for slot 2" in found.message
    assert commands([found]) == []


def test_a_small_mirror_with_a_slot_for_each_bay_is_not_degraded() -> None:
    """QNAP: md9 : active raid1 sda1[0] sdb1[1] … [24/2] [UU______________________]."""
    text = "md9 : active raid1 sda1[0] sdb1[1]\n      530048 blocks super 1.0 [24/2] [UU" + 22 * "_" + "]\n"
    (finding,) = [finding for finding in find_problems(read_texts([("", text)])) if finding.code == "degraded"]
    assert finding.severity == "note"
    assert finding.message.startswith("2 of 24 slots have a member. Systems of NAS")
    alone = text.replace(" sdb1[1]", "").replace("24/2", "24/1").replace("[UU", "[U_")
    (finding,) = [finding for finding in find_problems(read_texts([("", alone)])) if finding.code == "degraded"]
    assert finding.severity == "critical"


def test_a_raid0_that_grows_is_not_degraded() -> None:
    members = array_of("raid5", 2, 3, {}).members
    growing = replace(
        array_of("raid5", 2, 3, {}), level="raid4", raid_disks=4, degraded=1, reshaping=True, members=members, live=True
    )
    found = codes(find_problems(Inventory((growing,))))
    assert "raid0-grows" in found
    assert not {"degraded", "cannot-run"} & set(found)
    # The disk that is added is no member yet (observed, Linux 6.1).
    added = replace(members[2], states=("spare",))
    found = codes(find_problems(Inventory((replace(growing, members=(*members[:2], added)),))))
    assert "raid0-grows" in found
    assert not {"degraded", "cannot-run", "broken"} & set(found)
    with_last_slot = (*members[:2], replace(members[2], slot=3))
    other = replace(growing, members=with_last_slot)
    assert "degraded" in codes(find_problems(Inventory((other,))))


def test_no_action_is_started_while_a_reshape_is_stopped() -> None:
    """On old kernels, a reshape that is continued destroys data: a check would continue it."""
    stopped = replace(
        array_of("raid5", 2, 3, {}), reshaping=True, last_action="reshape", mismatches=8, bitmap=False, size=1 << 40
    )
    software = Software(kernel=(6, 1))
    findings = find_problems(Inventory((stopped,), software=software))
    assert {"kernel-bug", "never-checked", "mismatches", "no-bitmap", "reshape-unfinished"} <= set(codes(findings))
    assert commands(findings) == []


def test_a_minimum_is_never_lowered() -> None:
    def command(minimum: int, maximum: int) -> list[str]:
        sync = SyncPass("resync", 100, 1000, minimum, minimum, maximum)
        array = replace(array_of("raid5", 2, 3, {}), sync=sync)
        return commands(list(reshape.check_stalled_sync(array, None)))

    assert command(1000, 200_000) == ["echo 50000 > /sys/block/md0/md/sync_speed_min"]
    assert command(200_000, 1_000_000) == []
    assert command(1000, 20_000) == []
