"""`blklab tune --live` on a machine made of files, from the plan to the report."""

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks
from blklab.runners.host.live import slices, tuner
from blklab.trace.record import live_latency
from tests.conftest import Run
from tests.runners.host.conftest import alive, machine
from tests.runners.host.live.conftest import Load, array, link_process, load, value_of
from tests.system.machine import Machine

__all__ = ["array", "load", "machine"]

LIVE = ("tune", "--live", "--set", "read_ahead_kb=128", "md0", "--for", "90s", "--p99-below", "100ms", "--no-trace")


@pytest.fixture(autouse=True)
def _this_machine(array: Machine, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine made of files is this one, and its time passes as fast as the test runs."""
    link_process(array.roots, os.getpid())
    monkeypatch.setattr("blklab.system.roots.Roots", lambda: array.roots)
    monkeypatch.setattr(slices, "FEWEST_BLOCKS", 3)  # Each slice is synced to disk several times
    monkeypatch.setattr(tuner, "LiveTuner", functools.partial(tuner.LiveTuner, sleep=load.sleep, clock=load.clock))


def speed_up(load: Load, machine: Machine) -> None:
    """Makes the load twice as fast with read_ahead_kb 128."""
    update = load.update

    def update_by_value() -> None:
        load.ios_each = 200 if value_of(machine, "md0/queue/read_ahead_kb") == "128" else 100
        update()

    load.update = update_by_value  # type: ignore[method-assign]


def test_the_plan_changes_nothing(run: Run, array: Machine, tmp_path: Path) -> None:
    result = run(*LIVE, "--plan", "--store", tmp_path / "store.db")
    assert result.status == 0, result.err
    assert "as is (1024)" in result.out
    assert "queue/read_ahead_kb    1024" in result.out
    assert "Time: 1m 30s: 6 slices of 15 s, 3 of each value" in result.out
    assert "The mean, not the 99th percentile: --no-trace was given." in result.out
    assert "Nothing was changed. Without --plan, blklab looks at the load for 3 s and begins." in result.out
    assert not (tmp_path / "store.db").exists()
    assert not array.roots.state.exists()


def test_the_plan_as_json(run: Run) -> None:
    document = json.loads(run(*LIVE, "--plan", "--json", "--seed", "7").out)
    assert document["values"] == ["as is", "128"]
    assert document["slices"]["blocks"] == 3
    assert (document["seed"], document["latency"], document["metric"]) == (7, "mean", "bw")


def test_the_better_value_is_found_and_nothing_stays_changed(run: Run, array: Machine, load: Load) -> None:
    speed_up(load, array)
    result = run(*LIVE)
    assert result.status == 0, result.err
    assert "The load now: 67 I/Os a second, mean latency 2 ms" in result.err
    assert "read_ahead_kb = 128 improves it (+100.0 %" in result.out
    assert "echo 128 > /sys/block/md0/queue/read_ahead_kb" in result.out
    assert "slices are compared as independent runs, not in pairs by block" in result.out
    assert value_of(array, "md0/queue/read_ahead_kb") == "1024"
    assert list(array.roots.state.glob("journal-*")) == []

    again = run("tune", "live-read_ahead_kb-md0")
    assert again.out == result.out
    shown = run("runs", "show", "1").out
    assert shown.count("done") == 6
    assert "read_ahead_kb under the production load of md0" in shown
    report = run("report", "1", "-o", "-")
    assert report.status == 0, report.err
    assert "production load of md0" in report.out


def test_a_load_that_does_not_depend_on_the_setting(run: Run) -> None:
    result = run(*LIVE)
    assert result.status == 0, result.err
    assert "read_ahead_kb: the same." in result.out


def test_the_limit_ends_it_with_what_was_found(run: Run, array: Machine, load: Load) -> None:
    update = load.update

    def slow_down() -> None:
        is_late = load.now_ns > 10**12 + 40 * 10**9
        if is_late and value_of(array, "md0/queue/read_ahead_kb") == "128":
            load.mean_ms = 400
        update()

    load.update = slow_down  # type: ignore[method-assign]
    result = run(*LIVE)
    assert result.status == 1
    assert "blklab: error: with read_ahead_kb 128, the latency was 400 ms, above --p99-below 100 ms" in result.err
    assert "read_ahead_kb" in result.out
    assert value_of(array, "md0/queue/read_ahead_kb") == "1024"
    assert "planned" not in run("runs", "list").out


def test_the_limit_in_the_first_slice_leaves_no_campaign(run: Run, array: Machine, load: Load) -> None:
    update = load.update

    def slow_down() -> None:
        load.mean_ms = 400 if load.now_ns > 10**12 + 3 * 10**9 else 2
        update()

    load.update = slow_down  # type: ignore[method-assign]
    result = run(*LIVE)
    assert (result.status, result.out) == (1, "")
    assert "in 2 successive intervals" in result.err
    assert "blklab: no setting stays changed" in result.err
    assert "no campaigns" in run("runs", "list").out
    assert value_of(array, "md0/queue/read_ahead_kb") == "1024"


def test_an_interrupt_says_where_the_results_are(run: Run, array: Machine, load: Load) -> None:
    update = load.update

    def interrupt() -> None:
        update()
        if load.now_ns > 10**12 + 40 * 10**9:
            raise KeyboardInterrupt

    load.update = interrupt  # type: ignore[method-assign]
    result = run(*LIVE)
    assert result.status == 130
    assert "interrupted: the present values are restored; finished slices are stored: blklab tune 1" in result.err
    assert value_of(array, "md0/queue/read_ahead_kb") == "1024"
    load.update = update  # type: ignore[method-assign]
    assert run("runs", "show", "1").out.count("done") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--live"], "--live: expected a device"),
        (["--live", "md0"], "--live: expected one --set"),
        (["--live", "md0", "--set", "nr_requests=8", "--set", "scheduler=none"], "one setting at a time"),
        (["--live", "md0", "--set", "nr_requests=8", "--p99-below", "1s"], "--live: expected --for TIME"),
        (["--live", "md0", "--set", "nr_requests=8", "--for", "1h"], "--live: expected --p99-below LATENCY"),
        (["--live", "md0", "--set", "nr_requests=8", "--for", "1m", "--p99-below", "1s"], "--for 1m 00s: too short"),
        (["--live", "md0", "--set", "write_cache=x", "--for", "1h", "--p99-below", "1s"], "cannot be changed under a"),
        (["1", "--set", "nr_requests=8"], "--set: add --live"),
        (["1", "2"], "expected one campaign, or devices with --live"),
        ([], "Missing argument 'CAMPAIGN'"),
    ],
)
def test_arguments_that_are_refused(run: Run, arguments: Sequence[str], message: str) -> None:
    result = run("tune", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_an_idle_device_is_refused_without_a_trace_of_it(run: Run, load: Load, array: Machine) -> None:
    load.ios_each = 0
    result = run(*LIVE)
    assert result.status == 1
    assert "md0: idle: no I/O in 3 s: tune while the load runs" in result.err
    assert "store not found" in run("runs", "list").err
    assert list(array.roots.state.glob("journal-*")) == []


def test_a_trace_that_cannot_be_recorded_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise EnvironmentLacks("blktrace is not installed", "install it: apt-get install blktrace")

    monkeypatch.setattr(live_latency, "check_privileges", refuse)
    result = run(*LIVE[:-1], "--plan")
    assert "The mean, not the 99th percentile: no trace can be recorded (blktrace is not installed;" in result.out


def test_what_a_killed_tuning_left_is_restored_first(run: Run, array: Machine) -> None:
    alive(array, 4999999, 6)
    state = array.roots.state
    state.mkdir(mode=0o700)
    owner = {"journal": 1, "boot_id": "boot-1", "pid": 4999999, "start": 5}
    node = str((array.roots.sys / "class/block/md0").resolve())
    device: dict[str, object] = {
        "path": "/dev/md0",
        "name": "md0",
        "number": "9:0",
        "node": node,
        "diskseq": None,
        "ids": [],
        "size": 2**30,
    }
    entry = {"id": 1, "settings": {"device": device, "values": {"read_ahead_kb": "512"}}}
    (state / "journal-4999999-x.jsonl").write_text(f"{json.dumps(owner)}\n{json.dumps(entry)}\n")
    assert "a killed or running blklab has changed settings" in run(*LIVE, "--plan").out
    result = run(*LIVE)
    assert "warning: after a killed run: md0: restored read_ahead_kb=512" in result.err
    assert "as is (512)" in result.err
