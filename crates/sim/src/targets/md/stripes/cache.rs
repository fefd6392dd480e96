//! Which rows are in the cache, and which one is replaced: the one inactive for longest.

use super::{StripeCache, StripeHead};
use crate::bio::NONE;
use crate::rng::mix;

impl StripeCache {
    /// Creates the entries, all inactive.
    pub(super) fn add_entries(&mut self, entries: u32) {
        let empty = StripeHead { active: true, chain: NONE, older: NONE, newer: NONE, ..StripeHead::default() };
        self.entries = vec![empty; entries as usize];
        self.buckets = vec![NONE; entries.next_power_of_two() as usize * 2];
        (self.oldest, self.newest, self.active) = (NONE, NONE, entries);
        for index in 0..entries {
            self.put_inactive(index);
        }
    }

    fn bucket(&self, row: u64) -> usize {
        mix(row) as usize & (self.buckets.len() - 1)
    }

    /// Returns the entry of a row and makes it active; none if the task must wait (`raid5_get_active_stripe`).
    pub(super) fn get_active_stripe(&mut self, row: u64) -> Option<u32> {
        let bucket = self.bucket(row);
        let mut index = self.buckets[bucket];
        while index != NONE && self.entries[index as usize].row != row {
            index = self.entries[index as usize].chain;
        }
        if index != NONE {
            if !self.entries[index as usize].active {
                self.take_inactive(index);
            }
            return Some(index);
        }
        if self.starved || self.oldest == NONE {
            self.starved = true;
            return None;
        }
        let index = self.oldest;
        self.take_inactive(index);
        if self.entries[index as usize].hashed {
            self.unhash(index);
        }
        let entry = &mut self.entries[index as usize];
        (entry.row, entry.hashed, entry.cached) = (row, true, 0);
        entry.chain = std::mem::replace(&mut self.buckets[bucket], index);
        Some(index)
    }

    fn unhash(&mut self, index: u32) {
        let StripeHead { row, chain, .. } = self.entries[index as usize];
        let bucket = self.bucket(row);
        if self.buckets[bucket] == index {
            self.buckets[bucket] = chain;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.entries[before as usize].chain != index {
            before = self.entries[before as usize].chain;
        }
        self.entries[before as usize].chain = chain;
    }

    /// Removes an entry from the list of inactive entries.
    fn take_inactive(&mut self, index: u32) {
        let StripeHead { older, newer, .. } = self.entries[index as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        self.entries[index as usize].active = true;
        self.active += 1;
    }

    /// Adds an entry to the list of inactive entries; its pages stay until another row needs them.
    pub(super) fn put_inactive(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        match newest {
            NONE => self.oldest = index,
            _ => self.entries[newest as usize].newer = index,
        }
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer, entry.active) = (newest, NONE, false);
        self.active -= 1;
    }

    /// Whether enough entries are free again for the tasks that wait.
    pub(super) fn end_starvation(&mut self) -> bool {
        let enough = self.starved && self.active < self.entries.len() as u32 * 3 / 4;
        self.starved &= !enough;
        enough
    }
}

#[cfg(test)]
impl StripeCache {
    /// Panics if an entry is in use or lost.
    pub fn assert_idle(&self) {
        assert_eq!((self.active, self.queue.len(), self.partial.len()), (0, 0, 0));
        assert!(self.waiting.is_empty() && self.overlapping.is_empty() && !self.starved);
        let (mut index, mut inactive) = (self.oldest, 0);
        while index != NONE {
            let entry = &self.entries[index as usize];
            assert!(!entry.active && !entry.queued && entry.held == 0 && entry.io == super::RowIo::Idle);
            inactive += 1;
            index = entry.newer;
        }
        assert_eq!(inactive, self.entries.len());
    }
}
