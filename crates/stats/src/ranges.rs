//! Aligned ranges of 64 blocks, and nested samples of the blocks in them.
//!
//! At level k, a sample has one of every 2^k blocks. Up to level 6 it has exactly one block of every aligned group of
//! 2^k blocks: of the two that its halves had at the level below, a bit of the range's hash selects one. Above, it has
//! one block of every range that a second hash selects, with probability 2^(6-k). So a sample contains those of all
//! higher levels, and one computation of some nanoseconds finds the sampled blocks among 64.
//!
//! **Error.** Every block is sampled with probability p = 2^-k. Two blocks are sampled together with probability p^2
//! or less: blocks of one group never, others independently. Covariances are therefore not positive, and the variance
//! of an estimated sum of y over blocks is at most that of independent sampling, (1/p - 1) times the sum of y^2
//! (Cochran, Sampling Techniques, 1977, chapter 5: stratified sampling with one unit in each stratum).

use crate::hash64;

pub const RANGE_SHIFT: u32 = 6; // Blocks of a range: 2 to this power
pub const WHOLE: u64 = u64::MAX; // All blocks of a range

/// The ranges of `count` blocks from `first`, with a bit for each of their blocks.
pub fn ranges_of(first: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = first.saturating_add(count);
    let mut at = first;
    std::iter::from_fn(move || {
        let (range, offset) = (at >> RANGE_SHIFT, at & 63);
        let blocks = (64 - offset).min(end - at);
        if blocks == 0 {
            return None;
        }
        at += blocks;
        Some((range, WHOLE >> (64 - blocks) << offset))
    })
}

/// The blocks of a set of bits in a range.
pub fn blocks_of(range: u64, mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        if bit == 64 {
            return None;
        }
        bits &= bits - 1;
        Some(range << RANGE_SHIFT | u64::from(bit))
    })
}

/// The sampled blocks of a range, as bits; `hash` is that of the range.
pub fn sample(range: u64, hash: u64, level: u32) -> u64 {
    if level > RANGE_SHIFT && further_levels(range) < (level - RANGE_SHIFT).min(63) {
        return 0;
    }
    (0..level.min(RANGE_SHIFT)).fold(WHOLE, |sampled, step| sampled & half(hash, step))
}

/// The selected half of every group of 2^(step + 1) blocks in a range with this hash.
pub fn half(hash: u64, step: u32) -> u64 {
    let halves = HALVES[step as usize];
    (hash >> ((1 << step) - 1) & halves.pairs).wrapping_mul(halves.pair) ^ halves.lower
}

/// The number of levels above that of one block for a range in which the range keeps this block.
pub fn further_levels(range: u64) -> u32 {
    hash64(!range).leading_zeros()
}

/// Pairs of neighbours of 2^step blocks.
#[derive(Clone, Copy)]
struct Halves {
    pair: u64,  // The bits of the first pair
    pairs: u64, // The first bit of every pair
    lower: u64, // The bits of every pair's lower half
}

const HALVES: [Halves; RANGE_SHIFT as usize] = {
    let mut all = [Halves { pair: 0, pairs: 0, lower: 0 }; RANGE_SHIFT as usize];
    let mut step = 0;
    while step < all.len() {
        let pair = WHOLE >> (64 - (2 << step));
        let pairs = WHOLE / pair;
        all[step] = Halves { pair, pairs, lower: pairs.wrapping_mul(pair >> (1 << step)) };
        step += 1;
    }
    all
};

#[cfg(test)]
mod tests;
