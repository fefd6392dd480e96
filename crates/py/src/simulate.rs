//! The simulator for Python.

use crate::failures::{BlklabError, UsageError, python_error};
use crate::replay::{ReplayFailure, TraceArguments, open_replay, selected_filter};
use blklab_sim::ReplayIos;
use blklab_sim::cell::{Cell, Host};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
pub fn check_cell(cell: &str) -> PyResult<()> {
    let cell: Cell = serde_json::from_str(cell).map_err(|e| UsageError::new_err(format!("cell: {e}")))?;
    blklab_sim::check_cell(&cell).map_err(|e| UsageError::new_err(e.to_string()))
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
        let ios = trace
            .map(|(paths, format, filter)| open_replay(&paths, format.as_deref(), filter, &failure))
            .transpose()?
            .map(|ios| Box::new(ios) as ReplayIos);
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
