"""What a device's maker states, next to what the simulation of its model gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blklab.runners.sim.runner import alone, outcomes
from blklab.spec import stock_models
from blklab.spec.cells import Cell
from blklab.spec.stock_models import LibraryModel, RatedFigure

TESTS: dict[str, dict[str, Any]] = {
    "random_read_iops": {"rw": "randread", "bs": "4k", "iodepth": 32},
    "random_write_iops": {"rw": "randwrite", "bs": "4k", "iodepth": 32},
    "steady_random_write_iops": {"rw": "randwrite", "bs": "4k", "iodepth": 32},
    "read_bandwidth": {"rw": "read", "bs": "128k", "iodepth": 32},
    "write_bandwidth": {"rw": "write", "bs": "128k", "iodepth": 32},
    "average_seek_ms": {"rw": "randread", "bs": "4k", "iodepth": 1},
}
"""The loads of data sheets."""

NVME_JOBS = 8  # Jobs of random I/O on an NVMe disk: data sheets have 256 in flight, or more
RUNTIME = {"hdd": "20s", "throttled": "10s"}  # Of others: half a second
USED_RUNTIME = "4s"  # Of a used disk, whose memory takes the first writes
VIRTUAL_SIZE = "64GiB"  # Size of a virtual disk, which states none


def rated_figures(models: Sequence[LibraryModel]) -> dict[str, list[RatedFigure]]:
    """Simulates models; returns their rated figures by name of the model."""
    tests = [(model, name) for model in models for name in TESTS if name in model.rated]
    results = outcomes([_cell(model, name).document for model, name in tests])
    figures: dict[str, list[RatedFigure]] = {model.name: [] for model in models}
    for (model, name), outcome in zip(tests, results, strict=True):
        direction = outcome.write if "write" in name else outcome.read
        if name == "average_seek_ms":
            table = stock_models.stock(model.name)
            half_turn = 30_000 / table["rpm"]
            simulated = 1000 / direction.iops - half_turn - table["command_ns"] / 1e6
        else:
            simulated = direction.bw_bytes if "bandwidth" in name else direction.iops
        figures[model.name].append(RatedFigure(name, model.rated[name], simulated))
    return figures


def _cell(model: LibraryModel, name: str) -> Cell:
    table = stock_models.stock(model.name)
    device = {"model": model.name}
    if "capacity" not in table:
        device["size"] = VIRTUAL_SIZE
    if model.kind in {"ssd", "nvme"}:
        device["state"] = "steady" if name.startswith("steady") else "fresh"
    workload = {**TESTS[name], "time_based": True}
    if model.kind == "nvme" and "random" in name:
        workload["numjobs"] = NVME_JOBS
    runtime = USED_RUNTIME if device.get("state") == "steady" else RUNTIME.get(model.kind, "500ms")
    return alone(Path(f"{model.name}.toml"), device, (name, workload), {"kernel": "6.1", "runtime": runtime})
