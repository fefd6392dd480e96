"""Cells as the runners take them. The simulator's cell is `blklab.documents.cell`, defined in Rust.

Sizes are bytes, times ns. Optional keys are missing in cells of older stores.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from blklab.documents import cell as simulated

SimCell = simulated.Cell


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


class FleetCellDocument(HostCellDocument):
    """What a fleet takes; `destroy` has `HOST:ID`."""

    hosts: Mapping[str, str]  # What ssh calls each host, by name
    python: str


class VirtualDiskDocument(TypedDict):
    """What a virtual disk says of itself."""

    logical_block_size: int
    physical_block_size: int
    discard: bool
    queue_depth: NotRequired[int]  # A power of two
    queue: Mapping[str, str]


def latency_ns(model: simulated.Model) -> int:
    """Returns the latency that a throttled device adds; 0 for a modelled device."""
    return model.get("latency_ns", 0) if model["kind"] == "throttled" else 0


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


def as_simulated(document: Mapping[str, Any]) -> SimCell:
    """Returns the document of a cell that was made for the simulator."""
    return cast(SimCell, document)


def as_host(document: Mapping[str, Any]) -> HostCellDocument:
    """Returns the document of a cell that was made for a host."""
    return cast(HostCellDocument, document)


def as_fleet(document: Mapping[str, object]) -> FleetCellDocument:
    """Returns the document of a cell that was made for a fleet."""
    return cast(FleetCellDocument, document)


def as_lab(document: Mapping[str, Any]) -> LabCellDocument:
    """Returns the document of a cell that was made for the lab."""
    return cast(LabCellDocument, document)
