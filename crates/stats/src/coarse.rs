//! A small quantile sketch for the many cells of a time series.

use crate::Merge;

/// Buckets for one doubling: 8, hence at most 6.25 % from a bucket's middle to its edge.
const PER_DOUBLING: u32 = 8;
const BUCKETS: usize = 64 * PER_DOUBLING as usize;

/// A log-linear histogram of u64 values in 2 KiB at most: relative error of a quantile at most 6.25 %.
///
/// Empty cells cost a pointer. Counts saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coarse {
    counts: Option<Box<[u32; BUCKETS]>>,
    total: u64,
}

impl Coarse {
    /// The stated bound on a quantile's relative error.
    pub const RELATIVE_ERROR: f64 = 0.0625;

    /// Adds a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        let cell = &mut counts[bucket(value)];
        *cell = cell.saturating_add(1);
        self.total += 1;
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The value below which `fraction` of the values lie (nearest rank, a bucket's middle); `None` when empty.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let counts = self.counts.as_ref()?;
        let rank = ((fraction.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, &count) in counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return Some(middle(index));
            }
        }
        None
    }
}

impl Merge for Coarse {
    fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.counts else { return };
        let mine = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (a, b) in mine.iter_mut().zip(theirs.iter()) {
            *a = a.saturating_add(*b);
        }
        self.total += other.total;
    }
}

/// Values below 8 have a bucket each; above, the three bits after the leading one choose it.
#[inline]
fn bucket(value: u64) -> usize {
    if value < u64::from(PER_DOUBLING) {
        return value as usize;
    }
    let top = 63 - value.leading_zeros();
    let sub = (value >> (top - 3)) as usize & 7;
    (top as usize - 2) * PER_DOUBLING as usize + sub
}

fn middle(index: usize) -> u64 {
    if index < PER_DOUBLING as usize {
        return index as u64;
    }
    let top = index as u32 / PER_DOUBLING + 2;
    let width = 1u64 << (top - 3);
    (8 + (index as u64 & 7)) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_single_value_comes_back_within_the_stated_error(value in any::<u64>()) {
            let mut sketch = Coarse::default();
            sketch.record(value);
            let found = sketch.quantile(0.5).unwrap();
            let error = (found as f64 - value as f64).abs() / (value as f64).max(1.0);
            prop_assert!(error <= Coarse::RELATIVE_ERROR + 1e-9, "{value} came back as {found}");
        }

        #[test]
        fn merged_parts_equal_the_whole(a in proptest::collection::vec(any::<u64>(), 0..50), b in proptest::collection::vec(any::<u64>(), 0..50)) {
            let fill = |values: &[u64]| {
                let mut sketch = Coarse::default();
                values.iter().for_each(|&v| sketch.record(v));
                sketch
            };
            let mut merged = fill(&a);
            merged.merge(&fill(&b));
            let whole: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, fill(&whole));
        }
    }
}
