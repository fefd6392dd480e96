//! The load: jobs, a filesystem's journal, a replayed trace, and the processor time of I/Os.

use serde::{Deserialize, Serialize};

/// A journalling filesystem with one file: overwriting it changes its time stamps, which the journal commits.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    pub commit_ns: u64, // Time between commits while something changes: ext4's `commit=5`
}

/// A group of equal jobs, in fio's words.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub name: String,    // The group's name
    pub numjobs: u32,    // How many of them
    pub read_share: f64, // The share of reads, 0 to 1
    pub random: bool,    // Whether offsets are random
    /// Where random offsets fall.
    #[serde(default)]
    pub distribution: Distribution,
    /// Whether random offsets visit every block once before they visit one again.
    #[serde(default)]
    pub random_map: RandomMap,
    pub read_sizes: Vec<(u32, f64)>,  // Sizes of reads, as (bytes, weight)
    pub write_sizes: Vec<(u32, f64)>, // Sizes of writes
    pub align: u32,                   // Offsets are multiples of this (`blockalign`)
    pub offset: u64,                  // Where the job's region begins on the stack
    pub size: u64,                    // How long the region is
    /// Each job's region begins this much after the one before (`offset_increment`).
    #[serde(default)]
    pub offset_increment: u64,
    /// Bytes that each job does; it starts again at the beginning of its region if that is more (`io_size`).
    pub io_bytes: u64,
    pub iodepth: u32,            // I/Os in flight of each job
    pub batch_submit: u32,       // I/Os submitted together (`iodepth_batch_submit`)
    pub batch_complete_min: u32, // I/Os to wait for before reaping (`iodepth_batch_complete_min`)
    /// Submit again only when at most this many are in flight (`iodepth_low`); 0: submit at once.
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
    #[serde(default = "one_job")]
    pub thinktime_blocks: u32,
    /// I/Os per second of each job at most (`rate_iops`); 0 is unlimited.
    #[serde(default)]
    pub rate_iops: f64,
}

fn one_job() -> u32 {
    1
}

/// Whether a job maps the blocks that it has visited, as fio does without `norandommap`.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomMap {
    #[default]
    Off, // Any block can be visited again at any time
    Repeated,   // Each pass has the same order: fio seeds its generator again (backend.c, `clear_io_state`)
    Reshuffled, // Each pass has another order: that of a `time_based` job (io_u.c, `get_next_rand_block`)
}

/// Where random offsets fall, fio's `random_distribution`.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Random,
    /// Zipf's law, scattered over the region.
    Zipf {
        theta: f64, // The exponent
    },
    /// Pareto's, scattered over the region.
    Pareto {
        h: f64, // The power, 0 to 1
    },
    /// Gaussian about the middle.
    Normal {
        deviation: f64, // The deviation, in percent of the region
    },
    /// Zones, as (percent of accesses, percent of the region).
    Zoned {
        zones: Vec<(f64, f64)>, // In the order of the region
    },
}

/// How a trace is replayed.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    pub timed: bool,  // At the recorded times (open loop); otherwise as fast as `iodepth` allows
    pub iodepth: u32, // I/Os in flight at most in the closed loop
    /// Times are divided by this.
    #[serde(default = "unity")]
    pub speed: f64,
}

fn unity() -> f64 {
    1.0
}

/// Processor time of I/Os, spent by the job that issues them.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    pub submit_ns: u64, // Time to prepare and submit one I/O to a device, system call included
    pub reap_ns: u64,   // Time to reap one completion
    pub wake_ns: u64,   // Time from a completion until a sleeping job runs
    pub md_ns: u64,     // Time that each array adds to an I/O
}

impl Default for Host {
    /// A server of 2018 at 3.7 GHz: fio on an NVMe spends 3.4 µs of processor time on a 4 KiB read
    /// (fio's usr + sys over its IOPS).
    fn default() -> Self {
        Self { submit_ns: 2_200, reap_ns: 1_200, wake_ns: 3_000, md_ns: 600 }
    }
}
