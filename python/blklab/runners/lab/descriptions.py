"""Describes the lab's cells: their stacks, disks and loads."""

from collections.abc import Callable, Mapping
from typing import Any

from blklab.experiment import documents
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.documents import LabCellDocument
from blklab.runners.host.descriptions import duration, workload
from blklab.units import format_size


def stack(node: Mapping[str, Any] | None, document: LabCellDocument) -> str:
    """Returns a stack as a formula: `raid1(fast, slow)`."""
    if node is None:
        return "missing"
    ((kind, inner),) = node.items()
    if kind == "device":
        return str(document["devices"][inner]["name"])
    if kind == "md":
        members = ", ".join(stack(slot["node"], document) for slot in inner["members"])
        return f"{inner['level']}({members})"
    parts = []
    for key, part in documents.nodes_below(inner):
        prefix = "cache " if key == "cache" else ""
        parts.append(prefix + stack(part, document))
    if "mode" in inner:
        parts.append(inner["mode"])
    return f"{kind}({', '.join(parts)})"


def notes(plan: ExperimentPlan) -> list[str]:
    """Returns the guests and their disks, one line each."""
    first = plan.cells[0].document
    kernels = sorted({cell.document["kernel"] for cell in plan.cells})
    guests = "1 guest" if len(kernels) == 1 else f"{len(kernels)} guests"
    lines = [
        f"{guests} (kernel {', '.join(kernels)}):"
        f" {first['lab']['cpus']} CPUs, {format_size(first['lab']['memory'])} of memory"
    ]
    disks = {device["name"]: device for cell in plan.cells for device in cell.document["devices"]}
    lines += [f"disk {name}: {disk(device)}" for name, device in disks.items()]
    return [*lines, *duration([cell.document for cell in plan.cells])]


def disk(device: Mapping[str, Any]) -> str:
    """Describes a virtual disk: its size, and its limits before scaling."""
    model = device["model"]
    size = format_size(device["bytes"])
    if model["kind"] != "throttled":
        return f"{size}, throttled to the simulated rate of the {model['kind']} alone"
    limits = [f"{key}={value:g}" for key, value in model.items() if key.startswith(("iops", "bps")) and value]
    if latency := model.get("latency_ns"):
        limits.append(f"latency={latency / 1e6:g}ms")
    return f"{size}, {' '.join(limits) or 'not throttled'}"


COLUMNS: Mapping[str, Callable[[Cell], str]] = {
    "stack": lambda cell: stack(cell.document["stack"], cell.document),
    "workload": lambda cell: workload(cell.document),
    "kernel": lambda cell: str(cell.document["kernel"]),
}
