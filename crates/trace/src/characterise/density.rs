//! Counts of reads and writes by time and value: the rows of a picture.

use blklab_stats::LogLinear;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row of density: the I/Os with a value from `low` to below `end`. Its strings have one character for each slice of
/// time: `.` for no I/O, otherwise the number of binary digits of the count, in base 36 (`1` is one I/O, `2` is 2 or 3,
/// `a` is 512 to 1,023).
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct DensityRow {
    /// Lowest value of the row: a sector, or ns of Q2C.
    pub low: u64,
    /// The values of the row are below this.
    pub end: u64,
    /// Reads in all.
    pub reads: u64,
    /// Writes in all.
    pub writes: u64,
    /// Reads over time, a character for each slice up to the last one with a read.
    pub read_levels: String,
    /// Writes over time, a character for each slice up to the last one with a write.
    pub write_levels: String,
}

impl DensityRow {
    /// The row of the values in `low..end` with the reads and writes of each slice.
    pub fn new(low: u64, end: u64, counts: &[[u64; 2]]) -> DensityRow {
        let total = |side: usize| counts.iter().map(|count| count[side]).sum();
        let text = |side: usize| {
            let levels: String = counts.iter().map(|count| level(count[side])).collect();
            levels.trim_end_matches('.').into()
        };
        DensityRow { low, end, reads: total(0), writes: total(1), read_levels: text(0), write_levels: text(1) }
    }
}

fn level(count: u64) -> char {
    match u64::BITS - count.leading_zeros() {
        0 => '.',
        digits => char::from_digit(digits.min(35), 36).unwrap_or('z'),
    }
}

/// The latencies of slices of time, by quarters of a doubling; each slice has those of reads and of writes.
pub fn latency_rows<'a>(slices: impl Iterator<Item = &'a [LogLinear<3>; 2]>) -> Vec<DensityRow> {
    let mut rows: BTreeMap<usize, Vec<[u64; 2]>> = BTreeMap::new();
    for (column, sides) in slices.enumerate() {
        for (side, histogram) in sides.iter().enumerate() {
            for (value, count) in histogram.iter() {
                let counts = rows.entry(LogLinear::<2>::bucket(value)).or_default();
                counts.resize(column + 1, [0; 2]);
                counts[column][side] += count;
            }
        }
    }
    let low = LogLinear::<2>::lowest;
    rows.iter().map(|(&bucket, counts)| DensityRow::new(low(bucket), low(bucket + 1), counts)).collect()
}

#[cfg(test)]
mod tests;
