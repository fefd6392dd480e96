//! What a simulated run measured: fio's figures, and those of every disk and array beneath.

use serde::Serialize;

use crate::bio::Op;
use crate::events::Time;
use crate::queue::request::Request;
use blklab_stats::{Merge, Quantiles, QuantilesSummary, Timeline};

/// The result of one run. Times in ns.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Simulated time that counts: without the ramp.
    pub runtime_ns: u64,
    /// Simulated time that devices were watched: all of it, the ramp included.
    pub watched_ns: u64,
    /// The jobs' reads.
    pub read: Direction,
    /// The jobs' writes.
    pub write: Direction,
    /// Every job group apart.
    pub groups: Vec<Group>,
    /// What each disk did.
    pub devices: Vec<DiskStats>,
    /// What each array did.
    pub arrays: Vec<ArrayStats>,
    /// The jobs' I/Os over time.
    pub series: Vec<Point>,
    /// Time that the jobs spent on their processors, all together.
    pub processor_ns: u64,
    /// Simulated I/Os at the top and at the disks, for benchmarks.
    pub simulated_ios: u64,
}

/// One direction's figures in fio's words.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// I/Os that were submitted after the ramp.
    pub total_ios: u64,
    /// Bytes of all that were completed after the ramp.
    pub io_bytes: u64,
    /// `total_ios` per second: what was in flight when the ramp ended has its latency counted and its bytes, as in
    /// fio, but is no I/O (ioengines.c, `td_io_queue`; libfio.c, `reset_all_stats`).
    pub iops: f64,
    /// Bytes per second.
    pub bw_bytes: f64,
    /// From submission to completion.
    pub clat_ns: Latency,
}

/// Completion latencies.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Their quantiles.
    #[serde(flatten)]
    pub summary: QuantilesSummary,
    /// Middles of bins and the I/Os in them, as fio's JSON+ has them; not of single groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<(u64, u64)>,
}

/// Bins to a factor of ten: four to each of a chart's ten.
const BINS: u32 = 40;

/// One job group's figures.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its reads.
    pub read: Direction,
    /// Its writes.
    pub write: Direction,
}

/// What a disk did, in the words of /proc/diskstats; indexed by read and write.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskStats {
    /// The device's name.
    pub name: String,
    /// Requests completed.
    pub ios: [u64; 2],
    /// Bios that were put to a waiting request.
    pub merges: [u64; 2],
    /// Sectors moved.
    pub sectors: [u64; 2],
    /// Time from tag to completion, all requests together.
    pub ticks_ns: [u64; 2],
    /// Flushes, and the time they took.
    pub flushes: u64,
    /// Time spent flushing.
    pub flush_ns: u64,
    /// Time in which something was in the disk: what utilisation counts.
    pub busy_ns: u64,
    /// What kept it busy.
    pub work: Work,
    /// Tasks that slept because all tags were taken.
    pub tag_waits: u64,
    /// Tasks that slept in the writeback throttle.
    pub throttle_waits: u64,
}

/// What a disk's parts did. Times of parts that work side by side are their mean.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Work {
    /// The interface and the controller.
    pub interface_ns: u64,
    /// Flash dies, or a rotating disk's mechanism.
    pub media_ns: u64,
    /// Reads answered from the disk's memory.
    pub cache_hits: u64,
}

impl DiskStats {
    /// Nothing yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Counts a completed request.
    #[inline]
    pub fn count(&mut self, now: Time, request: &Request) {
        let index = request.op as usize;
        self.ios[index] += 1;
        self.sectors[index] += u64::from(request.sectors);
        self.ticks_ns[index] += now - request.start;
    }
}

/// What an array did.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArrayStats {
    /// Its name.
    pub name: String,
    /// Reads of each slot by the balancer's reason.
    pub slots: Vec<SlotStats>,
    /// Bytes that a resync, recovery or check has covered.
    pub sync_bytes: u64,
    /// Writes of the bitmap.
    pub bitmap_writes: u64,
}

/// What the balancer gave a slot.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlotStats {
    /// Reads for which there was no choice.
    pub only: u64,
    /// Reads that continued a run or the head's position.
    pub sequential: u64,
    /// Reads for which it had the fewest I/Os pending, or none.
    pub idlest: u64,
    /// Reads for which its head was nearest.
    pub nearest: u64,
    /// Reads for which its copy has the lowest address.
    pub lowest: u64,
    /// Writes, all copies counted.
    pub writes: u64,
}

/// A moment of the run.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Its beginning.
    pub time_ns: u64,
    /// How long it is.
    pub width_ns: u64,
    /// I/Os done in it, reads and writes.
    pub ios: [u64; 2],
    /// Bytes moved in it.
    pub bytes: [u64; 2],
    /// Mean completion latency in it, if anything completed.
    pub clat_ns: [Option<f64>; 2],
}

/// Counts of one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    ios: [u64; 2],
    bytes: [u64; 2],
    latency: [u64; 2],
}

impl Merge for Moment {
    fn merge(&mut self, other: &Self) {
        for i in 0..2 {
            self.ios[i] += other.ios[i];
            self.bytes[i] += other.bytes[i];
            self.latency[i] += other.latency[i];
        }
    }
}

/// One direction's sums.
#[derive(Clone, Debug, Default)]
struct Sum {
    latencies: Quantiles,
    ios: u64,
    bytes: u64,
}

/// Gathers the jobs' I/Os.
#[derive(Debug)]
pub struct Gathering {
    groups: Vec<(String, [Sum; 2])>,
    series: Timeline<Moment>,
    ramp: Time,
    /// I/Os counted so far.
    pub ios: u64,
}

impl Gathering {
    /// Nothing yet; what completes before `ramp` is not counted.
    pub fn new(groups: impl Iterator<Item = String>, ramp: Time) -> Self {
        let groups = groups.map(|name| (name, Default::default())).collect();
        Self { groups, series: Timeline::new(200), ramp, ios: 0 }
    }

    /// Counts an I/O that took from `start` to `now`.
    #[inline(always)]
    pub fn count(&mut self, group: usize, op: Op, bytes: u32, start: Time, now: Time) {
        if now < self.ramp {
            return;
        }
        let index = op as usize;
        self.ios += 1;
        let sum = &mut self.groups[group].1[index];
        sum.latencies.record(now - start);
        sum.ios += u64::from(start >= self.ramp);
        sum.bytes += u64::from(bytes);
        let moment = self.series.at(now - self.ramp);
        moment.ios[index] += 1;
        moment.bytes[index] += u64::from(bytes);
        moment.latency[index] += now - start;
    }

    /// The figures of a run that ended at `end`.
    pub fn finish(self, end: Time) -> (u64, Vec<Group>, [Direction; 2], Vec<Point>) {
        let runtime = end.saturating_sub(self.ramp).max(1);
        let mut all: [Sum; 2] = Default::default();
        let mut groups = Vec::new();
        for (name, directions) in &self.groups {
            for (sum, one) in all.iter_mut().zip(directions) {
                sum.latencies.merge(&one.latencies);
                sum.ios += one.ios;
                sum.bytes += one.bytes;
            }
            let [read, write] = directions.each_ref().map(|d| direction(d, runtime));
            groups.push(Group { name: name.clone(), read, write });
        }
        let width = self.series.width_ns();
        let point = |(time_ns, m): (u64, &Moment)| Point {
            time_ns,
            width_ns: width.min(runtime.saturating_sub(time_ns)).max(1),
            ios: m.ios,
            bytes: m.bytes,
            clat_ns: [0, 1].map(|i| (m.ios[i] > 0).then(|| m.latency[i] as f64 / m.ios[i] as f64)),
        };
        let series = self.series.iter().map(point).collect();
        (runtime, groups, all.each_ref().map(|d| binned(&d.latencies, direction(d, runtime))), series)
    }
}

fn direction(sum: &Sum, runtime: u64) -> Direction {
    let seconds = runtime as f64 / 1e9;
    Direction {
        total_ios: sum.ios,
        io_bytes: sum.bytes,
        iops: sum.ios as f64 / seconds,
        bw_bytes: sum.bytes as f64 / seconds,
        clat_ns: Latency { summary: sum.latencies.summary(), bins: Vec::new() },
    }
}

/// Gives a direction the histogram of its latencies.
fn binned(latencies: &Quantiles, mut direction: Direction) -> Direction {
    let bins = latencies.log_buckets(BINS);
    let filled = bins.into_iter().filter(|bin| bin.2 > 0);
    direction.clat_ns.bins = filled.map(|(low, high, ios)| (low + (high - low) / 2, ios)).collect();
    direction
}
