"""Recordings with an action mask (`blktrace -a issue -a complete`): no Q, or neither Q nor D."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.trace.generated import COMPLETED, ISSUED, QUEUED, READ, WRITE, C, D, Q, Record, write_trace

MS = 1_000_000
IOS = 300
"""A read of 4 KiB each 2 ms that the driver takes 1 ms for; every third is a write of 8 KiB."""


def masked(base: Path, kept: Collection[int], *, dispatched_twice: bool = False) -> Path:
    records = []
    for number in range(IOS):
        start, sector = 2 * number * MS, 1000 * number
        size, direction = (8192, WRITE) if number % 3 == 0 else (4096, READ)
        events = [(start, Q, QUEUED), (start + MS // 2, D, ISSUED), (start + MS // 2 + MS, C, COMPLETED)]
        if dispatched_twice:
            events.insert(2, (start + MS, D, ISSUED))
        records += [Record(at, code, kind | direction, sector, size) for at, code, kind in events if code in kept]
    return write_trace(base, records)


def device_of(run: Run, base: Path, *more: str) -> dict[str, object]:
    outcome = run("trace", "stat", base, "--json", *more)
    assert outcome.status == 0, outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert isinstance(device, dict)
    return device


@pytest.mark.parametrize("start", ["Q", "D", "C"])
def test_the_load_is_the_same_without_queue_events(run: Run, tmp_path: Path, start: str) -> None:
    kept = {"Q": {Q, D, C}, "D": {D, C}, "C": {C}}[start]
    device = device_of(run, masked(tmp_path / "sdx", kept))
    assert device["start"] == start
    ops = device["load"]["ops"]  # type: ignore[index]
    assert {op: (ops[op]["ios"], ops[op]["bytes"]) for op in ("read", "write")} == {
        "read": (200, 200 * 4096),
        "write": (100, 100 * 8192),
    }
    latency = device["life"]["read"]["latency_ns"]  # type: ignore[index]
    counts = {stage: latency[stage]["count"] for stage in ("q2c", "q2d", "d2c")}
    known = {"Q": (200, 200, 200), "D": (0, 0, 200), "C": (0, 0, 0)}[start]
    assert tuple(counts.values()) == known
    if start != "C":
        assert latency["d2c"]["p50"] == pytest.approx(MS, rel=0.005)


@pytest.mark.parametrize(("kept", "missing"), [({D, C}, "no Q events"), ({C}, "only C events")])
def test_the_first_line_says_what_is_missing(run: Run, tmp_path: Path, kept: set[int], missing: str) -> None:
    outcome = run("trace", "stat", masked(tmp_path / "sdx", kept))
    assert outcome.status == 0
    text = " ".join(outcome.out.split())
    assert f"Load This trace has {missing}" in text
    assert "67 % reads and 33 % writes" in text
    assert "was queued" not in text


def test_a_request_that_is_dispatched_twice_counts_once(run: Run, tmp_path: Path) -> None:
    device = device_of(run, masked(tmp_path / "sdx", {D, C}, dispatched_twice=True))
    assert sum(op["ios"] for op in device["load"]["ops"].values()) == IOS  # type: ignore[index]
    for depth in ("in_flight", "dispatched"):
        level = device[depth]
        assert level["max"] == 1  # type: ignore[index]
        assert level["mean"] == pytest.approx(0.5, abs=0.01)  # type: ignore[index]


@pytest.mark.parametrize("kept", [{Q, D, C}, {D, C}, {C}])
def test_an_iolog_has_all_of_them(run: Run, tmp_path: Path, kept: set[int]) -> None:
    path = tmp_path / "log.iolog"
    assert run("trace", "convert", masked(tmp_path / "sdx", kept), "-o", path).status == 0
    lines = path.read_text().splitlines()
    assert sum(" read " in line for line in lines) == 200
    assert sum(" write " in line for line in lines) == 100


def test_histograms_and_fio_jobs_need_no_queue_events(run: Run, tmp_path: Path) -> None:
    base = masked(tmp_path / "sdx", {D, C})
    assert run("trace", "hist", base, "--json").status == 0
    outcome = run("trace", "fio", base, "-o", "-")
    assert outcome.status == 0, outcome.err
    assert "rw=rand" in outcome.out


@pytest.mark.parametrize("target", ["x.iolog", "x.parquet", "x"])
def test_an_empty_conversion_fails(run: Run, tmp_path: Path, target: str) -> None:
    base = masked(tmp_path / "sdx", {Q, D, C})
    (tmp_path / "out").mkdir()
    outcome = run("trace", "convert", base, "--device", "other", "-o", tmp_path / "out" / target)
    assert outcome.status == 1
    assert "nothing to write: no I/O passes the filters; its devices: sdx" in outcome.err
    assert outcome.err.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


def test_devices_that_a_format_names_can_be_chosen(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "msr.csv"
    rows = [f"{128166372003061629 + 10**5 * at},usr,{at % 2},Read,{4096 * at},4096,100" for at in range(200)]
    path.write_text("\n".join(rows) + "\n")
    outcome = run("trace", "stat", path, "--device", "usr_1", "--json")
    assert outcome.status == 0, outcome.err
    (device,) = json.loads(outcome.out)["devices"]
    assert device["load"]["ops"]["read"]["ios"] == 100
    log = tmp_path / "usr.iolog"
    assert run("trace", "convert", path, "--device", "usr_1", "-o", log).status == 0
    assert log.read_text().count(" read ") == 100
