//! What bypasses bcache (`check_should_bypass`, `bch_get_congested` in `request.c`).

use blklab_stats::hash64;
use std::collections::HashMap;

/// Streams that are remembered (`RECENT_IO`), and for how long.
const STREAMS: usize = 128;
const FORGET_NS: u64 = 5_000_000_000;
/// The counter's lowest value (`CONGESTED_MAX`).
const MOST_CONGESTED: i64 = 1024;

/// Why an I/O bypasses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    Discard,    // it discards
    Full,       // more than 95 % of the buckets hold dirty data
    Mode,       // the cache mode
    Unaligned,  // it is not aligned to the block size
    Sequential, // its stream, or the streams of its task on average, reached sequential_cutoff
    Congested,  // the cache device was slow
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    forget_ns: u64,
    sectors: u64,
    used: u64,
}

/// Sequential streams of all tasks.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The sector that continues each stream; apart from the rest because it is searched for each I/O.
    next: [u64; STREAMS],
    streams: [Stream; STREAMS],
    tasks: HashMap<u32, (u64, u64)>, // sectors of each task's last stream, and its average
    clock: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self { next: [u64::MAX; STREAMS], streams: [Stream::default(); STREAMS], tasks: HashMap::new(), clock: 0 }
    }
}

impl Streams {
    /// Counts an I/O; returns the sectors that count as sequential: those of its stream, or its task's average.
    pub fn add(&mut self, now_ns: u64, task: u32, sector: u64, sectors: u32) -> u64 {
        self.clock += 1;
        let (last, average) = self.tasks.entry(task).or_default();
        let continues = |&index: &usize| self.next[index] == sector && now_ns < self.streams[index].forget_ns;
        let known = (0..STREAMS).filter(|&index| self.next[index] == sector).find(continues);
        let index = known.unwrap_or_else(|| {
            *average = (*average * 7 + *last) / 8;
            let oldest = (0..STREAMS).min_by_key(|&index| self.streams[index].used).unwrap_or(0);
            self.streams[oldest].sectors = 0;
            oldest
        });
        let sum = self.streams[index].sectors + u64::from(sectors);
        self.streams[index] = Stream { forget_ns: now_ns.saturating_add(FORGET_NS), sectors: sum, used: self.clock };
        self.next[index] = sector.saturating_add(u64::from(sectors));
        *last = sum;
        sum.max(*average)
    }
}

/// How congested the cache device is; the replay of a trace knows no latencies and never is.
#[derive(Clone, Debug)]
pub struct Congestion {
    level: i64,
    last_slow_ns: u64,
    random: u64,
}

impl Congestion {
    /// No congestion; the seed is that of the random part of the cutoff.
    pub fn new(seed: u64) -> Self {
        Self { level: 0, last_slow_ns: 0, random: seed }
    }

    /// An I/O to the cache device took this long; the thresholds are 2000 µs for reads and 20,000 µs for writes by
    /// default. The kernel's µs have 1,024 ns (`local_clock_us`).
    pub fn count(&mut self, now_ns: u64, latency_ns: u64, threshold_us: u64) {
        if latency_ns >> 10 > threshold_us {
            self.last_slow_ns = now_ns;
            self.level = (self.level - (latency_ns >> 20) as i64).max(-MOST_CONGESTED);
        } else if self.level < 0 {
            self.level += 1;
        }
    }

    /// The cutoff in sectors; `None` without congestion.
    pub fn cutoff(&mut self, now_ns: u64) -> Option<u64> {
        let level = self.level + (now_ns.saturating_sub(self.last_slow_ns) >> 20) as i64;
        if level >= 0 {
            return None;
        }
        let steps = (level + MOST_CONGESTED).max(0) as u64;
        // 2^(steps / 64), linear between powers of two (fract_exp_two).
        let power = if steps == 0 { 0 } else { (1 << (steps / 64)) + (((steps % 64) << (steps / 64)) / 64) };
        self.random = hash64(self.random);
        Some(power.saturating_sub(u64::from((self.random as u32).count_ones())).max(1))
    }
}
