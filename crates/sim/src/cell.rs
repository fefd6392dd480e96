//! The simulator's input: one cell of an experiment, with every value resolved.
//!
//! `python/blklab/experiment` makes it from a TOML file; it arrives as JSON. Sizes are bytes, times are nanoseconds, rates
//! are per second. Unknown fields are errors.

pub use crate::device::{CommandOrder, Condition, ControllerSpec, FlashSpec, FlashUse, HddSpec, Model, ThrottledSpec};
pub use crate::load::{Distribution, Filesystem, Host, IO_URING_PER_CENT, Job, Log, Replay};
pub use crate::targets::Node;
pub use crate::targets::delay::Delay;
pub use crate::targets::md::{Level, Md, Member, SyncAction};
pub use crate::targets::queue::{Device, QueueSettings, Scheduler};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A filesystem's journal, which each flush of a job (`fsync`) commits, if a file has changed.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JournalSpec {
    /// How commits are written.
    pub log: Log,
    /// What the journal is on: an external journal of ext4, a log device of XFS; `null`: on the stack itself.
    #[serde(default)]
    pub device: Option<Node>,
}

/// A cell combines devices to a stack, and has the jobs that use it.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Seed of all random numbers: the same cell and seed give the same result everywhere.
    pub seed: u64,
    /// Kernel version, such as `4.19` or `6.1`. It decides, for example, how md balances reads and which writes are
    /// throttled.
    pub kernel: String,
    /// Processor time that the host needs for an I/O.
    #[serde(default)]
    pub host: Host,
    /// The disks. The stack names them by their index in this list, each exactly once.
    pub devices: Vec<Device>,
    /// Controllers that disks share, by name.
    #[serde(default)]
    pub controllers: BTreeMap<String, ControllerSpec>,
    /// What the jobs submit I/O to.
    pub stack: Node,
    /// The largest window of read-ahead of buffered reads, in bytes (`queue/read_ahead_kb` of the stack); `null`: the
    /// kernel's default.
    #[serde(default)]
    pub read_ahead_bytes: Option<u64>,
    /// Bytes of dirty pages above which buffered writes wait (`vm.dirty_bytes`); `null`: those of a host with 16 GiB.
    #[serde(default)]
    pub dirty_bytes: Option<u64>,
    /// Bytes of dirty pages above which the kernel writes them at once (`vm.dirty_background_bytes`); `null`: half of
    /// `dirty_bytes`.
    #[serde(default)]
    pub dirty_background_bytes: Option<u64>,
    /// The filesystem whose journal commits interrupt the jobs; `null`: the load uses the raw device.
    pub filesystem: Option<Filesystem>,
    /// Where the filesystem's journal is, and how a flush of a job commits; `null`: in the middle of the stack, and a
    /// flush of a job commits nothing.
    #[serde(default)]
    pub journal: Option<JournalSpec>,
    /// Whether the regions of the jobs are files that are spread over the stack; otherwise they lie as their offsets
    /// say.
    #[serde(default)]
    pub spread: bool,
    /// The workload, all jobs at the same time; empty when a trace is replayed.
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// Whether the load ran before at the same rate: bitmaps have set bits for what it wrote in the last seconds.
    #[serde(default)]
    pub ran_before: bool,
    /// How to replay a trace, whose I/Os are given separately from the cell; `null` without a trace.
    pub replay: Option<Replay>,
    /// Stop after this much simulated time after the ramp, in ns; `null`: no limit.
    pub runtime_ns: Option<u64>,
    /// What completes before this time does not count, in ns (fio's `ramp_time`).
    #[serde(default)]
    pub ramp_ns: u64,
    /// Stop when all jobs together have counted this many I/Os, which bounds the cost of a long test; `null`: no limit.
    pub max_ios: Option<u64>,
    /// Interval of the series over time in ns, for runners that measure. The simulator takes the finest power of two of
    /// ns that gives at most 200 points.
    #[serde(default)]
    pub series_ns: u64,
}
