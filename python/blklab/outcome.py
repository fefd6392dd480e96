"""The result of a run, of any runner or imported format (docs/reference/formats.md).

Times are ns, rates per second; pairs are of reads and writes. What a runner does not know has its default, and is
missing in documents. `documents.outcome` is what the simulator writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from blklab.documents import outcome as simulated

if TYPE_CHECKING:
    import msgspec

VolumeReport = Mapping[str, Any]
"""A report on an array or a cache: the simulator's, or the kernel's words after a load in the lab."""


@dataclass(slots=True)
class LatencyResult:
    """Latencies of `count` I/Os; importers know only some of these figures."""

    count: int = 0
    mean: float | None = None
    stddev: float | None = None
    min: int | float | None = None
    max: int | float | None = None
    p1: int | float | None = None
    p5: int | float | None = None
    p10: int | float | None = None
    p25: int | float | None = None
    p50: int | float | None = None
    p75: int | float | None = None
    p90: int | float | None = None
    p95: int | float | None = None
    p99: int | float | None = None
    p99_9: int | float | None = None
    p99_99: int | float | None = None
    relative_error: float = 0.0  # Of the quantiles
    bins: Sequence[Sequence[int]] = ()  # Pairs of a latency and the number of I/Os


@dataclass(slots=True)
class DirectionResult:
    """The reads, or the writes."""

    total_ios: int = 0
    io_bytes: int = 0
    iops: float = 0.0
    bw_bytes: float = 0.0  # A second
    clat_ns: LatencyResult = field(default_factory=LatencyResult)


@dataclass(slots=True)
class SyncResult:
    """The fsyncs and fdatasyncs."""

    total_ios: int = 0
    iops: float = 0.0
    lat_ns: LatencyResult = field(default_factory=LatencyResult)


@dataclass(slots=True)
class GroupResult:
    """A job, with all its clones."""

    name: str
    read: DirectionResult = field(default_factory=DirectionResult)
    write: DirectionResult = field(default_factory=DirectionResult)
    clones: Sequence[float] = ()  # The IOPS of each clone; empty for one job, and if they are unknown
    clone_p99_ns: Sequence[float] = ()
    """The 99th percentile of each clone's latencies, of the slower direction; empty if one is unknown."""

    @property
    def iops(self) -> float:
        return self.read.iops + self.write.iops


@dataclass(slots=True)
class DeviceResult:
    """A device and what it did, in the words of /proc/diskstats; None or empty if unknown."""

    name: str
    ios: Sequence[int] = ()
    merges: Sequence[int] = ()
    sectors: Sequence[int] = ()  # Of 512 bytes
    ticks_ns: Sequence[int] = ()  # The times of all I/Os added up
    busy_ns: int | None = None
    queue_ns: int | None = None  # Requests in flight multiplied by time
    discards: int | None = None
    flushes: int | None = None
    flush_ns: int | None = None
    kind: str | None = None  # `disk`, `md`, `dm` …
    id: str | None = None  # Its stable name
    leaf: bool | None = None  # Whether no device is below it; None if only such devices are known
    above: Sequence[str] = ()  # The devices directly above it
    tag_waits: int | None = None  # This and what follows: only in simulations
    throttle_waits: int | None = None
    controller_ns: int | None = None  # Time in which its controller worked for it
    held_ns: int | None = None  # Time for which its controller held back completions
    cache_waits: int | None = None  # Writes that waited for its controller's cache
    work: Mapping[str, Any] | None = None


@dataclass
class LoadStep:
    """A measurement at one rate."""

    iops: float
    latency_ns: Mapping[str, Mapping[str, float]]
    """`mean`, `p50`, `p95`, `p99`, `p99_9` of `read` and `write`, as far as there are any."""
    offered_iops: float | None = None  # None without a limit


@dataclass
class LoadRamp:
    """Latency against offered load."""

    steps: Sequence[LoadStep]
    p99_limit_ns: int | None = None
    best_iops: float | None = None
    """The highest IOPS whose 99th percentile is below the limit; None if there is none."""


NOMINAL = 0.9  # The share of measurements that are expected inside an interval
NORMAL = 1.645  # Half of the width of an interval of `NOMINAL`, in standard deviations of a normal distribution
NOT_KNOWN = 12.0
"""The ratio of an interval's bounds above which blklab does not know the figure, and prints no number."""

OTHER_KERNEL = 0.03
"""The deviation of the ratio of two predictions that differ only in the kernel: a little more than the root mean square
of the same cells of two kernels (0.026 in 155 pairs), so most of the error is common to them."""
LEAST_SHOWN = 0.001  # Width of an interval of hits from which people see it
CROWDED = 0.7  # The share of the time from which on a lock, a thread of md or the cores are the limit


def next_value(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean of values, and half of the interval of `NOMINAL` for a further one (Student's t); 0 of one."""
    if (count := len(values)) < 2:
        return values[0], 0.0
    from statistics import fmean, stdev

    from scipy.special import stdtrit

    quantile = float(stdtrit(count - 1, (1 + NOMINAL) / 2))
    return fmean(values), quantile * stdev(values) * math.sqrt(1 + 1 / count)


@dataclass
class PredictionInterval:
    """The interval that holds nine of ten measurements, as factors of the predicted figures: lower and upper."""

    iops: tuple[float, float]  # Of reads, of writes and of both
    p99: tuple[float, float]
    shared: float = 0.0
    """The part of the logarithm's deviation that predictions for other kernels and hosts have as well: they differ by
    the rest."""
    processors: tuple[float, float] = (0.0, 0.0)
    """The parts of the deviation that processors have which were not measured: if they are slow, and if they are fast.
    Predictions for the same host have this error together."""

    models: Mapping[str, float] = field(default_factory=dict)
    """The parts of the deviation that the models of devices have, by a digest of the model. Their sum counts.
    Predictions with the same model have its error together."""

    hits: Mapping[str, tuple[float, float]] | None = None
    """Shares of hits, 0 to 1, no factors: of each cache by its name; None without caches, or with one seed."""

    states: tuple[float, float] | None = None
    """IOPS of reads and writes together, no factors: some seeds settle at the lower, others at the higher; None if all
    settle at the same."""

    @property
    def is_known(self) -> bool:
        """Whether the interval is so narrow that its figure is known."""
        low, high = self.iops
        return self.states is not None or high <= NOT_KNOWN * low


@dataclass
class FioFacts:
    """Further facts of fio."""

    version: str = "unknown"
    command: Sequence[str] = ()
    usr_cpu: float = 0.0  # Per cent of a CPU
    sys_cpu: float = 0.0
    ctx: int = 0
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # By job
    disk_util: Sequence[Mapping[str, Any]] = ()


@dataclass
class CommandRepeat:
    """One run of a command."""

    wall_ns: int
    user_ns: int
    system_ns: int
    status: int
    figure: float | None = None  # That the program printed itself, such as its transactions a second


@dataclass
class CommandResult:
    """A workload that is a command."""

    argv: Sequence[str]
    runs: Sequence[CommandRepeat]


@dataclass
class SteadyStateResult:
    """Whether a steady state was reached, and the IOPS of each round."""

    reached: bool
    rounds: Sequence[float]
    range: float | None = None  # Shares of the mean of the last rounds
    slope: float | None = None


@dataclass(frozen=True)
class ChangedSetting:
    """A setting's value before the run and during it."""

    where: str  # A device's name, or `vm`
    key: str
    original: str
    set: str


@dataclass
class ClockOffset:
    """How far a host's clock is ahead of this one's: half of the round trip is the error."""

    offset_ns: int
    error_ns: int


@dataclass
class HostResult:
    """The part of a host of a fleet."""

    name: str
    failure: str | None = None  # Why it has no figures
    clock: ClockOffset | None = None
    read: DirectionResult | None = None
    write: DirectionResult | None = None
    devices: Sequence[DeviceResult] = ()


@dataclass
class IoCost:
    """Times of 4 KiB reads, one at a time, of a disk without limits in a guest."""

    latency_ns: int  # From the block layer's request to its completion, one at a time
    submit_ns: int  # fio's time to submit one (slat)
    reap_ns: int  # Its time that is neither submission nor waiting (clat)
    wake_ns: int  # From the completion of one to the request of the next


@dataclass
class GuestFacts:
    """What is needed to judge a result of the lab."""

    accel: str  # `kvm` or `tcg`
    kernel: str
    scale: float = 1  # The divisor of all rates
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # Of each disk, after division
    io_cost: IoCost | None = None
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lsblk: str = ""
    waited: float | None = None  # The share of the time in which a task of this machine waited for a processor
    traces: str | None = None  # The directory


@dataclass(slots=True)
class Outcome:
    """What every runner returns, and every imported format."""

    runtime_ns: int = 0
    read: DirectionResult = field(default_factory=DirectionResult)
    write: DirectionResult = field(default_factory=DirectionResult)
    sync: SyncResult | None = None
    watched_ns: int | None = None  # How long devices were watched; None if that is the runtime
    groups: Sequence[GroupResult] = ()
    devices: Sequence[DeviceResult] = ()
    targets: Sequence[VolumeReport] = ()
    warnings: Sequence[str] = ()
    load_ramp: LoadRamp | None = None
    interval: PredictionInterval | None = None  # Only of predictions
    series: Sequence[simulated.Point] = ()  # The jobs' I/Os over time; the store keeps them separately
    processor_ns: int | None = None  # This and the next three: only in simulations
    cores_busy: float | None = None  # Of 1; None if every task had its own core
    simulated_ios: int | None = None
    look_ups: Sequence[Sequence[int]] = ()
    fio: FioFacts | None = None
    steady: SteadyStateResult | None = None
    command: CommandResult | None = None
    forced: Sequence[str] = ()  # The conditions that were overridden
    cpu: Mapping[str, float] | None = None  # Shares of all CPUs
    settings: Sequence[ChangedSetting] | None = None  # None if the runner changes none
    hosts: Sequence[HostResult] = ()  # Only of a fleet
    mdstat: str | None = None  # This and the next: only in the lab
    lab: GuestFacts | None = None
    blkparse: Mapping[str, Any] | None = None  # Of runs that version 0.2.0 imported from blkparse

    @property
    def observed_ns(self) -> int:
        """The time to which the counts of devices refer; in a simulation, it includes the ramp. At least 1."""
        return max(1, self.watched_ns or self.runtime_ns)

    @property
    def is_known(self) -> bool:
        """Whether its figures are known: measured, or predicted with an interval that is not too wide."""
        return self.interval is None or self.interval.is_known

    @property
    def job_options(self) -> Mapping[str, Mapping[str, str]]:
        """Fio's options of each job; empty if they are unknown."""
        return {} if self.fio is None else self.fio.options

    def direction(self, name: str) -> DirectionResult:
        """Returns `read` or `write`."""
        return self.read if name == "read" else self.write

    def by_job(self) -> dict[str, Outcome]:
        """Returns the figures of each job alone, by name, without what is known of all jobs together only.

        Those of a prediction have its interval.
        """
        names = ("runtime_ns", "warnings", "forced", "settings", "lab", "interval", "simulated_ios")
        common_fields = {key: getattr(self, key) for key in names}
        return {
            group.name: Outcome(read=group.read, write=group.write, groups=[group], **common_fields)
            for group in self.groups
        }

    def latency(self, kind: str) -> LatencyResult:
        """Returns the latencies of `read`, `write` or `sync`; empty if there are none."""
        if kind == "sync":
            return LatencyResult() if self.sync is None else self.sync.lat_ns
        return self.direction(kind).clat_ns

    def as_document(self) -> dict[str, Any]:
        """Returns the result as it is stored, without what is unknown."""
        return dict(_plain(self))

    def as_json(self) -> dict[str, Any]:
        """Returns the result for `--json`: that which is stored, and whether the figures of a prediction are known."""
        document = self.as_document()
        if self.interval is not None:
            document["interval"] = {**document["interval"], "known": self.is_known}
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Outcome:
        """Returns the result that a document has; what it lacks has its default.

        Raises ValueError for a document of other types.
        """
        import msgspec

        figures = _drop_nulls(document)
        for direction in ("read", "write", "sync"):
            if direction in figures:
                figures[direction] = _drop_nulls(figures[direction])
        if "devices" in figures:
            figures["devices"] = [_drop_nulls(device) for device in figures["devices"]]
        with _DECODING:
            return msgspec.convert(figures, cls)


_DECODING = Lock()
"""msgspec 0.22 crashes if two threads look at the same class for the first time."""


@cache
def _json_decoder() -> msgspec.json.Decoder[Outcome]:
    import msgspec

    return msgspec.json.Decoder(Outcome)


def parse_outcome(text: str) -> Outcome:
    """Returns the result of a stored document: as `Outcome.from_document`, ten times faster.

    A list or a comparison reads thousands of them. Documents of older versions have other names. Raises ValueError.
    """
    import msgspec

    if not any(name in text for name in _OLD_NAMES):
        with _DECODING, suppress(msgspec.ValidationError):  # Some figure is null, for example
            return _json_decoder().decode(text)
    document = json.loads(text)
    if "arrays" in document:
        document["targets"] = [{"kind": "md", **array} for array in document.pop("arrays")]
    for setting in document.get("settings") or []:
        if "found" in setting:
            setting["original"] = setting.pop("found")
    return Outcome.from_document(document)


_OLD_NAMES = ('"arrays"', '"found"')
"""Keys of older versions: `arrays` without a kind are now `targets`; `found` of a changed setting is now `original`."""


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:  # Most values are, and an import has a million of them
        return value
    if is_dataclass(value) and not isinstance(value, type):
        inner_values = {part.name: getattr(value, part.name) for part in fields(value)}
        return {name: _plain(inner) for name, inner in inner_values.items() if inner is not None and inner != ()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


_SCALARS = frozenset({int, float, str, bool, type(None)})


def _drop_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figures that are not null."""
    return {key: value for key, value in document.items() if value is not None}


def count_lookups(target: VolumeReport) -> tuple[int, int]:
    """Returns the hits and misses of a cache; (0, 0) for other targets.

    Of bcache, they are those of reads that did not bypass it. Of dm-writecache, a write that it takes is a hit.
    """
    count = {key: value or 0 for key, value in target.items()}
    if target["kind"] == "writecache":
        hits = count["read_hits"] + count["writes"] - count["writes_around"]
        return hits, count["reads"] + count["writes"] - hits
    hits = count.get("read_hits", 0) + count.get("write_hits", 0) + count.get("cache_hits", 0)
    misses = count.get("read_misses", 0) + count.get("write_misses", 0) + count.get("cache_misses", 0)
    return hits, misses


def device_kind(name: str) -> str:
    """Returns `kind` of a device of which only the kernel's name is known."""
    kinds_by_prefix = {"md": "md", "dm-": "dm", "loop": "loop", "bcache": "bcache"}
    return next((kind for start, kind in kinds_by_prefix.items() if name.startswith(start)), "disk")


MOST_NAMES = 4  # Devices that a name of a run has; of more it has the number, the first and the last


def target_devices(outcome: Outcome) -> str:
    """Returns the devices of a run: arrays without their members, otherwise its disks. The name of many is short."""
    stacked_names = [device.name for device in outcome.devices if device.leaf is False]
    names = stacked_names or [device.name for device in outcome.devices]
    if len(names) > MOST_NAMES:
        ordered_names = sorted(names, key=lambda name: (len(name), name))  # nvme2n1 before nvme10n1
        kind = "devices" if stacked_names else "disks"
        return f"{len(names)} {kind}: {ordered_names[0]} to {ordered_names[-1]}"
    return "+".join(names)
