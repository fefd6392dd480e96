//! I/Os as Parquet: pairs events and writes the I/Os.

use super::ParquetFile;
use super::columns::{Column, Columns, Int32Column, Int64Column, OptionalInt64Column, ProcessNameColumn, columns};
use crate::characterise::remaps::Remaps;
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch};
use crate::export::{ExportReport, Exporter};
use crate::filter::Filter;
use crate::io::{Io, NEVER};
use crate::pair::{BioOrigin, Pairer};
use crate::process::{ProcessTable, UNNAMED};
use crate::source::TraceInfo;
use std::path::Path;

const PACKED: [&str; 4] = ["t_queue", "t_insert", "t_dispatch", "t_complete"];

/// An exporter of the I/Os that `filter` wants, in the order in which they end.
pub fn parquet_ios(path: &Path, filter: Filter) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(IoExporter {
        out: ParquetFile::create(path, &PACKED)?,
        filter,
        pairers: Vec::new(),
        remaps: Remaps::default(),
        processes: ProcessTable::default(),
        done: Vec::new(),
    }))
}

columns! {
    IoColumns "ios":
    device: Int32Column = "required int32" "(integer(32, false))",
    sector: Int64Column = "required int64" "(integer(64, false))",
    bytes: Int32Column = "required int32" "(integer(32, false))",
    rwbs: Int32Column = "required int32" "(integer(16, false))",
    process: ProcessNameColumn = "optional binary" "(string)",
    t_queue: OptionalInt64Column = "optional int64" "(integer(64, false))",
    t_insert: OptionalInt64Column = "optional int64" "(integer(64, false))",
    t_dispatch: OptionalInt64Column = "optional int64" "(integer(64, false))",
    t_complete: OptionalInt64Column = "optional int64" "(integer(64, false))",
    error: Int32Column = "required int32" "(integer(16, true))",
}

impl IoColumns {
    fn push(&mut self, io: &Io) {
        let seen = |time: u64| (time != NEVER).then_some(time as i64);
        self.device.push(io.device.0 as i32);
        self.sector.push(io.sector as i64);
        self.bytes.push(io.bytes as i32);
        self.rwbs.push(i32::from(io.rwbs.0));
        self.process.push(io.pid);
        self.t_queue.push(seen(io.t_queue));
        self.t_insert.push(seen(io.t_insert));
        self.t_dispatch.push(seen(io.t_dispatch));
        self.t_complete.push(seen(io.t_complete));
        self.error.push(i32::from(io.error as i16));
    }
}

struct DevicePairer {
    device: DeviceId,
    wanted: bool,
    pairer: Pairer,
}

struct IoExporter {
    out: ParquetFile<IoColumns>,
    filter: Filter,
    pairers: Vec<DevicePairer>,
    remaps: Remaps,
    processes: ProcessTable,
    done: Vec<Io>,
}

impl IoExporter {
    fn pairer_index(&mut self, event: &Event, info: &TraceInfo) -> usize {
        let device = event.device;
        match self.pairers.iter().position(|pairer| pairer.device == device) {
            Some(at) => at,
            None => {
                let wanted = self.filter.wants_device(device, event.input, info);
                self.pairers.push(DevicePairer { device, wanted, pairer: Pairer::default() });
                self.pairers.len() - 1
            }
        }
    }

    /// Writes the I/Os of a device that have ended.
    fn write_done(&mut self, at: usize) -> Result<()> {
        let (filter, processes, wanted) = (&self.filter, &self.processes, self.pairers[at].wanted);
        self.done.retain(|io| {
            wanted && filter.wants_io(io) && filter.wants_process(io.pid, processes.name(io.pid).unwrap_or(UNNAMED))
        });
        for io in self.done.drain(..) {
            self.out.columns.push(&io);
            self.out.end_row()?;
        }
        Ok(())
    }
}

impl Exporter for IoExporter {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        batch.events.iter().for_each(|event| self.out.input_of.learn(event));
        for name in &batch.names {
            self.processes.learn(name.pid, &name.name);
            self.out.columns.process.learn(name.pid, &name.name);
        }
        for event in &batch.events {
            let at = self.pairer_index(event, info);
            let source = match event.action {
                Action::REMAP => {
                    self.remaps.remap(event);
                    continue;
                }
                Action::QUEUE => self.remaps.source_of(event),
                _ => DeviceId(0),
            };
            self.pairers[at].pairer.add_event(event, BioOrigin { source, process: 0 }, &mut self.done);
            if !self.done.is_empty() {
                self.write_done(at)?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, info: &TraceInfo) -> Result<ExportReport> {
        for at in 0..self.pairers.len() {
            self.pairers[at].pairer.finish(&mut self.done);
            self.write_done(at)?;
        }
        if self.out.rows == 0 {
            return Err(info.nothing_selected());
        }
        self.out.complete(info)
    }
}
