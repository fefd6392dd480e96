"""The interval of a prediction."""

import math
from pathlib import Path
from typing import Any

import pytest

from blklab.outcome import NORMAL, PredictionInterval
from blklab.runners.sim import runner
from blklab.runners.sim.uncertainty import KERNEL, UNMEASURED, interval
from blklab.spec import cells, load

DISK = {"kind": "throttled", "size": "64MiB", "latency_ns": 100_000}


def predicted(devices: dict[str, Any], stack: dict[str, Any], **job: Any) -> PredictionInterval:
    raw = {
        "devices": devices,
        "stacks": {"x": stack},
        "workloads": {"load": {"rw": "randread", "bs": "4k", **job}},
        "settings": {"kernel": "6.1", "max_ios": 2000},
    }
    cell = cells.plan(load.ExperimentSource(Path("x.toml"), raw)).cells[0]
    return interval(cell, runner.outcome(cell.document))


def width(limits: tuple[float, float]) -> float:
    """Returns the deviation of an interval that is symmetric as a logarithm."""
    assert limits[0] * limits[1] == pytest.approx(1)
    return math.log(limits[1]) / NORMAL


def test_known_devices_leave_the_error_of_the_kernel() -> None:
    assert width(predicted({"disk": DISK}, {"device": "disk"}).iops) == pytest.approx(KERNEL)


@pytest.mark.parametrize(("rw", "deviation"), [("randread", 0.1), ("randwrite", 0.2), ("randrw", 0.3)])
def test_the_kind_of_load_decides(rw: str, deviation: float) -> None:
    disk = {**DISK, "uncertainty": {"read": 0.1, "write": 0.2, "mixed": 0.3}}
    limits = predicted({"disk": disk}, {"device": "disk"}, rw=rw)
    assert width(limits.iops) == pytest.approx(math.hypot(deviation, KERNEL))
    assert width(limits.p99) > width(limits.iops)


def test_a_device_counts_with_its_share_of_the_load() -> None:
    uncertain = {**DISK, "uncertainty": {"read": 0.2, "write": 0.2}}
    stack = {"level": "raid1", "members": ["disk", "other"]}
    limits = predicted({"disk": uncertain, "other": DISK}, stack, rw="randwrite")
    assert width(limits.iops) == pytest.approx(math.hypot(0.1, KERNEL), rel=0.01)


def test_iops_cannot_exceed_the_rate_of_the_load() -> None:
    disk = {**DISK, "uncertainty": {"read": 0.5}}
    limits = {rate: predicted({"disk": disk}, {"device": "disk"}, rate_iops=rate).iops for rate in (1000, 9000)}
    assert [max(pair) for pair in limits.values()] == [1, 1]
    assert min(limits[1000]) == 1
    busy = 0.9  # share of the time, at 9000 of 10,000 I/Os a second
    assert min(limits[9000]) == pytest.approx(math.exp(-NORMAL * math.hypot(0.5, KERNEL)) / busy, rel=0.02)


def test_a_typical_device_has_its_spread_and_a_calibrated_one_its_residuals() -> None:
    model: dict[str, Any] = {"model": "hdd-7200", "size": "1GiB"}
    assert width(predicted({"disk": model}, {"device": "disk"}).iops) == pytest.approx(math.hypot(0.25, KERNEL))
    model["uncertainty"] = {"read": 0.01}
    assert width(predicted({"disk": model}, {"device": "disk"}).iops) == pytest.approx(math.hypot(0.01, KERNEL))


def test_arrays_without_a_measurement_are_less_certain() -> None:
    flash = {**DISK, "latency_ns": 10_000, "rotational": False}
    names = ["a", "b", "c"]
    disks = dict.fromkeys(names, flash)
    mirror = {"level": "raid1", "members": names[:2]}
    assert width(predicted({"a": flash, "b": flash}, mirror, rw="randwrite").iops) == pytest.approx(KERNEL)
    parity = predicted(disks, {"level": "raid5", "members": names}, rw="randwrite")
    assert width(parity.iops) == pytest.approx(math.hypot(KERNEL, UNMEASURED))
    aligned = predicted(disks, {"level": "raid5", "members": names}, rw="randread")
    assert width(aligned.iops) == pytest.approx(math.hypot(KERNEL, UNMEASURED))
    crowd = predicted({"a": flash, "b": flash}, mirror, rw="randread", numjobs=33)
    assert min(crowd.iops) < math.exp(-NORMAL * UNMEASURED)
    spinning = {name: {**DISK, "rotational": True} for name in names}
    assert width(predicted(spinning, {"level": "raid5", "members": names}, rw="randwrite").iops) < UNMEASURED
