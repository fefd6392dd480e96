//! Rust's errors as the Python exceptions that carry blklab's exit statuses.

use blklab_trace::error::TraceError;
use pyo3::prelude::*;

pyo3::import_exception!(blklab.errors, BlklabError);
pyo3::import_exception!(blklab.errors, UsageError);

/// What was asked for is wrong: status 2. What was read is wrong: status 1.
pub fn python_error(error: TraceError) -> PyErr {
    let text = error.to_string();
    match error {
        TraceError::Request(_) | TraceError::NotFound { .. } | TraceError::Io { .. } => {
            UsageError::new_err(text)
        }
        TraceError::Empty { .. } | TraceError::UnknownFormat { .. } | TraceError::Malformed { .. } => {
            BlklabError::new_err(text)
        }
    }
}
