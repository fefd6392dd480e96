"""Filters of the commands that read traces."""

import json
import struct
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import COMPLETED, NOTIFY, QUEUED, READ, C, Q, Record, process, write_trace

PGBENCH = Path(__file__).parents[2] / "data" / "traces" / "pgbench-raid1"
TEXT = PGBENCH.parents[1] / "formats" / "blkparse.txt"
MS = 1_000_000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four reads from 21:21:30 UTC on, each a second and twice as long as the one before; the last never completes."""
    start = 1_700_000_490 - 1_700_000_490 % 86_400 + 21 * 3600 + 21 * 60 + 30
    records = [
        Record(0, 1, NOTIFY, pid=0, pdu=struct.pack("<II", start, 0)),
        process(1, b"kworker/0:1"),
        process(2, b"postgres"),
    ]
    for at in range(4):
        begin, size = at * 1000 * MS, 4096 << at
        records.append(Record(begin, Q, QUEUED | READ, 1000 * at, size, pid=1 + at % 2))
        if at < 3:
            records.append(Record(begin + (10 << at) * MS, C, COMPLETED | READ, 1000 * at, size))
    return write_trace(tmp_path / "sda", records)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (["--since", "21:21:31", "--until", "21:21:33"], [8192, 16384]),
        (["--since", "2023-11-14T21:21:32"], [16384, 32768]),
        (["--since", "2023-11-14 22:21:32+01:00"], [16384, 32768]),
        (["--since", "20:00", "--until", "1.5s"], [4096, 8192]),
        (["--sector", "1015-2000"], [8192, 16384]),
        (["--size", "8k-16k"], [8192, 16384]),
        (["--size", "32k"], [32768]),
        (["--min-latency", "20ms"], [8192, 16384]),
        (["--process", "kworker*"], [4096, 16384]),
    ],
)
def test_filters_select_ios(run: Run, trace: Path, options: list[str], sizes: list[int]) -> None:
    document = json.loads(run("trace", "stat", trace, *options, "--json").out)
    exact = document["devices"][0]["load"]["ops"]["read"]["sizes"]["exact"]
    assert [entry["bytes"] for entry in exact] == sizes


def test_slow_ios_are_counted_as_they_are_converted(run: Run, tmp_path: Path) -> None:
    slow = ("--device", "vdc", "--min-latency", "10ms")
    device = json.loads(run("trace", "stat", PGBENCH, *slow, "--json").out)["devices"][0]
    counted = sum(op["ios"] for op in device["load"]["ops"].values())
    converted = run("trace", "convert", PGBENCH, *slow, "-o", tmp_path / "slow.ios.parquet", "--json")
    without_queue = sum(life["without_queue"] for life in device["life"].values())
    assert json.loads(converted.out)["report"]["written"] == counted + without_queue > 1000
    assert device["pattern"]["arrivals"]["backwards"] == 0


def test_reports_name_the_filters(run: Run, trace: Path) -> None:
    outcome = run("trace", "stat", trace, "--sector", "0-3000", "--size", "4k-8k", "--min-latency", "5ms")
    assert "only sectors 0 to 3000, size 4 KiB to 8 KiB, latency at least 5 ms" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["events", "--min-latency", "1s"], "--min-latency selects I/Os, not events: use trace stat"),
        (["stat", "--since", "21:21:32", "--until", "21:21:31"], "--since must be earlier than --until"),
        (["stat", "--size", "8k-4k"], "'8k-4k' is not a range"),
        (["stat", "--since", "25:00"], "'25:00' is not a time"),
        (["stat", "--process", "x*"], "no I/O in"),
    ],
)
def test_filters_that_cannot_select_fail_in_one_line(run: Run, trace: Path, arguments: list[str], message: str) -> None:
    command, *options = arguments
    outcome = run("trace", command, trace, *options)
    assert (outcome.status > 0, outcome.out, outcome.err.count("\n")) == (True, "", 1)
    assert message in outcome.err


def test_a_selection_without_io_names_the_processes(run: Run, trace: Path) -> None:
    assert run("trace", "stat", trace, "--process", "x*").err.endswith(", of sda, by kworker/0:1, postgres\n")


def test_a_trace_without_a_wall_clock_refuses_times_of_day(run: Run) -> None:
    outcome = run("trace", "stat", TEXT, "--since", "21:21:30")
    assert (outcome.status, outcome.out) == (2, "")
    assert "does not record its wall-clock start; write the time since the beginning" in outcome.err


def test_a_format_without_completions_refuses_latencies(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "alibaba.csv"
    path.write_text("".join(f"1,W,{at * 4096},4096,{1577808000000000 + at}\n" for at in range(50)))
    outcome = run("trace", "stat", path, "--min-latency", "1ms")
    assert outcome.err == "blklab: error: --min-latency needs completions: the format alibaba has none\n"


@pytest.mark.parametrize(
    ("options", "guess"),
    [
        (["--device", "sdb"], "; did you mean 'sda'?"),
        (["--process", "postgre"], "; did you mean 'postgres'?"),
        (["--process", "postgre", "--device", "sdb"], "; did you mean 'sda'?"),
        (["--device", "sda", "--since", "1h"], ", of sda, by "),
    ],
)
def test_a_similar_device_or_process_is_named(run: Run, trace: Path, options: list[str], guess: str) -> None:
    outcome = run("trace", "stat", trace, *options)
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert guess in outcome.err
    assert outcome.err.count("did you mean") == guess.count("did you mean")


@pytest.mark.parametrize("command", ["stat", "report", "events"])
def test_a_disk_is_no_trace(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(Path, "is_block_device", lambda path: str(path) == "/dev/sdx")
    outcome = run("trace", command, "/dev/sdx")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        "blklab: error: /dev/sdx: is a disk, not a trace: `blklab trace record /dev/sdx -o NAME` records it\n"
    )
