//! The Python extension module `blklab._core`: thin conversions, nothing else.

mod cache;
mod md;
mod replay;
mod trace;

use blklab_trace::error::TraceError;
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

/// Native core of blklab.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    /// Adds the constants. Interrupted reads run Python's signal handlers.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = blklab_trace::input_buffer::ON_SIGNAL.set(super::handle_signals);
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
        module.add("IO_URING_PER_CENT", blklab_sim::cell::IO_URING_PER_CENT)?;
        module.add("MD_STRIPE_CACHE", blklab_md::defaults::STRIPE_CACHE)?;
        module.add("MD_BITMAP_CHUNK", blklab_md::defaults::BITMAP_CHUNK)?;
        module.add("MD_SYNC_SPEED_MIN", blklab_md::defaults::SYNC_SPEED_MIN)?;
        module.add("MD_SYNC_SPEED_MAX", blklab_md::defaults::SYNC_SPEED_MAX)?;
        Ok(())
    }

    #[pymodule_export]
    use super::md::{MdMap, examine_md, md_levels};

    #[pymodule_export]
    use super::cache::{cache_check, cache_curves};

    #[pymodule_export]
    use super::trace::LiveTrace;

    #[pymodule_export]
    use super::replay::{Stop, check_cell, default_host, kernel_changes, loss_probabilities, simulate};

    #[pymodule_export]
    use super::trace::{
        Filter, PartialProfile, characterise, characterise_partial, convert, is_trace, print_events, trace_targets,
    };
}

// Converts Rust's errors to the Python exceptions with blklab's exit statuses, and lets Rust handle Python's signals.

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
