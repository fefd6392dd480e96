//! The slowest I/Os, and stalls: times in which nothing completed although I/Os were in flight.

use super::chunk::{Chunk, Panel, ProfiledDevice, Renumbering};
use crate::event::Op;
use crate::io::{Io, NEVER};
use blklab_stats::{Merge, Quantiles, checked};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

// A stall is at least so many times as long as 90 % of the gaps between completions (many I/Os that wait in one stall
// are one gap, so stalls do not raise it), and as the median latency (a device can report completions in batches).
const GAPS: u64 = 10;
const MEDIANS: u64 = 10;
const FEWEST: u64 = 100; // I/Os from which on the gaps say what is usual

/// The life of a slow I/O, or a time without completions; `io` ended it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct LongTime {
    start: u64,
    end: u64,
    earliest: u64, // A stall cannot have begun before this completion
    io: Io,
    in_flight: [u64; 4], // Further I/Os in flight at `end`, by operation
}

checked!(Longest, |longest| longest.kept.len() <= longest.most);

impl LongTime {
    /// From `start` until `io` completed; a stall can begin as early as `earliest`.
    fn new(io: &Io, start: u64, earliest: u64) -> LongTime {
        LongTime { start, end: io.t_complete, earliest, io: *io, in_flight: [0; 4] }
    }

    fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The longest times, in order of their end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
struct Longest {
    kept: Vec<LongTime>,
    most: usize,
    bar: u64, // Only longer times are kept
}

impl Longest {
    fn add(&mut self, time: LongTime) {
        if self.kept.len() >= self.most {
            let shortest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.length());
            if let Some((at, kept)) = shortest {
                self.bar = kept.length();
                if time.length() <= self.bar {
                    return;
                }
                self.kept.remove(at);
            }
        }
        self.kept.push(time);
    }

    /// Counts an ended I/O at every kept moment at which it was in flight.
    fn add_in_flight(&mut self, io: &Io) {
        if io.t_complete == NEVER {
            return; // Its end was lost: it can have been complete long before
        }
        for kept in self.kept.iter_mut().rev().take_while(|kept| io.t_queue < kept.end) {
            kept.in_flight[io.op() as usize] += 1;
            kept.start = kept.start.min(io.t_queue.max(kept.earliest));
        }
    }

    fn merge(&mut self, other: &Longest) {
        other.kept.iter().for_each(|time| self.add(*time));
        self.bar = self.bar.max(other.bar);
        self.kept.sort_by_key(|time| time.end);
    }
}

/// The slowest I/Os and the stalls of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlowIos {
    slowest: Longest,
    silences: Longest,
    gaps: Quantiles, // Times between completions while I/O was in flight, in ns
    completed: u64,
    first: Option<Io>,
    last_complete: u64,
    watched_until: u64, // End of the latest kept time
}

impl SlowIos {
    fn new(slowest: usize, silences: usize) -> SlowIos {
        let [slowest, silences] = [slowest, silences].map(|most| Longest { kept: Vec::new(), most, bar: 0 });
        let gaps = Quantiles::default();
        SlowIos { slowest, silences, gaps, completed: 0, first: None, last_complete: 0, watched_until: 0 }
    }

    /// Adds a time without completions that `io` ended.
    fn add_silence(&mut self, io: &Io) {
        let start = io.t_queue.max(self.last_complete);
        let gap = io.t_complete.saturating_sub(start);
        if gap > 0 {
            self.gaps.record(gap);
        }
        if gap > self.silences.bar {
            self.silences.add(LongTime::new(io, start, self.last_complete));
            self.watched_until = self.watched_until.max(io.t_complete);
        }
    }
}

impl Default for SlowIos {
    fn default() -> Self {
        SlowIos::new(20, 64)
    }
}

impl Panel for SlowIos {
    type Profile = SlowProfile;

    fn for_device(index: usize) -> SlowIos {
        if index < 128 { SlowIos::default() } else { SlowIos::new(3, 8) }
    }

    fn renumber(&mut self, numbers: &Renumbering) {
        let kept = self.slowest.kept.iter_mut().chain(&mut self.silences.kept);
        kept.for_each(|time| time.io.process = numbers.process(time.io.process));
    }

    fn observe(&mut self, chunk: &Chunk) {
        for io in chunk.ended.iter().filter(|io| io.t_queue != NEVER) {
            if io.t_queue < self.watched_until {
                self.slowest.add_in_flight(io);
                self.silences.add_in_flight(io);
            }
            if io.t_complete == NEVER {
                continue;
            }
            if io.t_complete.saturating_sub(io.t_queue) > self.slowest.bar {
                self.slowest.add(LongTime::new(io, io.t_queue, io.t_queue));
                self.watched_until = self.watched_until.max(io.t_complete);
            }
            if self.completed > 0 {
                self.add_silence(io);
            } else {
                self.first = Some(*io);
            }
            self.completed += 1;
            self.last_complete = self.last_complete.max(io.t_complete);
        }
    }

    fn profile(&self, device: &ProfiledDevice) -> SlowProfile {
        let [usual] = self.gaps.quantiles([0.9]).map(|gap| gap.filter(|_| self.completed >= FEWEST));
        let least = usual.map(|gap| gap.saturating_mul(GAPS).max(device.p50.unwrap_or(0).saturating_mul(MEDIANS)));
        let mut slowest = self.slowest.kept.clone();
        slowest.sort_by_key(|time| std::cmp::Reverse(time.length()));
        let is_stall = |time: &&LongTime| least.is_some_and(|least| time.length() >= least);
        SlowProfile {
            slowest: slowest.iter().map(|time| time.profile(device.process)).collect(),
            stall_least_ns: least,
            stalls: self.silences.kept.iter().filter(is_stall).map(|time| time.profile(device.process)).collect(),
        }
    }
}

impl Merge for SlowIos {
    /// I/Os in flight are counted only within each part.
    fn merge(&mut self, other: &Self) {
        match other.first {
            Some(first) if self.completed > 0 => self.add_silence(&first),
            _ => self.first = self.first.or(other.first),
        }
        self.slowest.merge(&other.slowest);
        self.silences.merge(&other.silences);
        self.gaps.merge(&other.gaps);
        self.completed += other.completed;
        self.last_complete = self.last_complete.max(other.last_complete);
        self.watched_until = self.watched_until.max(other.watched_until);
    }
}

/// One of the slowest I/Os; or a stall, and the I/O whose completion ended it.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct LongTimeProfile {
    /// When the I/O was queued, in ns since the trace began. A stall begins with the completion before it, or when the
    /// first I/O that waited in it was queued.
    pub start_ns: u64,
    /// Time from `start_ns` until the I/O completed, in ns.
    pub length_ns: u64,
    /// Operation of the I/O: `read`, `write`, `discard` or `flush`.
    pub op: &'static str,
    /// First sector of the I/O.
    pub sector: u64,
    /// Size of the I/O in bytes.
    pub bytes: u32,
    /// Name of the process that queued the I/O.
    pub process: String,
    /// Whether a program waits for the I/O: it is no writeback, and not of md's resync.
    pub waited: bool,
    /// The two events of the I/O between which most time passed: `d2c`, `i2d` …
    pub stage: String,
    /// Time between the two events of `stage`, in ns.
    pub stage_ns: u64,
    /// Other I/Os in flight when the I/O was queued.
    pub depth: u32,
    /// Other I/Os in flight when the I/O completed, by operation.
    pub in_flight: BTreeMap<&'static str, u64>,
}

/// The slowest I/Os and the stalls of a device.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct SlowProfile {
    /// The slowest I/Os, the slowest first; at most 20.
    pub slowest: Vec<LongTimeProfile>,
    /// Shortest stall, in ns: ten times the 90th percentile of the gaps between completions while I/O was in flight, and
    /// at least ten times the median latency; `null` below 100 I/Os.
    pub stall_least_ns: Option<u64>,
    /// The longest times in which nothing completed although I/Os were in flight, in order; at most 64.
    pub stalls: Vec<LongTimeProfile>,
}

impl LongTime {
    fn profile(&self, name: &dyn Fn(u32) -> String) -> LongTimeProfile {
        let io = &self.io;
        let (stage, stage_ns) = longest_stage(io);
        LongTimeProfile {
            start_ns: self.start,
            length_ns: self.length(),
            op: io.op().name(),
            sector: io.sector,
            bytes: io.bytes,
            process: name(io.process),
            waited: io.background().is_none(),
            stage,
            stage_ns,
            depth: io.depth,
            in_flight: Op::ALL.iter().map(|&op| (op.name(), self.in_flight[op as usize])).collect(),
        }
    }
}

/// The longest time between two consecutive events of an I/O, as `d2c`.
fn longest_stage(io: &Io) -> (String, u64) {
    let mut events = [
        ('q', io.t_queue),
        ('g', io.t_get),
        ('m', io.t_merge),
        ('i', io.t_insert),
        ('d', io.t_dispatch),
        ('c', io.t_complete),
    ];
    events.sort_by_key(|(_, time)| *time);
    let seen = events.iter().take_while(|(_, time)| *time != NEVER).count();
    let stages = events[..seen].windows(2).map(|pair| (format!("{}2{}", pair[0].0, pair[1].0), pair[1].1 - pair[0].1));
    stages.max_by_key(|(_, time)| *time).unwrap_or_default()
}

#[cfg(test)]
mod tests;
