//! The simulator for Python, and a trace for it: makes the I/Os to replay of a reader's events.

use crate::trace::Filter;
use crate::{BlklabError, UsageError, python_error};
use blklab_sim::cell::{Cell, Host};
use blklab_sim::{Op, ReplayIo, ReplayIos};
use blklab_trace::error::TraceError;
use blklab_trace::event::{self, Action, DeviceId, Event, EventBatch, Rwbs};
use blklab_trace::filter::Filter as TraceFilter;
use blklab_trace::io;
use blklab_trace::open;
use blklab_trace::process::{ProcessTable, UNNAMED};
use blklab_trace::source::{Capabilities, Source};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Which I/Os of a trace are replayed.
#[derive(FromPyObject)]
pub enum TraceSelection {
    Device(String),     // I/Os of this device, by number or name
    Filter(Py<Filter>), // I/Os that this filter wants; they must be of one device
}

/// A trace from Python: paths, format, and which I/Os.
pub type TraceArguments = (Vec<String>, Option<String>, Option<TraceSelection>);

/// An error while the simulator reads I/Os; for the simulator the trace then ends.
pub type ReplayFailure = Rc<RefCell<Option<TraceError>>>;

pub fn selected_filter(chosen: Option<&TraceSelection>) -> TraceFilter {
    match chosen {
        None => TraceFilter::default(),
        Some(TraceSelection::Device(device)) => TraceFilter { devices: vec![device.clone()], ..TraceFilter::default() },
        Some(TraceSelection::Filter(filter)) => filter.get().0.clone(),
    }
}

/// Opens a trace; later errors are stored in `failure`.
pub fn open_replay(
    paths: &[String], format: Option<&str>, filter: TraceFilter, completions: bool, failure: &ReplayFailure,
) -> PyResult<DeviceReplay> {
    let source = open::open(paths, format).map_err(python_error)?;
    Ok(DeviceReplay {
        source,
        wants_all: filter.is_open(),
        filter,
        completions,
        device: None,
        processes: ProcessTable::default(),
        batch: EventBatch::default(),
        event: 0,
        name: 0,
        failure: Rc::clone(failure),
    })
}

/// The reads, writes and flushes of one device, in the order in which they were queued; read on demand.
pub struct DeviceReplay {
    source: Box<dyn Source>,
    filter: TraceFilter,
    wants_all: bool,          // Whether the filter wants all I/Os
    completions: bool,        // Whether completions are selected as well
    device: Option<DeviceId>, // The device of the first I/O; other devices are an error
    processes: ProcessTable,
    batch: EventBatch,
    event: usize, // The batch's next event and next name
    name: usize,
    failure: ReplayFailure,
}

impl DeviceReplay {
    /// Learns the names of processes that are known before an event.
    fn learn_names(&mut self, event: usize) {
        while let Some(name) = self.batch.names.get(self.name).filter(|name| name.before <= event) {
            self.processes.learn(name.pid, &name.name);
            self.name += 1;
        }
    }

    /// The next I/O that the filter wants, as the event that queued it: a read, write, discard or flush.
    pub fn next_selected(&mut self) -> Result<Option<&Event>, TraceError> {
        loop {
            if self.event == self.batch.events.len() {
                self.learn_names(usize::MAX);
                self.batch.clear();
                (self.event, self.name) = (0, 0);
                if !self.source.fill(&mut self.batch)? {
                    return Ok(None);
                }
                continue;
            }
            self.learn_names(self.event);
            let event = &self.batch.events[self.event];
            self.event += 1;
            let has_sectors = event.op() == event::Op::Flush || event.sectors() > 0;
            let wanted = event.action == Action::QUEUE || (self.completions && event.action == Action::COMPLETE);
            if !wanted || event.rwbs.has(Rwbs::PASSTHROUGH) || !has_sectors {
                continue;
            }
            if !self.wants_all {
                let process = self.processes.name(event.pid).unwrap_or(UNNAMED);
                if !self.filter.wants_event(event, process, self.source.info()) {
                    continue;
                }
            }
            let device = *self.device.get_or_insert(event.device);
            if device != event.device {
                return Err(TraceError::Request(format!(
                    "trace: I/Os of the devices {device} and {}: choose one (--device, or `device` in an experiment)",
                    event.device
                )));
            }
            return Ok(self.batch.events.get(self.event - 1));
        }
    }

    /// The size of the device in bytes, if the recording has it. blktrace gives the sectors of a partition on its disk.
    pub fn device_bytes(&self) -> Option<u64> {
        let number = self.device?.to_string().replace(',', ":");
        let stack = &self.source.info().stack;
        stack.iter().find(|layer| layer.number == number && layer.kind != "partition")?.bytes
    }

    /// What the trace contains.
    pub fn capabilities(&self) -> Capabilities {
        self.source.info().capabilities
    }

    fn next_io(&mut self) -> Result<Option<ReplayIo>, TraceError> {
        while let Some(event) = self.next_selected()? {
            let op = match event.op() {
                event::Op::Flush => Op::Flush,
                event::Op::Read => Op::Read,
                event::Op::Write => Op::Write,
                _ => continue,
            };
            let bytes = if op == Op::Flush { 0 } else { event.bytes };
            let waited = io::background(event.rwbs, event.bytes, false).is_none();
            return Ok(Some(ReplayIo { time_ns: event.time, op, sector: event.sector, bytes, waited }));
        }
        Ok(None)
    }
}

impl Iterator for DeviceReplay {
    type Item = ReplayIo;

    fn next(&mut self) -> Option<ReplayIo> {
        self.next_io().unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(error);
            None
        })
    }
}

/// A trace: paths, format, filter, and its files as `open::stamp` sees them.
type Selected = (Vec<String>, Option<String>, TraceFilter, Vec<(PathBuf, u64, SystemTime)>);

/// The first I/Os of a trace.
struct KnownIos {
    of: Option<Selected>, // `None`: they must not be used again
    ios: Vec<ReplayIo>,
    complete: bool, // Whether the trace has no others
}

const MOST_KNOWN: usize = 1 << 20; // 32 MiB of memory

/// What an earlier simulation has read of a trace: a search simulates hundreds of arrays with the same I/Os.
static KNOWN: Mutex<Option<Arc<KnownIos>>> = Mutex::new(None);

/// The I/Os of a trace: first those that are known, then those of the files.
struct SharedReplay {
    known: Arc<KnownIos>,
    at: usize,                    // I/Os returned
    opened: Option<DeviceReplay>, // `None` if all are known
    read: Vec<ReplayIo>,          // I/Os after those that are known
    complete: bool,
    failure: ReplayFailure,
}

impl SharedReplay {
    fn open(trace: (Vec<String>, Option<String>, TraceFilter), failure: &ReplayFailure) -> PyResult<SharedReplay> {
        let (paths, format, filter) = trace;
        let of = open::stamp(&paths).map(|files| (paths.clone(), format.clone(), filter.clone(), files));
        let last = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let same = last.filter(|known| of.is_some() && known.of == of);
        let known = same.unwrap_or_else(|| Arc::new(KnownIos { of, ios: Vec::new(), complete: false }));
        let open = || open_replay(&paths, format.as_deref(), filter, false, failure);
        let opened = (!known.complete).then(open).transpose()?;
        Ok(SharedReplay { known, at: 0, opened, read: Vec::new(), complete: false, failure: Rc::clone(failure) })
    }

    fn read_next(&mut self) -> Option<ReplayIo> {
        let skipped = if self.at == self.known.ios.len() { self.at } else { 0 };
        let io = self.opened.as_mut()?.nth(skipped);
        if io.is_none() {
            let all = self.known.ios.len() + self.read.len() == self.at;
            self.complete = all && self.failure.borrow().is_none();
        } else if self.at < MOST_KNOWN {
            self.read.extend(io);
        }
        io
    }
}

impl Iterator for SharedReplay {
    type Item = ReplayIo;

    fn next(&mut self) -> Option<ReplayIo> {
        let io = self.known.ios.get(self.at).copied().or_else(|| self.read_next())?;
        self.at += 1;
        Some(io)
    }
}

impl Drop for SharedReplay {
    /// Keeps what was read for the next simulation.
    fn drop(&mut self) {
        if self.known.of.is_none() || (self.read.is_empty() && !self.complete) {
            return;
        }
        let ios = [self.known.ios.as_slice(), &self.read].concat();
        let mut last = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.of != self.known.of || last.ios.len() <= ios.len()) {
            *last = Some(Arc::new(KnownIos { of: self.known.of.clone(), ios, complete: self.complete }));
        }
    }
}

/// Ends simulations that run in other threads.
#[pyclass(frozen)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop(Arc::default())
    }

    /// Ends every simulation that uses this.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work must end.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns what a cell without `host` has there, as JSON text.
#[pyfunction]
pub fn default_host() -> PyResult<String> {
    serde_json::to_string(&Host::default()).map_err(|e| BlklabError::new_err(e.to_string()))
}

/// Checks one cell, given as JSON text, without simulating it: raises `UsageError` for an impossible cell.
#[pyfunction]
pub fn check_cell(py: Python<'_>, cell: &str) -> PyResult<()> {
    let cell: Cell = serde_json::from_str(cell).map_err(|e| UsageError::new_err(format!("cell: {e}")))?;
    py.detach(|| blklab_sim::check_cell(&cell)).map_err(|e| UsageError::new_err(e.to_string()))
}

/// Returns what a simulation depends on of a kernel.
#[pyfunction]
pub fn kernel_changes(release: &str) -> String {
    blklab_sim::kernel_changes(release)
}

/// Simulates one cell, given as JSON text, and returns the outcome as JSON text.
///
/// `trace` is the trace that a cell with `replay` replays: paths, format, and device or filter. Its reads, writes and
/// flushes count from when they were queued; discards and I/Os without sectors are skipped. Other Python threads run
/// meanwhile.
#[pyfunction]
#[pyo3(signature = (cell, stop=None, trace=None))]
pub fn simulate(py: Python<'_>, cell: &str, stop: Option<&Stop>, trace: Option<TraceArguments>) -> PyResult<String> {
    let stop = stop.map(|s| Arc::clone(&s.0)).unwrap_or_default();
    let trace = trace.map(|(paths, format, chosen)| (paths, format, selected_filter(chosen.as_ref())));
    py.detach(|| {
        let cell: Cell = serde_json::from_str(cell).map_err(|e| UsageError::new_err(format!("cell: {e}")))?;
        let failure = ReplayFailure::default();
        let ios =
            trace.map(|trace| SharedReplay::open(trace, &failure)).transpose()?.map(|ios| Box::new(ios) as ReplayIos);
        let outcome = blklab_sim::run_until(&cell, ios, &|| stop.load(Ordering::Relaxed));
        if let Some(error) = failure.take() {
            return Err(python_error(error));
        }
        let Some(outcome) = outcome.map_err(|e| UsageError::new_err(e.to_string()))? else {
            return Err(BlklabError::new_err("the simulation was stopped"));
        };
        serde_json::to_string(&outcome).map_err(|e| BlklabError::new_err(e.to_string()))
    })
}

/// Computes how likely data are lost, from a `LossQuestion` as JSON text (crates/sim/src/loss.rs). Other Python threads
/// run meanwhile.
#[pyfunction]
pub fn loss_probabilities(py: Python<'_>, question: &str) -> PyResult<Vec<[f64; 4]>> {
    let question = serde_json::from_str(question).map_err(|e| UsageError::new_err(format!("loss: {e}")))?;
    Ok(py.detach(|| blklab_sim::loss::loss_probabilities(&question)))
}
