"""`blklab trace stat` and `hist`, from the command line to what is printed."""

import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import QUEUED, READ, Q, Record, write_trace

PGBENCH = Path(__file__).parents[2] / "data" / "traces" / "pgbench-raid1"
SCSI = PGBENCH.with_name("scsi-errors")


def test_stat_says_what_the_workload_is(run: Run) -> None:
    outcome = run("trace", "stat", PGBENCH, "--full")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("md127 (9,127) ─")
    assert "md127 received 18,476 I/Os" in outcome.out
    assert "stack: dm-0, dm-1 → md127 → vdc, vdd" in outcome.out


def test_stat_prints_the_profile_as_json(run: Run) -> None:
    document = json.loads(run("trace", "stat", SCSI, "--json").out)
    assert document["format_version"] == 1
    assert document["devices"][0]["load"]["ops"]["read"]["ios"] == 3236


def test_stat_shows_the_devices_that_were_chosen(run: Run) -> None:
    outcome = run("trace", "stat", PGBENCH, "--device", "vdd", "--op", "write", "--full")
    assert outcome.out.startswith("vdd (254,48) ─")
    assert "only device vdd, operation write" in outcome.out
    assert "nothing but writes" in outcome.out


@pytest.mark.parametrize("command", ["stat", "hist", "report"])
def test_no_io_in_the_window_is_said_in_one_line(
    run: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("trace", command, SCSI, "--since", "1h")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == (
        f"blklab: error: no I/O in {SCSI} (from 1h 00m on): the trace has 23,923 events between"
        " 0 ns and 13.8 s, of sda, by dd, fio, blkdiscard\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_warnings_go_to_stderr(run: Run, tmp_path: Path) -> None:
    whole = (PGBENCH.parents[1] / "formats" / "blktrace.bin").read_bytes()
    path = tmp_path / "cut.bin"
    path.write_bytes(whole[:-5])
    outcome = run("trace", "stat", path)
    assert outcome.status == 0
    assert outcome.err.startswith(f"blklab: warning: {path}: ")
    assert outcome.out


def test_hist_draws_sizes(run: Run) -> None:
    outcome = run("trace", "hist", PGBENCH)
    assert (outcome.status, outcome.err) == (0, "")
    assert "Sizes of reads  16,471 I/Os" in outcome.out
    assert "█" in outcome.out


@pytest.mark.parametrize("what", ["size", "latency", "depth", "seek"])
def test_hist_prints_json(run: Run, what: str) -> None:
    document = json.loads(run("trace", "hist", SCSI, "--what", what, "--json").out)
    assert document[0]["what"] == what
    for histogram in document[0]["histograms"]:
        assert sum(item["count"] for item in histogram["bins"]) == histogram["total"] > 0
        assert all(item["low"] <= item["high"] for item in histogram["bins"])


def test_what_is_heavy_is_not_imported() -> None:
    script = (
        "import sys; from blklab.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(sorted({'altair', 'jinja2', 'vl_convert', 'pandas'} & sys.modules.keys()))"
    )
    arguments = ["trace", "stat", str(SCSI)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True, env=os.environ
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_makes_no_sense(run: Run) -> None:
    for arguments, words in (
        ((SCSI, "--since", "300000d"), "is too long: expected at most"),
        (("",), "expected the name of a trace, got an empty string"),
    ):
        outcome = run("trace", "stat", *arguments)
        assert (outcome.status, outcome.out) == (2, "")
        assert words in outcome.err
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(("devices", "named"), [(8, ")"), (9, ") and 1 other"), (1000, ") and 992 others")])
def test_without_io_few_devices_are_named(run: Run, tmp_path: Path, devices: int, named: str) -> None:
    records = [Record(n, 5, 0, device=8 << 20 | 16 * n) for n in range(devices)]
    outcome = run("trace", "stat", write_trace(tmp_path / "plugs", records))
    assert outcome.status == 1
    assert outcome.err.endswith(f"{named}\n"), outcome.err
    assert outcome.err.count("plugs (") == 8


def test_a_trace_of_more_cpus_than_files_may_be_open(run: Run, tmp_path: Path) -> None:
    records = [Record(cpu, Q, QUEUED | READ, 8 * cpu, 4096, cpu=cpu) for cpu in range(1, 200)]
    base = write_trace(tmp_path / "many", [Record(0, Q, QUEUED | READ, 0, 4096), *records])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        outcome = run("trace", "stat", "--json", base)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert outcome.status == 0, outcome.err
    assert json.loads(outcome.out)["events"] == 200


def test_what_a_format_does_not_record_is_not_described(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.oracleGeneral.bin"
    trace.write_bytes(b"".join(struct.pack("<IQIq", at // 50, 97 * at % 4096, 4096, -1) for at in range(5000)))
    outcome = run("trace", "stat", trace)
    assert outcome.status == 0
    assert "does not distinguish reads and writes" in " ".join(outcome.out.split())
    assert not [text for text in ("(unknown)", "CPU", "not seen to complete", " 10 ms ") if text in outcome.out]


def test_the_busiest_of_many_devices_are_described_in_full(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which devices these are is decided where I/Os are counted, and again where the document is made.
    rows = [f"{device},R,{4096 * number},4096,{number}" for number in range(40) for device in range(70)]
    trace = tmp_path / "many.csv"
    trace.write_text("\n".join(rows) + "\n")
    for processors in ({0}, {0, 1}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, chosen=processors: chosen)
        brief, full = (
            json.loads(run("trace", "stat", trace, "--format", "alibaba", "--json", *more).out)
            for more in ((), ("--all-devices",))
        )
        assert (len(brief["devices"]), len(brief["other_devices"]), len(full["devices"])) == (8, 62, 70)
        assert all(device["hotness"]["accesses"] == 40 for device in brief["devices"])
        everything = {device["device"]: device for device in full["devices"]}
        assert all(device == everything[device["device"]] for device in brief["devices"])
