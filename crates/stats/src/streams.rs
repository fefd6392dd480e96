//! Sequential streams among interleaved I/O.
//!
//! An I/O that starts where one of the recently active streams ended continues that stream, as in the kernel's
//! readahead and bcache's `sequential_cutoff`. The table holds 1024 streams in 256 sets of 4, found by a hash of the
//! sector that they expect next: O(1) for each I/O, 24 KiB. A stream is forgotten when its set is full (the longest
//! idle first; streams of 4 I/Os and more stay eight times as long) or after [`IDLE_LIMIT`] I/Os without it. Use
//! separate instances for reads and writes.

use crate::{Merge, Quantiles};
use serde::{Deserialize, Serialize};

pub const IDLE_LIMIT: u32 = 8192; // A stream not continued for this many I/Os has ended
pub const LIVE_IOS: u32 = 4; // From this many I/Os on, a run counts as a live stream for `peak_concurrent`
const WAYS: usize = 4;
const SETS: usize = 256;
const LOOK_EVERY: u32 = 128; // I/Os between two counts of live streams
const LOOKS: usize = 2 * (IDLE_LIMIT / LOOK_EVERY) as usize; // Counts that are kept: they must cover `IDLE_LIMIT`

#[derive(Debug, Clone, Copy, Default)]
struct StreamSet {
    next: [u64; WAYS],
    bytes: [u64; WAYS],
    ios: [u32; WAYS],  // I/Os of the run; 0 marks a free slot
    last: [u32; WAYS], // Number of the I/O that continued it last
}

/// Recognises sequential streams; see the [module](self).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Streams {
    #[serde(skip)]
    sets: Vec<StreamSet>, // Empty until the first I/O
    tick: u32, // Number of this I/O; wraps, and only differences are used
    previous: Option<(u64, u64)>,
    ios: u64,
    sequential: u64,
    strict: u64,
    backward: u64,
    singles: u64, // Runs of a single I/O, counted outside of `run_ios` because random I/O consists of them
    run_ios: Quantiles,
    run_bytes: Quantiles,
    #[serde(skip)]
    looks: Vec<u32>, // Live streams at each of the latest counts; empty until the first I/O
    peak: u32,
}

/// Lengths of runs, in I/Os or bytes.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct RunLengths {
    /// Mean length; `null` without runs.
    pub mean: Option<f64>,
    /// Median length; `null` without runs.
    pub p50: Option<u64>,
    /// 95th percentile of the length; `null` without runs.
    pub p95: Option<u64>,
    /// Length of the longest run; `null` without runs.
    pub max: Option<u64>,
}

/// Sequential streams. A run is a chain of I/Os that each continue the one before; a single I/O is a run too.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct StreamsSummary {
    /// Number of I/Os; those without sectors, such as flushes, do not count.
    pub ios: u64,
    /// I/Os that continued a stream.
    pub sequential_ios: u64,
    /// `sequential_ios` as a share of `ios`, 0 to 1; `null` without I/Os.
    pub sequential_share: Option<f64>,
    /// I/Os that started where the previous I/O ended.
    pub strictly_sequential_ios: u64,
    /// I/Os that ended where the previous I/O started.
    pub backward_sequential_ios: u64,
    /// Number of runs, those of a single I/O included.
    pub runs: u64,
    /// Lengths of runs in I/Os.
    pub run_ios: RunLengths,
    /// Lengths of runs in bytes.
    pub run_bytes: RunLengths,
    /// The largest number of streams (runs of four I/Os or more) at the same time. An estimate: counted every 128 I/Os;
    /// at most 1,024.
    pub peak_concurrent_streams: u32,
}

impl Streams {
    /// Records an I/O of `sectors` at `sector`.
    pub fn record(&mut self, sector: u64, sectors: u64) {
        if sectors == 0 {
            return;
        }
        if self.sets.is_empty() {
            self.sets = vec![StreamSet::default(); SETS];
            self.looks.resize(LOOKS, 0);
        }
        let end = sector.saturating_add(sectors);
        self.ios += 1;
        self.tick = self.tick.wrapping_add(1);
        if self.tick.is_multiple_of(LOOK_EVERY) {
            // This count replaces the oldest one.
            let place = (self.tick / LOOK_EVERY) as usize % LOOKS;
            self.peak = self.peak.max(self.looks[place]);
            self.looks[place] = 0;
        }
        if let Some((start, stop)) = self.previous {
            self.strict += u64::from(stop == sector);
            self.backward += u64::from(start == end);
        }
        self.previous = Some((sector, end));

        let bytes = sectors.saturating_mul(512);
        let set = &mut self.sets[set_of(sector)];
        let continued = (0..WAYS).find(|&slot| set.ios[slot] > 0 && set.next[slot] == sector);
        let (ios, bytes) = match continued {
            Some(slot) if self.tick.wrapping_sub(set.last[slot]) <= IDLE_LIMIT => {
                let (last, ios) = (set.last[slot], set.ios[slot].saturating_add(1));
                let bytes = set.bytes[slot].saturating_add(bytes);
                set.ios[slot] = 0;
                self.sequential += 1;
                if ios > LIVE_IOS {
                    for look in last / LOOK_EVERY + 1..=self.tick / LOOK_EVERY {
                        self.looks[look as usize % LOOKS] += 1;
                    }
                } else if ios == LIVE_IOS {
                    self.peak = self.peak.max(1);
                }
                (ios, bytes)
            }
            _ => (1, bytes),
        };
        self.place(end, ios, bytes);
    }

    /// Puts a run that expects sector `next` into the table, ending the run it displaces.
    fn place(&mut self, next: u64, ios: u32, bytes: u64) {
        let set = &mut self.sets[set_of(next)];
        let (mut chosen, mut worst) = (0, 0);
        for slot in 0..WAYS {
            // Prefers a stream that expects the same sector, then a free slot.
            let idle = self.tick.wrapping_sub(set.last[slot]);
            let badness = if set.ios[slot] == 0 {
                u32::MAX - 1
            } else if set.next[slot] == next {
                u32::MAX
            } else if set.ios[slot] >= LIVE_IOS {
                idle / 8 + 1
            } else {
                idle.min(u32::MAX - 3) + 1
            };
            if badness > worst {
                (chosen, worst) = (slot, badness);
            }
        }
        let (old_ios, old_bytes) = (set.ios[chosen], set.bytes[chosen]);
        set.next[chosen] = next;
        set.bytes[chosen] = bytes;
        set.ios[chosen] = ios;
        set.last[chosen] = self.tick;
        if old_ios > 0 {
            self.end_run(old_ios, old_bytes);
        }
    }

    fn end_run(&mut self, ios: u32, bytes: u64) {
        if ios == 1 {
            self.singles += 1;
        } else {
            self.run_ios.record(ios.into());
        }
        self.run_bytes.record(bytes);
    }

    /// Ends every run, as at the end of a trace.
    pub fn finish(&mut self) {
        for set in std::mem::take(&mut self.sets) {
            for slot in (0..WAYS).filter(|&slot| set.ios[slot] > 0) {
                self.end_run(set.ios[slot], set.bytes[slot]);
            }
        }
        self.peak = self.looks.iter().copied().fold(self.peak, u32::max);
        self.looks.fill(0);
        self.previous = None;
    }

    /// The figures, as if every run ended now; see [`StreamsSummary`].
    pub fn summary(&self) -> StreamsSummary {
        let mut done = self.clone();
        done.finish();
        done.run_ios.record_n(1, done.singles);
        StreamsSummary {
            ios: done.ios,
            sequential_ios: done.sequential,
            sequential_share: (done.ios > 0).then(|| done.sequential as f64 / done.ios as f64),
            strictly_sequential_ios: done.strict,
            backward_sequential_ios: done.backward,
            runs: done.run_ios.count(),
            run_ios: lengths(&done.run_ios),
            run_bytes: lengths(&done.run_bytes),
            peak_concurrent_streams: done.peak.min((SETS * WAYS) as u32),
        }
    }
}

impl Merge for Streams {
    /// Ends the runs of `other`: a stream across two parts counts as two runs.
    fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.finish();
        self.ios += other.ios;
        self.sequential += other.sequential;
        self.strict += other.strict;
        self.backward += other.backward;
        self.singles += other.singles;
        self.run_ios.merge(&other.run_ios);
        self.run_bytes.merge(&other.run_bytes);
        self.peak = self.peak.max(other.peak);
    }
}

fn set_of(sector: u64) -> usize {
    (sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SETS
}

fn lengths(runs: &Quantiles) -> RunLengths {
    let [p50, p95] = runs.quantiles([0.5, 0.95]);
    RunLengths { mean: runs.mean(), p50, p95, max: runs.max() }
}

#[cfg(test)]
mod tests;
