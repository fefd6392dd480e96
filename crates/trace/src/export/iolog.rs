//! Queued requests as a fio iolog, for `fio --read_iolog`.
//!
//! Devices appear as relative file names (`dev-8-16`, or the trace's own name for it), never as device nodes: with
//! fio's `replay_redirect` users choose what fio can overwrite.

use super::OutputFile;
use super::{ExportReport, Exporter};
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch, Op, Rwbs, SECTOR, StartAction};
use crate::source::TraceInfo;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Version of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IologVersion {
    V2, // Without times: replayed as fast as possible
    V3, // With times in microseconds (fio 3.33 and later)
}

/// An exporter of queueing events to a fio iolog at `path`.
pub fn iolog(path: &Path, version: IologVersion) -> Result<Box<dyn Exporter>> {
    let mut file = OutputFile::create(path)?;
    file.put(match version {
        IologVersion::V2 => b"fio version 2 iolog\n",
        IologVersion::V3 => b"fio version 3 iolog\n",
    })?;
    Ok(Box::new(IologExporter {
        file,
        version,
        names: BTreeMap::new(),
        last: (DeviceId(0), String::new()),
        time: 1,
        taken: 0,
        written: 0,
        start: None,
        held: Vec::new(),
        requeued: HashSet::new(),
    }))
}

struct IologExporter {
    file: OutputFile,
    version: IologVersion,
    names: BTreeMap<u32, String>,
    last: (DeviceId, String), // The selected device and its name
    time: u64, // Time of the last written line, µs. It begins at 1, because fio does not pause after a line at time 0.
    taken: u64,
    written: u64,
    start: Option<StartAction>, // With which events I/Os begin; `None` until enough events are in `held`
    held: Vec<Event>,
    requeued: HashSet<(u32, u64)>, // Requests that the driver gave back: their next D begins no I/O
}

impl IologExporter {
    /// Writes the events that begin I/Os, as soon as the events show which do.
    fn put_events(&mut self, events: &[Event], info: &TraceInfo, ended: bool) -> Result<()> {
        if self.start.is_none() {
            self.held.extend_from_slice(events);
            self.start = StartAction::of(&self.held, ended);
            let held = if self.start.is_some() { std::mem::take(&mut self.held) } else { Vec::new() };
            return held.iter().try_for_each(|event| self.put_event_if_start(event, info));
        }
        events.iter().try_for_each(|event| self.put_event_if_start(event, info))
    }

    fn put_event_if_start(&mut self, event: &Event, info: &TraceInfo) -> Result<()> {
        let start = self.start.unwrap_or_default();
        let request = (event.device.0, event.sector);
        if event.action == Action::REQUEUE && start == StartAction::D {
            self.requeued.insert(request);
        }
        if event.action != start.action()
            || event.rwbs.has(Rwbs::PASSTHROUGH)
            || (start == StartAction::D && self.requeued.remove(&request))
        {
            return Ok(());
        }
        self.put_event(event, info)
    }

    fn put_event(&mut self, event: &Event, info: &TraceInfo) -> Result<()> {
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
            self.select_device(event.device, info)?;
        }
        self.written += 1;
        self.put_line(&format!("{action} {offset} {bytes}"))
    }

    /// Writes a line about the selected device.
    fn put_line(&mut self, action: &str) -> Result<()> {
        let name = &self.last.1;
        let line = match self.version {
            IologVersion::V2 => format!("{name} {action}\n"),
            IologVersion::V3 => format!("{} {name} {action}\n", self.time),
        };
        self.file.put(line.as_bytes())
    }

    /// Selects the device of the next lines; adds and opens its file the first time.
    fn select_device(&mut self, device: DeviceId, info: &TraceInfo) -> Result<()> {
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
        self.put_line("add")?;
        self.put_line("open")
    }
}

/// A name that fio reads as one word, and that stays in the directory where fio runs.
fn file_name(name: &str) -> String {
    let name: String = (name.chars())
        .map(|c| if c.is_whitespace() || c.is_control() || "/\\:".contains(c) { '_' } else { c })
        .take(60)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "device".into() } else { name.into() }
}

impl Exporter for IologExporter {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        self.taken += batch.events.len() as u64;
        self.put_events(&batch.events, info, false)
    }

    fn finish(mut self: Box<Self>, info: &TraceInfo) -> Result<ExportReport> {
        self.put_events(&[], info, true)?;
        if self.written == 0 {
            return Err(info.nothing_selected());
        }
        for name in std::mem::take(&mut self.names).into_values() {
            self.last.1 = name;
            self.put_line("close")?;
        }
        let (name, bytes) = self.file.commit()?;
        Ok(ExportReport { files: vec![name], bytes, taken: self.taken, written: self.written })
    }
}
