//! I/O sizes: exact counts of every distinct size, within bounded memory.
//!
//! Multiples of 512 bytes up to 1 MiB have a counter each; other sizes share a map of at most [`MOST_OTHER_SIZES`]
//! entries. If a trace has more sizes, further ones are counted at the middle of their 4 KiB bin (up to 1 MiB) or at
//! the nearest MiB (above), and the summary has the number of those I/Os. Count, total, mean, minimum and maximum
//! stay exact.

use crate::{Merge, checked, quantiles::nearest_rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest number of distinct sizes that are not multiples of 512 bytes up to 1 MiB.
pub const MOST_OTHER_SIZES: usize = 4096;
const DENSE_LIMIT: u32 = 1 << 20;

/// Histogram of I/O sizes in bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct SizeHistogram {
    dense: Vec<u64>, // Count of size `512 * index`
    other: BTreeMap<u32, u64>,
    count: u64,
    total: u64,
    min: u32,
    max: u32,
    folded: u64,
}

checked!(SizeHistogram, |sizes| sizes.dense.len() <= (DENSE_LIMIT / 512) as usize + 1
    && sizes.other.len() <= 3 * MOST_OTHER_SIZES);

/// How many I/Os had one exact size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct SizeCount {
    /// Size in bytes.
    pub bytes: u32,
    /// I/Os of this size.
    pub count: u64,
}

/// How many I/Os fell in one bin of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct SizeBin {
    /// Centre of the bin in KiB. The bin extends from 2 KiB below it to just under 2 KiB above.
    pub center_kib: u32,
    /// I/Os in the bin.
    pub count: u64,
}

/// Sizes of I/Os. Percentiles are of nearest rank.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct SizeSummary {
    /// Number of I/Os.
    pub count: u64,
    /// Sum of the sizes, in bytes.
    pub total_bytes: u64,
    /// Mean size in bytes; `null` without I/Os.
    pub mean_bytes: Option<f64>,
    /// Most frequent size in bytes, the smallest if there are several; `null` without I/Os.
    pub mode_bytes: Option<u32>,
    /// Median size in bytes; `null` without I/Os.
    pub median_bytes: Option<u32>,
    /// Smallest size in bytes; `null` without I/Os.
    pub min_bytes: Option<u32>,
    /// Largest size in bytes; `null` without I/Os.
    pub max_bytes: Option<u32>,
    /// 5th percentile of the size, in bytes; `null` without I/Os.
    pub p5_bytes: Option<u32>,
    /// 25th percentile of the size, in bytes; `null` without I/Os.
    pub p25_bytes: Option<u32>,
    /// 75th percentile of the size, in bytes; `null` without I/Os.
    pub p75_bytes: Option<u32>,
    /// 95th percentile of the size, in bytes; `null` without I/Os.
    pub p95_bytes: Option<u32>,
    /// 99th percentile of the size, in bytes; `null` without I/Os.
    pub p99_bytes: Option<u32>,
    /// Every distinct size, ascending.
    pub exact: Vec<SizeCount>,
    /// Bins of 4 KiB, ascending; empty ones are left out.
    pub bins_4k: Vec<SizeBin>,
    /// Whether `exact` is exact; false if there are very many sizes.
    pub is_exact: bool,
    /// I/Os that count at the middle of their bin, because there are very many sizes.
    pub folded_ios: u64,
}

impl Default for SizeHistogram {
    fn default() -> Self {
        Self { dense: Vec::new(), other: BTreeMap::new(), count: 0, total: 0, min: u32::MAX, max: 0, folded: 0 }
    }
}

impl SizeHistogram {
    /// Records one I/O of `bytes`.
    pub fn record(&mut self, bytes: u32) {
        self.count += 1;
        self.total = self.total.saturating_add(bytes.into());
        self.min = self.min.min(bytes);
        self.max = self.max.max(bytes);
        if bytes.is_multiple_of(512) && bytes <= DENSE_LIMIT {
            *self.dense_count(bytes / 512) += 1;
        } else {
            self.record_other(bytes, 1);
        }
    }

    /// The count of a size of so many sectors. There are counts up to the largest such size: most devices have small I/Os.
    fn dense_count(&mut self, sectors: u32) -> &mut u64 {
        let at = sectors as usize;
        if at >= self.dense.len() {
            self.dense.resize(at + 1, 0);
        }
        &mut self.dense[at]
    }

    fn record_other(&mut self, bytes: u32, count: u64) {
        if let Some(seen) = self.other.get_mut(&bytes) {
            *seen = seen.saturating_add(count);
        } else if self.other.len() < MOST_OTHER_SIZES {
            self.other.insert(bytes, count);
        } else {
            self.folded = self.folded.saturating_add(count);
            let bin = u64::from(bytes).saturating_add(2048) / 4096 * 4096;
            if bin <= DENSE_LIMIT.into() {
                *self.dense_count((bin / 512) as u32) += count;
            } else {
                // At most 4096 more keys.
                let mib = (u64::from(bytes) + (1 << 19)) >> 20 << 20;
                let key = u32::try_from(mib).unwrap_or(u32::MAX);
                *self.other.entry(key).or_default() += count;
            }
        }
    }

    /// I/Os recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Every distinct size with its count, ascending.
    pub fn exact(&self) -> Vec<SizeCount> {
        let dense = (0..).step_by(512).zip(&self.dense).filter(|(_, count)| **count > 0);
        let mut all: Vec<_> = dense
            .chain(self.other.iter().map(|(&bytes, count)| (bytes, count)))
            .map(|(bytes, &count)| SizeCount { bytes, count })
            .collect();
        all.sort_unstable_by_key(|size| size.bytes);
        all
    }

    /// The figures; see [`SizeSummary`].
    pub fn summary(&self) -> SizeSummary {
        let exact = self.exact();
        let has_any = self.count > 0;
        let mode = exact.iter().max_by_key(|size| (size.count, std::cmp::Reverse(size.bytes)));
        let rank = |fraction| {
            let rank = nearest_rank(fraction, self.count);
            let mut seen = 0u64;
            exact
                .iter()
                .find(|size| {
                    seen = seen.saturating_add(size.count);
                    seen >= rank
                })
                .map(|size| size.bytes)
        };
        let mut bins_4k: Vec<SizeBin> = Vec::new();
        for size in &exact {
            let center_kib = ((u64::from(size.bytes) + 2048) / 4096 * 4) as u32;
            match bins_4k.last_mut() {
                Some(bin) if bin.center_kib == center_kib => bin.count += size.count,
                _ => bins_4k.push(SizeBin { center_kib, count: size.count }),
            }
        }
        SizeSummary {
            count: self.count,
            total_bytes: self.total,
            mean_bytes: has_any.then(|| self.total as f64 / self.count as f64),
            mode_bytes: mode.map(|size| size.bytes),
            median_bytes: rank(0.5),
            min_bytes: has_any.then_some(self.min),
            max_bytes: has_any.then_some(self.max),
            p5_bytes: rank(0.05),
            p25_bytes: rank(0.25),
            p75_bytes: rank(0.75),
            p95_bytes: rank(0.95),
            p99_bytes: rank(0.99),
            bins_4k,
            exact,
            is_exact: self.folded == 0,
            folded_ios: self.folded,
        }
    }
}

impl Merge for SizeHistogram {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.folded += other.folded;
        if self.dense.len() < other.dense.len() {
            self.dense.resize(other.dense.len(), 0);
        }
        for (mine, theirs) in self.dense.iter_mut().zip(&other.dense) {
            *mine += theirs;
        }
        for (&bytes, &count) in &other.other {
            self.record_other(bytes, count);
        }
    }
}

#[cfg(test)]
mod tests;
