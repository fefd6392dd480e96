"""Describes a host's cells: where, which jobs, what is changed and overwritten."""

from collections.abc import Mapping, Sequence
from typing import Final

from blklab.runners.kind import CellDescriptions
from blklab.spec.cells import ExperimentPlan
from blklab.spec.documents import FioCellDocument, HostCellDocument, as_host
from blklab.spec.host_cell import writes
from blklab.spec.target import PLACES
from blklab.units import format_size


def place(document: HostCellDocument) -> str:
    """Returns where a cell does its I/O."""
    target = document["target"]
    ((kind, path),) = ((key, value) for key, value in target.items() if key in PLACES)
    return f"{kind} {path}"


def workload(document: FioCellDocument) -> str:
    """Returns a cell's jobs in fio's options, or its command."""
    if (command := document.get("command")) is not None:
        return " ".join(command["argv"])
    jobs = document["jobs"]
    jobs_described = [_job(job["options"]) for job in jobs]
    if len(jobs) > 1:
        jobs_described = [
            f"[{job['name']}] {words}" for job, words in zip(jobs, jobs_described, strict=True)
        ]
    if document["runtime_ns"] is not None:
        jobs_described.append(f"runtime={document['runtime_ns'] / 1e9:g}s")
    return (
        " + ".join(jobs_described[:-1]) + f" {jobs_described[-1]}"
        if len(jobs_described) > 1
        else jobs_described[0]
    )


PLAIN = {
    "iodepth": "1",
    "numjobs": "1",
    "offset": "0",
    "offset_increment": "0",
    "direct": "1",
    "random_distribution": "random",
    "ioengine": "libaio",
    "iodepth_batch": "1",
    "iodepth_batch_complete": "1",
}
"""Options that descriptions leave out."""


def _job(options: Mapping[str, str]) -> str:
    parts = []
    for key, value in options.items():
        if PLAIN.get(key) == value or (key == "rwmixread" and "rw" not in options["rw"]):
            continue
        sized = key in {"size", "offset"} and value.isdigit()
        parts.append(f"{key}={format_size(int(value)).replace(' ', '') if sized else value}")
    return " ".join(parts)


def consequences(plan: ExperimentPlan) -> list[str]:
    """Returns the lasting effects of a run, one line each."""
    lines = []
    for document in _first_of_each(plan):
        target = document["target"]
        if "device" in target:
            written = any(
                writes(as_host(cell.document))
                for cell in plan.cells
                if cell.document["target"] == target
            )
            would = "would be OVERWRITTEN" if written else "would only be read"
            named = ", ".join(document["destroy"]) or "nothing"
            lines.append(f"{target['device']} {would}; `destroy` names {named}")
        elif document.get("file_bytes"):
            where = target.get("filesystem") or target["directory"]
            lines.append(f"{format_size(document['file_bytes'])} would be written below {where}")
    settings = {key for cell in plan.cells for key in cell.document["settings"]}
    if settings:
        lines.append(f"{', '.join(sorted(settings))} would be changed during a cell, and restored")
    return lines


def _first_of_each(plan: ExperimentPlan) -> Sequence[HostCellDocument]:
    return list(
        {cell.document["target"]["name"]: as_host(cell.document) for cell in plan.cells}.values()
    )


WORDS: Final = CellDescriptions(
    {
        "stack": lambda cell: place(as_host(cell.document)),
        "workload": lambda cell: workload(as_host(cell.document)),
    },
    notes=consequences,
)
