//! The measurements of a simulated run: fio's figures, and those of every disk and array.

use serde::Serialize;

use crate::engine::FinishedRun;
pub use crate::metrics::{Direction, Group, Latency, Point, Syncs};
use crate::targets;
pub use crate::targets::TargetReport;
pub use crate::targets::delay::DelayReport;
pub use crate::targets::locks::LockUse;
pub use crate::targets::md::{MdReport, SlotStats};
pub use crate::targets::queue::DiskStats;

/// The result of one run. Times are of the simulation.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Outcome {
    /// Simulated time that counts, in ns, without the ramp.
    pub runtime_ns: u64,
    /// Simulated time that the counters of devices and targets cover, in ns, with the ramp.
    pub watched_ns: u64,
    /// The jobs' reads.
    pub read: Direction,
    /// The jobs' writes.
    pub write: Direction,
    /// The jobs' fsyncs and fdatasyncs.
    pub sync: Syncs,
    /// Each job separately, with its clones together.
    pub groups: Vec<Group>,
    /// Counters of each disk.
    pub devices: Vec<DiskStats>,
    /// Counters of each block target above the disks, nested ones included, the lowest first.
    pub targets: Vec<TargetReport>,
    /// The jobs' I/Os over time.
    pub series: Vec<Point>,
    /// Look-ups in caches over time: hits and misses in each interval of the series that has some, as the caches count
    /// them. Missing without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub look_ups: Vec<[u64; 2]>,
    /// Processor time of all jobs together, in ns.
    pub processor_ns: u64,
    /// Share of the time in which the host's cores were busy, 0 to 1. Missing if every task had its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_busy: Option<f64>,
    /// I/Os of the jobs and of the disks below: the simulator's work.
    pub simulated_ios: u64,
}

impl Outcome {
    /// The measurements of a finished run.
    pub(crate) fn new(run: FinishedRun) -> Self {
        let FinishedRun { measured, now, cpu_time, cores_busy, targets } = run;
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
            cores_busy,
            simulated_ios: measured.ios + disk_ios,
        }
    }
}
