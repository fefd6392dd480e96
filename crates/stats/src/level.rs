//! A level over time, such as queue depth, weighted by how long each value lasted.

use crate::{Merge, checked};
use serde::{Deserialize, Serialize};

/// Levels above this share one counter, and count as this level in means and percentiles.
pub const HIGHEST_LEVEL: usize = 4096;
const SINGLE_LEVELS: u64 = 64; // The histogram lists each level up to this separately; above, powers of two

/// Time-weighted level: starts at 0 at the first change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Level {
    spent: Vec<u64>, // ns spent at each level; grows to the highest level seen
    level: u64,
    since: Option<u64>,
    max: u64,
    backwards: u64,
}

checked!(Level, |level| level.spent.len() <= HIGHEST_LEVEL + 1);

/// Time spent at one level, or at a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct LevelTime {
    /// Lowest level of the range.
    pub low: u64,
    /// Highest level of the range, inclusive.
    pub high: u64,
    /// Time at these levels, in ns.
    pub time_ns: u64,
}

/// A level over time, such as queue depth, weighted by how long each value lasted. Levels above 4,096 count as 4,096 in
/// means and percentiles.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct LevelSummary {
    /// Time observed, in ns.
    pub time_ns: u64,
    /// Mean level over the time; `null` without time. If an I/O of a thousand has no beginning or no end in a trace, the
    /// mean is that of complete ones, scaled to all, and the other figures are missing.
    pub mean: Option<f64>,
    /// Mean level over the time in which it was not 0; `null` if there was none.
    pub mean_when_busy: Option<f64>,
    /// Highest level, even for a short time.
    pub max: u64,
    /// The level that was not exceeded for 50 % of the time; `null` without time.
    pub p50: Option<u64>,
    /// The level that was not exceeded for 95 % of the time; `null` without time.
    pub p95: Option<u64>,
    /// The level that was not exceeded for 99 % of the time; `null` without time.
    pub p99: Option<u64>,
    /// Share of the time at level 0, 0 to 1; `null` without time.
    pub idle_share: Option<f64>,
    /// Time by level: single levels up to 64, then powers of two; empty ranges are left out.
    pub histogram: Vec<LevelTime>,
    /// Changes with a time before that of the previous one; they count as simultaneous with it.
    pub backwards: u64,
}

impl Level {
    /// The level becomes `level` at `time_ns`.
    pub fn set(&mut self, time_ns: u64, level: u64) {
        self.advance(time_ns);
        self.level = level;
        self.max = self.max.max(level);
    }

    /// Accounts for the time up to `time_ns`; call at the start and end of the observation.
    pub fn advance(&mut self, time_ns: u64) {
        let since = self.since.unwrap_or(time_ns);
        if time_ns < since {
            self.backwards += 1;
            return;
        }
        self.since = Some(time_ns);
        let index = self.level.min(HIGHEST_LEVEL as u64) as usize;
        if let Some(spent) = self.spent.get_mut(index) {
            *spent = spent.saturating_add(time_ns - since);
        } else {
            self.spent.resize(index + 1, 0);
            self.spent[index] = time_ns - since;
        }
    }

    /// Ends the observation: the level falls to 0, and the time until the next change is not counted.
    pub fn end(&mut self) {
        (self.level, self.since) = (0, None);
    }

    /// The figures; see [`LevelSummary`].
    pub fn summary(&self) -> LevelSummary {
        let total: u128 = self.spent.iter().map(|&ns| u128::from(ns)).sum();
        let area: f64 = (0u64..).zip(&self.spent).map(|(level, &ns)| level as f64 * ns as f64).sum();
        let has_any = total > 0;
        let idle = self.spent.first().copied().unwrap_or(0);
        let busy = total - u128::from(idle);
        let percentile = |percent: u128| {
            let mut seen = 0u128;
            let at = self.spent.iter().position(|&ns| {
                seen += u128::from(ns);
                seen * 100 >= total * percent
            });
            at.filter(|_| has_any).map(|level| level as u64)
        };
        LevelSummary {
            time_ns: u64::try_from(total).unwrap_or(u64::MAX),
            mean: has_any.then(|| area / total as f64),
            mean_when_busy: (busy > 0).then(|| area / busy as f64),
            max: self.max,
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
            idle_share: has_any.then(|| idle as f64 / total as f64),
            histogram: self.histogram(),
            backwards: self.backwards,
        }
    }

    fn histogram(&self) -> Vec<LevelTime> {
        let mut ranges: Vec<LevelTime> = Vec::new();
        for (level, &time_ns) in (0u64..).zip(&self.spent).filter(|(_, ns)| **ns > 0) {
            let (low, high) = if level <= SINGLE_LEVELS {
                (level, level)
            } else if level == HIGHEST_LEVEL as u64 {
                (level, self.max.max(level))
            } else {
                // 65..=127, then 128..=255 and so on.
                let power = 1u64 << level.ilog2();
                (power.max(SINGLE_LEVELS + 1), 2 * power - 1)
            };
            match ranges.last_mut() {
                Some(last) if last.low == low => {
                    last.time_ns = last.time_ns.saturating_add(time_ns);
                }
                _ => ranges.push(LevelTime { low, high, time_ns }),
            }
        }
        ranges
    }
}

impl Merge for Level {
    /// Adds the times of a disjoint observation; the level of now stays that of `self`.
    fn merge(&mut self, other: &Self) {
        if self.spent.len() < other.spent.len() {
            self.spent.resize(other.spent.len(), 0);
        }
        for (mine, theirs) in self.spent.iter_mut().zip(&other.spent) {
            *mine = mine.saturating_add(*theirs);
        }
        self.max = self.max.max(other.max);
        self.backwards += other.backwards;
    }
}

#[cfg(test)]
mod tests;
