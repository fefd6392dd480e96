//! Belady's OPT for a curve: the accesses of a sample that fits into memory.

use super::Estimate;
use crate::bounds::{next_accesses, opt_hits};
use crate::sampler::Sampler;

/// Accesses that are kept at most: 40 bytes each while OPT is computed.
const MOST_ACCESSES: usize = 2_000_000;

/// A sample of accesses to blocks. When it is full, half of its blocks leave.
pub struct OptSample {
    sampler: Sampler,
    salt: u64,
    pub rate: f64, // the share of the blocks in the sample
    blocks: Vec<u64>,
    writes: Vec<bool>,
    all: [u64; 2],
}

impl OptSample {
    /// A sample of all blocks, until it is full.
    pub fn new(salt: u64) -> Self {
        Self { sampler: Sampler::ALL, salt, rate: 1.0, blocks: Vec::new(), writes: Vec::new(), all: [0; 2] }
    }

    /// Adds an access.
    pub fn access(&mut self, block: u64, write: bool) {
        self.all[usize::from(write)] += 1;
        if self.sampler.takes(block) {
            self.blocks.push(block);
            self.writes.push(write);
            if self.blocks.len() >= MOST_ACCESSES {
                self.halve();
            }
        }
    }

    fn halve(&mut self) {
        self.rate /= 2.0;
        self.sampler = Sampler::new(self.salt, self.rate, 0);
        let all = self.blocks.iter().copied().zip(self.writes.iter().copied());
        (self.blocks, self.writes) = all.filter(|&(block, _)| self.sampler.takes(block)).unzip();
    }

    /// The hit ratios of each size, in blocks.
    pub fn estimate(&self, sizes: &[u64]) -> Vec<Estimate> {
        let next = next_accesses(&self.blocks);
        sizes.iter().map(|&size| self.estimate_size(&next, (size as f64 * self.rate).round() as u64)).collect()
    }

    fn estimate_size(&self, next: &[u64], capacity: u64) -> Estimate {
        let mut misses = [0u64; 2];
        for (hit, &write) in opt_hits(&self.blocks, None, next, capacity, true).into_iter().zip(&self.writes) {
            misses[usize::from(write)] += u64::from(!hit);
        }
        let ratio =
            |misses: u64, all: u64| (all > 0).then(|| (1.0 - misses as f64 / self.rate / all as f64).clamp(0.0, 1.0));
        let both = ratio(misses[0] + misses[1], self.all[0] + self.all[1]);
        Estimate { ratios: [ratio(misses[0], self.all[0]), ratio(misses[1], self.all[1]), both], cache_writes: None }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * 40
    }
}
