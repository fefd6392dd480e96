//! What I/Os waited behind: the latency of those for which a program waits, by the background I/O that they found.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use crate::event::Rwbs;
use crate::io::{Io, NEVER};
use blklab_stats::{Quantiles, QuantilesSummary, merge_fields};
use serde::{Deserialize, Serialize};

/// Q2C of I/Os by what was in flight when they were queued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    alone: Quantiles,
    behind: [Quantiles; 2],
    flushes: Quantiles,
}

merge_fields!(Waits: alone, behind, flushes);

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
    /// All I/Os that flush the disk's cache: flushes, writes with a flush before them, and writes with forced unit
    /// access.
    pub flushing: QuantilesSummary,
}

impl Waits {
    fn add(&mut self, io: &Io, time: u64) {
        if io.rwbs.has(Rwbs::FLUSH.with(Rwbs::FUA)) {
            self.flushes.record(time);
        }
        if io.background().is_none() {
            let most = (0..2).rev().find(|kind| io.behind[*kind] > 0);
            most.map_or(&mut self.alone, |kind| &mut self.behind[kind]).record(time);
        }
    }
}

impl Panel for Waits {
    type Profile = WaitsProfile;

    fn observe(&mut self, chunk: &Chunk) {
        for io in chunk.ended.iter().filter(|io| io.t_queue != NEVER && io.t_complete != NEVER) {
            self.add(io, io.t_complete.saturating_sub(io.t_queue));
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> WaitsProfile {
        WaitsProfile {
            alone: self.alone.summary(),
            behind_writeback: self.behind[0].summary(),
            behind_resync: self.behind[1].summary(),
            flushing: self.flushes.summary(),
        }
    }
}
