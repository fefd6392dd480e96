//! Where and when I/Os go: sequential streams, seek distances, arrivals.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use crate::event::Op;
use blklab_stats::{Arrivals, ArrivalsSummary, Seeks, SeeksSummary, Streams, StreamsSummary, merge_fields};
use serde::{Deserialize, Serialize};

/// The access pattern on a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AccessPattern {
    reads: Streams,
    writes: Streams,
    seeks: Seeks,
    arrivals: Arrivals,
}

/// The access pattern.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct PatternProfile {
    /// Sequential streams of the reads.
    pub read_streams: StreamsSummary,
    /// Sequential streams of the writes.
    pub write_streams: StreamsSummary,
    /// Distances from the end of one read or write to the start of the next.
    pub seeks: SeeksSummary,
    /// Times between the arrivals of I/Os of any operation.
    pub arrivals: ArrivalsSummary,
}

impl Panel for AccessPattern {
    type Profile = PatternProfile;

    fn end(&mut self) {
        self.reads.finish();
        self.writes.finish();
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            self.arrivals.record(row.time);
        }
        for row in &chunk.queued {
            let streams = match row.op() {
                Op::Read => &mut self.reads,
                Op::Write => &mut self.writes,
                Op::Discard | Op::Flush => continue,
            };
            streams.record(row.sector, row.sectors());
            self.seeks.record(row.sector, row.sectors());
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> PatternProfile {
        PatternProfile {
            read_streams: self.reads.summary(),
            write_streams: self.writes.summary(),
            seeks: self.seeks.summary(),
            arrivals: self.arrivals.summary(),
        }
    }
}

merge_fields!(AccessPattern: reads, writes, seeks, arrivals);
