"""Describes the simulator's cells in the words of mdadm and fio."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from blklab.documents.cell import Cell as SimCell
from blklab.documents.cell import Job, Member, Node
from blklab.experiment import documents
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.units import fio_size, format_duration, format_size


def stack(document: SimCell) -> str:
    """Returns a cell's stack in one line: `md RAID-10 n2 512K [nvme ssd]`."""
    return _node(document["stack"], [device["name"] for device in document["devices"]])


def _node(node: Node | None, names: Sequence[str]) -> str:
    if node is None:
        return "missing"
    if "device" in node:
        return str(names[node["device"]])
    if "md" not in node:
        return _volume(node, names)
    md = node["md"]
    level = str(md["level"])
    parts = ["md", "linear" if level == "linear" else f"RAID-{level.removeprefix('raid')}"]
    if level == "raid10":
        if md["far"] == 1:
            parts.append(f"n{md['near']}")
        elif md["offset"]:
            parts.append(f"o{md['far']}")
        else:
            parts.append(f"f{md['far']}")
    if md["chunk"]:
        parts.append(fio_size(md["chunk"]).upper())
    if md["bitmap"]:
        parts.append("lockless bitmap" if md.get("lockless") else "bitmap")
    if md["sync"] != "idle":
        parts.append(md["sync"])
    members = " ".join(_member(member, names) for member in md["members"])
    return f"{' '.join(parts)} [{members}]"


def _volume(node: Node, names: Sequence[str]) -> str:
    """Returns a stack with a `kind`, its times, and its parts."""
    ((kind, table),) = cast(documents.Node, node).items()
    times = [
        f"{key.removesuffix('_ns')}={format_duration(value).replace(' ', '')}"
        for key, value in table.items()
        if key.endswith("_ns") and value
    ]
    below = " ".join(_node(cast(Node, part), names) for _, part in documents.nodes_below(table))
    return f"{' '.join([kind, *times])} [{below}]"


def _member(member: Member, names: Sequence[str]) -> str:
    marks = []
    if member["write_mostly"]:
        marks.append("write-mostly")
    if member["rebuilding"]:
        marks.append("rebuilding")
    drawn = _node(member["node"], names)
    return f"{drawn}({','.join(marks)})" if marks else drawn


def workload(cell: Cell) -> str:
    """Returns a cell's jobs in fio's options, or the trace that it replays."""
    document = cell.document
    jobs = document["jobs"]
    parts = [f"[{job['name']}] {describe_job(job)}" if len(jobs) > 1 else describe_job(job) for job in jobs]
    if cell.replay is not None:
        parts = [documents.replay_words(cast(documents.ReplayDocument, {**asdict(cell.replay), **document["replay"]}))]
    line = " + ".join(parts)
    if document["runtime_ns"] is not None:
        line += f" runtime={document['runtime_ns'] / 1e9:g}s"
    return line


def describe_job(job: Job) -> str:
    """Returns a simulated job in fio's options, separated by blanks."""
    reads = job["read_share"] > 0
    writes = job["read_share"] < 1
    directions = "read" if reads else "write"
    if reads and writes:
        directions = "rw"
    order = "rand" if job["random"] else ""
    parts = [f"rw={order}{directions}"]
    if reads and writes:
        parts.append(f"rwmixread={100 * job['read_share']:g}")
    parts.append(_sizes(job, reads=reads, writes=writes))
    distribution = job["distribution"]
    kind: str = distribution["kind"]
    parameter = distribution.get("theta", distribution.get("h", distribution.get("deviation")))
    if isinstance(parameter, float):
        kind += f":{parameter:g}"
    shares = [share for share in (job["read_share"], 1 - job["read_share"]) if share]
    rates = ",".join(f"{job['rate_iops'] * share:.6g}" for share in shares)
    optional = (
        (job["iodepth"], f"iodepth={job['iodepth']}"),
        (job["numjobs"] != 1, f"numjobs={job['numjobs']}"),
        (kind != "random", f"random_distribution={kind}"),
        (True, f"size={fio_size(job['size'])}"),
        (job["offset"], f"offset={fio_size(job['offset'])}"),
        (job["fsync"], f"fsync={job['fsync']}"),
        (job["fsync_share"], f"fsync_share={job['fsync_share']:g}"),
        (job["thinktime_ns"], f"thinktime={job['thinktime_ns'] / 1000:g}us"),
        (job["rate_iops"], f"rate_iops={rates}"),
    )
    return " ".join([*parts, *(text for is_shown, text in optional if is_shown)])


def _sizes(job: Job, *, reads: bool, writes: bool) -> str:
    size_lists = [sizes for sizes, is_used in ((job["read_sizes"], reads), (job["write_sizes"], writes)) if is_used]
    if len(size_lists) == 2 and size_lists[0] == size_lists[1]:
        size_lists.pop()
    if all(len(sizes) == 1 for sizes in size_lists):
        return "bs=" + ",".join(fio_size(sizes[0][0]) for sizes in size_lists)
    splits = []
    for sizes in size_lists:
        splits.append(":".join(f"{fio_size(size)}/{100 * weight:.4g}" for size, weight in sizes))
    return f"bssplit={','.join(splits)}"


def notes(_plan: ExperimentPlan) -> list[str]:
    return []


COLUMNS: Mapping[str, Callable[[Cell], str]] = {
    "stack": lambda cell: stack(cell.document),
    "capacity": lambda cell: format_size(cell.capacity),
    "workload": workload,
    "kernel": lambda cell: str(cell.document["kernel"]),
}
