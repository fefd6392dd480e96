"""A device table: the disk, how much of it is used, and its queue."""

from typing import Annotated, Final, Literal, cast

from pydantic import Field, model_validator

from blklab.documents.cell import FlashUse, Model, ShingledSpec
from blklab.spec.fields import EXACT, NUMBER, Count, ExperimentTable, Nanoseconds, PerSecond, Rate, Sectors, Size
from blklab.spec.kernels import Kind, Scheduler
from blklab.units import SECTOR


class DeviceQueue(ExperimentTable):
    """The block layer's queue of a device; defaults follow from the kernel and the device's kind."""

    scheduler: Scheduler | None = None
    nr_requests: Annotated[int, Field(ge=1, le=65_535), NUMBER] | None = None
    queue_depth: Annotated[int, Field(ge=1, le=65_535), NUMBER] | None = None
    max_sectors_kb: Annotated[int, Field(ge=4, le=4_194_303), NUMBER] | None = None
    rotational: bool | None = None
    wbt_lat_usec: Annotated[int, Field(ge=0, le=10**9), NUMBER] | None = None
    write_cache: Literal["write back", "write through"] | None = None
    """As in `queue/write_cache`; by default the model's `write_back` decides."""


Deviation = Annotated[float, Field(ge=0, le=3), NUMBER]


class Uncertainty(ExperimentTable):
    """The standard deviation of measured over predicted IOPS of a device, as a natural logarithm: 0.1 is about 10 %."""

    read: Deviation = 0.0
    write: Deviation = 0.0
    mixed: Deviation = 0.0


class DiskTable(DeviceQueue):
    """What every device has."""

    size: Sectors | None = None  # What the stack uses of it; by default all of it
    start: Sectors = 0  # Where the used part begins on the disk
    count: Annotated[int, Field(ge=1, le=256), NUMBER] = 1
    """Number of equal devices: `x` stands for `x1`, `x2` …, and as a member for all of them."""

    capacity: Annotated[Sectors, Field(gt=0)] | None = None  # The whole disk
    write_back: bool | None = None  # Whether it reports a volatile write cache
    max_hw_sectors_kb: Annotated[int, Field(ge=4, le=4_194_303), NUMBER] | None = None
    """The largest request that it accepts."""

    logical_block_size: Literal[512, 4096] = 512
    physical_block_size: Literal[512, 4096] = 512
    discard: bool = True  # What the lab's virtual disk reports
    source: str = ""  # Source of the figures
    uncertainty: Uncertainty = Uncertainty()  # By the kind of load; nothing for parameters that you state


Page = Annotated[int, Field(ge=SECTOR, le=1 << 30), NUMBER]  # Bytes that flash reads or programs at a time


class _Flash(DiskTable):
    read_command_ns: Nanoseconds
    write_command_ns: Nanoseconds
    read_bandwidth: PerSecond
    write_bandwidth: PerSecond
    read_latency_ns: Nanoseconds
    write_latency_ns: Nanoseconds
    units: Annotated[int, Field(ge=1, le=65_536), NUMBER]
    page_bytes: Page
    page_read_ns: Nanoseconds
    program_bytes: Page
    program_ns: Nanoseconds
    buffer_bytes: Annotated[Size, Field(gt=0)]
    suspend_ns: Nanoseconds
    slc_bytes: Size = 0  # Cache of cells that hold one bit, which `program_ns` is for; 0 is none
    fold_ns: Nanoseconds = 0  # Time to program as much when this cache is full
    over_provisioning: Annotated[float, Field(ge=0.001, le=10), NUMBER] = 0.07
    """Flash that it does not offer, as a share of what it offers."""

    state: Annotated[str, Field(pattern=r"^(fresh|steady|full:([1-9][0-9]?|100)%)$")] = "fresh"
    """What it went through: nothing, random writes to all of it, or to a share, the rest being discarded."""

    @property
    def used(self) -> FlashUse | None:
        """The same as the simulator takes it (crates/sim/src/device/translation.rs)."""
        if self.state == "fresh" or self.capacity is None:
            return None
        fill = 1.0 if self.state == "steady" else int(self.state[5:-1]) / 100
        return {"capacity": self.capacity, "over_provisioning": self.over_provisioning, "fill": fill}

    @model_validator(mode="after")
    def _possible(self) -> "_Flash":
        if self.state != "fresh" and self.capacity is None:
            raise ValueError(f"state {self.state!r} needs the capacity of the disk")
        if self.slc_bytes and self.fold_ns < self.program_ns:
            raise ValueError(f"slc_bytes needs fold_ns, at least program_ns ({self.program_ns}): found {self.fold_ns}")
        return self


class Ssd(_Flash):
    """A flash disk behind SATA or SAS."""

    kind: Literal["ssd"]


class Nvme(_Flash):
    """A flash disk behind PCIe."""

    kind: Literal["nvme"]


class Hdd(DiskTable):
    """A rotating disk."""

    kind: Literal["hdd"]
    capacity: Annotated[Sectors, Field(gt=0)]
    rpm: Count
    outer_track_bytes: Annotated[int, Field(ge=SECTOR, le=EXACT), NUMBER]
    inner_track_bytes: Annotated[int, Field(ge=SECTOR, le=EXACT), NUMBER]
    heads: Count
    seek_track_ns: Nanoseconds
    seek_average_ns: Nanoseconds
    seek_full_ns: Nanoseconds
    command_ns: Nanoseconds
    controller_ns: Nanoseconds = 0  # Time that a controller adds to a command; other commands are served meanwhile
    order: Literal["rotation", "seek", "arrival"] = "rotation"  # The order in which it executes queued commands
    bandwidth: PerSecond
    cache_bytes: Size
    read_streams: Count
    read_ahead_bytes: Size
    volatile_cache: bool = True  # Whether writes are acknowledged from the volatile cache
    write_cache_requests: Count
    flush_ns: Nanoseconds
    destage_ns: Nanoseconds
    media_cache_bytes: Size = 0  # Where a shingled disk collects writes; 0: tracks do not overlap
    media_cache_extents: Annotated[int, Field(ge=0, le=10**7), NUMBER] = 0  # What its map can hold
    media_cache_fill: Annotated[str, Field(pattern=r"^([1-9]?[0-9]|100)%$")] = "0%"
    """How much of the map earlier writes use, which went to random places of the disk."""

    band_bytes: Size = 0  # What the disk rewrites as a whole, and how long that takes
    band_clean_ns: Nanoseconds = 0

    @property
    def shingled(self) -> ShingledSpec | None:
        """The same as the simulator takes it (crates/sim/src/device/shingled.rs)."""
        if not self.media_cache_bytes:
            return None
        return {
            "media_cache_bytes": self.media_cache_bytes,
            "media_cache_extents": self.media_cache_extents,
            "media_cache_fill": int(self.media_cache_fill[:-1]) / 100,
            "band_bytes": self.band_bytes,
            "band_clean_ns": self.band_clean_ns,
        }

    @model_validator(mode="after")
    def _possible(self) -> "Hdd":
        missing = [key for key in _OF_SHINGLED if key != "media_cache_fill" and not getattr(self, key)]
        if self.media_cache_bytes and missing:
            raise ValueError(f"media_cache_bytes needs {', '.join(missing)}")
        if not self.media_cache_bytes and self.media_cache_fill != "0%":
            raise ValueError(f"media_cache_fill {self.media_cache_fill!r} needs media_cache_bytes: the disk has none")
        if self.media_cache_bytes >= self.capacity:
            raise ValueError(f"media_cache_bytes must be less than the capacity, {self.capacity}")
        return self


class Throttled(DiskTable):
    """A virtual disk with QEMU's throttling and nothing else."""

    kind: Literal["throttled"]
    iops_total: Rate = 0
    iops_read: Rate = 0
    iops_write: Rate = 0
    bps_total: Rate = 0
    bps_read: Rate = 0
    bps_write: Rate = 0
    iops_burst: Rate = 0  # Of both directions, as credits allow it after an idle time
    bps_burst: Rate = 0
    burst_seconds: Annotated[int, Field(ge=0, le=86_400), NUMBER] = 0  # Length of such a burst
    latency_ns: Nanoseconds = 0

    @model_validator(mode="after")
    def _possible_burst(self) -> "Throttled":
        for unit in ("iops", "bps"):
            burst, rate = getattr(self, f"{unit}_burst"), getattr(self, f"{unit}_total")
            if burst and not 0 < rate <= burst:
                raise ValueError(f"{unit}_burst of {burst:g} needs {unit}_total, at most as large: found {rate:g}")
            if burst and not self.burst_seconds:
                raise ValueError(f"{unit}_burst needs burst_seconds")
        return self


Device = Annotated[Ssd | Nvme | Hdd | Throttled, Field(discriminator="kind")]  # A device with its model's parameters
KINDS: Final[dict[str, type[DiskTable]]] = {"ssd": Ssd, "nvme": Nvme, "hdd": Hdd, "throttled": Throttled}

_OF_USED: Final = {"used", "slc_bytes", "fold_ns", "shingled"}
_OF_SHINGLED: Final = ("media_cache_bytes", "media_cache_extents", "media_cache_fill", "band_bytes", "band_clean_ns")

_RENAMED: Final = {"volatile_cache": "write_cache"}
"""Parameters with another name in a cell: in a file, `write_cache` is a key of the queue."""


def model_document(device: DiskTable) -> Model:
    """Returns the device's model as the simulator takes it (crates/sim/src/cell, `Model`)."""
    shared = DiskTable.model_fields.keys() - {"capacity"}
    document = device.model_dump(exclude=set(shared))
    if not isinstance(device, Hdd):
        document.pop("capacity", None)
    if isinstance(device, _Flash):
        del document["state"], document["over_provisioning"]
        document["used"] = device.used
    if isinstance(device, Hdd):
        document = {key: value for key, value in document.items() if key not in _OF_SHINGLED}
        document["shingled"] = device.shingled
    # A new disk without such a cache has the document that it always had, and so the cell its key.
    document = {key: value for key, value in document.items() if value or key not in _OF_USED}
    kind = {"kind": document.pop("kind")}
    renamed = {_RENAMED.get(key, key): value for key, value in document.items()}
    return cast(Model, kind | renamed)


def kind_of(device: DiskTable) -> Kind:
    """Returns the device's kind."""
    kind: Kind = getattr(device, "kind")  # noqa: B009  # every subclass declares it, with its own type
    return kind
