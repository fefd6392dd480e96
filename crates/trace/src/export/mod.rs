//! Writing traces: events to blktrace binary, fio iologs and Parquet; I/Os to Parquet.

mod blktrace;
mod iolog;
mod output;
mod parquet;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use blktrace::{BlktraceLayout, blktrace};
pub use iolog::{IologVersion, iolog};
pub use parquet::{ParquetIos, parquet_events};

pub(crate) use parquet::columns::named as parquet_error;

use crate::error::Result;
use crate::event::EventBatch;
use crate::source::{Source, TraceInfo};
use serde::Serialize;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files that now exist, in order; `standard output` for `-`.
    pub files: Vec<String>,
    /// Their bytes together.
    pub bytes: u64,
    /// Events or I/Os taken in.
    pub taken: u64,
    /// How many of them were written; the others have no place in the format.
    pub written: u64,
}

/// A writer of one format. Nothing is visible under the files' names before [`Exporter::finish`]; an exporter
/// dropped before that leaves nothing behind.
pub trait Exporter: Send {
    /// Writes the next events. `info` is the source's, as known so far.
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()>;

    /// Completes the files. `info` is the exhausted source's.
    fn finish(self: Box<Self>, info: &TraceInfo) -> Result<Report>;
}

/// Passes a whole trace through.
pub fn convert(source: &mut dyn Source, mut exporter: Box<dyn Exporter>) -> Result<Report> {
    let mut batch = EventBatch::default();
    loop {
        batch.clear();
        if !source.fill(&mut batch)? {
            return exporter.finish(source.info());
        }
        exporter.write(&batch, source.info())?;
    }
}
