//! A cache in an experiment, as LVM makes it (lvmcache(7)).

use super::{DmCache, LvmCacheReport, PERIOD};
use crate::engine::Child;
use crate::load::Job;
use crate::targets::job_blocks::{InitialState, JobBlocks};
use crate::targets::{BuildContext, Built, Node, TargetSpec};
use blklab_cache::CacheMode;
use serde::{Deserialize, Serialize};

/// Sectors of a physical extent, LVM's default.
const EXTENT: u64 = (4 << 20) / 512;
/// The least metadata: 8 MiB, in sectors.
const LEAST_METADATA: u64 = (8 << 20) / 512;

/// A logical volume with a dm-cache.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LvmCache {
    /// Its name in results.
    pub name: String,
    /// The slow device or stack.
    pub origin: Box<Node>,
    /// The fast device or stack: the cache's blocks, and before them its metadata.
    pub cache: Box<Node>,
    /// Name of the policy, such as `smq`.
    pub policy: String,
    /// What the cache does with writes.
    pub mode: CacheMode,
    /// Bytes of a block, which the cache copies as a whole.
    pub chunk: u64,
    /// Bytes of the metadata; `null`: a thousandth of the cache, and at least 8 MiB.
    pub metadata: Option<u64>,
    /// Sectors that migrations copy at the same time at most; `null`: what LVM sets, 2048, or eight chunks if that is
    /// more.
    pub migration_threshold: Option<u64>,
    /// What the cache holds at first.
    #[serde(default)]
    pub state: InitialState,
    /// Time from the set-up of the cache to the begin of the run, in ns: it decides when the policy's seconds and minutes
    /// end. 0: its first second begins with the first I/O.
    #[serde(default)]
    pub age_ns: u64,
}

/// Where LVM puts the parts, in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub block: u64,
    pub origin: u64,   // The origin's size, of whole extents
    pub metadata: u64, // The metadata's size. The data follows.
    pub cache_blocks: u32,
}

impl LvmCache {
    fn geometry(&self, origin: Child, cache: Child) -> Result<Geometry, String> {
        let wrong = |problem: &str| Err(format!("{}: {problem}", self.name));
        let block = self.chunk / 512;
        if !block.is_multiple_of(64) || !(64..=1 << 21).contains(&block) {
            return wrong("a chunk must be a multiple of 32 KiB, from 32 KiB to 1 GiB");
        }
        let extents = |child: Child| (child.limits.sectors / EXTENT).saturating_sub(1);
        let metadata = self.metadata.map_or((extents(cache) * EXTENT / 1000).max(LEAST_METADATA), |bytes| bytes / 512);
        let metadata = metadata.div_ceil(EXTENT) * EXTENT;
        let data = (extents(cache) * EXTENT).saturating_sub(metadata);
        let cache_blocks = u32::try_from(data / block).ok().filter(|&blocks| blocks > 0);
        let Some(cache_blocks) = cache_blocks else {
            return wrong("the cache is too small for its metadata and one chunk, or has more than 2^32 chunks");
        };
        Ok(Geometry { block, origin: extents(origin) * EXTENT, metadata, cache_blocks })
    }
}

impl TargetSpec for LvmCache {
    type Target = DmCache;
    type Report = LvmCacheReport;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.origin), Some(&self.cache)]
    }

    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<DmCache> {
        let &[Some(origin), Some(cache)] = children else {
            return Err(format!("{}: a cache needs an origin and a cache device", self.name));
        };
        let geometry = self.geometry(origin, cache)?;
        DmCache::new(self, id, [origin, cache], geometry, context)
    }

    fn report(target: &DmCache) -> LvmCacheReport {
        let used_blocks = u64::from(target.policy.residency());
        let (metadata_writes, locks) = (target.metadata.writes, target.spin_locks.usage());
        LvmCacheReport { used_blocks, metadata_writes, locks, ..target.report.clone() }
    }
}

// What a cache holds when the run begins.

/// The level of a block that was just promoted.
const TOP_LEVEL: u32 = 63;

impl DmCache {
    /// Brings the cache into its initial state. An error is one line.
    pub(super) fn fill(&mut self, state: InitialState, jobs: &[Job]) -> Result<(), String> {
        if matches!(state, InitialState::JunkDirty | InitialState::Layout) {
            // The first tick, before writes fill the cache: their blocks stay at the top until it is balanced, after 60 s.
            self.policy.tick(1);
        }
        let most = u64::from(self.geometry.cache_blocks);
        let (block_bytes, blocks) = (self.geometry.block * 512, self.geometry.origin / self.geometry.block);
        let named = |problem: &str| format!("{}: {problem}", self.report.name);
        let contents = JobBlocks { jobs, block_bytes, blocks }.contents(state, most).map_err(named)?;
        let count = contents.len() as u64;
        let is_laid_out = state == InitialState::Layout;
        self.discarded.fill(is_laid_out);
        for (rank, block) in (0..).zip(contents) {
            let (dirty, level) = match state {
                InitialState::JunkDirty | InitialState::Layout => (true, Some(TOP_LEVEL)),
                InitialState::Warm => (false, Some(TOP_LEVEL - (rank * u64::from(TOP_LEVEL) / count) as u32)),
                _ => (false, None),
            };
            // Files: a whole block is promoted at once while one is free, but only in writeback mode.
            if !is_laid_out || (self.mode == CacheMode::Writeback && u64::from(self.policy.residency()) < most) {
                self.load(block, dirty, level);
            }
            if is_laid_out {
                *self.discard_mark(block) = false;
            }
        }
        (0..self.age_ns.div_ceil(PERIOD)).for_each(|second| self.policy.tick(second * PERIOD + 1));
        Ok(())
    }

    fn load(&mut self, block: u64, dirty: bool, level: Option<u32>) {
        let cache_block = self.policy.residency();
        if self.policy.load_mapping(block, cache_block, dirty, level).is_ok() {
            self.dirty[cache_block as usize] = dirty;
            self.report.dirty += u64::from(dirty);
        }
    }
}
