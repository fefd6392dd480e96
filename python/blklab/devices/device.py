"""A device table: the disk, how much of it is used, and its queue."""

from math import hypot
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from blklab.devices.device_parameters import FlashSpec, FlashUse, HddSpec, ShingledSpec, ThrottledSpec
from blklab.devices.links import link_bandwidth
from blklab.documents.cell import Model
from blklab.kernels import Kind, Scheduler
from blklab.toml_files.fields import CONDITIONS, NUMBER, ExperimentTable, Percent, PerSecond, Rate, Sectors, fill_share


class QueueKeys(ExperimentTable):
    """Keys of the block layer's queue that an experiment may set for all devices."""

    scheduler: Scheduler | None = None
    nr_requests: Annotated[int, Field(ge=1, le=65_535), NUMBER] | None = None
    queue_depth: Annotated[int, Field(ge=1, le=65_535), NUMBER] | None = None
    max_sectors_kb: Annotated[int, Field(ge=4, le=4_194_303), NUMBER] | None = None
    rotational: bool | None = None


class DeviceQueue(QueueKeys):
    """The block layer's queue of a device; defaults follow from the kernel and the device's kind."""

    wbt_lat_usec: Annotated[int, Field(ge=0, le=10**9), NUMBER] | None = None
    write_cache: Literal["write back", "write through"] | None = None
    """As in `queue/write_cache`; by default the model's `write_back` decides."""


WORN = {"read": 0.3, "write": 0.85, "mixed": 0.85}
"""What the logarithm of a worn flash disk's rates deviates by: its writes have a tenth of their rate, or all of it, and
its reads need retries, and how many is not known."""

Deviation = Annotated[float, Field(ge=0, le=3), NUMBER]


class Uncertainty(ExperimentTable):
    """The standard deviation of measured over predicted IOPS of a device, as a natural logarithm: 0.1 is about 10 %."""

    read: Deviation = 0.0
    write: Deviation = 0.0
    """Of a disk with a cache of single-bit cells: while that is full."""

    mixed: Deviation = 0.0
    cached_write: Deviation | None = None
    """Of writes that a cache of single-bit cells takes; by default `write`."""

    large_read: Deviation | None = None
    """Of I/Os of 64 KiB and more, which bytes limit; by default `read`."""

    large_write: Deviation | None = None
    """The same of writes; by default `write`."""

    large_cached_write: Deviation | None = None
    """The same of writes that a cache of single-bit cells takes; by default `cached_write`."""

    sequence_read: Deviation = 0.0
    """What small reads in sequence have in addition, if only random ones were measured."""

    sequence_write: Deviation = 0.0
    """The same of writes."""

    sync: Deviation = 0.0
    """Of flushes, and of writes with forced unit access; it counts as far as a run's time consists of them."""

    latency: Deviation | None = None
    """Of loads that leave the device idle, whose latency decides: it counts for the idle share of the time. By default
    that of the same load with a busy device."""


class DiskTable(DeviceQueue):
    """What every device has."""

    kind: Kind
    size: Sectors | None = None
    """What the stack uses of it; by default all of it."""

    start: Sectors = 0
    """Where the used part begins on the disk; 0 is the outer edge of a rotating one, where it is fastest."""

    count: Annotated[int, Field(ge=1, le=256), NUMBER] = 1
    """Number of equal devices: `x` stands for `x1`, `x2` …, and as a member for all of them."""

    capacity: Annotated[Sectors, Field(gt=0)] | None = None
    """The whole disk."""

    write_back: bool | None = None
    """Whether it reports a volatile write cache; a rotating disk with `volatile_cache = false` does not."""

    max_hw_sectors_kb: Annotated[int, Field(ge=4, le=4_194_303), NUMBER] | None = None
    """The largest request that it accepts."""

    logical_block_size: Literal[512, 4096] = 512
    physical_block_size: Literal[512, 4096] = 512
    discard: bool = True
    """Whether the lab's virtual disk supports discards."""

    controller: str | None = None
    """The controller in front of it, a name of [controllers]."""

    source: str = ""
    """Where the figures come from."""

    uncertainty: Uncertainty = Uncertainty()
    """How far measured IOPS are from predicted ones; nothing for parameters that you state."""

    @property
    def deviations(self) -> Uncertainty:
        """The uncertainty of the device in its present state."""
        return self.uncertainty

    @property
    def reports_cache(self) -> bool:
        """Whether it reports a volatile write cache."""
        return self.kind != "nvme" if self.write_back is None else self.write_back

    @property
    def parts(self) -> dict[str, object]:
        """The rest of the model, as the simulator takes it: what is a key of every disk, and parts of some."""
        return {}


class FlashFeatures(ExperimentTable):
    """What a user knows of a flash disk that the library has only as a class or as another capacity.

    They decide, with the measured disks, which rates are expected. Keys of rates that the device has come before them.
    """

    nand: Literal["slc", "mlc", "tlc", "qlc"] | None = None
    """Bits in a cell: one to four."""

    dram: Annotated[bool, Field(strict=True)] | None = None
    """Whether it keeps its map in its own memory, not in that of the host."""

    rated_random_read_iops: Rate | None = None
    """Random reads of 4 KiB a second that its maker states."""

    rated_random_write_iops: Rate | None = None
    """Random writes of 4 KiB a second of a new disk that its maker states."""

    rated_read_bandwidth: PerSecond | None = None
    """Bytes a second that it reads in sequence, as its maker states."""

    rated_write_bandwidth: PerSecond | None = None
    """Bytes a second that it writes in sequence when it is new, as its maker states."""


def _check_link(link: str) -> str:
    if link_bandwidth(link) is None:
        raise ValueError(f"{link!r} is no link: expected a generation and lanes, such as 3x4 for PCIe 3 with four")
    return link


PcieLink = Annotated[str, AfterValidator(_check_link)]


class _Flash(FlashSpec, FlashUse, FlashFeatures, DiskTable):
    slc_fill: Percent | None = None
    """Share of the cache of single-bit cells that holds data at first. By default `0%` if the state is used, fresh or
    unwritten: the disk was idle, and moved its data; `100%` otherwise."""

    @property
    def parts(self) -> dict[str, object]:
        space: dict[str, object] = {} if self.slc_fill is None else {"slc_fill": fill_share(self.slc_fill)}
        if self.slc_bytes and (self.direct_ns or self.state not in CONDITIONS):
            space |= {"capacity": self.capacity, "filled_bytes": int(fill_share(self.state) * (self.capacity or 0))}
        if self.state in CONDITIONS:
            return space if self.state == "fresh" else {"condition": self.state, **space}
        return {"used": {"capacity": self.capacity, **_dump_values(self, FlashUse)}, **space}

    @property
    def deviations(self) -> Uncertainty:
        if self.state != "worn":
            return self.uncertainty
        wider = {kind: hypot(getattr(self.uncertainty, kind), deviation) for kind, deviation in WORN.items()}
        narrower = ("cached_write", "large_read", "large_write", "large_cached_write")
        return self.uncertainty.model_copy(update={**dict.fromkeys(narrower), **wider})

    @model_validator(mode="after")
    def _possible(self) -> "_Flash":
        if self.state not in CONDITIONS and self.capacity is None:
            raise ValueError(f"state {self.state!r} needs the capacity of the disk")
        if self.slc_bytes and self.fold_ns < self.program_ns:
            raise ValueError(f"slc_bytes needs fold_ns, at least program_ns ({self.program_ns}): found {self.fold_ns}")
        if self.direct_ns and not (self.slc_bytes and self.capacity and self.direct_ns <= self.fold_ns):
            raise ValueError("direct_ns needs slc_bytes, capacity and fold_ns, and is at most fold_ns")
        return self


class Ssd(_Flash):
    """A flash disk behind SATA or SAS."""

    kind: Literal["ssd"]


class Nvme(_Flash):
    """A flash disk behind PCIe."""

    kind: Literal["nvme"]

    pcie: PcieLink | None = None
    """Its slot, as generation and lanes: `3x4` is PCIe 3 with four lanes. A model of the library reads and writes no
    more bytes than such a link carries."""


class Hdd(HddSpec, ShingledSpec, DiskTable):
    """A rotating disk."""

    kind: Literal["hdd"]
    capacity: Annotated[Sectors, Field(gt=0)]

    @property
    def reports_cache(self) -> bool:
        return self.volatile_cache and super().reports_cache

    @property
    def parts(self) -> dict[str, object]:
        shingled_part = {"shingled": _dump_values(self, ShingledSpec)} if self.media_cache_bytes else {}
        return {"capacity": self.capacity, **shingled_part}

    @model_validator(mode="after")
    def _possible(self) -> "Hdd":
        missing = [key for key in ShingledSpec.model_fields if key != "media_cache_fill" and not getattr(self, key)]
        if self.media_cache_bytes and missing:
            raise ValueError(f"media_cache_bytes needs {', '.join(missing)}")
        if not self.media_cache_bytes and self.media_cache_fill != "0%":
            raise ValueError(f"media_cache_fill {self.media_cache_fill!r} needs media_cache_bytes: the disk has none")
        if self.media_cache_bytes and self.media_log_writes:
            raise ValueError("media_log_writes needs a disk without media_cache_bytes: expected one of them")
        if self.media_cache_bytes >= self.capacity:
            raise ValueError(f"media_cache_bytes must be less than the capacity, {self.capacity}")
        return self


class Throttled(ThrottledSpec, DiskTable):
    """A virtual disk with QEMU's throttling and nothing else."""

    kind: Literal["throttled"]

    @model_validator(mode="after")
    def _possible_burst(self) -> "Throttled":
        limits = {"iops": (self.iops_burst, self.iops_total), "bps": (self.bps_burst, self.bps_total)}
        for unit, (burst, rate) in limits.items():
            if burst and not 0 < rate <= burst:
                raise ValueError(f"{unit}_burst of {burst:g} needs {unit}_total, at most as large: found {rate:g}")
            if burst and not self.burst_seconds:
                raise ValueError(f"{unit}_burst needs burst_seconds")
        return self


Device = Annotated[Ssd | Nvme | Hdd | Throttled, Field(discriminator="kind")]  # A device with its model's parameters
KINDS: dict[str, type[DiskTable]] = {"ssd": Ssd, "nvme": Nvme, "hdd": Hdd, "throttled": Throttled}


def model_document(device: DiskTable) -> Model:
    """Returns the device's model as the simulator takes it (crates/sim/src/device)."""
    specs: dict[str, type[ExperimentTable]] = {"hdd": HddSpec, "throttled": ThrottledSpec}
    return {"kind": device.kind, **_dump_values(device, specs.get(device.kind, FlashSpec)), **device.parts}


def _dump_values(device: DiskTable, keys: type[ExperimentTable]) -> dict[str, object]:
    """Returns the device's values for these keys, as the simulator takes them."""
    return device.model_dump(include=set(keys.model_fields), by_alias=True)
