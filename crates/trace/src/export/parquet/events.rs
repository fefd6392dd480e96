//! Events as Parquet.

use super::columns::{Column, Longs, MaybeBytes, MaybeLongs, MaybeWords, Names, Words};
use super::{GROUP, ParquetFile};
use crate::error::Result;
use crate::event::{Action, Event, EventBatch};
use crate::export::{Exporter, Report};
use crate::source::TraceInfo;
use std::path::Path;

/// Columns of the events' table.
const SCHEMA: &str = "message events {
    required int64 time_ns (integer(64, false));
    required int32 device (integer(32, false));
    required int32 cpu (integer(16, false));
    required int32 seq (integer(32, false));
    required int32 pid (integer(32, false));
    required int32 action (integer(8, false));
    required int32 rwbs (integer(16, false));
    required int64 sector (integer(64, false));
    required int32 bytes (integer(32, false));
    required int32 error (integer(16, true));
    optional int32 remap_device (integer(32, false));
    optional int64 remap_sector (integer(64, false));
    optional binary process (string);
    optional int32 remap_target (integer(32, false));
    optional binary payload;
}";

const PACKED: [&str; 2] = ["time_ns", "seq"];

/// An exporter of events to a Parquet file at `path`.
///
/// `remap_device` and `remap_sector` are where a remapped request came from; of a split, `remap_sector` is
/// where the second part starts, of an unplug how many requests went. `remap_target` is the disk, where the
/// device is a partition of it. `payload` is a passthrough command or a message's text.
pub fn parquet_events(path: &Path) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(Events {
        file: ParquetFile::create(path, SCHEMA, &PACKED)?,
        columns: Columns::default(),
        rows: 0,
        taken: 0,
    }))
}

struct Events {
    file: ParquetFile,
    columns: Columns,
    rows: usize,
    taken: u64,
}

#[derive(Default)]
struct Columns {
    time: Longs,
    device: Words,
    cpu: Words,
    seq: Words,
    pid: Words,
    action: Words,
    rwbs: Words,
    sector: Longs,
    bytes: Words,
    error: Words,
    remap_device: MaybeWords,
    remap_sector: MaybeLongs,
    process: Names,
    remap_target: MaybeWords,
    payload: MaybeBytes,
}

impl Columns {
    /// In the schema's order.
    fn all(&mut self) -> [&mut dyn Column; 15] {
        [
            &mut self.time,
            &mut self.device,
            &mut self.cpu,
            &mut self.seq,
            &mut self.pid,
            &mut self.action,
            &mut self.rwbs,
            &mut self.sector,
            &mut self.bytes,
            &mut self.error,
            &mut self.remap_device,
            &mut self.remap_sector,
            &mut self.process,
            &mut self.remap_target,
            &mut self.payload,
        ]
    }

    #[inline]
    fn push(&mut self, event: &Event, payload: &[u8]) {
        self.time.push(event.time);
        self.device.push(event.device.0);
        self.cpu.push(u32::from(event.cpu));
        self.seq.push(event.sequence);
        self.pid.push(event.pid);
        self.action.push(u32::from(event.action.0));
        self.rwbs.push(u32::from(event.rwbs.0));
        self.sector.push(event.sector);
        self.bytes.push(event.bytes);
        self.error.push_signed(event.error as i16);
        let is_remap = event.action == Action::REMAP;
        let has_sector =
            matches!(event.action, Action::REMAP | Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER);
        self.remap_device.push(is_remap.then_some(event.arg_device.0));
        self.remap_sector.push(has_sector.then_some(event.arg_sector));
        self.process.push(event.pid);
        let is_elsewhere = is_remap && event.target_device != event.device;
        self.remap_target.push(is_elsewhere.then_some(event.target_device.0));
        self.payload.push(payload);
    }
}

impl Exporter for Events {
    fn write(&mut self, batch: &EventBatch, _info: &TraceInfo) -> Result<()> {
        let mut names = batch.names.iter().peekable();
        for (index, event) in batch.events.iter().enumerate() {
            while let Some(name) = names.next_if(|name| name.before <= index) {
                self.columns.process.learn(name.pid, &name.name);
            }
            self.columns.push(event, batch.pdu_of(event));
            self.file.input_of.learn(event);
            self.rows += 1;
            if self.rows == GROUP {
                self.rows = 0;
                self.file.write_group(&mut self.columns.all())?;
            }
        }
        for name in names {
            self.columns.process.learn(name.pid, &name.name);
        }
        self.taken += batch.events.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>, info: &TraceInfo) -> Result<Report> {
        if self.rows > 0 {
            self.file.write_group(&mut self.columns.all())?;
        }
        let (name, bytes) = self.file.finish(info)?;
        Ok(Report { files: vec![name], bytes, taken: self.taken, written: self.taken })
    }
}
