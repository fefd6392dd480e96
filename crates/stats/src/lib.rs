//! Mergeable statistics for block I/O.
//!
//! Every statistic here is *pure* (no files, no clocks, no other crate of blklab), has bounded memory for any input,
//! never panics (traces are hostile), and can be merged: the statistics of two disjoint parts, merged, describe the
//! whole. Each has a record function meant for a hot loop (a few ns), and a `summary()` whose struct is serialised
//! verbatim by `blklab trace stat --json`, so its fields carry their units in their names.
//!
//! Units everywhere: times are ns (`u64`), sectors are 512 bytes (`u64`), sizes are bytes (`u32`).
//! Floating-point summary fields are finite, or `None` where the number does not exist.

pub mod arrivals;
pub mod checked;
pub mod distinct;
pub mod hash;
pub mod hotness;
pub mod level;
pub mod loglinear;
pub mod popularity;
pub mod quantiles;
pub mod ranges;
pub mod seeks;
pub mod sizes;
pub mod streams;
pub mod timeline;
pub mod zipf;

pub use arrivals::{ArrivalPattern, Arrivals, ArrivalsSummary, Dispersion};
pub use distinct::Distinct;
pub use hash::hash64;
pub use hotness::{HotBlock, Hotness, HotnessSummary, MOST_BLOCKS};
pub use level::{Level, LevelSummary, LevelTime};
pub use loglinear::LogLinear;
pub use popularity::{HotShare, Popularity};
pub use quantiles::{Quantiles, QuantilesSummary};
pub use seeks::{SeekRange, Seeks, SeeksSummary};
pub use sizes::{SizeBin, SizeCount, SizeHistogram, SizeSummary};
pub use streams::{RunLengths, Streams, StreamsSummary};
pub use timeline::Timeline;
pub use zipf::{ZipfFit, ZipfVerdict};

#[cfg(test)]
mod tests;

/// A statistic that can be merged with another of its kind.
pub trait Merge {
    /// Merges `other` into `self`, as if `self` had recorded both.
    fn merge(&mut self, other: &Self);
}
