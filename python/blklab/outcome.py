"""What a run measured (docs/formats.md, "result"): what all runners give, and what only one does.

`documents.outcome` is what the simulator gives, and is an `Outcome` as well. Times are ns, rates a
second; pairs are of reads and of writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from blklab.documents import outcome as simulated

if TYPE_CHECKING:
    from typing_extensions import ReadOnly


class Latency(TypedDict, total=False):
    """Completion latencies; importers have only some of the figures."""

    count: ReadOnly[int]
    mean: ReadOnly[float | None]
    stddev: ReadOnly[float | None]
    min: ReadOnly[float | None]
    max: ReadOnly[float | None]
    p1: ReadOnly[float | None]
    p5: ReadOnly[float | None]
    p10: ReadOnly[float | None]
    p25: ReadOnly[float | None]
    p50: ReadOnly[float | None]
    p75: ReadOnly[float | None]
    p90: ReadOnly[float | None]
    p95: ReadOnly[float | None]
    p99: ReadOnly[float | None]
    p99_9: ReadOnly[float | None]
    p99_99: ReadOnly[float | None]
    relative_error: ReadOnly[float]
    bins: ReadOnly[Sequence[Sequence[int]]]


class Direction(TypedDict):
    """The reads, or the writes."""

    total_ios: ReadOnly[int]
    iops: ReadOnly[float]
    bw_bytes: NotRequired[ReadOnly[float]]
    io_bytes: NotRequired[ReadOnly[int]]
    clat_ns: NotRequired[ReadOnly[Latency]]


class Group(TypedDict):
    """A job."""

    name: ReadOnly[str]
    read: ReadOnly[Direction]
    write: ReadOnly[Direction]


class Device(TypedDict):
    """What a device did, in the words of /proc/diskstats."""

    name: ReadOnly[str]
    ios: ReadOnly[Sequence[int]]
    merges: ReadOnly[Sequence[int]]
    sectors: ReadOnly[Sequence[int]]
    ticks_ns: ReadOnly[Sequence[int]]
    busy_ns: ReadOnly[int]
    flushes: NotRequired[ReadOnly[int | None]]
    flush_ns: NotRequired[ReadOnly[int | None]]
    kind: NotRequired[ReadOnly[str]]
    id: NotRequired[ReadOnly[str | None]]
    leaf: NotRequired[ReadOnly[bool]]
    """Whether nothing is below it; else it is made of others."""
    above: NotRequired[ReadOnly[Sequence[str]]]
    queue_ns: NotRequired[ReadOnly[int]]
    discards: NotRequired[ReadOnly[int | None]]
    work: NotRequired[ReadOnly[simulated.Work]]


class Outcome(TypedDict, total=False):
    """What every runner gives, and every format that is imported."""

    runtime_ns: ReadOnly[int]
    read: ReadOnly[Direction]
    write: ReadOnly[Direction]
    watched_ns: ReadOnly[int]
    """How long devices were watched; missing where it is the runtime."""
    groups: ReadOnly[Sequence[Group]]
    devices: ReadOnly[Sequence[Device]]
    warnings: ReadOnly[Sequence[str]]


class Member(TypedDict):
    """A member of an array in the lab, after the load."""

    name: str
    state: str
    bad_blocks: Sequence[str] | None


class Layer(TypedDict, total=False):
    """What an array or a cache of the lab says of itself after the load, in the kernel's words."""

    name: str
    kind: str
    array_state: str | None
    degraded: str | None
    sync_action: str | None
    sync_completed: str | None
    mismatch_cnt: str | None
    members: Sequence[Member]
    cache_hits: int | None
    cache_misses: int | None
    unused_percent: int | None
    dirty_data: str | None
    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    promotions: int
    demotions: int
    blocks: int
    used_blocks: int
    dirty: int


class Fio(TypedDict):
    """What fio says beside the figures."""

    version: str
    command: Sequence[str]
    usr_cpu: float
    sys_cpu: float
    ctx: int
    options: Mapping[str, Mapping[str, str]]
    disk_util: Sequence[Mapping[str, object]]


class Repeat(TypedDict):
    """One going of a command."""

    wall_ns: int
    user_ns: int
    system_ns: int
    status: int


class Command(TypedDict):
    """A workload that is a command."""

    argv: Sequence[str]
    runs: Sequence[Repeat]


class Steady(TypedDict):
    """Whether a steady state was reached, and the IOPS of each round."""

    reached: bool
    rounds: Sequence[float]


class Setting(TypedDict):
    """A setting that was changed for a run."""

    where: str
    key: str
    found: str
    set: str


class Measured(Outcome, total=False):
    """What only runners with real I/O give."""

    watched_ns: int
    devices: Sequence[Device]
    warnings: list[str]
    arrays: Sequence[Layer]
    fio: Fio
    steady: Steady | None
    command: Command | None
    forced: Sequence[str]
    cpu: Mapping[str, float]
    settings: Sequence[Setting]


class Guest(TypedDict, total=False):
    """What it takes to believe a result of the lab."""

    accel: str
    kernel: str
    scale: float
    limits: Mapping[str, Mapping[str, int]]
    layers: Mapping[str, Mapping[str, object]]
    lsblk: str
    waited: float | None
    traces: str


class InLab(Measured, total=False):
    """What only the lab gives."""

    mdstat: str | None
    lab: Guest


def measured(outcome: Outcome) -> Measured:
    """Returns the same with what measurements have beside it; nothing of a prediction."""
    return cast(Measured, outcome)


def in_lab(outcome: Outcome) -> InLab:
    """Returns the same with what the lab has beside it; nothing elsewhere."""
    return cast(InLab, outcome)


def predicted(outcome: Outcome) -> simulated.Outcome | None:
    """Returns the same as the simulator gave it, None elsewhere."""
    return cast(simulated.Outcome, outcome) if "processor_ns" in outcome else None
