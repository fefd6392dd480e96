//! A simulator of block devices, I/O schedulers and md: deterministic from a seed, single-threaded, pure.
//!
//! [`cell::Cell`] says what to simulate, [`run`] plays it, [`outcome::Outcome`] says what was measured.

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

pub use error::SimError;

/// Simulates one cell.
pub fn run(cell: &cell::Cell) -> Result<outcome::Outcome, SimError> {
    Ok(run_until(cell, &|| false)?.expect("nothing stops it"))
}

/// Simulates one cell, unless `stop` says to give up: then there is no outcome. It is asked every few milliseconds.
pub fn run_until(cell: &cell::Cell, stop: &dyn Fn() -> bool) -> Result<Option<outcome::Outcome>, SimError> {
    Ok(world::World::new(cell)?.play(stop))
}
