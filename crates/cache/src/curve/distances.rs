//! LRU stack distances (Mattson et al., 1970), exactly or of a sample: one pass gives the hits of every cache size.

use crate::entry::{BlockTable, Entry};
use crate::sampler::Sampler;

/// Positions that one count covers: eight words of 64 bits, a cache line.
const GROUP: usize = 512;

/// The order of last accesses: a bit for each access that is its block's last one, and a Fenwick tree of their numbers
/// in groups of 512 (Olken, 1981, with bits instead of a search tree). 1.2 bits an access since the last compaction.
#[derive(Debug, Default)]
struct AccessOrder {
    bits: Vec<u64>,
    groups: Vec<u32>,
    owners: Vec<u32>, // the entry whose last access is here
    next: usize,
    live: u32,
}

impl AccessOrder {
    fn new(positions: usize) -> Self {
        let groups = positions.div_ceil(GROUP);
        let (bits, owners) = (vec![0; groups * GROUP / 64], vec![0; groups * GROUP]);
        Self { bits, groups: vec![0; groups + 1], owners, next: 0, live: 0 }
    }

    fn is_full(&self) -> bool {
        self.next == self.owners.len()
    }

    fn add_to_group(&mut self, position: usize, change: u32) {
        let mut group = position / GROUP + 1;
        while group < self.groups.len() {
            self.groups[group] = self.groups[group].wrapping_add(change);
            group += group & group.wrapping_neg();
        }
    }

    /// Adds the newest access.
    fn push(&mut self, entry: u32) -> u32 {
        let position = self.next;
        self.next += 1;
        self.live += 1;
        self.bits[position / 64] |= 1 << (position % 64);
        self.owners[position] = entry;
        self.add_to_group(position, 1);
        position as u32
    }

    fn remove(&mut self, position: u32) {
        let position = position as usize;
        self.live -= 1;
        self.bits[position / 64] &= !(1 << (position % 64));
        self.add_to_group(position, 1u32.wrapping_neg());
    }

    /// How many blocks were accessed at this position or later.
    fn newer_from(&self, position: u32) -> u32 {
        if position as usize == self.next {
            return 0;
        }
        let Some(position) = (position as usize).checked_sub(1) else { return self.live };
        let (mut group, mut older) = (position / GROUP, 0u32);
        let first_word = group * GROUP / 64;
        while group > 0 {
            older = older.wrapping_add(self.groups[group]);
            group &= group - 1;
        }
        let words = &self.bits[first_word..=position / 64];
        let (last, whole) = words.split_last().expect("a range with its end");
        older += whole.iter().map(|word| word.count_ones()).sum::<u32>();
        older += (last << (63 - position % 64)).count_ones();
        self.live - older
    }
}

/// Accesses by distance.
#[derive(Clone, Debug, Default)]
struct Distances {
    bins: Vec<f64>, // accesses by bin
    first: f64,     // first accesses to a block
    weight: f64,    // all of them
}

impl Distances {
    fn count(&mut self, bin: Option<usize>) {
        self.weight += 1.0;
        let Some(bin) = bin else { return self.first += 1.0 };
        if bin >= self.bins.len() {
            self.bins.resize((bin + 1).next_power_of_two(), 0.0);
        }
        self.bins[bin] += 1.0;
    }

    fn misses(&self, first_bin: usize) -> f64 {
        self.first + self.bins.iter().skip(first_bin).sum::<f64>()
    }
}

/// Accesses of one direction.
#[derive(Clone, Debug, Default)]
pub struct DistanceCounts {
    frequent: Distances, // accesses to the frequent blocks, all of them
    sampled: Distances,  // accesses to other blocks, of the sample
    pub accesses: u64,   // all accesses, those outside the sample included
}

impl DistanceCounts {
    /// The sample stands for all accesses that are not to frequent blocks.
    fn misses(&self, first_bin: usize) -> f64 {
        let others = self.accesses as f64 - self.frequent.weight;
        let scale = if self.sampled.weight > 0.0 { others / self.sampled.weight } else { 0.0 };
        self.frequent.misses(first_bin) + self.sampled.misses(first_bin) * scale
    }
}

/// Frequent blocks that a sample watches at most.
const FREQUENT_BLOCKS: usize = 1 << 14;
/// Frequent blocks that share a set of the table.
const SLOTS: usize = 4;
/// Accesses to blocks outside its set that a frequent block survives for each access to itself, and at most.
const SURVIVED: [u32; 2] = [8, 1 << 16];

/// A block that is accessed often. A sample has few such blocks, by chance too many or too few: they are counted apart,
/// and all their accesses, so that the estimate depends on chance for the others only.
#[derive(Clone, Copy, Debug)]
struct FrequentBlock {
    block: u64,
    position: u32, // where the next sampled access was to come when it was last accessed
    score: u32,
}

/// Stack distances of a trace: of all blocks, or of a sample (SHARDS, Waldspurger et
/// al., FAST 2015).
pub struct StackDistances {
    sampler: Sampler,
    frequent: Vec<FrequentBlock>, // by the hash; none without a sample
    entries: Vec<Entry>,          // `period` is the position of the last access
    table: BlockTable,
    order: AccessOrder,
    pub counts: [DistanceCounts; 2], // reads and writes
}

impl StackDistances {
    /// Distances of the sampler's blocks.
    pub fn new(sampler: Sampler) -> Self {
        let slot = FrequentBlock { block: u64::MAX, position: 0, score: 0 };
        let watched = if sampler.rate() < 1.0 { FREQUENT_BLOCKS } else { 0 };
        Self {
            sampler,
            frequent: vec![slot; watched.next_multiple_of(SLOTS)],
            entries: Vec::new(),
            table: BlockTable::new(1 << 12),
            order: AccessOrder::new(1 << 16),
            counts: [DistanceCounts::default(), DistanceCounts::default()],
        }
    }

    /// Counts an access.
    pub fn access(&mut self, block: u64, write: bool) {
        self.counts[usize::from(write)].accesses += 1;
        if self.frequent.is_empty() {
            return self.access_sampled(block, write, true);
        }
        let hash = self.sampler.hash(block);
        let first = hash as u32 as usize % (self.frequent.len() / SLOTS) * SLOTS;
        let slots = &self.frequent[first..first + SLOTS];
        let slot = slots.iter().position(|slot| slot.block == block);
        if let Some(slot) = slot {
            let bin = self.order.newer_from(slots[slot].position) as usize;
            self.counts[usize::from(write)].frequent.count(Some(bin));
        }
        if self.sampler.takes_hash(hash) {
            self.access_sampled(block, write, slot.is_none());
        }
        self.watch(first, slot, block);
    }

    /// Counts an access for the block's place among the frequent ones (as Misra and Gries, 1982, in each set).
    fn watch(&mut self, first: usize, slot: Option<usize>, block: u64) {
        let position = self.order.next as u32;
        let slots = &mut self.frequent[first..first + SLOTS];
        match slot {
            Some(slot) => {
                let score = (slots[slot].score + SURVIVED[0]).min(SURVIVED[1]);
                slots[slot] = FrequentBlock { block, position, score };
            }
            None => {
                let rarest = slots.iter_mut().min_by_key(|slot| slot.score).expect("a set has slots");
                match rarest.score {
                    0 => *rarest = FrequentBlock { block, position, score: SURVIVED[0] },
                    _ => rarest.score -= 1,
                }
            }
        }
    }

    fn access_sampled(&mut self, block: u64, write: bool, counted: bool) {
        if self.order.is_full() {
            self.compact();
        }
        let (index, bin) = match self.table.get(&self.entries, block) {
            Some(index) => {
                let position = self.entries[index as usize].period;
                let newer = self.order.newer_from(position + 1);
                self.order.remove(position);
                (index, Some(newer as usize))
            }
            None => (self.add(block), None),
        };
        if counted {
            self.counts[usize::from(write)].sampled.count(bin);
        }
        self.entries[index as usize].period = self.order.push(index);
    }

    fn add(&mut self, block: u64) -> u32 {
        let index = self.entries.len() as u32;
        self.entries.push(Entry::new(block));
        self.table.insert(&self.entries, index);
        index
    }

    fn compact(&mut self) {
        for frequent in &mut self.frequent {
            frequent.position = self.order.live - self.order.newer_from(frequent.position);
        }
        let AccessOrder { bits, owners, next, .. } = &self.order;
        let is_live = |position: &usize| bits[position / 64] >> (position % 64) & 1 == 1;
        let live: Vec<u32> = (0..*next).filter(is_live).map(|position| owners[position]).collect();
        self.order = AccessOrder::new((live.len() * 2).max(1 << 16));
        for index in live {
            self.entries[index as usize].period = self.order.push(index);
        }
    }

    /// The share of reads, of writes or of both that a cache of this many blocks serves; without a number, those that
    /// are not the first to their block. 0 without accesses.
    pub fn hit_ratio(&self, directions: &[bool], blocks: Option<u64>) -> f64 {
        let first_bin = match blocks {
            None => usize::MAX,
            Some(blocks) => (blocks as f64 * self.rate()).round() as usize,
        };
        let counts = || directions.iter().map(|&write| &self.counts[usize::from(write)]);
        let misses: f64 = counts().map(|counts| counts.misses(first_bin)).sum();
        let accesses = counts().map(|counts| counts.accesses).sum::<u64>();
        if accesses == 0 { 0.0 } else { (1.0 - misses / accesses as f64).clamp(0.0, 1.0) }
    }

    /// Different blocks, estimated from the sample.
    pub fn distinct(&self) -> u64 {
        (self.entries.len() as f64 / self.sampler.rate()).round() as u64
    }

    /// The share of the blocks that is sampled now.
    pub fn rate(&self) -> f64 {
        self.sampler.rate()
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let bins = |counts: &DistanceCounts| counts.frequent.bins.len() + counts.sampled.bins.len();
        let counts = self.counts.iter().map(bins).sum::<usize>() * 8 + self.frequent.len() * size_of::<FrequentBlock>();
        let order = self.order.owners.len() * 4 + self.order.bits.len() * 8 + self.order.groups.len() * 4;
        self.entries.len() * size_of::<Entry>() + self.table.memory_bytes() + order + counts
    }
}
