//! Policies at one size: OPT over a sample of accesses, and smq and bcache as miniatures: a sample of regions in a cache
//! that is as much smaller (Waldspurger et al., "Cache modeling and optimization using miniature simulations", ATC 2017).
//!
//! smq counts misses by hotspot block, so that all blocks of a region must be in the sample or none. Ticks follow the
//! times of all I/Os, as in the whole cache.

use super::Estimate;
use crate::bcache::{Bcache, BcacheMode, BcacheSettings, PAGE_SECTORS};
use crate::dm_cache::{CacheMode, DmCache};
use crate::policy::{Geometry, Policy};
use crate::replay::{Counts, Replay, Request};
use crate::sampler::Sampler;
use crate::smq::{Smq, SmqKernel, region_shift};
use blklab_stats::Hashing;
use std::collections::{BTreeSet, HashMap};

/// Blocks that a miniature should have. From 4,096 on, the hotspot queue is no larger than in the whole.
pub const MINIATURE_BLOCKS: f64 = 32768.0;
/// Buckets that a miniature of bcache should have, and sectors of a bucket (make-bcache: 512 KiB).
const MINIATURE_BUCKETS: f64 = 4096.0;
const BUCKET_SECTORS: u32 = 1024;
/// The smallest cache that bcache accepts, in bytes: 513 buckets. Fewer are too few for the kernel's reserves
/// (`cache_alloc`: "ca->sb.nbuckets is too small").
pub const LEAST_BCACHE: u64 = 513 * BUCKET_SECTORS as u64 * 512;
/// Pages of bcache's sampled regions, as a power of two: 1 MiB.
const REGION_SHIFT: u32 = 8;
/// How much older smq is in each sample than in the one before, as in the simulator: samples begin in other phases of its
/// second, and of its 60 s.
const AGE_STEP_NS: u64 = 12_300_000_000;

/// Which policy is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedPolicy {
    Smq(SmqKernel, CacheMode), // dm-cache with smq
    Bcache(BcacheMode),        // bcache, with its defaults, in this mode
}

/// A miniature.
pub struct SimulatedCache {
    cache: Box<dyn Replay>,
    is_bcache: bool,
    pub rate: f64, // the share of the blocks that it simulates
    age_ns: u64,   // of smq when the trace begins
}

impl SimulatedCache {
    /// A cache of this size, with blocks of `geometry`, for a trace that touches `footprint` bytes. `None`: bcache refuses
    /// the size. Another salt has another sample, and another phase of smq's clock. `blocks`: smq's miniature has them.
    pub fn new(
        policy: SimulatedPolicy, geometry: Geometry, bytes: u64, footprint: u64, salt: u64, blocks: f64,
    ) -> Option<Self> {
        let used = bytes.min(footprint) as f64;
        match policy {
            SimulatedPolicy::Smq(kernel, mode) => {
                let rate = (blocks * f64::from(geometry.block_sectors) * 512.0 / used).min(1.0);
                let sampler = Sampler::new(salt, rate, region_shift(geometry));
                let mut smq = Box::new(Smq::new_sampled(geometry, kernel, rate));
                if salt > 0 {
                    smq.tick(1); // Its first second begins when it is made, not with the first I/O.
                }
                let cache = DmCache::new(smq, geometry, mode).sampled(sampler);
                Some(Self { cache: Box::new(cache), is_bcache: false, rate, age_ns: salt * AGE_STEP_NS })
            }
            SimulatedPolicy::Bcache(mode) => {
                if bytes < LEAST_BCACHE {
                    return None;
                }
                let whole = bytes / (u64::from(BUCKET_SECTORS) * 512);
                let rate = (MINIATURE_BUCKETS * f64::from(BUCKET_SECTORS) * 512.0 / used).min(1.0);
                let buckets = (whole as f64 * rate).round() as u32;
                let settings = BcacheSettings { buckets, mode, ..BcacheSettings::default() };
                let cache = Bcache::new(settings).sampled(Sampler::new(salt, rate, REGION_SHIFT));
                Some(Self { cache: Box::new(cache), is_bcache: true, rate, age_ns: 0 })
            }
        }
    }

    /// Replays an I/O; `sequential`: the sectors of its stream, as bcache counts them.
    pub fn request(&mut self, request: &Request, sequential: u64) {
        let time_ns = request.time_ns.saturating_add(self.age_ns);
        self.cache.request_in_stream(&Request { time_ns, ..*request }, sequential);
    }

    /// What it found. `accesses`: reads and writes of the whole trace, after splitting; `sectors`: all of its sectors.
    pub fn estimate(&self, accesses: [u64; 2], sectors: u64, block_sectors: u32) -> Estimate {
        let Counts { reads, read_hits, writes, write_hits, promotions, overwrites, .. } = self.cache.counts();
        let is_bcache = self.is_bcache;
        let inserted = promotions * if is_bcache { 1 } else { u64::from(block_sectors) };
        let ratio = |hits: u64, seen: u64, all: u64| match all {
            0 => None,
            _ if is_bcache || self.rate >= 1.0 => (seen > 0).then(|| hits as f64 / seen as f64),
            // The sample's misses are what counts: see `StackDistances::hit_ratio`.
            all => Some((1.0 - (seen - hits) as f64 / self.rate / all as f64).clamp(0.0, 1.0)),
        };
        let reads_ratio = ratio(read_hits, reads, accesses[0]);
        let written = inserted as f64 / self.rate / sectors.max(1) as f64;
        if is_bcache {
            // bcache counts reads only.
            return Estimate { ratios: [reads_ratio, None, reads_ratio], cache_writes: Some(written) };
        }
        // Without those that the whole cache does not count either.
        let accesses = [accesses[0], accesses[1].saturating_sub((overwrites as f64 / self.rate) as u64)];
        let both = ratio(read_hits + write_hits, reads + writes, accesses[0] + accesses[1]);
        let ratios = [reads_ratio, ratio(write_hits, writes, accesses[1]), both];
        Estimate { ratios, cache_writes: Some(written) }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }
}

const _: () = assert!(PAGE_SECTORS << REGION_SHIFT == 2048, "a sampled region is 1 MiB");

// Belady's OPT for a curve: the accesses of a sample that fits into memory.

/// Accesses that are kept at most: 40 bytes each while OPT is computed.
const MOST_ACCESSES: usize = 2_000_000;

/// A sample of accesses to blocks. When it is full, half of its blocks leave.
pub struct OptSample {
    pub sampler: Sampler,
    salt: u64,
    blocks: Vec<u64>,
    writes: Vec<bool>,
    all: [u64; 2],
}

impl OptSample {
    /// A sample of all blocks, until it is full.
    pub fn new(salt: u64) -> Self {
        Self { sampler: Sampler::ALL, salt, blocks: Vec::new(), writes: Vec::new(), all: [0; 2] }
    }

    /// Adds an access.
    pub fn access(&mut self, block: u64, write: bool) {
        self.all[usize::from(write)] += 1;
        if self.sampler.takes(block) {
            self.blocks.push(block);
            self.writes.push(write);
            if self.blocks.len() >= MOST_ACCESSES {
                self.halve();
            }
        }
    }

    fn halve(&mut self) {
        self.sampler = Sampler::new(self.salt, self.sampler.rate() / 2.0, 0);
        let all = self.blocks.iter().copied().zip(self.writes.iter().copied());
        (self.blocks, self.writes) = all.filter(|&(block, _)| self.sampler.takes(block)).unzip();
    }

    /// The hit ratios of each size, in blocks.
    pub fn estimate(&self, sizes: &[u64]) -> Vec<Estimate> {
        let next = next_accesses(&self.blocks);
        sizes
            .iter()
            .map(|&size| self.estimate_size(&next, (size as f64 * self.sampler.rate()).round() as u64))
            .collect()
    }

    fn estimate_size(&self, next: &[u64], capacity: u64) -> Estimate {
        let mut misses = [0u64; 2];
        for (hit, &write) in opt_hits(None, next, capacity, true).into_iter().zip(&self.writes) {
            misses[usize::from(write)] += u64::from(!hit);
        }
        let ratio = |misses: u64, all: u64| {
            (all > 0).then(|| (1.0 - misses as f64 / self.sampler.rate() / all as f64).clamp(0.0, 1.0))
        };
        let both = ratio(misses[0] + misses[1], self.all[0] + self.all[1]);
        Estimate { ratios: [ratio(misses[0], self.all[0]), ratio(misses[1], self.all[1]), both], cache_writes: None }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * 40
    }
}

// Belady's OPT, which knows the future, for objects of any size.

/// The next access to the same object, for each access; `u64::MAX`: none.
pub fn next_accesses(objects: &[u64]) -> Vec<u64> {
    let mut next = vec![u64::MAX; objects.len()];
    let mut seen: HashMap<u64, u64, Hashing> = HashMap::default();
    for (index, &object) in objects.iter().enumerate().rev() {
        next[index] = seen.insert(object, index as u64).unwrap_or(u64::MAX);
    }
    next
}

/// Belady's OPT for this capacity: which accesses hit, of which `next` has the next one to the same object. `sizes` are
/// the objects' bytes at each access; `None`: all are 1.
///
/// Objects that are not used again are not kept. `bypass`: a miss need not be cached at all, as in block caches. With
/// sizes, OPT is NP-hard, and this is the usual heuristic: the object that is used last leaves first.
pub fn opt_hits(sizes: Option<&[u64]>, next: &[u64], capacity: u64, bypass: bool) -> Vec<bool> {
    let mut cached = BTreeSet::new(); // the next accesses of what is cached
    let mut kept = sizes.map(<[u64]>::to_vec); // the bytes of what is cached, by its next access
    let mut used = 0;
    let hits = next.iter().enumerate().map(|(index, &again)| {
        let hit = cached.remove(&(index as u64));
        let bytes_of = |kept: &Option<Vec<u64>>, access: usize| kept.as_ref().map_or(1, |bytes| bytes[access]);
        let bytes = if hit { bytes_of(&kept, index) } else { sizes.map_or(1, |sizes| sizes[index]) };
        used -= if hit { bytes } else { 0 };
        let mut keep = again != u64::MAX && bytes <= capacity;
        while used + bytes > capacity
            && bytes <= capacity
            && let Some(&latest) = cached.last()
        {
            if bypass && (!keep || latest < again) {
                keep = false;
                break;
            }
            cached.pop_last();
            used -= bytes_of(&kept, latest as usize);
        }
        if keep {
            cached.insert(again);
            kept.iter_mut().for_each(|kept| kept[again as usize] = bytes);
            used += bytes;
        }
        hit
    });
    hits.collect()
}
