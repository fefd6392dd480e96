//! Commits of the metadata: before a flush goes on, for each batch of demotions, and each second.
//!
//! A commit writes every changed block of 4 KiB, flushes, writes the superblock and flushes again
//! (dm-transaction-manager.c, `dm_tm_pre_commit`, `dm_tm_commit`).

use std::collections::BTreeSet;
use std::mem::take;

use crate::bio::{Flags, Op, Owner};
use crate::engine::{Child, Simulation};

/// Mappings in a block of the array: 4096 bytes, less the head of 24, at 8 bytes each (dm-array.c).
const MAPPINGS: u64 = (4096 - 24) / 8;
/// Array blocks that one node of the tree above them holds (dm-btree-internal.h: a head of 32 bytes, 16 an entry).
const NODE: u64 = (4096 - 32) / 16;
/// Blocks of the space map that change with each transaction: a bitmap and the index (dm-space-map-common.c).
const SPACE_MAP: u64 = 2;
/// Sectors of a metadata block.
const SECTORS: u32 = 8;

/// What waits for the next commit, or for the running one.
#[derive(Debug, Default)]
pub struct Batch {
    pub flushes: Vec<u32>,    // Flushes that go on when it is done
    pub migrations: Vec<u32>, // Migrations that go on when it is done
}

/// The steps of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Blocks,
    PreFlush,
    Superblock,
    Flush,
}

/// The metadata of a cache.
#[derive(Debug, Default)]
pub struct Metadata {
    id: u16,
    tag: u8,
    device: Child,
    start: u64, // Where the metadata begins on its device, and how many blocks it has
    blocks: u64,
    next: u64,              // The next block that the space map allocates
    changed: BTreeSet<u64>, // Array blocks whose mappings have changed since the last commit
    requested: bool,
    waiting: Batch,
    running: Option<(Step, Batch)>,
    in_flight: u64,
    pub writes: u64, // Blocks written and flushes: device-mapper counts an empty flush as a write (`start_io_acct`)
    pub commits: u64, // Commits done
}

impl Metadata {
    /// The metadata on a region of a device: `start` and `sectors`. Bios have the target's number and `tag`.
    pub fn new(id: u16, tag: u8, device: Child, start: u64, sectors: u64) -> Self {
        Self { id, tag, device, start, blocks: (sectors / u64::from(SECTORS)).max(2), ..Self::default() }
    }

    /// The mapping of a cache block has changed.
    pub fn change(&mut self, cache_block: u32) {
        self.changed.insert(u64::from(cache_block) / MAPPINGS);
    }

    /// Asks for a commit.
    pub fn request(&mut self) {
        self.requested = true;
    }

    /// Asks for a commit, and returns what waits for it.
    pub fn hold(&mut self) -> &mut Batch {
        self.requested = true;
        &mut self.waiting
    }

    /// Whether nothing waits and no mapping has changed.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        !self.requested && self.running.is_none() && self.changed.is_empty()
    }

    /// An I/O of the commit is done. True if the step is.
    pub fn end_io(&mut self) -> bool {
        self.in_flight -= 1;
        self.in_flight == 0
    }

    /// Begins a commit or its next step. Returns what waited for it when it is done.
    pub fn advance(&mut self, sim: &mut Simulation, task: u32) -> Option<Batch> {
        if self.in_flight > 0 {
            return None;
        }
        let step = match &self.running {
            None if !take(&mut self.requested) => return None,
            None if self.changed.is_empty() => return Some(take(&mut self.waiting)),
            None => Step::Blocks,
            Some((Step::Blocks, _)) => Step::PreFlush,
            Some((Step::PreFlush, _)) => Step::Superblock,
            Some((Step::Superblock, _)) => Step::Flush,
            Some((Step::Flush, _)) => {
                self.commits += 1;
                return self.running.take().map(|(_, batch)| batch);
            }
        };
        let batch = self.running.take().map_or_else(|| take(&mut self.waiting), |(_, batch)| batch);
        self.running = Some((step, batch));
        match step {
            Step::Blocks => {
                let arrays = take(&mut self.changed).len() as u64;
                for _ in 0..arrays + arrays.div_ceil(NODE) + SPACE_MAP {
                    self.next = self.next % (self.blocks - 1) + 1;
                    self.write(sim, task, self.next);
                }
            }
            Step::Superblock => self.write(sim, task, 0),
            Step::PreFlush | Step::Flush => self.submit(sim, task, Op::Flush, 0, 0),
        }
        None
    }

    fn write(&mut self, sim: &mut Simulation, task: u32, block: u64) {
        self.submit(sim, task, Op::Write, self.start + block * u64::from(SECTORS), SECTORS);
    }

    fn submit(&mut self, sim: &mut Simulation, task: u32, op: Op, sector: u64, sectors: u32) {
        (self.in_flight, self.writes) = (self.in_flight + 1, self.writes + 1);
        let owner = Owner::Target { target: self.id, tag: self.tag, number: 0 };
        let io = (op, self.device.target, sector, sectors);
        sim.submit_new(task, io, Flags::SYNC.with(Flags::METADATA), owner);
    }
}
