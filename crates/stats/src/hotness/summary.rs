//! From the table to figures: known blocks count for themselves, sampled blocks are scaled.

use super::{BLOCK_BYTES, Hotness, table::BlockCount};
use crate::popularity::{HotShare, Popularity, PopularityClass};
use crate::zipf::{self, ZipfFit};
use serde::Serialize;

/// One of the hottest blocks.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HotBlock {
    /// Number of the block: byte offset / 4096.
    pub block: u64,
    /// Reads that touched it.
    pub reads: u64,
    /// Writes that touched it.
    pub writes: u64,
}

/// Summary of [`Hotness`]. An access is one block of one I/O.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotnessSummary {
    /// Accesses (exact).
    pub accesses: u64,
    /// Distinct blocks of 4 KiB touched.
    pub unique_blocks: u64,
    /// `unique_blocks` in bytes: the footprint.
    pub unique_bytes: u64,
    /// Distinct blocks read.
    pub unique_read_blocks: u64,
    /// Distinct blocks written.
    pub unique_written_blocks: u64,
    /// Whether blocks were sampled; if not, all figures are exact.
    pub sampled: bool,
    /// Share of the distinct blocks in the sample; 1 when exact.
    pub sample_rate: f64,
    /// Standard error of `unique_blocks`, relative; 0 when exact.
    pub relative_error: f64,
    /// Share of the accesses to the hottest 1, 5, 10 and 20 % of the blocks.
    pub hottest: Vec<HotShare>,
    /// The twenty hottest blocks, hottest first (their counts estimated when sampled).
    pub top: Vec<HotBlock>,
    /// Share of the accesses against the fraction of blocks, hottest first; at most 64 points.
    pub rank_curve: Vec<HotShare>,
    /// Mean accesses to a block touched.
    pub accesses_per_block: Option<f64>,
    /// Share of the accesses that touched their block for the first time.
    pub first_touch_share: Option<f64>,
    /// Whether popularity follows Zipf's law.
    pub zipf: ZipfFit,
    /// I/Os above 64 MiB, of which only the first 64 MiB were counted.
    pub truncated_ios: u64,
}

impl Hotness {
    /// The count above which every block is known, sampled or held; see the module.
    fn complete_from(&self) -> u64 {
        let mut sampled = [0f64; 64];
        let mut held = [0f64; 64];
        for slot in self.table.iter() {
            let band = slot.count().max(1).ilog2() as usize;
            if crate::hash64(slot.block()) & self.mask == 0 {
                sampled[band] += 1.0;
            } else {
                held[band] += 1.0;
            }
        }
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

    /// Blocks that count for themselves, and those that count for `one_in()` blocks each.
    fn parts(&self) -> (Vec<&BlockCount>, Vec<&BlockCount>) {
        if self.mask == 0 {
            return (self.table.iter().collect(), Vec::new());
        }
        let from = self.complete_from();
        let (known, mut rest): (Vec<&BlockCount>, Vec<&BlockCount>) =
            self.table.iter().partition(|slot| slot.count() >= from);
        rest.retain(|slot| crate::hash64(slot.block()) & self.mask == 0);
        (known, rest)
    }

    /// Popularity of all blocks, estimated when sampled.
    pub fn popularity(&self) -> Popularity {
        let (known, rest) = self.parts();
        self.popularity_of(&known, &rest)
    }

    fn popularity_of(&self, known: &[&BlockCount], rest: &[&BlockCount]) -> Popularity {
        let sum = |slots: &[&BlockCount]| slots.iter().map(|slot| slot.count() as f64).sum::<f64>();
        let left = (self.accesses() as f64 - sum(known)).max(0.0);
        let scale = if rest.is_empty() { 0.0 } else { left / sum(rest).max(1.0) };
        let class = |slot: &&BlockCount, blocks: f64, scale: f64| PopularityClass {
            count: slot.count(),
            blocks,
            accesses: slot.count() as f64 * scale,
        };
        let known = known.iter().map(|slot| class(slot, 1.0, 1.0));
        let rest = rest.iter().map(|slot| class(slot, self.one_in(), scale));
        Popularity::new(known.chain(rest).collect())
    }

    /// The figures; see [`HotnessSummary`].
    pub fn summary(&self) -> HotnessSummary {
        let (known, rest) = self.parts();
        let popularity = self.popularity_of(&known, &rest);
        let number = |which: fn(&BlockCount) -> bool| {
            let count = |slots: &[&BlockCount]| slots.iter().filter(|slot| which(slot)).count() as f64;
            (count(&known) + count(&rest) * self.one_in()).round() as u64
        };
        let unique = number(|_| true);
        let accesses = self.accesses();
        let has_any = accesses > 0 && unique > 0;
        let spread = (rest.len() as f64 * (1.0 - 1.0 / self.one_in())).sqrt() * self.one_in();
        HotnessSummary {
            accesses,
            unique_blocks: unique,
            unique_bytes: unique.saturating_mul(BLOCK_BYTES),
            unique_read_blocks: number(|slot| slot.reads > 0),
            unique_written_blocks: number(|slot| slot.writes > 0),
            sampled: self.mask != 0,
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
        let mut slots: Vec<&BlockCount> = self.table.iter().collect();
        let key = |slot: &&BlockCount| (std::cmp::Reverse(slot.count()), slot.block());
        if slots.len() > most {
            slots.select_nth_unstable_by_key(most, key);
            slots.truncate(most);
        }
        slots.sort_unstable_by_key(key);
        let block =
            |slot: &&BlockCount| HotBlock { block: slot.block(), reads: slot.reads.into(), writes: slot.writes.into() };
        slots.iter().map(block).collect()
    }
}
