"""The parameters of devices as keys of an experiment file. `make types` writes this file from Rust."""

from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from blklab.toml_files import fields


class ControllerSpec(fields.ExperimentTable):
    """What several disks share: an HBA, a RAID controller, or the SATA ports of a chip set."""

    bandwidth: fields.PerSecond = 0
    """Bytes per second, of all its disks together, in both directions; 0: no limit."""
    coalesce_ns: fields.Nanoseconds = 0
    """Time for which it holds completions back while three or more commands are in flight, in ns, to interrupt the
    host once for several: 100 µs of an HP Smart Array P420i; 0: it does not.
    """
    iops: fields.Rate = 0
    """Commands per second, of all its disks together; 0: no limit."""
    latency_ns: fields.Nanoseconds = 0
    """Time that it adds to each command, in ns; other commands are served meanwhile."""
    write_cache_bytes: fields.Size = 0
    """Bytes of its write cache, which a battery or flash protects; 0: none."""


class FlashSpec(fields.ExperimentTable):
    """A flash disk: an interface that serves one command after the other, then many flash units at once."""

    read_command_ns: fields.Nanoseconds
    """Time of the interface and the controller for a read command of any size, in ns; commands are served one after
    the other.
    """
    write_command_ns: fields.Nanoseconds
    """Time of the interface and the controller for a write command of any size, in ns."""
    read_bandwidth: fields.PerSecond
    """Bytes per second of the interface from the disk."""
    write_bandwidth: fields.PerSecond
    """Bytes per second of the interface to the disk."""
    read_latency_ns: fields.Nanoseconds
    """The part of a read's latency that occupies no component, in ns."""
    write_latency_ns: fields.Nanoseconds
    """The part of a write's latency, into the disk's memory, that occupies no component, in ns."""
    units: Annotated[int, Field(ge=1, le=65536), fields.NUMBER]
    """Flash dies that work in parallel."""
    page_bytes: Annotated[fields.Size, Field(ge=512, le=1073741824)]
    """Bytes that a die reads at once: requests within a page are served together."""
    page_read_ns: fields.Nanoseconds
    """Time to read a page from flash, in ns."""
    program_bytes: Annotated[fields.Size, Field(ge=512, le=1073741824)]
    """Bytes that a die programs at once, so also how many bytes written in sequence lie on one die: three pages on
    each plane, for three bits in each cell.
    """
    program_ns: fields.Nanoseconds
    """Time to program `program_bytes`, in ns; with `slc_bytes`, into the cache of single-bit cells."""
    buffer_bytes: Annotated[fields.Size, Field(ge=1, le=fields.LARGEST)]
    """Bytes that can be acknowledged before they are programmed."""
    suspend_ns: fields.Nanoseconds
    """Time that a read waits when it suspends a program, in ns."""
    cached_write_command_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time of a write command of a disk in use, in ns, while its cache of single-bit cells takes the data; 0:
    `write_command_ns`.
    """
    cell_bits: Annotated[int, Field(ge=0, le=5), fields.NUMBER] = Field(0, exclude_if=not_)
    """Bits that a cell holds outside the cache of single-bit cells; 0: three."""
    direct_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time to program `program_bytes` into cells with all bits, in ns, when the cache of single-bit cells is full
    and free blocks remain, so that nothing must be moved; 0: `fold_ns`.
    """
    flush_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time of a flush after writes, in ns; 0: it waits for nothing, because a power cut loses no acknowledged data."""
    fold_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time to program `program_bytes` into cells with all bits, in ns, when the cache of single-bit cells is full
    and cached data must be moved for it.
    """
    fua_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time that a write with forced unit access (FUA) takes in addition, in ns. Those that come meanwhile wait, and
    share the next such time: an assumption, no measurement shows it.
    """
    resume_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time that a program runs at least before it is suspended again, in ns."""
    slc_bytes: fields.Size = Field(0, exclude_if=not_)
    """Bytes of the cache of single-bit cells of an empty disk; 0: none. With less free space the cache is smaller:
    it has at most nine tenths of the free blocks, and on a full disk 5 GB for each TB.
    """
    sustained_read_bandwidth: fields.PerSecond = Field(0, exclude_if=not_)
    """Bytes per second of the interface from a disk in use, instead of `read_bandwidth`; 0: the same."""
    sustained_read_command_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time of a read command of a disk in use, in ns, instead of `read_command_ns`; 0: the same. It comes from
    measurements of a minute or more, not from data sheets.
    """
    sustained_write_bandwidth: fields.PerSecond = Field(0, exclude_if=not_)
    """Bytes per second of the interface to a disk in use, instead of `write_bandwidth`; 0: the same."""
    sustained_write_command_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time of a write command of a disk in use, in ns, instead of `write_command_ns`; 0: the same. With `slc_bytes`,
    while its cache of single-bit cells is full.
    """
    turnaround_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """Time of the interface and the controller for a write after a read, or a read after a write, in ns, in addition
    to the command's.
    """


class FlashUse(fields.ExperimentTable):
    """A disk that is not new."""

    over_provisioning: Annotated[float, Field(ge=0.001, le=10), fields.NUMBER] = 0.07
    """Flash that it does not offer, as a share of what it offers."""
    state: fields.FlashState = Field("used", serialization_alias="fill")
    """Share of its pages that hold data, 0 to 1; the rest was discarded. All of it was written once, and twice at
    random places. In an experiment file one of: `"used"`, what a run of minutes shows on a trimmed disk in use;
    `"fresh"`, as its maker measures a new disk; `"unwritten"`, whose reads do not touch flash; `"steady"` (1, the
    steady state under random writes) and `"full:80%"`, which copy valid pages before they erase blocks; `"worn"`,
    after years. The cache of single-bit cells begins empty if the state is used, fresh or unwritten, and full
    otherwise; `slc_fill` can say another share. If the state does not say how full the disk is, half of it is.
    """


class HddSpec(fields.ExperimentTable):
    """A rotating disk."""

    rpm: fields.Count
    """Revolutions per minute."""
    outer_track_bytes: Annotated[fields.Size, Field(ge=512, le=fields.EXACT)]
    """Bytes of a track at the rim, where sector 0 is."""
    inner_track_bytes: Annotated[fields.Size, Field(ge=512, le=fields.EXACT)]
    """Bytes of a track at the hub."""
    heads: fields.Count
    """Recording surfaces."""
    seek_track_ns: fields.Nanoseconds
    """The shortest seek, to a neighbouring track, with settling, in ns."""
    seek_average_ns: fields.Nanoseconds
    """The average seek, over a third of the disk, in ns."""
    seek_full_ns: fields.Nanoseconds
    """The longest seek, over the whole disk, in ns."""
    command_ns: fields.Nanoseconds
    """The disk's own time for a command, before the head moves, in ns (data sheets: "command overhead")."""
    bandwidth: fields.PerSecond
    """Bytes per second between host and disk."""
    cache_bytes: fields.Size
    """Bytes of the disk's memory."""
    read_streams: fields.Count
    """Sequential streams that read-ahead follows at the same time."""
    read_ahead_bytes: fields.Size
    """Bytes that the disk reads ahead of a stream at most."""
    volatile_cache: bool = Field(True, serialization_alias="write_cache")
    """Whether writes are acknowledged from the volatile cache."""
    write_cache_requests: fields.Count
    """Writes in the cache at most that are not yet on the disk."""
    flush_ns: fields.Nanoseconds
    """Extra time of a flush, even if there is little to write, in ns: long with shingled tracks."""
    destage_ns: fields.Nanoseconds
    """Extra time to write a request from the cache, in addition to seek and rotation, in ns: shingled disks keep a
    journal.
    """
    controller_ns: fields.Nanoseconds = 0
    """Time that a controller adds to a command before the disk has it, in ns; other commands are served meanwhile."""
    media_log_writes: Annotated[int, Field(ge=0, le=1000000000), fields.NUMBER] = Field(0, exclude_if=not_)
    """Writes that the disk's media log holds: with the volatile cache off, a write goes there without a seek until
    it is full, and the idle disk empties it; 0: no log.
    """
    order: Literal["rotation", "seek", "arrival"] = "rotation"
    """How the disk orders the commands in its queue."""
    write_settle_ns: fields.Nanoseconds = Field(0, exclude_if=not_)
    """How much longer the head settles before it writes than before it reads, in ns (data sheets: the average seek
    of writes minus that of reads).
    """


class ShingledSpec(fields.ExperimentTable):
    """The media cache and the bands of a disk."""

    media_cache_bytes: fields.Size = 0
    """Bytes of the media cache of a shingled disk, a log to which it appends writes; 0: none, tracks do not overlap."""
    media_cache_extents: Annotated[int, Field(ge=0, le=10000000), fields.NUMBER] = 0
    """Extents that the map of the media cache can hold."""
    media_cache_fill: fields.Percent = "0%"
    """Share of this map that is in use at first, 0 to 1, by pages that were written at random places of the whole
    disk.
    """
    band_bytes: fields.Size = 0
    """Bytes of a band, which the disk can only rewrite as a whole."""
    band_clean_ns: fields.Nanoseconds = 0
    """Time to clean a band, in ns: to read it and the newer data, and to write both."""


class ThrottledSpec(fields.ExperimentTable):
    """QEMU's throttling: leaky buckets. A disk that was idle lets a tenth of a second's worth through at once."""

    bps_burst: fields.Rate = 0
    """Bytes per second during a burst, reads and writes together; 0: no burst."""
    bps_read: fields.Rate = 0
    """Bytes read per second; 0: no limit."""
    bps_total: fields.Rate = 0
    """Bytes per second, reads and writes together; 0: no limit."""
    bps_write: fields.Rate = 0
    """Bytes written per second; 0: no limit."""
    burst_seconds: Annotated[int, Field(ge=0, le=86400), fields.NUMBER] = 0
    """How long a burst lasts that begins after a long idle time, in seconds; less than 1 counts as 1."""
    iops_burst: fields.Rate = 0
    """I/Os per second during a burst, reads and writes together; 0: no burst."""
    iops_read: fields.Rate = 0
    """Reads per second; 0: no limit."""
    iops_total: fields.Rate = 0
    """I/Os per second, reads and writes together; 0: no limit."""
    iops_write: fields.Rate = 0
    """Writes per second; 0: no limit."""
    latency_ns: fields.Nanoseconds = 0
    """Latency of every I/O in addition to the throttling, in ns."""
