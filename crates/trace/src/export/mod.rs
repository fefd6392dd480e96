//! Writing traces: events to blktrace binary, fio iologs and Parquet; I/Os to Parquet.

mod blktrace;
mod iolog;
mod ios;
mod output;
mod parquet;
pub mod target;
#[cfg(test)]
mod tests;

pub use blktrace::{BlktraceLayout, blktrace};
pub use iolog::{IologVersion, iolog};
pub use ios::parquet_ios;
pub use parquet::{ParquetIos, parquet_events};

use crate::error::Result;
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::process::{ProcessTable, UNNAMED};
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

/// Passes what `filter` wants of a trace through; `None` where the exporter filters, or all is wanted.
///
/// `tick` is called after every batch with the bytes read so far; when it returns false the conversion is
/// abandoned, nothing is left behind, and the result is `None`.
pub fn convert(
    source: &mut dyn Source,
    filter: Option<&Filter>,
    mut exporter: Box<dyn Exporter>,
    tick: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Report>> {
    let mut batch = EventBatch::default();
    let mut processes = ProcessTable::default();
    loop {
        batch.clear();
        if !source.fill(&mut batch)? {
            return exporter.finish(source.info()).map(Some);
        }
        if let Some(filter) = filter {
            keep_wanted(&mut batch, filter, &mut processes, source.info());
        }
        exporter.write(&batch, source.info())?;
        if !tick(source.info().bytes_read) {
            return Ok(None);
        }
    }
}

/// Takes the events out that a filter does not want.
fn keep_wanted(batch: &mut EventBatch, filter: &Filter, processes: &mut ProcessTable, info: &TraceInfo) {
    let mut names = batch.names.iter_mut().peekable();
    let (mut index, mut kept) = (0, 0);
    batch.events.retain(|event| {
        while let Some(name) = names.next_if(|name| name.before <= index) {
            processes.learn(name.pid, &name.name);
            name.before = kept;
        }
        index += 1;
        let input = info.input_of(event);
        let wanted = filter.wants_event(event, processes.name(event.pid).unwrap_or(UNNAMED), input);
        kept += usize::from(wanted);
        wanted
    });
    for name in names {
        processes.learn(name.pid, &name.name);
        name.before = kept;
    }
}
