//! Flat open-addressed table from block to its reads and writes.

use serde::{Deserialize, Serialize, Serializer};

/// One block; 16 bytes, four to a cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockCount {
    key: u64, // Block + 1; 0 marks a free slot
    pub reads: u32,
    pub writes: u32,
}

impl BlockCount {
    pub fn new(block: u64, reads: u32, writes: u32) -> Self {
        Self { key: block.saturating_add(1), reads, writes }
    }

    pub fn block(&self) -> u64 {
        self.key - 1
    }

    pub fn count(&self) -> u64 {
        u64::from(self.reads) + u64::from(self.writes)
    }

    /// The counts as 64 bits.
    pub fn bits(&self) -> u64 {
        u64::from(self.reads) | u64::from(self.writes) << 32
    }

    pub fn add(&mut self, reads: u32, writes: u32) {
        self.reads = self.reads.saturating_add(reads);
        self.writes = self.writes.saturating_add(writes);
    }
}

/// Linear probing; grows by doubling when five eighths full.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Vec<(u64, u32, u32)>")]
pub(crate) struct BlockTable {
    slots: Vec<BlockCount>,
    used: usize,
    shift: u32,
}

impl BlockTable {
    /// A table that holds `blocks` without growing.
    pub fn with_room(blocks: usize) -> Self {
        Self::sized(slots_for(blocks).ilog2())
    }

    /// Empties it and sizes it for `blocks`.
    pub fn clear(&mut self, blocks: usize) {
        if slots_for(blocks) == self.slots.len() {
            self.slots.fill(BlockCount::default());
            self.used = 0;
        } else {
            *self = Self::with_room(blocks);
        }
    }

    fn sized(bits: u32) -> Self {
        Self { slots: vec![BlockCount::default(); 1 << bits], used: 0, shift: 64 - bits + 2 }
    }

    /// Four neighbours share a cache line, so that a large I/O touches few lines.
    fn home(&self, key: u64) -> usize {
        let group = (key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        ((group << 2) | (key & 3)) as usize
    }

    /// The slot of `key`, or the free slot for it.
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key) & mask;
        loop {
            let slot = &self.slots[at];
            if slot.key == key || slot.key == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether a block is in the table.
    pub fn has(&self, block: u64) -> bool {
        self.used > 0 && self.get(block).is_some()
    }

    /// The number of a block's slot, below [`Self::len`], and its counts.
    pub fn get(&self, block: u64) -> Option<(usize, &BlockCount)> {
        let at = self.find(block.saturating_add(1));
        (self.slots[at].key != 0).then_some((at, &self.slots[at]))
    }

    /// The number of slots, used or free.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds to a block that is in the table.
    pub fn add_to(&mut self, block: u64, reads: u32, writes: u32) {
        let at = self.find(block.saturating_add(1));
        self.slots[at].add(reads, writes);
    }

    /// Sets a bit, in a table of bits.
    pub fn set_bit(&mut self, key: u64, bit: u64) {
        let bits = self.get(key).map_or(0, |(_, slot)| slot.bits()) | 1 << bit;
        self.add(key, 0, 0);
        let at = self.find(key.saturating_add(1));
        (self.slots[at].reads, self.slots[at].writes) = (bits as u32, (bits >> 32) as u32);
    }

    /// Adds to a block; true if the block is new.
    pub fn add(&mut self, block: u64, reads: u32, writes: u32) -> bool {
        let at = self.find(block.saturating_add(1));
        let slot = &mut self.slots[at];
        if slot.key != 0 {
            slot.add(reads, writes);
            return false;
        }
        *slot = BlockCount::new(block, reads, writes);
        self.used += 1;
        if self.used * 8 > self.slots.len() * 5 {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        let mut larger = Self::sized(self.slots.len().ilog2() + 1);
        for slot in self.iter() {
            let at = larger.find(slot.key);
            larger.slots[at] = *slot;
        }
        larger.used = self.used;
        *self = larger;
    }

    /// Every block, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &BlockCount> {
        self.slots.iter().filter(|slot| slot.key != 0)
    }
}

impl Serialize for BlockTable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut slots: Vec<_> = self.iter().map(|slot| (slot.key, slot.reads, slot.writes)).collect();
        slots.sort_unstable();
        slots.serialize(to)
    }
}

impl TryFrom<Vec<(u64, u32, u32)>> for BlockTable {
    type Error = &'static str;

    fn try_from(slots: Vec<(u64, u32, u32)>) -> Result<Self, Self::Error> {
        let mut table = BlockTable::with_room(slots.len());
        let is_new = |(key, reads, writes): (u64, u32, u32)| key > 0 && table.add(key - 1, reads, writes);
        if slots.into_iter().all(is_new) { Ok(table) } else { Err("a block is there twice") }
    }
}

/// Slots for `blocks`: at least eight, because many tables stay empty.
fn slots_for(blocks: usize) -> usize {
    (blocks.max(4) * 8 / 5 + 1).next_power_of_two()
}
