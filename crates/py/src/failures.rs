//! Converts Rust's errors to the Python exceptions with blklab's exit statuses, and lets Rust handle Python's signals.

use blklab_trace::error::TraceError;
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

pyo3::import_exception!(blklab.errors, BlklabError);
pyo3::import_exception!(blklab.errors, UsageError);

/// The exception of a Python signal handler that ran while Rust was reading.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Runs Python's signal handlers; true if one raised and reading must end.
pub fn handle_signals() -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            *RAISED.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        }
    })
}

/// An impossible request: status 2. A bad input, or a failed write: status 1.
pub fn python_error(error: TraceError) -> PyErr {
    if let Some(raised) = RAISED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return raised;
    }
    let text = error.to_string();
    match error {
        TraceError::Io { source, .. } => match source.kind() {
            ErrorKind::BrokenPipe => PyBrokenPipeError::new_err(text),
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
                UsageError::new_err(text)
            }
            _ => BlklabError::new_err(text),
        },
        TraceError::Request(_) => UsageError::new_err(text),
        TraceError::Content(_) => BlklabError::new_err(text),
    }
}
