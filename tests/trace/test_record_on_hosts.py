"""`blklab trace record --host`, on hosts that are namespaces with sshd and a blktrace that is a script."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blklab.remote_program import archived
from blklab.trace.record.hosts import MODULES
from tests.conftest import Run
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


def left() -> list[str]:
    return sorted(path.name for path in Path("/dev/shm").glob(".blklab-*"))


def test_a_bare_python_imports_exactly_the_modules_of_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "blklab.zip"
    archive.write_bytes(archived(MODULES))
    command = [sys.executable, "-I", "-S", "-c", LIST.format(archive=str(archive))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.split() == sorted(f"blklab.{name}" for name in MODULES)


@pytest.mark.usefixtures("fleet")
def test_traces_of_all_hosts_are_copied(run: Run, tmp_path: Path, device: str) -> None:
    before = left()
    output = tmp_path / "traces"
    recorded = run("trace", "record", device, "-w", "1", "-o", output, "--host", "a", "--host", "b", "--json")
    assert recorded.status == 0, recorded.err
    name = Path(device).name
    files = [f"{name}.blktrace.0", f"{name}.blklab.json"]
    assert json.loads(recorded.out) == [{"host": host, "failure": None, "files": files} for host in ("a", "b")]
    for host in ("a", "b"):
        assert (output / host / files[0]).read_bytes() == b"x" * 200000
        assert json.loads((output / host / files[1]).read_text())["stopped_by"] == "time"
    assert left() == before
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_of_blklab_ends_the_recordings(
    fleet: list[FleetHost], tmp_path: Path, device: str, number: signal.Signals
) -> None:
    before = left()
    command = [sys.executable, "-m", "blklab.cli", "trace", "record", device, "-o", str(tmp_path / "traces")]
    process = subprocess.Popen(
        [*command, "--host", "a", "--host", "b"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(lambda: len(list(Path("/dev/shm").glob(".blklab-*/*.blktrace.0"))) == 2, "blktrace")
    process.send_signal(number)
    _, err = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 0, err
        assert (tmp_path / "traces/b" / f"{Path(device).name}.blktrace.0").exists()
    until(lambda: left() == before, "the trace is removed")
    until(lambda: not any(host.processes("blktrace") for host in fleet), "no blktrace runs")
