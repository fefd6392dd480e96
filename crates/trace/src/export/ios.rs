//! Exports I/Os: pairs events and writes the I/Os to Parquet.

use super::{ExportReport, Exporter, ParquetIos};
use crate::characterise::remaps::Remaps;
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch};
use crate::filter::Filter;
use crate::io::Io;
use crate::pair::{BioOrigin, Pairer};
use crate::process::{ProcessTable, UNNAMED};
use crate::source::TraceInfo;
use std::path::Path;

/// An exporter of the I/Os that `filter` wants, in the order in which they end.
pub fn parquet_ios(path: &Path, filter: Filter) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(IoExporter {
        out: ParquetIos::create(path)?,
        filter,
        pairers: Vec::new(),
        remaps: Remaps::default(),
        processes: ProcessTable::default(),
        done: Vec::new(),
    }))
}

struct DevicePairer {
    device: DeviceId,
    wanted: bool,
    pairer: Pairer,
}

struct IoExporter {
    out: ParquetIos,
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
        self.out.write(&self.done)?;
        self.done.clear();
        Ok(())
    }
}

impl Exporter for IoExporter {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        self.out.learn(batch);
        batch.names.iter().for_each(|name| self.processes.learn(name.pid, &name.name));
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
        if self.out.is_empty() {
            return Err(info.nothing_selected());
        }
        self.out.finish(info)
    }
}
