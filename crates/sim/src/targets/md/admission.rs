//! Admission of bios to an array: the superblock, the barrier of a sync, the bitmap or the stripe cache can hold a bio
//! back.

use super::{Array, MAPPED, Redundancy, bio_state, tag};
use crate::bio::{Bio, Op};
use crate::engine::{PlugAfter, Plugged, Simulation, WaitList, WorkerNext};
use crate::events::Time;

/// The plug token for the bitmap; other tokens are entries of the stripe cache.
pub const HELD_FOR_BITMAP: u32 = u32::MAX;

/// A tick of the kernel's clock, and how many an array is without writes before it turns clean (`DEFAULT_SAFEMODE_DELAY`
/// at 250 a second): one to two times as many, because the timer is set to multiples (`md_write_end`).
const TICK: Time = 4_000_000;
const SAFEMODE_TICKS: Time = 51;

/// Whether the members' superblocks say that an array is clean. The first write after that waits until they do not
/// (`md_write_start`). Not of RAID-0 and linear arrays.
#[derive(Default)]
pub struct Safemode {
    pub task: u32,  // The array's thread, which writes the superblocks (`md_update_sb`)
    is_clean: bool, // `in_sync`
    updating: bool, // Whether superblocks are being written
    steps: u32,     // Flushes of the members, and writes, that are left to do for that
    in_flight: u32, // Bios of this step
    writes: u32,    // Writes of the array in flight, and when the last one ended
    ended: Time,
    timer: bool, // Whether the timer is set
    waiting: WaitList,
}

impl Safemode {
    /// When the timer is due.
    fn due(&self) -> Time {
        ((self.ended / TICK).next_multiple_of(SAFEMODE_TICKS) + SAFEMODE_TICKS) * TICK
    }
}

/// The result of [`Array::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Pass,  // The bio is mapped
    Taken, // The array holds it
    Done,  // It is already done
    Wait,  // The task must wait and come back with the bio
}

impl Array {
    /// Whether reads, and other bios, can be held back, so that `admit` must be called.
    pub fn can_hold_bios(&mut self) -> [bool; 2] {
        let all = self.stripes().is_some() || self.barrier.is_some() || self.bitmap.is_some();
        [all, all || self.safemode.is_some()]
    }

    /// Decides what happens to a bio before it is mapped.
    pub fn admit(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Admission {
        let bio = sim.bios[number];
        if bio.op == Op::Flush {
            return Admission::Pass;
        }
        if self.bitmap.as_mut().is_some_and(|bitmap| bitmap.blocks(task)) {
            return Admission::Wait;
        }
        if let Some(safemode) = &mut self.safemode
            && bio.op != Op::Read
            && bio.private & bio_state::WRITES == 0
        {
            if safemode.is_clean || safemode.updating {
                safemode.waiting.add(task);
                sim.wake_worker(safemode.task);
                return Admission::Wait;
            }
            sim.bios[number].private |= bio_state::WRITES;
            safemode.writes += 1;
        }
        let is_new = bio.private & bio_state::COUNTED == 0;
        if is_new && let Some(barrier) = &mut self.barrier {
            if !barrier.enter(task, bio.sector, bio.op != Op::Read) {
                return Admission::Wait;
            }
            sim.bios[number].private |= bio_state::COUNTED;
        }
        if is_new && bio.op == Op::Write && self.bitmap.is_some() {
            sim.bios[number].private |= bio_state::COUNTED;
            let sectors = self.bitmap_sectors(&bio);
            let (degraded, by_thread) = (self.members.are_degraded(), self.threads.is_empty());
            if let Some(bitmap) = &mut self.bitmap
                && !bitmap.start_write(number, sectors, sim.now, degraded, by_thread && !bitmap.in_task(sim, task))
            {
                let callback = Plugged { target: self.members.id, token: HELD_FOR_BITMAP };
                sim.tasks[task as usize].callbacks.push(callback);
                return Admission::Taken;
            }
        }
        let id = self.members.id;
        let Some(stripes) = self.stripes() else { return Admission::Pass };
        if bio.op == Op::Discard {
            // raid5.c discards only if it is configured that all members read zeros afterwards.
            sim.bios[number].flags = bio.flags.with(crate::bio::Flags::FAILED);
            return Admission::Done;
        }
        // Reads bypass the cache only if no member is lost (`raid5_make_request` on `degraded`).
        if bio.op == Op::Read && stripes.missing | stripes.rebuilding == 0 {
            return Admission::Pass;
        }
        if bio.op == Op::Read {
            sim.bios[number].private |= bio_state::BY_ROWS;
        }
        let attached = stripes.attach(sim, task, number, id);
        if bio.op == Op::Write && attached != Admission::Wait {
            self.take_locks(sim, task, (bio.op, bio.sectors), MAPPED);
        }
        attached
    }

    /// Ends a bio that the barrier and the bitmap have counted.
    pub fn leave(&mut self, sim: &mut Simulation, bio: &Bio) {
        if let Some(barrier) = &mut self.barrier {
            barrier.leave(bio.sector);
        }
        let sectors = self.bitmap_sectors(bio);
        if bio.op == Op::Write && self.bitmap.as_mut().is_some_and(|bitmap| bitmap.end_write(sectors, sim.now)) {
            self.plan_bitmap_daemon(sim);
        }
        self.wake_sync_at_barrier(sim);
    }

    /// A write is done. The first one sets the timer after which the array turns clean.
    pub fn end_write(&mut self, sim: &mut Simulation) {
        let Some(safemode) = &mut self.safemode else { return };
        safemode.writes -= 1;
        safemode.ended = sim.now;
        if !std::mem::replace(&mut safemode.timer, true) {
            sim.run_worker_at(safemode.due(), safemode.task);
        }
    }

    /// The next step of the thread that writes superblocks: that of a bitmap before that of the array.
    pub fn update_superblock(&mut self, sim: &mut Simulation, task: u32) -> WorkerNext {
        let Some(safemode) = &mut self.safemode else { return WorkerNext::Sleep };
        if safemode.in_flight > 0 {
            return WorkerNext::Sleep;
        }
        if safemode.steps == 0 {
            safemode.updating = false;
            let due = safemode.timer && safemode.due() <= sim.now;
            safemode.timer &= !due;
            if safemode.is_clean && !safemode.waiting.is_empty() {
                safemode.is_clean = false;
            } else if due && safemode.writes == 0 {
                safemode.is_clean = true;
            } else {
                safemode.waiting.wake_all(sim);
                return if safemode.timer { WorkerNext::Until(safemode.due()) } else { WorkerNext::Sleep };
            }
            safemode.updating = true;
            safemode.steps = if self.bitmap.is_some() { 4 } else { 2 };
        }
        safemode.steps -= 1;
        let io = if safemode.steps % 2 == 1 { (Op::Flush, 0, 0) } else { (Op::Write, 0, 8) };
        safemode.in_flight = self.members.submit_metadata(sim, task, tag::SUPERBLOCK, io);
        // The step may be over before it sleeps.
        WorkerNext::Again { after: sim.host.md_ns, plug: PlugAfter::Ends, undisturbed: false }
    }

    /// A superblock, or the flush before it, is done.
    pub fn end_superblock_io(&mut self, sim: &mut Simulation) {
        if let Some(safemode) = &mut self.safemode {
            safemode.in_flight -= 1;
            if safemode.in_flight == 0 {
                sim.wake_worker(safemode.task);
            }
        }
    }

    /// The first and the last sector that a bio touches in the bitmap; with parity, sectors of members.
    fn bitmap_sectors(&mut self, bio: &Bio) -> (u64, u64) {
        let Redundancy::Parity(stripes) = self.level.redundancy() else {
            return (bio.sector, bio.end() - 1);
        };
        let (first, last) = (stripes.map.locate(bio.sector), stripes.map.locate(bio.end() - 1));
        if first.slot == last.slot {
            return (first.sector, last.sector);
        }
        let chunk = stripes.map.chunk();
        (first.sector / chunk * chunk, last.sector / chunk * chunk + chunk - 1)
    }
}

// The barrier between a mirror's sync and all other bios: `raise_barrier` and `wait_barrier` of drivers/md/raid1.c
// and raid10.c, Linux 6.1. RAID-1 has a barrier for every 64 MiB, and reads pass it; RAID-10 has one barrier, which
// holds reads too.

/// Sectors under one barrier of RAID-1 (`BARRIER_UNIT_SECTOR_BITS`).
const UNIT_BITS: u32 = 17;
/// `BARRIER_BUCKETS_NR`: units share the buckets.
const BUCKETS: usize = 1024;
/// `RESYNC_DEPTH`: pieces under one barrier.
const DEPTH: u32 = 32;

/// An array's barriers.
#[derive(Default)]
pub struct Barrier {
    single: bool,
    raised: Vec<u32>, // By bucket: pieces of the sync in flight, and other bios in flight
    pending: Vec<u32>,
    waiting: Vec<(usize, u32)>, // Waiting tasks by bucket
    pub entering: Vec<u32>,     // Tasks that have been released and have not entered yet
    pub woken: WaitList,        // Released tasks that the array must still wake
}

impl Barrier {
    /// RAID-10's single barrier, or RAID-1's barriers.
    pub fn new(single: bool) -> Self {
        let count = if single { 1 } else { BUCKETS };
        Self { single, raised: vec![0; count], pending: vec![0; count], ..Self::default() }
    }

    fn bucket(&self, sector: u64) -> usize {
        (sector >> UNIT_BITS) as usize % self.raised.len()
    }

    /// A task wants to submit a bio. False if it must wait.
    pub fn enter(&mut self, task: u32, sector: u64, write: bool) -> bool {
        let bucket = self.bucket(sector);
        if let Some(place) = self.entering.iter().position(|&other| other == task) {
            self.entering.swap_remove(place);
        } else if self.raised[bucket] > 0 && (write || self.single) {
            if !self.waiting.contains(&(bucket, task)) {
                self.waiting.push((bucket, task));
            }
            return false;
        }
        self.pending[bucket] += 1;
        true
    }

    /// Counts a completed bio.
    pub fn leave(&mut self, sector: u64) {
        let bucket = self.bucket(sector);
        self.pending[bucket] -= 1;
    }

    /// Whether other bios are in flight.
    pub fn is_pending(&self, sector: u64) -> bool {
        self.pending[self.bucket(sector)] > 0
    }

    /// Whether tasks wait here, or have been released and must enter (`nr_waiting`).
    pub fn has_waiters(&self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        !self.entering.is_empty() || self.waiting.iter().any(|waiting| waiting.0 == bucket)
    }

    /// Raises the barrier for the sync. False if tasks must enter first, or enough pieces are in flight.
    pub fn raise(&mut self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        if self.has_waiters(sector) || self.raised[bucket] >= DEPTH {
            return false;
        }
        self.raised[bucket] += 1;
        true
    }

    /// Lowers the barrier after a piece of the sync; the last piece releases the waiting tasks.
    pub fn lower(&mut self, sector: u64) {
        let bucket = self.bucket(sector);
        self.raised[bucket] -= 1;
        if self.raised[bucket] == 0 {
            let (entering, woken) = (&mut self.entering, &mut self.woken);
            self.waiting.retain(|&(other, task)| {
                if other == bucket {
                    entering.push(task);
                    woken.add(task);
                }
                other != bucket
            });
        }
    }
}

#[cfg(test)]
mod tests;
