"""Watch devices while they are recorded: blktrace writes to a pipe, and its last seconds are characterised."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from blklab import _core
from blklab.documents.profile import Profile
from blklab.errors import BlklabError
from blklab.system.layers import beneath, name_of
from blklab.system.roots import Roots
from blklab.trace.profile import PROFILES
from blklab.trace.record.blktrace import end, failure, start_into_pipe, stop
from blklab.trace.record.checks import RecordedDevice, check_apart, check_writable, find_devices, ready_blktrace
from blklab.trace.record.recording import interrupt_on_signals

POLL = 0.05
NOTHING = "nothing to write"  # How crates/trace begins the message about a device without I/O
ENDING = 5.0  # Seconds for the events that are still in the pipe


@dataclass(frozen=True)
class LiveLook:
    elapsed: float  # Seconds since the recording began
    length_ns: int  # The length of the window
    profile: Profile | None  # None if nothing happened in the window
    dropped_events: int  # Events that the kernel dropped since the beginning, because buffers were full


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
def watch_devices(
    devices: Sequence[RecordedDevice], options: LiveOptions, roots: Roots
) -> Iterator[Iterator[LiveLook]]:
    """Records devices during the block, and gives a look at them in each interval.

    Ctrl-C, SIGTERM and SIGHUP end the looks. Raises UsageError, EnvironmentLacks or BlklabError.
    """
    if options.name is not None:
        check_writable(options.name.absolute().parent)
        check_apart(devices, options.name.absolute().parent.resolve(), roots)
    dump = None if options.name is None else options.name.with_name(f"{options.name.name}.blklab-live")
    with (
        ready_blktrace(devices, roots) as (blktrace, debugfs),
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        counters = [Path(debugfs) / "block" / device.name / "dropped" for device in devices]
        process = start_into_pipe(blktrace, debugfs, devices, errors)
        try:
            with cast(IO[bytes], process.stdout) as output:
                path = f"/proc/self/fd/{output.fileno()}"
                live = _core.LiveTrace(path, round(options.window * 1e9), str(dump) if dump else None)
            with interrupt_on_signals():
                yield _looks(live, options, counters)
        finally:
            stop(process)
            end(process, devices)
        _end(live, process, errors)
    if dump is not None and options.name is not None:
        _divide(dump, options.name, devices)


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
            yield LiveLook(now - began, round(options.window * 1e9), None, _count_dropped(counters))
        else:
            yield LiveLook(now - began, window[0], PROFILES.decode(window[1]), _count_dropped(counters))


def _count_dropped(counters: Sequence[Path]) -> int:
    count = 0
    for path in counters:
        with suppress(OSError, ValueError):
            count += int(path.read_text())
    return count


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
        device_filter = _core.Filter(devices=[device.number])
        try:
            _core.convert([str(dump)], str(target), device_filter, to="blktrace", overwrite=True)
        except (OSError, BlklabError) as error:
            if NOTHING not in str(error):
                raise BlklabError(f"{error}; the recording is in {dump}: blklab trace stat {dump}") from error
    dump.unlink()
