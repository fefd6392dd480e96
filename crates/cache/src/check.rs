//! What a running cache should have counted for a trace, if its policy works as the kernel's does.

use crate::bcache::{Bcache, BcacheSettings, PAGE_SECTORS};
use crate::dm_cache::{CacheMode, DmCache};
use crate::policy::{Geometry, Policy};
use crate::replay::{Counts, Op, Replay, Request};
use crate::smq::{PolicyBuilder, SmqKernel};
use std::collections::HashSet;

/// smq judges its misses once a second. The moment decides what it promotes at first, and the trace does not show it: the
/// check simulates this many phases of the second, if the cache is so small that there is memory for all of them.
const PHASES: u64 = 10;
const MOST_BLOCKS: u32 = 1 << 18;
const SECOND_NS: u64 = 1_000_000_000;

/// The cache that is checked.
#[derive(Clone, Copy, Debug)]
pub enum CheckedCache {
    Dm { policy: PolicyBuilder, kernel: SmqKernel, mode: CacheMode, geometry: Geometry },
    Bcache(BcacheSettings),
}

/// The check: `touch` every I/O, `fill`, then `request` every I/O again.
///
/// What a cache in use held when the trace began is not known. Two cases bound its hits: blocks that the trace does not
/// touch, and the blocks that it touches first.
pub struct CacheCheck {
    cache: CheckedCache,
    used: u64,         // blocks (bcache: pages) that are in use at first
    touched: Vec<u64>, // the first ones that the trace touches, `used` at most
    known: HashSet<u64>,
}

impl CacheCheck {
    /// A cache that had `used_bytes` in use when the trace began.
    pub fn new(cache: CheckedCache, used_bytes: u64) -> Self {
        let used = used_bytes / 512 / block_sectors(cache);
        Self { cache, used, touched: vec![], known: HashSet::new() }
    }

    /// Looks at an I/O of the trace, to know what it touches.
    pub fn touch(&mut self, request: &Request) {
        let size = block_sectors(self.cache);
        let end = request.sector.saturating_add(u64::from(request.sectors)).div_ceil(size);
        let blocks = if matches!(request.op, Op::Read | Op::Write { .. }) { request.sector / size..end } else { 0..0 };
        for block in blocks {
            if self.touched.len() as u64 == self.used {
                return;
            }
            if self.known.insert(block) {
                self.touched.push(block);
            }
        }
    }

    /// Fills a cache for each case, of which one that was empty has only one, and each phase of smq. `completions`:
    /// whether the trace has them.
    pub fn fill(self, completions: bool) -> FilledCaches {
        // No origin has blocks with such numbers. bcache evicts clean buckets at no cost, so that it may begin empty.
        let unknown = if matches!(self.cache, CheckedCache::Dm { .. }) { self.used } else { 0 };
        let others: Vec<u64> = (1 << 40..).take(unknown as usize).collect();
        let cases = if self.used == 0 { vec![others] } else { vec![others, self.touched] };
        let phases = match self.cache {
            CheckedCache::Dm { geometry, .. } if geometry.cache_blocks <= MOST_BLOCKS => PHASES,
            _ => 1,
        };
        let each = cases.iter().flat_map(|blocks| (0..phases).map(move |phase| (blocks, phase * SECOND_NS / PHASES)));
        FilledCaches(each.map(|(blocks, phase)| filled(self.cache, blocks, phase, completions)).collect())
    }
}

fn block_sectors(cache: CheckedCache) -> u64 {
    match cache {
        CheckedCache::Dm { geometry, .. } => u64::from(geometry.block_sectors),
        CheckedCache::Bcache(_) => PAGE_SECTORS,
    }
}

fn filled(cache: CheckedCache, blocks: &[u64], phase_ns: u64, completions: bool) -> Box<dyn Replay> {
    match cache {
        CheckedCache::Dm { policy, kernel, mode, geometry } => {
            let mut policy = policy(geometry, kernel);
            for (&block, to) in blocks.iter().zip(0..geometry.cache_blocks) {
                policy.load_mapping(block, to, false, None).expect("each block is loaded once");
            }
            policy.tick(phase_ns + 1);
            let volume = DmCache::<dyn Policy>::new(policy, geometry, mode);
            Box::new(if completions { volume.with_completions() } else { volume })
        }
        CheckedCache::Bcache(settings) => {
            let mut bcache = Bcache::new(settings);
            blocks.iter().for_each(|&page| {
                bcache.insert_page(0, page, false);
            });
            bcache.counts = Counts::default();
            Box::new(bcache)
        }
    }
}

/// A cache for each case.
pub struct FilledCaches(Vec<Box<dyn Replay>>);

impl FilledCaches {
    /// Replays an I/O.
    pub fn request(&mut self, request: &Request) {
        // The last second before the trace is the first one of the caches, which has their phase.
        let request = Request { time_ns: request.time_ns.saturating_add(SECOND_NS), ..*request };
        self.0.iter_mut().for_each(|cache| cache.request(&request));
    }

    /// An I/O is done, in a trace with completions.
    pub fn complete(&mut self, time_ns: u64, sector: u64) {
        self.0.iter_mut().for_each(|cache| cache.complete(time_ns.saturating_add(SECOND_NS), sector));
    }

    /// What each cache counted.
    pub fn counts(&self) -> Vec<Counts> {
        self.0.iter().map(|cache| cache.counts()).collect()
    }
}
