"""The kernel's log: the timeline of an array, and what it says about the cause."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.audit.log import check_log
from blklab.md.audit.log_timeline import MOST_LINES, MOST_NAMES, find_log_ranges
from blklab.md.kernel_log import add_log
from blklab.md.log_events import find_events
from blklab.md.model import Array, ArrayMember, BlockContent, DiskHealth, Inventory, PhysicalDisk, Software
from blklab.md.pasted.inventory import read_texts
from blklab.md.probing import Probe
from blklab.md.superblocks import SectorRange
from tests.conftest import Run
from tests.md.conftest import Arrays
from tests.md.pasted.test_arrays import superblock
from tests.md.test_good_copies import array_of
from tests.md.test_log_events import BOOT, TROUBLE

SOFTWARE = Software(kernel=(6, 1))
OFFSET = 2048


def raid5(*names: str, **values: object) -> Array:
    """Returns a RAID-5 of three members, whose data begin at sector 2048."""
    made = array_of("raid5", 2, 3, {})
    members = [replace(member, name=name) for member, name in zip(made.members, names, strict=True)]
    return replace(made, members=tuple(members), **values)  # type: ignore[arg-type]


def audit(log: str, *arrays: Array, disks: Sequence[PhysicalDisk] | None = None) -> list[Diagnostic]:
    """Returns the findings about the log of a host with these arrays."""
    known = None if disks is None else tuple(disks)
    return list(check_log(Inventory(arrays, software=SOFTWARE, disks=known, log=tuple(find_events(log.splitlines())))))


def message(log: str, *arrays: Array) -> str:
    (finding,) = audit(log, *arrays)
    assert (finding.code, finding.severity, finding.remedy) == ("log", "note", ())
    return finding.message.removeprefix("kernel log: ")


def text_findings(*texts: str) -> list[Diagnostic]:
    findings = find_problems(read_texts([(f"mail {number}", text) for number, text in enumerate(texts)]))
    return [finding for finding in findings if finding.code == "log"]


DISABLED = """\
[    9.000000] md/raid:md0: raid level 5 active with 3 out of 3 devices, algorithm 2
[  100.000001] ata3.00: error: { UNC }
[  100.000002] blk_update_request: critical medium error, dev sdc, sector 2064 op 0x0:(READ)
[  100.000003] md/raid:md0: read error not correctable (sector 2064 on sdc).
[  100.000004] md/raid:md0: read error not correctable (sector 2064 on sdc).
[  100.000005] md/raid:md0: Disk failure on sdc, disabling device.
[  100.000006] md/raid:md0: Operation continuing on 2 devices.
"""


def test_a_member_that_was_disabled_after_read_errors() -> None:
    array = raid5("sda", "sdb", "sdc")
    assert message(DISABLED, array) == (
        "sdc was disabled after read errors that could not be corrected (sector 2064 of sdc = array 32-39)"
    )
    (finding,) = audit(DISABLED, array)
    assert finding.timeline == (
        "[9.000000] started with 3 of 3 members",
        "[100.000002] sdc: medium error, sector 2064 = array 32",
        "[100.000003] sdc: read error, not correctable, sector 2064 = array 32-39 (2 times until [100.000004])",
        "[100.000005] sdc: disk failure, disabled",
    )


def test_sectors_are_those_of_the_array_only_where_that_is_known() -> None:
    log = "md/raid:md0: read error corrected (8 sectors at {sector} on sdc)\n"
    array = raid5("sda", "sdb", "sdc")
    parity = message(log.format(sector=OFFSET), array)
    assert parity == "md corrected read errors of sdc (sector 2048 of sdc, which holds parity)"
    assert message(log.format(sector=8), array) == "md corrected read errors of sdc (sector 8 of sdc)"
    assert "= array" not in message(log.format(sector=OFFSET + 16), replace(array, reshaping=True))
    assert "= array" not in message(log.format(sector=OFFSET + 16), replace(array, level="raid0"))
    assert "= array 32-39" in message(log.format(sector=OFFSET + 16), array)
    assert "2 sectors of sdc from 2064 to 2072 = array 32-47" in message(
        log.format(sector=OFFSET + 16) + log.format(sector=OFFSET + 24), array
    )
    many = "".join(log.format(sector=OFFSET + 8 * number) for number in range(1000))
    assert "1000 sectors of sdc from 2048" in message(many, array)
    counted = replace(array, members=tuple(replace(member, errors=1) for member in array.members))
    assert "corrected" not in message(log.format(sector=OFFSET), counted)  # `read-errors` has them


def test_the_sector_of_a_disk_is_that_of_the_partition_on_it() -> None:
    array = raid5("sda1", "sdb1", "sdc1")
    members = [replace(member, start=1 << 20, size=2 << 20, disk=member.name[:3]) for member in array.members]
    log = "print_req_error: critical medium error, dev sdc, sector {sector}\n"
    with_starts = replace(array, members=tuple(members))
    assert message(log.format(sector=2048 + OFFSET + 16), with_starts).endswith("sector 4112 of sdc = array 32")
    assert message(log.format(sector=100), with_starts).endswith("sector 100 of sdc")
    assert message(log.format(sector=4112), array).endswith("sector 4112 of sdc")


DISABLED_SDB1 = "md/raid:md0: Disk failure on sdb1, disabling device.\n"
REASONS = {
    "sd 1:0:0:0: [sdb] Sense Key : Not Ready\nI/O error, dev sdb, sector 9\nmd: super_written gets error\n":
        "after md could not write a superblock: the disk reported Not Ready",
    "md/raid:md0: Too many read errors, failing device sdb1.\n": "after too many read errors",
    "md/raid10:md0: read correction write failed (8 sectors at 9 on sdb1)\n":
        "after md could not write the right data to a sector with a read error",
    "print_req_error: critical medium error, dev sdb, sector 7\n": "after the disk could not read sector 7 of sdb",
    "sd 1:0:0:0: [sdb] Sense Key : Medium Error [current]\n": "after the disk could not read a sector",
    "sd 1:0:0:0: [sdb] Sense Key : Hardware Error [current]\n": "after errors: the disk reported Hardware Error",
    "sd 1:0:0:0: [sdb] tag#1 attempting task abort!\n": "after time-outs or resets",
    "md/raid1:md0: sdb1: rescheduling sector 5\n": "after reads failed (sector 5 of the array)",
    "I/O error, dev sdb, sector 9\n": "after I/O errors",
    "sd 1:0:0:0: [sdb] killing request\n": "after it vanished",
}  # fmt: skip
"""Why sdb1 was disabled, by what the log says before that."""


def test_why_members_were_disabled() -> None:
    array = raid5("sda1", "sdb1", "sdc1")
    assert message(DISABLED_SDB1, array) == "sdb1 was disabled; the log does not show why"
    for log, reason in REASONS.items():
        assert message(log + DISABLED_SDB1, array).startswith(f"sdb1 was disabled {reason}"), log
    again = "md/raid:md0: raid level 5 active with 3 out of 3 devices, algorithm 2\n"
    late = message("md/raid:md0: Too many read errors, failing device sdb1.\n" + again + DISABLED_SDB1, array)
    assert late == "sdb1 was disabled; the log does not show why"  # That was before the array was started again
    five = "".join(f"md/raid:md0: Disk failure on sd{disk}1, disabling device.\n" for disk in "abcde")
    assert "so were 2 more members" in message(five, array)


def test_a_link_that_became_slower_is_not_the_surface() -> None:
    array = raid5("sda", "sdb", "sdc")
    log = BOOT + "".join(f"[ {100 + at}.0] ata2: hard resetting link\n" for at in range(14))
    log += "[ 200.0] ata2: SATA link up 3.0 Gbps (SStatus 123 SControl 320)\n"
    assert message(log, array) == (
        "the link of ata2 (sdb) fell from 6.0 to 3.0 Gbps and was reset 14 times: "
        "cable, port, power or the disk's electronics, not its surface"
    )
    (finding,) = audit(log, array)
    assert finding.timeline == (
        "[100.0] ata2 (sdb): reset (14 times until [113.0])", "[200.0] ata2 (sdb): link up at only 3.0 Gbps",
    )  # fmt: skip
    assert audit(BOOT, array) == []
    both = message(BOOT + TROUBLE, array)
    assert "fell from 6.0 to 3.0 Gbps and was reset once, and the disk could not read sectors" in both
    assert "surface" not in both
    checksums = message(BOOT + "ata2: SError: { UnrecovData BadCRC }\n", array)
    assert checksums == "transfers of ata2 (sdb) had wrong checksums: cable or port, not the disk's surface"


DEAD = """\
[ 500.1] ata2.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen
[ 500.2] ata2.00: failed command: FLUSH CACHE EXT
[ 500.3]          res 40/00:01:00:00:00/00:00:00:00:00/40 Emask 0x4 (timeout)
[ 500.4] ata2: hard resetting link
[ 510.4] ata2: limiting SATA link speed to 1.5 Gbps
[ 510.5] ata2: hard resetting link
[ 520.5] ata2: reset failed, giving up
[ 520.6] ata2.00: disabled
[ 520.7] ata2: EH complete
[ 520.8] sd 1:0:0:0: [sdb] Unhandled error code
[ 520.9] end_request: I/O error, dev sdb, sector 2048
[ 520.9] md/raid:md0: Disk failure on sdb, disabling device.
"""


def test_a_disk_that_does_not_come_back() -> None:
    """The link was not slower: it did not come up any more. Why is not in the log."""
    array = raid5("sda", "sdb", "sdc")
    expected = (
        "sdb was disabled after it vanished; ata2 (sdb) did not answer in time once, and the kernel reset it twice"
    )
    for log in (DEAD, BOOT + DEAD):
        assert message(log, array) == expected


def test_time_outs_refer_to_the_finding_about_them() -> None:
    log = BOOT + "ata2.00: qc timeout (cmd 0xec)\nata2: hard resetting link\n"
    array = raid5("sda", "sdb", "sdc")
    plain = "ata2 (sdb) did not answer in time once, and the kernel reset it once"
    assert message(log, array) == plain
    health = DiskHealth(protocol="ATA", rotation=7200, passed=True, erc=False)
    disk = PhysicalDisk("sdb", "/dev/sdb", ("md0",), health, timeout=30)
    (finding,) = audit(log, array, disks=[disk])
    assert finding.message.endswith("(see `timeout`: the disk retries a bad sector for longer than the kernel waits)")
    (finding,) = audit(log, array, disks=[replace(disk, timeout=300)])
    assert finding.message == f"kernel log: {plain}"
    reset = message("nvme nvme0: controller is down; will reset: CSTS=0x3\n", raid5("nvme0n1p1", "sdb", "sdc"))
    assert reset == "nvme0 was reset once"


def test_members_that_vanish_together() -> None:
    log = "[ 70.1] sd 4:0:0:0: [sda] killing request\n[ {second}] sd 5:0:0:0: [sdb] killing request\n"
    array = raid5("sda1", "sdb1", "sdc1")
    assert message(log.format(second=70.9), array) == "sda, sdb vanished within 1 s: controller, cable or power"
    assert "vanished" not in message(log.format(second=79.9), array)
    assert "vanished" not in message(log.replace("[ 70.1] ", "").replace("[ {second}] ", ""), array)


NOT_CLEAN = "md/raid:md0: not clean -- starting background reconstruction\n"
DIRTY = f"{NOT_CLEAN}md/raid:md0: cannot start dirty degraded array.\n"
REFUSED = "md did not start it: it was not shut down cleanly, and a member is missing, so parity may be wrong"
STARTED = "md/raid:md0: raid level 5 active with 2 out of 3 devices, algorithm 2\n"
OTHER_MESSAGES = {
    DIRTY: REFUSED,
    DIRTY + STARTED: f"{REFUSED}; later it was started",
    NOT_CLEAN + STARTED: "it was not shut down cleanly",
    "md/raid:md0: not enough operational devices (2/3 failed)\nmd/raid:md0: failed to run raid set.\n":
        "md did not run it: too few members (2 of 3 failed)",
    "md/raid10:md0: not enough operational mirrors.\n": "md did not run it: too few members",
    "INFO: task md0_raid5:311 blocked for more than 120 seconds.\n":
        "a task that uses it was blocked for longer than the kernel's limit",
    "md: sdc does not have a valid v1.2 superblock, not importing!\n":
        "md did not take sdc as a member: does not have a valid v1.2 superblock",
    "md0: bitmap file is out of date, doing full recovery\n": "bitmap file is out of date",
    "md: md0: resync interrupted.\n": "its resync was interrupted",
    "md: md0: resync interrupted.\nmd: resync of RAID array md0\nmd: md0: resync done.\n":
        "messages about it; they do not show a cause",
    "I/O error, dev sdc, sector 1\n": "sdc had I/O errors (sector 1 of sdc)",
    "md/raid1:md0: sdc: rescheduling sector 5\nmd/raid1:md0: redirecting sector 5 to other mirror: sda\n":
        "messages about it; they do not show a cause",
    "md: kicking non-fresh sdc from array!\n": "sdc was kicked as non-fresh",
    "md/raid:md0: read error not correctable (sector 2064 on sdc).\n":
        "md could not correct read errors of sdc (sector 2064 of sdc = array 32-39)",
}  # fmt: skip


@pytest.mark.parametrize("text", OTHER_MESSAGES)
def test_other_messages(text: str) -> None:
    assert message(text, raid5("sda", "sdb", "sdc")) == OTHER_MESSAGES[text]


def test_each_array_has_its_own() -> None:
    log = DISABLED + DISABLED.replace("md0", "md1").replace("sdc", "sdz")
    first, second = raid5("sda", "sdb", "sdc"), replace(raid5("sdx", "sdy", "sdz"), name="md1")
    findings = {finding.subject: finding for finding in audit(log, first, second)}
    assert set(findings) == {"md0", "md1"}
    assert "sdz" not in "".join(findings["md0"].timeline)
    # Of a host, nothing is said of arrays that are not there.
    assert [finding.subject for finding in audit(log, first)] == ["md0"]
    assert audit("md: recovery of RAID array md0\nmd: md0: recovery done.\n", first) == []


def test_a_long_log_gets_few_lines() -> None:
    log = "".join(
        f"[ {at}.0] md/raid1:md0: sd{disk}: rescheduling sector 5\n[ {at}.5] I/O error, dev sd{disk}, sector 9\n"
        f"[ {at}.6] md/raid1:md0: Disk failure on sd{disk}, disabling device.\n"
        for at, disk in enumerate("abcdefghij")
    )
    (finding,) = audit(log, raid5("sda", "sdb", "sdc"))
    assert len(finding.timeline) == MOST_LINES
    assert finding.timeline[0] == "[0.6] sda: disk failure, disabled"
    assert finding.timeline[-1] == "and 23 more lines are left out"


LOG = """\
2024-03-03T09:00:00+0000 nas kernel: md: kicking non-fresh sdb1 from array!
2024-03-03T09:00:01+0000 nas kernel: md/raid:md5: device sda1 operational as raid disk 0
2024-03-03T09:00:01+0000 nas kernel: md/raid:md5: raid level 5 active with 3 out of 4 devices, algorithm 2
2024-03-03T11:00:00+0000 nas kernel: md/raid:md5: Disk failure on sdd1, disabling device.
"""


def test_superblocks_are_in_the_timeline() -> None:
    superblocks = [superblock(0, "A.AA"), superblock(1, "AAAA", events=300), superblock(2, "A.AA")]
    (finding,) = text_findings(LOG, *superblocks)
    assert finding.message.endswith("sdb1 was kicked as non-fresh: sdb1 lacks 200 events (superblocks)")
    assert finding.timeline == (
        "2024-03-03T09:00:00+0000 sdb1: kicked as non-fresh",
        "2024-03-03T09:00:01+0000 started with 3 of 4 members",
        "2024-03-03T10:00:00Z superblock of sdb1: last written, 200 events behind",
        "2024-03-03T11:00:00+0000 sdd1: disk failure, disabled",
    )
    # Without a year, the order is not known.
    (finding,) = text_findings(re.sub(r"2024-03-03T(\S+)[+]0000", r"Mar  3 \1", LOG), *superblocks)
    assert finding.timeline[-1].startswith("2024-03-03T10:00:00Z superblock of sdb1")


def test_a_text_with_nothing_but_a_log(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(f"Hello,\n\n{DISABLED}[ 200.0] I/O error, dev sdq, sector 9\n[ 201.0] ata9: hard resetting link\n")
    done = run("md", "audit", mail)
    assert done.status == 0
    assert "The text shows no array, only a kernel log." in done.out
    assert "md0: the text shows only the kernel's log, add: mdadm --examine /dev/sdc; cat /proc/mdstat" in done.out
    assert "sdc: disk failure, disabled" in done.out
    findings = text_findings(mail.read_text())
    assert [(finding.subject, finding.member) for finding in findings] == [
        ("md0", ""), ("", "ata3"), ("", "sdq"), ("", "ata9"),
    ]  # fmt: skip
    assert run("md", "audit", mail, "--severity", "note").status == 1
    assert '"timeline": [' in run("md", "audit", mail, "--json").out
    mail.write_text("[ 200.0] I/O error, dev sdq, sector 9\n")
    assert (
        "kernel log: the text shows only the kernel's log, add: mdadm --examine /dev/sdq"
        in run("md", "audit", mail).out
    )


def test_the_log_may_name_an_array_otherwise() -> None:
    texts = [superblock(slot, "AAAA") for slot in range(4)]
    (finding,) = text_findings(LOG, *texts)  # The array of superblocks is named after them: nas:5
    assert finding.subject == "nas:5"
    (finding,) = text_findings("md/raid:md126: cannot start dirty degraded array.\n", *texts)
    assert finding.subject == "nas:5"


def test_only_the_array_that_was_asked_for(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(LOG + DISABLED + "md5 : active raid5 sda1[0] sdb1[1] sdc1[2]\n      blocks super 1.2 [3/3] [UUU]\n")
    done = run("md", "audit", mail, "--array", "md5")
    assert "sdd1: disk failure" in done.out
    assert "md0" not in done.out.split("Not seen")[0]


@given(data=st.data())
def test_no_log_makes_it_fail(data: st.DataObject) -> None:
    """Lines are dropped, doubled, moved and changed, next to superblocks."""
    lines = [*"".join((LOG, DISABLED, BOOT, TROUBLE, *OTHER_MESSAGES)).splitlines()]
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
                lines[position] = lines[position][:column] + junk + lines[position][column:]
    events = tuple(find_events(lines))
    for arrays in ((), (raid5("sda", "sdb", "sdc"), replace(raid5("sda1", "sdb1", "sdd1"), name="md5"))):
        for finding in check_log(Inventory(arrays, log=events)):
            assert finding.message
            assert 0 < len(finding.timeline) <= MOST_LINES


def test_a_log_with_many_names_gives_few_findings() -> None:
    log = "".join(f"md/raid1:md{number}: Disk failure on sda, disabling device.\n" for number in range(1000))
    assert len(list(check_log(Inventory((), log=tuple(find_events(log.splitlines())))))) == MOST_NAMES


def test_rescue_shows_the_log(run: Run, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(LOG + "".join(superblock(slot, "AAAA") for slot in (0, 1)))
    out = run("md", "rescue", mail).out
    assert "• kernel log: sdd1 was disabled; the log does not show why; sdb1 was kicked as non-fresh" in out
    assert "• 2024-03-03T11:00:00+0000 sdd1: disk failure, disabled" in out
    mail.write_text("[ 201.0] ata9: hard resetting link\n" + mail.read_text())
    assert "• ata9: kernel log: ata9 was reset once" in run("md", "rescue", mail).out.split("On other disks")[1]


def test_files_with_errors() -> None:
    array = raid5("sda", "sdb", "sdc", contents=(BlockContent(32 << 9, 8 << 9, "/dev/md0", "/srv/db/orders.ibd", 0),))
    (finding,) = audit(DISABLED, array)
    assert [content["path"] for part in finding.ranges for content in part["files"]] == ["/srv/db/orders.ibd"]
    assert find_log_ranges(Inventory((array,), software=SOFTWARE, log=tuple(find_events(DISABLED.splitlines())))) == {
        "md0": (SectorRange(32, 8),)
    }


def records(*messages: str) -> str:
    return "".join(f"4,{at},{at}000000,-;{line}\n" for at, line in enumerate(messages))


def test_the_log_of_this_host(machine: Arrays) -> None:
    machine.mirror()
    port = machine.roots.sys / "devices/pci0000:00/0000:00:17.0/ata3/host2/block/sdb"
    port.mkdir(parents=True)
    entry = machine.roots.sys / "block/sdb"
    target = entry.resolve()
    if entry.is_symlink():
        entry.unlink()
    else:
        entry.rename(target.with_name("sdb-moved"))
    entry.symlink_to(port)
    inventory = Inventory((array_of("raid1", 0, 2, {}),), software=SOFTWARE)
    read = Probe().read_kernel_log_with_moments
    unread = add_log(inventory, machine.roots, read)
    assert unread.unseen == (f"{machine.roots.dev}/kmsg: not seen: the kernel's log: run blklab as root",)
    (machine.roots.dev / "kmsg").write_text(records("ata3: hard resetting link", "md: md0: resync interrupted."))
    machine.proc("stat", "cpu 1 2\nbtime 1700000000\n")
    log = add_log(inventory, machine.roots, read).log
    assert log[1].clock == 1_700_000_001
    assert [(event.moment, event.device) for event in log] == [("[0.000000]", "sdb"), ("[1.000000]", "")]
    assert add_log(Inventory(()), machine.roots, read) == Inventory(())


def test_the_command_reads_the_log_of_this_host(machine: Arrays, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mirror()
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    (machine.roots.dev / "kmsg").write_text(records("md/raid1:md0: Disk failure on sdb, disabling device."))
    shown = run("md", "audit").out
    assert "md0: kernel log: sdb was disabled; the log does not show why [log]" in shown
    assert "            [0.000000] sdb: disk failure, disabled" in shown
    assert "kernel log" not in run("md", "audit", "--no-log").out
    (machine.roots.dev / "kmsg").unlink()
    assert "the kernel's log: run blklab as root" in run("md", "audit").out
    assert "kernel's log" not in run("md", "audit", "--no-log").out


def test_an_array_that_only_the_log_names(
    machine: Arrays, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.mirror()
    monkeypatch.setattr("blklab.cli.md.audit.Roots", lambda: machine.roots)
    (machine.roots.dev / "kmsg").write_text(records("md/raid1:md9: Disk failure on sdx, disabling device."))
    shown = run("md", "audit", "--array", "/dev/md9").out
    assert "md9: kernel log: sdx was disabled" in shown
    assert "md9: only the kernel's log has this name" in shown
    unknown = run("md", "audit", "--array", "md8")
    assert (unknown.status, "this host has no array md8" in unknown.err) == (2, True)
    text = tmp_path / "log.txt"
    text.write_text("[1.0] md/raid1:md9: Disk failure on sdx, disabling device.\n")
    shown = run("md", "audit", text, "--array", "md9").out
    assert "md9: kernel log: sdx was disabled" in shown
    assert "md9: only the kernel's log in the text has this name" in shown
    assert "the text has no array md8" in run("md", "audit", text, "--array", "md8").err


def test_the_option_is_about_this_host(run: Run, tmp_path: Path) -> None:
    done = run("md", "audit", "--no-log", "--image", tmp_path / "x.img")
    assert (done.status, "--no-log: works only on this host" in done.err) == (2, True)


def test_names_are_hostile() -> None:
    member = ArrayMember("sda", "/dev/sda")
    array = replace(raid5("sda", "sdb", "sdc"), members=(member,))
    assert "\x1b" not in message("md/raid:md0: Disk failure on sda, disabling device.\x1b[2J\n", array)
