//! A recording that goes on, for Python.

use crate::failures::python_error;
use blklab_trace::blktrace::stream::{EventBlock, RecordStream};
use blklab_trace::live::LiveWindow;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

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
