"""fio's normal output: every version's, as fio wrote it and as terminals and mails left it."""

import json
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import BlklabError
from blklab.fio import output, text
from blklab.fio.latency import QUANTILES
from blklab.outcome import Outcome
from tests.fio.conftest import DATA as RECORDED
from tests.fio.conftest import recorded

DATA = Path(__file__).parents[1] / "data" / "imports"
SAMPLES = sorted(DATA.glob("*fio*.txt"))


def sample(name: str) -> str:
    return (DATA / name).read_text()


def outcomes(content: str) -> list[Outcome]:
    return [item for run in text.parse_runs(content) for item in run.outcomes()]


def test_three_runs_in_one_text() -> None:
    runs = text.parse_runs(sample("fio-3.25.txt"))
    assert [run.line for run in runs] == [1, 37, 75]
    slog, raw, odd = (run.outcomes()[0] for run in runs)
    assert slog.fio is not None
    assert slog.fio.version == "fio-3.25"
    assert slog.fio.usr_cpu == 2.99
    assert slog.fio.ctx == 11253
    assert slog.runtime_ns == 1173 * 10**6
    assert slog.read.total_ios == 0
    assert slog.read.clat_ns.mean is None
    write = slog.write
    assert (write.total_ios, write.io_bytes) == (5632, 5632 * 4096)
    assert write.iops == 5632 * 1000 / 1173
    latency = write.clat_ns
    assert (latency.min, latency.max) == (10519, 57976)
    assert (latency.mean, latency.stddev) == (13462.14, 2609.65)
    # As printed: the last is above the maximum, the middle of fio's bucket.
    assert (latency.p1, latency.p50, latency.p99_99) == (11584, 12608, 58112)
    assert latency.p25 is None
    assert slog.devices == []

    assert raw.write.iops == 5632 * 1000 / 302  # not 18.6k
    assert raw.write.clat_ns.p99_9 == 49_000  # clat's, not sync's
    (disk,) = raw.devices
    assert (disk.name, disk.ios, disk.merges) == ("nvme1n1", [0, 2568], [0, 0])
    assert (disk.ticks_ns, disk.queue_ns) == ([0, 103 * 10**6], 103 * 10**6)
    assert (disk.sectors, disk.leaf, disk.above) == ((), True, [])
    assert disk.busy_ns == pytest.approx(0.5763 * 302 * 10**6, abs=1)

    # fio prints 21.0MiB for 21.998: the count is right.
    assert odd.write.io_bytes == 10029 * 2300
    assert odd.write.clat_ns.p99 is None


def test_version_2_0() -> None:
    (run,) = outcomes(sample("form-fio-2.0.txt"))
    assert run.fio is not None and run.fio.version == "2.0.8"
    assert run.job_options["iometer"] == {
        "rw": "randrw",
        "bsrange": "512-65536",
        "ioengine": "libaio",
        "iodepth": "64",
        "numjobs": "1",
    }
    read, write = run.read, run.write
    assert (read.total_ios, read.iops) == (120048, 120048 / 160)
    assert (read.io_bytes, read.bw_bytes) == (320000 * 1024, 2000 * 1024)
    assert read.clat_ns.min == 636_000
    assert read.clat_ns.max == 2_125_200_000
    assert read.clat_ns.mean == 67824.56e3
    assert (read.clat_ns.p1, read.clat_ns.p99_99) == (11 * 10**6, 1483 * 10**6)
    assert (write.total_ios, write.bw_bytes) == (30010, 524800)
    assert (write.clat_ns.min, write.clat_ns.mean) == (10**6, 75.01e6)
    assert write.clat_ns.p50 is None
    assert run.devices[0].ios == [120040, 30022]


def test_clones_and_groups_and_an_array_of_version_2() -> None:
    clones, mixed = outcomes(sample("form-fio-2.16-md.txt"))
    assert [group.name for group in clones.groups] == ["randread"]
    assert clones.job_options["randread"]["numjobs"] == "2"
    assert clones.read.total_ios == 200010
    assert clones.read.io_bytes == 200010 * 4096
    assert clones.read.iops == 10000 + 100010 * 1000 / 10001
    assert clones.read.clat_ns.mean == pytest.approx(3000.5e3)
    assert clones.read.clat_ns.p50 is None  # of two jobs, it cannot be known
    assert clones.runtime_ns == 10001 * 10**6
    assert mixed.job_options["mixed"]["bs"] == "65536,8192"
    assert (mixed.read.io_bytes, mixed.write.io_bytes) == (3000 << 16, 1000 << 13)
    array, item, other = clones.devices
    assert (array.name, array.kind, array.leaf) == ("md0", "md", False)
    assert (array.ios, array.above) == ([203010, 1000], [])
    assert (item.name, item.leaf, item.above) == ("sda", True, ["md0"])
    assert (other.ios, other.ticks_ns) == ([101510, 1000], [320 * 10**9, 19 * 10**8])


def test_suffixes_and_sectors_of_version_3() -> None:
    (run,) = outcomes(sample("form-fio-3.36.txt"))
    read, write = run.read, run.write
    assert read.iops == 1812000 * 1000 / 60001
    assert write.total_ios == 605000
    assert read.clat_ns.max == 2_036_700
    assert (read.clat_ns.p1, read.clat_ns.p99_99) == (63_000, 396_000)
    assert (write.clat_ns.p1, write.clat_ns.mean) == (30_016, 55_250)
    assert run.job_options["randread"]["numjobs"] == "2"
    assert run.warnings == [
        "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1"
    ]
    assert run.devices[0].sectors == [14488000, 4832000]
    assert run.devices[1].merges == [0, 250]


def test_without_counts_figures_are_as_printed() -> None:
    content = re.sub(r".*issued.*\n", "", sample("form-fio-3.36.txt"))
    (run,) = outcomes(content)
    assert (run.read.iops, run.read.total_ios) == (30200, 1812030)
    assert (run.read.io_bytes, run.read.bw_bytes) == (7078 << 20, 118 << 20)


def test_counts_that_contradict_are_not_believed() -> None:
    content = sample("form-fio-3.36.txt").replace("total=1812000,", "total=1200000,")
    (run,) = outcomes(content)
    assert run.read.iops == 30200
    assert run.write.iops == 605000 * 1000 / 60001


def test_decimal_units_of_kb_base_1000() -> None:
    content = re.sub(r".*issued.*\n", "", sample("form-fio-3.36.txt"))
    content = content.replace("BW=118MiB/s (124MB/s)(7078MiB/", "BW=124MB/s (118MiB/s)(7422MB/")
    (run,) = outcomes(content)
    assert (run.read.io_bytes, run.read.bw_bytes) == (7422 * 10**6, 124 * 10**6)


# --- what terminals and mails do to it -----------------------------------------------------------


def folded(content: str, width: int) -> str:
    """Cuts every line at a width, as a terminal does."""
    return "\n".join(
        "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width)) for line in content.split("\n")
    )


def wrapped(content: str) -> str:
    """Breaks long lines at blanks before column 78, as a mail program does."""
    result = []
    for whole in content.split("\n"):
        line = whole
        while len(line) > 78 and (at := line.rfind(" ", 60, 78)) > 0:
            result.append(line[:at])
            line = line[at + 1 :]
        result.append(line)
    return "\n".join(result)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("how", ["folded", "mail", "quoted", "crlf", "coloured"])
def test_the_terminals_doing_is_undone(path: Path, how: str) -> None:
    content = path.read_text()
    changed = {
        "folded": lambda: folded(content, 80),
        "mail": lambda: wrapped(content),
        "quoted": lambda: "\n".join(f"> {line}" for line in content.split("\n")),
        "crlf": lambda: content.replace("\n", "\r\n"),
        "coloured": lambda: re.sub(r"(\d+)", "\x1b[1;32m\\1\x1b[0m", content),
    }[how]()
    plain, result = outcomes(content), outcomes(changed)
    for run in (*plain, *result):
        run.warnings = []
    assert result == plain


def test_progress_run_together_with_results() -> None:
    content = sample("fio-3.25.txt").replace(
        "Jobs: 1 (f=1)\n",
        "Jobs: 1 (f=1): [W(1)][10.3%][w=40.3MiB/s][w=10.3k IOPS][eta 01m:44s"
        "Jobs: 1 (f=1): [W(1)][100.0%][w=436KiB/s][w=109 IOPS][eta 00m:00s]\r   \r",
    )
    assert outcomes(content)[0].groups[0].name == "mytest"
    assert outcomes(content) == outcomes(sample("fio-3.25.txt"))


def test_of_status_intervals_the_last_counts() -> None:
    content = sample("form-fio-3.36.txt")
    start = content.index("randread: (groupid")
    twice = content[:start] + content[start:].replace("1812000", "900000", 1) + content[start:]
    (run,) = text.parse_runs(twice)
    assert run.outcomes()[0].read.total_ios == 1812000


def test_what_was_pasted_before_a_header_does_not_hide_it() -> None:
    content = "2 1=====" + sample("fio-3.25.txt")
    assert outcomes(content)[0].job_options["mytest"]["bs"] == "4096"


# --- failures ------------------------------------------------------------------------------------


def test_a_run_that_failed_has_no_outcome() -> None:
    content = sample("form-fio-3.36.txt").replace(
        "err= 0:", "err= 5 (file:io_u.c:1234, func=io_u error, error=Input/output error):"
    )
    (run,) = text.parse_runs(content)
    with pytest.raises(BlklabError, match=r"^line 9: job 'randread' failed: err=5 \(file:io_u"):
        run.outcomes()


def test_trims_alone_are_no_result() -> None:
    content = (
        "t: (g=0): rw=trim, bs=(R) 4096B-4096B, ioengine=sync, iodepth=1\n"
        "t: (groupid=0, jobs=1): err= 0: pid=1: Mon Jan  1 00:00:00 2024\n"
        "  trim: IOPS=4, BW=16KiB/s (17kB/s)(16.0KiB/1000msec); 0 zone resets\n"
        "     issued rwts: total=0,0,4,0 short=0,0,0,0 dropped=0,0,0,0\n"
    )
    with pytest.raises(BlklabError, match="only 4 trims"):
        outcomes(content)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_text_that_was_cut_off_has_no_wrong_run(path: Path) -> None:
    """At any position: a run is as in the whole text (except the disks at its end), or left out."""
    content = path.read_text()
    whole = {run.line: run.outcomes() for run in text.parse_runs(content)}
    rows = content.splitlines(keepends=True)
    left_out = 0
    for count in range(len(rows)):
        for run in (result := text.parse_runs("".join(rows[:count]))):
            try:
                outcomes_ = run.outcomes()
            except BlklabError as error:
                assert str(error).endswith("the text is truncated")
                assert run is result[-1]
                left_out += 1
                continue
            assert len(outcomes_) == len(whole[run.line])
            for item, known in zip(outcomes_, whole[run.line], strict=True):
                disks = len(item.devices)
                names = [[disk.name for disk in each.devices][:disks] for each in (item, known)]
                assert names[0] == names[1]
                for key in ("read", "write", "groups", "runtime_ns"):
                    assert getattr(item, key) == getattr(known, key)
                for key in ("version", "options", "usr_cpu", "ctx"):
                    assert getattr(item.fio, key) == getattr(known.fio, key)
    assert left_out > 10


def test_a_direction_that_is_missing_is_no_zero() -> None:
    content = sample("form-fio-3.36.txt")
    without = content[: content.index("  write:")] + content[content.index("  lat (nsec) ") :]
    uncounted = re.sub(r".*issued.*\n", "", without)
    for broken in (without, uncounted, without + content):
        with pytest.raises(BlklabError, match=r"^line 2: the line about what job 'randread' wrote is missing"):
            outcomes(broken)


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ("IOPS=4801", "IOPS=many", "line 6: found 'write: IOPS=many, BW=18.8MiB/s (19.7MB/s)(22."),
        ("IOPS=4801", "IOPS=4.8.0.1", "line 6: found '4.8.0.1', expected a number"),
        ("min=10519", "min=low", "line 7: found 'clat (nsec): min=low, max=57976, avg=13462."),
        ("merge=0/0, ", "", "line 72: found 'nvme1n1: ios=0/2568, ticks=0/103, in_queue=103,"),
        ("rw=write,", "", "line 1: found 'mytest: (g=0):  bs=(R) 4096B-4096B"),
    ],
)
def test_broken_lines_are_named(old: str, new: str, output: str) -> None:
    with pytest.raises(BlklabError) as caught:
        text.parse_runs(sample("fio-3.25.txt").replace(old, new, 1))
    assert str(caught.value).startswith(output)
    assert "expected" in str(caught.value)


@given(
    st.sampled_from([path.read_text() for path in SAMPLES]),
    st.floats(0, 1),
    st.integers(0, 200),
    st.text(max_size=30),
    st.booleans(),
)
def test_mangled_output_never_crashes(content: str, place: float, length: int, new: str, again: bool) -> None:
    at = round(place * len(content))
    broken = content[:at] + new + content[at + length :] + (content if again else "")
    try:
        result = [item.as_document() for item in outcomes(broken)]
    except BlklabError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(
    "line",
    [
        "x" * 200_000,
        "x: (g=" * 50_000,
        "Jobs: 1 (f=1): [" * 20_000,
        "read: IOPS=" * 20_000,
        "clat percentiles (" * 20_000,
        "sda: ios=1/2, " * 20_000,
        "> " * 100_000,
        "\x1b[1" * 60_000,
    ],
)
def test_long_lines_are_soon_read(line: str) -> None:
    assert text.parse_runs("\n".join([line] * 3)) == []


# --- and JSON ------------------------------------------------------------------------------------


def agree(content: str, document: Any) -> None:
    """Asserts that text and JSON of one run say the same, as far as text is precise."""
    text, known = ([asdict(item) for item in items] for items in (outcomes(content), output.outcomes(document)))
    assert len(text) == len(known)
    for item, other in zip(text, known, strict=True):
        assert item["runtime_ns"] == other["runtime_ns"]
        assert [group["name"] for group in item["groups"]] == [group["name"] for group in other["groups"]]
        for disk, exact_disk in zip(item["devices"], other["devices"], strict=True):
            # Hundredths of a per cent.
            assert disk.pop("busy_ns") == pytest.approx(exact_disk.pop("busy_ns"), abs=item["runtime_ns"] / 10_000)
            assert disk == exact_disk
        for direction in ("read", "write"):
            text_way, json_way = dict(item[direction]), dict(other[direction])
            times, exact = text_way.pop("clat_ns"), json_way.pop("clat_ns")
            # Of several sizes, the bandwidth is as printed: three digits or four.
            bandwidth = json_way.pop("bw_bytes")
            assert text_way.pop("bw_bytes") == pytest.approx(bandwidth, rel=1 / 200)
            assert text_way == pytest.approx(json_way)
            assert times["count"] == exact["count"]
            if not exact["count"]:
                continue
            # Whole µs; five digits of an avg= with a suffix. Percentiles are in ns unless one of
            # them is 100 µs or more, and then perhaps in µs (stat.c, show_clat_percentiles).
            step = 1 if exact["max"] < 100_000 else 1000
            assert times["mean"] == pytest.approx(exact["mean"], rel=1e-4, abs=10)
            assert times["stddev"] == pytest.approx(exact["stddev"], rel=1e-3, abs=10)
            assert times["min"] == pytest.approx(exact["min"], abs=1000)
            assert times["max"] == pytest.approx(exact["max"], rel=1e-3, abs=1000)
            for name in QUANTILES:
                if times[name] is not None:
                    assert times[name] == pytest.approx(exact[name], rel=1 / 64, abs=step)


def test_text_agrees_with_the_json_of_the_same_run() -> None:
    agree(sample("fio-3.33.txt"), output.parse_document((DATA / "fio-3.33.json").read_text()))


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")
def test_the_fio_that_is_installed_agrees_with_itself(tmp_path: Path) -> None:
    job = (DATA / "fio-3.33.fio").read_text()
    for old, new in {"ioengine=libaio": "ioengine=psync", "direct=1": "filename=file"}.items():
        assert old in job
        job = job.replace(old, new)
    (tmp_path / "job.fio").write_text(job)
    subprocess.run(["fio", "--output-format=normal,json+", "--output=both", "job.fio"], cwd=tmp_path, check=True)
    content = (tmp_path / "both").read_text()
    agree(content, output.parse_document(content))


def test_fsync_latency_is_that_of_the_json() -> None:
    (outcome,) = outcomes((RECORDED / "sync.txt").read_text())
    exact = output.outcome(recorded("sync.json"))
    # fio 3.33 prints the number of fsyncs where the short reads belong.
    assert outcome.sync is not None and exact.sync is not None
    assert outcome.sync.total_ios == exact.sync.total_ios == 511
    for figure in ("mean", "min", "p50", "p99", "max"):
        assert getattr(outcome.latency("sync"), figure) == pytest.approx(
            getattr(exact.latency("sync"), figure), rel=0.01
        )
