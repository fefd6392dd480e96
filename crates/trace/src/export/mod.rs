//! Writing traces: events to blktrace binary, fio iologs and Parquet; I/Os to Parquet.

mod blktrace;
mod iolog;
mod output;
pub(crate) mod parquet;
#[cfg(test)]
mod tests;

use crate::error::{Result, TraceError};
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::process::{ProcessTable, UNNAMED};
use crate::source::{Source, TraceInfo};
use blktrace::{BlktraceLayout, blktrace};
use iolog::{IologVersion, iolog};
use parquet::{parquet_events, parquet_ios};
use serde::Serialize;
use std::path::Path;

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

// The registry of formats that a trace can be converted to.

/// A format that a trace can be written in.
pub struct ExportTarget {
    pub name: &'static str,                // Name for `--to`
    pub about: &'static str,               // One line for `--help`
    pub suffixes: &'static [&'static str], // File suffixes that select it
    pub filters: bool, // Whether the exporter itself applies the filter, because it sees I/Os and not events
    open: fn(&Path, &Filter, bool) -> Result<Box<dyn Exporter>>,
}

/// Every target; names without a known suffix select the last one.
pub static TARGETS: &[ExportTarget] = &[
    ExportTarget {
        name: "parquet",
        about: "events, one row each, as Parquet",
        suffixes: &[".parquet"],
        filters: false,
        open: |path, _, _| parquet_events(path),
    },
    ExportTarget {
        name: "ios",
        about: "I/Os (queued, dispatched, completed), one row each, as Parquet",
        suffixes: &[".ios.parquet"],
        filters: true,
        open: |path, filter, _| parquet_ios(path, filter.clone()),
    },
    ExportTarget {
        name: "iolog",
        about: "fio's iolog, version 3 (with times), for fio --read_iolog",
        suffixes: &[".iolog"],
        filters: false,
        open: |path, _, _| iolog(path, IologVersion::V3),
    },
    ExportTarget {
        name: "iolog2",
        about: "fio's iolog, version 2, for fio before 3.28",
        suffixes: &[],
        filters: false,
        open: |path, _, _| iolog(path, IologVersion::V2),
    },
    ExportTarget {
        name: "blktrace-merged",
        about: "blktrace binary in one file, as blkparse -d writes and btt reads",
        suffixes: &[".bin"],
        filters: false,
        open: |path, _, replace| blktrace(path, BlktraceLayout::Merged, replace),
    },
    ExportTarget {
        name: "blktrace",
        about: "blktrace binary, one file for each CPU: NAME.blktrace.0, .1, …",
        suffixes: &[],
        filters: false,
        open: |path, _, replace| blktrace(path, BlktraceLayout::PerCpu, replace),
    },
];

/// The target with this name; without a name, the one that the path's longest known suffix selects.
pub fn find_target(name: Option<&str>, path: &str) -> Result<&'static ExportTarget> {
    if let Some(name) = name {
        return TARGETS.iter().find(|t| t.name == name).ok_or_else(|| {
            let known: Vec<_> = TARGETS.iter().map(|t| t.name).collect();
            TraceError::Request(format!("cannot convert to {name:?}: expected one of {}", known.join(", ")))
        });
    }
    let longest = |target: &&ExportTarget| {
        let fitting = target.suffixes.iter().filter(|suffix| path.ends_with(*suffix));
        fitting.map(|suffix| suffix.len()).max().unwrap_or(0)
    };
    let best = TARGETS.iter().max_by_key(longest).filter(|t| longest(t) > 0);
    Ok(best.unwrap_or(&TARGETS[TARGETS.len() - 1]))
}

impl ExportTarget {
    /// An exporter to this target; an existing per-CPU set is replaced only with `replace`.
    pub fn open(&self, path: &Path, filter: &Filter, replace: bool) -> Result<Box<dyn Exporter>> {
        (self.open)(path, filter, replace)
    }
}
