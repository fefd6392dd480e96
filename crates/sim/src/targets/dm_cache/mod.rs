//! dm-cache (drivers/md/dm-cache-target.c, 4.12 to 6.12): a policy of the crate `cache` decides, this target does it.
//!
//! Bios are split at block borders, looked up, and go to the origin or the cache. Each holds its block until it is done.
//! A worker starts the policy's work: promotions, demotions and writebacks.

mod commit;
mod locks;
mod migration;
mod spec;

use std::collections::VecDeque;

use blklab_cache::{Access, CacheMode, Lookup, Operation, Policy, SmqKernel, Work, find_policy};
use serde::Serialize;

use crate::bio::{Bio, Op, Owner};
use crate::engine::{Child, Limits, Mapped, Simulation, Target, WorkerNext};
use crate::events::Time;
use crate::targets::locks::{LockUse, Locks, Moment};
use crate::targets::{BuildContext, Built};
use commit::Metadata;
use locks::BlockLocks;
use migration::Migrations;

pub use spec::{Geometry, LvmCache};

/// The worker commits and ticks at least this often (`do_waker`, COMMIT_PERIOD).
const PERIOD: Time = 1_000_000_000;
/// The cache is idle if no bio was in flight for this long (`dm_iot_idle_for`).
const IDLE: Time = 1_000_000_000;
/// Most discard blocks (`calculate_discard_block_size`, MAX_DISCARD_BLOCKS).
const DISCARD_BLOCKS: u64 = 1 << 14;

/// The purpose of a bio that the target owns.
mod tag {
    /// A part of a bio that holds its block: the number is the bio's.
    pub const MAPPED: u8 = 0;
    /// A part of a bio that holds no block.
    pub const PASSED: u8 = 1;
    /// The metadata's.
    pub const COMMIT: u8 = 2;
    /// A copy of a migration: the number is the part's.
    pub const COPY_READ: u8 = 3;
    pub const COPY_WRITE: u8 = 4;
    /// A write that promotes its block: the number is the migration's.
    pub const OVERWRITE: u8 = 5;
}

/// Sectors of a physical volume before its first extent, LVM's default.
const DATA_START: u64 = 2048;

/// A child and a sector of it.
type Place = (Child, u64);

/// The target's data of a bio.
mod bio_state {
    /// It carries the tick.
    pub const TICKS: u32 = 1;
    /// It counts as I/O in flight.
    pub const TRACKED: u32 = 2;
}

/// What a cache counted, in the words of `dmsetup status`.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct LvmCacheReport {
    /// Its name.
    pub name: String,
    /// Blocks of the cache.
    pub blocks: u64,
    /// Blocks that hold data at the end.
    pub used_blocks: u64,
    /// Reads of cached blocks.
    pub read_hits: u64,
    /// Reads of blocks that were not cached.
    pub read_misses: u64,
    /// Writes to cached blocks.
    pub write_hits: u64,
    /// Writes to blocks that were not cached.
    pub write_misses: u64,
    /// Blocks removed from the cache.
    pub demotions: u64,
    /// Blocks copied to the cache, or first written there.
    pub promotions: u64,
    /// Dirty blocks at the end.
    pub dirty: u64,
    /// Blocks written back to the origin; the kernel does not show them.
    pub writebacks: u64,
    /// Writes to the metadata volume, as its statistics count them: blocks of 4 KiB, and flushes.
    pub metadata_writes: u64,
    /// Bios that waited for a migration of their block.
    pub waited: u64,
    /// How its locks were used; those of blocks are not counted.
    pub locks: Vec<LockUse>,
}

/// A dm-cache in a running simulation.
pub struct DmCache {
    id: u16,
    origin: Child,
    cache: Child,
    geometry: Geometry,
    mode: CacheMode,
    threshold: u64,
    age_ns: Time,           // The policy's time when the run begins
    migrates_in_map: bool,  // Until 4.11 a bio starts migrations when it is mapped, and waits for them
    throttles_worker: bool, // In 4.12-rc1 the worker starts none above the threshold, unless the cache is idle
    tracks_all: bool,       // Whether all I/O counts as I/O in flight, or only the origin's
    policy: Box<dyn Policy>,
    locks: BlockLocks,
    spin_locks: Locks,
    migrations: Migrations,
    metadata: Metadata,
    dirty: Vec<bool>,
    discarded: Vec<bool>, // Discarded regions of the origin, and the sectors of each
    discard_block: u64,
    deferred: VecDeque<u32>, // Bios that the worker maps: flushes, discards, and those that waited for a block
    tick_due: bool,          // The next bio carries the tick
    in_flight: u64,          // Bios in flight, and since when there are none (`dm_io_tracker`)
    idle_since: Time,
    timer_set: bool, // Whether the timer of the second is set, and whether it fired
    second_over: bool,
    worker: u32,
    report: LvmCacheReport,
}

impl Target for DmCache {
    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        self.worker = new_worker(0);
    }

    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        if !std::mem::replace(&mut self.timer_set, true) {
            sim.set_timer(sim.now + PERIOD - self.age_ns % PERIOD, self.id, 0);
        }
        let bio = &sim.bios[number];
        let (mut sector, end, block) = (bio.sector, bio.end(), self.geometry.block);
        if matches!(bio.op, Op::Flush | Op::Discard) {
            self.defer(sim, number);
        } else if sector % block + u64::from(bio.sectors) <= block {
            self.map_block(sim, task, number);
        } else {
            while sector < end {
                let border = (sector / block + 1) * block;
                sim.split(task, number, sector, (border.min(end) - sector) as u32);
                sector = border;
            }
        }
        Mapped::Taken
    }

    fn end_io(&mut self, sim: &mut Simulation, part: &Bio) {
        let Owner::Target { tag, number, .. } = part.owner else { unreachable!("{part:?}") };
        match tag {
            tag::COMMIT => {
                if self.metadata.end_io() {
                    sim.wake_worker(self.worker);
                }
            }
            tag::COPY_READ | tag::COPY_WRITE | tag::OVERWRITE => {
                if tag == tag::OVERWRITE && self.tracks_all {
                    self.end_tracked(sim.now);
                }
                self.migrations.end_io(tag, number);
                sim.wake_worker(self.worker);
            }
            _ => {
                if sim.count_part(number, part) {
                    self.end_bio(sim, number, tag == tag::MAPPED);
                }
            }
        }
    }

    fn timer(&mut self, sim: &mut Simulation, _timer: u32) {
        (self.timer_set, self.second_over) = (false, true);
        sim.wake_worker(self.worker);
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, _worker: u32) -> WorkerNext {
        if std::mem::take(&mut self.second_over) {
            self.policy.tick(self.age_ns + sim.now);
            self.metadata.request();
            // Without bios, migrations and dirty blocks nothing will change any more.
            let busy = self.in_flight > 0 || !self.migrations.is_empty() || self.report.dirty > 0;
            if busy || sim.now < self.idle_since + 2 * PERIOD {
                self.timer_set = true;
                sim.set_timer(sim.now + PERIOD, self.id, 0);
            }
        }
        loop {
            self.continue_migrations(sim, task);
            for number in std::mem::take(&mut self.deferred) {
                self.map_deferred(sim, task, number);
            }
            self.start_background_work(sim, task);
            if let Some(batch) = self.metadata.advance(sim, task) {
                for migration in batch.migrations {
                    self.end_commit(sim, task, migration);
                }
                for number in batch.flushes {
                    self.submit(sim, task, number, tag::PASSED, &[(self.origin, 0), (self.cache, 0)]);
                }
            } else if self.deferred.is_empty() && self.migrations.ready.is_empty() && self.migrations.read.is_empty() {
                return WorkerNext::Sleep;
            }
        }
    }
}

impl DmCache {
    /// A cache over its origin and its cache device, in its initial state.
    pub fn new(
        spec: &LvmCache, id: u16, [origin, cache]: [Child; 2], geometry: Geometry, context: &BuildContext,
    ) -> Built<Self> {
        let cpu_ns = origin.limits.cpu_ns.max(cache.limits.cpu_ns) + context.host.md_ns;
        let mut discard_block = geometry.block;
        while geometry.origin.div_ceil(discard_block) > DISCARD_BLOCKS {
            discard_block *= 2;
        }
        let name = spec.name.clone();
        let kernel = SmqKernel::parse(context.release)
            .ok_or_else(|| format!("{name}: kernel {} has no smq: expected 4.2 or later", context.release))?;
        let policy = find_policy(&spec.policy).ok_or_else(|| format!("{name}: no policy {:?}", spec.policy))?;
        let sizes = blklab_cache::Geometry {
            origin_blocks: geometry.origin / geometry.block,
            cache_blocks: geometry.cache_blocks,
            block_sectors: geometry.block as u32,
        };
        let mut target = Self {
            id,
            origin,
            cache,
            geometry,
            mode: spec.mode,
            threshold: spec.migration_threshold.unwrap_or((geometry.block * 8).max(2048)),
            age_ns: spec.age_ns,
            migrates_in_map: kernel.replaces(),
            throttles_worker: kernel < SmqKernel::TracksAllIo,
            tracks_all: kernel >= SmqKernel::TracksAllIo,
            policy: policy(sizes, kernel),
            locks: BlockLocks::default(),
            spin_locks: Locks::new(&["dm-cache".into()], context, 0),
            migrations: Migrations::default(),
            metadata: Metadata::new(id, tag::COMMIT, cache, 0, geometry.metadata),
            dirty: vec![false; geometry.cache_blocks as usize],
            discarded: vec![false; geometry.origin.div_ceil(discard_block) as usize],
            discard_block,
            deferred: VecDeque::new(),
            tick_due: true,
            in_flight: 0,
            idle_since: 0,
            timer_set: false,
            second_over: false,
            worker: 0,
            report: LvmCacheReport { name, blocks: u64::from(geometry.cache_blocks), ..LvmCacheReport::default() },
        };
        target.policy.allow_migrations(spec.mode != CacheMode::Passthrough);
        target.fill(spec.state, context.jobs)?;
        Ok((target, Limits { sectors: geometry.origin, cpu_ns, fast: true, ..origin.limits }))
    }

    fn defer(&mut self, sim: &mut Simulation, number: u32) {
        self.deferred.push_back(number);
        sim.wake_worker(self.worker);
    }

    fn map_deferred(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        match sim.bios[number].op {
            Op::Flush => self.metadata.hold().flushes.push(number),
            Op::Discard => {
                let bio = &sim.bios[number];
                let (first, end) = (bio.sector.div_ceil(self.discard_block), bio.end() / self.discard_block);
                self.discarded.iter_mut().take(end as usize).skip(first as usize).for_each(|mark| *mark = true);
                let to = self.on_origin(sim.bios[number].sector);
                self.submit(sim, task, number, tag::PASSED, &[to]);
            }
            _ => self.map_block(sim, task, number),
        }
    }

    /// Maps a bio within one block: `map_bio`.
    fn map_block(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        let bio = sim.bios[number];
        let (block, offset) = (bio.sector / self.geometry.block, bio.sector % self.geometry.block);
        if bio.sector - offset + self.geometry.block > self.geometry.origin {
            return self.submit(sim, task, number, tag::PASSED, &[self.on_origin(bio.sector)]);
        }
        let (write, on_origin) = (bio.op == Op::Write, self.on_origin(bio.sector));
        self.spin_locks.take(sim, task, if write { Moment::Write } else { Moment::Read }, 1, 0);
        if !self.locks.share(block, write, number) {
            self.report.waited += 1;
            self.metadata.request();
            return sim.wake_worker(self.worker);
        }
        // Whether a write can promote its block without a copy (`optimisable_bio`).
        let fast_copy = write
            && self.mode == CacheMode::Writeback
            && (u64::from(bio.sectors) == self.geometry.block || *self.discard_mark(block));
        let access = Access { block, sector: bio.sector, sectors: bio.sectors, write, fast_copy };
        if self.migrates_in_map {
            self.policy.allow_migrations(self.mode != CacheMode::Passthrough && !self.is_over_threshold());
        }
        let lookup = if access.fast_copy {
            let (lookup, work) = self.policy.lookup_with_work(access);
            if let Some(work) = work {
                self.put_block(sim, block);
                return self.start_migration(sim, task, work, Some(number));
            }
            lookup
        } else {
            self.policy.lookup(access)
        };
        let Lookup::Hit(cache_block) = lookup else {
            if lookup == (Lookup::Miss { background_work: true }) && self.queue_work(sim, task, number) {
                return;
            }
            self.count_miss(sim, write);
            if write {
                *self.discard_mark(block) = false;
            }
            return self.submit(sim, task, number, tag::MAPPED, &[on_origin]);
        };
        *(if write { &mut self.report.write_hits } else { &mut self.report.read_hits }) += 1;
        sim.record_lookups(1, 0);
        let on_cache = self.on_cache(cache_block, offset);
        let both = write && self.mode == CacheMode::Writethrough && !self.dirty[cache_block as usize];
        match self.mode {
            CacheMode::Passthrough if write => {
                self.put_block(sim, block);
                let work = Work { operation: Operation::Demote, origin_block: block, cache_block };
                self.start_migration(sim, task, work, Some(number));
            }
            CacheMode::Passthrough => self.submit(sim, task, number, tag::MAPPED, &[on_origin]),
            _ if both => self.submit(sim, task, number, tag::MAPPED, &[on_origin, on_cache]),
            _ => {
                if write {
                    self.set_dirty(cache_block);
                }
                self.submit(sim, task, number, tag::MAPPED, &[on_cache]);
            }
        }
    }

    /// A miss has queued work. Returns whether the bio waits for it: until 4.11 it waits for its block's promotion.
    fn queue_work(&mut self, sim: &mut Simulation, task: u32, number: u32) -> bool {
        if !self.migrates_in_map {
            sim.wake_worker(self.worker);
            return false;
        }
        let bio = sim.bios[number];
        let block = bio.sector / self.geometry.block;
        self.put_block(sim, block);
        while let Some(work) = self.policy.get_background_work(false) {
            self.start_migration(sim, task, work, None);
        }
        if self.locks.share(block, bio.op == Op::Write, number) {
            self.count_miss(sim, bio.op == Op::Write);
            self.submit(sim, task, number, tag::MAPPED, &[self.on_origin(bio.sector)]);
        }
        true
    }

    fn count_miss(&mut self, sim: &mut Simulation, write: bool) {
        *(if write { &mut self.report.write_misses } else { &mut self.report.read_misses }) += 1;
        sim.record_lookups(0, 1);
    }

    /// Whether another copy would exceed the migration threshold.
    fn is_over_threshold(&self) -> bool {
        (self.migrations.copying + 1) * self.geometry.block > self.threshold
    }

    /// Whether the block's region is discarded.
    fn discard_mark(&mut self, block: u64) -> &mut bool {
        &mut self.discarded[(block * self.geometry.block / self.discard_block) as usize]
    }

    fn on_origin(&self, sector: u64) -> Place {
        (self.origin, DATA_START + sector)
    }

    fn on_cache(&self, cache_block: u32, offset: u64) -> Place {
        (self.cache, DATA_START + self.geometry.metadata + u64::from(cache_block) * self.geometry.block + offset)
    }

    /// Sends a bio to one or two places. It is done when all its parts are.
    fn submit(&mut self, sim: &mut Simulation, task: u32, number: u32, tag: u8, places: &[Place]) {
        let mut state = if std::mem::take(&mut self.tick_due) { bio_state::TICKS } else { 0 };
        if self.tracks_all || places.iter().any(|place| place.0.target == self.origin.target) {
            self.in_flight += 1;
            state |= bio_state::TRACKED;
        }
        sim.bios[number].remaining = places.len() as u32;
        sim.bios[number].private = state;
        for &(child, sector) in places {
            let bio = &sim.bios[number];
            let owner = Owner::Target { target: self.id, tag, number };
            let part = bio.clone_for(child.target, sector, bio.sectors, owner);
            let part = sim.bios.add(part);
            sim.submit(task, part);
        }
    }

    /// A bio is done: `cache_end_io`.
    fn end_bio(&mut self, sim: &mut Simulation, number: u32, holds_block: bool) {
        let bio = &sim.bios[number];
        let (block, state) = (bio.sector / self.geometry.block, bio.private);
        if holds_block {
            let (task, moment) = (bio.task, if bio.op == Op::Write { Moment::WriteEnd } else { Moment::ReadEnd });
            self.spin_locks.take(sim, task, moment, 1, 0);
        }
        if state & bio_state::TICKS != 0 {
            self.policy.tick(self.age_ns + sim.now);
            self.tick_due = true;
        }
        if state & bio_state::TRACKED != 0 {
            self.end_tracked(sim.now);
        }
        sim.complete(number);
        if holds_block {
            self.put_block(sim, block);
        }
    }

    fn end_tracked(&mut self, now: Time) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.idle_since = now;
        }
    }

    fn put_block(&mut self, sim: &mut Simulation, block: u64) {
        if let Some(migration) = self.locks.put(block) {
            self.migrations.ready.push(migration);
            sim.wake_worker(self.worker);
        }
    }

    fn set_dirty(&mut self, cache_block: u32) {
        if !std::mem::replace(&mut self.dirty[cache_block as usize], true) {
            self.report.dirty += 1;
            self.policy.set_dirty(cache_block);
        }
    }

    fn clear_dirty(&mut self, cache_block: u32) {
        if std::mem::take(&mut self.dirty[cache_block as usize]) {
            self.report.dirty -= 1;
            self.policy.clear_dirty(cache_block);
        }
    }
}

#[cfg(test)]
mod tests;
