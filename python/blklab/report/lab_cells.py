"""What an experiment would do in the lab: which stacks, of which disks, under which load."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blklab.report import terminal, words
from blklab.report.host_cells import workload
from blklab.report.tables.base import Column, Table, text
from blklab.text import printable
from blklab.units import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.spec.cells import Plan

OWN = ("stack", "workload", "kernel")


def show(console: "Console", plan: "Plan") -> None:
    """Prints what an experiment would do."""
    terminal.draw(console, table(plan))
    for line in guests(plan):
        console.print(f"· {line}", highlight=False)


def table(plan: "Plan") -> Table:
    """Returns the table of an experiment's cells."""
    varied = [label for label in plan.varied if label not in OWN]
    columns = [Column("#"), text("stack"), text("workload"), text("kernel")]
    if varied:
        columns.append(text("varied"))
    rows = []
    for cell in plan.cells:
        document = cell.document
        row = [
            str(cell.number),
            printable(f"{cell.labels['stack']}: {stack(document['stack'], document)}"),
            printable(f"{cell.labels['workload']}: {workload(document)}"),
            printable(document["kernel"]),
        ]
        if varied:
            row.append(printable(" ".join(f"{label}={cell.labels[label]}" for label in varied)))
        rows.append(row)
    title = printable(plan.title) or "Experiment"
    return Table(f"{title}: {words.plural(len(plan.cells), 'cell')}", columns, rows)


def stack(node: Mapping[str, Any] | None, document: Mapping[str, Any]) -> str:
    """Returns a stack as a formula: `raid1(fast, slow)`."""
    if node is None:
        return "missing"
    ((kind, inner),) = node.items()
    if kind == "device":
        return str(document["devices"][inner]["name"])
    if kind == "md":
        members = ", ".join(stack(slot["node"], document) for slot in inner["members"])
        return f"{inner['level']}({members})"
    if kind == "lvm":
        return f"lvm({', '.join(stack(one, document) for one in inner['members'])})"
    below = inner["origin" if kind == "lvmcache" else "backing"]
    cached = f"{stack(below, document)}, cache {stack(inner['cache'], document)}"
    return f"{kind}({cached}, {inner['mode']})"


def guests(plan: "Plan") -> list[str]:
    """Returns what would be booted, and what its disks would be, one line each."""
    first = plan.cells[0].document
    kernels = sorted({cell.document["kernel"] for cell in plan.cells})
    lines = [
        f"{words.plural(len(kernels), 'guest')} (kernel {', '.join(kernels)}):"
        f" {first['lab']['cpus']} CPUs, {format_size(first['lab']['memory'])} of memory"
    ]
    disks = {device["name"]: device for cell in plan.cells for device in cell.document["devices"]}
    lines += [f"disk {name}: {disk(device)}" for name, device in disks.items()]
    return [printable(line) for line in lines]


def disk(device: Mapping[str, Any]) -> str:
    """Returns a virtual disk in words: its size, and its limits, before they are scaled."""
    model = device["model"]
    size = format_size(device["bytes"])
    if model["kind"] != "throttled":
        return f"{size}, throttled to what the {model['kind']} alone would do (simulated)"
    limits = [
        f"{key}={value:g}"
        for key, value in model.items()
        if key.startswith(("iops", "bps")) and value
    ]
    if latency := model.get("latency_ns"):
        limits.append(f"latency={latency / 1e6:g}ms")
    return f"{size}, {' '.join(limits) or 'not throttled'}"
