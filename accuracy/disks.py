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

from accuracy import sata
from accuracy.options import reference_option
from accuracy.reference import number, table_rows
from blklab.calibrate.iocost import JOBS, LARGE, LOADS, MeasuredDisk, median, model_of
from blklab.cli.common import cluster_option, computing, emit, json_option, warn
from blklab.cluster import HERE, Parallel
from blklab.compare.decision import is_inside
from blklab.devices import stock_models
from blklab.errors import UsageError
from blklab.experiment import cells, load
from blklab.experiment.cells import Cell
from blklab.outcome import NOMINAL, NORMAL
from blklab.output import write
from blklab.render import markdown as gfm
from blklab.render.table import TextTable, number_columns, text_column
from blklab.render.terminal import draw_table
from blklab.runners.sim import runner as sim
from blklab.runners.sim.uncertainty import interval

KERNEL = "5.4"
RUNTIME = "1500ms"
SLOW = "120s"  # Of rotating disks

CLASS = "nvme-consumer"
"""The class that rests on the NVMe disks in iocost.csv and others.csv."""

DATA_SHEET = {"Samsung SSD 980 PRO 1TB": "980-pro"}
"""The library's models of disks in iocost.csv that do not rest on it."""

OTHER_CLASS = ("CT1000P3PSSD8",)  # Four bits in a cell; the only one, so that its class cannot be judged

HDDS: Mapping[str, tuple[str, str]] = {
    "HTS72101": ("hdd-25-7200", "its class rests on it"),
    "SAMSUNGF1": ("hdd-7200", "HDD"),
}
"""By a word of the set's name: the model, and the group of rows. The disk of the set WD740GD was failing."""

P420I = {"p420i": {"coalesce_ns": "100us"}}
"""The controller of the host P420i. The random reads at depths 2 and 4 of the set DELAY, 64 and 167 us, set its delay;
the other sets judge it."""

DELAY = "P420i_INTEL_D3"

CLASS_GROUP = "class, without its family"
HOST_GROUP = "its model, without this host"
OWN_GROUP = "its own model"
NOTHING = ("its class rests on it", OWN_GROUP, "flushes that were used", "a delay rests on it")
"""Groups whose figures come from their own rows, so that they judge nothing."""

KNOWN: Mapping[str, float] = {OWN_GROUP: 2, HOST_GROUP: 2, "family": 3, "data sheet and class": 3}
CLASS_KNOWN = 12.0
"""The largest ratio of the bounds at which a rate is known; above, blklab should not be asked."""

LEAST = 0.8
"""The least coverage of an interval of 90 %: a group with less fails the command."""

COUNTS = ("iodepth", "numjobs")


@dataclass(frozen=True)
class DiskRow:
    """One measurement of a disk and its prediction."""

    source: str
    kind: str  # `ssd`, `nvme` or `hdd`
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
    def ratio(self) -> float:
        """The upper over the lower bound."""
        return self.limits[1] / self.limits[0]

    @property
    def known(self) -> bool:
        """Whether the interval is so narrow that the rate is known."""
        return self.ratio <= KNOWN.get(self.group, CLASS_KNOWN)

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the interval of the prediction."""
        low, high = map(math.log, self.limits)
        return is_inside(-math.log(self.factor), (low, high))


@dataclass(frozen=True)
class Measurement:
    """A measurement of a disk, and the model that predicts it."""

    source: str
    group: str
    disk: str
    device: Mapping[str, Any]
    workload: Mapping[str, Any]
    iops: float

    @property
    def kind(self) -> str:
        """The kind of the device."""
        return str((self.device if "kind" in self.device else stock_models.stock(self.device["model"]))["kind"])

    def cell(self) -> Cell:
        """Returns the cell that predicts it."""
        raw = {
            "devices": {"disk": dict(self.device)},
            "stacks": {"alone": {"device": "disk"}},
            "workloads": {"load": {**self.workload, "time_based": True}},
            "controllers": P420I,
            "settings": {"kernel": KERNEL, "runtime": SLOW if self.kind == "hdd" else RUNTIME},
        }
        return cells.plan(load.ExperimentSource(Path(self.source), raw)).cells[0]


@click.command()
@reference_option
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page about disks.")
@cluster_option
@json_option
def disks(*, directory: Path, output: Path | None, cluster: str | None, as_json: bool) -> None:
    """Predict single disks that strangers measured, and print how far the predictions are away.

    Each row is predicted by a model that was made without it: by its class without its family, or
    by its disk without its host. Rows predicted by their own models are apart. A row is inside if the
    measurement is in the 90 % interval of its prediction. The exit status is 1 if fewer than 80 % of
    the rows of a kind are inside.

    \b
    Examples:
      accuracy/run disks
      accuracy/run disks --json | jq '.[] | select(.inside | not)'
      accuracy/run disks -o docs/explanation/disks.md
    """
    measured = [*iocost(directory), *plots(directory), *others(directory), *flushes(directory)]
    if not measured:
        raise UsageError(
            f"{directory}/foreign: no tables; expected iocost.csv, fio_plot.csv, others.csv and flushes.csv"
        )
    with computing(cluster) as parallel:
        rows = predicted(measured, parallel)
    if output is not None:
        write(output, _page(rows).encode())
    documents = [{**vars(row), "factor": row.factor, "inside": row.inside} for row in rows]
    emit(documents, as_json, lambda console: draw_table(console, _groups(rows)))
    if low := [group for group, of_group in _grouped(rows).items() if coverage(of_group) < LEAST]:
        warn(f"fewer than {100 * LEAST:.0f} % of the rows are inside the interval: {', '.join(map(': '.join, low))}")
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
        model = " ".join(str(row.device[key]) for key in ("model", "state") if key in row.device) or row.group
        rows.append(DiskRow(row.source, row.kind, row.group, row.disk, model, words, row.iops, iops, limits))
    return rows


def iocost(directory: Path) -> Iterator[Measurement]:
    """Yields the medians of iocost.csv: each disk with its class without the disk's family, then with its own model."""
    disks = medians(directory)
    flash, on_sata = members(directory), sata.read_sets(directory)
    for disk, measured in disks.items():
        ways: list[tuple[str, Mapping[str, Any]]] = []
        if disk in flash:
            ways.append((CLASS_GROUP, without_family(disk, measured.capacity or 0, flash)))
        if disk in DATA_SHEET:
            ways.append(("data sheet and class", {"model": DATA_SHEET[disk]}))
        elif name := sata.disk_of(disk):
            ways.append((CLASS_GROUP, sata.of_class("ssd-consumer", on_sata, name)))
            ways.append((OWN_GROUP, {"model": name}))
        elif identified := stock_models.identify(disk):
            ways.append((OWN_GROUP, {"model": identified.model.name}))
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


def members(directory: Path) -> dict[str, MeasuredDisk]:
    """Returns the disks of the class; those of others.csv have some figures only."""
    chosen = {
        name: disk for name, disk in medians(directory).items() if "SSD 8" not in name and name not in OTHER_CLASS
    }
    names = {(rw, bs): figure for figure, (rw, bs, _) in LOADS.items()}
    for where, row in table_rows(directory / "foreign/others.csv", OTHERS):
        figure = names.get((row["rw"], row["bs"]))
        if _identified(row["disk"]) == (CLASS, None) and figure:
            known = chosen.get(row["disk"])
            rate = number(where, row, "iops") * (LARGE if figure.endswith("bps") else 1)
            figures = {**(known.figures if known else {}), figure: rate}
            chosen[row["disk"]] = MeasuredDisk(row["disk"], figures, int(number(where, row, "size")))
    return chosen


def without_family(disk: str, capacity: int, flash: Mapping[str, MeasuredDisk]) -> dict[str, Any]:
    """Returns the class of the other families, with the capacity of a disk; a name's first letters are its family."""
    others = class_model([of for name, of in flash.items() if name[:3].lower() != disk[:3].lower()])
    return {**stock_models.scale_to_capacity(others, capacity), "capacity": capacity}


def class_model(disks: Sequence[MeasuredDisk]) -> dict[str, Any]:
    """Returns the typical disk of a class that these disks show, and how far another disk of the class is from it.

    The rate at which flash takes bytes grows with the capacity, as in `scaled`.
    """
    known = stock_models.stock(CLASS)["capacity"]
    logarithms: dict[str, list[float]] = {figure: [] for figure in LOADS}
    for disk in disks:
        for figure, rate in disk.figures.items():
            share = (known / (disk.capacity or known)) ** stock_models.WRITES if figure == "wbps" else 1
            logarithms[figure].append(math.log(rate * share))
    typical = {figure: math.exp(statistics.fmean(values)) for figure, values in logarithms.items()}
    base = stock_models.stock(CLASS)
    model = model_of(typical, base)
    count = min(map(len, logarithms.values()))
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
    """Yields the rows of fio_plot.csv with one job or 16; SATA flash disks with each model that judges them."""
    on_sata = sata.read_sets(directory)
    models = {
        name: _models(name, next(kind for kind, disks in sata.CLASSES.items() if name in disks), on_sata)
        for name in {disk.disk for disk in on_sata if disk.alone_ns}
    }
    for where, row in table_rows(directory / "foreign/fio_plot.csv", ("set", "stack", "rw", *COUNTS, "iops")):
        if row["stack"] != "single" or row["numjobs"] not in {"1", "16"}:
            continue
        device: dict[str, Any] = {}
        if name := sata.disk_of(row["set"]):
            if any(part in row["set"] for part in sata.UNWRITTEN) and row["rw"] == "randread":
                device["state"] = "unwritten"
            if (host := sata.host_of(row["set"])) == "P420i":
                device["controller"] = "p420i"
            ways = {group: model for (group, other), model in models[name].items() if other in {"", host}}
            if DELAY in row["set"]:
                ways = {"a delay rests on it": ways[CLASS_GROUP]}
        elif word := next((word for word in HDDS if word in row["set"]), None):
            ways = {HDDS[word][1]: {"model": HDDS[word][0]}}
        else:
            continue
        workload = {"rw": row["rw"], "bs": "4k", **{key: int(number(where, row, key)) for key in COUNTS}}
        for group, model in ways.items():
            iops = number(where, row, "iops")
            yield Measurement("fio_plot.csv", group, row["set"], {**model, **device}, workload, iops)


def _models(name: str, kind: str, on_sata: Sequence[sata.Measured]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Returns the models of a SATA disk by group, and by the host without which they are made, or an empty text."""
    models: dict[tuple[str, str], Mapping[str, Any]] = {
        (CLASS_GROUP, ""): sata.of_class(kind, on_sata, name),
        (OWN_GROUP, ""): {"model": name},
    }
    hosts = {disk.host for disk in on_sata if disk.disk == name}
    for host in hosts if len(hosts) > 1 else ():
        models[HOST_GROUP, host] = sata.of_disk(name, on_sata, host)
    return models


OTHERS = ("disk", "size", "rw", "bs", *COUNTS, "rwmixread", "iops")


def others(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of others.csv with what the library has for their names, or with a class without the family."""
    flash = members(directory)
    for where, row in table_rows(directory / "foreign/others.csv", OTHERS):
        model, capacity = _identified(row["disk"])
        device: dict[str, Any] = {"model": model, **({"capacity": capacity} if capacity else {})}
        group = "family" if capacity else "data sheet and class"
        if model == CLASS:
            group, device = CLASS_GROUP, without_family(row["disk"], int(number(where, row, "size")), flash)
        elif stock_models.library_model(model).certainty == "typical":
            group, device = "class", {"model": model, "capacity": int(number(where, row, "size"))}
        elif sata.disk_of(row["disk"]):
            group = OWN_GROUP
        workload: dict[str, Any] = {"rw": row["rw"], "bs": row["bs"]}
        workload |= {key: int(number(where, row, key)) for key in (*COUNTS, "rwmixread") if row[key]}
        yield Measurement("others.csv", group, row["disk"], device, workload, number(where, row, "iops"))


def _identified(name: str) -> tuple[str, int | None]:
    """Returns the model that the library has for a name, and its capacity if that is another."""
    identified = stock_models.identify(name)
    return (identified.model.name, identified.capacity) if identified else (CLASS, None)


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
    columns = [
        text_column("disk"),
        text_column("model"),
        text_column("load"),
        *number_columns("measured", "predicted", "predicted/measured"),
    ]
    parts = [
        "# Disks that strangers measured",
        "`accuracy/run disks -o docs/explanation/disks.md` writes this page. A row is inside if the measurement is in\n"
        "the 90 % interval of its prediction. Each model is made without the rows that it predicts:",
        '- "class, without its family": the typical disk of its class, of all disks but those of its family;\n'
        '- "its model, without this host": what the same disk did on other hosts and controllers;\n'
        '- "family": a disk of its family with another capacity, scaled;\n'
        '- "data sheet and class": the mean of its data sheet and its class;\n'
        '- "class": a typical disk of the library that rests on other disks, or on data sheets.',
        f"These judge nothing, since figures come from their own rows:\n{'; '.join(NOTHING)}.",
        "A rate is known if the upper bound is at most 2 times the lower one for a disk that others measured, 3 times\n"
        "for a family or a data sheet, and 12 times for a class. Of the other rows blklab does not know the rate.\n"
        "Ratio is the upper over the lower bound, a median. Score is the mean interval score of logarithms: the\n"
        "smaller, the better.",
        "Disks on a P420i are behind a controller with `coalesce_ns = 100us`. One set of an Intel S4610 gave this\n"
        "figure: its random reads take 64 us at depth 2 and 167 us at depth 4. The other disks on a P420i judge it.",
        "\n".join(gfm.markdown_table(_groups(rows))),
        "## Rates that are not known",
        "Rows of each kind whose interval is wider than that, and its width.",
        "\n".join(gfm.markdown_table(_not_known(rows))),
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
    for row in sorted(rows, key=lambda row: row.group in NOTHING):
        groups.setdefault((row.kind, row.group), []).append(row)
    return groups


def _groups(rows: Sequence[DiskRow]) -> TextTable:
    """Returns a line for each kind of disk and of model."""
    lines = []
    for (kind, group), of_group in _grouped(rows).items():
        errors = [abs(math.log(row.factor)) for row in of_group]
        inside, known = sum(row.inside for row in of_group), sum(row.known for row in of_group)
        median_error, worst = (math.exp(error) for error in (statistics.median(errors), max(errors)))
        ratio = statistics.median(row.ratio for row in of_group)
        score = statistics.fmean(row.score for row in of_group)
        counts = [str(len(of_group)), str(inside), f"{100 * coverage(of_group):.0f} %", str(known)]
        lines.append([kind, group, *counts, f"×{median_error:.2f}", f"×{worst:.2f}", f"{ratio:.1f}", f"{score:.1f}"])
    names = ("rows", "inside", "coverage", "known", "median error", "worst", "ratio", "score")
    return TextTable(
        "Disks that strangers measured", [text_column("kind"), text_column("model"), *number_columns(*names)], lines
    )


def _not_known(rows: Sequence[DiskRow]) -> TextTable:
    """Returns a line for each disk and direction whose rate is not known from a model."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if not row.known and row.group not in NOTHING:
            direction = row.load.split()[0].removeprefix("rw=")
            ratios.setdefault((row.disk, row.group, direction), []).append(row.ratio)
    lines = [[*key, str(len(of)), f"{statistics.median(of):.1f}"] for key, of in ratios.items()]
    return TextTable(
        "", [text_column("disk"), text_column("model"), text_column("rw"), *number_columns("rows", "ratio")], lines
    )
