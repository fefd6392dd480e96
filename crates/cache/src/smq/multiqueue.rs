//! A multiqueue: 64 lists by level, between which entries move up as they are used.

use crate::entry::{Entry, List, NONE};

/// Levels of every queue (`NR_HOTSPOT_LEVELS`, `NR_CACHE_LEVELS`).
pub const LEVELS: usize = 64;

/// A multiqueue. Its entries are in a slice that it does not own.
#[derive(Clone, Debug)]
pub struct Multiqueue {
    pub levels: [List; LEVELS], // the lists, from the lowest level
    pub len: u32,               // entries except sentinels
    top_levels: usize,          // how many levels at the top share `top_entries`; 0: all levels share all entries
    top_entries: u32,
}

impl Multiqueue {
    /// An empty queue, whose `top_levels` levels shall hold `top_entries` together.
    pub fn new(top_levels: usize, top_entries: u32) -> Self {
        Self { levels: [List::EMPTY; LEVELS], len: 0, top_levels, top_entries }
    }

    /// Adds an entry at its level as the newest.
    pub fn push(&mut self, entries: &mut [Entry], index: u32) {
        self.push_before(entries, NONE, index);
    }

    /// Adds an entry at its level as the oldest.
    pub fn push_front(&mut self, entries: &mut [Entry], index: u32) {
        let head = self.levels[usize::from(entries[index as usize].level)].head;
        self.push_before(entries, head, index);
    }

    fn push_before(&mut self, entries: &mut [Entry], next: u32, index: u32) {
        let entry = entries[index as usize];
        self.len += u32::from(!entry.has(Entry::SENTINEL));
        self.levels[usize::from(entry.level)].insert_before(entries, next, index);
    }

    /// Removes an entry.
    pub fn remove(&mut self, entries: &mut [Entry], index: u32) {
        let entry = entries[index as usize];
        self.len -= u32::from(!entry.has(Entry::SENTINEL));
        self.levels[usize::from(entry.level)].remove(entries, index);
    }

    /// The oldest entry of the lowest level that has any, below `limit`. Without `past_sentinels` only those count that
    /// are older than both sentinels of their level (`q_peek`).
    pub fn peek(&self, entries: &[Entry], limit: usize, past_sentinels: bool) -> Option<u32> {
        self.levels[..limit].iter().filter(|list| list.len > 0).find_map(|list| match list.oldest(entries) {
            (Some(_), 1..) if !past_sentinels => None,
            (oldest, _) => oldest,
        })
    }

    /// Moves an entry up by `levels`, as the newest there, and the oldest entry there down to its old level
    /// (`q_requeue`). `sentinels`: the older and the newer sentinel of its old level, which keep the other's age.
    pub fn requeue(&mut self, entries: &mut [Entry], index: u32, levels: u8, sentinels: Option<[u32; 2]>) {
        let old = entries[index as usize].level;
        let new = (old + levels).min(LEVELS as u8 - 1);
        if new != old
            && let (Some(other), passed) = self.levels[usize::from(new)].oldest(entries)
        {
            self.remove(entries, other);
            entries[other as usize].level = old;
            let next = sentinels.map_or(NONE, |pair| pair.get(passed as usize).copied().unwrap_or(NONE));
            self.push_before(entries, next, other);
        }
        self.move_entry(entries, index, usize::from(new));
    }

    /// Gives every level its share again, from the lowest (`q_redistribute`).
    pub fn redistribute(&mut self, entries: &mut [Entry]) {
        for level in 0..LEVELS - 1 {
            let share = self.share(level);
            let mut above = level + 1;
            while self.levels[level].len < share {
                while above < LEVELS && self.levels[above].len == 0 {
                    above += 1;
                }
                let Some(index) = self.levels.get(above).and_then(|list| list.oldest(entries).0) else { break };
                self.move_entry(entries, index, level);
            }
            while self.levels[level].len > share {
                let Some(index) = self.levels[level].newest(entries) else { break };
                self.move_entry(entries, index, level + 1);
            }
        }
    }

    fn move_entry(&mut self, entries: &mut [Entry], index: u32, level: usize) {
        self.remove(entries, index);
        entries[index as usize].level = level as u8;
        self.push(entries, index);
    }

    /// The entries that a level should have (`q_set_targets`).
    fn share(&self, level: usize) -> u32 {
        let bottom = LEVELS - self.top_levels;
        let (entries, level, levels) = if level >= bottom {
            (self.top_entries, level - bottom, self.top_levels)
        } else {
            (self.len.saturating_sub(self.top_entries), level, bottom)
        };
        let levels = levels as u32;
        entries / levels + u32::from((level as u32) < entries % levels)
    }
}
