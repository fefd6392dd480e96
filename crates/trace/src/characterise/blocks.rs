//! Latencies in blocks of consecutive I/Os: how much they vary while the trace runs.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use crate::io::Io;
use blklab_stats::{LogLinear, Merge, checked};
use serde::{Deserialize, Serialize};

const SMALLEST: u64 = 16; // I/Os of a block at first
const MOST: usize = 128; // Blocks; if there are more, two become one
const TAIL: u64 = 100; // I/Os of a block from which it has a 99th percentile
const DETAILED: usize = 128; // Devices that have blocks: those of the largest traces would fill the document

/// I/Os of one kind, in the order of their completion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
struct BlockSeries {
    size: u64,
    blocks: Vec<LogLinear<6>>,
    last: u64, // I/Os of the last block
}

checked!(BlockSeries, |series| {
    let size = series.size;
    let is_full = series.last == size || (series.last < size && !series.blocks.is_empty());
    (SMALLEST..=1 << 60).contains(&size) && size.is_power_of_two() && series.blocks.len() <= MOST && is_full
});

impl Default for BlockSeries {
    fn default() -> BlockSeries {
        BlockSeries { size: SMALLEST, blocks: Vec::new(), last: SMALLEST }
    }
}

impl BlockSeries {
    fn record(&mut self, time: u64) {
        if self.last == self.size {
            if self.blocks.len() == MOST {
                self.double();
            }
            self.blocks.push(LogLinear::default());
            self.last = 0;
        }
        self.last += 1;
        let at = self.blocks.len() - 1;
        self.blocks[at].record(time);
    }

    /// Makes one block of two; the last one is complete.
    fn double(&mut self) {
        let pairs = self.blocks.chunks(2).filter(|pair| pair.len() == 2);
        self.blocks = pairs
            .map(|pair| {
                let mut both = pair[0].clone();
                both.merge(&pair[1]);
                both
            })
            .collect();
        self.size *= 2;
        self.last = self.size;
    }

    fn complete(&self) -> &[LogLinear<6>] {
        &self.blocks[..self.blocks.len() - usize::from(self.last < self.size)]
    }

    fn profile(&self) -> BlockSeriesProfile {
        let quantiles = |fraction| self.complete().iter().filter_map(|block| block.quantile(fraction)).collect();
        let p99_ns = if self.size >= TAIL { quantiles(0.99) } else { Vec::new() };
        BlockSeriesProfile { ios: self.size, p50_ns: quantiles(0.5), p99_ns }
    }
}

impl Merge for BlockSeries {
    /// Appends the complete blocks of another trace.
    fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        for series in [&mut *self, &mut other] {
            let complete = series.complete().len();
            series.blocks.truncate(complete);
            series.last = series.size;
        }
        while self.size != other.size || self.blocks.len() + other.blocks.len() > MOST {
            if self.size <= other.size { self.double() } else { other.double() }
        }
        self.blocks.append(&mut other.blocks);
    }
}

/// Latencies of reads and writes in blocks of consecutive I/Os.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyBlocks {
    #[serde(skip)]
    left_out: bool,
    kinds: [BlockSeries; 2],
}

impl Merge for LatencyBlocks {
    fn merge(&mut self, other: &Self) {
        self.kinds.merge(&other.kinds);
    }
}

/// Quantiles of the complete blocks of consecutive I/Os, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct BlockSeriesProfile {
    /// I/Os of a block.
    pub ios: u64,
    /// The median of each block, in ns (relative error 0.8 %).
    pub p50_ns: Vec<u64>,
    /// The 99th percentile of each block, in ns (relative error 0.8 %); empty if blocks have fewer than 100 I/Os.
    pub p99_ns: Vec<u64>,
}

/// Q2C (D2C if the trace has no Q events) in blocks of consecutive I/Os, to tell a change from chance; without blocks
/// for devices beyond the first 128.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct LatencyBlocksProfile {
    /// Reads.
    pub read: BlockSeriesProfile,
    /// Writes.
    pub write: BlockSeriesProfile,
}

impl Panel for LatencyBlocks {
    type Profile = LatencyBlocksProfile;
    const DETAIL: bool = true;

    fn for_device(index: usize) -> LatencyBlocks {
        LatencyBlocks { left_out: index >= DETAILED, ..LatencyBlocks::default() }
    }

    fn observe(&mut self, chunk: &Chunk) {
        if self.left_out {
            return;
        }
        for (kind, time) in chunk.ended.iter().filter_map(Io::timed) {
            self.kinds[kind].record(time);
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> LatencyBlocksProfile {
        LatencyBlocksProfile { read: self.kinds[0].profile(), write: self.kinds[1].profile() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: impl Iterator<Item = u64>) -> BlockSeries {
        let mut series = BlockSeries::default();
        times.for_each(|time| series.record(time));
        series
    }

    #[test]
    fn a_long_trace_has_few_large_blocks() {
        let profile = series((0..16 * 1024).map(|at| at / 8192 * 1000 + 10)).profile();
        assert_eq!((profile.ios, profile.p50_ns.len(), profile.p99_ns.len()), (128, 128, 128));
        assert_eq!((profile.p50_ns[63], profile.p50_ns[64]), (10, 1012));
        let profile = series((0..16 * 1024 + 1).map(|_| 7)).profile();
        assert_eq!((profile.ios, profile.p50_ns.len()), (256, 64));
    }

    #[test]
    fn blocks_of_two_traces_follow_each_other() {
        let mut first = series((0..40).map(|_| 5));
        first.merge(&series((0..4096).map(|_| 9)));
        let profile = first.profile();
        assert_eq!((profile.ios, profile.p50_ns.len(), profile.p50_ns[0], profile.p50_ns[1]), (64, 64, 9, 9));
        let mut first = series((0..40).map(|_| 5));
        first.merge(&series((0..40).map(|_| 9)));
        assert_eq!(first.profile().p50_ns, [5, 5, 9, 9]);
    }
}
