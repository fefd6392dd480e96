//! Quantiles of a stream of unsigned integers.
//!
//! Exact for the first [`EXACT_VALUES`] values, after that a [`LogLinear`] histogram of 128 buckets to a
//! doubling, reported by their middles: a quantile is off by at most 0.4 %. Count, sum, mean, standard
//! deviation, minimum and maximum are always exact.

use crate::{LogLinear, Merge, checked};
use serde::{Deserialize, Serialize};

pub const EXACT_VALUES: usize = 4096; // Values kept one by one before the histogram takes over
const LONGEST: u64 = 1 << 53; // Largest value whose square is kept exactly: 104 days in ns
pub const RELATIVE_ERROR: f64 = 0.004; // Largest relative error of a quantile once the histogram has taken over

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(remote = "Self")]
enum QuantilesStore {
    Small(Vec<u32>), // Values that all fit 32 bits, such as times below 4 s: half the memory
    Exact(Vec<u64>),
    Binned(LogLinear<7>),
}

checked!(QuantilesStore, |store| match store {
    QuantilesStore::Small(values) => values.len() <= EXACT_VALUES,
    QuantilesStore::Exact(values) => values.len() <= EXACT_VALUES,
    QuantilesStore::Binned(_) => true,
});

/// Quantiles and moments of a stream of `u64`; see the [module](self) for the error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quantiles {
    store: QuantilesStore,
    count: u64,
    sum: u128,
    squares: u128, // Sum of squares modulo 2^128, values above [`LONGEST`] cut to it
    min: u64,
    max: u64,
}

/// Quantiles of values, in the unit of the key that has them. Percentiles are of nearest rank.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct QuantilesSummary {
    /// Number of values.
    pub count: u64,
    /// Mean (exact); `null` without values.
    pub mean: Option<f64>,
    /// Standard deviation (exact); `null` without values.
    pub stddev: Option<f64>,
    /// Smallest value (exact); `null` without values.
    pub min: Option<u64>,
    /// Largest value (exact); `null` without values.
    pub max: Option<u64>,
    /// 1st percentile; `null` without values.
    pub p1: Option<u64>,
    /// 5th percentile; `null` without values.
    pub p5: Option<u64>,
    /// 10th percentile; `null` without values.
    pub p10: Option<u64>,
    /// 25th percentile; `null` without values.
    pub p25: Option<u64>,
    /// Median; `null` without values.
    pub p50: Option<u64>,
    /// 75th percentile; `null` without values.
    pub p75: Option<u64>,
    /// 90th percentile; `null` without values.
    pub p90: Option<u64>,
    /// 95th percentile; `null` without values.
    pub p95: Option<u64>,
    /// 99th percentile; `null` without values.
    pub p99: Option<u64>,
    /// 99.9th percentile; `null` without values.
    pub p99_9: Option<u64>,
    /// 99.99th percentile; `null` without values.
    pub p99_99: Option<u64>,
    /// Largest relative error of a percentile: 0 up to 4,096 values, otherwise 0.004.
    pub relative_error: f64,
}

impl Default for Quantiles {
    fn default() -> Self {
        Self { store: QuantilesStore::Small(Vec::new()), count: 0, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }
}

impl Quantiles {
    /// Records one value.
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.squares = self.squares.wrapping_add(square(value.min(LONGEST)));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.store {
            QuantilesStore::Binned(bins) => bins.record(value),
            QuantilesStore::Small(values) if values.len() < EXACT_VALUES && value <= u32::MAX.into() => {
                values.push(value as u32);
            }
            QuantilesStore::Exact(values) if values.len() < EXACT_VALUES => values.push(value),
            _ => self.store_n(value, 1),
        }
    }

    /// Records the same value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.count = self.count.saturating_add(n);
        self.sum = self.sum.saturating_add(u128::from(value).saturating_mul(n.into()));
        self.squares = self.squares.wrapping_add(square(value.min(LONGEST)).wrapping_mul(n.into()));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.store_n(value, n);
    }

    fn store_n(&mut self, value: u64, n: u64) {
        if let QuantilesStore::Small(values) = &self.store
            && value > u32::MAX.into()
        {
            self.store = QuantilesStore::Exact(values.iter().map(|&value| value.into()).collect());
        }
        let fits = |stored: usize| n <= (EXACT_VALUES - stored) as u64;
        match &mut self.store {
            QuantilesStore::Small(values) if fits(values.len()) => {
                return values.extend(std::iter::repeat_n(value as u32, n as usize));
            }
            QuantilesStore::Exact(values) if fits(values.len()) => {
                return values.extend(std::iter::repeat_n(value, n as usize));
            }
            _ => self.spill(),
        }
        if let QuantilesStore::Binned(bins) = &mut self.store {
            bins.record_n(value, n);
        }
    }

    /// The values in the order of recording, until the histogram takes over.
    fn values(&self) -> Option<Vec<u64>> {
        match &self.store {
            QuantilesStore::Small(values) => Some(values.iter().map(|&value| value.into()).collect()),
            QuantilesStore::Exact(values) => Some(values.clone()),
            QuantilesStore::Binned(_) => None,
        }
    }

    /// Replaces the list of values by a histogram.
    fn spill(&mut self) {
        if let Some(values) = self.values() {
            let mut bins = LogLinear::default();
            values.into_iter().for_each(|value| bins.record(value));
            self.store = QuantilesStore::Binned(bins);
        }
    }

    /// Calls `see(value, count)` in ascending order of value; a bucket's value is its middle.
    fn for_each(&self, mut see: impl FnMut(u64, u64)) {
        if let Some(mut values) = self.values() {
            values.sort_unstable();
            values.into_iter().for_each(|value| see(value, 1));
        }
        if let QuantilesStore::Binned(bins) = &self.store {
            for (middle, count) in bins.iter() {
                see(middle.clamp(self.min, self.max), count);
            }
        }
    }

    /// The value of nearest rank at each of `fractions`, which must ascend; `None` when empty.
    pub fn quantiles<const N: usize>(&self, fractions: [f64; N]) -> [Option<u64>; N] {
        let mut values = [None; N];
        if self.count == 0 {
            return values;
        }
        let ranks = fractions.map(|fraction| nearest_rank(fraction, self.count));
        let (mut seen, mut next) = (0u64, 0usize);
        self.for_each(|value, count| {
            seen = seen.saturating_add(count);
            while next < N && ranks[next] <= seen {
                values[next] = Some(value);
                next += 1;
            }
        });
        values[next..].fill(Some(self.max));
        for (value, rank) in values.iter_mut().zip(ranks) {
            if rank == self.count {
                *value = Some(self.max);
            } else if rank <= 1 {
                *value = Some(self.min);
            }
        }
        values
    }

    /// Counts in logarithmic buckets, `per_decade` of them to a factor of ten, for charts:
    /// `(low, high, count)` with low <= value < high, ascending, empty buckets inside included.
    /// Zero has the bucket `(0, 1)`; the last bucket may end at `u64::MAX`, inclusive.
    pub fn log_buckets(&self, per_decade: u32) -> Vec<(u64, u64, u64)> {
        if self.count == 0 {
            return Vec::new();
        }
        let per_decade = per_decade.clamp(1, 100);
        let mut edges = vec![0u64];
        let mut step = 0u32;
        while edges[edges.len() - 1] <= self.max {
            let edge = 10f64.powf(f64::from(step) / f64::from(per_decade)).round();
            let edge = if edge >= u64::MAX as f64 { u64::MAX } else { edge as u64 };
            if edge > edges[edges.len() - 1] {
                edges.push(edge);
            }
            if edge == u64::MAX {
                break;
            }
            step += 1;
        }
        let mut buckets: Vec<_> = edges.windows(2).map(|pair| (pair[0], pair[1], 0)).collect();
        let (mut at, last) = (0, buckets.len() - 1);
        self.for_each(|value, count| {
            while at < last && value >= buckets[at].1 {
                at += 1;
            }
            buckets[at].2 += count;
        });
        let first = buckets.iter().position(|bucket| bucket.2 > 0).unwrap_or(0);
        buckets.drain(..first);
        while buckets.last().is_some_and(|bucket| bucket.2 == 0) {
            buckets.pop();
        }
        buckets
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact maximum.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Exact mean.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Population standard deviation; exact unless there are values above 2^53 (104 days in ns).
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let spread = if self.max > LONGEST {
            let mut spread = 0.0;
            self.for_each(|value, count| spread += (value as f64 - mean).powi(2) * count as f64);
            spread
        } else {
            // Sum of (x - m)^2 about the integer mean m. It fits in 128 bits although its parts may
            // not, so wrapping arithmetic gives it exactly; then shift from m to the true mean.
            let n = u128::from(self.count);
            let middle = self.sum / n;
            let about = self
                .squares
                .wrapping_sub(middle.wrapping_mul(2).wrapping_mul(self.sum))
                .wrapping_add(middle.wrapping_mul(middle).wrapping_mul(n));
            let rest = (self.sum % n) as f64 / self.count as f64;
            about as f64 - rest * rest * self.count as f64
        };
        Some((spread.max(0.0) / self.count as f64).sqrt())
    }

    /// The figures; see [`QuantilesSummary`].
    pub fn summary(&self) -> QuantilesSummary {
        let [p1, p5, p10, p25, p50, p75, p90, p95, p99, p99_9, p99_99] =
            self.quantiles([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999]);
        QuantilesSummary {
            count: self.count,
            mean: self.mean(),
            stddev: self.stddev(),
            min: (self.count > 0).then_some(self.min),
            max: self.max(),
            p1,
            p5,
            p10,
            p25,
            p50,
            p75,
            p90,
            p95,
            p99,
            p99_9,
            p99_99,
            relative_error: if matches!(self.store, QuantilesStore::Binned(_)) { RELATIVE_ERROR } else { 0.0 },
        }
    }
}

impl Merge for Quantiles {
    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        match &other.store {
            QuantilesStore::Small(values) => values.iter().for_each(|&value| self.store_n(value.into(), 1)),
            QuantilesStore::Exact(values) => values.iter().for_each(|&value| self.store_n(value, 1)),
            QuantilesStore::Binned(theirs) => {
                self.spill();
                if let QuantilesStore::Binned(bins) = &mut self.store {
                    bins.merge(theirs);
                }
            }
        }
    }
}

fn square(value: u64) -> u128 {
    u128::from(value) * u128::from(value)
}

/// Rank 1..=count of the nearest-rank quantile, forgiving the rounding of `fraction * count`.
pub(crate) fn nearest_rank(fraction: f64, count: u64) -> u64 {
    let exact = fraction.clamp(0.0, 1.0) * count as f64;
    let near = exact.round();
    let rank = if (exact - near).abs() <= 1e-9 * near { near } else { exact.ceil() };
    (rank as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests;
