//! Migrations: promotions, demotions and writebacks on their way through locks, copies and metadata (`mg_start` to
//! `mg_complete`).

use blklab_cache::{Operation, Work};

use super::locks::LockLevel;
use super::{DmCache, IDLE, tag};
use crate::arena::Numbered;
use crate::bio::{Flags, Op, Owner};
use crate::engine::Simulation;

/// Sectors that kcopyd copies at once (dm-kcopyd.c, DEFAULT_SUB_JOB_SIZE_KB).
const COPIED_AT_ONCE: u64 = 1024;

/// What a migration does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    LockVictim,     // Another block leaves first: no bio may hold it (4.11 and earlier)
    DropVictim,     // Its mapping goes, and the commit is awaited
    Copy,           // Writes are kept out of the block. Copy it.
    RaiseLock,      // It is copied. Keep reads out as well.
    ChangeMetadata, // No bio holds the block. Change the metadata.
}

struct Migration {
    work: Work,
    bio: Option<u32>, // The write that promotes the block, or that made it invalid
    step: Step,
    parts: u32, // Parts of the copy that are not done
}

/// All migrations, and what they wait for.
#[derive(Default)]
pub struct Migrations {
    all: Numbered<Migration>,
    pub ready: Vec<u32>, // Migrations that can go on
    pub read: Vec<u32>,  // Parts that have been read
    pub copying: u64,    // Migrations that copy
}

impl Migrations {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// An I/O of a migration is done.
    pub fn end_io(&mut self, tag: u8, number: u32) {
        if tag == tag::COPY_READ {
            return self.read.push(number);
        }
        let number = if tag == tag::OVERWRITE { number } else { number / MOST_PARTS };
        let migration = self.all.get(number);
        migration.parts -= 1;
        if migration.parts == 0 {
            self.ready.push(number);
        }
    }
}

/// Parts of a copy are numbered within the number of the migration; a block of 1 GiB has 2048.
const MOST_PARTS: u32 = 2048;

impl DmCache {
    /// Starts all work that the policy has queued (`check_migrations`).
    pub(super) fn start_background_work(&mut self, sim: &mut Simulation, task: u32) {
        loop {
            let idle = self.in_flight == 0 && sim.now >= self.idle_since + IDLE;
            if self.throttles_worker && !idle && self.is_over_threshold() {
                return;
            }
            let idle = idle && !self.is_over_threshold();
            let Some(work) = self.policy.get_background_work(idle) else { return };
            self.start_migration(sim, task, work, None);
        }
    }

    /// Starts a migration (`mg_start`).
    pub(super) fn start_migration(&mut self, sim: &mut Simulation, task: u32, work: Work, bio: Option<u32>) {
        let replaces = matches!(work.operation, Operation::Replace { .. });
        let step = if replaces { Step::LockVictim } else { Step::Copy };
        let number = self.migrations.all.add(Migration { work, bio, step, parts: 0 });
        if work.operation != Operation::Demote {
            self.migrations.copying += 1;
        }
        // A write that promotes its block copies nothing, so no bio may read the block. Old kernels let none read.
        let level = if bio.is_some() || replaces { LockLevel::All } else { LockLevel::Writes };
        match self.locks.lock(work.origin_block, level, number) {
            Some(true) => self.advance_migration(sim, task, number),
            Some(false) => {}
            None => self.give_up_migration(sim, number),
        }
    }

    /// Advances migrations that can go on, and writes parts that were read.
    pub(super) fn continue_migrations(&mut self, sim: &mut Simulation, task: u32) {
        for part in std::mem::take(&mut self.migrations.read) {
            self.copy_part(sim, task, part, Op::Write);
        }
        for number in std::mem::take(&mut self.migrations.ready) {
            self.advance_migration(sim, task, number);
        }
    }

    fn advance_migration(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        loop {
            let migration = self.migrations.all.get(number);
            let work = migration.work;
            match migration.step {
                Step::LockVictim => {
                    migration.step = Step::DropVictim;
                    let Operation::Replace { victim } = work.operation else { unreachable!("{work:?}") };
                    match self.locks.lock(victim, LockLevel::All, number) {
                        Some(true) => {}
                        Some(false) => return,
                        None => return self.give_up_migration(sim, number),
                    }
                }
                Step::DropVictim => {
                    migration.step = Step::Copy;
                    self.metadata.change(work.cache_block);
                    return self.metadata.hold().migrations.push(number);
                }
                Step::Copy => {
                    migration.step = Step::RaiseLock;
                    if self.copy(sim, task, number) {
                        return;
                    }
                }
                Step::RaiseLock => {
                    migration.step = Step::ChangeMetadata;
                    if self.locks.lock(work.origin_block, LockLevel::All, number) == Some(false) {
                        return;
                    }
                }
                Step::ChangeMetadata => {
                    if work.operation != Operation::Writeback {
                        self.metadata.change(work.cache_block);
                    }
                    if work.operation != Operation::Demote {
                        return self.end_migration(sim, task, number);
                    }
                    // The cache block must not be used again before the commit.
                    return self.metadata.hold().migrations.push(number);
                }
            }
        }
    }

    /// Submits a migration's copy. False if it needs none.
    fn copy(&mut self, sim: &mut Simulation, task: u32, number: u32) -> bool {
        let &mut Migration { work, bio, .. } = self.migrations.all.get(number);
        let promotes = !matches!(work.operation, Operation::Demote | Operation::Writeback);
        if let Some(bio) = bio.filter(|_| promotes) {
            let parent = sim.bios[bio];
            let (child, sector) = self.on_cache(work.cache_block, parent.sector % self.geometry.block);
            let owner = Owner::Target { target: self.id, tag: tag::OVERWRITE, number };
            let part = sim.bios.add(parent.clone_for(child.target, sector, parent.sectors, owner));
            self.migrations.all.get(number).parts = 1;
            self.in_flight += u64::from(self.tracks_all);
            sim.submit(task, part);
            return true;
        }
        if (!promotes && !self.dirty[work.cache_block as usize]) || *self.discard_mark(work.origin_block) {
            return false;
        }
        let parts = self.geometry.block.div_ceil(COPIED_AT_ONCE) as u32;
        self.migrations.all.get(number).parts = parts;
        for part in 0..parts {
            self.copy_part(sim, task, number * MOST_PARTS + part, Op::Read);
        }
        true
    }

    /// Reads or writes a part of a migration's block.
    fn copy_part(&mut self, sim: &mut Simulation, task: u32, part: u32, op: Op) {
        let work = self.migrations.all.get(part / MOST_PARTS).work;
        let offset = u64::from(part % MOST_PARTS) * COPIED_AT_ONCE;
        let to_cache = (work.operation != Operation::Writeback) == (op == Op::Write);
        let (child, sector) = if to_cache {
            self.on_cache(work.cache_block, offset)
        } else {
            self.on_origin(work.origin_block * self.geometry.block + offset)
        };
        let (flags, tag) =
            if op == Op::Read { (Flags::SYNC, tag::COPY_READ) } else { (Flags::default(), tag::COPY_WRITE) };
        let sectors = COPIED_AT_ONCE.min(self.geometry.block - offset) as u32;
        let owner = Owner::Target { target: self.id, tag, number: part };
        sim.submit_new(task, (op, child.target, sector, sectors), flags, owner);
    }

    /// A commit is done that a migration waited for: it ends, or goes on if only its victim's mapping is gone.
    pub(super) fn end_commit(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        let migration = self.migrations.all.get(number);
        if migration.step == Step::ChangeMetadata {
            return self.end_migration(sim, task, number);
        }
        if let Operation::Replace { victim } = migration.work.operation {
            self.report.demotions += 1;
            self.unlock(sim, victim);
        }
        self.advance_migration(sim, task, number);
    }

    /// A migration is done (`mg_complete`).
    pub(super) fn end_migration(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        let Migration { work, bio, .. } = self.remove_migration(number);
        match (work.operation, bio) {
            (Operation::Promote | Operation::Replace { .. }, _) => {
                self.report.promotions += 1;
                *self.discard_mark(work.origin_block) = false;
                self.policy.complete_background_work(work, true);
                if let Some(bio) = bio {
                    self.set_dirty(work.cache_block);
                    sim.complete(bio);
                }
            }
            (Operation::Demote, Some(bio)) => {
                // A write in passthrough mode: the block is invalid, and the write goes to the origin.
                self.report.demotions += 1;
                self.policy.invalidate_mapping(work.cache_block);
                let to = self.on_origin(sim.bios[bio].sector);
                self.submit(sim, task, bio, tag::PASSED, &[to]);
            }
            _ => {
                let writeback = work.operation == Operation::Writeback;
                *(if writeback { &mut self.report.writebacks } else { &mut self.report.demotions }) += 1;
                self.clear_dirty(work.cache_block);
                self.policy.complete_background_work(work, true);
            }
        }
        self.unlock(sim, work.origin_block);
    }

    /// Another migration holds the block: the work is given up.
    fn give_up_migration(&mut self, sim: &mut Simulation, number: u32) {
        let Migration { work, bio, .. } = self.remove_migration(number);
        self.policy.complete_background_work(work, false);
        if let Some(bio) = bio {
            self.defer(sim, bio);
        }
    }

    fn remove_migration(&mut self, number: u32) -> Migration {
        let migration = self.migrations.all.remove(number);
        if migration.work.operation != Operation::Demote {
            self.migrations.copying -= 1;
        }
        migration
    }

    fn unlock(&mut self, sim: &mut Simulation, block: u64) {
        let waiting = self.locks.unlock(block);
        self.deferred.extend(waiting);
        sim.wake_worker(self.worker);
    }
}
