//! Queue depth within the filter's window of time.

use crate::filter::Filter;
use blklab_stats::{Level, LevelSummary, Merge, Timeline};
use serde::{Deserialize, Serialize};

/// Queue depth in one slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DepthSlice {
    /// The times of all I/Os in flight, added up, in ns: divided by the width, it is the mean depth.
    pub area_ns: u64,
    /// Time with at least one I/O in flight, in ns.
    pub busy_ns: u64,
    /// The most I/Os in flight.
    pub max: u64,
}

impl Merge for DepthSlice {
    fn merge(&mut self, other: &Self) {
        self.area_ns = self.area_ns.saturating_add(other.area_ns);
        self.busy_ns += other.busy_ns;
        self.max = self.max.max(other.max);
    }
}

/// The number of I/Os in flight, followed from the start of the trace but counted only in the window.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct QueueDepth {
    level: Level,
    over_time: Timeline<DepthSlice>,
    pub now: u64, // The present number
    changed: u64, // The time of the last change
    since: u64,
    until: u64,
    begun: bool,
    queued: u64,
    pub lost: u64,   // I/Os whose end is missing
    lost_area: u128, // The time for which they seemed to be in flight, added up, in ns
}

const MANY: u64 = 1000; // If one I/O of so many has no end, the depth is computed from complete ones

/// Queue depth over time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct DepthOverTime {
    /// Width of a slice of time, in ns.
    pub width_ns: u64,
    /// The slices from time 0, at most 512; idle ones at the end are left out.
    pub slices: Vec<DepthSlice>,
}

impl QueueDepth {
    /// No I/O in flight, at the start of the device with this index; many devices have fewer slices each.
    pub fn new(filter: &Filter, device: usize) -> QueueDepth {
        let slices = if device < 16 { 512 } else { 64 };
        QueueDepth {
            over_time: Timeline::new(slices),
            since: filter.since_ns.unwrap_or(0),
            until: filter.until_ns.unwrap_or(u64::MAX),
            ..QueueDepth::default()
        }
    }

    /// Sets the number from a time on.
    pub fn set(&mut self, time: u64, depth: u64) {
        if time >= self.since {
            self.begin();
            self.spend(time.min(self.until));
            if time < self.until {
                self.level.set(time, depth);
            } else {
                self.level.advance(self.until);
            }
        }
        self.queued += u64::from(depth > self.now);
        self.now = depth;
    }

    /// Takes out an I/O that has no end, and that seemed to be in flight from `since` to `until`.
    pub fn forget(&mut self, since: u64, until: u64) {
        self.lost += 1;
        self.lost_area += u128::from(until.saturating_sub(since));
        let width = self.over_time.width_ns();
        for (start, slice) in (0..).step_by(width as usize).zip(self.over_time.values_mut()) {
            let inside = until.min(start + width).saturating_sub(since.max(start));
            slice.area_ns = slice.area_ns.saturating_sub(inside);
            slice.busy_ns = slice.busy_ns.min(slice.area_ns);
        }
    }

    /// I/Os that were in flight when the window opened count from there.
    fn begin(&mut self) {
        if !self.begun && self.since > 0 {
            self.level.set(self.since, self.now);
            self.changed = self.since;
        }
        self.begun = true;
    }

    /// Counts the time from the last change to `time` in its slices.
    fn spend(&mut self, time: u64) {
        while self.now > 0 && self.changed < time {
            let mut to = time;
            if self.changed ^ time >= self.over_time.width_ns() {
                self.over_time.at(time - 1); // widens the slices first, so that they are few
                to = time.min((self.changed | (self.over_time.width_ns() - 1)).saturating_add(1));
            }
            let busy_ns = to - self.changed;
            let area_ns = busy_ns.saturating_mul(self.now);
            self.over_time.at(self.changed).merge(&DepthSlice { area_ns, busy_ns, max: self.now });
            self.changed = to;
        }
        self.changed = self.changed.max(time);
    }

    /// Ends the trace at time `end`; the number falls to 0 uncounted.
    pub fn end(&mut self, end: u64) {
        if end >= self.since && (self.begun || self.now > 0) {
            self.begin();
            self.spend(end.min(self.until));
            self.level.advance(end.min(self.until));
        }
        self.level.end();
        self.now = 0;
    }

    /// The figures of a trace that has ended; `unmatched` I/Os were seen only at their end.
    pub fn summary(&self, unmatched: u64) -> LevelSummary {
        let mut summary = self.level.summary();
        let complete = self.queued.saturating_sub(self.lost);
        if self.lost.saturating_add(unmatched).saturating_mul(MANY) < self.queued || complete == 0 {
            return summary;
        }
        let time = summary.time_ns as f64;
        let scale = self.queued.saturating_add(unmatched) as f64 / complete as f64;
        summary.mean = summary.mean.map(|mean| (mean - self.lost_area as f64 / time).max(0.0) * scale);
        (summary.mean_when_busy, summary.idle_share) = (None, None);
        (summary.p50, summary.p95, summary.p99) = (None, None, None);
        summary.histogram.clear();
        summary
    }

    /// The depth over time of a trace that has ended.
    pub fn over_time(&self) -> DepthOverTime {
        let series = &self.over_time;
        DepthOverTime { width_ns: series.width_ns(), slices: series.iter().map(|(_, slice)| *slice).collect() }
    }
}

impl Merge for QueueDepth {
    /// Adds that of another trace; both have ended.
    fn merge(&mut self, other: &Self) {
        self.level.merge(&other.level);
        self.over_time.merge(&other.over_time);
        self.begun |= other.begun;
        self.queued = self.queued.saturating_add(other.queued);
        self.lost = self.lost.saturating_add(other.lost);
        self.lost_area = self.lost_area.saturating_add(other.lost_area);
    }
}

#[cfg(test)]
mod tests;
