//! Rust's errors as the Python exceptions that carry blklab's exit statuses, and Python's signals for Rust.

use blklab_trace::error::TraceError;
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

pyo3::import_exception!(blklab.errors, BlklabError);
pyo3::import_exception!(blklab.errors, UsageError);

/// What a signal's Python handler raised while Rust was reading.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Lets Python's signal handlers run; true when one raised, and reading is to be given up.
pub fn ask_python() -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            *RAISED.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        }
    })
}

/// What was asked for is wrong: status 2. What was read, or could not be written, is wrong: status 1.
pub fn python_error(error: TraceError) -> PyErr {
    if let Some(raised) = RAISED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return raised;
    }
    let text = error.to_string();
    match error {
        TraceError::Io { source, .. } => match source.kind() {
            ErrorKind::BrokenPipe => PyBrokenPipeError::new_err(text),
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory => UsageError::new_err(text),
            _ => BlklabError::new_err(text),
        },
        TraceError::Request(_) | TraceError::NotFound { .. } => UsageError::new_err(text),
        TraceError::Empty { .. } | TraceError::UnknownFormat { .. } | TraceError::Malformed { .. } => {
            BlklabError::new_err(text)
        }
    }
}
