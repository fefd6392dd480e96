"""Runs in fio's own output: JSON and text, of old versions and of the one installed."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.calibrate.observations import Observation, from_fio
from blklab.errors import UsageError

JOBS = """
[global]
filename=file
size=256k
ioengine=psync
[clones]
rw=randread
bs=4k
numjobs=2
stonewall
[mixed]
rw=randrw
rwmixread=75
bs=64k
stonewall
[together]
rw=write
bs=16k
numjobs=2
group_reporting
stonewall
"""

OLD = """\
randread: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=32
...
mixed one: (g=1): rw=randrw, bs=64K-64K/8K-8K/64K-64K, ioengine=libaio, iodepth=8
fio-2.16
Starting 5 processes

randread: (groupid=0, jobs=4): err= 0: pid=26467: Mon Jan 11 11:11:11 2016
  read : io=1023.6MB, bw=104780KB/s, iops=26194, runt= 10004msec
    slat (usec): min=1, max=95, avg= 2.33, stdev= 1.29
    clat (usec): min=85, max=4203, avg=1218.91, stdev=161.06
mixed one: (groupid=1, jobs=1): err= 0: pid=26470: Mon Jan 11 11:11:31 2016
  read : io=1023.6MB, bw=104780KB/s, iops=300, runt= 10004msec
  write: io=1023.6MB, bw=104780KB/s, iops=99.5, runt= 10004msec

Run status group 0 (all jobs):
   READ: io=1023.6MB, aggrb=104780KB/s, minb=104780KB/s, maxb=104780KB/s, mint=10004msec
"""


def read(tmp_path: Path, text: str) -> list[Observation]:
    path = tmp_path / "fio.out"
    path.write_text(text)
    return from_fio(path)


def test_text_of_an_old_fio(tmp_path: Path) -> None:
    first, mixed = read(tmp_path, OLD)
    assert (first.name, first.read_iops, first.write_iops) == ("randread", 26194, 0)
    assert first.workload == {"rw": "randread", "bs": "4096", "iodepth": 32, "numjobs": 4}
    assert (mixed.name, mixed.read_iops, mixed.write_iops) == ("mixed one", 300, 99.5)
    assert mixed.workload["bs"] == "65536,8192"
    assert mixed.workload["rwmixread"] == 75


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")
def test_what_fio_prints_is_read(tmp_path: Path) -> None:
    (tmp_path / "jobs.fio").write_text(JOBS)
    for form in ("json", "normal"):
        subprocess.run(["fio", f"--output-format={form}", f"--output={form}", "jobs.fio"], cwd=tmp_path, check=True)
        clones, mixed, together = from_fio(tmp_path / form)
        assert (clones.name, clones.workload["rw"], clones.workload["numjobs"]) == (("clones", "randread", 2))
        assert clones.reads
        assert clones.random
        assert clones.read_iops > 0
        assert mixed.workload["bs"] in {"64k", "65536"}
        assert mixed.read_iops > 0
        assert mixed.write_iops > 0
        assert together.writes
        assert not together.random
        assert together.workload["numjobs"] == 2
        assert together.workload["bs"] in {"16k", "16384"}
    assert json.loads((tmp_path / "json").read_text())["jobs"]


def job(name: str, group: int, read: float, **options: str) -> dict[str, Any]:
    return {"jobname": name, "groupid": group, "job options": options, "read": {"iops": read}, "write": {"iops": 0}}


def test_clones_are_one_run(tmp_path: Path) -> None:
    jobs = [job("a", 0, 100, numjobs="2"), job("a", 0, 110, numjobs="2"), job("b", 1, 5)]
    document = {"global options": {"rw": "randread", "size": "50%"}, "jobs": jobs}
    first, second = read(tmp_path, "note: both iops\n" + json.dumps(document))
    assert (first.read_iops, first.workload["numjobs"]) == (210, 2)
    assert (second.read_iops, second.workload["numjobs"]) == (5, 1)


def test_jobs_that_ran_together_are_one_run(tmp_path: Path) -> None:
    # Two equal jobs of other names and clones of a third, then, after a stonewall, a reader next to a writer.
    words = {"rw": "randread", "bs": "4k", "iodepth": "8"}
    equal = [job("a", 0, 100, **words), job("b", 0, 150, **words, numjobs="1"), job("c", 0, 50, **words, numjobs="3")]
    writer = job("log", 1, 0, readwrite="write", blocksize="64k") | {"write": {"iops": 20}}
    other = [job("data", 1, 70, **words), writer]
    together, apart = read(tmp_path, json.dumps({"jobs": [*equal, *other]}))
    assert (together.name, together.iops, together.reads) == ("a+b+c", 300, True)
    assert together.workload == {"rw": "randread", "bs": "4k", "iodepth": 8, "numjobs": 5}
    assert (apart.read_iops, apart.write_iops, apart.alone, apart.block_bytes) == (70, 20, False, None)
    assert apart.load == {"rw": "randread+write", "bs": "4k+64k", "iodepth": "8+1", "numjobs": "1+1"}
    assert apart.workload["jobs"].keys() == {"data", "log"}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", "no fio results; expected JSON or text output of fio"),
        ('{"jobs": [', "fio's JSON is invalid: it ends in line 1"),
        ('{"jobs": 5}', ".jobs: found 5, expected a list"),
        ('{"jobs": [{}]}', "no fio results; expected JSON or text output of fio"),
        (
            json.dumps({"jobs": [job("a", 0, 9, iodepth="deep")]}),
            "job 'a': iodepth: found 'deep', expected a whole number",
        ),
        (json.dumps({"jobs": [job("a", 0, float("inf"))]}), "no fio results; expected JSON or text output of fio"),
        (json.dumps({"jobs": [job("a", 0, 9) | {"error": 5}]}), "job 'a' failed: Input/output error"),
        (OLD.replace("jobs=1): err= 0", "jobs=1): err= 5"), "line 11: job 'mixed one' failed: err=5"),
        *(
            (
                json.dumps({"jobs": [job("a", 0, 9, **{option: value})]}),
                f"job 'a': {option}={value}: expected a run without {option}",
            )
            for option, value in (
                ("rate", "1m"),
                ("rate_iops", "100"),
                ("rate_min", "10"),
                ("thinktime", "10us"),
                ("bssplit", "4k/50:8k/50"),
                ("random_distribution", "zipf:1.2"),
                ("blockalign", "64k"),
            )
        ),
        (
            json.dumps({"jobs": [job("a", 0, 9, rwmixread="60", rwmixwrite="30")]}),
            "job 'a': rwmixread=60 and rwmixwrite=30: expected 100 together",
        ),
    ],
)
def test_other_files_are_one_line(tmp_path: Path, text: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/fio.out: {output}"


def test_options_that_change_nothing_are_taken(tmp_path: Path) -> None:
    plain = {"thinktime": "0", "random_distribution": "random", "rwmixread": "60"}
    item = job("a", 0, 9, rwmixwrite="40", **plain) | {"error": 0}
    (result,) = read(tmp_path, "\ufeff" + json.dumps({"jobs": [item]}))
    assert result.workload["rwmixread"] == 60


@given(st.integers(0, len(OLD)), st.integers(0, 60), st.text(max_size=20), st.booleans())
def test_mangled_output_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, at: int, length: int, new: str, as_json: bool
) -> None:
    text = json.dumps({"jobs": [job("a", 0, 9, rw="read"), job("b", 1, 9)]}) if as_json else OLD
    path = tmp_path_factory.mktemp("fio") / "out"
    path.write_text(text[:at] + new + text[at + length :], errors="replace")
    try:
        result = from_fio(path)
    except UsageError as error:
        assert str(error).startswith(str(path))
    else:
        assert all(run.read_iops + run.write_iops > 0 for run in result)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")
def test_the_job_for_calibration_gives_six_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "calibrate.fio").read_text()
    for old, new in {
        "size=8g": "size=256k",
        "ioengine=libaio": "ioengine=psync",
        "direct=1": "direct=0",
        "runtime=60": "",
        "time_based": "",
    }.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "jobs.fio").write_text(text)
    arguments = ["fio", "--filename=file", "--output-format=json", "--output=out", "jobs.fio"]
    subprocess.run(arguments, cwd=tmp_path, check=True)
    result = from_fio(tmp_path / "out")
    assert [run.name for run in result] == [
        "seqwrite", "seqread", "randread", "randwrite", "rand40read", "rand75read",
    ]  # fmt: skip
    for run in result:
        assert run.workload["numjobs"] == 4
        assert run.workload["iodepth"] == 1  # of psync
    assert result[4].workload["rwmixread"] == 40
