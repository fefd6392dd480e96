//! A simulator of block devices, I/O schedulers and md: deterministic from a seed, single-threaded, pure.
//!
//! [`cell::Cell`] describes what to simulate, [`run`] simulates it, [`outcome::Outcome`] has the measurements.

#[cfg(not(feature = "schema"))]
use blklab_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

mod arena;
mod bio;
mod build;
pub mod cell;
mod device;
mod engine;
pub mod error;
mod events;
mod kernel;
mod load;
pub mod loss;
mod metrics;
pub mod outcome;
mod rng;
mod targets;
mod task;
#[cfg(test)]
mod tests;

pub use bio::{Flags, Op};
pub use error::SimError;
pub use task::replay::{ReplayIo, ReplayIos};

/// Simulates one cell that replays no trace.
pub fn run(cell: &cell::Cell) -> Result<outcome::Outcome, SimError> {
    Ok(run_until(cell, None, &|| false)?.expect("`stop` never returns true"))
}

/// Builds a cell's stack and tasks without simulating them, so that an impossible cell is an error.
pub fn check_cell(cell: &cell::Cell) -> Result<(), SimError> {
    let trace = cell.replay.is_some().then(|| Box::new(std::iter::empty()) as ReplayIos);
    build::build_simulation(cell, trace).map(drop)
}

/// What a simulation depends on of a kernel, as text: with the same text, the results are the same.
pub fn kernel_changes(release: &str) -> String {
    let differences = |kernel: kernel::Kernel| (kernel.answers(), targets::locks::present(kernel));
    format!("{:?} {:?}", kernel::Kernel::parse(release).map(differences), blklab_cache::SmqKernel::parse(release))
}

/// Simulates one cell; returns `None` if `stop` returned true. `stop` is called every few milliseconds.
///
/// `trace` has the I/Os of a cell with [`cell::Cell::replay`], and is read as simulated time advances. They count in
/// a group named `replay`; an I/O beyond the end of the stack is an error.
pub fn run_until(
    cell: &cell::Cell, trace: Option<ReplayIos>, stop: &dyn Fn() -> bool,
) -> Result<Option<outcome::Outcome>, SimError> {
    let finished = build::build_simulation(cell, trace)?.play(stop)?;
    Ok(finished.map(outcome::Outcome::new))
}
