//! Samples of blocks by hash, as in SHARDS (Waldspurger et al., FAST 2015).

use blklab_stats::hash64;

/// Which blocks are in a sample: those whose region's hash is small.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    salt: u64,
    threshold: u64, // the first hash that is not in the sample; `u64::MAX`: all
    shift: u32,     // blocks of a region, as a power of two
}

impl Sampler {
    /// All blocks.
    pub const ALL: Self = Self { salt: 0, threshold: u64::MAX, shift: 0 };

    /// This share of the regions of 2^`shift` blocks; another salt takes others.
    pub fn new(salt: u64, rate: f64, shift: u32) -> Self {
        let threshold = if rate >= 1.0 { u64::MAX } else { (rate * 2f64.powi(64)) as u64 };
        Self { salt: hash64(salt), threshold, shift }
    }

    /// Whether the block is in the sample.
    pub fn takes(&self, block: u64) -> bool {
        self.threshold == u64::MAX || hash64((block >> self.shift) ^ self.salt) < self.threshold
    }

    /// The share of the regions that it takes.
    pub fn rate(&self) -> f64 {
        if self.threshold == u64::MAX { 1.0 } else { self.threshold as f64 / 2f64.powi(64) }
    }
}
