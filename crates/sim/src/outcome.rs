//! The measurements of a simulated run: fio's figures, and those of every disk and array.

use serde::Serialize;

use crate::engine::FinishedRun;
pub use crate::metrics::{Direction, Group, Latency, Point, Syncs};
use crate::targets;
pub use crate::targets::TargetReport;
pub use crate::targets::delay::DelayReport;
pub use crate::targets::md::{MdReport, SlotStats};
pub use crate::targets::queue::DiskStats;

/// The result of one run. Times in ns.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub runtime_ns: u64,            // Simulated time that counts, without the ramp
    pub watched_ns: u64,            // Simulated time in which devices were measured: all of it, the ramp included
    pub read: Direction,            // The jobs' reads
    pub write: Direction,           // The jobs' writes
    pub sync: Syncs,                // The jobs' fsyncs
    pub groups: Vec<Group>,         // Every job group separately
    pub devices: Vec<DiskStats>,    // What each disk did
    pub targets: Vec<TargetReport>, // What each target above the disks did, the lowest first
    pub series: Vec<Point>,         // The jobs' I/Os over time
    /// Look-ups in caches over time, as these count them: hits and misses in each interval that has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub look_ups: Vec<[u64; 2]>,
    pub processor_ns: u64,  // Processor time of all jobs together
    pub simulated_ios: u64, // Simulated I/Os at the top and at the disks, for benchmarks
}

impl Outcome {
    /// The measurements of a finished run.
    pub(crate) fn new(run: FinishedRun) -> Self {
        let FinishedRun { measured, now, cpu_time, targets } = run;
        let (devices, targets) = targets::reports(targets);
        let disk_ios: u64 = devices.iter().map(|disk| disk.ios[0] + disk.ios[1] + disk.flushes).sum();
        Self {
            runtime_ns: measured.runtime_ns,
            watched_ns: now,
            read: measured.read,
            write: measured.write,
            sync: measured.sync,
            groups: measured.groups,
            devices,
            targets,
            series: measured.series,
            look_ups: measured.look_ups,
            processor_ns: cpu_time,
            simulated_ios: measured.ios + disk_ios,
        }
    }
}
