//! A simulator of block devices, I/O schedulers and md: deterministic from a seed, single-threaded, pure.
//!
//! [`cell::Cell`] says what to simulate, [`run`] plays it, [`outcome::Outcome`] says what was measured.

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
mod metrics;
pub mod outcome;
mod rng;
mod targets;
mod task;
#[cfg(test)]
mod tests;

pub use bio::{Flags, Op};
pub use error::SimError;
pub use targets::md::map;
pub use task::replay::{ReplayIo, ReplayIos};

/// Simulates one cell that replays nothing.
pub fn run(cell: &cell::Cell) -> Result<outcome::Outcome, SimError> {
    Ok(run_until(cell, None, &|| false)?.expect("nothing stops it"))
}

/// Builds what a cell describes without simulating it: whatever cannot work is an error.
pub fn check(cell: &cell::Cell) -> Result<(), SimError> {
    let trace = cell.replay.is_some().then(|| Box::new(std::iter::empty()) as ReplayIos);
    build::simulation(cell, trace).map(drop)
}

/// Simulates one cell, unless `stop` says to give up: then there is no outcome. It is asked every few milliseconds.
///
/// `trace` has the I/Os of a cell with [`cell::Cell::replay`], and is taken from as simulated time goes on. They count in
/// a group named `replay`; an I/O that ends beyond the stack is an error.
pub fn run_until(
    cell: &cell::Cell,
    trace: Option<ReplayIos>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<outcome::Outcome>, SimError> {
    let finished = build::simulation(cell, trace)?.play(stop)?;
    Ok(finished.map(outcome::Outcome::new))
}
