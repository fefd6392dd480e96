//! A disk and its queue in an experiment.

use serde::{Deserialize, Serialize};

use crate::device::Model;

/// One disk: its model, and how the kernel queues for it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String, // The name in results
    pub bytes: u64,   // The bytes that the stack can use, such as the size of a partition
    /// The first of them on the disk.
    #[serde(default)]
    pub start: u64,
    pub model: Model,         // The model of the disk
    pub queue: QueueSettings, // The block layer's queue
}

/// The block layer's queue of one disk, as in `/sys/block/*/queue`.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    pub scheduler: Scheduler, // The elevator
    pub nr_requests: u32,     // Requests that the elevator holds, those in the device included (`nr_requests`)
    pub queue_depth: u32,     // Requests that the device holds: 32 with NCQ, or the length of an NVMe queue
    pub max_bytes: u32,       // The largest request (`max_sectors_kb`, in bytes)
    pub rotational: bool,     // `queue/rotational`, which md reads
    pub wbt_lat_ns: u64,      // The read latency that writeback throttling guards (`wbt_lat_usec`); 0 is off
    pub write_back: bool,     // Whether the kernel assumes a volatile write cache (`queue/write_cache`)
}

/// I/O schedulers.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    #[default]
    None, // First come, first served (`none`, and `noop` which also merges)
    Noop,       // As `none`, with merging: the old kernels' `noop`
    MqDeadline, // Sorted batches with deadlines, in multi-queue kernels
    Deadline,   // The same in single-queue kernels
    Cfq,        // Fair queueing among processes, in single-queue kernels
}
