//! The simulator for Python.

use crate::failures::{BlklabError, UsageError};
use blklab_sim::cell::Cell;
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

    /// Ends every simulation that was given this.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Simulates one cell, given as JSON text, and returns the outcome as JSON text.
///
/// Other Python threads run meanwhile.
#[pyfunction]
#[pyo3(signature = (cell, stop=None))]
pub fn simulate(py: Python<'_>, cell: &str, stop: Option<&Stop>) -> PyResult<String> {
    let stop = stop.map(|s| Arc::clone(&s.0)).unwrap_or_default();
    py.detach(|| {
        let cell: Cell = serde_json::from_str(cell).map_err(|e| UsageError::new_err(format!("cell: {e}")))?;
        let outcome = blklab_sim::run_until(&cell, &|| stop.load(Ordering::Relaxed));
        let Some(outcome) = outcome.map_err(|e| UsageError::new_err(e.to_string()))? else {
            return Err(BlklabError::new_err("the simulation was stopped"));
        };
        serde_json::to_string(&outcome).map_err(|e| BlklabError::new_err(e.to_string()))
    })
}
