"""`blklab trace record --host`, on hosts that are namespaces with sshd and a blktrace that is a script."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blklab.system.remote_program import make_archive
from blklab.trace.record.hosts import MODULES
from tests.conftest import Run, Start
from tests.runners.fleet.conftest import FleetHost, fleet, until
from tests.runners.host.conftest import Loops, loops

__all__ = ["fleet", "loops"]

LIST = """
import sys
sys.path.insert(0, {archive!r})
from blklab.trace.record import on_host
ours = [name for name in sys.modules if name.startswith("blklab.")]
print(*sorted(name for name in ours if not sys.modules[name].__spec__.submodule_search_locations))
"""

# As blktrace: files at once, a report at SIGINT.
BLKTRACE = """#!/usr/bin/python3
import pathlib, signal, sys, time
if "-v" in sys.argv:
    sys.exit("blktrace version 2.0.0")
directory = pathlib.Path(sys.argv[sys.argv.index("-D") + 1])
name = sys.argv[sys.argv.index("-o") + 1]
signal.signal(signal.SIGINT, lambda *_: None)
(directory / f"{name}.blktrace.0").write_bytes(b"x" * 200000)
signal.pause()
print("=== loop0 ===\\n  Total:                  100 events (dropped 0),       10 KiB data")
"""


@pytest.fixture
def device(fleet: list[FleetHost], loops: Loops) -> str:
    for host in fleet:
        (host.own / "bin/blktrace").write_text(BLKTRACE)
        (host.own / "bin/blktrace").chmod(0o755)
    device = loops.attach(loops.file("disk"))
    if not Path(f"/sys/class/block/{Path(device).name}/trace").exists():
        pytest.skip("this kernel cannot trace")
    return device


def test_a_bare_python_imports_exactly_the_modules_of_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "blklab.zip"
    archive.write_bytes(make_archive(MODULES))
    command = [sys.executable, "-I", "-S", "-c", LIST.format(archive=str(archive))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.split() == sorted(f"blklab.{name}" for name in MODULES)


def test_traces_of_all_hosts_are_copied(fleet: list[FleetHost], run: Run, tmp_path: Path, device: str) -> None:
    output = tmp_path / "traces"
    recorded = run("trace", "record", device, "-w", "1", "-o", output, "--host", "a", "--host", "b", "--json")
    assert recorded.status == 0, recorded.err
    name = Path(device).name
    files = [f"{name}.blktrace.0", f"{name}.blklab.json"]
    assert json.loads(recorded.out) == [{"host": host, "failure": None, "files": files} for host in ("a", "b")]
    for host in ("a", "b"):
        assert (output / host / files[0]).read_bytes() == b"x" * 200000
        assert json.loads((output / host / files[1]).read_text())["stopped_by"] == "time"
    assert all(host.is_clean() for host in fleet)
    again = run("trace", "record", device, "-w", "1", "-o", output, "--host", "a")
    assert (again.status, again.err.count("\n")) == (2, 1)


def test_a_host_without_a_trace_is_named(fleet: list[FleetHost], run: Run, tmp_path: Path, device: str) -> None:
    failing = "#!/bin/sh\necho 'BLKTRACESETUP(2) /dev/x failed: 5/Input/output error'\nexit 1\n"
    (fleet[1].own / "bin/blktrace").write_text(failing)
    output = tmp_path / "traces"
    recorded = run("trace", "record", device, "-w", "1", "-o", output, "--host", "a", "--host", "b")
    assert recorded.status == 3
    assert "b: the kernel refuses to trace" in recorded.err
    assert (output / "a").is_dir()
    assert not (output / "b").exists()


def begun(fleet: list[FleetHost], start: Start, device: str, directory: Path) -> "subprocess.Popen[str]":
    """Starts blklab in another process; blktrace runs on all hosts when this returns."""
    process = start("trace", "record", device, "-o", directory / "traces", "--host", "a", "--host", "b")
    until(lambda: all(list(host.own.glob("shm/.blklab-*/*.blktrace.0")) for host in fleet), "blktrace")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_of_blklab_ends_the_recordings(
    fleet: list[FleetHost], start: Start, tmp_path: Path, device: str, number: signal.Signals
) -> None:
    process = begun(fleet, start, device, tmp_path)
    process.send_signal(number)
    _, err = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 0, err
        assert (tmp_path / "traces/b" / f"{Path(device).name}.blktrace.0").exists()
    until(lambda: all(host.is_clean() for host in fleet), "nothing of blklab is left")


@pytest.mark.parametrize("victim", ["recorder", "its guard"])
def test_killed_recorder_leaves_nothing(
    fleet: list[FleetHost], start: Start, tmp_path: Path, device: str, victim: str
) -> None:
    process = begun(fleet, start, device, tmp_path)
    guard, recorder = sorted(fleet[0].processes("readline"))[-2:]
    os.kill(recorder if victim == "recorder" else guard, signal.SIGKILL)
    until(fleet[0].is_clean, "nothing of blklab is left on a")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    if victim == "recorder":
        assert process.returncode == 3
        assert "a: the connection was lost" in err
    assert (tmp_path / "traces/b" / f"{Path(device).name}.blktrace.0").exists()
    until(fleet[1].is_clean, "nothing of blklab is left on b")
