//! dm-writecache in SSD mode (4.18 and later; rules of 6.1, `dm-writecache.c`): which writes the cache takes, where it
//! puts them, and what it writes back.

use blklab_stats::Hashing;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// `MAX_AGE_DIV`: the timer of `max_age` looks so often in that time, and takes blocks that would be too old next time.
const MAX_AGE_PARTS: u64 = 16;

/// A cache, with the names of its table.
#[derive(Clone, Copy, Debug, Default)]
pub struct WritecacheSettings {
    pub blocks: u64,
    pub high_watermark: u64,     // percent in use at which writeback starts: 50
    pub low_watermark: u64,      // percent at which it stops: 45
    pub max_age_ns: Option<u64>, // older blocks are written back anyway
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u64,   // where it is on the cache device, in blocks
    number: u64, // entries are numbered in the order in which they were written first
    written_ns: u64,
}

/// What a write to one block does, and to which slot it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockWrite {
    Overwritten { slot: u64, committed: bool },
    Allocated { slot: u64 },
    Around, // no block is free: it goes to the origin
}

/// Blocks that follow each other on the origin and on the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub block: u64,
    pub slot: u64,
    pub blocks: u64,
}

/// What writeback does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextWriteback {
    Copy(Run),
    Commit, // the oldest block is not durable yet
}

/// The cache.
#[derive(Debug, Default)]
pub struct Writecache {
    settings: WritecacheSettings,
    blocks: BTreeMap<u64, Entry>,
    oldest: VecDeque<(u64, u64)>, // block and number of entries in the order of their numbers; some are gone
    writing: HashMap<u64, u64, Hashing>, // blocks being written back: the slot from which
    used_slots: u64,              // slots from here on were never used; they are used first
    freed: BTreeSet<u64>,
    next_slot: u64, // then those that are free, in ascending order from here on
    next_number: u64,
    committed: u64, // entries with smaller numbers are durable
    overwrote_committed: bool,
    is_writing_back: bool,
}

impl Writecache {
    pub fn new(settings: WritecacheSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The slot of a cached block.
    pub fn slot(&self, block: u64) -> Option<u64> {
        self.blocks.get(&block).map(|entry| entry.slot)
    }

    /// The first cached block from `block` on.
    pub fn next_cached(&self, block: u64) -> Option<u64> {
        self.blocks.range(block..).next().map(|(&block, _)| block)
    }

    /// Blocks that are free, and blocks that are being written back.
    pub fn usage(&self) -> (u64, u64) {
        (self.settings.blocks - self.used_slots + self.freed.len() as u64, self.writing.len() as u64)
    }

    /// Whether a write to this block waits while no block is free: its only copy is being written back.
    pub fn is_being_written_back(&self, block: u64) -> bool {
        self.slot(block).is_some_and(|slot| self.writing.get(&block) == Some(&slot))
    }

    /// Whether a commit has something to write: mappings, or only data over blocks that were durable.
    pub fn uncommitted(&self) -> (u64, bool) {
        (self.next_number - self.committed, self.overwrote_committed)
    }

    /// Writes one block (`writecache_map_write`). A block that is being written back gets a second copy.
    pub fn write(&mut self, now_ns: u64, block: u64) -> BlockWrite {
        if let Some(entry) = self.blocks.get(&block)
            && !self.is_being_written_back(block)
        {
            let committed = entry.number < self.committed;
            self.overwrote_committed |= committed;
            return BlockWrite::Overwritten { slot: entry.slot, committed };
        }
        let Some(slot) = self.take_slot() else { return BlockWrite::Around };
        self.blocks.insert(block, Entry { slot, number: self.next_number, written_ns: now_ns });
        self.oldest.push_back((block, self.next_number));
        self.next_number += 1;
        BlockWrite::Allocated { slot }
    }

    /// Makes all writes durable.
    pub fn commit(&mut self) {
        (self.committed, self.overwrote_committed) = (self.next_number, false);
    }

    /// Removes the blocks of a discard, except those being written back. Returns their slots.
    pub fn discard(&mut self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        let cached: Vec<u64> = self.blocks.range(blocks).map(|(&block, _)| block).collect();
        let mut slots = Vec::new();
        for block in cached.into_iter().filter(|block| !self.writing.contains_key(block)) {
            slots.extend(self.blocks.remove(&block).map(|entry| entry.slot));
        }
        self.freed.extend(&slots);
        slots
    }

    /// What to write back next (`writecache_writeback`): the oldest block, with those that follow it on both devices.
    /// Writeback starts at the high watermark, and goes on to the low one; blocks that are too old always go.
    pub fn next_writeback(&mut self, now_ns: u64) -> Option<NextWriteback> {
        let percent = if self.is_writing_back { self.settings.low_watermark } else { self.settings.high_watermark };
        let limit = (self.settings.blocks * (100 - percent) + 50) / 100;
        let (free, writing) = self.usage();
        self.is_writing_back = free + writing <= limit;
        let (block, entry) = self.oldest_entry()?;
        if !self.is_writing_back && self.settings.max_age_ns.is_none_or(|age| now_ns < due(&entry, age)) {
            return None;
        }
        if entry.number >= self.committed {
            return Some(NextWriteback::Commit);
        }
        let mut run = Run { block, slot: entry.slot, blocks: 0 };
        while run.blocks < 256 // BIO_MAX_VECS
            && let Some(next) = self.blocks.get(&(block + run.blocks))
            && (next.slot == run.slot + run.blocks && next.number < self.committed)
            && !self.writing.contains_key(&(block + run.blocks))
        {
            self.writing.insert(block + run.blocks, run.slot + run.blocks);
            run.blocks += 1;
        }
        Some(NextWriteback::Copy(run))
    }

    /// When the oldest block will be too old.
    pub fn next_due(&mut self) -> Option<u64> {
        let age = self.settings.max_age_ns?;
        self.oldest_entry().map(|(_, entry)| due(&entry, age))
    }

    /// Blocks were written back.
    pub fn complete_writeback(&mut self, run: Run) {
        for (block, slot) in (run.block..).zip(run.slot..run.slot + run.blocks) {
            self.writing.remove(&block);
            if self.slot(block) == Some(slot) {
                self.blocks.remove(&block);
            }
            self.freed.insert(slot);
        }
    }

    /// The oldest entry of whose block no copy is being written back.
    fn oldest_entry(&mut self) -> Option<(u64, Entry)> {
        let (blocks, writing) = (&self.blocks, &self.writing);
        let current = |&(block, number): &(u64, u64)| blocks.get(&block).filter(|entry| entry.number == number);
        while let Some(first) = self.oldest.front()
            && current(first).is_none_or(|entry| writing.get(&first.0) == Some(&entry.slot))
        {
            self.oldest.pop_front();
        }
        let next = self.oldest.iter().find(|at| current(at).is_some() && !writing.contains_key(&at.0))?;
        Some((next.0, blocks[&next.0]))
    }

    fn take_slot(&mut self) -> Option<u64> {
        if self.used_slots < self.settings.blocks {
            self.used_slots += 1;
            return Some(self.used_slots - 1);
        }
        let slot = *self.freed.range(self.next_slot..).chain(&self.freed).next()?;
        self.freed.remove(&slot);
        self.next_slot = slot + 1;
        Some(slot)
    }
}

fn due(entry: &Entry, age: u64) -> u64 {
    entry.written_ns.saturating_add(age - age / MAX_AGE_PARTS)
}
