//! The Python extension module `blklab._core`: thin conversions, nothing else.

mod cache;
mod failures;
mod live;
mod md;
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

    #[pymodule_export]
    const IO_URING_PER_CENT: u64 = blklab_sim::cell::IO_URING_PER_CENT;

    #[pymodule_export]
    const MD_STRIPE_CACHE: u32 = blklab_md::defaults::STRIPE_CACHE;

    #[pymodule_export]
    const MD_BITMAP_CHUNK: u64 = blklab_md::defaults::BITMAP_CHUNK;

    #[pymodule_export]
    const MD_SYNC_SPEED_MIN: u64 = blklab_md::defaults::SYNC_SPEED_MIN;

    #[pymodule_export]
    const MD_SYNC_SPEED_MAX: u64 = blklab_md::defaults::SYNC_SPEED_MAX;

    /// Interrupted reads run Python's signal handlers.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = blklab_trace::input_buffer::ON_SIGNAL.set(super::failures::handle_signals);
        Ok(())
    }

    #[pymodule_export]
    use super::md::{MdMap, examine_md, md_levels};

    #[pymodule_export]
    use super::cache::{cache_check, cache_curves};

    #[pymodule_export]
    use super::live::LiveTrace;

    #[pymodule_export]
    use super::simulate::{Stop, check_cell, default_host, simulate};

    #[pymodule_export]
    use super::trace::{
        Filter, PartialProfile, characterise, characterise_partial, convert, print_events, trace_formats, trace_targets,
    };
}
