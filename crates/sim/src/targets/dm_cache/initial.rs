//! What a cache holds when the run begins.

use super::{DmCache, Mode, PERIOD};
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
        let job_blocks = JobBlocks { jobs, block_bytes, blocks };
        let named = |problem: &str| format!("{}: {problem}", self.report.name);
        job_blocks.check(state).map_err(named)?;
        match state {
            InitialState::Empty => {}
            InitialState::Junk => {
                let junk = job_blocks.unused(most).map_err(named)?;
                junk.into_iter().for_each(|block| self.load(block, false, None));
            }
            InitialState::JunkDirty => {
                let junk = job_blocks.unused(most).map_err(named)?;
                junk.into_iter().for_each(|block| self.load(block, true, Some(TOP_LEVEL)));
            }
            InitialState::Warm => {
                let warm = job_blocks.drawn(most);
                let count = warm.len() as u64;
                for (rank, block) in (0..).zip(warm) {
                    self.load(block, false, Some(TOP_LEVEL - (rank * u64::from(TOP_LEVEL) / count) as u32));
                }
            }
            InitialState::Layout => {
                self.discarded.fill(true);
                for block in job_blocks.used() {
                    // A whole block is promoted at once while one is free, but only in writeback mode.
                    if self.mode == Mode::Writeback && u64::from(self.policy.residency()) < most {
                        self.load(block, true, Some(TOP_LEVEL));
                    }
                    self.clear_discard(block);
                }
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
