//! Tests over all formats.

mod mutations;
mod rows;
mod samples;
