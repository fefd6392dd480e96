//! How the load and its response times changed while the trace ran.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use super::density::{DensityRow, latency_rows};
use crate::event::Op;
use crate::io::NEVER;
use blklab_stats::{Distinct, LogLinear, Merge, Timeline, merge_fields};
use serde::{Deserialize, Serialize};

/// The largest number of slices for a trace of any length; fewer for the many devices of a large one.
const SLICES: usize = 512;
/// Blocks of one I/O that count for the working set: 64 MiB, as for hotness.
const MAX_BLOCKS: u64 = blklab_stats::MOST_BLOCKS as u64;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TimeSlice {
    asked: [(u64, u64); 4],
    q2c: [LogLinear<3>; 2],
    unique: Option<Distinct>,
}

merge_fields!(TimeSlice: asked, q2c, unique);

/// A device over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OverTime(Timeline<TimeSlice>);

/// One slice of time: what was queued, and what completed, in `[start_ns, start_ns + width_ns)`.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct SliceProfile {
    /// Start of the slice, in ns since the trace began.
    pub start_ns: u64,
    /// Reads queued in the slice.
    pub reads: u64,
    /// Writes queued in the slice.
    pub writes: u64,
    /// Discards and flushes queued in the slice.
    pub others: u64,
    /// Bytes of the reads queued.
    pub read_bytes: u64,
    /// Bytes of the writes queued.
    pub write_bytes: u64,
    /// Median Q2C of the reads completed in the slice, in ns (relative error 6.25 %); `null` if there were none.
    pub read_p50_ns: Option<u64>,
    /// 99th percentile of Q2C of the reads completed in the slice, in ns (relative error 6.25 %); `null` if there were
    /// none.
    pub read_p99_ns: Option<u64>,
    /// Median Q2C of everything else completed in the slice, in ns (relative error 6.25 %); `null` if there was
    /// nothing.
    pub write_p50_ns: Option<u64>,
    /// 99th percentile of Q2C of everything else completed in the slice, in ns (relative error 6.25 %); `null` if there
    /// was nothing.
    pub write_p99_ns: Option<u64>,
    /// Distinct blocks of 4 KiB read or written in the slice (standard error 3.25 %).
    pub unique_blocks: u64,
    /// Distinct blocks of 4 KiB read or written since the trace began (standard error 3.25 %): the working set as it
    /// grows.
    pub unique_blocks_so_far: u64,
}

/// Load and latencies of a device over time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct OverTimeProfile {
    /// Width of a slice of time, in ns.
    pub width_ns: u64,
    /// The slices, at most 512; empty ones at the end are left out.
    pub slices: Vec<SliceProfile>,
    /// Q2C of the I/Os completed in each slice as density: a row for each quarter of a doubling that occurs, in ns.
    /// Everything except reads counts as a write.
    pub latencies: Vec<DensityRow>,
}

impl Panel for OverTime {
    type Profile = OverTimeProfile;
    const DETAIL: bool = true;

    fn for_device(index: usize) -> OverTime {
        OverTime(Timeline::new(match index {
            0..16 => SLICES,
            16..128 => SLICES / 4,
            _ => SLICES / 16,
        }))
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            let slice = self.0.at(row.time);
            let op = row.op();
            let cell = &mut slice.asked[op as usize];
            cell.0 += 1;
            cell.1 += u64::from(row.bytes);
            if matches!(op, Op::Read | Op::Write) && row.bytes > 0 {
                let unique = slice.unique.get_or_insert_default();
                let first = chunk.first_block + (row.sector >> 3);
                let blocks = ((row.sector & 7) + row.sectors()).div_ceil(8).min(MAX_BLOCKS);
                unique.insert(first, blocks);
            }
        }
        for io in &chunk.ended {
            if io.t_complete != NEVER && io.t_queue != NEVER {
                let side = usize::from(io.op() != Op::Read);
                let slice = self.0.at(io.t_complete);
                slice.q2c[side].record(io.t_complete.saturating_sub(io.t_queue));
            }
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> OverTimeProfile {
        let mut so_far = Distinct::default();
        let slices = self.0.iter().map(|(start_ns, slice)| {
            let mut unique_blocks = 0;
            if let Some(unique) = &slice.unique {
                unique_blocks = unique.count();
                so_far.merge(unique);
            }
            SliceProfile {
                start_ns,
                reads: slice.asked[Op::Read as usize].0,
                writes: slice.asked[Op::Write as usize].0,
                others: slice.asked[Op::Discard as usize].0 + slice.asked[Op::Flush as usize].0,
                read_bytes: slice.asked[Op::Read as usize].1,
                write_bytes: slice.asked[Op::Write as usize].1,
                read_p50_ns: slice.q2c[0].quantile(0.5),
                read_p99_ns: slice.q2c[0].quantile(0.99),
                write_p50_ns: slice.q2c[1].quantile(0.5),
                write_p99_ns: slice.q2c[1].quantile(0.99),
                unique_blocks,
                unique_blocks_so_far: so_far.count(),
            }
        });
        let latencies = latency_rows(self.0.iter().map(|(_, slice)| &slice.q2c));
        OverTimeProfile { width_ns: self.0.width_ns(), slices: slices.collect(), latencies }
    }
}

merge_fields!(OverTime: 0);
