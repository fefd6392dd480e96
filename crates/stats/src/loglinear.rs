//! A log-linear histogram: the sketch behind every quantile that is not exact.
//!
//! As in HdrHistogram (Gil Tene, <http://hdrhistogram.org>) each doubling is cut into 2^BITS equal buckets, so
//! that a bucket is at most 1/2^BITS of its values wide. It is written here because recording is the hottest
//! thing blklab does: an index and an increment, a sixth of the library's instructions.

use crate::Merge;
use serde::{Deserialize, Serialize};

/// Counts of `u64` values, 2^BITS buckets to a doubling.
///
/// A value read back (a bucket's middle) is off by at most half a bucket's width, 0.5 / 2^BITS of its lowest value.
/// Memory is for the buckets from the smallest to the largest value, (65 - BITS) × 2^BITS at most; an empty one has
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(Vec<u64>, usize)")]
pub struct LogLinear<const BITS: u32> {
    counts: Vec<u64>,
    first: usize, // Bucket of the first count
}

impl<const BITS: u32> TryFrom<(Vec<u64>, usize)> for LogLinear<BITS> {
    type Error = &'static str;

    fn try_from((counts, first): (Vec<u64>, usize)) -> Result<Self, Self::Error> {
        let end = first.checked_add(counts.len()).filter(|&end| end <= Self::bucket(u64::MAX) + 1);
        end.map(|_| LogLinear { counts, first }).ok_or("buckets beyond the last one")
    }
}

impl<const BITS: u32> LogLinear<BITS> {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        let index = Self::bucket(value);
        match self.counts.get_mut(index.wrapping_sub(self.first)) {
            Some(count) => *count = count.wrapping_add(1), // 2^64 records take 500 years
            None => self.record_n(value, 1),
        }
    }

    /// Adds a value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        let index = Self::bucket(value);
        self.extend_buckets(index, index + 1);
        let count = &mut self.counts[index - self.first];
        *count = count.saturating_add(n);
    }

    /// Extends the buckets to `first..end`.
    fn extend_buckets(&mut self, first: usize, end: usize) {
        if self.counts.is_empty() {
            self.first = first;
        } else if first < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        if end > self.first + self.counts.len() {
            self.counts.resize(end - self.first, 0);
        }
    }

    /// The bucket of a value. Small values have a bucket each; above, the bits after the leading one choose it.
    pub fn bucket(value: u64) -> usize {
        let shift = (63 - BITS).saturating_sub((value | 1).leading_zeros());
        ((u64::from(shift) << BITS) + (value >> shift)) as usize
    }

    /// The lowest value of a bucket.
    pub fn lowest(bucket: usize) -> u64 {
        let shift = Self::shift(bucket);
        (bucket as u64 - (shift << BITS)).checked_shl(shift as u32).unwrap_or(u64::MAX)
    }

    /// A bucket is 2 to this power wide.
    fn shift(bucket: usize) -> u64 {
        (bucket as u64 >> BITS).saturating_sub(1)
    }

    fn middle(bucket: usize) -> u64 {
        Self::lowest(bucket) + ((1u64 << Self::shift(bucket)) >> 1)
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| count.saturating_add(sum))
    }

    /// (middle, count) of every bucket that is not empty, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| (Self::middle(self.first + index), count))
    }

    /// The value of nearest rank at `fraction` (0..=1), a bucket's middle; `None` when empty.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let total = self.count();
        let rank = ((fraction.clamp(0.0, 1.0) * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        self.iter().find_map(|(value, count)| {
            seen = count.saturating_add(seen);
            (seen >= rank).then_some(value)
        })
    }
}

impl<const BITS: u32> Merge for LogLinear<BITS> {
    fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.extend_buckets(other.first, other.first + other.counts.len());
        let offset = other.first - self.first;
        for (mine, theirs) in self.counts[offset..].iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

#[cfg(test)]
mod tests;
