//! Events as blktrace binary: a set of per-CPU files, or one merged file as `blkparse -d` writes it.

use super::OutputFile;
use super::{ExportReport, Exporter};
use crate::blktrace::write::{write_event, write_process, write_timestamp};
use crate::error::{Result, TraceError};
use crate::event::EventBatch;
use crate::source::TraceInfo;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::path::{Path, PathBuf};

/// Which files to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlktraceLayout {
    PerCpu, // `NAME.blktrace.0`, `.1`, …: what `blktrace` writes and `blkparse NAME` reads
    Merged, // One file with every CPU's events in order of time
}

const MOST_CPUS: u16 = 512; // The largest number of CPUs with their own files: every CPU's file stays open

/// An exporter to blktrace binary at `path` (the set's name, or the file). Fails if a set of that name exists, unless
/// `replace` is set.
pub fn blktrace(path: &Path, layout: BlktraceLayout, replace: bool) -> Result<Box<dyn Exporter>> {
    let mut blktrace = BlktraceExporter {
        path: path.to_path_buf(),
        layout,
        files: BTreeMap::new(),
        names: Vec::new(),
        started: false,
        taken: 0,
        replace,
    };
    if layout == BlktraceLayout::PerCpu && path.as_os_str() == "-" {
        return Err(TraceError::Request(
            "per-CPU files cannot be written to standard output; write one merged file".into(),
        ));
    }
    blktrace.file(0)?; // so that a path that cannot be written is known at once
    Ok(Box::new(blktrace))
}

struct BlktraceExporter {
    path: PathBuf,
    layout: BlktraceLayout,
    files: BTreeMap<u16, OutputFile>,
    names: Vec<(u32, Vec<u8>)>, // New names that no event has followed yet
    started: bool,
    taken: u64,
    replace: bool, // Whether an existing set of the name can be replaced
}

impl BlktraceExporter {
    fn file(&mut self, cpu: u16) -> Result<&mut OutputFile> {
        let slot = if self.layout == BlktraceLayout::Merged { 0 } else { cpu };
        let entry = match self.files.entry(slot) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        if self.layout == BlktraceLayout::Merged {
            return Ok(entry.insert(OutputFile::create(&self.path)?));
        }
        if slot >= MOST_CPUS {
            return Err(TraceError::Request(format!(
                "CPU {slot}: at most {MOST_CPUS} CPUs' files are written; write one merged file"
            )));
        }
        let path = per_cpu(&self.path, slot);
        if path.exists() && !self.replace {
            return Err(TraceError::Request(format!(
                "{}: exists already; --overwrite replaces that set",
                path.display()
            )));
        }
        Ok(entry.insert(OutputFile::create(&path)?))
    }
}

/// The file of a CPU; the user gave the base of the set, or one of its files.
fn per_cpu(path: &Path, cpu: u16) -> PathBuf {
    let is_number = |text: &std::ffi::OsStr| text.to_str().is_some_and(|text| text.parse::<u16>().is_ok());
    let set = path.extension().filter(|number| is_number(number)).map(|_| path.with_extension(""));
    let base =
        set.filter(|set| set.extension().is_some_and(|kind| kind == "blktrace")).map(|set| set.with_extension(""));
    let mut name = base.as_deref().unwrap_or(path).as_os_str().to_owned();
    name.push(format!(".blktrace.{cpu}"));
    name.into()
}

impl Exporter for BlktraceExporter {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        let mut names = batch.names.iter().peekable();
        for (index, event) in batch.events.iter().enumerate() {
            while let Some(name) = names.next_if(|name| name.before <= index) {
                self.names.push((name.pid, name.name.clone()));
            }
            let new_names = std::mem::take(&mut self.names);
            let is_first = !std::mem::replace(&mut self.started, true);
            let file = self.file(event.cpu)?;
            let mut write = || {
                if let (true, Some(unix)) = (is_first, info.start_unix_ns) {
                    write_timestamp(file, event, unix)?;
                }
                for (pid, name) in &new_names {
                    write_process(file, event, *pid, name)?;
                }
                write_event(file, event, batch)
            };
            write().map_err(|e| TraceError::io(&file.shown, e))?;
        }
        self.names.extend(names.map(|name| (name.pid, name.name.clone())));
        self.taken += batch.events.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>, _info: &TraceInfo) -> Result<ExportReport> {
        let mut report = ExportReport { taken: self.taken, written: self.taken, ..ExportReport::default() };
        if let Some(&last) = self.files.keys().next_back() {
            // CPUs without events get an empty file, as with blktrace.
            for cpu in 0..last {
                self.file(cpu)?;
            }
        }
        // All files or none: if the disk is full, this fails before the first file gets its name.
        self.files.values_mut().try_for_each(OutputFile::sync)?;
        for file in std::mem::take(&mut self.files).into_values() {
            let committed = file.commit();
            if committed.is_err() {
                report.files.iter().for_each(|name| drop(fs::remove_file(name)));
            }
            let (name, bytes) = committed?;
            report.files.push(name);
            report.bytes += bytes;
        }
        if self.replace && self.layout == BlktraceLayout::PerCpu {
            // Further files of a replaced set that had more CPUs would be read with the new ones.
            let others = (report.files.len() as u16..).map(|cpu| per_cpu(&self.path, cpu));
            others.take_while(|path| path.is_file()).for_each(|path| drop(fs::remove_file(path)));
        }
        Ok(report)
    }
}
