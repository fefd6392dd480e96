"""The kernel's log as text: the forms in which people paste it, and what each message says."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.md import log_events
from blklab.md.kernel_log import parse_records
from blklab.md.log_events import EventKind, LogEvent, find_disk_name, find_events
from blklab.md.pasted.blocks import clean_lines

MESSAGES = """\
md: kicking non-fresh sdb1 from array!
md/raid:md5: device sda1 operational as raid disk 0
md/raid:md5: device sdc1 operational as raid disk 2
md/raid:md5: raid level 5 active with 2 out of 3 devices, algorithm 2
md/raid:md5: read error corrected (8 sectors at 266248 on sdc1)
md/raid:md5: read error not correctable (sector 300000 on sdc1).
md/raid1:md0: sdd: rescheduling sector 4096
md/raid1:md0: redirecting sector 4096 to other mirror: sde
md/raid10:md7: read correction write failed (8 sectors at 5000 on nvme0n1p2)
md/raid10:md7: nvme0n1p2: Raid device exceeded read_error threshold [cur 21:max 20]
md: super_written gets error=-5
md/raid10:md7: Disk failure on nvme0n1p2, disabling device.
md/raid10:md7: Operation continuing on 3 devices.
md/raid:md5: cannot start dirty degraded array.
md/raid:md5: failed to run raid set.
md/raid:md5: not enough operational devices (2/3 failed)
md: recovery of RAID array md5
md: md5: recovery interrupted.
md: md5: recovery done.
md5: bitmap file is out of date (7 < 9) -- forcing full recovery
md: sdf1 does not have a valid v1.2 superblock, not importing!
md: invalid raid superblock magic on sdg1
md: could not bdev lock sdh1
"""
KINDS = [
    EventKind.NON_FRESH, EventKind.MEMBER, EventKind.MEMBER, EventKind.STARTED, EventKind.READ_CORRECTED,
    EventKind.READ_LOST, EventKind.READ_FAILED, EventKind.READ_REDIRECTED, EventKind.WRITE_FAILED,
    EventKind.TOO_MANY_ERRORS, EventKind.SUPERBLOCK_UNWRITTEN, EventKind.DISABLED, EventKind.CONTINUING,
    EventKind.DIRTY_DEGRADED, EventKind.NOT_STARTED, EventKind.TOO_FEW, EventKind.SYNC_STARTED,
    EventKind.SYNC_INTERRUPTED, EventKind.SYNC_DONE, EventKind.BITMAP, EventKind.REJECTED, EventKind.REJECTED,
    EventKind.REJECTED,
]  # fmt: skip

BOOT = """\
[    1.500001] scsi host0: ahci
[    1.500002] scsi host1: ahci
[    1.500003] ata1: SATA max UDMA/133 abar m2048@0xf7c00000 port 0xf7c00100 irq 26
[    1.500004] ata2: SATA max UDMA/133 abar m2048@0xf7c00000 port 0xf7c00180 irq 26
[    1.900000] ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)
[    1.900001] ata5: SATA link down (SStatus 0 SControl 300)
[    1.900002] ata2: SATA link up 6.0 Gbps (SStatus 133 SControl 300)
[    2.100000] sd 0:0:0:0: [sda] 7814037168 512-byte logical blocks: (4.00 TB/3.64 TiB)
[    2.100001] sd 1:0:0:0: [sdb] 7814037168 512-byte logical blocks: (4.00 TB/3.64 TiB)
"""

TROUBLE = """\
[ 900.000001] ata2.00: exception Emask 0x10 SAct 0x4 SErr 0x400100 action 0x6 frozen
[ 900.000002] ata2: SError: { UnrecovData Handshk BadCRC }
[ 900.000003] ata2.00: failed command: WRITE FPDMA QUEUED
[ 900.000004] ata2.00: cmd 61/08:10:00:08:00/00:00:00:00:00/40 tag 2 ncq dma 4096 out
[ 900.000005]          res 40/00:00:00:00:00/00:00:00:00:00/00 Emask 0x4 (timeout)
[ 900.000006] ata2: hard resetting link
[ 902.000001] ata2: SATA link up 3.0 Gbps (SStatus 123 SControl 320)
[ 902.000002] ata2.00: exception Emask 0x0 SAct 0x4 SErr 0x0 action 0x0
[ 902.000003] ata2.00: error: { UNC }
[ 902.000004] sd 1:0:0:0: [sdb] tag#3 Sense Key : Medium Error [current]
[ 902.000005] blk_update_request: critical medium error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0
[ 902.000006] print_req_error: I/O error, dev sdb, sector 4096
[ 902.000007] ata2: limiting SATA link speed to 1.5 Gbps
[ 902.000008] ata2.00: qc timeout (cmd 0xec)
[ 902.000009] ata2: EH complete
[ 903.000001] ata2: SATA link down (SStatus 0 SControl 310)
[ 903.000002] ata2.00: disabled
"""

OTHERS = """\
nvme nvme0: I/O 123 QID 4 timeout, aborting
nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
nvme nvme0: Removing after probe failure status: -19
usb 2-1: USB disconnect, device number 3
usb 2-2: reset SuperSpeed USB device number 4 using xhci_hcd
sd 6:0:0:0: [sdx] tag#0 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK
sd 6:0:1:0: [sdy] tag#4 Sense Key : Hardware Error [current]
sd 6:0:1:0: rejecting I/O to offline device
"""


def events(text: str) -> list[LogEvent]:
    return find_events(clean_lines(text))


def values(text: str) -> list[tuple[object, ...]]:
    """Returns what events say, without their moments and texts."""
    found: list[tuple[object, ...]] = []
    for event in events(text):
        found.append((event.kind, event.array, event.device, event.port, event.sector, event.of_array, event.number))
    return found


FORMS = {
    "dmesg": "[38461.{number:06d}] {message}",
    "dmesg with priority": "<4>[38461.{number:06d}] {message}",
    "dmesg with a caller": "[38461.{number:06d}] [  T311] {message}",
    "dmesg -x": "kern  :warn  : [38461.{number:06d}] {message}",
    "dmesg -T": "[Sun Mar  3 03:12:{second:02d} 2024] {message}",
    "dmesg, ISO": "2024-03-03T03:12:{second:02d},{number:06d}+01:00 {message}",
    "journalctl": "Mar 03 03:12:{second:02d} nas kernel: {message}",
    "journalctl, ISO": "2024-03-03T03:12:{second:02d}+0100 nas kernel: {message}",
    "journalctl, monotonic": "[38461.{number:06d}] nas kernel: {message}",
    "syslog": "Mar  3 03:12:{second:02d} nas kernel: [38461.{number:06d}] {message}",
    "rsyslog": "2024-03-03T03:12:{second:02d}.{number:06d}+01:00 nas kernel: [38461.{number:06d}] {message}",
    "quoted by a mail": "> > [38461.{number:06d}] {message}",
    "bare": "{message}",
}


def write(form: str, messages: str) -> str:
    lines = [form.format(message=message, number=at, second=at) for at, message in enumerate(messages.splitlines())]
    return "Hello,\n\nthis happened:\n\n" + "\n".join(lines) + "\n\nThanks\n"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str) -> None:
    assert [event.kind for event in events(write(FORMS[form], MESSAGES))] == KINDS
    assert values(write(FORMS[form], MESSAGES)) == values(MESSAGES)
    assert values(write(FORMS[form], OTHERS)) == values(OTHERS)


def test_fields_of_messages() -> None:
    found = values(MESSAGES)
    assert found[0] == (EventKind.NON_FRESH, "md5", "sdb1", "", None, False, None)  # The array that starts next
    assert found[2] == (EventKind.MEMBER, "md5", "sdc1", "", None, False, 2)
    assert found[4] == (EventKind.READ_CORRECTED, "md5", "sdc1", "", 266_248, False, 8)
    assert found[5] == (EventKind.READ_LOST, "md5", "sdc1", "", 300_000, False, None)
    assert found[6] == (EventKind.READ_FAILED, "md0", "sdd", "", 4096, True, None)
    assert found[12] == (EventKind.CONTINUING, "md7", "", "", None, False, 3)
    assert events(MESSAGES)[16].action == "recovery"


def test_moments() -> None:
    (boot,) = events("[ 38.762338] md: kicking non-fresh sdb1 from array!")
    assert (boot.moment, boot.seconds, boot.clock) == ("[38.762338]", 38.762338, None)
    local = datetime(2024, 3, 3, 3, 12, 7, tzinfo=UTC).timestamp()  # As if it were UTC
    for text in ("2024-03-03T03:12:07+0100 nas kernel:", "2024-03-03 03:12:07 kernel:", "[Sun Mar  3 03:12:07 2024]"):
        (date,) = events(f"{text} md: kicking non-fresh sdb1 from array!")
        assert date.clock == date.seconds == local
    (day,) = events("Mar  3 03:12:07 nas kernel: md: kicking non-fresh sdb1 from array!")
    assert (day.clock, day.seconds is None) == (None, False)
    (wrong,) = events("Feb 31 03:12:07 nas kernel: md: kicking non-fresh sdb1 from array!")
    assert (wrong.moment, wrong.seconds) == ("Feb 31 03:12:07", None)


def test_old_messages() -> None:
    text = """\
raid5: device sdc1 operational as raid disk 2
raid5: not enough operational devices for md3 (2/3 failed)
raid5: failed to run raid set md3
raid1: Disk failure on sdb1, disabling device.
raid5:md3: read error corrected (8 sectors at 80 on sdc1)
end_request: I/O error, dev sdb, sector 63
"""
    assert [(event.kind, event.array) for event in events(text)] == [
        (EventKind.MEMBER, "md3"), (EventKind.TOO_FEW, "md3"), (EventKind.NOT_STARTED, "md3"), (EventKind.DISABLED, ""),
        (EventKind.READ_CORRECTED, "md3"), (EventKind.IO_ERROR, ""),
    ]  # fmt: skip


def test_lines_that_a_mail_wrapped() -> None:
    text = """\
> [38461.000001] md/raid:md5: read error corrected (8 sectors at 266248
> on sdc1)
> [38461.000002] md/raid:md5: Disk failure on sdc1, disabling
> device.
> [38461.000003] something else
> that is no message
"""
    kinds = [event.kind for event in events(text)]
    assert kinds == [EventKind.READ_CORRECTED, EventKind.DISABLED]


def test_messages_of_other_programs_are_none() -> None:
    text = """\
Mar 03 03:12:07 nas logger[12]: md/raid:md5: Disk failure on sdc1, disabling device.
Mar 03 03:12:07 nas smartd[7]: nvme nvme0: I/O 123 QID 4 timeout, aborting
I saw md/raid:md5: Disk failure on sdc1, disabling device.
"""
    assert events(text) == []


def test_ports_have_the_names_of_their_disks() -> None:
    found = [(event.kind, event.port, event.device) for event in events(BOOT + TROUBLE) if event.port == "ata2"]
    assert found == [
        (kind, "ata2", "sdb")
        for kind in (
            EventKind.LINK_UP, EventKind.TRANSFER_ERROR, EventKind.TIMED_OUT, EventKind.RESET, EventKind.LINK_UP,
            EventKind.MEDIUM_ERROR, EventKind.LINK_LIMITED, EventKind.TIMED_OUT, EventKind.VANISHED, EventKind.VANISHED,
        )
    ]  # fmt: skip
    assert "ata5" not in {event.port for event in events(BOOT + TROUBLE)}  # Nothing was ever there
    # Without the messages at boot, the disk is that with errors while only this port has some.
    assert {event.device for event in events(TROUBLE) if event.port == "ata2"} == {"sdb"}
    alone = [line for line in TROUBLE.splitlines() if "ata2" in line]
    assert {event.device for event in find_events(alone)} == {""}
    assert {event.device for event in find_events(alone, {"ata2": "sdk"})} == {"sdk"}
    # Two disks at one port, as behind a port multiplier: it is not known which.
    two = BOOT + "[    2.2] sd 1:1:0:0: [sdc] 7814037168 512-byte logical blocks\n" + "\n".join(alone)
    assert {event.device for event in events(two) if event.port == "ata2"} == {""}
    detached = "ata9.00: detaching (SCSI 8:0:0:0)\nsd 8:0:0:0: [sdq] Stopping disk\nata9: hard resetting link\n"
    assert {event.device for event in events(detached)} == {"sdq"}


def test_other_disks() -> None:
    assert [(event.kind, event.device or event.port) for event in events(OTHERS)] == [
        (EventKind.TIMED_OUT, "nvme0"), (EventKind.RESET, "nvme0"), (EventKind.VANISHED, "nvme0"),
        (EventKind.VANISHED, "usb 2-1"), (EventKind.RESET, "usb 2-2"), (EventKind.VANISHED, "sdx"),
        (EventKind.DISK_ERROR, "sdy"), (EventKind.VANISHED, "sdy"),
    ]  # fmt: skip
    stick = "scsi host9: usb-storage 2-1:1.0\nsd 9:0:0:0: [sdu] Attached SCSI disk\n" + OTHERS
    assert "sdu" in {event.device for event in events(stick)}


def test_tasks_that_are_blocked() -> None:
    head = "INFO: task md5_raid5:311 blocked for more than 120 seconds.\n"
    (own,) = events(head)
    assert (own.kind, own.array, own.number) == (EventKind.HUNG, "md5", 120)
    other = head.replace("md5_raid5", "jbd2/md5p1-8")
    assert events(other) == []
    (waits,) = events(other + "      Not tainted 6.1.0\nCall Trace:\n md_write_start+0x1a3/0x240 [md_mod]\n")
    assert (waits.kind, waits.array) == (EventKind.HUNG, "")
    assert events(other + "Call Trace:\n schedule+0x1\n" * 50 + " md_write_start+0x1a3/0x240\n") == []


def test_names_of_disks() -> None:
    names = {"sda3": "sda", "sdab12": "sdab", "nvme0n1p2": "nvme0n1", "nvme0n1": "nvme0n1", "dm-5": "dm-5",
             "loop6": "loop6", "mmcblk0p1": "mmcblk0", "md127p1": "md127", "": ""}  # fmt: skip
    assert {name: find_disk_name(name) for name in names} == names


def test_records_of_the_kernel_have_their_time() -> None:
    content = b"6,1024,38762338,-;md: md2 stopped.\n SUBSYSTEM=block\n30,1025,38762339,-;md: of a program\n"
    assert parse_records(content) == ["md: md2 stopped."]
    assert parse_records(content, with_moments=True) == ["[   38.762338] md: md2 stopped."]


ALL = write(FORMS["syslog"], MESSAGES) + BOOT + TROUBLE + OTHERS


@given(data=st.data())
def test_no_text_makes_it_fail(data: st.DataObject) -> None:
    """Lines are dropped, doubled, cut and changed."""
    lines = ALL.splitlines()
    for _ in range(data.draw(st.integers(1, 12))):
        position = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                del lines[position]
            case 1:
                lines.insert(position, lines[data.draw(st.integers(0, len(lines) - 1))])
            case 2:
                lines[position] = lines[position][: data.draw(st.integers(0, 60))]
            case _:
                column = data.draw(st.integers(0, len(lines[position])))
                junk = data.draw(st.text(max_size=8) | st.integers(0, 1 << 70).map(str))
                lines[position] = lines[position][:column] + junk + lines[position][column:]
    for event in find_events(clean_lines("\n".join(lines))):
        assert event.text


@given(st.text(), st.sampled_from(["", "md/raid:", "ata1: ", "sd 0:0:0:0: ", "INFO: task ", "nvme nvme0: I/O "]))
def test_no_line_makes_it_fail(text: str, head: str) -> None:
    find_events(clean_lines(head + text))


@pytest.mark.parametrize(
    "line",
    ["a" * 80, "md/raid:" + "a" * 80, "ata1: " + "a " * 60, "[" + "1" * 80, "md: " + "md0: " * 20, "x error, dev "],
)
def test_work_grows_with_the_number_of_lines(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is looked at twice at most: alone, and joined with the next one."""
    counts = {"calls": 0, "characters": 0}
    parse = log_events.parse_message

    def count(one: log_events.LogLine) -> LogEvent | None:
        counts["calls"] += 1
        counts["characters"] += len(one.message)
        return parse(one)

    monkeypatch.setattr(log_events, "parse_message", count)
    lines = (1 << 20) // len(line)
    assert find_events([line] * lines) == []
    assert counts["calls"] <= 2 * lines
    assert counts["characters"] <= 2 * lines * log_events.MOST_CHARACTERS
    counts["characters"] = 0
    assert find_events([line * lines]) == []  # One long line is cut
    assert counts["characters"] <= 2 * log_events.MOST_CHARACTERS


def test_only_the_newest_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_events, "MOST_EVENTS", 3)
    text = "".join(f"[{second}.0] md: kicking non-fresh sdb1 from array!\n" for second in range(10))
    assert [event.moment for event in events(text)] == ["[7.0]", "[8.0]", "[9.0]"]


@pytest.mark.parametrize(
    ("date", "clock"),
    [
        ("[Mo Mär  4 03:12:07 2024]", 1709521927.0), ("[lun. mars   4 03:12:07 2024]", 1709521927.0),
        ("[lun mar  4 03:12:07 2024]", 1709521927.0), ("[ven. déc. 20 03:12:07 2024]", 1734664327.0),
        ("[Fr Dez 20 03:12:07 2024]", 1734664327.0), ("[Di Okt  1 03:12:07 2024]", 1727752327.0),
        ("[jeu. août   1 03:12:07 2024]", 1722481927.0), ("[Xx Yyy  4 03:12:07 2024]", None),
    ],
)  # fmt: skip
def test_dates_of_other_languages(date: str, clock: float | None) -> None:
    (event,) = find_events([f"{date} md/raid1:md0: Disk failure on sdb, disabling device."])
    assert (event.array, event.clock, event.moment) == ("md0", clock, date.strip("[]"))
    short = date.strip("[]").partition(" ")[2].removesuffix(" 2024").strip()
    (event,) = find_events([f"{short} nas kernel: md/raid1:md0: Disk failure on sdb, disabling device."])
    assert (event.array, event.moment) == ("md0", short)


def test_a_date_that_cannot_be_read_does_not_hide_the_message() -> None:
    (event,) = find_events(["[一 3月  4 03:12:07 2024] md/raid1:md0: Disk failure on sdb, disabling device."])
    assert (event.array, event.clock) == ("md0", None)
