//! The policies of Linux block caches.
//!
//! A policy decides what is cached; it moves no data. It knows no devices and no events: times come as parameters (ns),
//! and the caller says when its background work is done. The rules are those of the kernel's documentation and sources,
//! named where they are used; the code is our own.

#![allow(missing_docs, reason = "the comment behind a field or variant says what it is")]

#[cfg(not(feature = "schema"))]
use blklab_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub mod bcache;
pub mod check;
pub mod curve;
mod dm_cache;
mod entry;
mod policy;
mod replay;
mod sampler;
mod smq;
mod writecache;

pub use bcache::{Bcache, BcacheMode, BcacheSettings, Streams};
pub use dm_cache::{CacheMode, DmCache, TickClock};
pub use policy::{Access, CacheBlock, Geometry, LoadError, Lookup, Operation, OriginBlock, Policy, Work};
pub use replay::{Counts, Op, Replay, Request};
pub use sampler::Sampler;
pub use smq::{PolicyBuilder, SMQ_KERNELS, Smq, SmqKernel, find_policy, region_shift};
pub use writecache::{BlockWrite, NextWriteback, Run, Writecache, WritecacheSettings};
