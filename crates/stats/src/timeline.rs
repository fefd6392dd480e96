//! A statistic as it changes over time, in a bounded number of buckets.
//!
//! Buckets are `2^k` ns wide and start at time 0 (the start of the trace). The width is 2^20 ns
//! (1.05 ms) at first and doubles, neighbours being merged in pairs, when a time lies beyond the
//! last bucket, so any length of trace fits and two timelines can always be aligned.

use crate::{Merge, checked};
use serde::{Deserialize, Serialize};

pub const DEFAULT_BUCKETS: usize = 512; // The default number of buckets
const FIRST_SHIFT: u32 = 20; // The first width of a bucket is 2 to this power, in ns

/// A time series of `T` in at most a fixed number of buckets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Timeline<T> {
    buckets: Vec<T>,
    most: usize,
    shift: u32,
}

checked!(Timeline<T>, |timeline| {
    let Timeline { buckets, most, shift } = timeline;
    *most >= 2 && buckets.len() <= *most && (FIRST_SHIFT..u64::BITS).contains(shift)
});

impl<T: Merge + Default + Clone> Default for Timeline<T> {
    fn default() -> Self {
        Self::new(DEFAULT_BUCKETS)
    }
}

impl<T: Merge + Default + Clone> Timeline<T> {
    /// An empty series of at most `most` buckets (at least 2).
    pub fn new(most: usize) -> Self {
        Self { buckets: Vec::new(), most: most.max(2), shift: FIRST_SHIFT }
    }

    /// The bucket that holds `time_ns`, ready to record in.
    pub fn at(&mut self, time_ns: u64) -> &mut T {
        let mut index = (time_ns >> self.shift) as usize;
        if index >= self.buckets.len() {
            index = self.extend(time_ns);
        }
        &mut self.buckets[index]
    }

    fn extend(&mut self, time_ns: u64) -> usize {
        let mut shift = self.shift;
        while time_ns >> shift >= self.most as u64 {
            shift += 1;
        }
        self.coarsen(shift);
        let index = (time_ns >> shift) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, T::default());
        }
        index
    }

    /// Widens the buckets to 2^shift ns, in one pass for any distance.
    fn coarsen(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        if by == 0 {
            return;
        }
        let mut wide: Vec<T> = Vec::new();
        for (index, bucket) in std::mem::take(&mut self.buckets).into_iter().enumerate() {
            if index >> by == wide.len() {
                wide.push(bucket);
            } else if let Some(last) = wide.last_mut() {
                last.merge(&bucket);
            }
        }
        self.buckets = wide;
        self.shift = shift;
    }

    /// The series of what `convert` makes of each bucket.
    pub fn map<U>(&self, convert: impl FnMut(&T) -> U) -> Timeline<U> {
        Timeline { buckets: self.buckets.iter().map(convert).collect(), most: self.most, shift: self.shift }
    }

    /// Width of every bucket.
    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The buckets, ascending.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.buckets.iter_mut()
    }

    /// Start of each bucket in ns, and the bucket, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0u64..).zip(&self.buckets).map(|(index, bucket)| (index << self.shift, bucket))
    }
}

impl<T: Merge + Default + Clone> Merge for Timeline<T> {
    /// Adds bucket to bucket, after widening the narrower series.
    fn merge(&mut self, other: &Self) {
        if self.most > other.most {
            self.most = other.most;
            if let Some(last) = (self.buckets.len() as u64).checked_sub(1) {
                self.extend(last << self.shift);
            }
        }
        self.coarsen(other.shift);
        for (start, bucket) in other.iter() {
            self.at(start).merge(bucket);
        }
    }
}

#[cfg(test)]
mod tests;
