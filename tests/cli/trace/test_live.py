"""`blklab trace live`, with a blktrace that is a script."""

import json
import os
import stat
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from blklab import _core
from blklab.errors import BlklabError
from blklab.trace.record import blktrace, checks, live
from blklab.trace.record.checks import RecordedDevice
from tests.conftest import Run
from tests.trace.generated import COMPLETED, QUEUED, READ, C, Q, Record, process, write_trace

FAKE = """#!{python}
import signal, sys, time
sys.stdout.buffer.write(open({trace!r}, "rb").read())
sys.stdout.flush()
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
while not stop and {waits}:
    time.sleep(0.01)
{end}
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which /dev/sdx can be traced."""
    devices = [RecordedDevice("/dev/sdx", "sdx", "8:0")]
    monkeypatch.setattr(live, "with_members", lambda _paths, _roots: devices)
    monkeypatch.setattr(checks, "check_privileges", lambda _roots: None)
    monkeypatch.setattr(checks, "check_kernel", lambda _devices, _roots: None)
    monkeypatch.setattr(live, "check_apart", lambda _devices, _directory, _roots: [])
    monkeypatch.setattr(checks, "ready_debugfs", lambda _roots: nullcontext(str(tmp_path / "debug")))
    (tmp_path / "debug/block/sdx").mkdir(parents=True)
    monkeypatch.setattr(checks, "check_untraced", lambda _devices, _debugfs: None)


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, waits: bool = True, end: str = "") -> None:
    """Installs a blktrace that writes ten seconds of 50 reads a second, CPU by CPU."""
    ios = [(100 * 10**9 + at * 20_000_000, 8 * at) for at in range(500)]
    queued = [Record(time, Q, QUEUED | READ, sector, 4096, pid=7) for time, sector in ios]
    completed = [Record(time + 3_000_000, C, COMPLETED | READ, sector, 4096, cpu=1) for time, sector in ios]
    records = [process(7, b"postgres"), *completed[:250], *queued[:250], *queued[250:], *completed[250:]]
    trace = tmp_path / "events"
    trace.write_bytes(b"".join(record.packed(at + 1) for at, record in enumerate(records)))
    program = tmp_path / "bin" / "blktrace"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, trace=str(trace), waits=waits, end=end))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def test_a_line_in_each_interval_shows_the_load(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "debug/block/sdx/dropped").write_text("3\n")
    outcome = run("trace", "live", "/dev/sdx", "-w", "3s", "--interval", "1s", "--window", "4s")
    assert (outcome.status, outcome.err) == (0, "")
    last = outcome.out.splitlines()[-1]
    assert "sdx  " in last
    assert "100 % reads, p99 3 ms, depth " in last
    assert "3 events dropped: figures are too low" in last


def test_json_and_a_kept_recording_hold_every_event(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    name = tmp_path / "kept"
    outcome = run("trace", "live", "/dev/sdx", "-w", "2s", "--interval", "1s", "-o", name, "--json")
    looks = [json.loads(line) for line in outcome.out.splitlines()]
    (device,) = looks[-1]["devices"]
    assert device["load"]["processes"][0]["name"] == "postgres"
    assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept.blktrace.0", "kept.blktrace.1"]
    kept = json.loads(run("trace", "stat", name, "--json").out)
    assert kept["devices"][0]["events"] == {"Q": 500, "C": 500}
    assert (kept["devices"][0]["life"]["read"]["completed"], kept["trace"]["out_of_order"]) == (500, 0)


def test_a_blktrace_that_fails_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waits=False, end="sys.exit('BLKTRACESETUP(2) /dev/sdx failed: 1/Not permitted')")
    outcome = run("trace", "live", "/dev/sdx", "-w", "9s")
    assert outcome.status == 3
    assert "the kernel refuses to trace: BLKTRACESETUP(2) /dev/sdx failed" in outcome.err


def test_a_blktrace_that_does_not_stop_is_killed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    end = f"""
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
open({str(pid)!r}, "w").write(str(__import__("os").getpid()))
time.sleep(600)
"""
    install(tmp_path, monkeypatch, waits=False, end=end)
    monkeypatch.setattr(blktrace, "STOPPING", 0.2)
    torn_down: list[RecordedDevice] = []
    monkeypatch.setattr(blktrace, "tear_down", torn_down.extend)
    outcome = run("trace", "live", "/dev/sdx", "-w", "1s", "--interval", "500ms")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert "blktrace failed (signal 9): it printed nothing" in outcome.err
    assert [device.name for device in torn_down] == ["sdx"]
    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_the_trace_of_another_blktrace_goes_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waits=False, end="sys.exit('BLKTRACESETUP(2) /dev/sdx failed: 16/Device busy')")
    torn_down: list[RecordedDevice] = []
    for module in (blktrace, live):
        monkeypatch.setattr(module, "tear_down", torn_down.extend, raising=False)
    outcome = run("trace", "live", "/dev/sdx", "-w", "9s")
    assert "another process traces this device" in outcome.err
    assert torn_down == []


def test_a_live_trace_that_cannot_begin_leaves_nothing_open(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)

    def refused(*_arguments: object) -> None:
        raise BlklabError("no window")

    monkeypatch.setattr(_core, "LiveTrace", refused)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert "no window" in run("trace", "live", "/dev/sdx", "-w", "9s").err
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_existing_recording_is_not_replaced(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "kept.blktrace.0").write_bytes(b"x")
    outcome = run("trace", "live", "/dev/sdx", "-o", tmp_path / "kept")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "exists; choose another name" in outcome.err


def test_a_recording_that_cannot_be_divided_is_kept(tmp_path: Path) -> None:
    dump = write_trace(tmp_path / "x", [Record(0, Q, READ | QUEUED, 8, 4096)]).with_name("x.blktrace.0")
    devices = [RecordedDevice(f"/dev/{name}", name, number) for name, number in (("sda", "8:0"), ("sdb", "8:16"))]
    (tmp_path / "out" / "sda.blktrace.0").mkdir(parents=True)
    with pytest.raises(BlklabError, match=f"the recording is in {dump}"):
        live._divide(dump, tmp_path / "out", devices)
    (tmp_path / "out" / "sda.blktrace.0").rmdir()
    live._divide(dump, tmp_path / "out", devices)
    assert not dump.exists()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"sda.blktrace.0"}
