"""The document `profile` as Rust has it. `make types` writes this file."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Warning(Struct, kw_only=True, gc=False):
    """A problem that does not stop reading."""
    path: str
    """The file that the warning is about, or the name of the input."""
    message: str
    """What happened, where, and what blklab did about it."""

class Amount(Struct, kw_only=True, gc=False):
    """A number of bios or requests, and their bytes."""
    count: int
    """Number of bios or requests."""
    bytes: int
    """Bytes of these bios or requests. Negative if a filter left out dispatches whose requeues are subtracted."""

class ArrivalsSummary(Struct, kw_only=True, gc=False):
    """When I/Os arrive."""
    count: int
    """Number of arrivals."""
    backwards: int
    """Arrivals with a time before that of the previous one; they count as simultaneous with it."""
    inter_arrival_ns: QuantilesSummary
    """Gaps between arrivals, in ns."""
    coefficient_of_variation: float | None
    """Standard deviation of the gaps, divided by their mean: 0 is regular, 1 is chance, more is bursty. `null`
    without gaps above 0.
    """
    dispersion: list[Dispersion]
    """Index of dispersion by width of the window, 1 ms to 10 s."""
    mean_iops: float | None
    """Mean arrivals per second; `null` if no time passed."""
    peak_iops: int
    """Most arrivals in a window of one second."""
    peak_to_mean: float | None
    """`peak_iops` divided by `mean_iops`; `null` for less than one second."""
    pattern: ArrivalPattern | None
    """The pattern; `null` below a hundred gaps."""

class BlockSeriesProfile(Struct, kw_only=True, gc=False):
    """Quantiles of the complete blocks of consecutive I/Os, in their order."""
    ios: int
    """I/Os of a block."""
    p50_ns: list[int]
    """The median of each block, in ns (relative error 0.8 %)."""
    p99_ns: list[int]
    """The 99th percentile of each block, in ns (relative error 0.8 %); empty if blocks have fewer than 100 I/Os."""

class CallerProfile(Struct, kw_only=True, gc=False):
    """How often a process commits for another one."""
    process: str
    """Name of the process that queues the flushes; `jbd2/…` is the journal of ext4."""
    caller: str
    """Name of the process whose synchronous write came before; its own name if it is no thread of a filesystem."""
    commits: int
    """I/Os with a flush."""

class Capabilities(Struct, kw_only=True, gc=False):
    """What the records of a format contain. Other properties are unknown, which is not the same as absent."""
    layers: bool
    """Whether it has the path through the block layer: remaps, merges and dispatches."""
    processes: bool
    """Whether it has the process of each I/O."""
    directions: bool
    """Whether it distinguishes reads and writes."""
    completions: bool
    """Whether it has the times at which I/Os completed."""
    clock_ns: int | None
    """Resolution of the times, in ns; `null` if the trace has no times."""

class DensityRow(Struct, kw_only=True, gc=False):
    """A row of density: the I/Os with a value from `low` to below `end`. Its strings have one character for each
    slice of time: `.` for no I/O, otherwise the number of binary digits of the count, in base 36 (`1` is one I/O,
    `2` is 2 or 3, `a` is 512 to 1,023).
    """
    low: int
    """Lowest value of the row: a sector, or ns of Q2C."""
    end: int
    """The values of the row are below this."""
    reads: int
    """Reads in all."""
    writes: int
    """Writes in all."""
    read_levels: str
    """Reads over time, a character for each slice up to the last one with a read."""
    write_levels: str
    """Writes over time, a character for each slice up to the last one with a write."""

class DepthOverTime(Struct, kw_only=True, gc=False):
    """Queue depth over time."""
    width_ns: int
    """Width of a slice of time, in ns."""
    slices: list[DepthSlice]
    """The slices from time 0, at most 512; idle ones at the end are left out."""

class DepthSlice(Struct, kw_only=True, gc=False):
    """Queue depth in one slice of time."""
    area_ns: int
    """The times of all I/Os in flight, added up, in ns: divided by the width, it is the mean depth."""
    busy_ns: int
    """Time with at least one I/O in flight, in ns."""
    max: int
    """The most I/Os in flight."""

class DeviceBegin(Struct, kw_only=True, gc=False):
    """Where a device begins on the one below it."""
    upper: str
    """The device above, `major,minor`."""
    lower: str
    """The device below, `major,minor`."""
    sector: int
    """The sector of the device below at which the device above begins."""

class DeviceProfile(Struct, kw_only=True, gc=False):
    """The workload of one device."""
    device: str
    """Number of the device, `major,minor`."""
    name: str | None
    """Name of the input or device, such as `md127`; `null` if the trace has none."""
    first_ns: int
    """Time of its first event, in ns since the trace began."""
    last_ns: int
    """Time of its last event, in ns since the trace began."""
    observed_ns: int
    """Time from its first event to its last, in ns. Of several traces, what several of them cover counts once, by
    the wall clock.
    """
    events: dict[str, int]
    """Number of events by blkparse's letter: `Q`, `C`, `UT` …"""
    start: StartAction
    """The event with which its I/Os begin: Q; D or C in a recording without Q."""
    in_flight: LevelSummary
    """Bios between Q and C over time. The filter's latency does not apply to it."""
    depth_over_time: DepthOverTime
    """Bios between Q and C in slices of time."""
    lost: int
    """Bios whose completion is missing: in flight for longer than four times the 99th percentile of Q2C when another
    bio with their range was queued, or when the trace ended.
    """
    dispatched: LevelSummary
    """Requests between D and C over time; empty for bio-based devices (md, dm), which have no D."""
    dispatches: Dispatches
    """The order in which requests were dispatched."""
    unmatched_completions: int
    """Completions of I/Os without a queue or dispatch event."""
    given_up: int
    """Bios that were discarded because too many were in flight."""
    begins: list[DeviceBegin]
    """Devices above that are one range of a device below: partitions, linear volumes."""
    load: LoadProfile
    """Operations and sizes, and where the I/O came from."""
    life: dict[str, LifeProfile]
    """Latencies by operation: `read`, `write`, `discard`, `flush`, and `all`, which is everything except flushes."""
    pattern: PatternProfile
    """Sequential streams, seeks and arrivals."""
    hotness: HotnessSummary
    """Hot and cold blocks of 4 KiB."""
    over_time: OverTimeProfile
    """Load and latencies over time."""
    offsets: OffsetsProfile
    """Where reads and writes begin, over time."""
    processes_over_time: ProcessesOverTime
    """I/Os by process, over time."""
    slow: SlowProfile
    """The slowest I/Os, and stalls."""
    latency_blocks: LatencyBlocksProfile
    """Latencies in blocks of consecutive I/Os."""
    maps: LatencyMapsProfile
    """Latencies by size and by queue depth."""
    waits: WaitsProfile
    """What I/Os that a program waits for found in flight."""
    users: UsersProfile
    """The processes that use the device, and what their I/Os waited behind; without detail, empty."""
    files: FilesProfile | None
    """I/Os by file of the device's filesystem; `null` without `--files`, and for other devices."""

class Dispatches(Struct, kw_only=True, gc=False):
    """Requests with data that were dispatched, in their order."""
    requests: int
    """Requests with data."""
    bytes: int
    """Their bytes."""
    contiguous: int
    """Requests that began where the one dispatched before ended."""

class Dispersion(Struct, kw_only=True, gc=False):
    """Index of dispersion at one width of windows: 0 is regular, 1 is chance, more is bursty. Windows begin at the
    first arrival.
    """
    window_ns: int
    """Width of the windows, in ns."""
    windows: int
    """Complete windows, empty ones included."""
    mean_ios: float | None
    """Mean arrivals in a window; `null` without a complete window."""
    max_ios: int
    """Most arrivals in a window."""
    index: float | None
    """Variance of the arrivals in a window, divided by their mean; `null` below ten windows."""

class FileProfile(Struct, kw_only=True, gc=False):
    """The I/Os of one file."""
    name: str
    """Path of the file; or what else the sectors hold, such as `journal`."""
    is_file: bool
    """Whether it is a file or a directory; otherwise it is free space, a kind of metadata, or outside of the
    filesystem.
    """
    reads: int
    """Reads that touched it; a read counts in each file that it touches."""
    writes: int
    """Writes that touched it; a write counts in each file that it touches."""
    read_bytes: int
    """Bytes read from it."""
    write_bytes: int
    """Bytes written to it."""

class FilesProfile(Struct, kw_only=True, gc=False):
    """The files of the filesystem on a device, by I/O."""
    mount: str
    """Where the filesystem is mounted."""
    files: list[FileProfile]
    """The files with most I/Os, the largest number first, at most 1,000."""
    further: int
    """Number of other files that had I/Os."""

class Filter(Struct, kw_only=True, gc=False):
    """Which I/Os count; by default all. An I/O counts at the time, and for the process, of its queueing."""
    devices: list[str]
    """Devices by number (`major,minor`) or name. Empty: all."""
    processes: list[str]
    """Processes by name, by a pattern with `*` and `?`, or by pid. Empty: all."""
    ops: list[str]
    """Operations: `read`, `write`, `discard`, `flush`. Empty: all."""
    since_ns: int | None
    """First time that counts, in ns since the trace began; `null`: no limit."""
    until_ns: int | None
    """First time that no longer counts, in ns since the trace began; `null`: no limit."""
    first_sector: int | None
    """Only I/Os that touch this sector or a later one count; `null`: no limit."""
    last_sector: int | None
    """Only I/Os that touch this sector or an earlier one count; `null`: no limit."""
    min_bytes: int | None
    """Smallest size of an I/O that counts, in bytes; `null`: no limit."""
    max_bytes: int | None
    """Largest size of an I/O that counts, in bytes; `null`: no limit."""
    min_latency_ns: int | None
    """Shortest time from queueing to completion that counts, in ns; from dispatch if the queueing was not recorded.
    `null`: no limit.
    """

class GroupProfile(Struct, kw_only=True, gc=False):
    """The I/Os of a CPU, of a process, or from a device."""
    name: str
    """Number of the CPU, name of the process, or `major,minor` of the device; `direct`: not remapped; `(others)`:
    all beyond 512.
    """
    ios: dict[str, int]
    """I/Os queued, by operation."""
    bytes: dict[str, int]
    """Bytes queued, by operation."""
    read_q2c_ns: QuantilesSummary
    """Q2C of reads, in ns."""
    write_q2c_ns: QuantilesSummary
    """Q2C of everything else, in ns."""
    errors: int
    """I/Os that ended with an error."""

class HotBlock(Struct, kw_only=True, gc=False):
    """One of the hottest blocks."""
    block: int
    """Number of the block: byte offset / 4096."""
    reads: int
    """Reads that touched it."""
    writes: int
    """Writes that touched it."""

class HotShare(Struct, kw_only=True, gc=False):
    """Share of I/O that the hottest part of the blocks receives."""
    fraction: float
    """Hottest fraction of the blocks, 0 to 1."""
    io_share: float
    """Share of the accesses that goes to it, 0 to 1."""

class HotnessSummary(Struct, kw_only=True, gc=False):
    """Hot and cold blocks of 4 KiB. An access is one block of one read or write."""
    accesses: int
    """Number of accesses; exact also with a sample."""
    unique_blocks: int
    """Distinct blocks of 4 KiB."""
    unique_bytes: int
    """Bytes of the distinct blocks: the footprint."""
    unique_read_blocks: int
    """Distinct blocks that were read."""
    unique_written_blocks: int
    """Distinct blocks that were written."""
    sampled: bool
    """Whether the figures are from a sample of the blocks; otherwise they are exact."""
    sample_rate: float
    """Share of the distinct blocks in the sample, 0 to 1; 1 without a sample."""
    relative_error: float
    """Largest standard error of `unique_blocks`, as a share of it; 0 without a sample."""
    hottest: list[HotShare]
    """Share of the accesses that goes to the hottest 1, 5, 10 and 20 % of the blocks."""
    top: list[HotBlock]
    """The twenty hottest blocks, the hottest first; with a sample, their counts are estimates."""
    rank_curve: list[HotShare]
    """Share of the accesses that goes to the hottest fraction of the blocks, at most 64 points."""
    accesses_per_block: float | None
    """Mean number of accesses to a block; `null` without accesses."""
    first_touch_share: float | None
    """Share of the accesses that are the first to their block, 0 to 1: no cache that starts empty can avoid these
    misses. `null` without accesses.
    """
    zipf: ZipfFit
    """Whether the popularity of blocks follows Zipf's law."""
    truncated_ios: int
    """I/Os above 64 MiB; only their first 64 MiB count."""

class Input(Struct, kw_only=True, gc=False):
    """One input of a set: a blktrace name with its per-CPU files, or a single file."""
    name: str
    """blkparse's name of the input, usually a device such as `md127`; empty if events name their devices themselves."""
    files: list[str]
    """The files that were read."""

class LatencyBlocksProfile(Struct, kw_only=True, gc=False):
    """Q2C (D2C if the trace has no Q events) in blocks of consecutive I/Os, to tell a change from chance; without
    blocks for devices beyond the first 128.
    """
    read: BlockSeriesProfile
    """Reads."""
    write: BlockSeriesProfile
    """Writes."""

class LatencyMapsProfile(Struct, kw_only=True, gc=False):
    """Latencies (Q2C, or D2C if the trace has no Q events) of reads and writes by class, for the first 16 devices.
    The strings of a row have a character for each class instead of each slice of time.
    """
    sizes: list[DensityRow]
    """By size: below 1 KiB, from 1 to below 2 KiB, and so on."""
    depths: list[DensityRow]
    """By the I/Os that were in flight when it was queued: none, 1, 2 to 3, 4 to 7, and so on."""

class LevelSummary(Struct, kw_only=True, gc=False):
    """A level over time, such as queue depth, weighted by how long each value lasted. Levels above 4,096 count as
    4,096 in means and percentiles.
    """
    time_ns: int
    """Time observed, in ns."""
    mean: float | None
    """Mean level over the time; `null` without time. If an I/O of a thousand has no beginning or no end in a trace,
    the mean is that of complete ones, scaled to all, and the other figures are missing.
    """
    mean_when_busy: float | None
    """Mean level over the time in which it was not 0; `null` if there was none."""
    max: int
    """Highest level, even for a short time."""
    p50: int | None
    """The level that was not exceeded for 50 % of the time; `null` without time."""
    p95: int | None
    """The level that was not exceeded for 95 % of the time; `null` without time."""
    p99: int | None
    """The level that was not exceeded for 99 % of the time; `null` without time."""
    idle_share: float | None
    """Share of the time at level 0, 0 to 1; `null` without time."""
    histogram: list[LevelTime]
    """Time by level: single levels up to 64, then powers of two; empty ranges are left out."""
    backwards: int
    """Changes with a time before that of the previous one; they count as simultaneous with it."""

class LevelTime(Struct, kw_only=True, gc=False):
    """Time spent at one level, or at a range of them."""
    low: int
    """Lowest level of the range."""
    high: int
    """Highest level of the range, inclusive."""
    time_ns: int
    """Time at these levels, in ns."""

class LifeProfile(Struct, kw_only=True, gc=False):
    """What became of the I/Os of one operation, and when."""
    completed: int
    """I/Os with a queue and a completion event."""
    completed_bytes: int
    """Bytes of the I/Os with a queue and a completion event."""
    merged: int
    """Bios that were merged into another bio's request."""
    requeued: int
    """How often a request was requeued after dispatch, counted for each bio."""
    errors: dict[str, int]
    """Failed completions by errno: `"EIO (5)": 3`."""
    never_completed: int
    """I/Os that were queued, and not completed when the trace ended."""
    without_queue: int
    """I/Os that were dispatched without a queue event: pass-through commands, flushes of the driver, I/Os that were
    already in flight when the trace began.
    """
    latency_ns: dict[str, QuantilesSummary]
    """Time in each stage, in ns, by btt's letters: `q2c`, `q2d`, `d2c`, `q2g`, `g2i`, `i2d`, `q2m`, `m2d`. A stage
    that the trace does not show has count 0.
    """
    histogram: list[tuple[int, int, int]]
    """Q2C, or D2C without queue events: lowest ns of a bin, ns at which it ends, number of I/Os. A factor of ten has
    ten bins.
    """

class LoadProfile(Struct, kw_only=True, gc=False):
    """The load of one device."""
    ops: dict[str, OpLoadProfile]
    """The load by operation: `read`, `write`, `discard`, `flush`."""
    first_sector: int | None
    """First sector read or written; `null` if there was none."""
    end_sector: int | None
    """The sector after the last one read or written; `null` if there was none."""
    cpus: list[GroupProfile]
    """I/Os by the CPU that queued them, the largest number first; at most 512, and `(others)`. The quantiles of CPUs
    can be empty.
    """
    processes: list[GroupProfile]
    """I/Os by the process that queued them, the largest number first; at most 512, and `(others)`."""
    sources: list[GroupProfile]
    """I/Os by the device that they were remapped from (`direct`: none), the largest number first; at most 512, and
    `(others)`.
    """

class LongTimeProfile(Struct, kw_only=True, gc=False):
    """One of the slowest I/Os; or a stall, and the I/O whose completion ended it."""
    start_ns: int
    """When the I/O was queued, in ns since the trace began. A stall begins with the completion before it, or when
    the first I/O that waited in it was queued.
    """
    length_ns: int
    """Time from `start_ns` until the I/O completed, in ns."""
    op: str
    """Operation of the I/O: `read`, `write`, `discard` or `flush`."""
    sector: int
    """First sector of the I/O."""
    bytes: int
    """Size of the I/O in bytes."""
    process: str
    """Name of the process that queued the I/O."""
    waited: bool
    """Whether a program waits for the I/O: it is no writeback, and not of md's resync."""
    stage: str
    """The two events of the I/O between which most time passed: `d2c`, `i2d` …"""
    stage_ns: int
    """Time between the two events of `stage`, in ns."""
    depth: int
    """Other I/Os in flight when the I/O was queued."""
    in_flight: dict[str, int]
    """Other I/Os in flight when the I/O completed, by operation."""

class OffsetsProfile(Struct, kw_only=True, gc=False):
    """Where on a device reads and writes begin, over time."""
    width_ns: int
    """Width of a slice of time, in ns."""
    rows: list[DensityRow]
    """Ranges of sectors in ascending order, without gaps, at most 256. An I/O counts where it begins."""

class OpLoadProfile(Struct, kw_only=True, gc=False):
    """The load of one operation."""
    ios: int
    """I/Os queued."""
    bytes: int
    """Bytes of the I/Os queued."""
    sync: int
    """I/Os that are synchronous (flag S)."""
    meta: int
    """I/Os of a filesystem's metadata (flag M)."""
    ahead: int
    """I/Os that are read-ahead (flag A)."""
    fua: int
    """I/Os with forced unit access (flag F after the operation)."""
    preflush: int
    """I/Os with a flush of the disk's cache before them (flag F before the operation)."""
    unaligned: int
    """I/Os that do not begin and end at a multiple of 4 KiB."""
    block_starts: list[int]
    """I/Os whose length is a multiple of 4 KiB, by the first sector modulo 8: where their blocks begin."""
    share_of_ios: float
    """Share of all I/Os queued on the device, 0 to 1."""
    share_of_bytes: float
    """Share of all bytes queued on the device, 0 to 1."""
    sizes: SizeSummary
    """Sizes of the I/Os; flushes have none."""

class OverTimeProfile(Struct, kw_only=True, gc=False):
    """Load and latencies of a device over time."""
    width_ns: int
    """Width of a slice of time, in ns."""
    slices: list[SliceProfile]
    """The slices, at most 512; empty ones at the end are left out."""
    latencies: list[DensityRow]
    """Q2C of the I/Os completed in each slice as density: a row for each quarter of a doubling that occurs, in ns.
    Everything except reads counts as a write.
    """

class PatternProfile(Struct, kw_only=True, gc=False):
    """The access pattern."""
    read_streams: StreamsSummary
    """Sequential streams of the reads."""
    write_streams: StreamsSummary
    """Sequential streams of the writes."""
    seeks: SeeksSummary
    """Distances from the end of one read or write to the start of the next."""
    arrivals: ArrivalsSummary
    """Times between the arrivals of I/Os of any operation."""

class ProcessesOverTime(Struct, kw_only=True, gc=False):
    """The I/Os of processes over time."""
    width_ns: int
    """Width of a slice of time, in ns."""
    ios: dict[str, list[int]]
    """I/Os queued in each slice, by name of the process. The twelve largest are named, `(others)` are the rest; in
    each slice, processes beyond its twelve largest are among the others.
    """

class QuantilesSummary(Struct, kw_only=True, gc=False):
    """Quantiles of values, in the unit of the key that has them. Percentiles are of nearest rank."""
    count: int
    """Number of values."""
    mean: float | None
    """Mean (exact); `null` without values."""
    stddev: float | None
    """Standard deviation (exact); `null` without values."""
    min: int | None
    """Smallest value (exact); `null` without values."""
    max: int | None
    """Largest value (exact); `null` without values."""
    p1: int | None
    """1st percentile; `null` without values."""
    p5: int | None
    """5th percentile; `null` without values."""
    p10: int | None
    """10th percentile; `null` without values."""
    p25: int | None
    """25th percentile; `null` without values."""
    p50: int | None
    """Median; `null` without values."""
    p75: int | None
    """75th percentile; `null` without values."""
    p90: int | None
    """90th percentile; `null` without values."""
    p95: int | None
    """95th percentile; `null` without values."""
    p99: int | None
    """99th percentile; `null` without values."""
    p99_9: int | None
    """99.9th percentile; `null` without values."""
    p99_99: int | None
    """99.99th percentile; `null` without values."""
    relative_error: float
    """Largest relative error of a percentile: 0 up to 4,096 values, otherwise 0.004."""

class RecordedLayer(Struct, kw_only=True, gc=False):
    """A block device of the recorded machine."""
    number: str
    """Its number, `major:minor`."""
    name: str
    """The kernel's name, such as `dm-3`."""
    label: str
    """What users call it, such as `vg0/home`."""
    kind: str
    """`disk`, `partition`, `md`, `dm`, `loop`, `bcache` or `other`."""
    above: list[str]
    """The kernel's names of the devices directly above it."""
    role: str | None
    """Its part in a cache: `cache` or `backing`; `null` for others."""
    bytes: int | None
    """Its size in bytes; `null` if the recording does not have it."""

class RivalLevel(Struct, kw_only=True, gc=False):
    """I/Os of a user by the number of I/Os that the deepest other user had in flight."""
    low: int
    """Smallest number of the other user's I/Os in flight; the level ends below that of the next one."""
    read: TimeSumProfile
    """Reads."""
    write: TimeSumProfile
    """Everything else."""

class RivalProfile(Struct, kw_only=True, gc=False):
    """Another user with at least 8 I/Os in flight, which a user's I/Os found."""
    process: str
    """Name of the other user's process."""
    pid: int
    """Its process id."""
    source: str
    """The device that its I/O was remapped from, `major,minor` or `direct`."""
    depth: float
    """Mean number of its I/Os in flight."""
    found: TimeSumProfile
    """The I/Os that found it."""

class RunLengths(Struct, kw_only=True, gc=False):
    """Lengths of runs, in I/Os or bytes."""
    mean: float | None
    """Mean length; `null` without runs."""
    p50: int | None
    """Median length; `null` without runs."""
    p95: int | None
    """95th percentile of the length; `null` without runs."""
    max: int | None
    """Length of the longest run; `null` without runs."""

class SeekRange(Struct, kw_only=True, gc=False):
    """Seeks with a distance in a range."""
    low_sectors: int
    """Lowest distance in sectors, inclusive; negative means towards sector 0."""
    high_sectors: int
    """Highest distance in sectors, inclusive."""
    count: int
    """Seeks in this range."""

class SeeksSummary(Struct, kw_only=True, gc=False):
    """Distances from the end of one read or write to the start of the next."""
    count: int
    """Number of distances: one fewer than reads and writes."""
    zero: int
    """I/Os that started where the one before them ended."""
    forward: int
    """I/Os that started beyond the end of the one before."""
    backward: int
    """I/Os that started before the end of the one before."""
    mean_distance_sectors: float | None
    """Mean distance without sign, in sectors; `null` below two I/Os."""
    median_distance_sectors: int | None
    """Median distance without sign, in sectors (relative error 0.4 % beyond 4,096 I/Os); `null` below two I/Os."""
    p95_distance_sectors: int | None
    """95th percentile of the distance without sign, in sectors (relative error 0.4 % beyond 4,096 I/Os); `null`
    below two I/Os.
    """
    histogram: list[SeekRange]
    """Distances with sign, by powers of two, ascending; empty ranges are left out."""

class SizeBin(Struct, kw_only=True, gc=False):
    """How many I/Os fell in one bin of 4 KiB."""
    center_kib: int
    """Centre of the bin in KiB. The bin extends from 2 KiB below it to just under 2 KiB above."""
    count: int
    """I/Os in the bin."""

class SizeCount(Struct, kw_only=True, gc=False):
    """How many I/Os had one exact size."""
    bytes: int
    """Size in bytes."""
    count: int
    """I/Os of this size."""

class SizeSummary(Struct, kw_only=True, gc=False):
    """Sizes of I/Os. Percentiles are of nearest rank."""
    count: int
    """Number of I/Os."""
    total_bytes: int
    """Sum of the sizes, in bytes."""
    mean_bytes: float | None
    """Mean size in bytes; `null` without I/Os."""
    mode_bytes: int | None
    """Most frequent size in bytes, the smallest if there are several; `null` without I/Os."""
    median_bytes: int | None
    """Median size in bytes; `null` without I/Os."""
    min_bytes: int | None
    """Smallest size in bytes; `null` without I/Os."""
    max_bytes: int | None
    """Largest size in bytes; `null` without I/Os."""
    p5_bytes: int | None
    """5th percentile of the size, in bytes; `null` without I/Os."""
    p25_bytes: int | None
    """25th percentile of the size, in bytes; `null` without I/Os."""
    p75_bytes: int | None
    """75th percentile of the size, in bytes; `null` without I/Os."""
    p95_bytes: int | None
    """95th percentile of the size, in bytes; `null` without I/Os."""
    p99_bytes: int | None
    """99th percentile of the size, in bytes; `null` without I/Os."""
    exact: list[SizeCount]
    """Every distinct size, ascending."""
    bins_4k: list[SizeBin]
    """Bins of 4 KiB, ascending; empty ones are left out."""
    is_exact: bool
    """Whether `exact` is exact; false if there are very many sizes."""
    folded_ios: int
    """I/Os that count at the middle of their bin, because there are very many sizes."""

class SliceProfile(Struct, kw_only=True, gc=False):
    """One slice of time: what was queued, and what completed, in `[start_ns, start_ns + width_ns)`."""
    start_ns: int
    """Start of the slice, in ns since the trace began."""
    reads: int
    """Reads queued in the slice."""
    writes: int
    """Writes queued in the slice."""
    others: int
    """Discards and flushes queued in the slice."""
    read_bytes: int
    """Bytes of the reads queued."""
    write_bytes: int
    """Bytes of the writes queued."""
    read_p50_ns: int | None
    """Median Q2C of the reads completed in the slice, in ns (relative error 6.25 %); `null` if there were none."""
    read_p99_ns: int | None
    """99th percentile of Q2C of the reads completed in the slice, in ns (relative error 6.25 %); `null` if there
    were none.
    """
    write_p50_ns: int | None
    """Median Q2C of everything else completed in the slice, in ns (relative error 6.25 %); `null` if there was
    nothing.
    """
    write_p99_ns: int | None
    """99th percentile of Q2C of everything else completed in the slice, in ns (relative error 6.25 %); `null` if
    there was nothing.
    """
    unique_blocks: int
    """Distinct blocks of 4 KiB read or written in the slice (standard error 3.25 %)."""
    unique_blocks_so_far: int
    """Distinct blocks of 4 KiB read or written since the trace began (standard error 3.25 %): the working set as it
    grows.
    """

class SlowProfile(Struct, kw_only=True, gc=False):
    """The slowest I/Os and the stalls of a device."""
    slowest: list[LongTimeProfile]
    """The slowest I/Os, the slowest first; at most 20."""
    stall_least_ns: int | None
    """Shortest stall, in ns: ten times the 90th percentile of the gaps between completions while I/O was in flight,
    and at least ten times the median latency; `null` below 100 I/Os.
    """
    stalls: list[LongTimeProfile]
    """The longest times in which nothing completed although I/Os were in flight, in order; at most 64."""

class StreamsSummary(Struct, kw_only=True, gc=False):
    """Sequential streams. A run is a chain of I/Os that each continue the one before; a single I/O is a run too."""
    ios: int
    """Number of I/Os; those without sectors, such as flushes, do not count."""
    sequential_ios: int
    """I/Os that continued a stream."""
    sequential_share: float | None
    """`sequential_ios` as a share of `ios`, 0 to 1; `null` without I/Os."""
    strictly_sequential_ios: int
    """I/Os that started where the previous I/O ended."""
    backward_sequential_ios: int
    """I/Os that ended where the previous I/O started."""
    runs: int
    """Number of runs, those of a single I/O included."""
    run_ios: RunLengths
    """Lengths of runs in I/Os."""
    run_bytes: RunLengths
    """Lengths of runs in bytes."""
    peak_concurrent_streams: int
    """The largest number of streams (runs of four I/Os or more) at the same time. An estimate: counted every 128
    I/Os; at most 1,024.
    """

class SummaryProfile(Struct, kw_only=True, gc=False):
    """blkparse's summary, as numbers."""
    name: str
    """blkparse's name: that of the input, or `major,minor` of a device in a merged stream."""
    events: int
    """Events counted."""
    first_ns: int
    """Time of the first event, in ns since the trace began."""
    last_ns: int
    """Time of the last event, in ns since the trace began."""
    max_depth: list[int]
    """The most requests between dispatch and completion: reads, writes."""
    skips: list[int]
    """Gaps in the sequence numbers of each CPU: their number, and the number of missing events. Counted only in a
    merged stream, otherwise 0.
    """
    cpus: dict[str, Tally]
    """Counts by the number of the CPU."""
    total: Tally
    """Counts of all CPUs together."""

class Tally(Struct, kw_only=True, gc=False):
    """Counts of a CPU, or of all CPUs together."""
    queued: list[Amount]
    """Bios queued: reads, writes."""
    dispatched: list[Amount]
    """Requests dispatched: reads, writes. The bytes of requeues are subtracted."""
    requeued: list[Amount]
    """Requests requeued: reads, writes."""
    completed: list[Amount]
    """Requests or bios completed: reads, writes."""
    merged: list[Amount]
    """Bios merged into requests, at the back or the front: reads, writes."""
    passthrough_queued: list[Amount]
    """Pass-through commands queued: reads, writes."""
    passthrough_dispatched: list[Amount]
    """Pass-through commands dispatched: reads, writes. The bytes of requeues are subtracted."""
    passthrough_requeued: list[Amount]
    """Pass-through commands requeued: reads, writes."""
    passthrough_completed: list[Amount]
    """Pass-through commands completed: reads, writes."""
    unplugs: int
    """Explicit unplugs."""
    timer_unplugs: int
    """Unplugs by timer or scheduler."""
    events: int
    """Events of all kinds."""

class TimeSumProfile(Struct, kw_only=True, gc=False):
    """Some I/Os and their mean time."""
    ios: int
    """I/Os."""
    mean_ns: float | None
    """Mean Q2C, in ns; `null` if there are none."""
    start_ns: int | None
    """When the first was queued, in ns since the trace began; `null` if there are none."""
    end_ns: int | None
    """When the last completed, in ns since the trace began; `null` if there are none."""

class TraceInfo(Struct, kw_only=True, gc=False):
    """Information about a trace. It changes while reading, and is final at the end of the source."""
    format: str
    """Name of the trace's format, which `--format` accepts."""
    capabilities: Capabilities
    """What the trace contains."""
    inputs: list[Input]
    """The inputs, with their files."""
    start_unix_ns: int | None
    """Wall-clock time of the trace's time zero, in ns since 1970; `null` if the format does not record it."""
    bytes_read: int
    """Bytes read, after decompression; of a Parquet file, its size."""
    messages: int
    """Notes in the trace that are not events, which blkparse leaves out of its text."""
    out_of_order: int
    """Events with a time before that of their predecessor in one stream."""
    sequence_gaps: int
    """Events that are missing according to sequence numbers."""
    device_names: list[tuple[int, str]]
    """Devices that the trace names without numbers: the number that blklab gave to each (major number times 2^20,
    plus minor number), and its name.
    """
    dropped: int | None
    """Events that the kernel dropped while recording; `null` if no sidecar file next to the trace says it."""
    stack: list[RecordedLayer]
    """The recorded devices and those below them, from the sidecar file; empty without one."""
    warnings: list[Warning]
    """Problems that did not stop the analysis, at most 50."""

class UserProfile(Struct, kw_only=True, gc=False):
    """A process and the device that its I/O came from, and what its I/Os waited behind. Only I/Os count for which a
    program waits: reads, synchronous writes and flushes.
    """
    process: str
    """Name of the process."""
    pid: int
    """Process id."""
    source: str
    """The device that the I/O was remapped from, `major,minor` or `direct`."""
    all: TimeSumProfile
    """All its I/Os."""
    own_depth: float
    """Mean number of I/Os that the user itself had in flight when it queued another one."""
    commits: TimeSumProfile
    """Its commits: flushes, writes with a flush or forced unit access, and what a filesystem's journal writes."""
    behind_writeback: TimeSumProfile
    """Other I/Os that found writeback in flight."""
    behind_resync: TimeSumProfile
    """Other I/Os that found I/O of md's resync in flight."""
    behind_commits: TimeSumProfile
    """Other I/Os that found commits of another process in flight."""
    by_rival_depth: list[RivalLevel]
    """The rest, by the I/Os in flight of the other user that had most of them."""
    rivals: list[RivalProfile]
    """The other users with at least 8 I/Os in flight, that with most I/Os behind it first."""

class UsersProfile(Struct, kw_only=True, gc=False):
    """The users of a device."""
    users: list[UserProfile]
    """The users that wait longest; at most 32."""
    callers: list[CallerProfile]
    """Who commits, the most frequent first."""
    shallow_reads: TimeSumProfile
    """Reads of all users that found at most 3 I/Os in flight, and no background I/O."""
    shallow_writes: TimeSumProfile
    """Everything else, without commits, that found at most 3 I/Os in flight, and no background I/O."""
    idle_reads: TimeSumProfile
    """Reads of all users that found nothing in flight."""
    idle_writes: TimeSumProfile
    """Writes of all users that found nothing in flight, with commits that have data."""

class WaitSlice(Struct, kw_only=True, gc=False):
    """What programs waited for in a slice of time: Q2C of the I/Os that were queued in it, added up."""
    all_ns: int
    """All I/Os for which a program waits, in ns."""
    writeback_ns: int
    """Those that found writeback in flight, in ns."""
    commits_ns: int
    """Those that found commits of another process in flight, in ns."""

class WaitsOverTime(Struct, kw_only=True, gc=False):
    """What programs waited for, over time."""
    width_ns: int
    """Width of a slice of time, in ns."""
    slices: list[WaitSlice]
    """The slices from time 0, at most 512; idle ones at the end are left out."""

class WaitsProfile(Struct, kw_only=True, gc=False):
    """Q2C of I/Os for which a program waits (reads, synchronous writes, flushes), in ns, by the background I/O that
    was in flight when they were queued: writeback (writes without flag S), or md's resync, check or recovery.
    """
    alone: QuantilesSummary
    """No background I/O was in flight."""
    behind_writeback: QuantilesSummary
    """Writeback was in flight."""
    behind_resync: QuantilesSummary
    """I/O of md's resync was in flight."""
    behind_commits: QuantilesSummary
    """Of those without background I/O: commits of another process were in flight (flushes, writes with a flush or
    forced unit access, and what a filesystem's journal writes).
    """
    deep: QuantilesSummary
    """Those that found at least 16 I/Os in flight for which programs wait."""
    flushing: QuantilesSummary
    """All I/Os that flush the disk's cache: flushes, writes with a flush before them, and writes with forced unit
    access.
    """
    over_time: WaitsOverTime
    """The time of all these I/Os, over time."""

class ZipfFit(Struct, kw_only=True, gc=False):
    """Zipf's law, fitted to the popularity of blocks."""
    verdict: ZipfVerdict
    """The verdict."""
    reason: str
    """The reason for the verdict, in one sentence."""
    exponent: float | None
    """Exponent of the best fit by maximum likelihood, also if the verdict is not `zipf`; `null` if none could be
    fitted.
    """
    ks_distance: float | None
    """Largest gap between the observed and the fitted shares of the accesses, 0 to 1 (Kolmogorov-Smirnov); `null` if
    nothing could be fitted.
    """
    gain_over_uniform_nats: float | None
    """Gain of the fit in log-likelihood over uniform access, in nats for each access; `null` if nothing could be
    fitted.
    """
    fitted_blocks: int
    """Number of blocks that were fitted: the hottest ones."""
    fitted_from_accesses: int
    """Fewest accesses to a block that was fitted."""

class Profile(Struct, kw_only=True, gc=False):
    """A characterised trace."""
    format_version: int
    """Version of this document: 1. A change of meaning increases it, a new key does not."""
    trace: TraceInfo
    """The trace: its inputs, format, capabilities and warnings."""
    filter: Filter
    """Which I/Os were selected."""
    events: int
    """Events read, before the filter."""
    events_left_out: int
    """Events of devices beyond the first 1,024; no figure includes them."""
    focus: str | None
    """Number (`major,minor`) of the device that the whole workload passes through, to look at first; `null` without
    devices.
    """
    first_ns: int
    """Time of the first event, in ns since the trace began, before the filter."""
    last_ns: int
    """Time of the last event, in ns since the trace began, before the filter."""
    device_names: dict[str, str]
    """Names of all devices with a name, by number (`major,minor`), before the filter."""
    process_names: list[str]
    """The first 64 names of processes, in order of appearance, before the filter."""
    devices: list[DeviceProfile]
    """Every device, in order of appearance."""
    summary: list[SummaryProfile]
    """The summary that blkparse prints at the end, for each input or device."""

ArrivalPattern = Literal["steady", "random", "bursty"]
StartAction = Literal["Q", "D", "C"]
ZipfVerdict = Literal["zipf", "uniform", "not zipf"]
