//! What the jobs measure, in fio's words.

use serde::Serialize;

use crate::bio::Op;
use crate::events::Time;
use blklab_stats::{Merge, Quantiles, QuantilesSummary, Timeline, merge_fields};

/// One direction's figures in fio's words.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Direction {
    /// I/Os submitted after the ramp, as fio counts them.
    pub total_ios: u64,
    /// Bytes of the I/Os completed after the ramp.
    pub io_bytes: u64,
    /// `total_ios` per second. Of I/Os in flight when the ramp ended, the latency and the bytes count, and not the I/O,
    /// as in fio (ioengines.c, `td_io_queue`; libfio.c, `reset_all_stats`).
    pub iops: f64,
    /// Bytes per second.
    pub bw_bytes: f64,
    /// Latency from submission to completion, in ns.
    pub clat_ns: Latency,
}

/// The jobs' fsyncs, as in fio's `sync`.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Syncs {
    /// Fsyncs and fdatasyncs completed after the ramp.
    pub total_ios: u64,
    /// `total_ios` per second.
    pub iops: f64,
    /// Latency from the call to its return, in ns.
    pub lat_ns: Latency,
}

/// Latencies in ns.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Latency {
    /// Their quantiles.
    #[serde(flatten)]
    pub summary: QuantilesSummary,
    /// The histogram: the middle of a bin in ns, and its I/Os, as in fio's JSON+. Missing for single groups, and
    /// without I/Os.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<(u64, u64)>,
}

/// Bins for each factor of ten: four for each of a chart's ten.
const BINS: u32 = 40;

/// One job group's figures.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Group {
    /// Name of the job.
    pub name: String,
    /// Its reads.
    pub read: Direction,
    /// Its writes.
    pub write: Direction,
}

/// One interval of the time series.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Point {
    /// Start of the interval, in ns since the end of the ramp.
    pub time_ns: u64,
    /// Length of the interval, in ns.
    pub width_ns: u64,
    /// I/Os completed in the interval: reads, writes.
    pub ios: [u64; 2],
    /// Bytes of the I/Os completed in the interval: reads, writes.
    pub bytes: [u64; 2],
    /// Mean latency from submission to completion of these I/Os, in ns: reads, writes; `null` if there were none.
    pub clat_ns: [Option<f64>; 2],
}

/// What the jobs of a run measured.
pub struct JobMetrics {
    pub runtime_ns: u64, // The time that counts: without the ramp
    pub read: Direction,
    pub write: Direction,
    pub sync: Syncs,
    pub groups: Vec<Group>, // Every job group separately
    pub series: Vec<Point>, // Over time
    /// Look-ups in caches, hits and misses, in each interval of the series that has some.
    pub look_ups: Vec<[u64; 2]>,
    pub ios: u64, // I/Os counted
}

/// Counts of one interval.
#[derive(Clone, Debug, Default)]
pub struct SeriesBin {
    ios: [u64; 2],
    bytes: [u64; 2],
    latency: [u64; 2],
    timed: [u64; 2], // I/Os whose latency counts
    cache: [u64; 2],
}

merge_fields!(SeriesBin: ios, bytes, latency, timed, cache);

#[derive(Clone, Debug, Default)]
struct DirectionSums {
    latencies: Quantiles,
    ios: u64,
    bytes: u64,
}

/// Counts the jobs' I/Os.
pub struct MetricsRecorder {
    groups: Vec<(String, [DirectionSums; 2])>,
    syncs: Quantiles,
    series: Timeline<SeriesBin>,
    ramp: Time,
    pub ios: u64, // I/Os counted so far
}

impl MetricsRecorder {
    /// A recorder without I/Os; those completed before `ramp` are not counted.
    pub fn new(groups: impl Iterator<Item = String>, ramp: Time) -> Self {
        let groups = groups.map(|name| (name, Default::default())).collect();
        Self { groups, syncs: Quantiles::default(), series: Timeline::new(200), ramp, ios: 0 }
    }

    /// Counts an I/O that took from `start` to `now`.
    #[inline(always)]
    pub fn record_io(&mut self, group: usize, op: Op, bytes: u32, start: Time, now: Time) {
        if now < self.ramp {
            return;
        }
        let index = op as usize;
        self.ios += 1;
        let sum = &mut self.groups[group].1[index];
        sum.latencies.record(now - start);
        sum.ios += u64::from(start >= self.ramp);
        sum.bytes += u64::from(bytes);
        let bin = self.series.at(now - self.ramp);
        bin.ios[index] += 1;
        bin.bytes[index] += u64::from(bytes);
        bin.latency[index] += now - start;
        bin.timed[index] += 1;
    }

    /// Counts an I/O for which no program waits: its latency is nobody's.
    pub fn record_background_io(&mut self, group: usize, op: Op, bytes: u32, start: Time, now: Time) {
        if now < self.ramp {
            return;
        }
        let index = op as usize;
        self.ios += 1;
        let sum = &mut self.groups[group].1[index];
        sum.ios += u64::from(start >= self.ramp);
        sum.bytes += u64::from(bytes);
        let bin = self.series.at(now - self.ramp);
        bin.ios[index] += 1;
        bin.bytes[index] += u64::from(bytes);
    }

    /// Counts look-ups in a cache.
    pub fn record_lookups(&mut self, hits: u64, misses: u64, now: Time) {
        if now >= self.ramp {
            let [all_hits, all_misses] = &mut self.series.at(now - self.ramp).cache;
            (*all_hits, *all_misses) = (*all_hits + hits, *all_misses + misses);
        }
    }

    /// Counts an fsync that took from `start` to `now`.
    pub fn record_sync(&mut self, start: Time, now: Time) {
        if now >= self.ramp {
            self.syncs.record(now - start);
        }
    }

    /// The figures of a run that ended at `end`.
    pub fn finish(self, end: Time) -> JobMetrics {
        let runtime = end.saturating_sub(self.ramp).max(1);
        let mut totals: [DirectionSums; 2] = Default::default();
        let mut groups = Vec::new();
        for (name, directions) in &self.groups {
            for (sum, group_sum) in totals.iter_mut().zip(directions) {
                sum.latencies.merge(&group_sum.latencies);
                sum.ios += group_sum.ios;
                sum.bytes += group_sum.bytes;
            }
            let [read, write] = directions.each_ref().map(|d| direction_figures(d, runtime));
            groups.push(Group { name: name.clone(), read, write });
        }
        let width = self.series.width_ns();
        let point = |(time_ns, m): (u64, &SeriesBin)| Point {
            time_ns,
            width_ns: width.min(runtime.saturating_sub(time_ns)).max(1),
            ios: m.ios,
            bytes: m.bytes,
            clat_ns: [0, 1].map(|i| (m.timed[i] > 0).then(|| m.latency[i] as f64 / m.timed[i] as f64)),
        };
        let series = self.series.iter().map(point).collect();
        let look_ups = self.series.iter().map(|(_, bin)| bin.cache).filter(|&counts| counts != [0, 0]).collect();
        let [read, write] = totals
            .each_ref()
            .map(|d| Direction { clat_ns: latency_with_bins(&d.latencies), ..direction_figures(d, runtime) });
        let total_ios = self.syncs.count();
        let iops = total_ios as f64 * 1e9 / runtime as f64;
        let sync = Syncs { total_ios, iops, lat_ns: latency_with_bins(&self.syncs) };
        JobMetrics { runtime_ns: runtime, read, write, sync, groups, series, look_ups, ios: self.ios }
    }
}

fn direction_figures(sum: &DirectionSums, runtime: u64) -> Direction {
    let seconds = runtime as f64 / 1e9;
    Direction {
        total_ios: sum.ios,
        io_bytes: sum.bytes,
        iops: sum.ios as f64 / seconds,
        bw_bytes: sum.bytes as f64 / seconds,
        clat_ns: Latency { summary: sum.latencies.summary(), bins: Vec::new() },
    }
}

fn latency_with_bins(latencies: &Quantiles) -> Latency {
    let bins = latencies.log_buckets(BINS);
    let filled = bins.into_iter().filter(|bin| bin.2 > 0);
    let bins = filled.map(|(low, high, ios)| (low + (high - low) / 2, ios)).collect();
    Latency { summary: latencies.summary(), bins }
}
