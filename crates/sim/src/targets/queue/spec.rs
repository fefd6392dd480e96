//! What an experiment says of a disk and its queue.

use serde::{Deserialize, Serialize};

use crate::device::Model;

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
    pub queue: QueueSettings,
}

/// The block layer's queue of one disk, as in `/sys/block/*/queue`.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
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
