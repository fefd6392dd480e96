"""Run blktrace: start, watch and stop it, and parse its closing report."""

import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from blklab.errors import BlklabError, EnvironmentLacks
from blklab.system import child_process
from blklab.system.child_process import signals_held_back
from blklab.trace.record.checks import RecordedDevice

BLKTRACESTOP = 0x1275
BLKTRACETEARDOWN = 0x1276  # ioctls _IO(0x12, 117) and _IO(0x12, 118) of include/uapi/linux/fs.h
POLL = 0.1
STARTING_POLL = 0.01
KILL_S = 30.0  # Seconds that the kernel may take to end it
STOPPING = 30.0  # Seconds that blktrace may take to write its buffers


@dataclass(frozen=True)
class RecordingOptions:
    seconds: float | None = None  # None: until Ctrl-C
    buffer_size: int = 512  # KiB of each of a CPU's buffers (`blktrace -b`)
    buffers: int = 4  # Buffers of each CPU (`blktrace -n`)


@dataclass(frozen=True)
class RecordingProgress:
    elapsed: float
    remaining: float | None
    bytes: int


@dataclass(frozen=True)
class BlktraceTotals:
    """One device in blktrace's closing report."""

    events: int
    dropped_events: int
    kib: int


@dataclass(frozen=True)
class BlktraceExit:
    """The end of a blktrace run."""

    output: str
    seconds: float
    stopped_by: str  # `time`, `user`, or `blktrace` if it ended by itself


_TOTAL = re.compile(r"^\s*Total:\s+(\d+) events \(dropped (\d+)\),\s+(\d+) KiB data", re.M)


def tallies(output: str) -> dict[str, BlktraceTotals]:
    """Returns the totals by device of blktrace's closing report (blktrace.c, show_stats)."""
    totals = {}
    for name, block in re.findall(r"^=== (.+?) ===\n(.*?)(?=^===|\Z)", output, re.M | re.S):
        total = _TOTAL.search(block)
        if total:
            totals[name] = BlktraceTotals(*map(int, total.groups()))
    return totals


def version(blktrace: str) -> str:
    """Returns the output of `blktrace -v`."""
    try:
        output = subprocess.run([blktrace, "-v"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacks(f"{blktrace} does not run: {error}", "reinstall blktrace") from None
    lines = (output.stdout + output.stderr).strip().splitlines()
    # "/usr/sbin/blktrace version 2.0.0"
    return lines[0].rpartition("/")[2][:100] if lines else "unknown"


def run(
    command: list[str],
    devices: Iterable[RecordedDevice],
    seconds: float | None,
    files: Callable[[], Iterable[Path]],
    tick: Callable[[RecordingProgress], object],
) -> BlktraceExit:
    """Runs blktrace until its time is over or the user interrupts it, which is not a failure.

    Time counts from blktrace's first file: before, it records nothing, and SIGINT kills it. blktrace runs in a separate
    session, so that Ctrl-C reaches it once and from here. If it does not end when asked, or is killed, the kernel's
    trace is removed. Raises BlklabError or EnvironmentLacks with blktrace's message if it fails.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        start_time = time.monotonic()
        process = None
        stopped_by = "blktrace"
        try:
            try:
                with signals_held_back():
                    process = _start_blktrace(command, output)
                while process.poll() is None and not any(True for _ in files()):
                    time.sleep(STARTING_POLL)
                if process.poll() is None:
                    start_time = time.monotonic()
                stopped_by = _watch(process, start_time, seconds, files, tick)
            except KeyboardInterrupt:
                if process is None:
                    raise
                stopped_by = "user"
            ran = time.monotonic() - start_time
            stop(process)
        finally:
            # Files exist only after blktrace has set up its own trace.
            if process is not None:
                end(process, devices if any(True for _ in files()) else ())
        text = _read(output)
    if process.returncode != 0:
        raise failure(text, process.returncode, [path for path in files() if _size(path)])
    return BlktraceExit(text, ran, stopped_by)


def _start_blktrace(command: list[str], output: IO[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )


def _watch(
    process: "subprocess.Popen[bytes]",
    start_time: float,
    seconds: float | None,
    files: Callable[[], Iterable[Path]],
    tick: Callable[[RecordingProgress], object],
) -> str:
    """Returns why the recording ended: its time, or blktrace itself."""
    while process.poll() is None:
        elapsed = time.monotonic() - start_time
        remaining = None if seconds is None else seconds - elapsed
        if remaining is not None and remaining <= 0:
            return "time"
        tick(RecordingProgress(elapsed, remaining, sum(_size(path) for path in files())))
        time.sleep(POLL if remaining is None else max(0.0, min(POLL, remaining)))
    late = seconds is not None and time.monotonic() - start_time >= seconds
    return "time" if late else "blktrace"


PIPE_BUFFERS = ("-b", "128", "-n", "8")  # KiB and number of buffers of each CPU: small ones arrive soon


def start_into_pipe(
    blktrace: str, debugfs: str, devices: Iterable[RecordedDevice], errors: IO[str]
) -> "subprocess.Popen[bytes]":
    """Starts a blktrace that writes events to its stdout, a pipe, and messages to `errors`.

    `stop` and `end` must follow.
    """
    options = ["-r", debugfs, *PIPE_BUFFERS, "-o", "-"]
    for device in devices:
        options += ["-d", device.path]
    return subprocess.Popen(
        child_process.command([blktrace, *options], death_signal="INT"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Lets blktrace finish: SIGINT is its normal end; a second Ctrl-C here ends it immediately. `end` must follow."""
    for number, patience in ((signal.SIGINT, STOPPING), (signal.SIGTERM, STOPPING / 3)):
        if process.poll() is not None:
            return
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(patience)


def end(process: "subprocess.Popen[bytes]", devices: Iterable[RecordedDevice]) -> None:
    """Kills a blktrace that did not stop. If it was killed, the kernel's trace of its devices is removed.

    One that ended by itself has cleaned up, or the device is traced by another one, whose trace must continue.
    """
    process.kill()  # does nothing if it has ended
    try:
        status = process.wait(KILL_S)
    except subprocess.TimeoutExpired:
        raise BlklabError(f"blktrace (process {process.pid}) hangs in the kernel, although it was killed") from None
    if status < 0:
        tear_down(devices)


def tear_down(devices: Iterable[RecordedDevice]) -> None:
    """Removes the kernel's trace of a blktrace that is gone; otherwise the device stays busy."""
    for device in devices:
        with suppress(OSError):
            handle = os.open(device.path, os.O_RDONLY | os.O_NONBLOCK)
            for request in (BLKTRACESTOP, BLKTRACETEARDOWN):
                with suppress(OSError):  # there was none
                    fcntl.ioctl(handle, request)
            os.close(handle)


def _read(output: IO[str]) -> str:
    output.seek(0)
    return output.read(1 << 20)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def failure(output: str, status: int, files: list[Path]) -> BlklabError:
    """Returns the error for a blktrace that ended with `status`, with its message.

    It can end with status 0 and have recorded nothing: then the kernel refused buffers to its
    threads (blktrace.c, setup_buffer). `files` are the files that it wrote.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    message = next((line for line in lines if "failed" in line.lower()), lines[0] if lines else "")
    match = re.search(r"BLKTRACESETUP\S* \S+ failed: (\d+)/", message)
    if match and int(match[1]) == 16:
        return BlklabError(f"{message}: another process traces this device; stop that blktrace (ps -C blktrace)")
    if match:
        return EnvironmentLacks(f"the kernel refuses to trace: {message}", "record on a kernel that allows blktrace")
    if match := re.search(r"(?i)(?:failed (?:open|to start thread)|invalid path).*: (?:1|13)/", message):
        return EnvironmentLacks(
            f"the kernel refuses to trace: {message}",
            "record on a kernel that is not locked down (cat /sys/kernel/security/lockdown) and outside containers",
        )
    ending = f"signal {-status}" if status < 0 else f"status {status}"
    files_note = f"; its files are kept ({files[0]}, ...)" if files else ""
    if status == 0:
        return BlklabError(f"blktrace ended without a trace: {message or 'it printed nothing'}")
    return BlklabError(f"blktrace failed ({ending}): {message or 'it printed nothing'}{files_note}")
