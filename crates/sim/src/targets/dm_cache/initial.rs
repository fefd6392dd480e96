//! What a cache holds when the run begins.

use blklab_cache::CacheMode;

use super::{DmCache, PERIOD};
use crate::load::Job;
use crate::targets::job_blocks::{InitialState, JobBlocks};

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
