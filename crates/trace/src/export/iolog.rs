//! Queued requests as a fio iolog, for `fio --read_iolog`.
//!
//! Devices appear as relative file names (`dev-8-16`, or the trace's own name for it), never as device nodes:
//! whoever replays the log says with fio's `replay_redirect` what it may overwrite.

use super::output::OutputFile;
use super::{Exporter, Report};
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch, Op, Rwbs, SECTOR};
use crate::source::TraceInfo;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Version of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IologVersion {
    /// Without times: replayed as fast as it goes.
    V2,
    /// With times in microseconds (fio 3.33 and later).
    V3,
}

/// An exporter of queueing events to a fio iolog at `path`.
pub fn iolog(path: &Path, version: IologVersion) -> Result<Box<dyn Exporter>> {
    let mut file = OutputFile::create(path)?;
    file.put(match version {
        IologVersion::V2 => b"fio version 2 iolog\n",
        IologVersion::V3 => b"fio version 3 iolog\n",
    })?;
    Ok(Box::new(Iolog {
        file,
        version,
        names: BTreeMap::new(),
        last: (DeviceId(0), String::new()),
        line: Vec::new(),
        time: 1,
        taken: 0,
        written: 0,
    }))
}

struct Iolog {
    file: OutputFile,
    version: IologVersion,
    names: BTreeMap<u32, String>,
    /// The device written last, with its name.
    last: (DeviceId, String),
    line: Vec<u8>,
    /// Time of the line written last, µs. From 1, because fio takes no pause after a line at time 0.
    time: u64,
    taken: u64,
    written: u64,
}

impl Iolog {
    fn put(&mut self, event: &Event, info: &TraceInfo) -> Result<()> {
        let (action, sector, bytes) = match event.op() {
            Op::Flush => ("sync", 0, 0),
            _ if event.bytes == 0 => return Ok(()),
            Op::Read => ("read", event.sector, event.bytes),
            Op::Write => ("write", event.sector, event.bytes),
            Op::Discard => ("trim", event.sector, event.bytes),
        };
        let Some(offset) = sector.checked_mul(SECTOR) else { return Ok(()) };
        self.time = self.time.max((event.time / 1000).saturating_add(1));
        if self.last.0 != event.device || self.last.1.is_empty() {
            self.name(event.device, info)?;
        }
        self.written += 1;
        self.begin();
        // A vector takes every write.
        let _ = write!(self.line, " {action} {offset} {bytes}");
        self.end()
    }

    /// The line's time and file name.
    fn begin(&mut self) {
        self.line.clear();
        if self.version == IologVersion::V3 {
            let _ = write!(self.line, "{} ", self.time);
        }
        self.line.extend_from_slice(self.last.1.as_bytes());
    }

    fn end(&mut self) -> Result<()> {
        self.line.push(b'\n');
        self.file.put(&self.line)
    }

    /// Makes `device` the last; adds and opens its file the first time.
    fn name(&mut self, device: DeviceId, info: &TraceInfo) -> Result<()> {
        self.last.0 = device;
        if let Some(known) = self.names.get(&device.0) {
            self.last.1.clone_from(known);
            return Ok(());
        }
        let given = info.device_names.iter().find(|(number, _)| *number == device.0);
        let mut name = given.map_or_else(|| device.file_name(), |(_, name)| file_name(name));
        if self.names.values().any(|other| *other == name) {
            name = device.file_name();
        }
        self.names.insert(device.0, name.clone());
        self.last.1 = name;
        for action in [" add", " open"] {
            self.begin();
            self.line.extend_from_slice(action.as_bytes());
            self.end()?;
        }
        Ok(())
    }
}

/// A name that fio takes for one word and that stays in the directory where fio runs.
fn file_name(name: &str) -> String {
    let name: String = (name.chars())
        .map(|c| if c.is_whitespace() || c.is_control() || "/\\:".contains(c) { '_' } else { c })
        .take(60)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "device".into() } else { name.into() }
}

impl Exporter for Iolog {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        self.taken += batch.events.len() as u64;
        for event in &batch.events {
            if event.action == Action::QUEUE && !event.rwbs.has(Rwbs::PASSTHROUGH) {
                self.put(event, info)?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, _info: &TraceInfo) -> Result<Report> {
        for name in std::mem::take(&mut self.names).into_values() {
            self.last.1 = name;
            self.begin();
            self.line.extend_from_slice(b" close");
            self.end()?;
        }
        let (name, bytes) = self.file.commit()?;
        Ok(Report { files: vec![name], bytes, taken: self.taken, written: self.written })
    }
}
