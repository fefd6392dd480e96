"""Watch devices while they are recorded: blktrace writes to a pipe, and its last seconds are characterised."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from blklab import _core, child_process
from blklab.documents.profile import Profile
from blklab.errors import BlklabError
from blklab.system.layers import beneath, name_of
from blklab.system.roots import Roots
from blklab.trace.profile import PROFILES
from blklab.trace.record.blktrace import failure, stop, tear_down
from blklab.trace.record.checks import RecordedDevice, check_apart, check_writable, find_devices, prepare_blktrace
from blklab.trace.record.recording import interrupted_by_signals

BUFFERS = ("-b", "128", "-n", "8")  # KiB and number of buffers of each CPU: small ones arrive soon


POLL = 0.05
NOTHING = "nothing to write"  # How crates/trace begins the message about a device without I/O
ENDING = 5.0  # Seconds for the events that are still in the pipe


@dataclass(frozen=True)
class LiveLook:
    elapsed: float  # Seconds since the recording began
    length_ns: int  # The length of the window
    profile: Profile | None  # None if nothing happened in the window
    dropped: int  # Events that the kernel dropped since the beginning, because buffers were full


@dataclass(frozen=True)
class LiveOptions:
    seconds: float | None  # None: until a signal
    interval: float
    window: float
    name: Path | None  # Keep the recording: `NAME.blktrace.N`, or `NAME/DEV.blktrace.N` of several devices


def with_members(paths: Sequence[str], roots: Roots) -> list[RecordedDevice]:
    """Returns devices and all devices below them that have a node in /dev, such as members and disks."""
    devices = {device.number: device for device in find_devices(paths, roots)}
    for device in list(devices.values()):
        names = [f"/dev/{name_of(number, roots).replace('!', '/')}" for number in beneath(device.number, roots)]
        members = find_devices(sorted(name for name in names if Path(name).exists()), roots)
        devices.update({member.number: member for member in members})
    return list(devices.values())


@contextmanager
def watched(
    devices: Sequence[RecordedDevice], options: LiveOptions, roots: Roots, tell: Callable[[str], None]
) -> Iterator[Iterator[LiveLook]]:
    """Records devices during the block, and gives a look at them in each interval.

    `tell` is called with notes, such as that debugfs was mounted. Ctrl-C, SIGTERM and SIGHUP end the looks. Raises
    UsageError, EnvironmentLacks or BlklabError.
    """
    debugfs, command = _command(devices, options, roots, tell)
    counters = [Path(debugfs) / "block" / device.name / "dropped" for device in devices]
    reading, writing = os.pipe()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(
                child_process.command(command, death_signal="INT"),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=errors,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        dump = None if options.name is None else options.name.with_name(f"{options.name.name}.blklab-live")
        try:
            live = _core.LiveTrace(f"/proc/self/fd/{reading}", round(options.window * 1e9), str(dump) if dump else None)
            os.close(reading)
            with interrupted_by_signals():
                yield _looks(live, options, counters)
        finally:
            stop(process)
            if process.returncode != 0:
                tear_down(devices)
        _end(live, process, errors)
    if dump is not None and options.name is not None:
        _divide(dump, options.name, devices)


def _command(
    devices: Sequence[RecordedDevice], options: LiveOptions, roots: Roots, tell: Callable[[str], None]
) -> tuple[str, list[str]]:
    """Returns the mount point of debugfs, and blktrace's command."""
    if options.name is not None:
        check_writable(options.name.absolute().parent)
        check_apart(devices, options.name.absolute().parent.resolve(), roots)
    blktrace, debugfs = prepare_blktrace(devices, roots, tell)
    chosen = [word for device in devices for word in ("-d", device.path)]
    return debugfs, [blktrace, "-r", debugfs, *BUFFERS, "-o", "-", *chosen]


def _looks(live: _core.LiveTrace, options: LiveOptions, counters: Sequence[Path]) -> Iterator[LiveLook]:
    threads = len(os.sched_getaffinity(0))
    began = last = time.monotonic()
    while options.seconds is None or last - began < options.seconds:
        while live.ended() is None and time.monotonic() < last + options.interval:
            time.sleep(POLL)
        if live.ended() is not None:
            return
        now = time.monotonic()
        window = live.profile(round((now - last) * 1e9), threads)
        last = now
        if window is None:
            yield LiveLook(now - began, round(options.window * 1e9), None, _dropped(counters))
        else:
            yield LiveLook(now - began, window[0], PROFILES.decode(window[1]), _dropped(counters))


def _dropped(counters: Sequence[Path]) -> int:
    dropped = 0
    for path in counters:
        with suppress(OSError, ValueError):
            dropped += int(path.read_text())
    return dropped


def _end(live: _core.LiveTrace, process: "subprocess.Popen[bytes]", errors: IO[str]) -> None:
    """Waits for the last events. Raises BlklabError or EnvironmentLacks if the recording failed."""
    until = time.monotonic() + ENDING
    while (problem := live.ended()) is None and time.monotonic() < until:
        time.sleep(0.02)
    if problem:
        raise BlklabError(f"the recording ended early: {problem}")
    if process.returncode != 0:
        errors.seek(0)
        raise failure(errors.read(1 << 20), process.returncode, [])


def _divide(dump: Path, name: Path, devices: Sequence[RecordedDevice]) -> None:
    """Makes the files of a recording, as blktrace writes them, from its output in one file."""
    if len(devices) > 1:
        name.mkdir(exist_ok=True)
    for device in devices:
        target = name if len(devices) == 1 else name / device.name
        chosen = _core.Filter(devices=[device.number])
        try:
            _core.convert([str(dump)], str(target), chosen, to="blktrace", overwrite=True)
        except (OSError, BlklabError) as error:
            if NOTHING not in str(error):
                raise BlklabError(f"{error}; the recording is in {dump}: blklab trace stat {dump}") from error
    dump.unlink()
