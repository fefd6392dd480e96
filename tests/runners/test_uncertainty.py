"""The interval of a prediction."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.experiment import cells, load
from blklab.experiment.cells import Cell
from blklab.outcome import NORMAL, Outcome, PredictionInterval
from blklab.runners.sim import runner
from blklab.runners.sim.uncertainty import (
    KERNEL,
    KEYS,
    SHORT_PAGES,
    STREAMS,
    UNMEASURED,
    interval,
    other_run,
    seed_count,
    unsteady,
)
from tests.conftest import Run

DISK = {"kind": "throttled", "size": "64MiB", "latency_ns": 100_000}


MEASURED = {"submit_ns": 2_200}  # A host whose prices are known


def predicted(
    devices: dict[str, Any], stack: dict[str, Any], host: dict[str, int] = MEASURED, **job: Any
) -> PredictionInterval:
    raw = {
        "devices": devices,
        "stacks": {"x": stack},
        "workloads": {"load": {"rw": "randread", "bs": "4k", **job}},
        "settings": {"kernel": "6.1", "max_ios": 2000, "host": host},
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


NVME = {"model": "p5510", "size": "64GiB", "uncertainty": {"read": 0.0, "write": 0.0, "mixed": 0.0}}


def test_a_mirror_of_nvme_disks_with_many_ios_in_flight_is_uncertain() -> None:
    stack = {"level": "raid1", "members": ["a", "b"]}
    disks = {"a": NVME, "b": NVME}
    deep = predicted(disks, stack, rw="randwrite", iodepth=64)
    assert deep.iops[1] > 3.9
    assert deep.iops[0] < 1 / 3.9
    assert predicted(disks, stack, rw="randwrite", iodepth=8).iops[1] < 2
    assert predicted(disks, stack, rw="randwrite", iodepth=64, rate_iops=1000).iops[0] > 0.5
    assert predicted({**disks, "b": DISK}, stack, rw="randwrite", iodepth=64).iops[1] < 2


def test_the_interval_reaches_down_to_an_array_that_reads_before_short_pages_of_its_bitmap() -> None:
    stack = {"level": "raid1", "members": ["a", "b"], "bitmap": True, "bitmap_chunk": "64KiB"}
    disks = {"a": {**NVME, "size": "1GiB"}, "b": {**NVME, "size": "1GiB"}}
    assert predicted(disks, stack, rw="randwrite").iops[0] == pytest.approx(SHORT_PAGES)
    # 30,720 bits and the superblock are one page.
    whole = {"a": {**NVME, "size": "1920MiB"}, "b": {**NVME, "size": "1920MiB"}}
    assert predicted(whole, stack, rw="randwrite").iops[0] > 10 * SHORT_PAGES


def test_a_worker_of_bcache_that_is_always_busy_widens_the_interval() -> None:
    disks = {"a": {**NVME, "size": "4GiB"}, "b": {**NVME, "size": "4GiB"}}
    stack = {"kind": "bcache", "backing": "a", "cache": "b", "mode": "writeback"}
    busy = predicted(disks, stack, rw="randwrite", iodepth=32, numjobs=4)
    assert width(busy.iops) == pytest.approx(math.hypot(KERNEL, KEYS), rel=0.05)
    assert width(predicted(disks, stack, rw="randread").iops) < KEYS


def test_the_processors_of_an_unknown_host_widen_the_interval_where_they_are_busy() -> None:
    fast = {**DISK, "latency_ns": 10_000, "rotational": False}
    stack = {"device": "disk"}
    alone = predicted({"disk": fast}, stack, host={})
    # An I/O takes 5.6 of 13 to 16 µs on the processor: with prices 2.28 times as high, 1.4 to 1.6 times as long.
    assert 1 / 1.6 < alone.iops[0] < 1 / 1.4
    assert 1.2 < alone.iops[1] < 1.5
    queued = predicted({"disk": {**DISK, "latency_ns": 1_000_000}}, stack, host={}, iodepth=32)
    assert queued.iops[0] == pytest.approx(math.exp(-NORMAL * KERNEL), rel=0.01), "a slow host is fast enough"
    full = predicted({"disk": fast}, stack, host={}, iodepth=32)
    assert full.iops[0] < math.exp(-NORMAL * 0.5)
    assert full.iops[1] > math.exp(NORMAL * 0.5)
    assert width(predicted({"disk": fast}, stack, iodepth=32).iops) == pytest.approx(KERNEL)


EXPERIMENT = """
[devices]
nvme = { model = "pm983", size = "10GiB" }
ssd = { model = "sm883", size = "10GiB" }
consumer = { model = "nvme-consumer", size = "512GiB", state = "fresh" }

[stacks]
near = { level = 10, layout = "n2", members = ["nvme", "ssd"] }
alone = { device = "ssd" }
cached = { device = "consumer" }

[workloads]
streams = { rw = "read", bs = "4k", iodepth = 32, numjobs = 4, size = "2GiB" }
random = { rw = "randread", bs = "4k", iodepth = 32, time_based = true }
fill = { rw = "write", bs = "1M", iodepth = 8, time_based = true }

[settings]
kernel = "4.19"
runtime = "600s"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "steady.toml"
    path.write_text(EXPERIMENT)
    return path


def simulated(experiment: Path, stack: str, workload: str, **limits: object) -> tuple[Cell, list[Outcome]]:
    (cell,) = cells.plan(experiment, only={"stack": stack, "workload": workload}).cells
    cell = replace(cell, document={**cell.document, **limits})
    return cell, runner.outcomes([other_run(cell, number).document for number in range(seed_count(cell))])


@pytest.mark.parametrize(
    ("stack", "workload", "limits", "cut"),
    [
        # Streams stick to the disk that began them, until they change: 300 k IOPS become 615 k.
        ("near", "streams", {"max_ios": 50_000}, "max_ios"),
        ("alone", "random", {"max_ios": 50_000}, None),
        ("alone", "random", {"max_ios": 1_000_000}, None),
        # The disk's cache of single-bit cells takes the first writes.
        ("cached", "fill", {"runtime_ns": 10_000_000_000}, None),
        ("cached", "fill", {"runtime_ns": 20_000_000_000}, "runtime"),
        ("cached", "fill", {"runtime_ns": 60_000_000_000}, "runtime"),
        ("cached", "fill", {"runtime_ns": 600_000_000_000}, None),
    ],
)
def test_a_run_that_ends_before_its_rate_settles_is_not_steady(
    experiment: Path, stack: str, workload: str, limits: dict[str, int], cut: str | None
) -> None:
    cell, runs = simulated(experiment, stack, workload, **limits)
    assert {unsteady(cell, run) for run in runs} - {None} == ({cut} if cut else set())


def test_runs_in_two_states_have_both_rates(experiment: Path) -> None:
    cell, runs = simulated(experiment, "near", "streams", max_ios=300_000, seed=9)
    known = interval(cell, runs[0], runs[1:])
    rates = sorted(run.read.iops for run in runs)
    assert known.states is not None
    assert known.states[0] == pytest.approx(rates[0]) == pytest.approx(370_000, rel=0.02)
    assert known.states[1] == pytest.approx(math.sqrt(rates[1] * rates[2]))
    low, high = (runs[0].read.iops * factor for factor in known.iops)
    assert low < rates[0] < rates[2] < high
    assert interval(cell, runs[0], [runs[0], runs[0]]).states is None


def test_both_states_are_shown(run: Run, experiment: Path) -> None:
    only = ("--only", "stack=near,workload=streams", "--set", "max_ios=300000", "--seed", "9", "--no-store")
    done = run("run", experiment, *only)
    assert done.status == 0, done.err
    (low, high), *_ = re.findall(r" ([\d,]+) or ([\d,]+) ", done.out)
    assert f"note: two states: {low} IOPS in 1 of 3 simulated runs, {high} in the others" in " ".join(done.out.split())


def test_a_run_with_fewer_ios_is_the_beginning_of_a_longer_one(experiment: Path) -> None:
    for stack, workload in (("near", "streams"), ("alone", "random")):
        (short,), (long,) = (simulated(experiment, stack, workload, max_ios=most)[1][:1] for most in (20_000, 100_000))
        width = max(point["width_ns"] for point in (*short.series, *long.series))
        counts = [
            [sum(sum(p["ios"]) for p in run.series if p["time_ns"] // width == at) for at in range(len(long.series))]
            for run in (short, long)
        ]
        whole = short.runtime_ns // width
        assert whole > 3
        assert counts[0][:whole] == counts[1][:whole]


@pytest.mark.parametrize(
    ("stack", "load", "is_wide"),
    [
        ({"level": 1, "members": ["a", "b"]}, {"rw": "read", "numjobs": 4}, True),
        ({"level": 10, "members": ["a", "b"]}, {"rw": "read", "numjobs": 4}, True),
        ({"level": 10, "layout": "f2", "members": ["a", "b"]}, {"rw": "read", "numjobs": 4}, False),
        ({"level": 1, "members": ["a", "b"]}, {"rw": "read"}, False),
        ({"level": 1, "members": ["a", "b"]}, {"rw": "randread", "numjobs": 4}, False),
        ({"level": 0, "members": ["a", "b"]}, {"rw": "read", "numjobs": 4}, False),
        # Only one disk can be read
        ({"level": 1, "members": ["a", "missing"]}, {"rw": "read", "numjobs": 4}, False),
        ({"level": 1, "members": ["a", "b"], "write_mostly": ["b"]}, {"rw": "read", "numjobs": 4}, False),
        ({"level": 10, "members": ["a", "missing"]}, {"rw": "read", "numjobs": 4}, False),
        # Nearly all are writes
        ({"level": 1, "members": ["a", "b"]}, {"rw": "rw", "rwmixread": 1, "numjobs": 4}, False),
    ],
)
def test_streams_on_a_mirror_are_less_certain(stack: dict[str, Any], load: dict[str, Any], is_wide: bool) -> None:
    limits = predicted({"a": DISK, "b": DISK}, stack, **load)
    assert (limits.iops[1] > math.exp(NORMAL * STREAMS)) == is_wide


def consumer(state: str, rw: str, **keys: Any) -> PredictionInterval:
    device = {"model": "nvme-consumer", "state": state, **keys}
    raw = {
        "devices": {"disk": device},
        "stacks": {"x": {"device": "disk"}},
        "workloads": {"load": {"rw": rw, "bs": "4k", "iodepth": 32, "time_based": True}},
        "settings": {"kernel": "6.1", "runtime": "20ms", "host": MEASURED},
    }
    cell = cells.plan(load.ExperimentSource(Path("x.toml"), raw)).cells[0]
    return interval(cell, runner.outcome(cell.document))


@pytest.mark.parametrize("state", ["used", "worn"])
@pytest.mark.parametrize("way", ["read", "write"])
def test_small_ios_in_sequence_are_less_certain_if_they_were_not_measured(state: str, way: str) -> None:
    random, sequential = (width_of(consumer(state, rw).iops) for rw in (f"rand{way}", way))
    assert sequential > random


def width_of(limits: tuple[float, float]) -> float:
    return math.log(limits[1] / limits[0]) / (2 * NORMAL)


def test_what_was_measured_in_sequence_is_as_certain() -> None:
    limits = {rw: consumer("worn", rw, uncertainty={"read": 0.2}).iops for rw in ("read", "randread")}
    assert width_of(limits["read"]) == pytest.approx(width_of(limits["randread"]), rel=0.02)


@pytest.mark.parametrize(("state", "fsync"), [("used", 16), ("worn", 4)])
def test_a_load_that_waits_for_flushes_is_as_uncertain_as_they_are(state: str, fsync: int) -> None:
    """Flushes take a part of the time: all of the load waits for them, however well its writes are known."""
    deviations = {"read": 0.1, "write": 0.1, "mixed": 0.1, "sync": 1.5, "sequence_write": 0.1}
    device = {"model": "nvme-consumer", "state": state, "uncertainty": deviations, "flush_ns": 200_000}
    raw = {
        "devices": {"disk": device},
        "stacks": {"x": {"device": "disk"}},
        "workloads": {"load": {"rw": "randwrite", "bs": "4k", "fsync": fsync, "time_based": True}},
        "settings": {"kernel": "6.1", "runtime": "100ms", "host": MEASURED},
    }
    cell = cells.plan(load.ExperimentSource(Path("x.toml"), raw)).cells[0]
    outcome = runner.outcome(cell.document)
    assert 0.1 < (outcome.devices[0].flush_ns or 0) / outcome.observed_ns < 0.6
    assert width_of(interval(cell, outcome).iops) == pytest.approx(math.hypot(1.5, KERNEL), rel=0.02)


def test_a_job_that_does_little_does_not_hide_a_busy_processor() -> None:
    """A processor that takes 2.28 times as long, which is the slow end, halves what the busy job does."""

    def simulate(host: dict[str, int]) -> tuple[float, PredictionInterval]:
        raw = {
            "devices": {"disk": {"model": "pm983"}},
            "stacks": {"x": {"device": "disk"}},
            "workloads": {
                "load": {
                    "jobs": {
                        "idle": {"rw": "randwrite", "rate_iops": 10, "time_based": True},
                        "busy": {"rw": "randread", "iodepth": 64, "time_based": True},
                    }
                }
            },
            "settings": {"kernel": "6.1", "runtime": "50ms", "host": host},
        }
        cell = cells.plan(load.ExperimentSource(Path("x.toml"), raw)).cells[0]
        result = runner.outcome(cell.document)
        return result.read.iops + result.write.iops, interval(cell, result)

    rate, limits = simulate({})
    slow_rate, _ = simulate({"submit_ns": 5016, "reap_ns": 2736})
    assert limits.iops[0] < slow_rate / rate
