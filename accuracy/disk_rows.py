"""Single disks that strangers measured, each with the device that predicts it without its source."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from accuracy import sata
from accuracy.rate_tables import (
    fio_plot_source,
    flush_source,
    iocost_source,
    is_array,
    others_source,
    product_names,
    sync_source,
)
from accuracy.reference import number, table_rows
from blklab.calibrate.iocost import JOBS, LARGE, LOADS
from blklab.devices import stock_models
from blklab.devices.rates.measured import RATED
from blklab.experiment import cells, load
from blklab.experiment.cells import Cell

KERNEL = "5.4"
RUNTIME = "1500ms"
SLOW = "120s"  # Of rotating disks
MINUTE = "60s"  # Of writes that may fill the cache of single-bit cells

NAMED = "the library has the disk or its family"
CLASS = "only its class is known"
USED = "its figures come from this row"
"""Rows that judge nothing."""

GROUPS = (NAMED, CLASS, USED)

HDDS: Mapping[str, tuple[str, str]] = {"HTS72101": ("hdd-25-7200", USED), "SAMSUNGF1": ("hdd-7200", CLASS)}
"""By a word of the set's name: the model and the group. The disk of the set WD740GD was failing."""

DELAY = "P420i_INTEL_D3"
"""The set that gave the controller `p420i` its delay; the other sets judge it."""

CLASSES = {"nvme": "nvme-consumer", "sata": "ssd-consumer", "sas": "ssd-consumer"}
PROTECTED_CLASSES = {"nvme": "nvme-datacenter", "sata": "ssd-datacenter", "sas": "sas-ssd"}


@dataclass(frozen=True)
class Measurement:
    """A measurement of a disk, and the device that predicts it."""

    table: str  # The file in reference/foreign
    source: str
    group: str  # One of `GROUPS`
    load: str  # What decides: `random reads`, `flushes` …
    disk: str
    model: str  # Of the library
    device: Mapping[str, Any]
    workload: Mapping[str, Any]
    iops: float
    runtime: str = RUNTIME

    @property
    def kind(self) -> str:
        """The kind of the device."""
        return str(self.device["kind"])

    def cell(self) -> Cell:
        """Returns the cell that predicts it."""
        raw = {
            "devices": {"disk": dict(self.device)},
            "stacks": {"alone": {"device": "disk"}},
            "workloads": {"load": {**self.workload, "time_based": True}},
            "settings": {"kernel": KERNEL, "runtime": SLOW if self.kind == "hdd" else self.runtime},
        }
        return cells.plan(load.ExperimentSource(Path(self.table), raw)).cells[0]


@dataclass(frozen=True)
class KnownDisk:
    """What a user of blklab would type for a disk."""

    model: str
    group: str
    keys: Mapping[str, Any]

    def device(self, without: str, controller: str | None = None) -> dict[str, Any]:
        """Returns its table without what a source measured, behind a controller if it is known."""
        keys = self.keys if controller is None else {**self.keys, "controller": controller}
        return {**stock_models.stock(self.model, keys, without), **keys}


def read_measurements(directory: Path) -> list[Measurement]:
    """Returns all measurements of single disks."""
    rows: list[Measurement] = []
    for reader in (iocost, plots, others, reviews, flushes, sync_writes):
        rows += reader(directory)
    return rows


@cache
def _products(directory: Path) -> Mapping[str, Mapping[str, str]]:
    """Returns the rows of products.csv by name of the product."""
    rows = table_rows(directory / "foreign/products.csv", ("product", "bus", "nand", *RATED))
    return {row["product"]: row for _, row in rows}


def know_disk(directory: Path, name: str) -> KnownDisk:
    """Returns what the library has for the name of a disk in a table.

    That is the disk, its family, or its class with the features that a data sheet has.
    """
    product = _products(directory).get(product_names(directory).get(name, ""))
    if product is None:
        identified = stock_models.identify(name)
        return KnownDisk(identified.model.name if identified else "nvme-consumer", CLASS, {})
    capacity = int(float(product["capacity_gb"]) * 10**9)
    for model in stock_models.library():
        if model.flash.get("family") == product["family"] and model.flash.get("maker") == product["maker"]:
            return KnownDisk(model.name, NAMED, {"capacity": capacity})
    classes = PROTECTED_CLASSES if product["power_loss_protection"] == "yes" else CLASSES
    keys: dict[str, Any] = {"capacity": capacity}
    if product["nand"]:
        keys["nand"] = product["nand"]
    if product["dram"]:
        keys["dram"] = product["dram"] == "yes"
    keys |= {f"rated_{figure}": int(product[figure]) for figure in RATED if product[figure]}
    return KnownDisk(classes[product["bus"]], CLASS, keys)


def iocost(directory: Path) -> Iterator[Measurement]:
    """Yields the medians of the results in iocost.csv of each disk and source. Its small writes come after writes that
    fill the cache of single-bit cells.
    """
    loads = {"rbps": "large reads", "rseqiops": "reads in sequence", "rrandiops": "random reads"}
    loads |= {"wbps": "large writes, a minute", "wseqiops": "writes, cache full", "wrandiops": "writes, cache full"}
    figures: dict[tuple[str, str, str], list[float]] = {}
    for where, row in table_rows(directory / "foreign/iocost.csv", ("model", "size", *LOADS)):
        for figure in LOADS:
            figures.setdefault((row["model"], iocost_source(row), figure), []).append(number(where, row, figure))
    for (disk, source, figure), values in figures.items():
        rw, bs, depth = LOADS[figure]
        known = know_disk(directory, disk)
        device = known.device(source)
        if loads[figure] == "writes, cache full":
            device["slc_fill"] = "100%"
        workload = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": JOBS}
        iops = statistics.median(values) / (LARGE if figure.endswith("bps") else 1)
        runtime = MINUTE if figure == "wbps" else RUNTIME
        yield Measurement(
            "iocost.csv", source, known.group, loads[figure], disk, known.model, device, workload, iops, runtime
        )


def plots(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of fio_plot.csv with one job or 16."""
    for where, row in table_rows(
        directory / "foreign/fio_plot.csv", ("set", "stack", "rw", "iodepth", "numjobs", "iops")
    ):
        if row["stack"] != "single" or row["numjobs"] not in {"1", "16"}:
            continue
        device = _plot_device(directory, row)
        if device is None:
            continue
        model, group, table = device
        workload = {
            "rw": row["rw"],
            "bs": "4k",
            **{key: int(number(where, row, key)) for key in ("iodepth", "numjobs")},
        }
        load = {"randread": "random reads", "randwrite": "random writes", "randrw": "mixed"}[row["rw"]]
        source = fio_plot_source(row["set"])
        yield Measurement(
            "fio_plot.csv", source, group, load, row["set"], model, table, workload, number(where, row, "iops")
        )


def _plot_device(directory: Path, row: Mapping[str, str]) -> tuple[str, str, dict[str, Any]] | None:
    """Returns the model, the group and the device of a set; the latency of a SATA disk is that of the other hosts."""
    if word := next((word for word in HDDS if word in row["set"]), None):
        model, group = HDDS[word]
        return model, group, stock_models.stock(model)
    name = sata.disk_of(row["set"])
    if name is None:
        return None
    source = fio_plot_source(row["set"])
    known = know_disk(directory, name)
    host = sata.host_of(row["set"])
    controller = "p420i" if host == "P420i" else None
    device = known.device(source, controller)
    latencies = _latencies(directory, known.model, host)
    deviations = {**device["uncertainty"], "latency": latencies["uncertainty"]["latency"]}
    device |= {**latencies, "uncertainty": deviations}
    if any(part in row["set"] for part in sata.UNWRITTEN) and row["rw"] == "randread":
        device["state"] = "unwritten"
    if name in sata.WORN and row["rw"] != "randread":
        device["state"] = "worn"
    group = USED if DELAY in row["set"] else known.group
    return known.model, group, device


@cache
def _latencies(directory: Path, model: str, host: str) -> Mapping[str, Any]:
    """Returns the latencies of a SATA disk that other hosts show."""
    return sata.latencies(stock_models.stock(model), sata.read_sets(directory), host)


OTHERS = ("disk", "size", "rw", "bs", "iodepth", "numjobs", "rwmixread", "iops")


def others(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of others.csv."""
    for where, row in table_rows(directory / "foreign/others.csv", OTHERS):
        source, known = others_source(row), know_disk(directory, row["disk"])
        workload: dict[str, Any] = {"rw": row["rw"], "bs": row["bs"]}
        workload |= {key: int(number(where, row, key)) for key in ("iodepth", "numjobs", "rwmixread") if row[key]}
        loads = {"randread": "random reads", "randwrite": "random writes", "randrw": "mixed", "read": "large reads"}
        load = loads.get(row["rw"], "large writes")
        iops = number(where, row, "iops")
        yield Measurement(
            "others.csv", source, known.group, load, row["disk"], known.model, known.device(source), workload, iops
        )


def reviews(directory: Path) -> Iterator[Measurement]:
    """Yields the writes in sequence in rates.csv: until the cache of single-bit cells is full, and after it."""
    names = product_names(directory)
    after = set()
    for where, row in table_rows(directory / "foreign/rates.csv", ("model", "rw", "state", "mb_s", "source")):
        fresh = row["state"].startswith(("fresh, in the SLC cache", "fresh, first"))
        first_after = row["state"].startswith("after the cache") and (row["model"], row["source"]) not in after
        if row["rw"] != "write" or row["model"] not in names or not (fresh or first_after):
            continue
        if first_after:
            after.add((row["model"], row["source"]))
        known = know_disk(directory, row["model"])
        device = known.device(row["source"]) | ({} if fresh else {"slc_fill": "100%"})
        load = "large writes" if fresh else "large writes, cache full"
        workload = {"rw": "write", "bs": "1m", "iodepth": 4}
        iops = number(where, row, "mb_s") * 1e6 / LARGE
        yield Measurement(
            "rates.csv", row["source"], known.group, load, row["model"], known.model, device, workload, iops
        )


def flushes(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of flushes.csv."""
    for where, row in table_rows(directory / "foreign/flushes.csv", ("disk", "model", "bs", "dsync", "fdatasync")):
        source = flush_source(row)
        known = know_disk(directory, row["disk"])
        if row["model"].startswith("hdd"):
            known = KnownDisk(row["model"], CLASS, {})
        for figure, option in (("dsync", "sync"), ("fdatasync", "fdatasync")):
            if row[figure]:
                durable = "sync" if "ceph-diskbench" in row["source"] else option
                workload = {"rw": "randwrite", "bs": row["bs"], "options": {durable: 1}}
                iops = number(where, row, figure)
                yield Measurement(
                    "flushes.csv", source, known.group, "durable writes", row["disk"], known.model,
                    known.device(source), workload, iops,
                )  # fmt: skip


def sync_writes(directory: Path) -> Iterator[Measurement]:
    """Yields the rows of sync_writes.csv that are of single disks and that flushes.csv does not have."""
    names = product_names(directory)
    columns = ("model", "bs", "numjobs", "sync", "iops", "source", "note")
    for where, row in table_rows(directory / "foreign/sync_writes.csv", columns):
        left_out = is_array(row["model"]) or row["source"].endswith("fsync.py")
        if left_out or row["model"] not in names or "already in" in row["note"] or "iops in" in row["note"]:
            continue
        size = {"4k": 4096, "16k": 16384}.get(row["bs"]) or int(row["bs"])
        if size > 128 << 10:  # Several commands and one flush, on another system
            continue
        source, known = sync_source(row), know_disk(directory, row["model"])
        jobs = int(row["numjobs"])
        option = "sync" if row["sync"].startswith("O_DSYNC") else "fdatasync"
        workload = {"rw": "write", "bs": str(size), "numjobs": jobs, "options": {option: 1}}
        load = "durable writes" if jobs == 1 else "durable writes, several jobs"
        yield Measurement(
            "sync_writes.csv", source, known.group, load, row["model"], known.model, known.device(source), workload,
            number(where, row, "iops"),
        )  # fmt: skip
