//! The hotspot queue: which regions of the origin miss often. A region is up to 16 cache blocks.

use super::multiqueue::{LEVELS, Multiqueue};
use crate::entry::{BlockTable, Entry};
use crate::policy::{Geometry, OriginBlock};
use blklab_stats::hash64;

/// Time between redistributions (`HOTSPOT_UPDATE_PERIOD`).
const PERIOD_NS: u64 = 1_000_000_000;

fn entry_count(geometry: Geometry) -> u32 {
    (geometry.cache_blocks / 4).max(1024)
}

/// Cache blocks of a hotspot block, as a power of two: 16, halved until all of them do not exceed the origin
/// (`calc_hotspot_params`).
pub fn region_shift(geometry: Geometry) -> u32 {
    let fits = |shift: &u32| u64::from(entry_count(geometry)) << shift <= geometry.origin_blocks;
    (1..=4).rev().find(fits).unwrap_or(0)
}

/// Blocks of the origin from which on hotspot blocks have 16 blocks: its size changes nothing in smq any more.
pub fn large_origin(geometry: Geometry) -> u64 {
    u64::from(entry_count(geometry)) << 4
}

/// Accesses to entries in the upper quarter of the levels, and others (`struct stats`).
///
/// A sample has so few accesses in a second that chance decides whether it seems well judged, and then every miss is
/// promoted. So each of its accesses also counts as many as are outside the sample: of these, as many are in the upper
/// quarter by chance as in the whole, with the share that the sample had in earlier periods.
#[derive(Clone, Copy, Debug)]
pub struct LevelStats {
    counted: [u64; 2], // others, and those to the upper quarter
    rate: f64,         // the share of the accesses that the sample has
    owed: f64,         // accesses outside the sample that are not counted yet
    draws: u64,        // those that were counted
    sampled: [f64; 2], // accesses of the sample in this period, as `counted`
    earlier: [f64; 2], // the same of earlier periods, which fade within as many as have a whole one's accesses
}

impl LevelStats {
    /// Those of a sample with this share of the accesses.
    pub fn new(rate: f64) -> Self {
        Self { counted: [0; 2], rate, owed: 0.0, draws: 0, sampled: [0.0; 2], earlier: [0.0; 2] }
    }

    /// An access to an entry at this level.
    pub fn count(&mut self, level: Option<u8>) {
        let is_upper = level.is_some_and(|level| usize::from(level) >= LEVELS * 3 / 4);
        self.counted[usize::from(is_upper)] += 1;
        if self.rate < 1.0 {
            self.sampled[usize::from(is_upper)] += 1.0;
            self.owed += 1.0 / self.rate - 1.0;
            let below = (self.expected() * 2f64.powi(64)) as u64;
            while self.owed >= 1.0 {
                self.owed -= 1.0;
                self.draws += 1;
                self.counted[usize::from(hash64(self.draws) < below)] += 1;
            }
        }
    }

    /// The share of the upper quarter that the sample has seen; not a number without accesses.
    fn expected(&self) -> f64 {
        let [others, upper] = if self.earlier == [0.0; 2] { self.sampled } else { self.earlier };
        upper / (others + upper)
    }

    /// Begins a period.
    pub fn restart(&mut self) {
        let earlier = [0, 1].map(|which| self.earlier[which] * (1.0 - self.rate) + self.sampled[which]);
        *self = Self { earlier, draws: self.draws, ..Self::new(self.rate) };
    }

    /// The share of accesses to the upper quarter, in `parts`, rounded down; 0 without accesses.
    pub fn share(self, parts: u64) -> u64 {
        let expected = (self.expected() * parts as f64) as u64;
        (self.counted[1] * parts).checked_div(self.counted.iter().sum()).unwrap_or(expected)
    }

    /// The verdict (`stats_assess`): 4, poor, if less than a sixteenth of the accesses were to the upper quarter; 2, fair,
    /// if less than an eighth; 1, well. Entries jump so far, and that part of the levels is promoted.
    pub fn assess(self) -> u8 {
        [4, 2, 1][self.share(16).min(2) as usize]
    }
}

/// The hotspot queue.
#[derive(Clone, Debug)]
pub struct Hotspot {
    entries: Vec<Entry>,
    table: BlockTable,
    queue: Multiqueue,
    used: usize,
    shift: u32, // cache blocks of a hotspot block, as a power of two
    jump: u8,
    pub stats: LevelStats, // how well it tells what is used, in the current second
    ticks: u32, // ticks so far: an entry moves up once in each. Entries store it as their period, 0 for never
    next_period_ns: u64,
}

impl Hotspot {
    /// A queue for max(cache blocks / 4, 1024) entries, or for this share of them.
    pub fn new(geometry: Geometry, rate: f64) -> Self {
        let scaled = |number: u32| (f64::from(number) * rate).round() as u32;
        let shift = region_shift(geometry);
        let count = scaled(entry_count(geometry)).max(1);
        let top = (count / LEVELS as u32).min(scaled(geometry.cache_blocks) >> shift);
        Self {
            entries: vec![Entry::FREE; count as usize],
            table: BlockTable::new(0),
            queue: Multiqueue::new(8, top),
            used: 0,
            shift,
            jump: 1,
            stats: LevelStats::new(rate),
            ticks: 1,
            next_period_ns: 0,
        }
    }

    /// Counts an access; returns the region's level after it (`update_hotspot_queue`).
    pub fn access(&mut self, block: OriginBlock) -> u8 {
        let region = block >> self.shift;
        let Some(index) = self.table.get(&self.entries, region) else {
            self.stats.count(None);
            return self.add(region);
        };
        let entry = &mut self.entries[index as usize];
        self.stats.count(Some(entry.level));
        let jump = if entry.period == self.ticks { 0 } else { self.jump };
        entry.period = self.ticks;
        self.queue.requeue(&mut self.entries, index, jump, None);
        self.entries[index as usize].level
    }

    /// Adds a region; if all entries are in use, it takes that of the oldest one of the lowest level.
    fn add(&mut self, region: u64) -> u8 {
        let index = if self.used < self.entries.len() {
            self.used += 1;
            self.used as u32 - 1
        } else {
            let oldest = self.queue.peek(&self.entries, LEVELS, true).expect("every entry is in the queue");
            self.queue.remove(&mut self.entries, oldest);
            self.table.remove(&self.entries, self.entries[oldest as usize].block);
            oldest
        };
        let entry = &mut self.entries[index as usize];
        (entry.block, entry.period) = (region, 0);
        let level = entry.level;
        self.queue.push(&mut self.entries, index);
        self.table.insert(&self.entries, index);
        level
    }

    /// Entries may move up again; on the first tick after each second, levels get their shares again
    /// (`end_hotspot_period`).
    pub fn tick(&mut self, now_ns: u64) {
        self.ticks = self.ticks.checked_add(1).unwrap_or(1);
        if now_ns > self.next_period_ns {
            self.jump = self.stats.assess();
            self.queue.redistribute(&mut self.entries);
            self.stats.restart();
            self.next_period_ns = now_ns + PERIOD_NS;
        }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.table.memory_bytes()
    }
}
