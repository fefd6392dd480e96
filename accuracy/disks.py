"""`accuracy/run disks`: predict single disks that strangers measured, with the library's models."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from accuracy.options import reference_option
from blklab.cli.common import cluster_option, computing, emit, json_option
from blklab.cluster import HERE, Parallel
from blklab.errors import UsageError
from blklab.imports.reference import number, table_rows
from blklab.output import write
from blklab.report import markdown as gfm
from blklab.report.tables.base import TextTable, figures, text
from blklab.report.terminal import draw_table
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval
from blklab.spec import cells, load
from blklab.spec.cells import Cell

KERNEL: Final = "5.4"
RUNTIME: Final = "1500ms"
SLOW: Final = "120s"  # Of rotating disks

IOCOST: Final = {
    "Samsung SSD 980 PRO 1TB": "980-pro",
    "Samsung SSD 870": "870-evo",
    "Samsung SSD 860": "ssd-consumer",
    "CT1000P3PSSD8": "nvme-qlc",
}
"""The library's models of disks in iocost.csv; others are of the class `nvme-consumer`, which rests on them."""

LOADS: Final[Mapping[str, tuple[str, str, int]]] = {
    "rbps": ("read", "1m", 8),
    "rseqiops": ("read", "4k", 256),
    "rrandiops": ("randread", "4k", 256),
    "wbps": ("write", "1m", 8),
    "wseqiops": ("write", "4k", 256),
    "wrandiops": ("randwrite", "4k", 256),
}
"""The figures of iocost.csv: `rw`, `bs` and `iodepth` of eight jobs. For bytes, resctl-bench has `bs` = 128 MiB, which
the kernel splits."""

PLOTS: Final[Mapping[str, tuple[str, str]]] = {
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

P420I: Final = {"p420i": {"coalesce_ns": "100us"}}
"""The controller of sets whose name has `P420i` or `5MINUTES`. The random reads at depths 2 and 4 of the first set in
P420I_SETS, 64 and 167 us, set its delay; the other sets judge it."""

P420I_SETS: Final = ("P420i_INTEL_D3", "P420i", "5MINUTES")

COUNTS: Final = ("iodepth", "numjobs")

UNWRITTEN: Final = ("TEST01", "P420i_SAMSUNG_PM883", "AHCI_INTEL", "AHCI_SAMSUNG_PM833")
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
        slow = self.group == "HDD" or str(self.device["model"]).startswith("hdd")
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
    row is inside if the measurement is in the 90 % interval of its prediction.

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
        model = " ".join(map(str, row.device.values()))
        rows.append(DiskRow(row.source, row.group, row.disk, model, words, row.iops, iops, limits))
    return rows


def iocost(directory: Path) -> Iterator[Measurement]:
    """Yields the medians of iocost.csv."""
    models: dict[str, list[Mapping[str, float]]] = {}
    for where, row in table_rows(directory / "foreign/iocost.csv", ("model", *LOADS)):
        models.setdefault(row["model"], []).append({figure: number(where, row, figure) for figure in LOADS})
    for disk, rows in models.items():
        model = IOCOST.get(disk, "nvme-consumer")
        group = "its class rests on it" if model == "nvme-consumer" else "NVMe and SATA SSD"
        for figure, (rw, bs, depth) in LOADS.items():
            median = statistics.median(row[figure] for row in rows)
            iops = median / (1 << 20) if figure.endswith("bps") else median
            workload = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": 8}
            yield Measurement("iocost.csv", group, disk, {"model": model}, workload, iops)


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
        'interval of its prediction. "Its class rests on it", "flushes that were used" and "a delay rests on it":\n'
        "figures come from these rows, so that they judge nothing.",
        "Disks on a P420i are behind a controller with `coalesce_ns = 100us` (`p420i` in the column of models). One\n"
        "set of an Intel S4610 gave this figure: its random reads take 64 us at depth 2 and 167 us at depth 4. The\n"
        "other disks on a P420i judge it. The interval is as wide as for other disks.",
        "\n".join(gfm.markdown_table(_groups(rows))),
        "## Measurements outside the interval",
        "IOPS.",
        "\n".join(gfm.markdown_table(TextTable("", columns, lines))),
    ]
    return "\n\n".join(parts) + "\n"


def _groups(rows: Sequence[DiskRow]) -> TextTable:
    groups: dict[tuple[str, str], list[DiskRow]] = {}
    for row in rows:
        groups.setdefault((row.source, row.group), []).append(row)
    lines = []
    for (source, group), members in groups.items():
        errors = [abs(math.log(row.factor)) for row in members]
        inside = sum(row.inside for row in members)
        median, worst = (math.exp(error) for error in (statistics.median(errors), max(errors)))
        lines.append([source, group, str(len(members)), str(inside), f"×{median:.2f}", f"×{worst:.2f}"])
    columns = [text("source"), text("disks"), *figures("rows", "inside", "median error", "worst")]
    return TextTable("Disks that strangers measured", columns, lines)
