//! Disks: how they behave, and how the kernel queues for them.

use serde::{Deserialize, Serialize};

/// One disk: what it is, and how the kernel queues for it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// QEMU's throttling: leaky buckets without bursts of their own; 0 is unlimited.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
