//! Curves of caches for Python.

use crate::replay::{DeviceReplay, ReplayFailure, TraceSelection, open_replay, selected_filter};
use crate::{BlklabError, UsageError, handle_signals, python_error};
use blklab_cache::check::{CacheCheck, CheckedCache};
use blklab_cache::curve::{CurveSettings, FirstPass};
use blklab_cache::{BcacheSettings, Counts, Geometry, Op, Request, SmqKernel, find_policy};
use blklab_trace::error::TraceError;
use blklab_trace::event::{self, Action, Rwbs};
use blklab_trace::filter::Filter;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// I/Os between two checks for signals.
const SIGNALS_EVERY: u64 = 1 << 16;

/// Computes hit ratios by cache size from a trace of one device; returns `CacheCurves` as JSON text.
///
/// Sizes are bytes; without `sizes` they are powers of two up to the footprint. LRU is exact unless `sample` (a share of
/// the blocks) is given. smq depends on the size of the volume: `volume`, or what the recording says; without both its
/// figures are a band. The trace is read twice for smq and bcache.
#[pyfunction]
#[pyo3(signature = (paths, *, policies, blocks, sizes=Vec::new(), kernel="6.1".to_owned(), writeback=false,
    sample=None, samples=4, volume=None, format=None, selection=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub fn cache_curves(
    py: Python<'_>, paths: Vec<String>, policies: Vec<String>, blocks: Vec<u64>, sizes: Vec<u64>, kernel: String,
    writeback: bool, sample: Option<f64>, samples: u64, volume: Option<u64>, format: Option<String>,
    selection: Option<TraceSelection>,
) -> PyResult<String> {
    let filter = selected_filter(selection.as_ref());
    let settings = CurveSettings { policies, blocks, sizes, kernel, writeback, sample, samples, volume };
    py.detach(|| {
        let mut first = FirstPass::new(settings).map_err(UsageError::new_err)?;
        let ios = replay(&paths, format.as_deref(), filter.clone(), false, |request, _| first.request(request))?;
        let again = first.needs_second_pass();
        let has_times = ios.capabilities().clock_ns.is_some();
        let mut second = first.finish(has_times, ios.device_bytes()).map_err(UsageError::new_err)?;
        if again {
            replay(&paths, format.as_deref(), filter, false, |request, _| second.request(request))?;
        }
        serde_json::to_string(&second.finish()).map_err(|e| BlklabError::new_err(e.to_string()))
    })
}

/// Blocks of a cache that can be replayed: 1 TiB of 64 KiB, and 1 GiB of memory.
const MOST_BLOCKS: u64 = 1 << 24;

/// A cache as `cache status` describes it. Sizes are bytes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CacheDescription {
    kind: String, // `dm-cache` or `bcache`
    policy: String,
    kernel: String,
    mode: String,
    size: u64,
    used: u64, // when the trace began
    block: u64,
    origin: u64,
    sequential_cutoff: u64,
    writeback_percent: u64,
}

impl CacheDescription {
    fn checked(&self) -> Result<CheckedCache, String> {
        let kernel =
            SmqKernel::parse(&self.kernel).ok_or_else(|| format!("kernel {}: expected 4.2 or later", self.kernel))?;
        let mode = serde_json::Value::from(self.mode.as_str());
        let unknown = |_| format!("mode {:?}: unknown to {}", self.mode, self.kind);
        let (least, most) = if self.kind == "bcache" { (8 << 10, 2 << 30) } else { (32 << 10, 1 << 30) };
        if !(least..=most).contains(&self.block) || !self.block.is_multiple_of(4096) {
            return Err(format!("block of {} bytes: expected {least} to {most}, as the kernel accepts", self.block));
        }
        let blocks = self.size / self.block;
        if !(1..=MOST_BLOCKS).contains(&blocks) {
            return Err(format!("a cache of {blocks} blocks: expected 1 to {MOST_BLOCKS}, which can be replayed"));
        }
        if self.kind == "bcache" {
            return Ok(CheckedCache::Bcache(BcacheSettings {
                buckets: blocks as u32,
                bucket_sectors: (self.block / 512) as u32,
                mode: serde_json::from_value(mode).map_err(unknown)?,
                sequential_cutoff: self.sequential_cutoff / 512,
                writeback_percent: self.writeback_percent,
                ..BcacheSettings::default()
            }));
        }
        let policy =
            find_policy(&self.policy).ok_or_else(|| format!("policy {:?}: expected smq or cleaner", self.policy))?;
        let geometry = Geometry {
            origin_blocks: self.origin / self.block,
            cache_blocks: blocks as u32,
            block_sectors: (self.block / 512) as u32,
        };
        Ok(CheckedCache::Dm { policy, kernel, mode: serde_json::from_value(mode).map_err(unknown)?, geometry })
    }
}

/// Replays a trace of a cached volume; returns what the cache should have counted, for each case of its first contents.
#[pyfunction]
#[pyo3(signature = (paths, cache, *, format=None, selection=None))]
pub fn cache_check(
    py: Python<'_>, paths: Vec<String>, cache: CacheDescription, format: Option<String>,
    selection: Option<TraceSelection>,
) -> PyResult<Vec<BTreeMap<&'static str, u64>>> {
    let filter = selected_filter(selection.as_ref());
    let checked = cache.checked().map_err(UsageError::new_err)?;
    py.detach(|| {
        let mut check = CacheCheck::new(checked, cache.used);
        let ios = replay(&paths, format.as_deref(), filter.clone(), false, |request, _| check.touch(request))?;
        let has = ios.capabilities();
        let mut caches = check.fill(has.completions);
        replay(&paths, format.as_deref(), filter, has.completions, |request, done| match done {
            true => caches.complete(request.time_ns, request.sector),
            false => caches.request(request),
        })?;
        Ok(caches.counts().iter().map(counters).collect())
    })
}

/// The counters with the names of `cache status`.
fn counters(counts: &Counts) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("read_hits", counts.read_hits),
        ("read_misses", counts.reads - counts.read_hits),
        ("write_hits", counts.write_hits),
        ("write_misses", counts.writes - counts.write_hits),
        ("promotions", counts.promotions),
        ("demotions", counts.demotions),
        ("bypassed_bytes", counts.bypassed_sectors * 512),
    ])
}

/// Reads a trace, and calls `each` for its I/Os in the order of their times, and if wanted for their completions. Returns
/// the trace.
fn replay(
    paths: &[String], format: Option<&str>, filter: Filter, completions: bool, mut each: impl FnMut(&Request, bool),
) -> PyResult<DeviceReplay> {
    let mut ios = open_replay(paths, format, filter, completions, &ReplayFailure::default())?;
    let (mut time_ns, mut count) = (0, 0u64);
    let failure = |text: &str| Err(python_error(TraceError::Content(text.to_owned())));
    while let Some(event) = ios.next_selected().map_err(python_error)? {
        time_ns = event.time.max(time_ns);
        let op = match event.op() {
            event::Op::Flush => Op::Flush,
            event::Op::Read => Op::Read,
            event::Op::Write => Op::Write { sync: event.rwbs.has(Rwbs::SYNC) },
            event::Op::Discard => Op::Discard,
        };
        let request = Request { time_ns, op, sector: event.sector, sectors: event.sectors() as u32, task: event.pid };
        each(&request, event.action == Action::COMPLETE);
        count += 1;
        if count.is_multiple_of(SIGNALS_EVERY) && handle_signals() {
            return failure("interrupted");
        }
    }
    if count == 0 {
        return failure("trace: no I/O in the selection; a cache is simulated with I/Os that were queued (Q)");
    }
    Ok(ios)
}
