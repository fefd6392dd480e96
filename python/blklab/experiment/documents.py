"""Cells as the runners take them. The simulator's cell is `blklab.documents.cell`, defined in Rust.

Sizes are bytes, times ns. Optional keys are missing in cells of older stores.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from blklab.documents import cell as simulated


class FioJobDocument(TypedDict):
    """A job in fio's own words (fio(1))."""

    name: str
    options: Mapping[str, str]


class FioCellDocument(TypedDict):
    """What every runner with real fio takes."""

    seed: int
    jobs: Sequence[FioJobDocument]
    runtime_ns: int | None
    ramp_ns: int
    interval_ns: int
    settings: Mapping[str, str]
    host: NotRequired["HostRunDocument"]
    command: NotRequired["CommandDocument | None"]
    replay: NotRequired["ReplayDocument"]  # Then the only job reads its log
    file_bytes: NotRequired[int]  # Bytes of the file on a target
    load_ramp: NotRequired["LoadRampDocument"]


def bare_cell(seed: int, job: FioJobDocument) -> FioCellDocument:
    """Returns a cell with only one job, which ends by itself."""
    return {"seed": seed, "jobs": [job], "runtime_ns": None, "ramp_ns": 0, "interval_ns": 0, "settings": {}}


class TargetDocument(TypedDict):
    """Where a stack is on a host; exactly one key is present."""

    name: str
    directory: NotRequired[str]
    filesystem: NotRequired[str]
    device: NotRequired[str]
    cache_bytes: int


class CommandDocument(TypedDict):
    """A program to time."""

    argv: Sequence[str]
    directory: NotRequired[str | None]
    times: NotRequired[int | None]
    figure: NotRequired[str]  # A regular expression with one group: the figure that the program prints


class ReplayDocument(simulated.Replay):
    """A trace that fio replays: the fields of `cell_form.ReplaySource`, and how."""

    path: str
    format: str | None
    device: str
    name: str
    ios: int
    read_share: float
    mean_bytes: int
    write_bytes: int


class SteadyStateDocument(TypedDict):
    """When rounds are steady."""

    rounds: int
    round_ns: int
    limit_ns: int
    range: float
    slope: float


class LoadRampDocument(TypedDict):
    """The rates of a load ramp, and the limit of its 99th percentile."""

    shares: Sequence[float]
    p99_ns: int | None


class HostRunDocument(TypedDict):
    """How a host is prepared."""

    drop_caches: bool
    precondition: str
    steady: SteadyStateDocument | None
    wait_ns: NotRequired[int]


class HostCellDocument(FioCellDocument):
    """What the host takes."""

    target: TargetDocument
    destroy: Sequence[str]


class VirtualDiskDocument(TypedDict):
    """What a virtual disk says of itself."""

    logical_block_size: int
    physical_block_size: int
    discard: bool
    queue_depth: NotRequired[int]  # A power of two
    queue: Mapping[str, str]


def latency_ns(model: simulated.Model) -> int:
    """Returns the latency that a throttled device adds; 0 for a modelled device."""
    return cast(int, model.get("latency_ns", 0)) if model["kind"] == "throttled" else 0


class LabDeviceDocument(simulated.Device):
    """A device, and its virtual disk."""

    virtual: VirtualDiskDocument


class FailureDocument(TypedDict):
    """A member that fails during the load."""

    array: str
    slot: int
    at_ns: int
    re_add_ns: int | None


class LabRunDocument(TypedDict):
    """The guest."""

    scale: float | str
    cpus: int
    memory: int


class FilesystemDocument(TypedDict):
    """What is made on the stack."""

    type: str
    journal: NotRequired[Mapping[str, Any]]  # The node of what the journal is on, if that is not the stack


class LabCellDocument(FioCellDocument):
    """What the lab takes."""

    kernel: str
    lab: LabRunDocument
    devices: Sequence[LabDeviceDocument]
    stack: Mapping[str, Any]
    failures: Sequence[FailureDocument]
    filesystem: FilesystemDocument | None
    room: int
    alone: Sequence[simulated.Job]
    own_kernel: NotRequired[str]


def replay_words(replay: ReplayDocument) -> str:
    """Describes the replay of a trace in one line."""
    how = f"at {replay['speed']:g}× the recorded speed" if replay["timed"] else f"iodepth={replay['iodepth']}"
    return f"replay of {replay['name']}, {replay['ios']:,} I/Os, {how}"


READING = frozenset({"read", "randread"})  # Values of `rw` that do not write
RAMP_SEARCHES = 4  # Further measurements with p99_below; each halves the interval of the searched rate


def job_writes(options: Mapping[str, str]) -> bool:
    """Tells whether a job (fio's options) may write; fio's default is to read."""
    return options.get("rw", options.get("readwrite", "read")).partition(":")[0] not in READING


def writes(document: FioCellDocument) -> bool:
    """Tells whether a cell may write to its target, in a job or before its jobs.

    Everything that claims or guards a device must ask this function.
    """
    prepared = document.get("host", {}).get("precondition", "none") != "none"
    return prepared or any(job_writes(job["options"]) for job in document["jobs"])


def ramp_runs(document: FioCellDocument) -> int:
    """Returns how often the jobs of a cell run: once, or once for each rate of a load ramp."""
    ramp = document.get("load_ramp")
    if not ramp:
        return 1
    return 1 + len(ramp["shares"]) + (0 if ramp["p99_ns"] is None else RAMP_SEARCHES)


def minimum_ns(document: FioCellDocument) -> int:
    """Returns the time that a cell takes at least, ns: runtime, ramp, rounds until steady."""
    steady = document.get("host", {}).get("steady")
    rounds = steady["rounds"] * steady["round_ns"] if steady else 0
    return ramp_runs(document) * ((document["runtime_ns"] or 0) + document["ramp_ns"]) + rounds


def extent(document: FioCellDocument) -> int:
    """Returns the size of the file that a cell's jobs need, bytes; 0 without a file."""
    ends = [0]
    for job in document["jobs"]:
        options = job["options"]
        if str(options.get("size", "")).isdigit():
            spread = int(options.get("offset_increment", 0)) * (int(options["numjobs"]) - 1)
            ends.append(int(options["offset"]) + spread + int(options["size"]))
    return max(ends)


Node = Mapping[str, Any]  # Of the stack's tree: `{"device": number}`, or one kind with its table: `{"md": {…}}`


def nodes_below(table: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    """Yields the parts of an array or a volume with their keys, without missing members."""
    for name in table.get("members", []):
        node = name.get("node", name)  # md's are slots
        if node is not None:
            yield "members", node
    for key in ("origin", "backing", "cache"):
        if key in table:
            yield key, table[key]


def arrays_and_volumes(node: Node) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each array and volume of a stack with its kind, lower ones first."""
    if "device" in node:
        return
    ((kind, table),) = node.items()
    for _, child in nodes_below(table):
        yield from arrays_and_volumes(child)
    yield kind, table
