"""The throttling limits of a cell's disks, and the divisor of all rates.

A `throttled` device states its limits. For a model (`ssd`, `nvme`, `hdd`) the simulator computes what the device alone
would do with the cell's own jobs: requests a second if they are random, bytes a second if they are sequential, because
the block layer merges those before the throttle counts them. Reads and writes are limited separately, unless the jobs
or the stack (`turns`) mix them: QEMU accepts limits of both together or of each, not both (util/throttle.c,
`throttle_is_valid`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.experiment.documents import LabCellDocument
from blklab.md.levels import PARITIES
from blklab.outcome import Outcome
from blklab.runners.lab.machine.boot import NAMES
from blklab.runners.sim.runner import outcomes

REACH_IOPS = {"tcg": 3_000, "kvm": 60_000}
"""I/Os a second of all devices together that a guest reaches, with two emulated and busy CPUs."""

REACH_BYTES = {"tcg": 150 << 20, "kvm": 3 << 30}  # Bytes a second
ALONE_NS = 3 * 10**9
RAMP_NS = 10**9  # Duration of the simulation of a single device, and of its ramp
EVEN = 0.5  # Share of reads in a mix, where a stack makes both directions from one
SATURATED = 0.9  # A device's rate counts if it reaches this share of its rate with many I/Os in flight
MANY = 128  # I/Os in flight that saturate a device

Limits = dict[str, int]


@dataclass(frozen=True)
class DiskRates:
    """The limits of a cell's disks, scaled."""

    scale: float  # Divisor of the devices' own rates
    limits: list[Limits]  # Limits of each device, in the document's order
    doubts: list[Diagnostic]  # Effects that such limits cannot reproduce


def factor(documents: Sequence[LabCellDocument], accel: str) -> float:
    """Returns the divisor of all rates of an experiment: one for all of its cells.

    Cells stay comparable: a stack of fast devices stays faster than one of slow devices.
    """
    scale = documents[0]["lab"]["scale"]  # which nothing varies
    if scale != "auto":
        return float(scale)
    return max(_compute_divisor(_compute_rates(document), accel) for document in documents)


def rates(document: LabCellDocument, scale: float) -> DiskRates:
    """Returns the limits of each device's disk. Raises BlklabError if a limit would be 0."""
    unscaled_rates = _compute_rates(document)
    limits = []
    for device, device_rates in zip(document["devices"], unscaled_rates, strict=True):
        scaled_rates = {key: round(rate / scale) for key, rate in device_rates.items() if rate}
        for key, rate in scaled_rates.items():
            if rate < 1:
                raise BlklabError(
                    f"device {device['name']}: {key} of {device_rates[key]:g}, divided by {scale:g}, "
                    "is less than 1 a second: set a smaller lab.scale"
                )
        if seconds := device["model"].get("burst_seconds"):
            scaled_rates["burst_seconds"] = cast(int, seconds)
        limits.append(scaled_rates)
    return DiskRates(scale, limits, _doubts(document))


def turns(node: documents.Node) -> bool:
    """Tells whether a stack turns reads into writes, or writes into reads.

    Parity is read before it is written, reads fill a cache, and a rebuilding member is written
    with data read from others.
    """
    return any(
        kind in {"lvmcache", "bcache", "writecache"}
        or (kind == "md" and (table["level"] in PARITIES or table["sync"] != "idle"))
        for kind, table in documents.arrays_and_volumes(node)
    )


def _doubts(document: LabCellDocument) -> list[Diagnostic]:
    """Returns the models whose latency limits the jobs: the lab's limits have no latency."""
    if len(document["devices"]) < 2:
        return []  # alone it does what it does alone
    kinds = dict.fromkeys(
        device["model"]["kind"]
        for device in document["devices"]
        if device["model"]["kind"] != "throttled" and not _is_saturated(document, device)
    )
    return [
        Diagnostic(
            "no-latency",
            "warning",
            "",
            f"the load is limited by the latency of each {kind}, but the lab's disks only have rates: "
            "stacks that spread I/O over several of them appear too fast",
            ("use more iodepth or numjobs, or compare with --on sim",),
        )
        for kind in kinds
    ]


def _is_saturated(document: LabCellDocument, device: Mapping[str, Any]) -> bool:
    usual_document = _alone(document, device, None)
    deep_document = {
        **usual_document,
        "jobs": [{**job, "iodepth": max(MANY, job["iodepth"])} for job in usual_document["jobs"]],
    }
    usual_rate, max_rate = (
        outcome.read.bw_bytes + outcome.write.bw_bytes for outcome in _simulate_documents(usual_document, deep_document)
    )
    return usual_rate >= SATURATED * max_rate


def _compute_rates(document: LabCellDocument) -> list[dict[str, float]]:
    return [_limits(document, device) for device in document["devices"]]


def _limits(document: LabCellDocument, device: Mapping[str, Any]) -> dict[str, float]:
    """Returns the rates of a device before scaling; 0 is no limit."""
    if device["model"]["kind"] == "throttled":
        return {name: float(device["model"][name]) for name in NAMES}
    jobs = document["alone"]
    is_mixed = any(0 < job["read_share"] < 1 for job in jobs) or (len({job["read_share"] for job in jobs}) > 1)
    random = any(job["random"] for job in jobs)
    if is_mixed or turns(document["stack"]):
        (outcome,) = _simulate_documents(_alone(document, device, None if is_mixed else EVEN))
        if random:
            return {"iops_total": outcome.read.iops + outcome.write.iops}
        return {"bps_total": outcome.read.bw_bytes + outcome.write.bw_bytes}
    reads, writes = _simulate_documents(*(_alone(document, device, share) for share in (1.0, 0.0)))
    if random:
        return {"iops_read": reads.read.iops, "iops_write": writes.write.iops}
    return {"bps_read": reads.read.bw_bytes, "bps_write": writes.write.bw_bytes}


def _simulate_documents(*documents: Mapping[str, Any]) -> list[Outcome]:
    """Returns outcomes; equal disks under equal loads are simulated only once, for all cells."""
    return [_outcome(json.dumps(document, sort_keys=True)) for document in documents]


@cache
def _outcome(text: str) -> Outcome:
    return outcomes([json.loads(text)])[0]


def _alone(document: LabCellDocument, device: Mapping[str, Any], share: float | None) -> dict[str, Any]:
    """Returns the cell of one device alone: all reads, all writes, or the jobs' mix."""
    jobs = [
        {
            **job,
            "read_share": job["read_share"] if share is None else share,
            "read_sizes": job["read_sizes"] or job["write_sizes"],
            "write_sizes": job["write_sizes"] or job["read_sizes"],
            # A device with a journal can be smaller than those of the stack.
            "size": min(job["size"], device["bytes"] // job["align"] * job["align"]),
        }
        for job in document["alone"]
    ]
    return {
        "kernel": document["kernel"],
        "devices": [{**{key: value for key, value in device.items() if key != "virtual"}, "name": "alone"}],
        "stack": {"device": 0},
        "filesystem": None,
        "jobs": jobs,
        "replay": None,
        "runtime_ns": ALONE_NS,
        "ramp_ns": RAMP_NS,
        "max_ios": None,
        "series_ns": 0,
        "seed": 1,
    }


def _compute_divisor(limits: Sequence[Mapping[str, float]], accel: str) -> float:
    """Returns the divisor that brings all devices within reach, rounded up to two digits."""
    iops = sum(_max_rate(limit, "iops") for limit in limits) / REACH_IOPS[accel]
    factor = max(1.0, iops, sum(_max_rate(limit, "bps") for limit in limits) / REACH_BYTES[accel])
    unit = 10.0 ** (math.floor(math.log10(factor)) - 1)
    return max(1.0, float(math.ceil(factor / unit) * unit))


def _max_rate(limits: Mapping[str, float], kind: str) -> float:
    """Returns a device's largest rate that its limits allow, as far as they state it."""
    total, read, write = (limits.get(f"{kind}_{direction}", 0.0) for direction in ("total", "read", "write"))
    return total or max(read, write)
