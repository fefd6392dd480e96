//! A simulator of block devices, I/O schedulers and md: deterministic from a seed, single-threaded, pure.
//!
//! [`cell::Cell`] says what to simulate, [`run`] plays it, [`outcome::Outcome`] says what was measured.

mod arena;
mod bio;
pub mod cell;
mod device;
pub mod error;
mod events;
mod kernel;
pub mod md;
pub mod outcome;
mod queue;
mod rng;
mod task;
#[cfg(test)]
mod testing;
mod world;

pub use bio::Op;
pub use error::SimError;
pub use task::replay::{ReplayIo, ReplayIos};

/// Simulates one cell that replays nothing.
pub fn run(cell: &cell::Cell) -> Result<outcome::Outcome, SimError> {
    Ok(run_until(cell, None, &|| false)?.expect("nothing stops it"))
}

/// Builds what a cell describes without simulating it: whatever cannot work is an error.
pub fn check(cell: &cell::Cell) -> Result<(), SimError> {
    let trace = cell.replay.is_some().then(|| Box::new(std::iter::empty()) as ReplayIos);
    world::World::new(cell, trace).map(drop)
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
    world::World::new(cell, trace)?.play(stop)
}
