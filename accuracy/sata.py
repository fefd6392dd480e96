"""SATA flash disks in fio_plot.csv and iocost.csv: what the other disks of a class, or other hosts, say of one."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import t as student

from accuracy.reference import number, table_rows
from blklab.calibrate.iocost import SMALL
from blklab.devices import stock_models
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

CLASSES: Mapping[str, tuple[str, ...]] = {
    "ssd-datacenter": ("s4610", "dc500m", "pm883"),
    "ssd-consumer": ("860-pro", "mx200", "860-evo", "870-evo", "mx500"),
}
"""The disks of each class. The MX200s wrote 6,700 times a second: a tenth of what the others did, on the same host."""

CAPACITIES: Mapping[str, int] = {
    "s4610": 480_103_981_056,
    "dc500m": 480_103_981_056,
    "860-pro": 512_110_190_592,
    "mx200": 250_059_350_016,
    "860-evo": 250_059_350_016,
}
"""Of disks of which the library knows nothing else, in bytes. Those of the DC500M and the 860 PRO are assumed."""

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


def of_class(name: str, everyone: Sequence[Measured], without: str = "") -> DeviceTable:
    """Returns the typical disk of a class that all disks without one show, with the deviations of another disk.

    The interface and its host limit reads, so that all SATA disks show their rate; the disks of the class show that of
    writes.
    """
    others = [disk for disk in everyone if disk.disk != without]
    chosen = {"read": others, "write": [disk for disk in others if disk.disk in CLASSES[name]]}
    spread = {way: _deviation(_logarithms(disks, way)) for way, disks in chosen.items()}
    return _with(stock_models.stock(name), chosen, spread)


def of_disk(name: str, everyone: Sequence[Measured], host: str = "") -> DeviceTable:
    """Returns a disk that the sets without those of a host show, with the deviations of another host."""
    others = [disk for disk in everyone if disk.host != host]
    chosen = {"read": others, "write": [disk for disk in others if disk.disk == name]}
    means: dict[str, list[float]] = defaultdict(list)
    for disk in everyone:
        means[disk.disk].append(math.log(disk.saturated["write"]))
    several = [values for values in means.values() if len(values) > 1]
    inside = [value - statistics.fmean(values) for values in several for value in values]
    spread = {
        "read": _deviation(_logarithms(others, "read")),
        "write": _deviation(inside, len(several), len(chosen["write"])),
    }
    return _with(base_of(name), chosen, spread)


def base_of(name: str) -> DeviceTable:
    """Returns the rest of a disk's model: that of the library without what these tables show."""
    if name not in CAPACITIES:
        return stock_models.stock(name)
    like = next(kind for kind, disks in CLASSES.items() if name in disks)
    return {**stock_models.scale_to_capacity(stock_models.stock(like), CAPACITIES[name]), "capacity": CAPACITIES[name]}


def _with(base: DeviceTable, chosen: Mapping[str, Sequence[Measured]], spread: Mapping[str, float]) -> DeviceTable:
    """Returns a disk with the geometric mean of the saturated rates, and the mean of the times of one I/O alone.

    A saturated interface takes a command and the transfer of 4 KiB for each I/O. The latency is the rest of the time of
    one I/O alone, which the simulator has without any; it is that of the hosts, so that all disks show it.
    """
    table = {**base, "read_latency_ns": 1, "write_latency_ns": 1}
    for way, disks in chosen.items():
        rate = math.exp(statistics.fmean(_logarithms(disks, way)))
        table[f"sustained_{way}_command_ns"] = round(1e9 / rate - SMALL * 1e9 / base[f"{way}_bandwidth"])
    latencies, errors = {}, []
    for way in DIRECTIONS:
        alone = [
            disk for disk in chosen["read"] if disk.alone_ns and BUSY * disk.alone_ns[way] > 1e9 / disk.saturated[way]
        ]
        rest = {unwritten: _alone(table, way, unwritten) for unwritten in (False, True)}
        latency = statistics.fmean(disk.alone_ns[way] - rest[disk.unwritten] for disk in alone)
        latencies[f"{way}_latency_ns"] = max(1000, round(latency / 1000) * 1000)
        errors += [math.log(disk.alone_ns[way] / (rest[disk.unwritten] + latency)) for disk in alone]
    figures = {**spread, "mixed": max(spread.values()), "latency": _deviation(errors, len(DIRECTIONS))}
    wider = {kind: round(value, 2) for kind, value in figures.items()}
    return {**table, **latencies, "uncertainty": {**base["uncertainty"], **wider}}


def _alone(table: DeviceTable, way: str, unwritten: bool) -> float:
    """Returns the simulated time of one random I/O of 4 KiB, in ns, if no other is in flight."""
    device = {**table, **({"state": "unwritten"} if unwritten and way == "read" else {})}
    workload = {"rw": f"rand{way}", "bs": "4k", "time_based": True}
    cell = sim.make_device_cell(Path("alone"), device, ("load", workload), {"kernel": KERNEL, "runtime": "500ms"})
    (outcome,) = sim.outcomes([cell.document])
    return 1e9 / (outcome.read.iops + outcome.write.iops)


def _logarithms(disks: Sequence[Measured], way: str) -> list[float]:
    return [math.log(disk.saturated[way]) for disk in disks]


def _deviation(values: Sequence[float], means: int = 1, count: int | None = None) -> float:
    """Returns the deviation of a new value from the mean of `count` (or all) of these, which have so many means.

    As for Student's distribution, it is wider than theirs, the more so the fewer they are.
    """
    free = len(values) - means
    average = statistics.fmean(values)
    variance = sum((value - average) ** 2 for value in values) / free
    return float(student.ppf(0.95, free)) / NORMAL * math.sqrt(variance * (1 + 1 / (count or len(values))))
