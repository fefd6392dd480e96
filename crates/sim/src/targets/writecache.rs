//! dm-writecache in SSD mode (drivers/md/dm-writecache.c, 6.1): the crate `cache` says where blocks go, this target does
//! the I/O.
//!
//! All bios are mapped under one lock, which commits hold until they are done. A commit writes the changed parts of the
//! metadata, waits for the data, flushes, and writes the superblock. Not simulated: reads of blocks that are not yet
//! durable wait for all writes to the cache.

use std::collections::{BTreeSet, VecDeque};
use std::mem::take;

use blklab_cache::{BlockWrite, NextWriteback, Run, Writecache as Cache, WritecacheSettings};
use serde::{Deserialize, Serialize};

use super::{BuildContext, Built, Node, TargetSpec};
use crate::bio::{Bio, Flags, Op, Owner};
use crate::engine::{Child, Limits, Mapped, Simulation, Target, WorkerNext};
use crate::events::Time;

/// `AUTOCOMMIT_MSEC` and `AUTOCOMMIT_BLOCKS_SSD`: a commit without a flush.
const AUTOCOMMIT: Time = 1_000_000_000;
const AUTOCOMMIT_BLOCKS: u64 = 65_536;
/// `WRITEBACK_LATENCY`: blocks of one round of writeback. The next round waits for them.
const ROUND: u64 = 64;
/// `PAUSE_WRITEBACK`: no writeback while writes go around the cache, nor so long after.
const PAUSE: Time = 3_000_000_000;
/// Sectors of the parts in which the metadata is written (`BITMAP_GRANULARITY`), and of the superblock.
const PART: u64 = 128;
const SUPERBLOCK: u64 = 8;

/// A device with a dm-writecache. The names are those of its table.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Writecache {
    /// Its name in results.
    pub name: String,
    /// The slow device or stack.
    pub origin: Box<Node>,
    /// The fast device or stack.
    pub cache: Box<Node>,
    /// Bytes of a block: a power of two, 512 to 4,096.
    pub block: u64,
    /// Percentage of the blocks in use at which writeback starts.
    pub high_watermark: u64,
    /// Percentage of the blocks in use at which writeback stops.
    pub low_watermark: u64,
    /// Age in ns from which blocks are written back anyway; `null`: no age.
    pub max_age_ns: Option<Time>,
}

/// What a writecache counted, in the words of `dmsetup status`; blocks, except for flushes and what is blocked.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct WritecacheReport {
    /// Its name.
    pub name: String,
    /// Blocks of the cache.
    pub blocks: u64,
    /// Free blocks at the end.
    pub free_blocks: u64,
    /// Blocks that are being written back at the end.
    pub writeback_blocks: u64,
    /// Blocks read.
    pub reads: u64,
    /// Blocks read from the cache.
    pub read_hits: u64,
    /// Blocks written.
    pub writes: u64,
    /// Blocks written over a cached block that was not yet committed.
    pub write_hits_uncommitted: u64,
    /// Blocks written over a cached block that was committed.
    pub write_hits_committed: u64,
    /// Blocks written to the origin, because no block of the cache was free.
    pub writes_around: u64,
    /// Blocks written to a free block of the cache.
    pub writes_allocate: u64,
    /// Bios that waited for a free block.
    pub writes_blocked_on_freelist: u64,
    /// Flushes.
    pub flushes: u64,
    /// Blocks discarded.
    pub discards: u64,
    /// Blocks written back to the origin; the kernel does not show them.
    pub writebacks: u64,
    /// Commits that wrote mappings; the kernel does not show them.
    pub commits: u64,
    /// Writes of metadata, of up to 64 KiB each; the kernel does not show them.
    pub metadata_writes: u64,
}

/// The purpose of a bio that the target owns.
mod tag {
    pub const PIECE: u8 = 0; // A piece of a bio: the number is the bio's
    pub const CACHED: u8 = 1; // The same, a write to the cache
    pub const AROUND: u8 = 2; // The same, a write to the origin
    pub const COPY_READ: u8 = 3; // A copy of a writeback: the number is the copy's
    pub const COPY_WRITE: u8 = 4;
    pub const STEP: u8 = 5; // A step of a commit
}

/// The steps of commits (`writecache_flush`), and of the end of writebacks (`writecache_endio_thread`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    FlushOrigin, // The only step without the lock
    Free,
    Metadata,
    Writes, // Waiting for writes to the cache
    FlushCache,
    Superblock,
    Committed,
}

/// A dm-writecache in a running simulation.
#[derive(Debug, Default)]
pub struct WritecacheTarget {
    id: u16,
    origin: Child,
    device: Child,
    block: u64,      // Sectors of a block
    data_start: u64, // Sectors of the metadata
    high_free: u64,  // Free blocks at which writeback starts
    pause: Time,
    cache: Cache,
    waiting: VecDeque<u32>, // Bios that wait for the lock, or for a free block
    flushes: Vec<u32>,
    changed: BTreeSet<u64>, // Parts of the metadata
    steps: VecDeque<Step>,
    step_ios: u32,
    is_locked: bool,
    commit_due: Option<Time>,
    timer_at: Option<Time>,
    cached_in_flight: u32, // Writes to the cache
    around_in_flight: u32, // Writes to the origin, and until when they pause writeback
    paused_until: Time,
    copies: Vec<Run>,
    copies_in_flight: u32,
    copied: Vec<u32>,   // Copies that were read and must be written
    written: Vec<Run>,  // Copies that were written,
    released: Vec<Run>, // and those of which the origin is flushed
    worker: u32,
    report: WritecacheReport,
}

impl Target for WritecacheTarget {
    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        self.worker = new_worker(0);
    }

    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        if self.is_locked {
            self.waiting.push_back(number);
            return Mapped::Taken;
        }
        let bio = sim.bios[number];
        let blocks = bio.sector / self.block..bio.end().div_ceil(self.block);
        match bio.op {
            Op::Flush => {
                self.report.flushes += 1;
                self.flushes.push(number);
                sim.bios[number].remaining = 1; // The commit's part
                self.commit_due = Some(sim.now);
                sim.wake_worker(self.worker);
                self.submit_piece(sim, task, &bio, number, (blocks.start, 0), None);
            }
            Op::Discard => {
                self.report.discards += blocks.end - blocks.start;
                self.changed.extend(self.cache.discard(blocks.clone()).into_iter().map(metadata_part));
                self.submit_piece(sim, task, &bio, number, (blocks.start, blocks.end - blocks.start), None);
            }
            Op::Read => self.map_read(sim, task, number, blocks),
            Op::Write => self.map_write(sim, task, number, blocks),
        }
        Mapped::Taken
    }

    fn end_io(&mut self, sim: &mut Simulation, part: &Bio) {
        let Owner::Target { tag, number, .. } = part.owner else { unreachable!("{part:?}") };
        let wakes = match tag {
            tag::STEP => {
                self.step_ios -= 1;
                self.step_ios == 0
            }
            tag::COPY_READ => {
                self.copied.push(number);
                true
            }
            tag::COPY_WRITE => {
                self.written.push(self.copies[number as usize]);
                self.copies_in_flight -= 1;
                true
            }
            tag::CACHED => {
                self.cached_in_flight -= 1;
                self.is_locked && self.cached_in_flight == 0
            }
            tag::AROUND => {
                self.around_in_flight -= 1;
                self.paused_until = sim.now + self.pause;
                self.around_in_flight == 0
            }
            _ => false,
        };
        if tag <= tag::AROUND && sim.count_part(number, part) {
            sim.complete(number);
        }
        if wakes {
            sim.wake_worker(self.worker);
        }
    }

    fn timer(&mut self, sim: &mut Simulation, _timer: u32) {
        self.timer_at = None;
        sim.wake_worker(self.worker);
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, _worker: u32) -> WorkerNext {
        for copy in take(&mut self.copied) {
            let run = self.copies[copy as usize];
            let (sector, sectors) = (run.block * self.block, run.blocks * self.block);
            self.submit_own(sim, task, (Op::Write, self.origin, sector, sectors), tag::COPY_WRITE, copy);
        }
        self.advance(sim, task);
        self.write_back(sim, task);
        self.set_timer(sim);
        WorkerNext::Sleep
    }
}

impl WritecacheTarget {
    /// A read (`writecache_map_read`): pieces that are cached and pieces that are not, in turn.
    fn map_read(&mut self, sim: &mut Simulation, task: u32, number: u32, blocks: std::ops::Range<u64>) {
        let (bio, mut block) = (sim.bios[number], blocks.start);
        while block < blocks.end {
            let slot = self.cache.slot(block);
            let end = match slot {
                Some(slot) => (block + 1..blocks.end)
                    .find(|&next| self.cache.slot(next) != Some(slot + next - block))
                    .unwrap_or(blocks.end),
                None => self.cache.next_cached(block).map_or(blocks.end, |next| next.min(blocks.end)),
            };
            let hits = if slot.is_some() { end - block } else { 0 };
            self.report.reads += end - block;
            self.report.read_hits += hits;
            sim.record_lookups(hits, end - block - hits);
            self.submit_piece(sim, task, &bio, number, (block, end - block), slot);
            block = end;
        }
    }

    /// A write (`writecache_map_write`): to the cache, unless no block is free.
    fn map_write(&mut self, sim: &mut Simulation, task: u32, number: u32, blocks: std::ops::Range<u64>) {
        let (free, _) = self.cache.usage();
        if free < blocks.end - blocks.start && blocks.clone().any(|block| self.cache.is_being_written_back(block)) {
            self.report.writes_blocked_on_freelist += 1;
            return self.waiting.push_back(number);
        }
        let bio = sim.bios[number];
        let mut pieces: Vec<(u64, u64, Option<u64>)> = Vec::with_capacity(1);
        for block in blocks {
            self.report.writes += 1;
            let report = &mut self.report;
            let (count, slot) = match self.cache.write(sim.now, block) {
                BlockWrite::Overwritten { slot, committed: true } => (&mut report.write_hits_committed, Some(slot)),
                BlockWrite::Overwritten { slot, .. } => (&mut report.write_hits_uncommitted, Some(slot)),
                BlockWrite::Allocated { slot } => {
                    self.changed.insert(metadata_part(slot));
                    (&mut report.writes_allocate, Some(slot))
                }
                BlockWrite::Around => (&mut report.writes_around, None),
            };
            *count += 1;
            match pieces.last_mut() {
                Some((_, count, first)) if slot == first.map(|first| first + *count) => *count += 1,
                _ => pieces.push((block, 1, slot)),
            }
        }
        for (block, count, slot) in pieces {
            sim.record_lookups(slot.map_or(0, |_| count), slot.map_or(count, |_| 0));
            self.submit_piece(sim, task, &bio, number, (block, count), slot);
        }
        let (free, writing) = self.cache.usage();
        let writes_back = free + writing <= self.high_free && self.copies_in_flight == 0 && !self.is_paused(sim.now);
        if writes_back || self.cache.uncommitted().0 >= AUTOCOMMIT_BLOCKS {
            sim.wake_worker(self.worker);
        }
        if self.commit_due.is_none() {
            self.commit_due = Some(sim.now + AUTOCOMMIT);
            self.set_timer(sim);
        }
    }

    /// Does the steps of a commit as far as they need no waiting, and maps what waited for the lock.
    fn advance(&mut self, sim: &mut Simulation, task: u32) {
        while self.step_ios == 0 {
            let Some(&step) = self.steps.front() else {
                if take(&mut self.is_locked) {
                    for number in take(&mut self.waiting) {
                        self.map(sim, task, number);
                    }
                }
                if !self.plan_steps(sim.now) {
                    return;
                }
                continue;
            };
            self.is_locked = step != Step::FlushOrigin;
            if step == Step::Writes && self.cached_in_flight > 0 {
                return;
            }
            self.steps.pop_front();
            self.run_step(sim, task, step);
        }
    }

    /// Plans a commit, or the end of writebacks. False if there is nothing to do.
    fn plan_steps(&mut self, now: Time) -> bool {
        use Step::{Committed, FlushCache, FlushOrigin, Free, Metadata, Superblock, Writes};
        let (mappings, data) = self.cache.uncommitted();
        let steps: &[Step] = if self.commit_due.is_some_and(|due| due <= now) || mappings >= AUTOCOMMIT_BLOCKS {
            self.commit_due = None;
            match (mappings, data) {
                (0, false) => &[Committed],
                (0, true) => &[Writes, FlushCache, Committed],
                _ => &[Metadata, Writes, FlushCache, Superblock, Committed],
            }
        } else if !self.written.is_empty() {
            self.released = take(&mut self.written);
            &[FlushOrigin, Free, Metadata, FlushCache]
        } else {
            return false;
        };
        self.steps.extend(steps);
        true
    }

    fn run_step(&mut self, sim: &mut Simulation, task: u32, step: Step) {
        match step {
            Step::FlushOrigin => self.submit_step(sim, task, (Op::Flush, self.origin, 0, 0), Flags::SYNC),
            Step::FlushCache => self.submit_step(sim, task, (Op::Flush, self.device, 0, 0), Flags::SYNC),
            Step::Superblock => {
                self.report.commits += 1;
                self.submit_step(sim, task, (Op::Write, self.device, 0, SUPERBLOCK), Flags::SYNC.with(Flags::FUA));
            }
            Step::Metadata => {
                for part in take(&mut self.changed) {
                    let sectors = PART.min(self.data_start - part * PART);
                    self.submit_step(sim, task, (Op::Write, self.device, part * PART, sectors), Flags::SYNC);
                }
            }
            Step::Writes => {}
            Step::Free => {
                for run in take(&mut self.released) {
                    self.report.writebacks += run.blocks;
                    self.changed.extend((run.slot..run.slot + run.blocks).map(metadata_part));
                    self.cache.complete_writeback(run);
                }
            }
            Step::Committed => {
                self.cache.commit();
                take(&mut self.flushes).into_iter().for_each(|number| sim.end_part(number));
            }
        }
    }

    fn submit_step(&mut self, sim: &mut Simulation, task: u32, io: (Op, Child, u64, u64), flags: Flags) {
        self.step_ios += 1;
        self.report.metadata_writes += u64::from(io.0 == Op::Write);
        let owner = Owner::Target { target: self.id, tag: tag::STEP, number: 0 };
        sim.submit_new(task, (io.0, io.1.target, io.2, io.3 as u32), flags, owner);
    }

    /// Starts a round of writeback, if the last one is copied.
    fn write_back(&mut self, sim: &mut Simulation, task: u32) {
        if self.copies_in_flight > 0 || self.is_locked || self.is_paused(sim.now) {
            return;
        }
        self.copies.clear();
        let mut blocks = 0;
        while blocks < ROUND
            && let Some(next) = self.cache.next_writeback(sim.now)
        {
            let NextWriteback::Copy(run) = next else {
                self.commit_due = Some(sim.now);
                return self.advance(sim, task);
            };
            blocks += run.blocks;
            self.copies.push(run);
            self.copies_in_flight += 1;
            let (sector, sectors) = (self.data_start + run.slot * self.block, run.blocks * self.block);
            let copy = self.copies.len() as u32 - 1;
            self.submit_own(sim, task, (Op::Read, self.device, sector, sectors), tag::COPY_READ, copy);
        }
    }

    fn is_paused(&self, now: Time) -> bool {
        self.pause > 0 && (self.around_in_flight > 0 || now < self.paused_until)
    }

    /// Sets the timer for the next commit, the end of the pause, or the age of the oldest block.
    fn set_timer(&mut self, sim: &mut Simulation) {
        let age = self.cache.next_due().map(|due| due.max(self.paused_until));
        let times = [self.commit_due, Some(self.paused_until), age];
        let Some(next) = times.into_iter().flatten().filter(|&at| at > sim.now).min() else { return };
        if self.timer_at.is_none_or(|at| at > next) {
            self.timer_at = Some(next);
            sim.set_timer(next, self.id, 0);
        }
    }

    /// Submits some blocks of a bio: to the cache at `slot`, or to the origin.
    fn submit_piece(
        &mut self, sim: &mut Simulation, task: u32, bio: &Bio, number: u32, (block, blocks): (u64, u64),
        slot: Option<u64>,
    ) {
        let start = bio.sector.max(block * self.block);
        let sectors = bio.end().min((block + blocks) * self.block).saturating_sub(start) as u32;
        let (child, sector) = match slot {
            Some(slot) => (self.device, self.data_start + slot * self.block + start - block * self.block),
            None => (self.origin, start),
        };
        let tag = match (bio.op, slot) {
            (Op::Write, Some(_)) => {
                self.cached_in_flight += 1;
                tag::CACHED
            }
            (Op::Write, None) => {
                self.around_in_flight += 1;
                tag::AROUND
            }
            _ => tag::PIECE,
        };
        sim.bios[number].remaining += 1;
        let owner = Owner::Target { target: self.id, tag, number };
        let piece = sim.bios.add(bio.clone_for(child.target, sector, sectors, owner));
        sim.submit(task, piece);
    }

    /// Submits an I/O of the target: the operation, the device, the first sector, and how many.
    fn submit_own(&self, sim: &mut Simulation, task: u32, io: (Op, Child, u64, u64), tag: u8, number: u32) {
        let flags = if tag == tag::COPY_WRITE { Flags::default() } else { Flags::SYNC };
        let owner = Owner::Target { target: self.id, tag, number };
        sim.submit_new(task, (io.0, io.1.target, io.2, io.3 as u32), flags, owner);
    }
}

/// The part of the metadata in which a slot is described, with 16 bytes behind the superblock's 64.
fn metadata_part(slot: u64) -> u64 {
    (64 + 16 * slot) / (PART * 512)
}

impl TargetSpec for Writecache {
    type Target = WritecacheTarget;
    type Report = WritecacheReport;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.origin), Some(&self.cache)]
    }

    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<WritecacheTarget> {
        let wrong = |problem: &str| Err(format!("{}: {problem}", self.name));
        let &[Some(origin), Some(device)] = children else {
            return wrong("a writecache needs an origin and a cache device");
        };
        let sizes = |job: &crate::load::Job| [&job.read_sizes[..], &job.write_sizes].concat();
        let misfits = |&(bytes, _): &(u32, f64)| u64::from(bytes) % self.block.max(1) != 0;
        let bad_block = !(512..=4096).contains(&self.block) || !self.block.is_power_of_two();
        let bad_marks = self.low_watermark > self.high_watermark || self.high_watermark > 100;
        let is_misfit = |job| sizes(job).iter().chain(&[(job.align, 0.0)]).any(misfits);
        let rules = [
            (!context.kernel.has_writecache(), "the kernel has no dm-writecache: expected 4.18 or later"),
            (bad_block, "a block must be a power of two from 512 B to 4 KiB"),
            (bad_marks, "the watermarks must be percentages, the low one at most the high one"),
            (context.jobs.iter().any(is_misfit), "I/Os must be whole blocks: use a larger bs, or a smaller block"),
        ];
        if let Some((_, why)) = rules.into_iter().find(|&(is_broken, _)| is_broken) {
            return wrong(why);
        }
        // `calculate_memory_size`: the metadata, rounded to blocks, and the blocks.
        let bytes = device.limits.sectors * 512;
        let metadata = |blocks: u64| (64 + 16 * blocks).next_multiple_of(self.block);
        let mut blocks = bytes / (self.block + 16);
        while blocks > 0 && metadata(blocks) + blocks * self.block > bytes {
            blocks -= 1;
        }
        if blocks == 0 {
            return wrong("the cache device is too small");
        }
        let (high_watermark, low_watermark) = (self.high_watermark, self.low_watermark);
        let settings = WritecacheSettings { blocks, high_watermark, low_watermark, max_age_ns: self.max_age_ns };
        let block = self.block / 512;
        let cpu_ns = origin.limits.cpu_ns.max(device.limits.cpu_ns) + context.host.md_ns;
        let limits = Limits { sectors: origin.limits.sectors / block * block, cpu_ns, fast: true, ..origin.limits };
        let target = WritecacheTarget {
            id,
            origin,
            device,
            block,
            data_start: metadata(blocks) / 512,
            high_free: (blocks * (100 - high_watermark) + 50) / 100,
            pause: if context.kernel.writecache_pauses() { PAUSE } else { 0 },
            cache: Cache::new(settings),
            report: WritecacheReport { name: self.name.clone(), blocks, ..WritecacheReport::default() },
            ..WritecacheTarget::default()
        };
        Ok((target, limits))
    }

    fn report(target: &WritecacheTarget) -> WritecacheReport {
        let (free_blocks, writeback_blocks) = target.cache.usage();
        WritecacheReport { free_blocks, writeback_blocks, ..target.report.clone() }
    }
}

#[cfg(test)]
mod tests;
