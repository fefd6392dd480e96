"""The result of a run: figures of all runners, and of single ones (docs/reference/formats.md).

`documents.outcome` is the simulator's, and has all of `Outcome`. Times are ns, rates per second;
pairs are of reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, cast

from blklab.documents import outcome as simulated


class LatencyResult(TypedDict, total=False):
    """Completion latencies; importers have only some of these figures."""

    count: int
    mean: float | None
    stddev: float | None
    min: float | None
    max: float | None
    p1: float | None
    p5: float | None
    p10: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    p99_99: float | None
    relative_error: float
    bins: Sequence[Sequence[int]]


class DirectionResult(TypedDict, total=False):
    """The reads, or the writes."""

    total_ios: int
    iops: float
    bw_bytes: float
    io_bytes: int
    clat_ns: LatencyResult


class SyncResult(TypedDict, total=False):
    """The fsyncs and fdatasyncs."""

    total_ios: int
    iops: float
    lat_ns: LatencyResult


class GroupResult(TypedDict):
    """A job."""

    name: str
    read: DirectionResult
    write: DirectionResult


class DeviceCounts(TypedDict):
    """A device's activity, in the words of /proc/diskstats; None if unknown."""

    ios: Sequence[int]
    merges: Sequence[int] | None
    sectors: Sequence[int] | None
    ticks_ns: Sequence[int] | None
    busy_ns: int | None
    flushes: int | None
    flush_ns: int | None
    queue_ns: NotRequired[int | None]
    discards: NotRequired[int | None]


class DeviceResult(DeviceCounts):
    """A device and what it did."""

    name: str
    kind: NotRequired[str]
    id: NotRequired[str | None]
    leaf: NotRequired[bool]  # Whether no device is below it
    above: NotRequired[Sequence[str]]


class LoadStep(TypedDict):
    """A measurement at one rate."""

    offered_iops: float | None  # None without a limit
    iops: float
    latency_ns: Mapping[str, Mapping[str, float]]
    """`mean`, `p50`, `p95`, `p99`, `p99_9` of `read` and `write`, as far as there are any."""


class LoadRamp(TypedDict):
    """Latency against offered load."""

    steps: Sequence[LoadStep]
    p99_limit_ns: int | None
    best_iops: float | None  # The highest IOPS whose 99th percentile is below the limit; None if there is none


class PredictionInterval(TypedDict):
    """The interval that holds nine of ten measurements, as factors of the predicted figures: lower and upper."""

    iops: tuple[float, float]  # Of reads, of writes and of both
    p99: tuple[float, float]


class Outcome(TypedDict, total=False):
    """What every runner returns, and every imported format."""

    runtime_ns: int
    read: DirectionResult
    write: DirectionResult
    sync: SyncResult
    watched_ns: int  # How long devices were watched; missing if that is the runtime
    groups: Sequence[GroupResult]
    devices: Sequence[DeviceResult]
    warnings: list[str]
    load_ramp: LoadRamp
    interval: PredictionInterval  # Only of predictions
    series: list[simulated.Point]  # The jobs' I/Os over time; the store keeps them separately


class MemberResult(TypedDict):
    """A member of an array in the lab, after the load."""

    name: str
    state: str | None
    bad_blocks: Sequence[str] | None


class VolumeReport(TypedDict, total=False):
    """A report on an array or a cache of the lab after the load, in the kernel's words."""

    name: str
    kind: str
    array_state: str | None
    degraded: str | None
    sync_action: str | None
    sync_completed: str | None
    mismatch_cnt: str | None
    members: Sequence[MemberResult]
    cache_hits: int | None
    cache_misses: int | None
    unused_percent: int | None
    dirty_data: str | None
    clean_percent: int | None
    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    promotions: int
    demotions: int
    blocks: int
    used_blocks: int
    dirty: int


class FioFacts(TypedDict):
    """Further facts of fio."""

    version: str
    command: Sequence[str]
    usr_cpu: float
    sys_cpu: float
    ctx: int
    options: Mapping[str, Mapping[str, str]]
    disk_util: Sequence[Mapping[str, object]]


class CommandRepeat(TypedDict):
    """One run of a command."""

    wall_ns: int
    user_ns: int
    system_ns: int
    status: int


class CommandResult(TypedDict):
    """A workload that is a command."""

    argv: Sequence[str]
    runs: Sequence[CommandRepeat]


class SteadyStateResult(TypedDict):
    """Whether a steady state was reached, and the IOPS of each round."""

    reached: bool
    rounds: Sequence[float]
    range: float | None
    slope: float | None


class ChangedSetting(TypedDict):
    """A setting that was changed for a run."""

    where: str
    key: str
    original: str
    set: str


class MeasuredResult(Outcome, total=False):
    """Only from runners with real I/O."""

    targets: Sequence[VolumeReport]
    fio: FioFacts
    steady: SteadyStateResult | None
    command: CommandResult | None
    forced: Sequence[str]
    cpu: Mapping[str, float] | None
    settings: Sequence[ChangedSetting]


class ClockOffset(TypedDict):
    """How far a host's clock is ahead of this one's: half of the round trip is the error."""

    offset_ns: int
    error_ns: int


class HostResult(TypedDict):
    """The part of a host of a fleet."""

    name: str
    failure: str | None  # Why it has no figures
    clock: ClockOffset | None
    read: NotRequired[DirectionResult]
    write: NotRequired[DirectionResult]
    devices: NotRequired[Sequence[DeviceResult]]


class FleetResult(MeasuredResult, total=False):
    """Only from fleets."""

    hosts: Sequence[HostResult]


class IoCost(TypedDict):
    """Times of 4 KiB reads, one at a time, of a disk without limits in a guest."""

    latency_ns: int  # From the block layer's request to its completion, one at a time
    submit_ns: int  # fio's time to submit one (slat)
    reap_ns: int  # Its time that is neither submission nor waiting (clat)
    wake_ns: int  # From the completion of one to the request of the next


class GuestFacts(TypedDict, total=False):
    """What is needed to judge a result of the lab."""

    accel: str
    kernel: str
    scale: float
    limits: Mapping[str, Mapping[str, int]]
    io_cost: IoCost
    layers: Mapping[str, Mapping[str, object]]
    lsblk: str
    waited: float | None
    traces: str


class LabResult(MeasuredResult, total=False):
    """Only from the lab."""

    mdstat: str | None
    lab: GuestFacts


def latency_result(outcome: Outcome, kind: str) -> LatencyResult:
    """Returns the latencies of `read`, `write` or `sync`; empty if the outcome has none."""
    if kind == "sync":
        return outcome.get("sync", {}).get("lat_ns") or {}
    direction = outcome.get("read") if kind == "read" else outcome.get("write")
    return (direction or {}).get("clat_ns") or {}


def measured(outcome: Outcome) -> MeasuredResult:
    """Returns the keys that only measurements have; empty for a prediction."""
    return cast(MeasuredResult, outcome)


def in_lab(outcome: Outcome) -> LabResult:
    """Returns the keys that only the lab has; empty elsewhere."""
    return cast(LabResult, outcome)


def on_fleet(outcome: Outcome) -> FleetResult:
    """Returns the keys that only fleets have; empty elsewhere."""
    return cast(FleetResult, outcome)


def predicted(outcome: Outcome) -> simulated.Outcome | None:
    """Returns the outcome as the simulator gave it, None for other runners."""
    return cast(simulated.Outcome, outcome) if "processor_ns" in outcome else None


def device_kind(name: str) -> str:
    """Returns `kind` of a device of which only the kernel's name is known."""
    stacked = {"md": "md", "dm-": "dm", "loop": "loop", "bcache": "bcache"}
    return next((kind for start, kind in stacked.items() if name.startswith(start)), "disk")


def target_devices(outcome: Outcome) -> str:
    """Returns the devices of a run: arrays without their members, otherwise its disks."""
    devices = outcome.get("devices") or []
    stacked = [device["name"] for device in devices if not device.get("leaf", True)]
    return "+".join(stacked or [device["name"] for device in devices])
