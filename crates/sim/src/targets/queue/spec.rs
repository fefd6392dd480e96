//! A disk and its queue in documents: in an experiment and in its results.

use serde::{Deserialize, Serialize};

use crate::device::{DiskWork, Model};

/// One disk: its model, and how the kernel queues for it.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name in results.
    pub name: String,
    /// Bytes that the stack can use, such as the size of a partition.
    pub bytes: u64,
    /// Byte of the disk at which the bytes of the stack begin.
    #[serde(default)]
    pub start: u64,
    /// The model of the disk.
    pub model: Model,
    /// The block layer's queue.
    pub queue: QueueSettings,
    /// The controller in front of it, by its name in `controllers`; `null`: none that limits it.
    pub controller: Option<String>,
}

/// The block layer's queue of one disk, as in `/sys/block/*/queue`.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// Requests that the scheduler holds at most, those in the device included (`nr_requests`).
    pub nr_requests: u32,
    /// Requests that the device holds at most: 32 with NCQ, or the length of an NVMe queue.
    pub queue_depth: u32,
    /// Bytes of the largest request (`max_sectors_kb`).
    pub max_bytes: u32,
    /// Whether the kernel takes the disk for a rotating one (`rotational`), which md reads.
    pub rotational: bool,
    /// Read latency in ns that writeback throttling guards (`wbt_lat_usec`); 0 is off.
    pub wbt_lat_ns: u64,
    /// Whether the kernel assumes a volatile write cache (`write_cache`).
    pub write_back: bool,
}

/// I/O schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// First come, first served.
    #[default]
    None,
    /// As `none`, with merging: `noop` of old kernels.
    Noop,
    /// Sorted batches with deadlines, in multi-queue kernels.
    MqDeadline,
    /// As `mq-deadline`, in single-queue kernels.
    Deadline,
    /// Fair queueing of processes, in single-queue kernels.
    Cfq,
}

/// The statistics of a disk, in the words of /proc/diskstats.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct DiskStats {
    /// Name of the disk.
    pub name: String,
    /// Requests completed: reads, writes.
    pub ios: [u64; 2],
    /// Bios that were merged into a waiting request: reads, writes.
    pub merges: [u64; 2],
    /// Sectors moved: reads, writes.
    pub sectors: [u64; 2],
    /// Time from tag to completion in ns, all requests added up: reads, writes.
    pub ticks_ns: [u64; 2],
    /// Flushes completed.
    pub flushes: u64,
    /// Time in which the disk flushed, in ns.
    pub flush_ns: u64,
    /// Time in which the controller worked for this disk, in ns; 0 without a controller.
    pub controller_ns: u64,
    /// Time for which the controller held back completions of this disk, in ns, all added up.
    pub held_ns: u64,
    /// How often a write waited because the controller's write cache was full.
    pub cache_waits: u64,
    /// Time with something in the disk, in ns.
    pub busy_ns: u64,
    /// The work of the disk's parts.
    pub work: DiskWork,
    /// How often a task slept for a tag (`nr_requests`).
    pub tag_waits: u64,
    /// How often a task slept in the writeback throttle.
    pub throttle_waits: u64,
}
