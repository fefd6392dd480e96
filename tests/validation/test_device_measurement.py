"""Measuring a device and fitting its model: what was put in is fitted again."""

from pathlib import Path
from typing import Any

import pytest

from blklab.analysis.calibrate import calibrate
from blklab.runners.result import RunResult
from blklab.runners.sim.runner import outcomes
from blklab.spec import cells
from blklab.spec.load import ExperimentSource
from blklab.validation.device_measurement import directory_experiment, observations

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
    results = [
        RunResult(cell.number, cell.labels, "host", outcome, 0.0)
        for cell, outcome in zip(plan.cells, measured, strict=True)
    ]
    runs = observations(source, results)
    fitted = calibrate({"kind": "throttled"}, runs, kernel="6.1", filesystem="none", size="4GiB", where=tmp_path).device
    assert {key: value for key, value in fitted.items() if key != "kind"} == pytest.approx(truth, rel=0.05)
