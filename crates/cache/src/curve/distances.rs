//! LRU stack distances (Mattson et al., 1970), exactly or of a sample: one pass gives the hits of every cache size.

use crate::entry::{BlockTable, Entry, TOGETHER};
use blklab_stats::hash64;
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

/// Accesses of one direction, by distance.
#[derive(Clone, Debug, Default)]
pub struct DistanceCounts {
    frequent: Vec<u64>, // accesses to the frequent blocks, in turn with other samples
    sampled: Vec<u64>,  // accesses to other blocks, of the sample
    first: u64,         // those that are the first to their block
    pub accesses: u64,  // all accesses, those outside the sample included
}

impl DistanceCounts {
    fn count(bins: &mut Vec<u64>, bin: usize) {
        if bin >= bins.len() {
            bins.resize((bin + 1).next_power_of_two(), 0);
        }
        bins[bin] += 1;
    }

    /// The sample stands for all accesses that are not to frequent blocks.
    fn misses(&self, first_bin: usize, turns: u64) -> f64 {
        let sum = |bins: &[u64], from| bins.iter().skip(from).sum::<u64>() as f64;
        let frequent = |from| sum(&self.frequent, from) * turns as f64;
        let (others, first) = ((self.accesses as f64 - frequent(0)).max(0.0), self.first as f64);
        let sampled = sum(&self.sampled, 0) + first;
        let scale = if sampled > 0.0 { others / sampled } else { 0.0 };
        frequent(first_bin) + (sum(&self.sampled, first_bin) + first) * scale
    }
}

/// Sets of the frequent blocks that samples watch.
const SETS: usize = 1 << 11;
/// Frequent blocks that share a set.
const SLOTS: usize = 4;
/// The slot of a block that is in none.
const NO_SLOT: u16 = (SETS * SLOTS) as u16;
/// Accesses to blocks outside its set that a frequent block survives for each access to itself, and at most.
const SURVIVED: [u32; 2] = [8, 1 << 16];

/// Blocks that are accessed often. A sample has few such blocks, by chance too many or too few: they are counted apart,
/// and samples take turns at their accesses, so that the estimate depends on chance for the others only. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct FrequentBlocks {
    hashes: [u64; SLOTS],
    ranks: [u32; SLOTS], // scores times `SLOTS`, plus the number of the slot
}

impl FrequentBlocks {
    const NONE: Self = Self { hashes: [u64::MAX; SLOTS], ranks: [0, 1, 2, 3] };

    /// Counts an access for the block's place among the frequent ones (as Misra and Gries, 1982, in each set). Returns
    /// the block's slot, or `SLOTS`, and whether it was there before. There are no branches: they could not be predicted.
    fn watch(&mut self, hash: u64) -> (usize, bool) {
        let rarest = self.ranks.iter().fold(u32::MAX, |least, &rank| least.min(rank));
        let (mut slot, mut is_known) = (rarest as usize % SLOTS, false);
        for (index, &other) in self.hashes.iter().enumerate() {
            slot = if other == hash { index } else { slot };
            is_known |= other == hash;
        }
        let rank = self.ranks[slot];
        let taken = is_known | (rank < SLOTS as u32);
        let grown = (rank + SURVIVED[0] * SLOTS as u32).min(SURVIVED[1] * SLOTS as u32 + slot as u32);
        self.ranks[slot] = if taken { grown } else { rank.wrapping_sub(SLOTS as u32) };
        self.hashes[slot] = if taken { hash } else { self.hashes[slot] };
        (if taken { slot } else { SLOTS }, is_known)
    }
}

/// An access that samples count.
#[derive(Clone, Copy, Default)]
struct SelectedAccess {
    hash: u64,      // of the block, for which it stands: no other has it
    slot: u16,      // among the frequent blocks
    is_known: bool, // whether the block was frequent before
    write: bool,
}

/// Stack distances of a trace: of all blocks, or of samples (SHARDS, Waldspurger et al., FAST 2015).
#[derive(Default)]
pub struct StackDistances {
    pub samples: Vec<DistanceSample>, // each takes other blocks, unless together they are more than all
    frequent: Vec<FrequentBlocks>,    // by the hash; none if all blocks are counted
    selected: Vec<SelectedAccess>,
}

impl StackDistances {
    /// Distances of all blocks, or of this share of them in each of so many samples.
    pub fn new(rate: f64, samples: u64) -> Self {
        let (sets, samples) = if rate < 1.0 { (SETS, samples) } else { (0, 1) };
        let samples = (0..samples).map(|number| DistanceSample::new(rate, number, samples)).collect();
        Self { samples, frequent: vec![FrequentBlocks::NONE; sets], selected: Vec::new() }
    }

    /// Counts accesses: their blocks, and whether they write.
    pub fn access(&mut self, accesses: &[(u64, bool)]) {
        let writes = accesses.iter().filter(|access| access.1).count() as u64;
        for DistanceSample { counts: [read, write], .. } in &mut self.samples {
            read.accesses += accesses.len() as u64 - writes;
            write.accesses += writes;
        }
        if self.frequent.is_empty() {
            return accesses.chunks(TOGETHER).for_each(|together| self.samples[0].access_all(together));
        }
        let count = self.select(accesses);
        self.samples.iter_mut().for_each(|sample| sample.access_selected(&self.selected[..count]));
    }

    /// Selects accesses to frequent blocks, and to those of a sample. Returns how many they are.
    fn select(&mut self, accesses: &[(u64, bool)]) -> usize {
        let sampled = self.samples[0].share.saturating_mul(self.samples.len() as u64);
        self.selected.resize(accesses.len().max(self.selected.len()), SelectedAccess::default());
        let mut count = 0;
        for together in accesses.chunks(TOGETHER) {
            let mut hashes = [0; TOGETHER];
            together.iter().zip(&mut hashes).for_each(|(access, hash)| *hash = hash64(access.0));
            // The processor waits once for all sets.
            black_box(hashes.iter().fold(0, |all, &hash| all | self.frequent[hash as usize % SETS].ranks[0]));
            for (&(_, write), hash) in together.iter().zip(hashes) {
                let set = hash as usize % SETS;
                let (slot, is_known) = self.frequent[set].watch(hash);
                let slot = if slot < SLOTS { (set * SLOTS + slot) as u16 } else { NO_SLOT };
                self.selected[count] = SelectedAccess { hash, slot, is_known, write };
                count += usize::from((slot != NO_SLOT) | (hash < sampled));
            }
        }
        count
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let samples: usize = self.samples.iter().map(DistanceSample::memory_bytes).sum();
        samples + size_of_val(&*self.frequent) + size_of_val(&*self.selected)
    }
}

/// Stack distances of all blocks, or of one sample.
pub struct DistanceSample {
    pub rate: f64,       // the share of the blocks that it takes
    first: u64,          // the first hash that it takes
    share: u64,          // how many hashes
    turns: u64,          // samples, which take turns to count the accesses to frequent blocks
    turn: [u64; 2],      // such reads, and writes, since this one's turn
    positions: Vec<u32>, // by slot of a frequent block: where the next access of the sample was to come at its last one
    entries: Vec<Entry>, // `period` is the position of the last access
    table: BlockTable,
    order: AccessOrder,
    pub counts: [DistanceCounts; 2], // reads and writes
}

impl DistanceSample {
    fn new(rate: f64, number: u64, turns: u64) -> Self {
        let share = (rate * 2f64.powi(64)) as u64;
        Self {
            rate,
            first: share.wrapping_mul(number),
            share,
            turns,
            turn: [number; 2],
            positions: vec![0; usize::from(NO_SLOT) + 1],
            entries: Vec::new(),
            table: BlockTable::new(1 << 12),
            order: AccessOrder::new(1 << 16),
            counts: [DistanceCounts::default(), DistanceCounts::default()],
        }
    }

    fn access_all(&mut self, accesses: &[(u64, bool)]) {
        self.table.look_ahead(&self.entries, accesses);
        accesses.iter().for_each(|&(block, write)| self.access_block(block, write, true));
    }

    fn access_selected(&mut self, accesses: &[SelectedAccess]) {
        for &SelectedAccess { hash, slot, is_known, write } in accesses {
            self.turn[usize::from(write)] += u64::from(is_known);
            if self.turn[usize::from(write)] == self.turns {
                self.turn[usize::from(write)] = 0;
                let bin = self.order.newer_from(self.positions[usize::from(slot)]) as usize;
                DistanceCounts::count(&mut self.counts[usize::from(write)].frequent, bin);
            }
            if hash.wrapping_sub(self.first) < self.share {
                self.access_block(hash, write, !is_known);
            }
            self.positions[usize::from(slot)] = self.order.next as u32;
        }
    }

    fn access_block(&mut self, block: u64, write: bool, counted: bool) {
        if self.order.next == self.order.owners.len() {
            self.compact();
        }
        let counts = &mut self.counts[usize::from(write)];
        let known = self.table.get(&self.entries, block);
        let index = known.unwrap_or(self.entries.len() as u32);
        if known.is_some() {
            let position = self.entries[index as usize].period;
            self.order.remove(position);
            if counted {
                DistanceCounts::count(&mut counts.sampled, self.order.newer_from(position) as usize);
            }
        } else {
            self.entries.push(Entry::new(block));
            self.table.insert(&self.entries, index);
            counts.first += u64::from(counted);
        }
        self.entries[index as usize].period = self.order.push(index);
    }

    fn compact(&mut self) {
        for position in &mut self.positions {
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
            Some(blocks) => (blocks as f64 * self.rate).round() as usize,
        };
        let counts = || directions.iter().map(|&write| &self.counts[usize::from(write)]);
        let misses: f64 = counts().map(|counts| counts.misses(first_bin, self.turns)).sum();
        let accesses = counts().map(|counts| counts.accesses).sum::<u64>();
        if accesses == 0 { 0.0 } else { (1.0 - misses / accesses as f64).clamp(0.0, 1.0) }
    }

    /// Different blocks, estimated from the sample.
    pub fn distinct(&self) -> u64 {
        (self.entries.len() as f64 / self.rate).round() as u64
    }

    fn memory_bytes(&self) -> usize {
        let bins = |counts: &DistanceCounts| counts.frequent.len() + counts.sampled.len();
        let counts = self.counts.iter().map(bins).sum::<usize>() * 8;
        let AccessOrder { bits, words, groups, owners, .. } = &self.order;
        let order = bits.len() * 8 + words.len() * 2 + (groups.len() + owners.len()) * 4;
        self.positions.len() * 4 + self.entries.len() * size_of::<Entry>() + self.table.memory_bytes() + order + counts
    }
}
