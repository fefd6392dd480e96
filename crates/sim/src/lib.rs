//! A simulator of block devices, I/O schedulers and md: deterministic from a seed, single-threaded, pure.

pub mod cell;
pub mod md;
