//! Events as Parquet.

use super::ParquetFile;
use super::columns::{
    Column, Columns, Int32Column, Int64Column, OptionalBytesColumn, OptionalInt32Column, OptionalInt64Column,
    ProcessNameColumn, columns,
};
use crate::error::Result;
use crate::event::{Action, Event, EventBatch};
use crate::export::{ExportReport, Exporter};
use crate::source::TraceInfo;
use std::path::Path;

/// An exporter of events to a Parquet file at `path`.
///
/// `remap_device` and `remap_sector` are the source of a remapped request. `remap_sector` of a split is the start of
/// its second part, of an unplug the number of requests. `remap_target` is the disk, if the device is a partition of
/// it. `payload` is a passthrough command or a message's text.
pub fn parquet_events(path: &Path) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(ParquetFile::<EventColumns>::create(path, &["time_ns", "seq"])?))
}

columns! {
    EventColumns "events":
    time_ns: Int64Column = "required int64" "(integer(64, false))",
    device: Int32Column = "required int32" "(integer(32, false))",
    cpu: Int32Column = "required int32" "(integer(16, false))",
    seq: Int32Column = "required int32" "(integer(32, false))",
    pid: Int32Column = "required int32" "(integer(32, false))",
    action: Int32Column = "required int32" "(integer(8, false))",
    rwbs: Int32Column = "required int32" "(integer(16, false))",
    sector: Int64Column = "required int64" "(integer(64, false))",
    bytes: Int32Column = "required int32" "(integer(32, false))",
    error: Int32Column = "required int32" "(integer(16, true))",
    remap_device: OptionalInt32Column = "optional int32" "(integer(32, false))",
    remap_sector: OptionalInt64Column = "optional int64" "(integer(64, false))",
    process: ProcessNameColumn = "optional binary" "(string)",
    remap_target: OptionalInt32Column = "optional int32" "(integer(32, false))",
    payload: OptionalBytesColumn = "optional binary" "",
}

impl EventColumns {
    fn push(&mut self, event: &Event, payload: &[u8]) {
        self.time_ns.push(event.time as i64);
        self.device.push(event.device.0 as i32);
        self.cpu.push(i32::from(event.cpu));
        self.seq.push(event.sequence as i32);
        self.pid.push(event.pid as i32);
        self.action.push(i32::from(event.action.0));
        self.rwbs.push(i32::from(event.rwbs.0));
        self.sector.push(event.sector as i64);
        self.bytes.push(event.bytes as i32);
        self.error.push(i32::from(event.error as i16));
        let is_remap = event.action == Action::REMAP;
        let has_sector = matches!(event.action, Action::REMAP | Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER);
        self.remap_device.push(is_remap.then_some(event.arg_device.0 as i32));
        self.remap_sector.push(has_sector.then_some(event.arg_sector as i64));
        self.process.push(event.pid);
        let is_elsewhere = is_remap && event.target_device != event.device;
        self.remap_target.push(is_elsewhere.then_some(event.target_device.0 as i32));
        self.payload.push((!payload.is_empty()).then(|| payload.to_vec().into()));
    }
}

impl Exporter for ParquetFile<EventColumns> {
    fn write(&mut self, batch: &EventBatch, _info: &TraceInfo) -> Result<()> {
        let mut names = batch.names.iter().peekable();
        for (index, event) in batch.events.iter().enumerate() {
            while let Some(name) = names.next_if(|name| name.before <= index) {
                self.columns.process.learn(name.pid, &name.name);
            }
            self.columns.push(event, batch.pdu_of(event));
            self.input_of.learn(event);
            self.end_row()?;
        }
        for name in names {
            self.columns.process.learn(name.pid, &name.name);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, info: &TraceInfo) -> Result<ExportReport> {
        self.complete(info)
    }
}
