//! The Python extension module `blklab._core`: thin conversions, nothing else.

mod cache;
mod failures;
mod live;
mod mdmeta;
mod replay;
mod simulate;
mod trace;

use pyo3::prelude::*;

/// Native core of blklab.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const DEBUG_BUILD: bool = cfg!(debug_assertions);

    /// Interrupted reads run Python's signal handlers.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        blklab_trace::interrupt::on_signal(super::failures::handle_signals);
        Ok(())
    }

    #[pymodule_export]
    use super::mdmeta::examine_md;

    #[pymodule_export]
    use super::cache::{cache_check, cache_curves};

    #[pymodule_export]
    use super::live::LiveTrace;

    #[pymodule_export]
    use super::simulate::{Stop, check_cell, simulate};

    #[pymodule_export]
    use super::trace::{
        Filter, PartialProfile, characterise, characterise_partial, convert, print_events, trace_formats, trace_targets,
    };
}
