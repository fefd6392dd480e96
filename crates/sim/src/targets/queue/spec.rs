//! A disk and its queue in an experiment.

use serde::{Deserialize, Serialize};

use crate::device::Model;

/// One disk: its model, and how the kernel queues for it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The name in results.
    pub name: String,
    /// The bytes that the stack can use, such as the size of a partition.
    pub bytes: u64,
    /// The first of them on the disk.
    #[serde(default)]
    pub start: u64,
    /// The model of the disk.
    pub model: Model,
    /// The block layer's queue.
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
    /// Requests that the device holds: 32 with NCQ, or the length of an NVMe queue.
    pub queue_depth: u32,
    /// The largest request (`max_sectors_kb`, in bytes).
    pub max_bytes: u32,
    /// `queue/rotational`, which md reads.
    pub rotational: bool,
    /// The read latency that writeback throttling guards (`wbt_lat_usec`); 0 is off.
    pub wbt_lat_ns: u64,
    /// Whether the kernel assumes a volatile write cache (`queue/write_cache`).
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
    /// Sorted batches with deadlines, in multi-queue kernels.
    MqDeadline,
    /// The same in single-queue kernels.
    Deadline,
    /// Fair queueing among processes, in single-queue kernels.
    Cfq,
}
