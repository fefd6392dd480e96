//! How accesses spread over items (mostly blocks), hottest first: the input of shares, curves and fits, counted
//! completely or from a sample.

use serde::Serialize;

/// Items with an equal number of accesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PopularityClass {
    pub count: u64,    // Accesses to each
    pub blocks: f64,   // The number of items; a fraction if estimated from a sample
    pub accesses: f64, // Accesses to all of them together; `count * blocks` unless estimated otherwise
}

/// Popularity: classes of strictly falling count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Popularity {
    pub classes: Vec<PopularityClass>, // Classes, hottest first
    pub blocks: f64,                   // Items accessed
    pub accesses: f64,                 // Accesses to them
}

/// Share of I/O that the hottest part of the blocks receives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, crate::JsonSchema)]
pub struct HotShare {
    /// Hottest fraction of the blocks, 0 to 1.
    pub fraction: f64,
    /// Share of the accesses that goes to it, 0 to 1.
    pub io_share: f64,
}

impl Popularity {
    /// From classes in any order; those without blocks or accesses are dropped, equals are joined.
    pub fn new(mut classes: Vec<PopularityClass>) -> Self {
        classes.retain(|class| class.count > 0 && class.blocks > 0.0 && class.accesses > 0.0);
        classes.sort_unstable_by_key(|class| std::cmp::Reverse(class.count));
        classes.dedup_by(|next, kept| {
            let same = next.count == kept.count;
            if same {
                kept.blocks += next.blocks;
                kept.accesses += next.accesses;
            }
            same
        });
        Self {
            blocks: classes.iter().map(|class| class.blocks).sum(),
            accesses: classes.iter().map(|class| class.accesses).sum(),
            classes,
        }
    }

    /// Share of the accesses (0..=1) to the hottest `fractions` of the items; `fractions` must ascend.
    pub fn shares(&self, fractions: &[f64]) -> Vec<HotShare> {
        let (mut above, mut sum) = (0.0, 0.0);
        let mut classes = self.classes.iter().peekable();
        let share = |&fraction: &f64| {
            let wanted = fraction.clamp(0.0, 1.0) * self.blocks;
            while let Some(class) = classes.next_if(|class| above + class.blocks <= wanted) {
                above += class.blocks;
                sum += class.accesses;
            }
            let part = classes.peek().map_or(0.0, |class| class.accesses * (wanted - above).max(0.0) / class.blocks);
            HotShare { fraction, io_share: ((sum + part) / self.accesses).clamp(0.0, 1.0) }
        };
        if self.classes.is_empty() {
            return Vec::new();
        }
        fractions.iter().map(share).collect()
    }

    /// At most `points` points of the curve of [`Self::shares`], dense at the hot end: fractions in geometric steps
    /// from one item to all.
    pub fn curve(&self, points: usize) -> Vec<HotShare> {
        let points = points.max(2);
        let lowest = (1.0 / self.blocks.max(1.0)).ln();
        let mut fractions: Vec<f64> =
            (0..points).map(|point| (lowest * (1.0 - point as f64 / (points - 1) as f64)).exp()).collect();
        fractions.dedup();
        self.shares(&fractions)
    }
}

#[cfg(test)]
mod tests;
