//! Block traces: formats in, [`event::Event`]s through, I/Os and their statistics out.
//!
//! `open` finds the reader ([`formats`]), a reader is a [`source::Source`] of events; [`blkparse`] prints
//! them, [`pair`] makes I/Os of them, [`characterise`] says what the workload is, [`export`] writes them.

pub mod blkparse;
pub mod blktrace;
pub mod characterise;
pub mod codes;
pub mod error;
pub mod event;
pub mod export;
pub mod filter;
mod find;
pub mod formats;
pub mod interrupt;
pub mod io;
pub mod open;
mod opening;
pub mod pair;
mod parquet_file;
pub mod process;
mod sidecar;
pub mod source;
#[cfg(test)]
mod testing;
