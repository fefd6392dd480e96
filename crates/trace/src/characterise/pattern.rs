//! Where and when I/Os go: sequential streams, seek distances, arrivals.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use blklab_stats::{Arrivals, ArrivalsSummary, Seeks, SeeksSummary, Streams, StreamsSummary, merge_fields};
use serde::{Deserialize, Serialize};

/// The access pattern on a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AccessPattern {
    streams: [Streams; 2], // Of reads and of writes
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
        self.streams.iter_mut().for_each(Streams::finish);
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            self.arrivals.record(row.time);
        }
        for row in &chunk.queued {
            let Some(side) = row.side() else { continue };
            self.streams[side].record(row.sector, row.sectors());
            self.seeks.record(row.sector, row.sectors());
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> PatternProfile {
        PatternProfile {
            read_streams: self.streams[0].summary(),
            write_streams: self.streams[1].summary(),
            seeks: self.seeks.summary(),
            arrivals: self.arrivals.summary(),
        }
    }
}

merge_fields!(AccessPattern: streams, seeks, arrivals);
