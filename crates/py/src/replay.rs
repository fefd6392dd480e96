//! A trace for the simulator: from a reader's events to the I/Os that are replayed.

use crate::failures::python_error;
use crate::trace::Filter;
use blklab_sim::{Op, ReplayIo};
use blklab_trace::error::TraceError;
use blklab_trace::event::{self, Action, DeviceId, Event, EventBatch, Rwbs};
use blklab_trace::filter::Filter as Wanted;
use blklab_trace::open;
use blklab_trace::process::{ProcessTable, UNNAMED};
use blklab_trace::source::Source;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Which I/Os of a trace: a device's, by number or name, or those that a filter wants.
#[derive(FromPyObject)]
pub enum Chosen {
    /// Those of this device.
    Device(String),
    /// Those that this wants, which must be of one device.
    Filter(Py<Filter>),
}

/// A trace as Python gives it: what to read, its format, and whose I/Os.
pub type Trace = (Vec<String>, Option<String>, Option<Chosen>);

/// What went wrong while the simulator was taking I/Os; it sees the trace end.
pub type Failure = Rc<RefCell<Option<TraceError>>>;

/// The filter that a choice stands for.
pub fn wanted(chosen: Option<&Chosen>) -> Wanted {
    match chosen {
        None => Wanted::default(),
        Some(Chosen::Device(device)) => Wanted { devices: vec![device.clone()], ..Wanted::default() },
        Some(Chosen::Filter(filter)) => filter.get().0.clone(),
    }
}

/// Opens a trace; what fails later is left in `failure`.
pub fn replay(paths: &[String], format: Option<&str>, filter: Wanted, failure: &Failure) -> PyResult<Replay> {
    let source = open::open(paths, format).map_err(python_error)?;
    Ok(Replay {
        source,
        filter,
        device: None,
        processes: ProcessTable::default(),
        batch: EventBatch::default(),
        event: 0,
        name: 0,
        failure: Rc::clone(failure),
    })
}

/// The reads, writes and flushes of one device, in the order in which they were queued; read as they are taken.
pub struct Replay {
    source: Box<dyn Source>,
    filter: Wanted,
    /// The device of the first I/O; there may be no other.
    device: Option<DeviceId>,
    processes: ProcessTable,
    batch: EventBatch,
    /// The batch's next event and next name.
    event: usize,
    name: usize,
    failure: Failure,
}

impl Replay {
    /// The next event, in time order.
    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        while self.event == self.batch.events.len() {
            self.learn(usize::MAX);
            self.batch.clear();
            (self.event, self.name) = (0, 0);
            if !self.source.fill(&mut self.batch)? {
                return Ok(None);
            }
        }
        self.learn(self.event);
        self.event += 1;
        Ok(Some(self.batch.events[self.event - 1]))
    }

    /// Takes note of the processes' names that are known before an event.
    fn learn(&mut self, event: usize) {
        while let Some(name) = self.batch.names.get(self.name).filter(|name| name.before <= event) {
            self.processes.learn(name.pid, &name.name);
            self.name += 1;
        }
    }

    fn io(&mut self) -> Result<Option<ReplayIo>, TraceError> {
        while let Some(event) = self.event()? {
            if event.action != Action::QUEUE || event.rwbs.has(Rwbs::PASSTHROUGH) {
                continue;
            }
            let op = match event.op() {
                event::Op::Flush => Op::Flush,
                event::Op::Read if event.sectors() > 0 => Op::Read,
                event::Op::Write if event.sectors() > 0 => Op::Write,
                _ => continue,
            };
            let process = self.processes.name(event.pid).unwrap_or(UNNAMED);
            if !self.filter.wants_event(&event, process, self.source.info().input_of(&event)) {
                continue;
            }
            let device = *self.device.get_or_insert(event.device);
            if device != event.device {
                return Err(TraceError::Request(format!(
                    "trace: I/Os of the devices {device} and {}: name the one to replay",
                    event.device
                )));
            }
            let bytes = if op == Op::Flush { 0 } else { event.bytes };
            return Ok(Some(ReplayIo { time_ns: event.time, op, sector: event.sector, bytes }));
        }
        Ok(None)
    }
}

impl Iterator for Replay {
    type Item = ReplayIo;

    fn next(&mut self) -> Option<ReplayIo> {
        self.io().unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(error);
            None
        })
    }
}
