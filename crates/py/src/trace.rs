//! Traces for Python.

use crate::{UsageError, python_error};
use blklab_trace::blkparse::print::{PrintStyle, TerminalOutput, print};
use blklab_trace::blktrace::stream::{EventBlock, RecordStream};
use blklab_trace::characterise::files::Filesystem;
use blklab_trace::characterise::{Characterisation, Options};
use blklab_trace::event::EventBatch;
use blklab_trace::export::{TARGETS, find_target};
use blklab_trace::live::LiveWindow;
use blklab_trace::source::Source;
use blklab_trace::{characterise as characterising, export, filter, open};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Which events and I/Os count; by default all.
///
/// `devices`: `major,minor`, `major:minor` or an input's name. `processes`: names, patterns or pids. `ops`: `read`, `write`,
/// `discard`, `flush`. Times are ns since the trace began; `until_ns` is the first that does not count.
/// `since_clock_ns` and `until_clock_ns` are ns since 1970 (UTC), or since midnight if less than a day. Sectors and
/// bytes are inclusive ranges.
#[pyclass(frozen, module = "blklab._core")]
pub struct Filter(pub(crate) filter::Filter);

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (*, devices=Vec::new(), processes=Vec::new(), ops=Vec::new(), since_ns=None, until_ns=None, since_clock_ns=None,
        until_clock_ns=None, sectors=(None, None), sizes=(None, None), min_latency_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        devices: Vec<String>, processes: Vec<String>, ops: Vec<String>, since_ns: Option<u64>, until_ns: Option<u64>,
        since_clock_ns: Option<u64>, until_clock_ns: Option<u64>, sectors: (Option<u64>, Option<u64>),
        sizes: (Option<u32>, Option<u32>), min_latency_ns: Option<u64>,
    ) -> Filter {
        let ((first_sector, last_sector), (min_bytes, max_bytes)) = (sectors, sizes);
        Filter(filter::Filter {
            devices,
            processes,
            ops,
            since_ns,
            until_ns,
            first_sector,
            last_sector,
            min_bytes,
            max_bytes,
            min_latency_ns,
            since_clock_ns,
            until_clock_ns,
        })
    }

    /// The arguments that make it again: it can be sent to another process.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((), Bound<'py, PyDict>)> {
        let filter = &self.0;
        let arguments = PyDict::new(py);
        arguments.set_item("devices", &filter.devices)?;
        arguments.set_item("processes", &filter.processes)?;
        arguments.set_item("ops", &filter.ops)?;
        arguments.set_item("since_ns", filter.since_ns)?;
        arguments.set_item("until_ns", filter.until_ns)?;
        arguments.set_item("since_clock_ns", filter.since_clock_ns)?;
        arguments.set_item("until_clock_ns", filter.until_clock_ns)?;
        arguments.set_item("sectors", (filter.first_sector, filter.last_sector))?;
        arguments.set_item("sizes", (filter.min_bytes, filter.max_bytes))?;
        arguments.set_item("min_latency_ns", filter.min_latency_ns)?;
        Ok(((), arguments))
    }
}

/// Opens a trace and relates the filter to it.
fn open_selected(paths: &[String], format: Option<&str>, filter: &mut filter::Filter) -> PyResult<Box<dyn Source>> {
    let source = open::open(paths, format).map_err(python_error)?;
    filter::select(source, filter).map_err(python_error)
}

/// Whether the first events of a trace at this path can be read.
#[pyfunction]
pub fn is_trace(path: String) -> bool {
    open::open(&[path], None).is_ok_and(|mut source| source.fill(&mut EventBatch::default()).is_ok())
}

type Warnings = Vec<(String, String)>; // (path, message)
type FilesystemParts = (String, Vec<String>, Vec<(String, bool)>, Vec<(u64, u64, u32)>);

/// Reads a trace and characterises its workload; returns the profile as JSON text.
///
/// `filesystem`: mount point, names of its device, owners and extents (see `Filesystem`). `in_full`: see `Options`. `tick`
/// is called now and then with the bytes read so far, and `trim` with 0 when the memory of the statistics is free.
#[pyfunction]
#[pyo3(signature = (paths, filter, *, format=None, exact_blocks=None, filesystem=None, in_full=None, threads=1, tick=None,
    trim=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub fn characterise(
    py: Python<'_>, paths: Vec<String>, filter: &Filter, format: Option<String>, exact_blocks: Option<usize>,
    filesystem: Option<FilesystemParts>, in_full: Option<(usize, usize)>, threads: usize, tick: Option<Py<PyAny>>,
    trim: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut filter = filter.0.clone();
    let filesystem =
        filesystem.map(|(mount, devices, owners, extents)| Filesystem::new(mount, devices, owners, extents));
    py.detach(|| {
        let mut source = open_selected(&paths, format.as_deref(), &mut filter)?;
        let mut ticker = Ticker::new(tick);
        let tick = &mut |bytes| ticker.tick(bytes);
        let options = Options { exact_blocks, filesystem, in_full, ..Options::default() };
        let profile = characterising::characterise(&mut *source, filter, options, threads, tick);
        ticker.finish()?;
        trim.map_or(Ok(()), |trim| Python::attach(|py| trim.call1(py, (0,)).map(drop)))?;
        serde_json::to_string(&profile.map_err(python_error)?).map_err(|e| UsageError::new_err(e.to_string()))
    })
}

/// All statistics of a trace, which can be merged, and sent to other processes as bytes.
#[pyclass(frozen, module = "blklab._core")]
pub struct PartialProfile(Mutex<Option<Characterisation>>); // None once it was merged into another one

impl PartialProfile {
    fn holding(whole: Characterisation) -> PartialProfile {
        PartialProfile(Mutex::new(Some(whole)))
    }

    fn take(&self) -> PyResult<Characterisation> {
        self.0.lock().ok().and_then(|mut held| held.take()).ok_or_else(|| UsageError::new_err(MERGED))
    }

    /// Calls `read` without Python's lock.
    fn with<T: Send>(
        &self, py: Python<'_>, read: impl FnOnce(&mut Characterisation) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let mut read = Some(read);
        let call = || self.0.lock().ok().and_then(|mut held| Some((read.take()?)(held.as_mut()?)));
        py.detach(call).unwrap_or_else(|| Err(UsageError::new_err(MERGED)))
    }
}

const MERGED: &str = "partial profile: it was merged into another one";

#[pymethods]
impl PartialProfile {
    #[new]
    fn new(py: Python<'_>, stored: &[u8]) -> PyResult<PartialProfile> {
        py.detach(|| Characterisation::from_bytes(stored)).map(PartialProfile::holding).map_err(python_error)
    }

    /// The argument that makes it again: it can be sent to another process.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>,)> {
        let bytes = self.with(py, |whole| Ok(whole.to_bytes()?))?;
        Ok((PyBytes::new(py, &bytes),))
    }

    /// Takes over an independent trace of the same host, or a sum if this is a sum.
    fn merge(&self, py: Python<'_>, other: &PartialProfile) -> PyResult<()> {
        let other = other.take()?;
        self.with(py, |whole| {
            whole.merge(other);
            Ok(())
        })
    }

    /// Takes the sum of all devices out of it; sums of several hosts can be merged.
    fn sum(&self, py: Python<'_>) -> PyResult<PartialProfile> {
        let whole = self.take()?;
        Ok(PartialProfile::holding(py.detach(|| whole.sum())))
    }

    /// The profile, as JSON text.
    fn profile(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |whole| serde_json::to_string(&whole.profile()).map_err(|e| UsageError::new_err(e.to_string())))
    }
}

/// Characterises a trace; returns the partial profile, and its warnings as (path, message).
///
/// `host` is where the devices are, if traces of several hosts are summed up. `shown_as` is a beginning of paths, and
/// what messages show instead. `tick` is called now and then with the bytes read so far.
#[pyfunction]
#[pyo3(signature = (paths, filter, *, format=None, host=String::new(), shown_as=None, tick=None))]
pub fn characterise_partial(
    py: Python<'_>, paths: Vec<String>, filter: &Filter, format: Option<String>, host: String,
    shown_as: Option<(String, String)>, tick: Option<Py<PyAny>>,
) -> PyResult<(PartialProfile, Warnings)> {
    let mut filter = filter.0.clone();
    py.detach(|| {
        let mut source = open_selected(&paths, format.as_deref(), &mut filter)?;
        let options = Options { host, shown_as, ..Options::default() };
        let mut ticker = Ticker::new(tick);
        let whole = Characterisation::of(&mut *source, filter, options, 1, &mut |bytes| ticker.tick(bytes));
        ticker.finish()?;
        let whole = whole.map_err(python_error)?.ended();
        let warnings = whole.warnings().iter().map(|w| (w.path.clone(), w.message.clone())).collect();
        Ok((PartialProfile::holding(whole), warnings))
    })
}

/// What a trace can be converted to: (name, one line about it).
#[pyfunction]
pub fn trace_targets() -> Vec<(&'static str, &'static str)> {
    TARGETS.iter().map(|t| (t.name, t.about)).collect()
}

/// Converts a trace; returns a report of the written files, and the trace's `TraceInfo`, as JSON text.
///
/// `to` names a target; without it the suffix of `output` selects one. `tick` is called now and then with the bytes
/// read.
#[pyfunction]
#[pyo3(signature = (paths, output, filter, *, to=None, format=None, overwrite=false, tick=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub fn convert(
    py: Python<'_>, paths: Vec<String>, output: String, filter: &Filter, to: Option<String>, format: Option<String>,
    overwrite: bool, tick: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut filter = filter.0.clone();
    py.detach(|| {
        let target = find_target(to.as_deref(), &output).map_err(python_error)?;
        let mut source = open_selected(&paths, format.as_deref(), &mut filter)?;
        let exporter = (target.open)(output.as_ref(), &filter, overwrite).map_err(python_error)?;
        let filter = (!target.filters && !filter.is_open()).then_some(&filter);
        let mut ticker = Ticker::new(tick);
        let report = export::convert(&mut *source, filter, exporter, &mut |bytes| ticker.tick(bytes));
        ticker.finish()?;
        let report = report.map_err(python_error)?.unwrap_or_default();
        Ok(serde_json::json!({"to": target.name, "report": report, "trace": source.info()}).to_string())
    })
}

/// Calls Python now and then: for signals, and to show progress.
struct Ticker {
    tick: Option<Py<PyAny>>,
    batches: u32,
    failure: Option<PyErr>,
}

impl Ticker {
    fn new(tick: Option<Py<PyAny>>) -> Ticker {
        Ticker { tick, batches: 0, failure: None }
    }

    /// Returns false if the work must stop.
    fn tick(&mut self, bytes: u64) -> bool {
        self.batches = self.batches.wrapping_add(1);
        if self.batches.is_multiple_of(64) {
            let done = Python::attach(|py| {
                py.check_signals()?;
                self.tick.as_ref().map_or(Ok(()), |tick| tick.call1(py, (bytes,)).map(drop))
            });
            self.failure = done.err();
        }
        self.failure.is_none()
    }

    fn finish(self) -> PyResult<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

/// Prints a trace's events as blkparse does, to standard output; with `summary` also blkparse's summary after them.
/// With `as_json`, one JSON object on each line instead. Returns false if the reader of standard output has closed it.
#[pyfunction]
#[pyo3(signature = (paths, filter, *, format=None, summary=true, as_json=false))]
pub fn print_events(
    py: Python<'_>, paths: Vec<String>, filter: &Filter, format: Option<String>, summary: bool, as_json: bool,
) -> PyResult<(bool, Vec<(String, String)>)> {
    let mut filter = filter.0.clone();
    let mut source = open_selected(&paths, format.as_deref(), &mut filter)?;
    let style = match (as_json, summary) {
        (true, _) => PrintStyle::Json,
        (false, true) => PrintStyle::Blkparse,
        (false, false) => PrintStyle::Quiet,
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut failure = None;
    let mut tick = |_| {
        failure = py.check_signals().err();
        failure.is_none()
    };
    let written = if io::stdout().is_terminal() {
        print(&mut *source, &filter, style, &mut TerminalOutput(&mut out), &mut tick)
    } else {
        print(&mut *source, &filter, style, &mut out, &mut tick)
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    let written = written.map_err(python_error)?;
    let warnings = source.info().warnings.iter().map(|w| (w.path.clone(), w.message.clone())).collect();
    match written {
        Ok(()) => Ok((true, warnings)),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok((false, warnings)),
        Err(e) => Err(e.into()),
    }
}

// A recording that goes on, for Python.

/// Reads blktrace's output in a thread, and keeps its last seconds.
#[pyclass(frozen)]
pub struct LiveTrace {
    state: Arc<Mutex<LiveState>>,
}

struct LiveState {
    window: LiveWindow,
    ended: Option<String>, // Why reading ended; an empty text at the end of the input
}

/// A reader that writes what it reads to a file.
struct CopyingReader {
    source: File,
    copy: Option<File>,
}

impl Read for CopyingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&buffer[..count])?;
        }
        Ok(count)
    }
}

#[pymethods]
impl LiveTrace {
    /// Opens `path`, a pipe, and keeps `width_ns`; `copy` is a new file for all that is read.
    #[new]
    #[pyo3(signature = (path, width_ns, copy=None))]
    fn new(path: String, width_ns: u64, copy: Option<String>) -> PyResult<LiveTrace> {
        let copy = copy.map(File::create_new).transpose()?;
        let source = CopyingReader { source: File::open(&path)?, copy };
        let mut stream = RecordStream::new("blktrace".into(), Box::new(source));
        let state = Arc::new(Mutex::new(LiveState { window: LiveWindow::new(width_ns), ended: None }));
        let shared = Arc::clone(&state);
        std::thread::Builder::new().name("live".into()).spawn(move || {
            let mut block = EventBlock::default();
            let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                // One event at a time: waiting for more would hold back those that are there.
                match stream.next_block(&mut block, 1) {
                    Ok(()) if block.events.is_empty() => break lock().ended = Some(String::new()),
                    Ok(()) => lock().window.add(&block),
                    Err(error) => break lock().ended = Some(error.to_string()),
                }
            }
        })?;
        Ok(LiveTrace { state })
    }

    /// Returns the length of the window in ns and its profile as JSON text; None if there was no event. `elapsed_ns` is
    /// the time since the last call.
    fn profile(&self, py: Python<'_>, elapsed_ns: u64, threads: usize) -> PyResult<Option<(u64, String)>> {
        py.detach(|| {
            let settled = self.state.lock().unwrap_or_else(PoisonError::into_inner).window.settled(elapsed_ns);
            let Some(mut settled) = settled else { return Ok(None) };
            let profile = settled.profile(threads).map_err(python_error)?;
            let text = serde_json::to_string(&profile).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
            Ok(Some((settled.length, text)))
        })
    }

    /// Returns why reading ended, or None while it goes on; an empty text at the end of the input.
    fn ended(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended.clone()
    }
}
