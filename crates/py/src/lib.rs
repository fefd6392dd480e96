//! The Python extension module `blklab._core`: thin conversions, nothing else.

mod cache;
mod failures;
mod md;
mod replay;
mod trace;

use pyo3::prelude::*;

/// Native core of blklab.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    /// Adds the constants. Interrupted reads run Python's signal handlers.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = blklab_trace::input_buffer::ON_SIGNAL.set(super::failures::handle_signals);
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
    use super::replay::{Stop, check_cell, default_host, simulate};

    #[pymodule_export]
    use super::trace::{
        Filter, PartialProfile, characterise, characterise_partial, convert, print_events, trace_formats, trace_targets,
    };
}
