"""Loads from the output of iostat and sar. Expected figures are added up by hand."""

from pathlib import Path
from typing import Any

import pytest

from blklab.advise.measured_activity import load_of_activity, read_reports
from blklab.advise.question import Load
from blklab.errors import UsageError

RECORDING = "tests/data/activity/iostat-12-xm.txt"
GERMAN = """\
$ LANG=de_DE iostat -xk 10 3
Linux 3.10.0 (host)  30.11.2021  _x86_64_  (4 CPU)

Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm %util
sda               0,00     0,02  900,00  900,00  9000,00  9000,00    52,53     0,00    0,88    0,53    1,29   0,52  0,01

Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm %util
sda               0,00     0,02   30,00   10,00   240,00    40,00    52,53     0,50    0,88    0,53    1,29   0,52  0,01
sda1              0,00     0,02   30,00   10,00   240,00    40,00    52,53     0,50    0,88    0,53    1,29   0,52  0,01

Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm %util
sda               0,00     0,02   90,00   70,00   720,00   280,00    52,53     1,50    0,88    0,53    1,29   0,52  0,01
sda1              0,00     0,02   90,00   70,00   720,00   280,00    52,53     1,50    0,88    0,53    1,29   0,52  0,01
$
"""
SAR = """\
Linux 5.10.0 (host)  11/30/21  _x86_64_  (4 CPU)

12:00:01 AM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
12:10:01 AM    dev8-0     10.00     60.00     20.00      0.00      8.00      0.10      1.00      1.00
12:10:01 AM    dev8-1     10.00     60.00     20.00      0.00      8.00      0.10      1.00      1.00
12:10:01 AM   dev8-16     20.00    100.00     60.00      0.00      8.00      0.20      1.00      1.00
12:20:01 AM    dev8-0     30.00    180.00     60.00      0.00      8.00      0.30      1.00      1.00
12:20:01 AM   dev8-16     40.00    220.00    100.00      0.00      8.00      0.40      1.00      1.00
Average:          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
Average:       dev8-0     99.00     99.00     99.00      0.00      8.00      0.10      1.00      1.00
"""
OLD_SAR = """\
00:00:01          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util
00:10:01       dev9-0     10.00    160.00      0.00     16.00      0.10      1.00      1.00      1.00
00:10:01       dev8-0     50.00    999.00    999.00     16.00      0.10      1.00      1.00      1.00
"""
PLAIN = """\
Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd
nvme0n1         100.00       400.00         0.00         0.00          1          1          0
nvme0n1p1       100.00       400.00         0.00         0.00          1          1          0
"""


def first_job(load: Load) -> dict[str, Any]:
    jobs: Any = load.table["jobs"]
    return dict(next(iter(jobs.values())))


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "activity.txt"
    file.write_text(text)
    return str(file)


def test_the_first_report_is_left_out_and_the_others_are_averaged() -> None:
    # md127: 0.98, 163.64, 99.00 and 83.00 reads; 0.98, 4.04, 6.00 and 5.00 writes.
    load = load_of_activity(RECORDING, None, None, 1)
    rate = (0.98 + 163.64 + 99 + 83 + 0.98 + 4.04 + 6 + 5) / 4
    assert load.rate == pytest.approx(rate)
    assert load.peak == pytest.approx(167.68 / rate)
    assert "md127" in load.source
    assert "the mean of 4 reports" in load.assumption
    assert "whether I/O is sequential" in load.assumption


def test_a_device_can_be_named() -> None:
    load = load_of_activity(RECORDING, "/dev/vda", None, 1)
    assert "vda" in load.source
    with pytest.raises(UsageError, match="no device 'sdx'"):
        load_of_activity(RECORDING, "sdx", None, 1)


def test_decimal_commas_prompts_and_partitions(tmp_path: Path) -> None:
    load = load_of_activity(write(tmp_path, GERMAN), None, 1 << 30, 1)
    assert load.rate == pytest.approx((40 + 160) / 2)
    assert load.peak == pytest.approx(1.6)
    job = first_job(load)
    # 60 of 100 are reads of 8 KiB; writes have 4 KiB.
    assert (job["rwmixread"], job["bs"], job["rw"]) == (60, "8192,4096", "randrw")
    assert load.span == 1 << 30
    assert "1 in flight" in load.assumption


def test_quoted_lines_of_a_mail(tmp_path: Path) -> None:
    quoted = "\n".join(f"> {line}" for line in GERMAN.splitlines())
    assert load_of_activity(write(tmp_path, quoted), None, None, 1).rate == pytest.approx(100)


def test_a_single_report_is_that_since_boot(tmp_path: Path) -> None:
    single = "\n\n".join(GERMAN.split("\n\n")[:2])
    load = load_of_activity(write(tmp_path, single), None, None, 1)
    assert load.rate == pytest.approx(1800)
    assert "since boot" in load.assumption
    assert load.peak is None


def test_sar_counts_reads_and_writes_together(tmp_path: Path) -> None:
    load = load_of_activity(write(tmp_path, SAR), None, None, 1)
    # sda and sdb together: 30 and 70 I/Os; 560 of 800 KiB are read.
    assert load.rate == pytest.approx(50)
    assert load.peak == pytest.approx(1.4)
    job = first_job(load)
    assert (job["rwmixread"], job["bs"]) == (70, "8192,8192")
    assert "reads and writes are not counted apart" in load.assumption


def test_arrays_come_before_their_disks(tmp_path: Path) -> None:
    load = load_of_activity(write(tmp_path, OLD_SAR), None, None, 1)
    assert load.rate == pytest.approx(10)
    job = first_job(load)
    assert (job["rw"], job["bs"]) == ("randread", "8192,4096")


def test_iostat_without_x(tmp_path: Path) -> None:
    reports = read_reports(Path(write(tmp_path, PLAIN + "\n" + PLAIN)))
    assert (reports.program, len(reports.reports), reports.since_boot) == ("iostat", 1, False)
    assert load_of_activity(write(tmp_path, PLAIN), None, None, 1).rate == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the output of `iostat -x` or `sar -d`"),
        ("hello\nworld 1 2 3\n", "expected the output of `iostat -x` or `sar -d`"),
        ("Device tps kB/s rqm/s\nsda 1.0 1.0 1.0\n", "no table with rates of reads and writes"),
        ("r/s w/s\n", "no table of iostat -x with a device"),
        (PLAIN.replace("100.00", "0.00"), "had no I/O"),
        (PLAIN.replace("nvme0n1", "loop0"), "choose a device with --device"),
    ],
)
def test_other_texts_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        load_of_activity(write(tmp_path, text), None, None, 1)
    assert "\n" not in str(error.value)


def test_absent_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_of_activity("/absent", None, None, 1)
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    with pytest.raises(UsageError, match="expected the output"):
        load_of_activity(str(tmp_path / "binary"), None, None, 1)
