//! What policies are made of: entries in doubly linked lists, and a hash table of them.

use blklab_stats::hash64;
use std::hint::black_box;

/// No entry.
pub const NONE: u32 = u32::MAX;

/// One entry: a cached block, a hotspot block, or a sentinel. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub block: u64,
    previous: u32,
    next: u32,
    pub period: u32, // the period in which it was last used, see `smq`
    pub level: u8,   // the level of its list
    flags: u8,       // flags: see the constants
}

/// A flag of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(u8);

impl Entry {
    /// It marks an age, and is no block.
    pub const SENTINEL: Flag = Flag(1);
    /// It is in use.
    pub const ALLOCATED: Flag = Flag(2);
    /// The cached block differs from the origin.
    pub const DIRTY: Flag = Flag(4);
    /// Work on it is queued or running, so it is in no list.
    pub const PENDING: Flag = Flag(8);

    /// A free entry.
    pub const FREE: Self = Self { block: 0, previous: NONE, next: NONE, period: 0, level: 0, flags: 0 };

    /// An entry of a block, in no list.
    pub fn new(block: u64) -> Self {
        Self { block, ..Self::FREE }
    }

    /// Whether it has the flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag.0 != 0
    }

    /// Sets or clears a flag.
    pub fn set(&mut self, flag: Flag, on: bool) {
        self.flags = if on { self.flags | flag.0 } else { self.flags & !flag.0 };
    }
}

/// A list of entries; the head is the oldest. `len` does not count sentinels.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub head: u32, // the oldest entry
    pub tail: u32, // the newest entry
    pub len: u32,  // entries except sentinels
}

impl List {
    /// A list without entries.
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    /// Inserts `index` before `next`, or as the newest if that is `NONE`.
    pub fn insert_before(&mut self, entries: &mut [Entry], next: u32, index: u32) {
        let previous = if next == NONE { self.tail } else { entries[next as usize].previous };
        let entry = &mut entries[index as usize];
        (entry.previous, entry.next) = (previous, next);
        self.len += u32::from(!entry.has(Entry::SENTINEL));
        match previous {
            NONE => self.head = index,
            _ => entries[previous as usize].next = index,
        }
        match next {
            NONE => self.tail = index,
            _ => entries[next as usize].previous = index,
        }
    }

    /// Adds the newest entry.
    pub fn push(&mut self, entries: &mut [Entry], index: u32) {
        self.insert_before(entries, NONE, index);
    }

    /// Removes an entry of this list.
    pub fn remove(&mut self, entries: &mut [Entry], index: u32) {
        let Entry { previous, next, .. } = entries[index as usize];
        self.len -= u32::from(!entries[index as usize].has(Entry::SENTINEL));
        match previous {
            NONE => self.head = next,
            _ => entries[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            _ => entries[next as usize].previous = previous,
        }
    }

    /// The oldest entry that is no sentinel, and how many sentinels are older.
    pub fn oldest(&self, entries: &[Entry]) -> (Option<u32>, u32) {
        let (mut index, mut sentinels) = (self.head, 0);
        while index != NONE && entries[index as usize].has(Entry::SENTINEL) {
            (index, sentinels) = (entries[index as usize].next, sentinels + 1);
        }
        ((index != NONE).then_some(index), sentinels)
    }

    /// The newest entry that is no sentinel.
    pub fn newest(&self, entries: &[Entry]) -> Option<u32> {
        let mut index = self.tail;
        while index != NONE && entries[index as usize].has(Entry::SENTINEL) {
            index = entries[index as usize].previous;
        }
        (index != NONE).then_some(index)
    }
}

/// A hash table from blocks to entries: open addressing, at most half full, growing, 8 bytes a slot.
///
/// A slot has the upper half of the block's hash and the entry's number, so that a block that is not there is rarely
/// compared with entries.
#[derive(Clone, Debug)]
pub struct BlockTable {
    slots: Vec<u64>,
    shift: u32,
    used: usize,
}

const EMPTY_SLOT: u64 = u64::MAX;
/// Accesses that are looked up together.
pub const TOGETHER: usize = 64;

impl BlockTable {
    /// A table for this many entries.
    pub fn new(entries: usize) -> Self {
        let bits = (entries.max(8) * 2).next_power_of_two().trailing_zeros();
        Self { slots: vec![EMPTY_SLOT; 1 << bits], shift: 32 - bits, used: 0 }
    }

    fn tag(block: u64) -> u32 {
        (hash64(block) >> 32) as u32
    }

    fn home(&self, tag: u32) -> usize {
        (tag >> self.shift) as usize
    }

    fn slot_of(&self, entries: &[Entry], block: u64) -> Option<usize> {
        let (tag, mask) = (Self::tag(block), self.slots.len() - 1);
        let mut slot = self.home(tag);
        loop {
            let content = self.slots[slot];
            if content == EMPTY_SLOT {
                return None;
            }
            if (content >> 32) as u32 == tag && entries[content as u32 as usize].block == block {
                return Some(slot);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Looks where blocks are searched for first, so that the processor waits once for all of them.
    pub fn look_ahead(&self, entries: &[Entry], accesses: &[(u64, bool)]) {
        let mut indices = [0; TOGETHER];
        let slot = |block| self.slots[self.home(Self::tag(block))];
        accesses.iter().zip(&mut indices).for_each(|(access, index)| *index = slot(access.0) as u32 as usize);
        black_box(indices.iter().fold(0, |all, &index| all | entries.get(index).map_or(0, |entry| entry.period)));
    }

    /// The entry of a block.
    pub fn get(&self, entries: &[Entry], block: u64) -> Option<u32> {
        self.slot_of(entries, block).map(|slot| self.slots[slot] as u32)
    }

    /// Inserts an entry; its block must not be in the table.
    pub fn insert(&mut self, entries: &[Entry], index: u32) {
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let old = std::mem::replace(self, Self::new(self.used));
            old.slots.into_iter().filter(|&slot| slot != EMPTY_SLOT).for_each(|slot| self.insert(entries, slot as u32));
            self.used += 1;
        }
        let (tag, mask) = (Self::tag(entries[index as usize].block), self.slots.len() - 1);
        let mut slot = self.home(tag);
        while self.slots[slot] != EMPTY_SLOT {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = (u64::from(tag) << 32) | u64::from(index);
    }

    /// Removes a block; false if it is not in the table.
    pub fn remove(&mut self, entries: &[Entry], block: u64) -> bool {
        let Some(mut hole) = self.slot_of(entries, block) else { return false };
        let mask = self.slots.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let moved = self.slots[slot];
            if moved == EMPTY_SLOT {
                break;
            }
            // A slot may move back to the hole unless that is before its home.
            let home = self.home((moved >> 32) as u32);
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(hole) & mask) {
                self.slots[hole] = moved;
                hole = slot;
            }
        }
        self.slots[hole] = EMPTY_SLOT;
        self.used -= 1;
        true
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }
}
