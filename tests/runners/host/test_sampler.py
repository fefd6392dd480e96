"""Devices' statistics over a run: of a machine whose clock the test turns, and of a real device."""

import subprocess
import time

import pytest

from blklab.errors import BlklabError
from blklab.runners.host.runner import DiskstatsSampler
from blklab.system import diskstats
from blklab.system.roots import Roots
from tests.runners.host.conftest import MIB, Loops
from tests.system.machine import Machine

SECOND = 1_000_000_000


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


def stats(machine: Machine, ios: int, ticks: int, name: str = "sda") -> None:
    machine.proc("diskstats", f"8 0 {name} {ios} 0 {ios * 8} {ticks} 0 0 0 0 0 0 {ticks}")
    machine.proc("stat", f"cpu {ios} 0 0 {ios} 0 0 0 0")


def test_sums_and_the_last_point(machine: Machine) -> None:
    clock = Clock()
    stats(machine, 100, 4294967290)
    # The interval is longer than the run: the thread has nothing to do.
    with DiskstatsSampler(["sda", "sda"], machine.roots, 3600 * SECOND, clock) as sampler:
        clock.now += 2 * SECOND
        stats(machine, 110, 4)
    assert sampler.deltas.began_ns == 5 * SECOND
    [point] = sampler.deltas.points
    assert (point.source, point.time_ns, point.width_ns) == ("sda", 0, 2 * SECOND)
    assert (point.read_ios, point.read_bytes, point.read_clat_ns) == (10, 40960, 1_000_000)
    assert (point.write_ios, point.write_clat_ns) == (0, None)
    assert sampler.deltas.total["sda"].ticks_ns == (10_000_000, 0)
    assert sampler.cpu["user"] == 0.5
    assert sampler.deltas.problems == []


def test_a_device_that_goes_is_said_and_its_past_kept(machine: Machine) -> None:
    clock = Clock()
    stats(machine, 100, 0)
    with DiskstatsSampler(["sda"], machine.roots, 3600 * SECOND, clock) as sampler:
        clock.now += SECOND
        stats(machine, 100, 0, name="sdb")
    assert sampler.deltas.points == []
    assert sampler.deltas.problems == ["sda: not in /proc/diskstats: the device is gone or was renamed"]


def test_an_unknown_device_is_refused(machine: Machine) -> None:
    stats(machine, 1, 1)
    with pytest.raises(BlklabError, match="sdz: not in"), DiskstatsSampler(["sdz"], machine.roots):
        pass


def test_intervals_of_a_real_device_add_up_to_its_sum(loops: Loops, here: Roots) -> None:
    device = loops.attach(loops.file())
    name = device.removeprefix("/dev/")
    with DiskstatsSampler([name], here, SECOND // 20) as sampler:
        subprocess.run(
            ["dd", f"of={device}", "if=/dev/zero", "bs=1M", "count=16", "oflag=direct"], check=True, capture_output=True
        )
        before = diskstats.cpu(here)
        while diskstats.cpu(here) == before:  # a fast device needs less than a tick
            time.sleep(0.01)
    points = sampler.deltas.points
    assert sum(point.write_bytes for point in points) == 16 * MIB
    assert sampler.deltas.total[name].sectors[1] * 512 == 16 * MIB
    ends = [point.time_ns + point.width_ns for point in points]
    assert [point.time_ns for point in points] == [0, *ends[:-1]]
    assert abs(sum(sampler.cpu.values()) - 1) < 1e-9
