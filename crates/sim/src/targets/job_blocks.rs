//! Blocks that jobs use, from which caches get their initial contents.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::load::{Distribution, Job};
use crate::rng::Rng;
use crate::task::offsets::Offsets;

/// Seed of the draws that warm a cache. They differ from those of the run.
const SEED: u64 = 0x7761_726d;
/// Draws for each cached block, after which a cache is warm even if it is not full.
const DRAWS: u64 = 20;

/// What a cache holds at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialState {
    /// Nothing.
    #[default]
    Empty,
    /// Clean blocks that the load does not use; the cache is full of them.
    Junk,
    /// Dirty blocks that the load does not use; the cache is full of them.
    JunkDirty,
    /// Blocks that the load uses.
    Warm,
    /// What the layout of the load's files left on a new filesystem: mkfs discards the volume, then each file is
    /// written from begin to end.
    Layout,
}

/// The jobs that use a volume of `blocks` blocks of `block_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct JobBlocks<'a> {
    pub jobs: &'a [Job],
    pub block_bytes: u64,
    pub blocks: u64,
}

impl JobBlocks<'_> {
    /// Each job with its number in its group and the first byte of its region.
    fn regions(&self) -> impl Iterator<Item = (&Job, u64, u64)> {
        let every = self.jobs.iter().flat_map(|job| (0..u64::from(job.numjobs)).map(move |index| (job, index)));
        every.map(|(job, index)| (job, index, job.offset + index * job.offset_increment))
    }

    /// The blocks of the jobs' files, in order, each once.
    pub fn used(&self) -> Vec<u64> {
        let mut before: Vec<std::ops::Range<u64>> = Vec::new();
        let mut blocks = Vec::new();
        for (job, _, start) in self.regions() {
            let end = (start + job.size).div_ceil(self.block_bytes).min(self.blocks);
            let region = start / self.block_bytes..end;
            if !before.contains(&region) {
                let overlapping: Vec<_> =
                    before.iter().filter(|other| other.start < region.end && region.start < other.end).collect();
                blocks.extend(region.clone().filter(|block| !overlapping.iter().any(|other| other.contains(block))));
                before.push(region);
            }
        }
        blocks
    }

    /// What a cache of `most` blocks holds in this state, in the order in which it was cached; laid out files can have
    /// more. An error is one line.
    pub fn contents(&self, state: InitialState, most: u64) -> Result<Vec<u64>, &'static str> {
        if state != InitialState::Empty && self.jobs.is_empty() {
            return Err("only jobs tell what a cache holds at first: use state = \"empty\"");
        }
        let used = if state == InitialState::Empty { Vec::new() } else { self.used() };
        match state {
            InitialState::Empty | InitialState::Layout => Ok(used),
            InitialState::Warm => Ok(self.drawn(most)),
            InitialState::Junk | InitialState::JunkDirty => {
                let used: HashSet<u64> = used.into_iter().collect();
                let unused = (0..self.blocks).rev().filter(|block| !used.contains(block)).take(most as usize);
                let found: Vec<u64> = unused.collect();
                let full = "no space is left after the jobs' data to fill the cache with";
                if found.is_empty() { Err(full) } else { Ok(found) }
            }
        }
    }

    /// The first blocks that the jobs draw, each once, in this order: those drawn first are drawn most often.
    pub fn drawn(&self, most: u64) -> Vec<u64> {
        let all: u64 = self.regions().map(|(job, ..)| job.size.div_ceil(self.block_bytes) + 1).sum();
        let uniform = |job: &Job| !job.random || matches!(job.distribution, Distribution::Random);
        if all <= most && self.jobs.iter().all(uniform) {
            return self.used(); // drawing all of them takes long, and no block is drawn more often
        }
        let most = most.min(all);
        let align = |job: &Job| u64::from(job.align.max(512));
        let units = |job: &Job| (job.size / align(job)).max(1);
        let uniform = Distribution::Random;
        let distribution = |job: &Job| if job.random { job.distribution.clone() } else { uniform.clone() };
        let generator = |(job, index, start)| (job, start, Offsets::new(&distribution(job), units(job), start, index));
        let generators: Vec<_> = self.regions().map(generator).collect();
        let (mut rng, mut drawn, mut seen) = (Rng::new(SEED), Vec::new(), HashSet::new());
        for (job, start, offsets) in generators.iter().cycle().take(most.saturating_mul(DRAWS) as usize) {
            let block = (start + offsets.next(units(job), &mut rng) * align(job)) / self.block_bytes;
            if block < self.blocks && seen.insert(block) {
                drawn.push(block);
                if drawn.len() as u64 == most {
                    break;
                }
            }
        }
        drawn
    }
}
