//! LRU stack distances (Mattson et al., 1970), exactly or of a sample: one pass gives the hits of every cache size.

use crate::entry::{BlockTable, Entry, TOGETHER};
use crate::sampler::Sampler;
use std::hint::black_box;

/// Positions of a word of bits, and of a group of words.
const WORD: usize = 64;
const GROUP: usize = 4096;

/// The order of last accesses: a bit for each access that is its block's last one (Olken, 1981, with bits instead of a
/// search tree), and how many are older. 1.3 bits an access since the last compaction.
#[derive(Debug)]
struct AccessOrder {
    bits: Vec<u64>,
    words: Vec<u16>,  // those in the group before each word; known up to the word of `next`
    groups: Vec<u32>, // those in each group, as a Fenwick tree; known of whole groups
    owners: Vec<u32>, // the entry whose last access is here
    next: usize,
    live: u32,
}

impl AccessOrder {
    fn new(positions: usize) -> Self {
        let positions = positions.next_multiple_of(GROUP);
        let words = positions / WORD + 1; // that of `next` may be behind the last position
        let (bits, words, groups) = (vec![0; words], vec![0; words], vec![0; positions / GROUP + 1]);
        Self { bits, words, groups, owners: vec![0; positions], next: 0, live: 0 }
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
        self.bits[position / WORD] |= 1 << (position % WORD);
        self.owners[position] = entry;
        if self.next.is_multiple_of(GROUP) {
            self.add_to_group(position, GROUP as u32);
            self.words[self.next / WORD] = 0;
        } else if self.next.is_multiple_of(WORD) {
            self.words[self.next / WORD] = self.words[position / WORD] + self.bits[position / WORD].count_ones() as u16;
        }
        position as u32
    }

    fn remove(&mut self, position: u32) {
        let position = position as usize;
        self.live -= 1;
        self.bits[position / WORD] &= !(1 << (position % WORD));
        let later = position / WORD + 1..(position / GROUP + 1) * (GROUP / WORD);
        self.words[later].iter_mut().for_each(|before| *before = before.wrapping_sub(1));
        self.add_to_group(position, 1u32.wrapping_neg());
    }

    /// How many blocks were accessed at this position or later.
    fn newer_from(&self, position: u32) -> u32 {
        let (position, word) = (position as usize, position as usize / WORD);
        let within = (self.bits[word] & ((1 << (position % WORD)) - 1)).count_ones();
        let (mut group, mut older) = (position / GROUP, u32::from(self.words[word]) + within);
        while group > 0 {
            older = older.wrapping_add(self.groups[group]);
            group &= group - 1;
        }
        self.live - older
    }
}

/// Accesses by distance.
#[derive(Clone, Debug, Default)]
struct Distances {
    bins: Vec<u64>, // accesses by bin
    first: u64,     // first accesses to a block
}

impl Distances {
    fn count(&mut self, bin: Option<usize>) {
        let Some(bin) = bin else { return self.first += 1 };
        if bin >= self.bins.len() {
            self.bins.resize((bin + 1).next_power_of_two(), 0);
        }
        self.bins[bin] += 1;
    }

    fn misses(&self, first_bin: usize) -> f64 {
        (self.first + self.bins.iter().skip(first_bin).sum::<u64>()) as f64
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
        let others = self.accesses as f64 - self.frequent.misses(0);
        let sampled = self.sampled.misses(0);
        let scale = if sampled > 0.0 { others / sampled } else { 0.0 };
        self.frequent.misses(first_bin) + self.sampled.misses(first_bin) * scale
    }
}

/// Sets of the frequent blocks that a sample watches.
const SETS: usize = 1 << 12;
/// Frequent blocks that share a set.
const SLOTS: usize = 4;
/// Accesses to blocks outside its set that a frequent block survives for each access to itself, and at most.
const SURVIVED: [u32; 2] = [8, 1 << 16];

/// Blocks that are accessed often. A sample has few such blocks, by chance too many or too few: they are counted apart,
/// and all their accesses, so that the estimate depends on chance for the others only. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct FrequentBlocks {
    blocks: [u64; SLOTS],
    positions: [u32; SLOTS], // where the next sampled access was to come when each was last accessed
    ranks: [u32; SLOTS],     // scores times `SLOTS`, plus the number of the slot
}

impl FrequentBlocks {
    const NONE: Self = Self { blocks: [u64::MAX; SLOTS], positions: [0; SLOTS], ranks: [0, 1, 2, 3] };

    /// Counts an access for the block's place among the frequent ones (as Misra and Gries, 1982, in each set). Returns
    /// whether it was one of them, and its position before. There are no branches: they could not be predicted.
    fn watch(&mut self, block: u64, next: u32) -> (bool, u32) {
        let rarest = self.ranks.iter().fold(u32::MAX, |least, &rank| least.min(rank));
        let (mut slot, mut is_known) = (rarest as usize % SLOTS, false);
        for (index, &other) in self.blocks.iter().enumerate() {
            slot = if other == block { index } else { slot };
            is_known |= other == block;
        }
        let (position, rank) = (self.positions[slot], self.ranks[slot]);
        let taken = is_known | (rank < SLOTS as u32);
        let grown = (rank + SURVIVED[0] * SLOTS as u32).min(SURVIVED[1] * SLOTS as u32 + slot as u32);
        self.ranks[slot] = if taken { grown } else { rank.wrapping_sub(SLOTS as u32) };
        self.blocks[slot] = if taken { block } else { self.blocks[slot] };
        self.positions[slot] = if taken { next } else { position };
        (is_known, position)
    }
}

/// Stack distances of a trace: of all blocks, or of a sample (SHARDS, Waldspurger et
/// al., FAST 2015).
pub struct StackDistances {
    pub sampler: Sampler,
    frequent: Vec<FrequentBlocks>, // by the hash; none without a sample
    entries: Vec<Entry>,           // `period` is the position of the last access
    table: BlockTable,
    order: AccessOrder,
    pub counts: [DistanceCounts; 2], // reads and writes
}

impl StackDistances {
    /// Distances of the sampler's blocks.
    pub fn new(sampler: Sampler) -> Self {
        let sets = if sampler.rate() < 1.0 { SETS } else { 0 };
        Self {
            sampler,
            frequent: vec![FrequentBlocks::NONE; sets],
            entries: Vec::new(),
            table: BlockTable::new(1 << 12),
            order: AccessOrder::new(1 << 16),
            counts: [DistanceCounts::default(), DistanceCounts::default()],
        }
    }

    /// Counts accesses: their blocks, and whether they write.
    pub fn access(&mut self, accesses: &[(u64, bool)]) {
        let writes = accesses.iter().filter(|access| access.1).count();
        self.counts[0].accesses += (accesses.len() - writes) as u64;
        self.counts[1].accesses += writes as u64;
        for together in accesses.chunks(TOGETHER) {
            if self.frequent.is_empty() {
                self.table.look_ahead(&self.entries, together);
                together.iter().for_each(|&(block, write)| self.access_block(block, write, true));
            } else {
                self.access_sample(together);
            }
        }
    }

    fn access_sample(&mut self, accesses: &[(u64, bool)]) {
        let (mut hashes, mut known, mut count) = ([0; TOGETHER], [(0, false); TOGETHER], 0);
        accesses.iter().zip(&mut hashes).for_each(|(access, hash)| *hash = self.sampler.hash(access.0));
        // The processor waits once for all sets.
        black_box(hashes.iter().fold(0, |all, &hash| all | self.frequent[hash as usize % SETS].ranks[0]));
        let (sampler, mut next) = (self.sampler, self.order.next as u32);
        for (&(block, write), hash) in accesses.iter().zip(hashes) {
            let set = hash as usize % SETS;
            let (is_known, position) = self.frequent[set].watch(block, next);
            known[count] = (position, write);
            count += usize::from(is_known);
            if hash < sampler.threshold {
                self.count_frequent(&known[..std::mem::take(&mut count)]);
                self.access_block(block, write, !is_known);
                next = self.order.next as u32;
                let FrequentBlocks { blocks, positions, .. } = &mut self.frequent[set];
                blocks.iter().zip(positions).filter(|(other, _)| **other == block).for_each(|(_, at)| *at = next);
            }
        }
        self.count_frequent(&known[..count]);
    }

    fn count_frequent(&mut self, known: &[(u32, bool)]) {
        for &(position, write) in known {
            let bin = self.order.newer_from(position) as usize;
            self.counts[usize::from(write)].frequent.count(Some(bin));
        }
    }

    fn access_block(&mut self, block: u64, write: bool, counted: bool) {
        if self.order.next == self.order.owners.len() {
            self.compact();
        }
        let (index, bin) = match self.table.get(&self.entries, block) {
            Some(index) => {
                let position = self.entries[index as usize].period;
                self.order.remove(position);
                (index, Some(self.order.newer_from(position) as usize))
            }
            None => {
                let index = self.entries.len() as u32;
                self.entries.push(Entry::new(block));
                self.table.insert(&self.entries, index);
                (index, None)
            }
        };
        if counted {
            self.counts[usize::from(write)].sampled.count(bin);
        }
        self.entries[index as usize].period = self.order.push(index);
    }

    fn compact(&mut self) {
        for position in self.frequent.iter_mut().flat_map(|set| &mut set.positions) {
            *position = self.order.live - self.order.newer_from(*position);
        }
        let order = AccessOrder::new((self.order.live as usize * 2).max(1 << 16));
        let AccessOrder { bits, owners, .. } = std::mem::replace(&mut self.order, order);
        for (entry, position) in owners.into_iter().zip(0..) {
            if bits[position / WORD] >> (position % WORD) & 1 == 1 {
                self.entries[entry as usize].period = self.order.push(entry);
            }
        }
    }

    /// The share of reads, of writes or of both that a cache of this many blocks serves; without a number, those that
    /// are not the first to their block. 0 without accesses.
    pub fn hit_ratio(&self, directions: &[bool], blocks: Option<u64>) -> f64 {
        let first_bin = match blocks {
            None => usize::MAX,
            Some(blocks) => (blocks as f64 * self.sampler.rate()).round() as usize,
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

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let bins = |counts: &DistanceCounts| counts.frequent.bins.len() + counts.sampled.bins.len();
        let counts = self.counts.iter().map(bins).sum::<usize>() * 8;
        let AccessOrder { bits, words, groups, owners, .. } = &self.order;
        let order = bits.len() * 8 + words.len() * 2 + (groups.len() + owners.len()) * 4;
        size_of_val(&*self.frequent)
            + self.entries.len() * size_of::<Entry>()
            + self.table.memory_bytes()
            + order
            + counts
    }
}
