"""`iostat -x` of sysstat 9 to 12, with figures summed by hand."""

from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.store.series import JOBS
from tests.importers.conftest import DATA, imported, outcome, runs


def test_version_9_with_times() -> None:
    batch, notes = imported(DATA / "form-iostat-9.txt")
    assert notes == [f"{DATA}/form-iostat-9.txt:4: the first report covers the time since boot: skipped"]
    ((labels, run),) = runs(batch)
    assert batch.plan.runner == "iostat"
    assert labels == {"device": "sda", "workload": "iostat", "repeat": "1"}
    assert run.runtime_ns == 10 * 10**9
    # Two reports of 5 s each: 100 and 300 reads/s, 50 and 0 writes/s.
    assert (run.read.total_ios, run.write.total_ios) == (2000, 250)
    assert (run.read.iops, run.write.iops) == (200, 25)
    assert run.read.io_bytes == (800 + 2400) * 5 * 512
    # `await` is of reads and writes together: (500 * 10 + 1500 * 20) / 2000 ms.
    assert run.read.clat_ns.mean == 17.5e6
    assert run.write.clat_ns.mean == 10e6
    assert run.read.clat_ns.p99 is None
    (disk,) = run.devices
    assert (disk.ios, disk.merges, disk.sectors) == ([2000, 250], [10, 20], [16000, 4000])
    assert disk.ticks_ns == [500 * 10**7 + 1500 * 2 * 10**7, 250 * 10**7]
    assert disk.busy_ns == 4_500_000_000 + 5_000_000_000
    assert disk.queue_ns == 7_500_000_000 + 30_000_000_000
    assert (disk.flushes, disk.discards, disk.leaf) == (None, None, True)
    assert run.cpu == pytest.approx({"user": 0.15, "system": 0.1, "iowait": 0.25, "irq": 0, "idle": 0.5})
    points = batch.finished_runs[batch.plan.cells[0].key].points
    assert [(p.source, p.time_ns, p.width_ns, p.read_ios) for p in points] == [
        (JOBS, 0, 5 * 10**9, 500),
        (JOBS, 5 * 10**9, 5 * 10**9, 1500),
        ("sda", 0, 5 * 10**9, 500),
        ("sda", 5 * 10**9, 5 * 10**9, 1500),
    ]
    assert (points[0].read_clat_ns, points[1].write_clat_ns) == (10e6, None)


def test_decimal_commas_and_reports_without_rows() -> None:
    batch, notes = imported(DATA / "form-iostat-11-comma.txt")
    assert len(notes) == 1
    ((_, run),) = runs(batch)
    # Three seconds by the command line, in the second of which nothing was done.
    assert run.runtime_ns == 3 * 10**9
    assert (run.read.total_ios, run.write.total_ios) == (12, 2)
    assert run.read.io_bytes == 1 << 19
    assert run.read.clat_ns.mean == (8 * 1.25e6 + 4 * 2e6) / 12
    assert run.cpu is None
    reads = [p.read_ios for p in batch.finished_runs[batch.plan.cells[0].key].points if p.source == JOBS]
    assert reads == [8, 0, 4]


def test_version_12_over_midnight_with_an_array() -> None:
    run = outcome(DATA / "form-iostat-12.txt")  # iostat -y: the first report counts
    assert run.runtime_ns == 4 * 10**9
    assert run.groups[0].name == "md0"
    assert (run.read.total_ios, run.write.total_ios) == (6000, 1000)
    assert run.read.clat_ns.mean == (2000 * 2e6 + 4000 * 5e6) / 6000
    array, item, other, part = run.devices
    assert [d.kind for d in run.devices] == ["md", "disk", "disk", "partition"]
    assert [d.leaf for d in run.devices] == [False, True, True, False]
    assert (item.ios, other.ios, part.ios) == ([3200, 1000], [2800, 1000], [2800, 1000])
    assert (item.flushes, item.flush_ns, array.discards) == (4, 6_000_000, 20)


def test_another_device() -> None:
    run = outcome(DATA / "form-iostat-12.txt", device="sda")
    assert run.read.total_ios == 3200
    with pytest.raises(BlklabError, match="no device 'sdz'; it has md0, sda, sdb, sdb1"):
        imported(DATA / "form-iostat-12.txt", device="sdz")


def test_a_single_report_is_of_the_time_since_boot() -> None:
    with pytest.raises(BlklabError, match="only one report, which covers the time since boot"):
        imported(DATA / "iostat-3.10.txt")


def test_recorded_reports() -> None:
    # MB/s, and the lone report taken for one of 10 s.
    old = outcome(DATA / "iostat-3.10.txt", device="sda", keep_first=True, interval_ns=10**10)
    assert (old.read.total_ios, old.write.total_ios) == (1, 1)
    assert [d.kind for d in old.devices] == ["disk", "dm", "dm"]
    new = outcome(DATA / "iostat-4.15.txt", device="sda", keep_first=True, interval_ns=10**11)
    assert (new.read.total_ios, new.write.total_ios) == (12792, 6715)
    assert new.read.io_bytes == round(8595.16 * 1024 * 100)
    assert new.write.clat_ns.mean == pytest.approx(6.93e6)
    assert (new.cpu or {})["idle"] == pytest.approx(0.1751)
    with pytest.raises(BlklabError, match="3 devices: select one with --device: fd0, sda, scd0"):
        imported(DATA / "iostat-4.15.txt", keep_first=True)


@pytest.mark.parametrize(
    "times",
    [
        ["Time: 11:59:55 AM", "Time: 12:00:00 PM", "Time: 12:00:05 PM"],
        ["11:59:55 PM", "12:00:00 AM", "12:00:05 AM"],
        ["21.11.2026 23:59:55", "22.11.2026 00:00:00", "22.11.2026 00:00:05"],
        ["21/11/26 15:40:06", "21/11/26 15:40:11", "21/11/26 15:40:16"],
        ["2026年11月21日 15时40分06秒", "2026年11月21日 15时40分11秒", "2026年11月21日 15时40分16秒"],
        [f"2026年11月21日 午後03時40分{second}秒" for second in ("06", "11", "16")],
        ["11/21/2026 03:40:06 PM CET", "11/21/2026 03:40:11 PM CET", "11/21/2026 03:40:16 PM CET"],
    ],
)
def test_times_in_many_locales(tmp_path: Path, times: list[str]) -> None:
    content = (DATA / "form-iostat-9.txt").read_text().replace("$ iostat -xk -t 5\n", "")
    for old, new in zip(
        ["05/09/2019 11:59:55 AM", "05/09/2019 12:00:00 PM", "05/09/2019 12:00:05 PM"], times, strict=True
    ):
        assert old in content
        content = content.replace(old, new)
    path = tmp_path / "iostat.txt"
    path.write_text(content)
    assert outcome(path).runtime_ns == 10 * 10**9


def test_without_any_time_a_second_is_assumed_and_said(tmp_path: Path) -> None:
    lines = (DATA / "form-iostat-9.txt").read_text().splitlines()
    path = tmp_path / "iostat.txt"
    path.write_text("\n".join(x for x in lines if "05/09" not in x and not x.startswith("$")))
    batch, notes = imported(path)
    assert any("assuming one report per second (--interval)" in note for note in notes)
    assert runs(batch)[0][1].runtime_ns == 2 * 10**9
    assert outcome(path, interval_ns=5 * 10**9).runtime_ns == 10**10


def test_colours_and_human_units(tmp_path: Path) -> None:
    path = tmp_path / "iostat.txt"
    path.write_text(
        "$ iostat -xhy 2\n"
        "\x1b[1mLinux 6.1.0 (host)\x1b[0m\n\n"
        "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n"
        "  \x1b[32;22m 100.00\x1b[0m    1.5M     0.00   0.0%    2.00    16.0k sda\n\n"
        "     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device\n"
        "   50.00    200.0k     1.00   2.0%    4.00     4.0k sda\n\n"
        "     f/s f_await  aqu-sz  %util Device\n"
        "    0.00    0.00    0.40  12.0% sda\n"
    )
    run = outcome(path)
    assert (run.read.total_ios, run.write.total_ios) == (200, 100)
    assert (run.read.io_bytes, run.write.io_bytes) == (3 << 20, 400 << 10)
    assert run.devices[0].busy_ns == 240_000_000


def test_rows_without_a_header_between_them(tmp_path: Path) -> None:
    header = "Device: rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await svctm %util\n"
    path = tmp_path / "grepped.txt"
    path.write_text(header + "sda 0 0 7 0 1 0 8 0 1 1 1\n" + "sda 0 0 5 0 1 0 8 0 1 1 1\n" * 2)
    assert outcome(path).read.total_ios == 10


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    content = (DATA / "form-iostat-9.txt").read_text().replace("300.00    0.00  2400", "300.00 2400")
    path = tmp_path / "iostat.txt"
    path.write_text(content)
    with pytest.raises(BlklabError, match=r"iostat\.txt:23: found 'sda .* expected a device and 11 figures"):
        imported(path)


def test_rows_without_a_device_column(tmp_path: Path) -> None:
    path = tmp_path / "iostat.txt"
    head = "Device  r/s  w/s  rkB/s  wkB/s  await  %util"
    path.write_text(f"{head}\n10.0 0.0 40.0 0.0 1.0 5.0\n20.0 0.0 80.0 0.0 1.0 9.0\n")
    run = outcome(path, keep_first=True)
    # Rows below the only header are intervals.
    assert (run.read.total_ios, run.runtime_ns) == (30, 2 * 10**9)
    path.write_text(f"{head}\n10.0 0.0 40.0 0.0 1.0 5.0\n20.0 0.0 80.0 0.0 1.0 9.0\n\n" * 2)
    run = outcome(path, keep_first=True, device="unnamed-2")
    assert run.read.total_ios == 40


def bare_line(reads: float, writes: float, *, with_directions: bool) -> str:
    """A line of `iostat -mx | grep sda` with I/Os of 16 KiB."""
    read_mb, write_mb = (rate * 16 / 1024 for rate in (reads, writes))
    awaits = "20.00 22.00 10.00" if with_directions else "20.00"
    figures = f"{reads:.2f} {writes:.2f} {read_mb:.2f} {write_mb:.2f} 32.00 2.40 {awaits} 4.10 55.00"
    return f"sda   0.00  1.20 {figures}\n"


@pytest.mark.parametrize("with_directions", [False, True])
def test_a_series_of_one_device_without_headings(tmp_path: Path, with_directions: bool) -> None:
    path = tmp_path / "cfq.txt"
    rates = [(1, 1), (100, 20), (110, 30), (90, 10)]
    path.write_text("".join(bare_line(*rate, with_directions=with_directions) for rate in rates))
    batch, notes = imported(path)
    assert notes[0].startswith(
        f"{path}: no headings: taken for rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await "
    )
    ((_, run),) = runs(batch)
    assert (run.read.iops, run.write.iops) == (100, 20)
    assert run.read.bw_bytes == pytest.approx(100 << 14, rel=0.01)
    assert run.read.clat_ns.mean == (22e6 if with_directions else 20e6)


@pytest.mark.parametrize(
    "lines",
    [
        "sda 1 2 3 4 5 6 7 8 9 10 11\n" * 5,  # Sizes that are not those of the bytes
        bare_line(100, 20, with_directions=False) * 2,  # Too few
        "sda 0 0 0 0 0 0 0 0 0 0 0\n" * 5,
        bare_line(100, 20, with_directions=False) * 3 + bare_line(100, 20, with_directions=False).replace("sda", "sdb"),
    ],
)
def test_lines_that_are_not_those_of_iostat_are_not_guessed(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text(lines)
    with pytest.raises(BlklabError, match="unknown format"):
        imported(path)
