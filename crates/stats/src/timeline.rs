//! A statistic as it changes over time, in a bounded number of buckets.
//!
//! Buckets are `2^k` ns wide and start at time 0 (the start of the trace). The width is 2^20 ns
//! (1.05 ms) at first and doubles, neighbours being merged in pairs, when a time lies beyond the
//! last bucket, so any length of trace fits and two timelines can always be aligned.

use crate::Merge;

/// The default number of buckets.
pub const DEFAULT_BUCKETS: usize = 512;
/// The first width of a bucket is 2 to this power, in ns.
const FIRST_SHIFT: u32 = 20;

/// A time series of `T` in at most a fixed number of buckets.
#[derive(Debug, Clone)]
pub struct Timeline<T> {
    buckets: Vec<T>,
    most: usize,
    shift: u32,
}

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
    #[inline]
    pub fn at(&mut self, time_ns: u64) -> &mut T {
        let mut index = (time_ns >> self.shift) as usize;
        if index >= self.buckets.len() {
            index = self.extend(time_ns);
        }
        &mut self.buckets[index]
    }

    #[cold]
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

    /// Width of every bucket.
    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Buckets so far: up to the latest time seen, empty ones included.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no time was seen.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Default, PartialEq)]
    struct EventSum(u64);

    impl Merge for EventSum {
        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
        }
    }

    fn of(times: &[u64], most: usize) -> Timeline<EventSum> {
        let mut line = Timeline::<EventSum>::new(most);
        times.iter().for_each(|&time| line.at(time).0 += 1);
        line
    }

    #[test]
    fn widens_in_pairs() {
        let ms = 1u64 << 20;
        let line = of(&[0, ms, 2 * ms, 3 * ms, 3 * ms, 4 * ms], 4);
        assert_eq!(line.width_ns(), 2 * ms);
        assert_eq!(
            line.iter().map(|(start, sum)| (start / ms, sum.0)).collect::<Vec<_>>(),
            [(0, 2), (2, 3), (4, 1)]
        );
    }

    #[test]
    fn the_end_of_time_is_reached_at_once() {
        let line = of(&[5, u64::MAX, 7], 512);
        assert_eq!((line.len(), line.width_ns()), (512, 1 << 55));
        assert_eq!(line.iter().next(), Some((0, &EventSum(2))));
    }

    proptest! {
        #[test]
        fn merged_parts_equal_the_whole(
            times in prop::collection::vec((any::<u64>(), 0u32..64), 0..60),
            cut in 0usize..60, left in 2usize..40, right in 2usize..40,
        ) {
            let times: Vec<u64> = times.iter().map(|&(time, shift)| time >> shift).collect();
            let cut = cut.min(times.len());
            let mut merged = of(&times[..cut], left);
            merged.merge(&of(&times[cut..], right));
            let expected = of(&times, left.min(right));
            prop_assert_eq!(merged.width_ns(), expected.width_ns());
            prop_assert_eq!(
                merged.iter().collect::<Vec<_>>(),
                expected.iter().collect::<Vec<_>>()
            );
        }
    }
}
