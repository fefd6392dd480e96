//! Writing traces: events to blktrace binary, fio iologs and Parquet; I/Os to Parquet.

mod blktrace;
mod iolog;
mod output;
mod parquet;
pub mod target;
#[cfg(test)]
mod tests;

pub use blktrace::{BlktraceLayout, blktrace};
pub use iolog::{IologVersion, iolog};
pub use parquet::{parquet_events, parquet_ios};

use crate::error::Result;
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::process::{ProcessTable, UNNAMED};
use crate::source::{Source, TraceInfo};
use serde::Serialize;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    pub files: Vec<String>, // Files that now exist, in order; `standard output` for `-`
    pub bytes: u64,         // Their bytes together
    pub taken: u64,         // Events or I/Os read
    pub written: u64,       // How many of them were written; the format cannot hold the others
}

/// A writer of one format. The files appear under their names only in [`Exporter::finish`]; an exporter that is
/// dropped before leaves nothing behind.
pub trait Exporter: Send {
    /// Writes the next events. `info` is the source's information so far.
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()>;

    /// Completes the files. `info` is the source's information at its end.
    fn finish(self: Box<Self>, info: &TraceInfo) -> Result<ExportReport>;
}

/// Copies the events that `filter` wants to the exporter; `None` if the exporter filters, or everything is wanted.
///
/// `tick` is called after every batch with the bytes read so far. If it returns false, the conversion ends, leaves
/// nothing behind, and returns `None`.
pub fn convert(
    source: &mut dyn Source, filter: Option<&Filter>, mut exporter: Box<dyn Exporter>,
    tick: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<ExportReport>> {
    filter.map_or(Ok(()), Filter::check_for_events)?;
    let mut batch = EventBatch::default();
    let mut processes = ProcessTable::default();
    let mut is_empty = true;
    loop {
        batch.clear();
        if !source.fill(&mut batch)? {
            if is_empty {
                return Err(source.info().nothing_selected());
            }
            return exporter.finish(source.info()).map(Some);
        }
        if let Some(filter) = filter {
            keep_wanted(&mut batch, filter, &mut processes, source.info());
        }
        is_empty &= batch.events.is_empty();
        exporter.write(&batch, source.info())?;
        if !tick(source.info().bytes_read) {
            return Ok(None);
        }
    }
}

/// Removes the events that a filter does not want.
fn keep_wanted(batch: &mut EventBatch, filter: &Filter, processes: &mut ProcessTable, info: &TraceInfo) {
    let mut names = batch.names.iter_mut().peekable();
    let (mut index, mut kept) = (0, 0);
    batch.events.retain(|event| {
        while let Some(name) = names.next_if(|name| name.before <= index) {
            processes.learn(name.pid, &name.name);
            name.before = kept;
        }
        index += 1;
        let wanted = filter.wants_event(event, processes.name(event.pid).unwrap_or(UNNAMED), info);
        kept += usize::from(wanted);
        wanted
    });
    for name in names {
        processes.learn(name.pid, &name.name);
        name.before = kept;
    }
}
