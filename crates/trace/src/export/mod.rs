//! Writing traces: events to blktrace binary, fio iologs and Parquet; I/Os to Parquet.

mod blktrace;
mod iolog;
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
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Makes an exporter; an existing per-CPU set is replaced only with `true`.
    pub open: fn(&Path, &Filter, bool) -> Result<Box<dyn Exporter>>,
}

/// Every target; names without a known suffix select the last one.
pub static TARGETS: &[ExportTarget] = &[
    target("parquet", "events, one row each, as Parquet", &[".parquet"], |path, _, _| parquet_events(path)),
    ExportTarget {
        filters: true,
        ..target(
            "ios",
            "I/Os (queued, dispatched, completed), one row each, as Parquet",
            &[".ios.parquet"],
            |path, filter, _| parquet_ios(path, filter.clone()),
        )
    },
    target("iolog", "fio's iolog, version 3 (with times), for fio --read_iolog", &[".iolog"], |path, _, _| {
        iolog(path, IologVersion::V3)
    }),
    target("iolog2", "fio's iolog, version 2, for fio before 3.28", &[], |path, _, _| iolog(path, IologVersion::V2)),
    target(
        "blktrace-merged",
        "blktrace binary in one file, as blkparse -d writes and btt reads",
        &[".bin"],
        |path, _, replace| blktrace(path, BlktraceLayout::Merged, replace),
    ),
    target("blktrace", "blktrace binary, one file for each CPU: NAME.blktrace.0, .1, …", &[], |path, _, replace| {
        blktrace(path, BlktraceLayout::PerCpu, replace)
    }),
];

const fn target(
    name: &'static str, about: &'static str, suffixes: &'static [&'static str],
    open: fn(&Path, &Filter, bool) -> Result<Box<dyn Exporter>>,
) -> ExportTarget {
    ExportTarget { name, about, suffixes, filters: false, open }
}

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

// A file that appears under its name only when it is complete.

const BUFFER: usize = 256 << 10;

/// Output under a temporary name in the destination's directory: [`OutputFile::commit`] syncs and renames it;
/// dropping it before removes it.
///
/// `-` is standard output, and pipes and character devices are written directly; block devices are refused.
pub struct OutputFile {
    pub shown: String, // The path for messages
    target: Destination,
    sink: Option<BufWriter<File>>, // Present until the file is committed or dropped
    bytes: u64,
}

enum Destination {
    Stream,
    File { temporary: PathBuf, destination: PathBuf },
}

impl OutputFile {
    /// Opens the temporary file.
    pub fn create(path: &Path) -> Result<OutputFile> {
        let shown = path.to_string_lossy().into_owned();
        if shown == "-" {
            let shown = "standard output";
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(|e| TraceError::io(shown, e))?;
            return Ok(Self::new(shown.into(), Destination::Stream, stdout.into()));
        }
        let fail = |e| TraceError::io(&shown, e);
        let destination = match fs::metadata(path) {
            Ok(meta) if meta.is_file() => fs::canonicalize(path).map_err(fail)?,
            Ok(meta) if meta.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(meta) if meta.file_type().is_char_device() || meta.file_type().is_fifo() => {
                let file = File::options().write(true).open(path).map_err(fail)?;
                return Ok(Self::new(shown, Destination::Stream, file));
            }
            Ok(_) => {
                return Err(TraceError::Request(format!(
                    "{shown}: not a file: expected a file or a pipe; traces are not written to devices or sockets"
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(fail(e)),
        };
        let temporary = temporary_name(&destination);
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(fail)?;
        Ok(Self::new(shown, Destination::File { temporary, destination }, file))
    }

    fn new(shown: String, target: Destination, file: File) -> OutputFile {
        OutputFile { shown, target, sink: Some(BufWriter::with_capacity(BUFFER, file)), bytes: 0 }
    }

    /// Writes bytes; an error names the file.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|e| TraceError::io(&self.shown, e))
    }

    /// Syncs the content and gives it its name. Returns the name and the number of bytes.
    pub fn commit(mut self) -> Result<(String, u64)> {
        self.sync()?;
        let result = self.rename_into_place();
        result.map_err(|e| TraceError::io(&self.shown, e))?;
        Ok((self.shown.clone(), self.bytes))
    }

    /// Syncs the content under the temporary name, so that [`OutputFile::commit`] only renames.
    pub fn sync(&mut self) -> Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let written = sink.flush().and_then(|()| match self.target {
            Destination::File { .. } => sink.get_ref().sync_all(),
            Destination::Stream => Ok(()),
        });
        written.map_err(|e| TraceError::io(&self.shown, e))
    }

    fn rename_into_place(&mut self) -> io::Result<()> {
        drop(self.sink.take());
        if let Destination::File { temporary, destination } = &self.target {
            if let Err(e) = fs::rename(temporary, destination) {
                let _ = fs::remove_file(temporary);
                return Err(e);
            }
            let directory = destination.parent().filter(|d| !d.as_os_str().is_empty());
            // Some filesystems cannot sync a directory; the file itself is safe.
            let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|d| d.sync_all());
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sink) = &mut self.sink else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let count = sink.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let (Some(sink), Destination::File { temporary, .. }) = (self.sink.take(), &self.target) {
            drop(sink.into_parts());
            let _ = fs::remove_file(temporary);
        }
    }
}

fn temporary_name(destination: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = destination.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // Shortened, so that it works for the longest names that a filesystem allows.
    let name: String = name.chars().take(100).collect();
    destination.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()))
}
