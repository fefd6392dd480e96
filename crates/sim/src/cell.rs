//! What the simulator is asked: one cell of an experiment, everything resolved.
//!
//! This is the contract with `python/blklab/spec`, which makes it from a TOML file, and arrives as JSON.
//! Sizes are bytes, times are nanoseconds, rates are per second. Unknown fields are errors.

pub use crate::device::{FlashSpec, HddSpec, Model, Order, ThrottledSpec};
pub use crate::load::{Distribution, Filesystem, Host, Job, Replay};
pub use crate::targets::Node;
pub use crate::targets::delay::Delay;
pub use crate::targets::md::{Level, Md, Member, SyncAction};
pub use crate::targets::queue::{Device, QueueSettings, Scheduler};

use serde::{Deserialize, Serialize};

/// One cell: devices put together to a stack, and the jobs that use it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The interval of the series over time, for runners that measure. The simulator takes the finest power of two of ns
    /// that gives at most 200 points.
    #[serde(default)]
    pub series_ns: u64,
}
