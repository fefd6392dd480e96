"""The rates of flash disks in reference/foreign, each with its product, the source that measured it, and how.

Sources are authors or hosts: figures of one source are wrong together, so a prediction is judged by other sources.
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accuracy.reference import number, table_rows
from accuracy.sata import SATURATED, WORN, disk_of, host_of
from blklab.devices.rates.quantities import (
    DURABLE,
    RANDOM,
    RANDOM_WRITE,
    READ_BYTES,
    WRITE_BYTES,
    WRITE_BYTES_AFTER,
    FlashRate,
)

MEGABYTE = 10**6
MEBIBYTE = 1 << 20
FLEET = ("52", "36")  # CPUs of the hosts of one author in iocost.csv


@dataclass(frozen=True)
class TableRate:
    """A rate in a table, with the name that the table has for the disk."""

    quantity: FlashRate
    way: str
    product: str
    source: str
    rate: float  # I/Os or bytes a second


@cache
def product_names(directory: Path) -> dict[str, str]:
    """Returns the product by each name that a table has for it."""
    names = {}
    for _, row in table_rows(directory / "foreign/products.csv", ("product", "names")):
        for name in row["names"].split("|"):
            names[name] = row["product"]
    return names


def product_buses(directory: Path) -> dict[str, str]:
    """Returns the bus of each product: `nvme`, `sata` or `sas`."""
    return {row["product"]: row["bus"] for _, row in table_rows(directory / "foreign/products.csv", ("bus",))}


def read_rates(directory: Path) -> list[TableRate]:
    """Returns the rates in all tables: the median of those that a source measured of a product."""
    products = product_names(directory)
    values: dict[tuple[FlashRate, str, str, str], list[float]] = defaultdict(list)
    readers: tuple[Callable[[Path], Iterator[TableRate]], ...] = (
        _of_iocost,
        _of_fio_plot,
        _of_others,
        _of_reviews,
        _of_flushes,
        _of_sync_writes,
    )
    for reader in readers:
        for row in reader(directory):
            if row.product in products:
                values[row.quantity, row.way, products[row.product], row.source].append(row.rate)
    return [
        TableRate(quantity, way, product, source, statistics.median(rates))
        for (quantity, way, product, source), rates in values.items()
    ]


def _of_iocost(directory: Path) -> Iterator[TableRate]:
    """Yields the rates in iocost.csv. The writes in sequence fill the cache of single-bit cells, so random ones find it
    full; they are themselves of both states, and no rate of one.
    """
    figures = (("rrandiops", RANDOM, "read"), ("wrandiops", RANDOM_WRITE, ""), ("rbps", READ_BYTES, ""))
    for where, row in table_rows(directory / "foreign/iocost.csv", ("model", "cpus", "memory")):
        for figure, quantity, way in figures:
            yield TableRate(quantity, way, row["model"], iocost_source(row), number(where, row, figure))


def iocost_source(row: Mapping[str, str]) -> str:
    """Returns the source of a row of iocost.csv: its host, or the author of many."""
    if row["cpus"] in FLEET:
        return "iocost fleet"
    return f"iocost host {row['cpus']}/{round(int(row['memory']) / 10**9)}"


def _of_fio_plot(directory: Path) -> Iterator[TableRate]:
    """Yields the saturated rates in fio_plot.csv."""
    quantities = {"randread": (RANDOM, "read"), "randwrite": (RANDOM_WRITE, "")}
    for where, row in table_rows(directory / "foreign/fio_plot.csv", ("set", "stack", "rw", "iops")):
        disk = disk_of(row["set"])
        in_flight = number(where, row, "iodepth") * number(where, row, "numjobs")
        if row["stack"] == "single" and row["rw"] in quantities and disk and in_flight >= SATURATED:
            quantity, way = quantities[row["rw"]]
            if quantity is RANDOM_WRITE and disk in WORN:
                continue
            yield TableRate(quantity, way, disk, fio_plot_source(row["set"]), number(where, row, "iops"))


def fio_plot_source(name: str) -> str:
    """Returns the source of a set of fio_plot.csv: the host and its controller."""
    return f"fio-plot {host_of(name)}"


def _of_others(directory: Path) -> Iterator[TableRate]:
    """Yields the saturated rates in others.csv of one direction. Its random writes are short: the cache takes them."""
    names, buses = product_names(directory), product_buses(directory)
    for where, row in table_rows(directory / "foreign/others.csv", ("disk", "rw", "bs", "iops")):
        if row["rwmixread"] or row["disk"] not in names:
            continue
        iops, source = number(where, row, "iops"), others_source(row)
        in_flight = number(where, row, "iodepth") * number(where, row, "numjobs")
        if row["rw"] == "randread":
            yield TableRate(RANDOM, "read", row["disk"], source, iops)
        elif row["rw"] == "randwrite" and buses[names[row["disk"]]] == "nvme":
            yield TableRate(RANDOM, "cached_write", row["disk"], source, iops)
        elif row["rw"] == "randwrite":
            yield TableRate(RANDOM_WRITE, "", row["disk"], source, iops)
        elif row["bs"] == "1m" and in_flight > 1:
            quantity = READ_BYTES if row["rw"] == "read" else WRITE_BYTES
            yield TableRate(quantity, "", row["disk"], source, iops * MEBIBYTE)


def others_source(row: Mapping[str, str]) -> str:
    """Returns the source of a row of others.csv: its author."""
    return row["source"].partition(" ")[0]


def _of_reviews(directory: Path) -> Iterator[TableRate]:
    """Yields the writes in sequence in rates.csv: in the cache of single-bit cells, and the first rate after it."""
    after = set()
    for where, row in table_rows(directory / "foreign/rates.csv", ("model", "rw", "state", "mb_s", "source")):
        key = row["model"], row["source"]
        if row["rw"] != "write" or row["source"].startswith("scylladb"):
            continue
        if row["state"].startswith(("fresh, in the SLC cache", "fresh, first")):
            yield TableRate(WRITE_BYTES, "", row["model"], row["source"], number(where, row, "mb_s") * MEGABYTE)
        elif row["state"].startswith("after the cache") and key not in after:
            after.add(key)
            yield TableRate(WRITE_BYTES_AFTER, "", row["model"], row["source"], number(where, row, "mb_s") * MEGABYTE)


def _of_flushes(directory: Path) -> Iterator[TableRate]:
    """Yields the rates in flushes.csv. The rows of ceph-diskbench are of O_DSYNC."""
    for where, row in table_rows(directory / "foreign/flushes.csv", ("disk", "dsync", "fdatasync", "source")):
        for column in ("dsync", "fdatasync"):
            if row[column]:
                way = "fua" if column == "dsync" or "ceph-diskbench" in row["source"] else "flush"
                yield TableRate(DURABLE, way, row["disk"], flush_source(row), number(where, row, column))


def flush_source(row: Mapping[str, str]) -> str:
    """Returns the source of a row of flushes.csv: its author."""
    author = re.match(r"gists? (\w+)|([^ /]+)", row["source"])
    return (author[1] or author[2]) if author else row["source"]


def _of_sync_writes(directory: Path) -> Iterator[TableRate]:
    """Yields the rates in sync_writes.csv of one job and 4 KiB that flushes.csv does not have."""
    columns = ("model", "bs", "numjobs", "sync", "iops", "source", "note")
    for where, row in table_rows(directory / "foreign/sync_writes.csv", columns):
        left_out = "flushes.csv" in row["note"] or row["source"].endswith("fsync.py") or is_array(row["model"])
        if row["numjobs"] == "1" and row["bs"] in {"4k", "4096"} and not left_out:
            way = "fua" if row["sync"].startswith("O_DSYNC") else "flush"
            yield TableRate(DURABLE, way, row["model"], sync_source(row), number(where, row, "iops"))


def is_array(name: str) -> bool:
    """Returns whether a row is of several disks."""
    return re.search(r"RAID|\+|pool", name) is not None


def sync_source(row: Mapping[str, str]) -> str:
    """Returns the source of a row of sync_writes.csv: its author, or the host where one has several."""
    if row["source"].startswith("centminmod"):
        return f"centminmod {row['model']}"
    return row["source"].partition("/")[0]
