//! From the table to figures: known blocks count for themselves, sampled blocks are scaled.

use super::{BLOCK_BYTES, Hotness};
use crate::ranges::{RANGE_SHIFT, blocks_of};
use crate::zipf::{self, ZipfFit};
use crate::zipf::{HotShare, Popularity, PopularityClass};
use serde::Serialize;
use std::collections::HashMap;

/// One of the hottest blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct HotBlock {
    /// Number of the block: byte offset / 4096.
    pub block: u64,
    /// Reads that touched it.
    pub reads: u64,
    /// Writes that touched it.
    pub writes: u64,
}

/// Hot and cold blocks of 4 KiB. An access is one block of one read or write.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct HotnessSummary {
    /// Number of accesses; exact also with a sample.
    pub accesses: u64,
    /// Distinct blocks of 4 KiB.
    pub unique_blocks: u64,
    /// Bytes of the distinct blocks: the footprint.
    pub unique_bytes: u64,
    /// Distinct blocks that were read.
    pub unique_read_blocks: u64,
    /// Distinct blocks that were written.
    pub unique_written_blocks: u64,
    /// Whether the figures are from a sample of the blocks; otherwise they are exact.
    pub sampled: bool,
    /// Share of the distinct blocks in the sample, 0 to 1; 1 without a sample.
    pub sample_rate: f64,
    /// Largest standard error of `unique_blocks`, as a share of it; 0 without a sample.
    pub relative_error: f64,
    /// Share of the accesses that goes to the hottest 1, 5, 10 and 20 % of the blocks.
    pub hottest: Vec<HotShare>,
    /// The twenty hottest blocks, the hottest first; with a sample, their counts are estimates.
    pub top: Vec<HotBlock>,
    /// Share of the accesses that goes to the hottest fraction of the blocks, at most 64 points.
    pub rank_curve: Vec<HotShare>,
    /// Mean number of accesses to a block; `null` without accesses.
    pub accesses_per_block: Option<f64>,
    /// Share of the accesses that are the first to their block, 0 to 1: no cache that starts empty can avoid these
    /// misses. `null` without accesses.
    pub first_touch_share: Option<f64>,
    /// Whether the popularity of blocks follows Zipf's law.
    pub zipf: ZipfFit,
    /// I/Os above 64 MiB; only their first 64 MiB count.
    pub truncated_ios: u64,
}

/// Blocks of a range with equal counts.
struct EqualBlocks {
    range: u64,
    bits: u64,
    reads: u64,
    writes: u64,
    sampled: bool,
}

impl EqualBlocks {
    fn count(&self) -> u64 {
        self.reads + self.writes
    }

    fn blocks(&self) -> f64 {
        f64::from(self.bits.count_ones())
    }
}

impl Hotness {
    /// Calls `visit` with everything in the tables, the counts of ranges added to those of their blocks.
    fn visit(&self, visit: &mut dyn FnMut(EqualBlocks)) {
        // Of each range, its blocks that are in the table of blocks.
        let mut own = vec![0u64; self.ranges.len()];
        for slot in self.blocks.iter() {
            let (range, bits) = (slot.block() >> RANGE_SHIFT, 1 << (slot.block() & 63));
            let (mut reads, mut writes) = (u64::from(slot.reads), u64::from(slot.writes));
            if let Some((at, whole)) = self.ranges.get(range) {
                own[at] |= bits;
                reads += u64::from(whole.reads);
                writes += u64::from(whole.writes);
            }
            visit(EqualBlocks { range, bits, reads, writes, sampled: self.sample(range) & bits != 0 });
        }
        for slot in self.ranges.iter() {
            let (range, reads, writes) = (slot.block(), slot.reads.into(), slot.writes.into());
            let left = self.ranges.get(range).map_or(0, |(at, _)| !own[at]);
            for (chosen, sampled) in [(self.sample(range), true), (!self.sample(range), false)] {
                if left & chosen != 0 {
                    visit(EqualBlocks { range, bits: left & chosen, reads, writes, sampled });
                }
            }
        }
    }

    /// The count above which every block is known, sampled or held; see the module.
    pub(super) fn complete_from(&self) -> u64 {
        if self.level == 0 {
            return 0;
        }
        let mut sampled = [0f64; 64];
        let mut held = [0f64; 64];
        self.visit(&mut |equal| {
            let bands = if equal.sampled { &mut sampled } else { &mut held };
            bands[equal.count().max(1).ilog2() as usize] += equal.blocks();
        });
        let (rate, floor) = (1.0 / self.one_in(), u64::from(self.floor));
        let lowest = (2 * floor).next_power_of_two().ilog2() as usize;
        let mut from = u64::MAX;
        for band in (lowest..=40).rev() {
            // If every block of the band were known, the sampled ones would be a binomial share of them.
            let known = sampled[band] + held[band];
            let excess = sampled[band] - known * rate;
            let error = (known * rate * (1.0 - rate)).sqrt();
            // Too few held: some were missed. Too many, near the floor: credited with too many accesses.
            let missed = excess > 2.5 * error;
            let credited = 1u64 << band < 8 * floor && excess < -2.5 * error;
            if missed || credited {
                break;
            }
            from = 1 << band;
        }
        from
    }

    /// Popularity if every block with `from` accesses or more is known.
    pub(super) fn popularity_above(&self, from: u64) -> Popularity {
        // By count: blocks that stand for themselves, and sampled ones that stand for `one_in()` each.
        let mut by_count: HashMap<u64, [f64; 2]> = HashMap::new();
        self.visit(&mut |equal| {
            let known = equal.count() >= from;
            if known || equal.sampled {
                by_count.entry(equal.count()).or_default()[usize::from(!known)] += equal.blocks();
            }
        });
        let sum = |side: usize| by_count.iter().map(|(&count, blocks)| count as f64 * blocks[side]).sum::<f64>();
        let scale = (self.accesses() as f64 - sum(0)).max(0.0) / sum(1).max(1.0);
        let classes = by_count.iter().map(|(&count, &[known, sampled])| PopularityClass {
            count,
            blocks: known + sampled * self.one_in(),
            accesses: count as f64 * (known + sampled * scale),
        });
        Popularity::new(classes.collect())
    }

    /// The figures; see [`HotnessSummary`].
    pub fn summary(&self) -> HotnessSummary {
        let from = self.complete_from();
        let popularity = self.popularity_above(from);
        let (mut numbers, mut rest) = ([0f64; 3], 0f64);
        self.visit(&mut |equal| {
            let known = equal.count() >= from;
            if !known && !equal.sampled {
                return;
            }
            rest += if known { 0.0 } else { equal.blocks() };
            let blocks = equal.blocks() * if known { 1.0 } else { self.one_in() };
            for (number, counts) in numbers.iter_mut().zip([true, equal.reads > 0, equal.writes > 0]) {
                *number += if counts { blocks } else { 0.0 };
            }
        });
        let [unique, unique_read_blocks, unique_written_blocks] = numbers.map(|number| number.round() as u64);
        let accesses = self.accesses();
        let has_any = accesses > 0 && unique > 0;
        let spread = (rest * (1.0 - 1.0 / self.one_in())).sqrt() * self.one_in();
        HotnessSummary {
            accesses,
            unique_blocks: unique,
            unique_bytes: unique.saturating_mul(BLOCK_BYTES),
            unique_read_blocks,
            unique_written_blocks,
            sampled: self.level != 0,
            sample_rate: 1.0 / self.one_in(),
            relative_error: if has_any { spread / unique as f64 } else { 0.0 },
            hottest: popularity.shares(&[0.01, 0.05, 0.10, 0.20]),
            top: self.top(20),
            rank_curve: popularity.curve(64),
            accesses_per_block: has_any.then(|| accesses as f64 / unique as f64),
            first_touch_share: has_any.then(|| (unique as f64 / accesses as f64).min(1.0)),
            zipf: zipf::fit(&popularity),
            truncated_ios: self.truncated,
        }
    }

    /// The hottest blocks known.
    fn top(&self, most: usize) -> Vec<HotBlock> {
        let mut hottest: Vec<HotBlock> = Vec::new();
        let key = |hot: &HotBlock| (std::cmp::Reverse(hot.reads + hot.writes), hot.block);
        let mut least = 0;
        self.visit(&mut |EqualBlocks { range, bits, reads, writes, .. }| {
            if reads + writes < least {
                return;
            }
            hottest.extend(blocks_of(range, bits).take(most).map(|block| HotBlock { block, reads, writes }));
            if hottest.len() > 64 * most {
                hottest.sort_unstable_by_key(key);
                hottest.truncate(most);
                least = hottest.last().map_or(0, |hot| hot.reads + hot.writes);
            }
        });
        hottest.sort_unstable_by_key(key);
        hottest.truncate(most);
        hottest
    }
}
