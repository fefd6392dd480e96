"""Fitting a flash disk of a class: what was put in is fitted again, and other loads are predicted."""

from pathlib import Path
from typing import Any

import pytest

from blklab.calibrate.fit import Bench, calibrate, directory_experiment, observations
from blklab.devices import stock_models
from blklab.experiment import cells
from blklab.experiment.load import ExperimentSource
from blklab.outcome import Outcome
from blklab.runners.sim.runner import outcomes

OTHER_LOADS = {
    "small": {"rw": "randwrite", "bs": "4k", "iodepth": 16, "numjobs": 2},
    "larger": {"rw": "randwrite", "bs": "16k", "iodepth": 32},
    "large": {"rw": "write", "bs": "256k", "iodepth": 16},
}


def simulate(directory: Path, device: dict[str, Any], workloads: Any, settings: Any) -> dict[str, Outcome]:
    timed = {name: {**load, "time_based": True} for name, load in workloads.items()}
    raw = {
        "devices": {"d": {**device, "size": "8GiB"}},
        "stacks": {"device": {"device": "d"}},
        "workloads": timed,
        "settings": settings,
    }
    plan = cells.plan(ExperimentSource(directory / "e.toml", raw))
    names = [cell.labels["workload"] for cell in plan.cells]
    return dict(zip(names, outcomes([cell.document for cell in plan.cells]), strict=True))


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_random_writes_into_the_cache_are_fitted(tmp_path: Path, factor: float) -> None:
    base = stock_models.stock("nvme-consumer")
    truth = {**base, "cached_write_command_ns": round(factor * base["cached_write_command_ns"])}
    source = directory_experiment(tmp_path, size="8GiB", seconds=5)
    measured = simulate(tmp_path, truth, source.raw["workloads"], source.raw["settings"])
    runs = observations(source, measured.items())
    calibration = calibrate(base, runs, Bench(tmp_path, "6.1", size="8GiB"))
    assert "write_command_ns" in calibration.fitted_values
    settings = {"kernel": "6.1", "runtime": "200ms"}
    predictions = simulate(tmp_path, dict(calibration.device), OTHER_LOADS, settings)
    for name, outcome in simulate(tmp_path, truth, OTHER_LOADS, settings).items():
        assert predictions[name].write.iops == pytest.approx(outcome.write.iops, rel=0.1), name
