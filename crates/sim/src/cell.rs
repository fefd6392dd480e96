//! What the simulator is asked: one cell of an experiment, everything resolved.
//!
//! This is the contract with `python/blklab/spec`, which makes it from a TOML file, and arrives as JSON.
//! Sizes are bytes, times are nanoseconds, rates are per second. Unknown fields are errors.

use serde::{Deserialize, Serialize};

/// One cell: devices put together to a stack, and the jobs that use it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Everything random follows from this; the same cell and seed give the same result everywhere.
    pub seed: u64,
    /// The kernel generation, such as "4.19" or "6.1": decides how md balances and what is throttled.
    pub kernel: String,
    /// What the host's processor needs for one I/O.
    #[serde(default)]
    pub host: Host,
    /// The disks. The stack names them by their place in this list, each exactly once.
    pub devices: Vec<Device>,
    /// What the jobs see.
    pub stack: Node,
    /// The filesystem whose journal commits interrupt the jobs; none is a raw device.
    #[serde(default)]
    pub filesystem: Option<Filesystem>,
    /// What is asked of the stack, all at the same time; empty when a trace is replayed.
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// How to replay a trace, whose I/Os are given beside the cell.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// Stop after this much simulated time.
    #[serde(default)]
    pub runtime_ns: Option<u64>,
    /// What completes before this does not count, as fio's `ramp_time`.
    #[serde(default)]
    pub ramp_ns: u64,
    /// Stop after this many I/Os counted, all jobs together; bounds what a long test costs.
    #[serde(default)]
    pub max_ios: Option<u64>,
    /// The interval of the series over time; 0 is a hundredth of the run.
    #[serde(default)]
    pub series_ns: u64,
}

/// Processor time spent on I/Os, by the job that issues them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// To make and submit one I/O to a device, system call included.
    pub submit_ns: u64,
    /// To reap one completion.
    pub reap_ns: u64,
    /// From a completion until a sleeping job runs.
    pub wake_ns: u64,
    /// What each array on the way adds to an I/O.
    pub md_ns: u64,
}

impl Default for Host {
    /// A server of 2018 at 3.7 GHz: fio on an NVMe spends 3.4 µs of processor time on a 4 KiB read
    /// (fio's usr + sys over its IOPS).
    fn default() -> Self {
        Self { submit_ns: 2_200, reap_ns: 1_200, wake_ns: 3_000, md_ns: 600 }
    }
}

/// One disk: what it is, and how the kernel queues for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The name in results.
    pub name: String,
    /// How much of it the stack may use: the size of the partition, say.
    pub bytes: u64,
    /// Where on the disk that begins.
    #[serde(default)]
    pub start: u64,
    /// How it behaves.
    pub model: Model,
    /// The block layer above it.
    pub queue: Queue,
}

/// The block layer's queue of one disk, as in `/sys/block/*/queue`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The elevator.
    pub scheduler: Scheduler,
    /// Requests that the elevator holds, those in the device included (`nr_requests`).
    pub nr_requests: u32,
    /// Requests that the device holds: NCQ's 32, or an NVMe queue's length.
    pub queue_depth: u32,
    /// The largest request (`max_sectors_kb`, in bytes).
    pub max_bytes: u32,
    /// What md sees in `queue/rotational`.
    pub rotational: bool,
    /// The read latency that writeback throttling guards (`wbt_lat_usec`); 0 is off.
    pub wbt_lat_ns: u64,
    /// Whether the kernel believes that the device has a volatile write cache (`queue/write_cache`).
    pub write_back: bool,
}

/// I/O schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// First come, first served (`none`, and `noop` which also merges).
    None,
    /// As `none`, with merging: the old kernels' `noop`.
    Noop,
    /// Sorted batches with deadlines, of multi-queue kernels.
    MqDeadline,
    /// The same of single-queue kernels.
    Deadline,
    /// Fair queueing among processes, of single-queue kernels.
    Cfq,
}

/// How a disk behaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Model {
    /// A flash disk behind SATA or SAS.
    Ssd(Flash),
    /// A flash disk behind PCIe.
    Nvme(Flash),
    /// A rotating disk.
    Hdd(Hdd),
    /// A virtual disk with QEMU's throttling and nothing else.
    Throttled(Throttled),
}

/// A flash disk: an interface that serves one command after the other, then many flash units at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// What the interface and the controller need for a read command, whatever its size.
    pub read_command_ns: u64,
    /// The same for a write.
    pub write_command_ns: u64,
    /// Bytes per second from the disk.
    pub read_bandwidth: u64,
    /// Bytes per second to the disk.
    pub write_bandwidth: u64,
    /// The part of a read's latency in which nothing is occupied.
    pub read_latency_ns: u64,
    /// The same of a write, into the disk's memory.
    pub write_latency_ns: u64,
    /// Flash dies that work side by side.
    pub units: u32,
    /// What a die reads at once: requests within it are served together.
    pub page_bytes: u32,
    /// To read a page from flash.
    pub page_read_ns: u64,
    /// What a die programs at once, and therefore how much of what was written in sequence lies on one die:
    /// three pages on each plane, for three bits a cell.
    pub program_bytes: u32,
    /// To program that much.
    pub program_ns: u64,
    /// What may be acknowledged before it is programmed.
    pub buffer_bytes: u64,
    /// What a read waits when it interrupts a program.
    pub suspend_ns: u64,
}

/// A rotating disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// The whole disk.
    pub capacity: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Bytes on a track at the rim, where sector 0 is.
    pub outer_track_bytes: u64,
    /// Bytes on a track at the hub.
    pub inner_track_bytes: u64,
    /// Recording surfaces.
    pub heads: u32,
    /// The shortest seek, to a neighbouring track, with settling.
    pub seek_track_ns: u64,
    /// The average seek, over a third of the disk.
    pub seek_average_ns: u64,
    /// The longest seek.
    pub seek_full_ns: u64,
    /// The disk's own work on a command, before the head moves (data sheets: "command overhead").
    pub command_ns: u64,
    /// What a controller adds to a command before the disk has it; others are served meanwhile.
    #[serde(default)]
    pub controller_ns: u64,
    /// By what it orders the commands in its queue.
    #[serde(default)]
    pub order: Order,
    /// Bytes per second between host and disk.
    pub bandwidth: u64,
    /// The disk's memory.
    pub cache_bytes: u64,
    /// How many sequential streams its read-ahead follows at a time.
    pub read_streams: u32,
    /// How far it reads ahead.
    pub read_ahead_bytes: u64,
    /// Whether writes are acknowledged from the volatile cache.
    pub write_cache: bool,
    /// How many writes it keeps unwritten at most.
    pub write_cache_requests: u32,
    /// What a flush costs, however little there is to write: much with shingled tracks.
    pub flush_ns: u64,
    /// What writing a request from the cache costs beside seek and rotation: shingled disks keep a journal.
    pub destage_ns: u64,
}

/// By what a disk orders the commands in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The time to reach each, rotation included: native command queueing.
    #[default]
    Rotation,
    /// The distance: an elevator in the controller, which does not know the angle.
    Seek,
    /// The order of arrival.
    Arrival,
}

/// QEMU's throttling: a leaky bucket without burst; 0 is unlimited.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Throttled {
    /// Operations per second, both directions.
    pub iops_total: f64,
    /// Reads per second.
    pub iops_read: f64,
    /// Writes per second.
    pub iops_write: f64,
    /// Bytes per second, both directions.
    pub bps_total: f64,
    /// Bytes read per second.
    pub bps_read: f64,
    /// Bytes written per second.
    pub bps_write: f64,
    /// What an I/O takes besides.
    pub latency_ns: u64,
}

/// A disk or an array of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Node {
    /// The disk at this place of the cell's list.
    Device(usize),
    /// An md array.
    Md(Md),
}

/// An md array.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Md {
    /// The name in results, such as `md4`.
    pub name: String,
    /// How members are put together.
    pub level: Level,
    /// The chunk; levels 1 and linear have none.
    #[serde(default)]
    pub chunk: u64,
    /// RAID-10's layout word's three parts; ignored elsewhere.
    #[serde(default)]
    pub near: u32,
    /// Far copies; with `offset`, the offset ones.
    #[serde(default)]
    pub far: u32,
    /// Whether the far copies are at the next chunk's place.
    #[serde(default)]
    pub offset: bool,
    /// The members, by slot.
    pub members: Vec<Member>,
    /// Stripe cache entries of levels 4, 5 and 6 (pages per member).
    #[serde(default = "stripe_cache")]
    pub stripe_cache: u32,
    /// Whether there is a write-intent bitmap.
    #[serde(default)]
    pub bitmap: bool,
    /// Bytes that one bit stands for: of the array, or with parity of each member.
    #[serde(default = "bitmap_chunk")]
    pub bitmap_chunk: u64,
    /// What runs beside the load.
    #[serde(default)]
    pub sync: Sync,
    /// KiB/s per member that a resync makes whatever the load (`sync_speed_min`).
    #[serde(default = "sync_min")]
    pub sync_speed_min: u64,
    /// KiB/s per member that it never exceeds (`sync_speed_max`).
    #[serde(default = "sync_max")]
    pub sync_speed_max: u64,
}

fn stripe_cache() -> u32 {
    256
}
fn bitmap_chunk() -> u64 {
    64 << 20
}
fn sync_min() -> u64 {
    1_000
}
fn sync_max() -> u64 {
    200_000
}

/// One slot of an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// What is in the slot; none is a missing member.
    pub node: Option<Node>,
    /// Read from it only if nothing else is left.
    #[serde(default)]
    pub write_mostly: bool,
    /// Being rebuilt: written, not read.
    #[serde(default)]
    pub rebuilding: bool,
}

/// md's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Members one after the other.
    Linear,
    /// Striping.
    Raid0,
    /// Mirroring.
    Raid1,
    /// Striped mirroring, by layout.
    Raid10,
    /// Parity on the last member.
    Raid4,
    /// Rotating parity, left-symmetric.
    Raid5,
    /// Two rotating parities, left-symmetric.
    Raid6,
}

/// What md does to an array beside serving it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Nothing: clean.
    #[default]
    Idle,
    /// Making the copies equal, after creation or a crash.
    Resync,
    /// Filling the members that are `rebuilding`.
    Recover,
    /// Comparing the copies.
    Check,
}

/// A journalling filesystem with one file: overwriting changes its time stamps, and the journal commits them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Time between commits while something changes: ext4's `commit=5`.
    pub commit_ns: u64,
}

/// A group of equal jobs, in fio's words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The group's name.
    pub name: String,
    /// How many of them.
    pub numjobs: u32,
    /// The share of reads, 0 to 1.
    pub read_share: f64,
    /// Whether offsets are random.
    pub random: bool,
    /// Where random offsets fall.
    #[serde(default)]
    pub distribution: Distribution,
    /// Sizes of reads, as (bytes, weight).
    pub read_sizes: Vec<(u32, f64)>,
    /// Sizes of writes.
    pub write_sizes: Vec<(u32, f64)>,
    /// Offsets are multiples of this (`blockalign`).
    pub align: u32,
    /// Where the job's region begins on the stack.
    pub offset: u64,
    /// How long the region is.
    pub size: u64,
    /// Each job's region begins this much after the one before (`offset_increment`).
    #[serde(default)]
    pub offset_increment: u64,
    /// How much each job does; it goes round its region if that is more (`io_size`).
    pub io_bytes: u64,
    /// I/Os in flight of each job.
    pub iodepth: u32,
    /// I/Os submitted together (`iodepth_batch_submit`).
    pub batch_submit: u32,
    /// I/Os to wait for before reaping (`iodepth_batch_complete_min`).
    pub batch_complete_min: u32,
    /// Submit again only when no more than this are in flight (`iodepth_low`); 0 is at once.
    #[serde(default)]
    pub iodepth_low: u32,
    /// A flush after every so many writes (`fsync`); 0 is never.
    #[serde(default)]
    pub fsync: u32,
    /// The share of writes followed by a flush, at random.
    #[serde(default)]
    pub fsync_share: f64,
    /// A pause…
    #[serde(default)]
    pub thinktime_ns: u64,
    /// … after so many I/Os (`thinktime_blocks`).
    #[serde(default = "one")]
    pub thinktime_blocks: u32,
    /// I/Os per second of each job at most (`rate_iops`); 0 is unlimited.
    #[serde(default)]
    pub rate_iops: f64,
}

fn one() -> u32 {
    1
}

/// Where random offsets fall, fio's `random_distribution`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Everywhere alike.
    #[default]
    Random,
    /// Zipf's law, scattered over the region.
    Zipf {
        /// The exponent.
        theta: f64,
    },
    /// Pareto's, scattered over the region.
    Pareto {
        /// The power, 0 to 1.
        h: f64,
    },
    /// Gaussian about the middle.
    Normal {
        /// The deviation, in percent of the region.
        deviation: f64,
    },
    /// Zones, as (percent of accesses, percent of the region).
    Zoned {
        /// In the order of the region.
        zones: Vec<(f64, f64)>,
    },
}

/// How a trace is replayed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// At the recorded times (open loop); otherwise as fast as `iodepth` allows.
    pub timed: bool,
    /// I/Os in flight at most in the closed loop.
    pub iodepth: u32,
    /// Times are divided by this.
    #[serde(default = "unity")]
    pub speed: f64,
}

fn unity() -> f64 {
    1.0
}
