//! What the simulator is asked: one cell of an experiment, everything resolved.
//!
//! This is the contract with `python/blklab/spec`, which makes it from a TOML file, and arrives as JSON.
//! Sizes are bytes, times are nanoseconds, rates are per second. Unknown fields are errors.

mod device;
mod job;
mod stack;

pub use device::*;
pub use job::*;
pub use stack::*;

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

/// Processor time spent on I/Os, by the job that issues them.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
