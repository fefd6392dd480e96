//! Block traces: reads formats into [`event::Event`]s and makes I/Os and statistics of them.
//!
//! `open` finds the reader ([`formats`]); a reader is a [`source::Source`] of events. [`blkparse`] prints them,
//! [`pair`] makes I/Os of them, [`characterise`] describes the workload, [`export`] writes them.

#[cfg(not(feature = "schema"))]
use blklab_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub mod blkparse;
pub mod blktrace;
pub mod characterise;
pub mod codes;
pub mod error;
pub mod event;
pub mod export;
pub mod filter;
pub mod formats;
pub mod input_buffer;
pub mod io;
pub mod live;
pub mod open;
pub mod pair;
mod parquet_file;
pub mod process;
pub mod source;
#[cfg(test)]
mod tests;
