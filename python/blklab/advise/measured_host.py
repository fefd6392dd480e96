"""The disks of this host and its processor time, measured before advice. Disks are only read."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.calibrate.disk_and_host import fit_disk_and_host
from blklab.calibrate.fit import Bench
from blklab.calibrate.host_profile import host_profile
from blklab.calibrate.observations import Observation
from blklab.devices import stock_models
from blklab.devices.identified_disks import HOST_MANAGED, IdentifiedDisk, identify_disks
from blklab.devices.stock_models import DeviceTable
from blklab.errors import BlklabError, UsageError
from blklab.system.roots import Roots

LEAST_SECONDS = 5.0  # Time of all tests of a disk
EQUAL = 1.25  # Ratio of the rates of two disks that are modelled as one
VIRTUAL: DeviceTable = {"kind": "throttled"}

Measure = Callable[[str, float], Sequence[Observation]]
"""Measures a device, given by its path, by reading for some seconds. Raises BlklabError."""


@dataclass(frozen=True)
class MeasuredHost:
    """What was measured on this host."""

    disks: Mapping[str, DeviceTable]  # The models of disks, by the kernel's name
    host: Mapping[str, int]  # submit_ns and reap_ns; empty if no run shows the processor time


def measure_this_host(
    roots: Roots, seconds: float, kernel: str, measure: Measure, tell: Callable[[str], None]
) -> MeasuredHost:
    """Measures all disks of this host, one after another, in `seconds` together.

    Disks of one model and size with about the same rates become one model. A disk that cannot be measured is named, and
    keeps the model of the library. Raises UsageError if the time is too short, or if no disk can be measured.
    """
    disks = [disk for disk in identify_disks(roots) if disk.bytes and not disk.obstacle.startswith(HOST_MANAGED)]
    if not disks:
        raise UsageError("--calibrate: this host has no disk to measure")
    if seconds < LEAST_SECONDS * len(disks):
        least = round(LEAST_SECONDS * len(disks))
        raise UsageError(f"--time: this host has {len(disks)} disks, one after another: expected {least}s or more")
    runs: dict[str, Sequence[Observation]] = {}
    obstacles: list[BlklabError] = []
    for disk in disks:
        tell(f"{disk.name}: is measured for {seconds / len(disks):.0f} s, and only read")
        try:
            runs[disk.name] = measure(f"/dev/{disk.name}", seconds / len(disks))
        except BlklabError as error:
            obstacles.append(error)
            tell(f"{disk.name}: is not measured: {error}")
    if not runs:
        raise obstacles[0]
    tables: dict[str, DeviceTable] = {}
    for equal_disks in _group_equal(disks, runs):
        first = equal_disks[0]
        base = VIRTUAL if first.model is None else stock_models.stock(first.model.name)
        bench = Bench(Path(f"/dev/{first.name}"), kernel, size=str(first.bytes))
        all_runs = [run for disk in equal_disks for run in runs[disk.name]]
        measured = fit_disk_and_host(base, all_runs, bench)
        for disk in equal_disks:
            tables[disk.name] = dict(measured.calibration.device)
    try:
        host = host_profile([run for disk_runs in runs.values() for run in disk_runs]).host
    except UsageError as error:
        host = {}
        tell(f"the processor time of an I/O was not seen, so that of the simulator's server is used: {error}")
    return MeasuredHost(tables, host)


def _group_equal(
    disks: Sequence[IdentifiedDisk], runs: Mapping[str, Sequence[Observation]]
) -> list[list[IdentifiedDisk]]:
    """Returns the measured disks, those together that have one model, size and about the same rates."""
    by_model: dict[tuple[str, int | None], list[list[IdentifiedDisk]]] = defaultdict(list)
    for disk in disks:
        if disk.name not in runs:
            continue
        groups = by_model[disk.model.name if disk.model else "", disk.bytes]
        for group in groups:
            if _have_same_rates(runs[group[0].name], runs[disk.name]):
                group.append(disk)
                break
        else:
            groups.append([disk])
    return [group for groups in by_model.values() for group in groups]


def _have_same_rates(first: Sequence[Observation], second: Sequence[Observation]) -> bool:
    for run, other in zip(first, second, strict=True):
        if max(run.iops, other.iops) > EQUAL * min(run.iops, other.iops):
            return False
    return True
