//! What I/Os waited behind: the latency of those for which a program waits, by the background I/O that they found.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use crate::io::{COMMITS, Io, NEVER, RESYNC, WRITEBACK};
use blklab_stats::{Quantiles, QuantilesSummary, Timeline, merge_fields};
use serde::{Deserialize, Serialize};

/// Q2C of I/Os by what was in flight when they were queued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    alone: Quantiles,
    behind: [Quantiles; 3],
    deep: Quantiles,
    flushes: Quantiles,
    over_time: Timeline<WaitSlice>,
}

merge_fields!(Waits: alone, behind, deep, flushes, over_time);

const DEEP: u64 = 16; // I/Os in flight from which on a queue is long

/// What programs waited for in a slice of time: Q2C of the I/Os that were queued in it, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct WaitSlice {
    /// All I/Os for which a program waits, in ns.
    pub all_ns: u64,
    /// Those that found writeback in flight, in ns.
    pub writeback_ns: u64,
    /// Those that found commits of another process in flight, in ns.
    pub commits_ns: u64,
}

merge_fields!(WaitSlice: all_ns, writeback_ns, commits_ns);

/// What programs waited for, over time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct WaitsOverTime {
    /// Width of a slice of time, in ns.
    pub width_ns: u64,
    /// The slices from time 0, at most 512; idle ones at the end are left out.
    pub slices: Vec<WaitSlice>,
}

/// Q2C of I/Os for which a program waits (reads, synchronous writes, flushes), in ns, by the background I/O that was in
/// flight when they were queued: writeback (writes without flag S), or md's resync, check or recovery.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct WaitsProfile {
    /// No background I/O was in flight.
    pub alone: QuantilesSummary,
    /// Writeback was in flight.
    pub behind_writeback: QuantilesSummary,
    /// I/O of md's resync was in flight.
    pub behind_resync: QuantilesSummary,
    /// Of those without background I/O: commits of another process were in flight (flushes, writes with a flush or forced
    /// unit access, and what a filesystem's journal writes).
    pub behind_commits: QuantilesSummary,
    /// Those that found at least 16 I/Os in flight for which programs wait.
    pub deep: QuantilesSummary,
    /// All I/Os that flush the disk's cache: flushes, writes with a flush before them, and writes with forced unit
    /// access.
    pub flushing: QuantilesSummary,
    /// The time of all these I/Os, over time.
    pub over_time: WaitsOverTime,
}

impl Waits {
    fn add(&mut self, io: &Io, time: u64) {
        if io.flushes() {
            self.flushes.record(time);
        }
        if io.background().is_some() {
            return;
        }
        let most = [RESYNC, WRITEBACK].into_iter().find(|kind| io.behind[*kind] > 0);
        most.map_or(&mut self.alone, |kind| &mut self.behind[kind]).record(time);
        let found_commits = most.is_none() && io.behind[COMMITS] > 0 && !io.commits;
        if found_commits {
            self.behind[COMMITS].record(time);
        }
        let others = u64::from(io.depth).saturating_sub((io.behind[WRITEBACK] + io.behind[RESYNC]).into());
        if others >= DEEP {
            self.deep.record(time);
        }
        let slice = self.over_time.at(io.t_queue);
        slice.all_ns += time;
        slice.writeback_ns += if most == Some(WRITEBACK) { time } else { 0 };
        slice.commits_ns += if found_commits { time } else { 0 };
    }
}

impl Panel for Waits {
    type Profile = WaitsProfile;

    fn for_device(index: usize) -> Waits {
        Waits { over_time: Timeline::new(if index < 16 { 512 } else { 64 }), ..Waits::default() }
    }

    fn observe(&mut self, chunk: &Chunk) {
        for io in chunk.ended.iter().filter(|io| io.t_queue != NEVER && io.t_complete != NEVER) {
            self.add(io, io.t_complete.saturating_sub(io.t_queue));
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> WaitsProfile {
        WaitsProfile {
            alone: self.alone.summary(),
            behind_writeback: self.behind[WRITEBACK].summary(),
            behind_resync: self.behind[RESYNC].summary(),
            behind_commits: self.behind[COMMITS].summary(),
            deep: self.deep.summary(),
            flushing: self.flushes.summary(),
            over_time: WaitsOverTime {
                width_ns: self.over_time.width_ns(),
                slices: self.over_time.iter().map(|(_, slice)| *slice).collect(),
            },
        }
    }
}
