//! The registry of formats that a trace can be converted to.

use super::{BlktraceLayout, Exporter, IologVersion, blktrace, iolog, parquet_events, parquet_ios};
use crate::error::{Result, TraceError};
use crate::filter::Filter;
use std::path::Path;

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

#[cfg(test)]
mod tests;
