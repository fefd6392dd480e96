//! Mergeable statistics for block I/O.
//!
//! Every statistic here is *pure* (no files, no clocks, no other crate of blklab), has bounded memory for any input,
//! never panics (traces are hostile), and can be merged: the statistics of two disjoint parts, merged, describe the
//! whole. Each has a record function meant for a hot loop (a few ns), and a `summary()` whose struct is serialised
//! verbatim by `blklab trace stat --json`, so its fields carry their units in their names.
//!
//! Units everywhere: times are ns (`u64`), sectors are 512 bytes (`u64`), sizes are bytes (`u32`).
//! Floating-point summary fields are finite, or `None` where the number does not exist.

#[cfg(not(feature = "schema"))]
use blklab_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub mod arrivals;
pub mod checked;
pub mod distinct;
pub mod hotness;
pub mod level;
pub mod loglinear;
pub mod quantiles;
pub mod ranges;
pub mod seeks;
pub mod sizes;
pub mod streams;
pub mod timeline;
pub mod zipf;

pub use arrivals::{ArrivalPattern, Arrivals, ArrivalsSummary, Dispersion};
pub use distinct::Distinct;
pub use hotness::{HotBlock, Hotness, HotnessSummary, MOST_BLOCKS};
pub use level::{Level, LevelSummary, LevelTime};
pub use loglinear::LogLinear;
pub use quantiles::{Quantiles, QuantilesSummary};
pub use seeks::{SeekRange, Seeks, SeeksSummary};
pub use sizes::{SizeBin, SizeCount, SizeHistogram, SizeSummary};
pub use streams::{RunLengths, Streams, StreamsSummary};
pub use timeline::Timeline;
pub use zipf::{HotShare, Popularity, ZipfFit, ZipfVerdict};

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// A statistic that can be merged with another of its kind.
pub trait Merge {
    /// Merges `other` into `self`, as if `self` had recorded both.
    fn merge(&mut self, other: &Self);
}

/// Merges a struct field by field; the list has all of its fields.
#[macro_export]
macro_rules! merge_fields {
    ($type:ty: $($field:tt),+) => {
        impl $crate::Merge for $type {
            fn merge(&mut self, other: &Self) {
                let Self { $($field: _),+ } = other;
                $($crate::Merge::merge(&mut self.$field, &other.$field);)+
            }
        }
    };
}

/// Counts are added up.
impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl<A: Merge, B: Merge> Merge for (A, B) {
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
        self.1.merge(&other.1);
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

impl<T: Merge + Clone> Merge for Option<T> {
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => mine.clone_from(theirs),
            (Some(_), None) => {}
        }
    }
}

impl<K: Copy + Ord, T: Merge + Default> Merge for BTreeMap<K, T> {
    fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(key, theirs)| self.entry(*key).or_default().merge(theirs));
    }
}

/// The hash function of all samples and sketches: a bijective mixer after adding the golden ratio, so that 0 is mixed
/// too.
pub fn hash64(value: u64) -> u64 {
    mix(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// A bijective mixer of 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants of David
/// Stafford's Mix13).
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The hash function of tables whose keys are numbers. Chosen numbers can collide, so tables of
/// untrusted numbers must have a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

/// For tables of the standard library.
pub type Hashing = std::hash::BuildHasherDefault<NumberHasher>;

impl std::hash::Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = hash64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = hash64(number);
    }
}
