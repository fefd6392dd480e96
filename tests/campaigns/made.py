"""Campaigns made by hand, as runners on a host and importers leave them."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blklab import outcome
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.store.campaigns import Store
from blklab.store.series import FinishedRun, SeriesPoint, pack_output

QUANTILES = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99")
SPREAD = (0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0, 3.5, 8.0, 12.0)

Labels = Mapping[str, str]


def direction_result(iops: float, latency_ns: float, *, seconds: float = 10, bs: int = 4096) -> Any:
    """Returns `read` or `write` of an outcome."""
    ios = round(iops * seconds)
    if not ios:
        nothing = dict.fromkeys(("mean", "stddev", "min", "max", *QUANTILES))
        clat = {"count": 0, **nothing, "relative_error": 0.0}
        return {"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0.0, "clat_ns": clat}
    bins = [
        [round(latency_ns * factor), round(ios * share)]
        for factor, share in zip(SPREAD, (1, 4, 10, 30, 30, 15, 6, 3, 0.9, 0.1, 0.01), strict=True)
        if round(ios * share / 100)
    ]
    return {
        "total_ios": ios,
        "io_bytes": ios * bs,
        "iops": iops,
        "bw_bytes": iops * bs,
        "clat_ns": {
            "count": ios,
            "mean": latency_ns * 1.05,
            "stddev": latency_ns * 0.3,
            "min": latency_ns * 0.3,
            "max": latency_ns * 14,
            **{name: latency_ns * f for name, f in zip(QUANTILES, SPREAD, strict=True)},
            "relative_error": 0.0078125,
            "bins": bins,
        },
    }


def device(name: str, ios: Sequence[int], each_ns: Sequence[float], **rest: Any) -> Any:
    """Returns one of `devices[]`; of blocks of 4 KiB."""
    return {
        "name": name,
        "ios": list(ios),
        "merges": [0, 0],
        "sectors": [8 * count for count in ios],
        "ticks_ns": [round(count * each) for count, each in zip(ios, each_ns, strict=True)],
        "busy_ns": 6 * 10**9,
        "queue_ns": 10**9,
        "flushes": 0,
        "flush_ns": 0,
        "discards": 0,
        "kind": "disk",
        "above": [],
        "leaf": True,
        "id": None,
        **rest,
    }


def mirror(read: Mapping[str, Any], write: Mapping[str, Any], split: float) -> list[Any]:
    """Returns md over two partitions over two disks; the first disk has `split` of the reads."""
    reads, writes = read["total_ios"], write["total_ios"]
    first = round(reads * split)
    result = [device("md4", [reads, writes], [3e5, 4e5], kind="md", leaf=False)]
    for disk, part, count in (("sda", "sda3", first), ("nvme0n1", "nvme0n1p3", reads - first)):
        result.append(device(part, [count, writes], [3e5, 4e5], kind="partition", above=["md4"], leaf=False))
        result.append(device(disk, [count, writes], [3e5, 4e5], above=[part], id=f"wwn-{disk}"))
    return result


ENVIRONMENT: Any = {
    "blklab": "0.1.0",
    "kernel": {"system": "Linux", "release": "6.1.0-18-amd64", "machine": "x86_64"},
    "cpu": {"model": "AMD EPYC 7302P", "count": 32, "governor": ["acpi-cpufreq schedutil"]},
    "memory_bytes": 128 << 30,
    "vm": {"dirty_ratio": "20", "dirty_background_ratio": "10"},
    "programs": {"fio": "3.33", "mdadm": "4.2", "lvm": None},
    "devices": [
        {
            "name": "md4",
            "kind": "md",
            "above": [],
            "leaf": False,
            "size": 10 << 30,
            "ids": ["md-uuid-1:2:3:4"],
            "queue": {"rotational": "0"},
            "md": {
                "level": "raid10",
                "layout": "258",
                "raid_disks": "2",
                "chunk_size": "524288",
                "metadata_version": "1.2",
                "bitmap/location": "none",
                "members": {"sda3": {"state": "in_sync", "slot": "1"}, "nvme0n1p3": {"state": "in_sync", "slot": "0"}},
            },
            "mounts": [{"point": "/srv", "type": "ext4", "options": "rw,noatime"}],
        },
        {
            "name": "sda",
            "kind": "disk",
            "above": ["sda3"],
            "leaf": True,
            "size": 960 << 30,
            "ids": ["wwn-0x5002538e00000001", "ata-SAMSUNG_MZ7LH960"],
            "queue": {"scheduler": "none [mq-deadline]", "nr_requests": "64", "rotational": "0"},
            "hardware": {"vendor": "ATA", "model": "SAMSUNG MZ7LH960", "rev": "904Q"},
        },
        {
            "name": "nvme0n1",
            "kind": "disk",
            "above": ["nvme0n1p3"],
            "leaf": True,
            "size": 960 << 30,
            "ids": ["nvme-eui.0025388a91000001"],
            "queue": {"scheduler": "[none] mq-deadline", "nr_requests": "1023", "rotational": "0"},
            "hardware": {"model": "SAMSUNG MZQLB960", "rev": "EDA5202Q"},
        },
    ],
}


def series(iops: float, seconds: int = 60, *, reads: float = 1.0, seed: int = 1) -> list[SeriesPoint]:
    """Returns the jobs' points, one a second, with 2 % of noise."""
    luck = random.Random(seed)
    points = []
    for second in range(seconds):
        ios = max(0, round(luck.gauss(iops, 0.02 * iops)))
        read, write = round(ios * reads), ios - round(ios * reads)
        at = second * 10**9
        points.append(SeriesPoint("jobs", at, 10**9, read, write, 4096 * read, 4096 * write, 1e5, 1e5))
    return points


def job(workload: str, **options: str) -> Any:
    """Returns a cell's job, in fio's words; what it does is read off the workload's name."""
    kinds = {"seqread": "read", "seqwrite": "write", "rand75read": "randrw"}
    words = {"rw": kinds.get(workload, workload), "bs": "4k", "iodepth": "32", "numjobs": "4"}
    words |= {"direct": "1", "ioengine": "libaio", "size": "2147483648", **options}
    return {"name": workload, "options": words}


Measure = Callable[[Labels], tuple[Any, list[SeriesPoint]]]


def measured(labels: Labels, iops: float = 1e5, *, share: float = 1.0) -> Any:
    """Returns the outcome of a run on a host: `share` of the I/Os are reads."""
    read, write = direction_result(iops * share, 1e6), direction_result(iops * (1 - share), 1.2e6)
    return {
        "runtime_ns": 10 * 10**9,
        "read": read,
        "write": write,
        "groups": [{"name": labels.get("workload", "job"), "read": read, "write": write}],
        "devices": mirror(read, write, 0.4),
        "targets": [],
        "fio": {
            "version": "fio-3.33",
            "command": ["fio", "--output-format=json+", "job.fio"],
            "usr_cpu": 40.0,
            "sys_cpu": 80.0,
            "ctx": 1000,
            "options": {},
        },
        "cpu": {"user": 0.1, "system": 0.2, "iowait": 0.1, "irq": 0.01, "idle": 0.59},
        "steady": None,
        "command": None,
        "settings": [{"where": "sda", "key": "scheduler", "original": "mq-deadline", "set": "none"}],
        "warnings": [],
        "forced": [],
    }


def add(
    store: Store,
    every: Sequence[Labels],
    measure: Measure,
    *,
    name: str = "unbalanced",
    title: str = "A database server's mirror",
    runner: str = "host",
    environment: Mapping[str, Any] = ENVIRONMENT,
    raw: str = '{"fio version": "fio-3.33"}',
    experiment: Mapping[str, Any] | None = None,
    options: Callable[[Labels], Mapping[str, str]] = lambda _labels: {},
) -> int:
    """Adds a campaign of runs with these labels, and returns its number."""
    cells = [
        Cell(
            at,
            dict(labels),
            {
                "seed": 1,
                "jobs": [job(labels.get("workload", "randread"), **options(labels))],
                "target": {"name": labels.get("stack", "raid1"), "directory": "/srv"},
                "runtime_ns": 10 * 10**9,
            },
            1 << 31,
        )
        for at, labels in enumerate(every, start=1)
    ]
    plan = ExperimentPlan(title, cells, [], runner, Path(f"/srv/{name}.toml"), dict(experiment or {}))
    finished = {}
    for cell in cells:
        figures, points = measure(cell.labels)
        finished[cell.key] = FinishedRun(outcome.Outcome.from_document(figures), 10.0, points, pack_output(raw))
    return store.add(plan, finished, environment)
