"""SATA flash disks in fio_plot.csv and iocost.csv: what the other disks of a class, or other hosts, say of one."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from accuracy.reference import number, table_rows
from blklab.devices.stock_models import DeviceTable
from blklab.outcome import NORMAL
from blklab.runners.sim import runner as sim

KERNEL = "5.4"

DISKS: Mapping[str, str] = {
    "D3-S4610": "s4610",
    "P420i_INTEL": "s4610",
    "5MINUTES/INTEL": "s4610",
    "KINGSTONDC500M": "dc500m",
    "5MINUTES/KINGSTON": "dc500m",
    "PM883": "pm883",
    "PM833": "pm883",
    "SAMSUNG_DC": "pm883",
    "Samsung SSD 860": "860-evo",
    "860": "860-pro",
    "MX200": "mx200",
    "Samsung SSD 870": "870-evo",
    "MX500": "mx500",
}
"""The disk by a word of the set's name in fio_plot.csv, or of its name in iocost.csv and others.csv."""

WORN = ("mx200",)
"""The MX200s wrote 6,700 times a second: a tenth of what the others did, on the same host."""

UNWRITTEN = ("TEST01", "P420i_SAMSUNG_PM883", "AHCI_INTEL", "AHCI_SAMSUNG_PM833")
"""Sets of new disks: their reads do not touch flash."""

HOSTS = {"P420i": "P420i", "5MINUTES": "P420i", "M1015": "M1015", "AHCI": "AHCI"}
"""The host and its controller by a word of the set's name."""

SATURATED = 64  # I/Os in flight: twice the queue of a SATA disk
BUSY = 0.8  # A disk that needs so much of the time of one I/O alone for each of many shows no latency
DIRECTIONS = ("read", "write")


@dataclass(frozen=True)
class Measured:
    """What a disk did on one host with random I/Os of 4 KiB."""

    disk: str
    host: str
    unwritten: bool
    saturated: Mapping[str, float]  # IOPS by direction
    alone_ns: Mapping[str, float]  # Time of an I/O by direction, if one is in flight; empty if that is not known


def host_of(name: str) -> str:
    """Returns the host and controller of a set of fio_plot.csv; that of other disks is not known."""
    return next((host for word, host in HOSTS.items() if word in name), name)


def disk_of(name: str) -> str | None:
    """Returns the disk of a set, or none for another."""
    return next((disk for word, disk in DISKS.items() if word in name), None)


def read_sets(directory: Path) -> list[Measured]:
    """Returns the disks on their hosts, from the sets of one direction in fio_plot.csv, iocost.csv and others.csv."""
    sets: dict[str, list[tuple[str, int, float]]] = defaultdict(list)
    for table, column in (("fio_plot", "set"), ("others", "disk")):
        for where, row in table_rows(directory / f"foreign/{table}.csv", (column, "rw", "iops")):
            flight = int(number(where, row, "iodepth") * number(where, row, "numjobs"))
            if row["rw"] in {"randread", "randwrite"} and disk_of(row[column]) and row.get("stack") in {"single", None}:
                sets[row[column]].append((row["rw"].removeprefix("rand"), flight, number(where, row, "iops")))
    for where, row in table_rows(directory / "foreign/iocost.csv", ("model", "rrandiops", "wrandiops")):
        if disk_of(row["model"]):
            rates = {way: number(where, row, f"{way[0]}randiops") for way in DIRECTIONS}
            sets[row["model"]] += [(way, SATURATED, iops) for way, iops in rates.items()]
    return [_describe_set(name, of_set) for name, of_set in sets.items()]


def _describe_set(name: str, rows: Sequence[tuple[str, int, float]]) -> Measured:
    """Returns what rows of direction, I/Os in flight and IOPS say."""
    most = {
        way: statistics.median(iops for rw, flight, iops in rows if rw == way and flight >= SATURATED)
        for way in DIRECTIONS
    }
    alone = {rw: 1e9 / iops for rw, flight, iops in rows if flight == 1}
    return Measured(str(disk_of(name)), host_of(name), any(part in name for part in UNWRITTEN), most, alone)


def latencies(table: DeviceTable, everyone: Sequence[Measured], host: str) -> dict[str, Any]:
    """Returns the latencies of a SATA disk that all hosts but one show, and how far those of another host are away.

    A latency is the rest of the time of one I/O alone, which the simulator has without any. Host and controller decide
    it, so that all disks show it.
    """
    found: dict[str, Any] = {}
    errors = []
    base = {**table, "read_latency_ns": 1, "write_latency_ns": 1}
    for way in DIRECTIONS:
        alone = [
            disk
            for disk in everyone
            if disk.host != host and disk.alone_ns and BUSY * disk.alone_ns[way] > 1e9 / disk.saturated[way]
        ]
        rest = {unwritten: _alone(base, way, unwritten) for unwritten in (False, True)}
        latency = statistics.fmean(disk.alone_ns[way] - rest[disk.unwritten] for disk in alone)
        found[f"{way}_latency_ns"] = max(1000, round(latency / 1000) * 1000)
        errors += [math.log(disk.alone_ns[way] / (rest[disk.unwritten] + latency)) for disk in alone]
    deviation = round(_deviation(errors, len(DIRECTIONS)), 2)
    return {**found, "uncertainty": {**table["uncertainty"], "latency": deviation}}


def _alone(table: DeviceTable, way: str, unwritten: bool) -> float:
    """Returns the simulated time of one random I/O of 4 KiB, in ns, if no other is in flight."""
    device = {**table, **({"state": "unwritten"} if unwritten and way == "read" else {})}
    workload = {"rw": f"rand{way}", "bs": "4k", "time_based": True}
    cell = sim.make_device_cell(Path("alone"), device, ("load", workload), {"kernel": KERNEL, "runtime": "500ms"})
    (outcome,) = sim.outcomes([cell.document])
    return 1e9 / (outcome.read.iops + outcome.write.iops)


def _deviation(values: Sequence[float], means: int = 1, count: int | None = None) -> float:
    """Returns the deviation of a new value from the mean of `count` (or all) of these, which have so many means.

    As for Student's distribution, it is wider than theirs, the more so the fewer they are.
    """
    free = len(values) - means
    average = statistics.fmean(values)
    variance = sum((value - average) ** 2 for value in values) / free
    return float(student.ppf(0.95, free)) / NORMAL * math.sqrt(variance * (1 + 1 / (count or len(values))))
