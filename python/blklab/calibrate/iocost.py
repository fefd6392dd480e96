"""The six figures of the kernel's io.cost model: a disk's model from them, and they from a model.

`resctl-bench` measures them with fio on a trimmed disk in use: eight jobs, 60 s for each figure. They say how much a
disk does when it is saturated, and nothing of its latency.
"""

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

from blklab.devices.stock_models import DeviceTable
from blklab.errors import UsageError
from blklab.runners.sim import runner as sim
from blklab.text.user_file import read_user_file

LOADS: Mapping[str, tuple[str, str, int]] = {
    "rbps": ("read", "1m", 8),
    "rseqiops": ("read", "4k", 256),
    "rrandiops": ("randread", "4k", 256),
    "wbps": ("write", "1m", 8),
    "wseqiops": ("write", "4k", 256),
    "wrandiops": ("randwrite", "4k", 256),
}
"""`rw`, `bs` and `iodepth` of the eight jobs that measure each figure. For bytes, resctl-bench has `bs` = 128 MiB,
which the kernel splits."""

JOBS = 8
SMALL = 4096  # Bytes of an I/O
LARGE = 1 << 20  # Bytes of an I/O of `rbps` and `wbps`
LEAST_NS = 100  # Of a command: some disks do more bytes in small I/Os than in large ones
SEQUENTIAL = 1.1
"""If a disk does more sequential small reads than random ones by this factor, its flash limits the random ones: several
sequential reads share a page."""

SPARE = 1.2  # How much more the flash does than the interface, if the interface is the limit
CONTROLLER = 0.15
"""The least standard deviation of a disk that others measured: results of one model, on other hosts and with other
firmware, differ by 1 to 17 % (reference/foreign/iocost.csv)."""

LATENCY = 0.5  # Of loads that do not saturate the disk, whose latency is that of the class

MAX_FIGURE = 1e15  # No figure is as large

Figures = dict[str, float]
"""The figures by name: bytes a second, and 4 KiB I/Os a second."""


@dataclass(frozen=True)
class MeasuredDisk:
    """The figures of a disk, from one file."""

    name: str  # As the kernel reads it; empty if the file does not say
    figures: Figures
    capacity: int | None = None  # Bytes


def read(path: Path) -> list[MeasuredDisk]:
    """Returns the disks in a result of resctl-bench (JSON, or gzip of it), or in lines of `io.cost.model`.

    Raises UsageError.
    """
    text = read_user_file(path).decode(errors="replace")
    try:
        figures = list(_in_document(json.loads(text)))
    except (ValueError, RecursionError):
        figures = list(_in_lines(text))
    if not figures:
        raise UsageError(
            f"{path}: no figures of a disk; expected a result of resctl-bench, or rbps=, rseqiops=, "
            "rrandiops=, wbps=, wseqiops= and wrandiops= as in io.cost.model"
        )
    name = re.search(r'"(?:scr|iocost)_dev_model"\s*:\s*"([^"\\]+)"', text)
    size = re.search(r'"(?:scr|iocost)_dev_size"\s*:\s*(\d{1,18})\b', text)
    return [
        MeasuredDisk(name[1] if name else "", figures_of_disk, int(size[1]) if size else None)
        for figures_of_disk in figures
    ]


def _in_document(node: Any) -> Iterator[Figures]:
    """Yields the first figures in each job; those that were set before are in `sysinfo`, and are skipped."""
    if isinstance(node, list):
        for item in node:
            yield from _in_document(item)
    elif isinstance(node, dict):
        if all(isinstance(node.get(figure), int | float) and 0 < node[figure] < MAX_FIGURE for figure in LOADS):
            yield {figure: float(node[figure]) for figure in LOADS}
            return
        matches = (figures for key in node if key != "sysinfo" for figures in _in_document(node[key]))
        yield from islice(matches, 1) if "spec" in node else matches


def _in_lines(text: str) -> Iterator[Figures]:
    figures: Figures = {}
    for key, value in re.findall(rf"\b({'|'.join(LOADS)})=([1-9]\d{{0,14}})\b", text):
        figures = {**figures, key: float(value)}
        if len(figures) == len(LOADS):
            yield figures
            figures = {}


def median(disks: list[MeasuredDisk]) -> Figures:
    """Returns the median of each figure."""
    medians = {}
    for figure in LOADS:
        medians[figure] = statistics.median(disk.figures[figure] for disk in disks)
    return medians


def model_of(figures: Figures, base: DeviceTable) -> DeviceTable:
    """Returns a flash disk with these figures; what they do not show is that of `base`, a typical disk.

    The time of a command follows from the random rate. If flash limits random reads, the number of dies follows from
    them. Nothing is known of a new disk, so it has no cache of single-bit cells.
    """
    unknown = ("slc_bytes", "fold_ns", "direct_ns", "cell_bits")
    table = {
        key: value
        for key, value in base.items()
        if key not in unknown and not key.startswith(("sustained_", "cached_"))
    }
    random = figures["rrandiops"]
    page_ns = table["page_read_ns"]
    of_flash = figures["rseqiops"] > SEQUENTIAL * random
    # Reads: the time of a command, and that of bytes in the interface.
    small_ns = 1e9 / (figures["rseqiops"] if of_flash else random)
    large_ns = 1e9 * LARGE / figures["rbps"]
    byte_ns = max(1e-3, min((large_ns - small_ns) / (LARGE - SMALL), (small_ns - LEAST_NS) / SMALL))
    table["read_command_ns"] = round(small_ns - byte_ns * SMALL)
    table["read_bandwidth"] = round(1e9 / byte_ns)
    # Writes: the time of a command, and that of bytes in flash, which depends on the number of dies.
    table["write_bandwidth"] = round(max(SPARE * figures["wbps"], table["write_bandwidth"]))
    small_ns = 1e9 / figures["wrandiops"]
    table["write_command_ns"] = max(LEAST_NS, round(small_ns - 1e9 * SMALL / table["write_bandwidth"]))
    units = random * page_ns / 1e9
    table["units"] = max(1, round(units if of_flash else max(units * SPARE, table["units"])))
    while table["units"] * table["page_bytes"] * 1e9 / page_ns < SPARE * figures["rbps"]:
        table["page_bytes"] *= 2
    table["program_ns"] = round(table["units"] * table["program_bytes"] * 1e9 / figures["wbps"])
    return table


def simulate_figures(table: DeviceTable) -> dict[str, float]:
    """Returns the figures of a disk in the simulator."""
    units = ["bw_bytes" if figure.endswith("bps") else "iops" for figure in LOADS]
    outcomes = sim.outcomes([_document(table, figure) for figure in LOADS])
    rates = [
        getattr(outcome.read, unit) + getattr(outcome.write, unit)
        for outcome, unit in zip(outcomes, units, strict=True)
    ]
    return dict(zip(LOADS, rates, strict=True))


def _document(table: DeviceTable, figure: str, rate: Mapping[str, int] | None = None) -> Mapping[str, Any]:
    rw, bs, depth = LOADS[figure]
    load = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": JOBS, "time_based": True, **(rate or {})}
    runtime = "1500ms"
    device = {**table, "size": "16GiB"}
    if table["kind"] == "hdd" or (figure == "wbps" and table.get("slc_bytes")):
        runtime = "60s"  # as resctl-bench: large writes may fill the cache of single-bit cells
    if table.get("slc_bytes") and figure in {"wseqiops", "wrandiops"} and table.get("state", "used") == "used":
        device["slc_fill"] = "100%"  # resctl-bench measures small writes after them
    settings = {"kernel": "5.18", "runtime": runtime}
    return dict(sim.make_device_cell(Path(figure), device, (figure, load), settings).document)


def uncertainty(table: DeviceTable, figures: Figures, base: DeviceTable) -> dict[str, float]:
    """Returns the deviations of a model that was made from figures: how far it is from them, and what is typical."""
    errors = {figure: math.log(value / figures[figure]) for figure, value in simulate_figures(table).items()}
    reads = _deviation([errors[figure] for figure in list(LOADS)[:3]])
    writes = _deviation([errors[figure] for figure in list(LOADS)[3:]])
    mixed_deviation = round(math.hypot(0.3, max(reads, writes)), 3)
    return {
        "read": reads,
        "write": writes,
        "mixed": mixed_deviation,
        "latency": LATENCY,
        "sync": base["uncertainty"]["sync"],
    }


def _deviation(errors: Sequence[float]) -> float:
    """Returns the root mean square of errors, with that of a controller."""
    return round(math.hypot(CONTROLLER, math.sqrt(statistics.fmean(error**2 for error in errors))), 3)


def qos(table: DeviceTable, figures: Figures) -> dict[str, float]:
    """Returns the keys of io.cost.qos: a latency that 95 % of the I/Os have at 90 % of the random rates, and half more.

    So resctl-bench chooses them for flash; for rotating disks it is the median.
    """
    percentile = 50 if table["kind"] == "hdd" else 95
    result: dict[str, float] = {"enable": 1}
    for direction in ("read", "write"):
        figure = f"{direction[0]}randiops"
        document = _document(table, figure, {"rate_iops": max(1, int(0.9 * figures[figure] / JOBS))})
        (outcome,) = sim.outcomes([document])
        latencies = outcome.direction(direction).clat_ns
        latency = (latencies.p50 if percentile == 50 else latencies.p95) or 0
        result |= {f"{direction[0]}pct": percentile, f"{direction[0]}lat": max(1, round(1.5 * latency / 1000))}
    return {**result, "min": 60, "max": 100}


def format_figures(figures: Figures) -> str:
    """Returns `key=value` words."""
    return " ".join(f"{key}={value:.0f}" for key, value in figures.items())


def as_toml(figures: Figures, base: DeviceTable, about: Mapping[str, Any], source: str) -> str:
    """Returns the file of a model of the library; `about` is its table `[library]`. Raises UsageError for `base`."""
    _document(base, "rbps")
    table = model_of(figures, base)
    table = {**table, "source": source, "uncertainty": uncertainty(table, figures, base)}
    comment = f"""\
# Written by `blklab devices import`. These parameters give the figures that were measured on a disk in use:
# {format_figures(figures)}
# Its latency, its flushes and the rates of a new disk were not measured: they are typical ones.
"""
    return comment + tomli_w.dumps({**table, "library": about})
