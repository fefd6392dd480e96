"""Job files: what the cell says, what blklab adds, and nothing that gets in otherwise."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.errors import UsageError
from blklab.experiment.documents import job_writes
from blklab.fio import output
from blklab.runners.fio import jobfile, process
from tests.runners.fio.conftest import MAKE


def test_options_are_kept_and_ours_come_last(make: MAKE) -> None:
    cell = make(iodepth="8", filename="/dev/sda", thread="0", group_reporting="1")
    text = jobfile.render(cell, Path("/srv/a:b"), log_ms=250)
    before, _, section = text.partition("[work]\n")
    lines = section.splitlines()
    assert "randseed=1" in before.splitlines()
    assert lines[:3] == ["rw=randread", "bs=4k", "size=4194304"]
    for line in ("filename=/srv/a\\:b", "thread=1", "group_reporting=0"):
        # fio takes the last of several.
        option = line.partition("=")[0]
        assert [item for item in lines if item.startswith(f"{option}=")][-1] == line
    assert "runtime=1000000us" in lines
    assert "ramp_time" not in text
    assert "log_avg_msec=250" in lines


def test_a_jobs_own_times_are_its_own(make: MAKE) -> None:
    cell = make(runtime="3s", ramp_time="1s") | {"ramp_ns": 5}
    lines = jobfile.render(cell, Path("/x")).splitlines()
    assert [line for line in lines if "time=" in line] == ["runtime=3s", "ramp_time=1s"]
    assert "log_avg_msec" not in "\n".join(lines)
    assert jobfile.seconds(cell) is None
    # A round has no ramp.
    lines = jobfile.render(cell, Path("/x"), runtime_ns=7000).splitlines()
    assert [line for line in lines if "runtime=" in line][-1] == "runtime=7us"


def test_how_long_fio_will_take(make: MAKE) -> None:
    cell = make() | {"runtime_ns": 2 * 10**9, "ramp_ns": 5 * 10**8}
    assert jobfile.seconds(cell) == 2.5
    assert jobfile.seconds(cell, 10**9) == 1
    assert jobfile.seconds(cell | {"runtime_ns": None}) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rw": "randread"}, False),
        ({"rw": "read:8"}, False),
        ({"readwrite": "read"}, False),
        ({}, False),
        ({"rw": "randrw"}, True),
        ({"readwrite": "write"}, True),
        ({"rw": "trim"}, True),
    ],
)
def test_who_writes(options: dict[str, str], expected: bool) -> None:
    assert job_writes(options) is expected


@pytest.mark.parametrize("name", ["a]b", "a\nb", "", "global", "include", "a\x00", "$x", "é", " a"])
def test_names_that_would_be_something_else(make: MAKE, name: str) -> None:
    cell = make()
    cell["jobs"][0]["name"] = name
    with pytest.raises(UsageError, match="job name"):
        jobfile.render(cell, Path("/x"))


@given(st.text(max_size=20), st.text(max_size=20))
def test_an_option_stays_one_line(key: str, value: str) -> None:
    cell: Any = {"seed": 1, "jobs": [{"name": "work", "options": {key: value}}]}
    empty: Any = {"seed": 1, "jobs": [{"name": "work", "options": {}}]}
    try:
        text = jobfile.render(cell, Path("/x"))
    except UsageError:
        return
    without = jobfile.render(empty, Path("/x"))
    assert text.splitlines() == without.replace("[work]\n", f"[work]\n{key}={value}\n").splitlines()
    assert text.isascii()


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "$ncpus", "${HOME}", "\x1b[0m", "4k\u2028"])
def test_values_that_fio_would_make_something_of(make: MAKE, value: str) -> None:
    with pytest.raises(UsageError, match="fio option bs="):
        jobfile.render(make(bs=value), Path("/x"))


@pytest.mark.parametrize("name", ["a:b", "a b", "${HOME}", "a;b", "#a", "ä", '"a"', "a\\b", "a,b"])
def test_files_of_any_name(work: Path, make: MAKE, name: str) -> None:
    path = work / name
    path.write_bytes(bytes(1 << 16))
    fio, _ = process.find_fio()
    text = jobfile.render(make(size="65536", direct="0"), path)
    ran = process.run(fio, text, work, target=path, readonly=True)
    assert output.outcome(output.parse_document(ran.output)).read.io_bytes == 1 << 16
    assert [path.name for path in work.iterdir()] == [name]
