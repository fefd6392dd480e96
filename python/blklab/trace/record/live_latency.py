"""The latencies of each interval of a recording that goes on, for `blklab tune --live`; no trace is written."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from blklab import _core
from blklab.documents.profile import Profile
from blklab.errors import BlklabError
from blklab.runners.host.live.watch import WAYS, TracedLatency
from blklab.system import child_process
from blklab.system.identity import BlockDevice
from blklab.system.mounts import mounts
from blklab.system.roots import Roots
from blklab.trace.profile import PROFILES
from blklab.trace.record.blktrace import end, failure, start_into_pipe, stop
from blklab.trace.record.checks import RecordedDevice, check_kernel, check_privileges, check_untraced, ready_blktrace


def _list_recorded(targets: Sequence[BlockDevice]) -> list[RecordedDevice]:
    return [RecordedDevice(target.path, target.name, target.number) for target in targets]


def find_obstacle(targets: Sequence[BlockDevice], roots: Roots) -> str:
    """Returns why these devices cannot be recorded, as far as that is known without a change; empty if they can."""
    devices = _list_recorded(targets)
    try:
        check_privileges(roots)
        child_process.command([child_process.find("blktrace", "blktrace")])
        check_kernel(devices, roots)
        for mount in mounts(roots):
            if mount.kind == "debugfs":
                check_untraced(devices, mount.point)
    except BlklabError as error:
        return describe_obstacle(error)
    return ""


def describe_obstacle(error: BlklabError) -> str:
    """Returns why no trace is recorded, as a clause."""
    return f"no trace can be recorded ({error})"


@dataclass
class LiveLatencies:
    """A `LatencySource`. Events arrive up to a second late, so an interval has those of a second before."""

    process: "subprocess.Popen[bytes]"
    live: _core.LiveTrace
    errors: IO[str]
    numbers: Sequence[str]  # `major,minor` of the devices

    def take(self, elapsed_ns: int) -> dict[str, list[TracedLatency]]:
        """Returns the latencies since the last call. Raises BlklabError or EnvironmentLacks if blktrace ended."""
        ended = self.live.ended()
        if ended is not None:
            if self.process.poll():
                self.errors.seek(0)
                raise failure(self.errors.read(1 << 20), self.process.returncode or 0, [])
            raise BlklabError(f"the recording ended: {ended or 'blktrace closed its output'}")
        window = self.live.profile(elapsed_ns, len(os.sched_getaffinity(0)))
        if window is None:
            return {way: [] for way in WAYS}
        return summarise_profile(PROFILES.decode(window[1]), self.numbers)


def summarise_profile(profile: Profile, numbers: Sequence[str]) -> dict[str, list[TracedLatency]]:
    """Returns the latencies of these devices, by direction: Q2C, so the wait for a free request counts."""
    latencies: dict[str, list[TracedLatency]] = {way: [] for way in WAYS}
    for device in profile.devices:
        if device.device not in numbers:
            continue
        for way in WAYS:
            times = device.life[way].latency_ns["q2c"]
            if times.count:
                figures = (times.mean, times.p50, times.p95, times.p99, times.max)
                latencies[way].append(TracedLatency(times.count, *(float(figure or 0) for figure in figures)))
    return latencies


@contextmanager
def record_latencies(targets: Sequence[BlockDevice], interval_ns: int, roots: Roots) -> Iterator[LiveLatencies]:
    """Records the devices during the block. Raises UsageError, EnvironmentLacks or BlklabError."""
    devices = _list_recorded(targets)
    with (
        ready_blktrace(devices, roots) as (blktrace, debugfs),
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        process = start_into_pipe(blktrace, debugfs, devices, errors)
        try:
            with cast(IO[bytes], process.stdout) as output:
                live = _core.LiveTrace(str(Path("/proc/self/fd") / str(output.fileno())), interval_ns)
            numbers = [device.number.replace(":", ",") for device in devices]
            yield LiveLatencies(process, live, errors, numbers)
        finally:
            stop(process)
            end(process, devices)
