//! Events in, I/Os out: pairs on the way to Parquet.

use super::{Exporter, ParquetIos, Report};
use crate::characterise::remaps::Remaps;
use crate::error::Result;
use crate::event::{Action, DeviceId, EventBatch};
use crate::filter::Filter;
use crate::io::Io;
use crate::pair::{Origin, Pairer};
use crate::process::{ProcessTable, UNNAMED};
use crate::source::TraceInfo;
use std::path::Path;

/// An exporter of the I/Os that `filter` wants, in the order in which they end.
pub fn parquet_ios(path: &Path, filter: Filter) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(IoExporter {
        out: ParquetIos::create(path)?,
        filter,
        lanes: Vec::new(),
        remaps: Remaps::default(),
        processes: ProcessTable::default(),
        done: Vec::new(),
    }))
}

struct Lane {
    device: DeviceId,
    wanted: bool,
    pairer: Pairer,
}

struct IoExporter {
    out: ParquetIos,
    filter: Filter,
    lanes: Vec<Lane>,
    remaps: Remaps,
    processes: ProcessTable,
    done: Vec<Io>,
}

impl IoExporter {
    fn lane(&mut self, device: DeviceId, input: &str) -> usize {
        match self.lanes.iter().position(|lane| lane.device == device) {
            Some(at) => at,
            None => {
                let wanted = self.filter.wants_device(device, input);
                self.lanes.push(Lane { device, wanted, pairer: Pairer::default() });
                self.lanes.len() - 1
            }
        }
    }

    /// Writes the I/Os that have ended on a device.
    fn hand_on(&mut self, at: usize) -> Result<()> {
        let (filter, processes, wanted) = (&self.filter, &self.processes, self.lanes[at].wanted);
        self.done.retain(|io| {
            wanted
                && filter.wants_io(io)
                && filter.wants_process(io.pid, processes.name(io.pid).unwrap_or(UNNAMED))
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
            let input = info.input_of(event);
            let at = self.lane(event.device, input);
            let source = match event.action {
                Action::REMAP => {
                    self.remaps.remap(event);
                    continue;
                }
                Action::QUEUE => self.remaps.source_of(event),
                _ => DeviceId(0),
            };
            self.lanes[at].pairer.event(event, Origin { source, process: 0 }, &mut self.done);
            if !self.done.is_empty() {
                self.hand_on(at)?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, info: &TraceInfo) -> Result<Report> {
        for at in 0..self.lanes.len() {
            self.lanes[at].pairer.finish(&mut self.done);
            self.hand_on(at)?;
        }
        self.out.finish(info)
    }
}
