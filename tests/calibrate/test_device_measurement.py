"""Measuring a device and fitting its model: what was put in is fitted again."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from blklab.calibrate.fit import Bench, calibrate, directory_experiment, observations
from blklab.calibrate.observations import Observation
from blklab.experiment import cells
from blklab.experiment.load import ExperimentSource
from blklab.runners.sim.runner import outcomes

LIMITED = {"iops_total": 2_000, "bps_read": 80_000_000, "bps_write": 40_000_000, "latency_ns": 900_000}
APART = {"iops_read": 4_000, "iops_write": 1_500, "bps_read": 100_000_000, "latency_ns": 400_000}


@pytest.mark.parametrize("truth", [LIMITED, APART], ids=["shared", "apart"])
def test_the_limits_of_a_virtual_disk_are_fitted(tmp_path: Path, truth: dict[str, Any]) -> None:
    source = directory_experiment(tmp_path, size="4GiB", seconds=220)
    simulated = {
        **{key: source.raw[key] for key in ("workloads", "settings")},
        "devices": {"d": {"kind": "throttled", "size": "4GiB", **truth}},
        "stacks": {"device": {"device": "d"}},
    }
    plan = cells.plan(ExperimentSource(tmp_path / "e.toml", simulated))
    measured = outcomes([cell.document for cell in plan.cells])
    runs = observations(source, zip((cell.labels["workload"] for cell in plan.cells), measured, strict=True))
    fitted = calibrate({"kind": "throttled"}, runs, Bench(tmp_path, "6.1", size="4GiB")).device
    assert {key: value for key, value in fitted.items() if key not in {"kind", "uncertainty"}} == pytest.approx(
        truth, rel=0.05
    )


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_interval_of_a_parameter_is_that_of_repeats(tmp_path: Path, noise: float) -> None:
    # One I/O at a time of 1 ms, measured five times: the mean of the logarithms is known by its standard error.
    logs = [noise * z for z in (-1.3, -0.4, 0.2, 0.5, 1.0)]
    workload = {"rw": "randread", "bs": "4k", "iodepth": 1}
    runs = [Observation(f"repeat {at}", workload, 1000 * math.exp(log), 0.0) for at, log in enumerate(logs)]
    start = {"kind": "throttled", "uncertainty": {"read": 0.1}}
    fitted = calibrate(start, runs, Bench(tmp_path, "6.1", size="1GiB"))
    low, high = fitted.intervals["latency_ns"]
    assert low < 1_000_000 < high
    student = 2.132  # the 95th percentile of Student's t with four degrees of freedom
    error = student * statistics.stdev(logs) / math.sqrt(5)
    assert math.log(high / low) / 2 == pytest.approx(error, rel=0.1)
    deviation = math.hypot(0.1, *logs) / math.sqrt(6)
    assert fitted.device["uncertainty"]["read"] == pytest.approx(deviation, rel=0.05)
