//! The hotspot queue: which regions of the origin miss often. A region is up to 16 cache blocks.

use super::multiqueue::{LEVELS, Multiqueue};
use crate::entry::{BlockTable, Entry};
use crate::policy::{Geometry, OriginBlock};

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

/// Accesses to entries in the upper quarter of the levels, and others (`struct stats`).
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelStats {
    upper: u64,
    others: u64,
}

/// How well a queue tells what is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assessment {
    Poor, // less than a sixteenth of the accesses were to the upper quarter
    Fair, // less than an eighth
    Well, // more
}

impl LevelStats {
    /// An access to an entry at this level.
    pub fn count(&mut self, level: Option<u8>) {
        match level {
            Some(level) if usize::from(level) >= LEVELS * 3 / 4 => self.upper += 1,
            _ => self.others += 1,
        }
    }

    /// The share of accesses to the upper quarter, in `parts`, rounded down; 0 without accesses.
    pub fn share(self, parts: u64) -> u64 {
        (self.upper * parts).checked_div(self.upper + self.others).unwrap_or(0)
    }

    /// The verdict (`stats_assess`).
    pub fn assess(self) -> Assessment {
        match self.share(256) {
            0..16 => Assessment::Poor,
            16..32 => Assessment::Fair,
            _ => Assessment::Well,
        }
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
    stats: LevelStats,
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
            table: BlockTable::new(count as usize),
            queue: Multiqueue::new(8, top),
            used: 0,
            shift,
            jump: 1,
            stats: LevelStats::default(),
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

    /// How well it tells what is used, in the current second.
    pub fn assess(&self) -> Assessment {
        self.stats.assess()
    }

    /// Entries may move up again; on the first tick after each second, levels get their shares again
    /// (`end_hotspot_period`).
    pub fn tick(&mut self, now_ns: u64) {
        self.ticks = self.ticks.checked_add(1).unwrap_or(1);
        if now_ns > self.next_period_ns {
            self.jump = match self.assess() {
                Assessment::Poor => 4,
                Assessment::Fair => 2,
                Assessment::Well => 1,
            };
            self.queue.redistribute(&mut self.entries);
            self.stats = LevelStats::default();
            self.next_period_ns = now_ns + PERIOD_NS;
        }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.table.memory_bytes()
    }
}
