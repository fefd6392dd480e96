"""`accuracy/run disks`: predict single disks that strangers measured, with the library's models."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit
from scipy.stats import t as student

from accuracy.options import reference_option
from blklab.analysis.iocost import JOBS, LARGE, LOADS, MeasuredDisk, median, model_of
from blklab.cli.common import cluster_option, computing, emit, json_option, warn
from blklab.cluster import HERE, Parallel
from blklab.errors import UsageError
from blklab.imports.reference import number, table_rows
from blklab.output import write
from blklab.report import markdown as gfm
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import NOMINAL, NORMAL, interval
from blklab.spec import cells, load, stock_models
from blklab.spec.cells import Cell

KERNEL = "5.4"
RUNTIME = "1500ms"
SLOW = "120s"  # Of rotating disks

CLASS = "nvme-consumer"
"""The class that rests on the NVMe disks in iocost.csv."""

IOCOST = {"Samsung SSD 870": "870-evo", "Samsung SSD 860": "ssd-consumer", "Samsung SSD 980 PRO 1TB": "980-pro"}
"""The library's models of disks in iocost.csv that do not rest on it."""

OTHER_CLASS = ("CT1000P3PSSD8",)  # Four bits in a cell; the only one, so that its class cannot be judged

PLOTS: Mapping[str, tuple[str, str]] = {
    "INTEL": ("ssd-datacenter", "server SSD"),
    "KINGSTON": ("ssd-datacenter", "server SSD"),
    "PM883": ("pm883", "server SSD"),
    "PM833": ("pm883", "server SSD"),
    "SAMSUNG_DC": ("pm883", "server SSD"),
    "860": ("ssd-consumer", "consumer SSD"),
    "MX200": ("ssd-consumer", "worn SSD"),
    "HTS72101": ("hdd-25-7200", "its class rests on it"),
    "SAMSUNGF1": ("hdd-7200", "HDD"),
}
"""By a word of the set's name: the model, and the group of rows. The disk of the set WD740GD was failing."""

P420I = {"p420i": {"coalesce_ns": "100us"}}
"""The controller of sets whose name has `P420i` or `5MINUTES`. The random reads at depths 2 and 4 of the first set in
P420I_SETS, 64 and 167 us, set its delay; the other sets judge it."""

P420I_SETS = ("P420i_INTEL_D3", "P420i", "5MINUTES")

LEAST = 0.8
"""The least coverage of an interval of 90 %: a group with less fails the command."""

COUNTS = ("iodepth", "numjobs")

UNWRITTEN = ("TEST01", "P420i_SAMSUNG_PM883", "AHCI_INTEL", "AHCI_SAMSUNG_PM833")
"""Sets of new disks: their reads do not touch flash."""


@dataclass(frozen=True)
class DiskRow:
    """One measurement of a disk and its prediction."""

    source: str
    group: str
    disk: str
    model: str
    load: str
    measured: float  # IOPS
    predicted: float
    limits: tuple[float, float]  # Factors of the prediction

    @property
    def factor(self) -> float:
        """Predicted over measured IOPS."""
        return self.predicted / self.measured

    @property
    def score(self) -> float:
        """The interval score of Gneiting and Raftery (2007), in logarithms: its width, and a penalty outside it."""
        low, high = (math.log(limit) for limit in self.limits)
        return high - low + 2 / (1 - NOMINAL) * max(0.0, low + math.log(self.factor), -math.log(self.factor) - high)

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the interval of the prediction."""
        return self.limits[0] <= 1 / self.factor <= self.limits[1]


@dataclass(frozen=True)
class Measurement:
    """A measurement of a disk, and the model that predicts it."""

    source: str
    group: str
    disk: str
    device: Mapping[str, Any]
    workload: Mapping[str, Any]
    iops: float

    def cell(self) -> Cell:
        """Returns the cell that predicts it."""
        slow = self.group == "HDD" or str(self.device.get("model")).startswith("hdd")
        raw = {
            "devices": {"disk": dict(self.device)},
            "stacks": {"alone": {"device": "disk"}},
            "workloads": {"load": {**self.workload, "time_based": True}},
            "controllers": P420I,
            "settings": {"kernel": KERNEL, "runtime": SLOW if slow else RUNTIME},
        }
        return cells.plan(load.ExperimentSource(Path(self.source), raw)).cells[0]


@click.command()
@reference_option
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page about disks.")
@cluster_option
@json_option
def disks(*, directory: Path, output: Path | None, cluster: str | None, as_json: bool) -> None:
    """Predict single disks that strangers measured, and print how far the predictions are away.

    Nothing is fitted to these disks: each has the library's model of its name, or of its class. A
    row is inside if the measurement is in the 90 % interval of its prediction. The exit status is 1
    if fewer than 80 % of the rows of a kind are inside.

    \b
    Examples:
      accuracy/run disks
      accuracy/run disks --json | jq '.[] | select(.inside | not)'
      accuracy/run disks -o docs/explanation/disks.md
    """
    measured = [*iocost(directory), *plots(directory), *flushes(directory)]
    if not measured:
        raise UsageError(f"{directory}/foreign: no tables; expected iocost.csv, fio_plot.csv and flushes.csv")
    with computing(cluster) as parallel:
        rows = predicted(measured, parallel)
    if output is not None:
        write(output, _page(rows).encode())
    documents = [{**vars(row), "factor": row.factor, "inside": row.inside} for row in rows]
    emit(documents, as_json, lambda console: draw_table(console, _groups(rows)))
    if low := [group for group, of_group in _grouped(rows).items() if coverage(of_group) < LEAST]:
        warn(f"fewer than {LEAST:.0%} of the rows are inside the interval: {', '.join(map(': '.join, low))}")
        raise Exit(1)


def predicted(measured: Sequence[Measurement], parallel: Parallel = HERE) -> list[DiskRow]:
    """Returns measurements with their predictions."""
    made = [row.cell() for row in measured]
    outcomes = sim.outcomes([cell.document for cell in made], parallel)
    rows = []
    for row, cell, outcome in zip(measured, made, outcomes, strict=True):
        iops = outcome.read.iops + outcome.write.iops
        options = {**row.workload, **row.workload.get("options", {})}
        words = " ".join(f"{key}={value}" for key, value in options.items() if key != "options")
        limits = interval(cell, outcome).iops
        model = f"{row.device['model']} {row.device.get('state', '')}".strip() if "model" in row.device else row.group
        rows.append(DiskRow(row.source, row.group, row.disk, model, words, row.iops, iops, limits))
    return rows


def iocost(directory: Path) -> Iterator[Measurement]:
    """Yields the medians of iocost.csv: each disk with its class without the disk's family, then with its own model."""
    disks = medians(directory)
    flash = members(disks)
    for disk, measured in disks.items():
        ways: list[tuple[str, Mapping[str, Any]]] = []
        if disk in flash:
            others = class_model([of for other, of in flash.items() if other[:3] != disk[:3]])
            capacity = measured.capacity or others["capacity"]
            ways.append(("class, without its family", {**stock_models.scaled(others, capacity), "capacity": capacity}))
        if disk in IOCOST:
            ways.append(("data sheet and class", {"model": IOCOST[disk]}))
        elif identified := stock_models.identify(disk):
            ways.append(("its own model", {"model": identified.model.name}))
        for group, device in ways:
            for figure, (rw, bs, depth) in LOADS.items():
                iops = measured.figures[figure] / (LARGE if figure.endswith("bps") else 1)
                workload = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": JOBS}
                yield Measurement("iocost.csv", group, disk, device, workload, iops)


def medians(directory: Path) -> dict[str, MeasuredDisk]:
    """Returns the disks in iocost.csv, each with the median of each figure."""
    disks: dict[str, list[MeasuredDisk]] = {}
    for where, row in table_rows(directory / "foreign/iocost.csv", ("model", "size", *LOADS)):
        measured = {figure: number(where, row, figure) for figure in LOADS}
        size = int(number(where, row, "size"))
        disks.setdefault(row["model"], []).append(MeasuredDisk(row["model"], measured, size))
    return {name: MeasuredDisk(name, median(rows), rows[0].capacity) for name, rows in disks.items()}


def members(disks: Mapping[str, MeasuredDisk]) -> dict[str, MeasuredDisk]:
    """Returns the disks of the class."""
    return {name: disk for name, disk in disks.items() if "SSD 8" not in name and name not in OTHER_CLASS}


def class_model(disks: Sequence[MeasuredDisk]) -> dict[str, Any]:
    """Returns the typical disk of a class that these disks show, and how far another disk of the class is from it.

    The rate at which flash takes bytes grows with the capacity, as in `scaled`.
    """
    known = stock_models.stock(CLASS)["capacity"]
    shares = [
        disk.figures | {"wbps": disk.figures["wbps"] * (known / (disk.capacity or known)) ** stock_models.WRITES}
        for disk in disks
    ]
    logarithms = {figure: [math.log(disk[figure]) for disk in shares] for figure in LOADS}
    typical = {figure: math.exp(statistics.fmean(values)) for figure, values in logarithms.items()}
    base = stock_models.stock(CLASS)
    model = model_of(typical, base)
    count = len(disks)
    wider = float(student.ppf(0.95, count - 1)) / NORMAL * math.sqrt(1 + 1 / count)
    deviations = {
        kind: round(
            wider * math.sqrt(statistics.fmean(statistics.variance(logarithms[figure]) for figure in figures)), 2
        )
        for kind, figures in (("read", list(LOADS)[:3]), ("write", list(LOADS)[3:]))
    }
    return {
        **base,
        "sustained_read_command_ns": model["read_command_ns"],
        "sustained_write_command_ns": model["write_command_ns"],
        "sustained_read_bandwidth": model["read_bandwidth"],
        "fold_ns": round(base["units"] * base["program_bytes"] * 1e9 / typical["wbps"]),
        "uncertainty": {**base["uncertainty"], **deviations, "mixed": max(deviations.values())},
    }


def plots(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of fio_plot.csv with one job or 16."""
    for where, row in table_rows(directory / "foreign/fio_plot.csv", ("set", "stack", "rw", *COUNTS, "iops")):
        word = next((word for word in PLOTS if word in row["set"]), None)
        if word is None or row["stack"] != "single" or row["numjobs"] not in {"1", "16"}:
            continue
        model, group = PLOTS[word]
        device = {"model": model}
        if group == "worn SSD":
            device["state"] = "worn"
        elif any(part in row["set"] for part in UNWRITTEN) and row["rw"] == "randread":
            device["state"] = "unwritten"
        if any(part in row["set"] for part in P420I_SETS):
            device["controller"] = "p420i"
            group = "a delay rests on it" if P420I_SETS[0] in row["set"] else group
        workload = {"rw": row["rw"], "bs": "4k", **{key: int(number(where, row, key)) for key in COUNTS}}
        yield Measurement("fio_plot.csv", group, row["set"], device, workload, number(where, row, "iops"))


def flushes(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of flushes.csv."""
    columns = ("disk", "model", "use", "bs", "dsync", "fdatasync")
    for where, row in table_rows(directory / "foreign/flushes.csv", columns):
        group = "flushes that were used" if row["use"] == "set" else "flushes"
        for figure, option in (("dsync", "sync"), ("fdatasync", "fdatasync")):
            if row[figure]:
                workload = {"rw": "randwrite", "bs": row["bs"], "options": {option: 1}}
                device = {"model": row["model"]}
                yield Measurement("flushes.csv", group, row["disk"], device, workload, number(where, row, figure))


def _page(rows: Sequence[DiskRow]) -> str:
    """Returns docs/explanation/disks.md."""
    outside = [row for row in rows if not row.inside]
    lines = [
        [row.disk, row.model, row.load, f"{row.measured:,.0f}", f"{row.predicted:,.0f}", f"×{row.factor:.2f}"]
        for row in outside
    ]
    columns = [text("disk"), text("model"), text("load"), *figures("measured", "predicted", "predicted/measured")]
    parts = [
        "# Disks that strangers measured",
        "`accuracy/run disks -o docs/explanation/disks.md` writes this page. Nothing is fitted to these disks: each\n"
        "has the library's model of its name, or of its class. A row is inside if the measurement is in the 90 %\n"
        'interval of its prediction. "Class, without its family" is the class of the other disks. "Its own model",\n'
        '"its class rests on it", "flushes that were used" and "a delay rests on it": figures come from these rows,\n'
        "so that they judge nothing. Ratio is the upper over the lower bound of an interval, a median; a ratio of\n"
        "more than 12 means that the rate of such a disk is not known. Score is the mean interval score of\n"
        "logarithms: the smaller, the better.",
        "Disks on a P420i are behind a controller with `coalesce_ns = 100us` (`p420i` in the column of models). One\n"
        "set of an Intel S4610 gave this figure: its random reads take 64 us at depth 2 and 167 us at depth 4. The\n"
        "other disks on a P420i judge it. The interval is as wide as for other disks.",
        "\n".join(gfm.markdown_table(_groups(rows))),
        "## Measurements outside the interval",
        "IOPS.",
        "\n".join(gfm.markdown_table(TextTable("", columns, lines))),
    ]
    return "\n\n".join(parts) + "\n"


def coverage(rows: Sequence[DiskRow]) -> float:
    """Returns the share of measurements that are inside the interval of their prediction."""
    return sum(row.inside for row in rows) / len(rows)


def _grouped(rows: Sequence[DiskRow]) -> dict[tuple[str, str], list[DiskRow]]:
    groups: dict[tuple[str, str], list[DiskRow]] = {}
    for row in rows:
        groups.setdefault((row.source, row.group), []).append(row)
    return groups


def _groups(rows: Sequence[DiskRow]) -> TextTable:
    """Returns a line for each source and kind of model; `ratio` is the upper over the lower bound of an interval."""
    lines = []
    for (source, group), of_group in _grouped(rows).items():
        errors = [abs(math.log(row.factor)) for row in of_group]
        inside = sum(row.inside for row in of_group)
        median_error, worst = (math.exp(error) for error in (statistics.median(errors), max(errors)))
        ratio = statistics.median(row.limits[1] / row.limits[0] for row in of_group)
        score = statistics.fmean(row.score for row in of_group)
        counts = [str(len(of_group)), str(inside), f"{coverage(of_group):.0%}"]
        lines.append([source, group, *counts, f"×{median_error:.2f}", f"×{worst:.2f}", f"{ratio:.1f}", f"{score:.1f}"])
    names = ("rows", "inside", "coverage", "median error", "worst", "ratio", "score")
    return TextTable("Disks that strangers measured", [text("source"), text("disks"), *figures(*names)], lines)
