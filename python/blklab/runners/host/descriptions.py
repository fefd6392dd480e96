"""Describes the cells of a host or a fleet: where, which jobs, what is changed and overwritten."""

from collections.abc import Callable, Mapping, Sequence

from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.documents import (
    FioCellDocument,
    HostCellDocument,
    job_writes,
    minimum_ns,
    ramp_runs,
    replay_words,
    writes,
)
from blklab.experiment.tables import PLACES
from blklab.fio import option_values
from blklab.units import format_duration, format_size


def place(document: HostCellDocument) -> str:
    """Returns where a cell does its I/O."""
    ((kind, path),) = ((key, value) for key, value in document["target"].items() if key in PLACES)
    return f"{kind} {path}"


def workload(document: FioCellDocument) -> str:
    """Returns a cell's jobs in fio's options, or its command."""
    if (command := document.get("command")) is not None:
        return " ".join(command["argv"])
    jobs = document["jobs"]
    jobs_described = [_job(job["options"]) for job in jobs]
    if len(jobs) > 1:
        jobs_described = [f"[{job['name']}] {parts}" for job, parts in zip(jobs, jobs_described, strict=True)]
    parts = [replay_words(replay) if (replay := document.get("replay")) else " + ".join(jobs_described)]
    if ramp := document.get("load_ramp"):
        limit = "" if ramp["p99_ns"] is None else f" p99_below={format_duration(ramp['p99_ns']).replace(' ', '')}"
        parts.append(f"rate=ramp{limit}")
    if document["runtime_ns"] is not None:
        parts.append(f"runtime={document['runtime_ns'] / 1e9:g}s")
    return " ".join(parts)


PLAIN = {  # Options that descriptions leave out
    **dict.fromkeys(("iodepth", "numjobs", "direct", "iodepth_batch", "iodepth_batch_complete"), "1"),
    **dict.fromkeys(("offset", "offset_increment"), "0"),
    "random_distribution": "random",
    "ioengine": "libaio",
}


def _job(options: Mapping[str, str]) -> str:
    parts = []
    for key, value in options.items():
        if PLAIN.get(key) == value or (key == "rwmixread" and "rw" not in options["rw"]):
            continue
        text = value
        if key in {"size", "offset"} and value.isdigit():
            text = format_size(int(value)).replace(" ", "")
        parts.append(f"{key}={text}")
    return " ".join(parts)


def notes(plan: ExperimentPlan) -> list[str]:
    """Returns the lasting effects of a run, one line each."""
    hosts = plan.cells[0].document.get("hosts")  # of a fleet
    lines = [f"on each of {len(hosts)} hosts, at the same time: {', '.join(hosts)}"] if hosts else []
    targets = {cell.document["target"]["name"]: cell.document for cell in plan.cells}
    for document in targets.values():
        target = document["target"]
        if "device" in target:
            has_writes = any(writes(cell.document) for cell in plan.cells if cell.document["target"] == target)
            would = "would be OVERWRITTEN" if has_writes else "would only be read"
            destroy_names = ", ".join(document["destroy"]) or "nothing"
            lines.append(f"{target['device']} {would}; `destroy` names {destroy_names}")
        elif document.get("file_bytes"):
            directory = target.get("filesystem") or target["directory"]
            lines.append(
                f"{format_size(document['file_bytes'])} would be written below {directory} before the first cell"
            )
    settings = {key for cell in plan.cells for key in cell.document["settings"]}
    if settings:
        lines.append(f"{', '.join(sorted(settings))} would be changed during a cell, and restored")
    return [*lines, *_amounts(plan)]


def _amounts(plan: ExperimentPlan) -> list[str]:
    """Returns how long the cells take, and how much their jobs write, as far as it is known."""
    documents = [cell.document for cell in plan.cells]
    lines = duration(documents)
    writing = []
    for document in documents:
        for job in document["jobs"]:
            if job_writes(job["options"]):
                writing.append((document, job["options"]))
    amounts = [_count_write_bytes(document, options) for document, options in writing]
    if total := sum(
        (amount or 0) * ramp_runs(document) for amount, (document, _) in zip(amounts, writing, strict=True)
    ):
        limit_prefix = "at most " if any(document["runtime_ns"] for document, _ in writing) else ""
        lines.append(f"the jobs of all cells would write {limit_prefix}{format_size(total)}")
    if None in amounts:
        lines.append("jobs that end by time would write as much as the device takes until then")
    return lines


def duration(documents: Sequence[FioCellDocument]) -> list[str]:
    """Returns how long the cells take, as far as it is known."""
    limits = [minimum_ns(document) for document in documents if document["runtime_ns"]]
    limits_ios = any("number_ios" in job["options"] for document in documents for job in document["jobs"])
    limit_prefix = "at most " if limits_ios else ""
    subject = "the cells" if len(limits) == len(documents) else f"{len(limits)} of the cells"
    return [f"{subject} would take {limit_prefix}{format_duration(sum(limits))}, without preparation"] if limits else []


def _count_write_bytes(document: FioCellDocument, options: Mapping[str, str]) -> int | None:
    """Returns the bytes that all processes of a job write; None if only time ends it."""
    if (replay := document.get("replay")) is not None:
        return replay["write_bytes"]
    amount = options.get("io_size", options.get("size", ""))
    if options.get("time_based") == "1" or not amount.isdigit():
        return None
    if max_ios := options.get("number_ios"):
        _, sizes = option_values.block_sizes(options.get("bs"), options.get("bssplit"))
        amount = str(min(int(amount), int(max_ios) * max(size for size, _ in sizes)))
    is_mixed = options["rw"].partition(":")[0] in {"rw", "readwrite", "randrw"}
    share = 1 - int(options.get("rwmixread", "50")) / 100 if is_mixed else 1.0
    return int(share * int(amount) * int(options.get("numjobs", "1")))


COLUMNS: Mapping[str, Callable[[Cell], str]] = {
    "stack": lambda cell: place(cell.document),
    "workload": lambda cell: workload(cell.document),
}
