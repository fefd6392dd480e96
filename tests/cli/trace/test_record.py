"""`blklab trace record`, with a blktrace that is a script."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import IO

import pytest

from blklab.errors import EnvironmentLacks, UsageError
from blklab.system import child_process
from blklab.system.roots import Roots
from blklab.trace.record import blktrace, checks, recording
from blklab.trace.record.blktrace import tallies
from blklab.trace.record.checks import RecordedDevice
from tests.conftest import Run

REPORT = """\
=== sdx ===
  CPU  0:                 5333 events,      251 KiB data
  CPU  1:                 7182 events,      337 KiB data
  Total:                 12515 events (dropped {dropped}),      587 KiB data
"""

FAKE = """#!{python}
import pathlib, signal, sys, time
arguments = sys.argv[1:]
if arguments == ["-v"]:
    print("blktrace version 2.0.0")
    sys.exit()
time.sleep({delay})
directory = pathlib.Path(arguments[arguments.index("-D") + 1])
devices = [a for flag, a in zip(arguments, arguments[1:]) if flag == "-d"]
names = [d.rpartition("/")[2] for d in devices]
if "-o" in arguments:
    names = [arguments[arguments.index("-o") + 1]]
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
for name in names:
    for cpu in range(2):
        (directory / f"{{name}}.blktrace.{{cpu}}").write_bytes(b"x" * 4096)
(directory / "arguments").write_text("\\n".join(arguments))
{body}
"""
WAIT = """
end = time.time() + (float(arguments[arguments.index("-w") + 1]) if "-w" in arguments else 60)
while not stop and time.time() < end:
    time.sleep(0.01)
print({report!r})
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which /dev/sdx and /dev/sdy can be traced."""
    result = {name: RecordedDevice(f"/dev/{name}", name, f"8:{at}") for at, name in enumerate(("sdx", "sdy"))}
    monkeypatch.setattr(recording, "find_devices", lambda paths, _roots: [result[Path(path).name] for path in paths])
    monkeypatch.setattr(checks, "check_privileges", lambda _roots: None)
    monkeypatch.setattr(checks, "check_kernel", lambda _devices, _roots: None)
    monkeypatch.setattr(recording, "check_apart", lambda _devices, _directory, _roots: [])
    monkeypatch.setattr(checks, "ready_debugfs", lambda _roots: nullcontext("/debug"))


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, delay: float = 0) -> None:
    program = tmp_path / "bin" / "blktrace"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, body=body, delay=delay))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def waiting(dropped: int = 0) -> str:
    return WAIT.format(report=REPORT.format(dropped=dropped))


def test_a_place_for_the_trace_is_named(run: Run) -> None:
    outcome = run("trace", "record", "/dev/md4")
    assert outcome.status == 2
    assert outcome.err == "blklab: error: say where the trace is written, not to a recorded disk: -o /dev/shm/md4\n"


def test_record_one_device(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waiting())
    outcome = run("trace", "record", "/dev/sdx", "-w", "300ms", "-o", tmp_path / "md4")
    assert outcome.status == 0, outcome.err
    assert f"next: blklab trace report {tmp_path}/md4" in outcome.out
    assert "12,515 events" in outcome.out
    assert "stopped" not in outcome.err
    assert sorted(path.name for path in tmp_path.glob("md4.*")) == [
        "md4.blklab.json",
        "md4.blktrace.0",
        "md4.blktrace.1",
    ]
    output = json.loads((tmp_path / "md4.blklab.json").read_text())
    assert output["dropped"] == 0
    assert output["stopped_by"] == "time"
    assert output["devices"] == [
        {"name": "sdx", "path": "/dev/sdx", "major": 8, "minor": 0, "events": 12515, "dropped": 0}
    ]
    assert (tmp_path / "arguments").read_text().split("\n") == (
        f"-r /debug -b 512 -n 4 -w 1 -D {tmp_path} -o md4 -d /dev/sdx".split()
    )


def test_the_time_to_start_blktrace_is_no_part_of_the_recording(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, waiting(), delay=1)
    outcome = run("trace", "record", "/dev/sdx", "-w", "200ms", "-o", tmp_path / "x")
    assert outcome.status == 0, outcome.err
    output = json.loads((tmp_path / "x.blklab.json").read_text())
    assert (output["stopped_by"], output["dropped"]) == ("time", 0)


def test_several_devices_go_to_a_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waiting())
    arguments = ("trace", "record", "/dev/sdx", "/dev/sdy", "-w", "200ms", "-o", tmp_path / "all")
    outcome = run(*arguments, "--json", "--buffer-size", "2m", "--buffers", 8)
    assert outcome.status == 0, outcome.err
    document = json.loads(outcome.out)
    assert [Path(file).name for file in document["files"]] == [
        f"{name}.blktrace.{cpu}" for name in ("sdx", "sdy") for cpu in (0, 1)
    ]
    assert (document["buffer_kib"], document["buffers"]) == (2048, 8)
    assert json.loads((tmp_path / "all/blklab.json").read_text())["devices"][1]["dropped"] is None
    again = run(*arguments)
    assert again.status == 2
    assert "exists; use --overwrite" in again.err
    assert run(*arguments, "--overwrite").status == 0


@pytest.mark.parametrize("kind", ["directory", "link", "new"])
def test_several_devices_keep_apart_from_where_the_files_really_go(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real, name = tmp_path / "recorded", tmp_path / "name"
    if kind == "link":
        real.mkdir()
        name.symlink_to(real)
    elif kind == "directory":
        name.mkdir()
    bad = real if kind == "link" else name

    def refuse(_devices: object, directory: Path, _roots: object) -> list[str]:
        if directory.is_dir() and directory.resolve() == bad:
            raise UsageError(f"{directory} is on /dev/sdx")
        return []

    install(tmp_path, monkeypatch, waiting())
    monkeypatch.setattr(recording, "check_apart", refuse)
    outcome = run("trace", "record", "/dev/sdx", "/dev/sdy", "-w", "1s", "-o", name)
    assert (outcome.status, "is on /dev/sdx" in outcome.err) == (2, True)
    assert not (tmp_path / "arguments").exists()
    assert not list(bad.iterdir())


def test_the_sidecar_follows_no_link(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    plant = (
        "(directory / 'x.blklab.json').symlink_to(directory / 'victim')\n"
        "(directory / 'x.blklab.json.new').symlink_to(directory / 'victim')\n"
    )
    install(tmp_path, monkeypatch, plant + waiting())
    outcome = run("trace", "record", "/dev/sdx", "-w", "200ms", "-o", tmp_path / "x")
    assert outcome.status == 0, outcome.err
    assert victim.read_text() == "precious"
    assert not (tmp_path / "x.blklab.json").is_symlink()
    assert json.loads((tmp_path / "x.blklab.json").read_text())["dropped"] == 0


def test_a_link_to_nowhere_is_no_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waiting())
    (tmp_path / "name").symlink_to(tmp_path / "none")
    outcome = run("trace", "record", "/dev/sdx", "/dev/sdy", "-o", tmp_path / "name")
    assert (outcome.status, "is not a directory" in outcome.err) == (2, True)


def test_dropped_events_are_reported_with_advice(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, waiting(dropped=11342))
    outcome = run("trace", "record", "/dev/sdx", "-w", "200ms", "-o", tmp_path / "x")
    assert outcome.status == 0
    assert "11,342 events (47.5 %) dropped" in outcome.err
    assert "--buffer-size 2048k --buffers 8" in outcome.err
    assert json.loads((tmp_path / "x.blklab.json").read_text())["dropped"] == 11342


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_blktrace_starts_leaves_no_process(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    install(tmp_path, monkeypatch, waiting())
    start, processes = blktrace._start_blktrace, []

    def interrupted(command: list[str], output: IO[str]) -> "subprocess.Popen[bytes]":
        processes.append(process := start(command, output))
        os.kill(os.getpid(), number)
        return process

    monkeypatch.setattr(blktrace, "_start_blktrace", interrupted)
    outcome = run("trace", "record", "/dev/sdx", "-o", tmp_path / "x")
    assert outcome.status != 0 or "stopped after" in outcome.err
    (process,) = processes
    assert process.returncode is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_recording(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    install(tmp_path, monkeypatch, waiting())

    def interrupt() -> None:
        while not (tmp_path / "arguments").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = run("trace", "record", "/dev/sdx", "-o", tmp_path / "x")
    thread.join()
    assert outcome.status == 0, outcome.err
    assert "stopped after" in outcome.err
    assert json.loads((tmp_path / "x.blklab.json").read_text())["stopped_by"] == "user"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            "print('BLKTRACESETUP(2) /dev/sdx failed: 25/Inappropriate ioctl for device');sys.exit(1)",
            3,
            "the kernel refuses to trace",
        ),
        (
            "for path in directory.glob('x.*'): path.unlink()\n"
            "print('Thread 0 failed open /debug/block/sdx/trace0: 1/Operation not permitted');"
            "print('FAILED to start thread on CPU 0: 1/Operation not permitted')",
            3,
            "trace0: 1/Operation not permitted; record on a kernel that is not locked down",
        ),
        ("for path in directory.glob('x.*'): path.unlink()", 1, "blktrace ended without a trace: it printed nothing"),
        (
            "print('BLKTRACESETUP(2) /dev/sdx failed: 16/Device or resource busy');sys.exit(1)",
            1,
            "another process traces this device",
        ),
        ("sys.stderr.write('No space left\\n');sys.exit(1)", 1, "(status 1): No space left"),
        ("import os; os.kill(os.getpid(), 9)", 1, "(signal 9): it printed nothing; its files"),
    ],
)
def test_a_failing_blktrace(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, body: str, status: int, words: str
) -> None:
    install(tmp_path, monkeypatch, body)
    torn_down: list[RecordedDevice] = []
    monkeypatch.setattr(blktrace, "tear_down", torn_down.extend)
    outcome = run("trace", "record", "/dev/sdx", "-w", "5s", "-o", tmp_path / "x")
    assert outcome.status == status
    assert words in outcome.err
    assert outcome.err.count("error:") == 1
    # Only what is ours: another's trace of the same device goes on.
    assert bool(torn_down) == ("signal" in words)


def test_what_makes_no_sense(run: Run, tmp_path: Path) -> None:
    for arguments, words in (
        (("-o", tmp_path / "nowhere/x"), "no such directory"),
        (("-o", "-"), "expected a file name"),
        (("-o", tmp_path / "x", "-w", "0s"), "expected more than 0"),
        (("-o", tmp_path / "x", "--buffer-size", "100"), "--buffer-size: expected"),
    ):
        outcome = run("trace", "record", "/dev/sdx", *arguments)
        assert outcome.status in {1, 2}
        assert words in outcome.err


def test_without_blktrace(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_names: str) -> str:
        raise EnvironmentLacks("blktrace is not installed", "install it: apt-get install blktrace")

    monkeypatch.setattr(child_process, "find", missing)
    outcome = run("trace", "record", "/dev/sdx", "-o", tmp_path / "x")
    assert outcome.status == 3
    assert "apt-get install blktrace" in outcome.err


def test_what_is_no_device(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    outcome = run("trace", "record", tmp_path, "-o", tmp_path / "x")
    assert (outcome.status, "is not a block device" in outcome.err) == (2, True)
    outcome = run("trace", "record", tmp_path / "none", "-o", tmp_path / "x")
    assert (outcome.status, "No such file" in outcome.err) == (2, True)


def test_the_closing_report_by_device() -> None:
    result = tallies(REPORT.format(dropped=3) + REPORT.format(dropped=0).replace("sdx", "dm-0"))
    assert {name: tally.dropped_events for name, tally in result.items()} == {"sdx": 3, "dm-0": 0}
    assert tallies("garbage") == {}


def test_a_device_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("vdx", "cciss!c0d0"):
        (tmp_path / "sys/class/block" / name).mkdir(parents=True)
    roots = Roots(sys=tmp_path / "sys", dev=tmp_path / "dev")
    (roots.dev / "cciss").mkdir(parents=True)
    for name in ("vdx", "cciss/c0d0"):
        (roots.dev / name).touch()
    for name in ("vdx", "cciss!c0d0"):
        with pytest.raises(UsageError, match="is not a block device") as caught:
            checks.find_devices([name], roots)
        assert str(caught.value).startswith(f"{roots.device(name)}: ")
    with pytest.raises(UsageError, match=r"^vdy: No such file or directory; expected a block device"):
        checks.find_devices(["vdy"], roots)
