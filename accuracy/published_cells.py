"""From a published target and test to the cell that predicts it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accuracy.cache_tables import BcacheRun
from accuracy.reference import RandomioRun, Reference
from blklab.devices import stock_models
from blklab.errors import UsageError
from blklab.experiment import cells, load
from blklab.experiment.cells import Cell

MODELS = {"ssd": "sm883", "nvme": "pm983", "hdd": "st5000lm000"}
"""The stock model of a target's device, from which its calibration starts."""

PARTITION = "10GiB"  # Size of the partitions at the start of the disks, of which all targets consist
SINGLE_KERNEL = "4.19"  # The kernel of the single-device rows
STACK = "target"


def fio_cell(reference: Reference, target: str, test: str, devices: Mapping[str, Mapping[str, Any]]) -> Cell:
    """Returns the cell of a test on a target; `devices` has the table of each kind of device.

    Members are named after their kind, with a number if there are several. Raises UsageError.
    """
    described = reference.targets[target]
    names = [described["device"]] if "device" in described else list(described["members"])
    for name in names:
        if name not in devices:
            message = f"{reference.path}: targets.{target}: found device {name!r}; known are {', '.join(devices)}"
            raise UsageError(message)
    unique = member_names(names)
    tables = {device: {**devices[name], "size": PARTITION} for device, name in zip(unique, names, strict=True)}
    stack: dict[str, Any] = {"device": unique[0]}
    if "members" in described:
        stack = {"level": described["level"], "members": unique}
        stack |= {key: described[key] for key in ("layout", "chunk") if key in described}
    common = {key: reference.common[key] for key in _KEYS if key in reference.common}
    raw = {
        "devices": tables,
        "stacks": {STACK: stack},
        "workloads": {test: {**reference.tests[test], **common}},
        "settings": {
            "kernel": described.get("kernel", SINGLE_KERNEL),
            "filesystem": "ext4",
            "runtime": reference.common.get("runtime", 3600),
        },
    }
    return cells.plan(load.ExperimentSource(reference.path / "targets.toml", raw)).cells[0]


_KEYS = ("bs", "numjobs", "iodepth", "size")
"""From `[workload_common]`. Without `batch`: fio prints every batch of 1 to 4 as "4=100%", and
the NVMe merged nothing in sequential reads, so I/Os were submitted one by one, fio's default.
"""


def member_names(names: list[str]) -> list[str]:
    """Returns unique names: `nvme`, `ssd`; `hdd1`, `hdd2`."""
    counted: dict[str, int] = {}
    unique = []
    for name in names:
        counted[name] = counted.get(name, 0) + 1
        unique.append(f"{name}{counted[name]}" if names.count(name) > 1 else name)
    return unique


def randomio_cell(run: RandomioRun) -> Cell:
    """Returns the cell of a randomio row: `md10fs`, or a set-up with several stacks and its stack, `six/raid5`.

    Raises UsageError for an unknown configuration.
    """
    name, _, stack = run.config.partition("/")
    path = Path(__file__).parent / "randomio" / f"{name}.toml"
    known = sorted(path_.stem for path_ in path.parent.glob("*.toml"))
    if name not in known:
        raise UsageError(f"randomio: found configuration {run.config!r}; known are {', '.join(known)}")
    source = load.read(path)
    workloads = source.raw["workloads"]
    table = {**workloads["randomio"], "bs": str(run.io_bytes), "numjobs": run.threads}
    raw = {**source.raw, "workloads": {"randomio": table}}
    return cells.plan(load.ExperimentSource(path, raw), only={"stack": stack} if stack else {}).cells[0]


def bcache_cell(run: BcacheRun) -> Cell:
    """Returns the cell of writes to a bcache, of which the disks are typical ones of their classes."""
    path = Path(__file__).parent / "bcache.toml"
    source = load.read(path)
    stack, workload = source.raw["stacks"]["writeback"], source.raw["workloads"]["writes"]
    changes = {"rw": run.rw, "bs": str(run.io_bytes), "numjobs": run.jobs, "size": str(run.job_bytes)}
    raw = {
        **source.raw,
        "stacks": {"writeback": {**stack, "sequential_cutoff": str(run.sequential_cutoff)}},
        "workloads": {"writes": {**workload, **changes}},
        "settings": {"kernel": run.kernel, "runtime": run.runtime_s},
    }
    return cells.plan(load.ExperimentSource(path, raw)).cells[0]


def stock_devices() -> dict[str, dict[str, Any]]:
    """Returns the table of each kind of device before calibration."""
    return {name: stock_models.stock(model) for name, model in MODELS.items()}
