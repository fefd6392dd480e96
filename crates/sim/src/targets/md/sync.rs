//! Resync, recovery and check: their I/O and their speed.
//!
//! drivers/md/md.c, Linux 6.1: `md_do_sync` for the speed, `is_mddev_idle` for whether other I/O uses the members;
//! `raid1_sync_request`, `raid10_sync_request` and raid5.c's `raid5_sync_request` for the reads and writes. A resync
//! of RAID-10 finds nearly all copies equal, and one of RAID-4, 5 and 6 nearly all parity correct, as after a crash:
//! these levels read everything and write only differences. RAID-1 writes all copies except the one that it reads. A
//! bitmap does not shorten a resync, and a member that is being rebuilt is not read before the end, except by rows of
//! the stripe cache.

use std::collections::VecDeque;

use super::member::MemberSlot;
use super::spec::{Md, SyncAction};
use super::stripes::ROW_SECTORS;
use super::{Array, Redundancy, tag};
use crate::arena::Numbered;
use crate::bio::{NONE, Op};
use crate::engine::{PlugAfter, Simulation, WorkerNext};
use crate::events::Time;
use blklab_md::map::MemberSector;

/// `RESYNC_BLOCK_SIZE`, in sectors.
pub const BLOCK: u64 = 128;

/// The interval of checking the speed: `window` of `md_do_sync`, in sectors.
const WINDOW: u64 = 256;
/// `SYNC_MARK_STEP`.
const MARK_STEP: Time = 3_000_000_000;
/// `SYNC_MARKS`.
const MARKS: usize = 10;
/// How long it sleeps so that waiting tasks can enter: a tick at 250 Hz.
const TICK: Time = 4_000_000;
/// `sync_io_depth`: sync I/Os in flight with which it does not give way.
pub const YIELDING_DEPTH: u64 = 32;
/// How long it sleeps if it is too fast.
const NAP: Time = 500_000_000;

/// The reads and then the writes of one piece.
#[derive(Clone, Debug, Default)]
pub struct SyncPiece {
    pub start: u64, // Its first sector: of the array, or in a recovery of RAID-10 of each member
    pub sectors: u64,
    pub reads: Vec<MemberSector>,  // The member sectors that are read
    pub writes: Vec<MemberSector>, // The member sectors that are then written
}

#[derive(Debug, Default)]
pub struct RunningSync {
    action: SyncAction,
    pub task: u32,
    speed_limits: (u64, u64), // Minimum and maximum in KiB/s for each member
    allowance: Option<u64>,   // Sectors in flight with which it does not give way to other I/O; none up to 6.15
    position: u64,            // The next sector, and the end
    end: u64,
    active: u64, // Sectors in flight (`recovery_active`)
    pieces: Numbered<SyncPiece>,
    ready: VecDeque<u32>,            // Pieces that have been read and must be written
    raised_piece: Option<SyncPiece>, // A piece with its barrier raised, while other bios are still pending
    checked_position: u64,
    marks: VecDeque<(Time, u64)>, // Times, and the sectors done at each
    pace_due: bool,               // Whether the speed must be checked before another piece begins
    draining: bool,               // Whether no piece begins until all are done
    nap: Time,
    yielded: bool,       // Whether it has slept a tick for the tasks that wait at the barrier
    at_barrier: bool,    // Whether it sleeps because of the barrier
    others: Vec<i64>,    // Sectors of other I/O on each member at the last check
    pub other_bios: u32, // Bios for the array that are in flight
}

impl RunningSync {
    /// The sync of a cell's array, which ends at sector `end`; `allowance` as in the field.
    pub fn new(md: &Md, end: u64, allowance: Option<u64>) -> Self {
        Self {
            action: md.sync,
            task: NONE,
            speed_limits: (md.sync_speed_min, md.sync_speed_max),
            allowance,
            end,
            marks: VecDeque::from([(0, 0)]),
            others: vec![0; md.members.len()],
            ..Self::default()
        }
    }

    /// KiB/s since the oldest mark, as `md_do_sync` calculates it.
    fn measure_speed(&mut self, now: Time) -> u64 {
        let done = self.position - self.active;
        if now >= self.marks.back().map_or(0, |mark| mark.0) + MARK_STEP {
            self.marks.push_back((now, done));
            if self.marks.len() > MARKS {
                self.marks.pop_front();
            }
        }
        let (since, before) = self.marks[0];
        (done - before) / 2 / ((now - since) / 1_000_000_000 + 1) + 1
    }

    /// Whether the members had no other I/O since the last check: up to 6.15 little, since then none in flight either.
    fn is_idle(&mut self, slots: &[MemberSlot]) -> bool {
        let (mut idle, least) = (true, if self.allowance.is_some() { 0 } else { 64 });
        for (last, slot) in self.others.iter_mut().zip(slots) {
            let others = slot.moved as i64 - slot.synced as i64;
            if others - *last > least {
                *last = others;
                idle = false;
            }
        }
        idle && (self.other_bios == 0 || self.allowance.is_none())
    }

    /// `None` if a piece can begin; otherwise what to do instead.
    fn check_pace(&mut self, now: Time, slots: &[MemberSlot]) -> Option<WorkerNext> {
        if self.draining && self.active > 0 {
            return Some(WorkerNext::Sleep);
        }
        self.draining = false;
        if now < self.nap {
            return Some(WorkerNext::Until(self.nap));
        }
        if !std::mem::take(&mut self.pace_due) {
            return None;
        }
        let speed = self.measure_speed(now);
        if speed > self.speed_limits.1 {
            (self.nap, self.pace_due) = (now + NAP, true);
            return Some(WorkerNext::Until(self.nap));
        }
        let over = self.active >= self.allowance.unwrap_or(1);
        let asks = speed > self.speed_limits.0 && (over || self.allowance.is_none());
        self.draining = asks && !self.is_idle(slots) && over;
        self.draining.then_some(WorkerNext::Sleep)
    }

    /// Counts sectors that have begun. True if the speed must be checked.
    fn count_begun(&mut self, sectors: u64) -> bool {
        self.position += sectors;
        self.active += sectors;
        if self.checked_position + WINDOW <= self.position && self.position < self.end {
            (self.checked_position, self.pace_due) = (self.position, true);
        }
        self.pace_due
    }
}

impl Array {
    /// One step of the sync (`md_do_sync`).
    pub fn sync_step(&mut self, sim: &mut Simulation, task: u32) -> WorkerNext {
        let Some(mut sync) = self.sync.take() else { return WorkerNext::Finished };
        let next = self.next_sync_step(&mut sync, sim, task);
        if next == WorkerNext::Finished {
            self.finish_sync(sync.action);
        } else {
            self.sync = Some(sync);
        }
        self.wake_sync(sim);
        if matches!(next, WorkerNext::Again { .. }) && self.stripes().is_some() {
            self.wake_threads(sim);
        }
        next
    }

    fn next_sync_step(&mut self, sync: &mut RunningSync, sim: &mut Simulation, task: u32) -> WorkerNext {
        sync.at_barrier = false;
        if let Some(number) = sync.ready.pop_front() {
            let piece = sync.pieces.get(number);
            let (writes, sectors) = (std::mem::take(&mut piece.writes), piece.sectors);
            self.submit_piece(sim, task, number, Op::Write, &writes, sectors);
            return run_again(sim, sync.ready.is_empty());
        }
        if let Some(piece) = sync.raised_piece.take() {
            if self.barrier.as_ref().is_some_and(|barrier| barrier.is_pending(piece.start)) {
                (sync.raised_piece, sync.at_barrier) = (Some(piece), true);
                return WorkerNext::Sleep;
            }
            return self.begin_piece(sync, piece, sim, task);
        }
        if sync.position >= sync.end {
            return if sync.active == 0 { WorkerNext::Finished } else { WorkerNext::Sleep };
        }
        if let Some(next) = sync.check_pace(sim.now, &self.members.slots) {
            return next;
        }
        if let Some(stripes) = self.stripes() {
            if !stripes.request_row_sync(task, sync.position / ROW_SECTORS) {
                return WorkerNext::Sleep;
            }
            return run_again(sim, sync.count_begun(ROW_SECTORS));
        }
        let barrier = self.barrier.as_mut().expect("a syncing mirror has a barrier");
        if barrier.has_waiters(sync.position) && !std::mem::replace(&mut sync.yielded, true) {
            sync.nap = sim.now + TICK;
            return WorkerNext::Until(sync.nap);
        }
        if !barrier.raise(sync.position) {
            sync.at_barrier = true;
            return WorkerNext::Sleep;
        }
        sync.yielded = false;
        let is_pending = barrier.is_pending(sync.position);
        let Redundancy::Copies(mirror) = self.level.redundancy() else { unreachable!("only mirrors have barriers") };
        let piece = mirror.plan_piece(&self.members.slots, sync.action, sync.position, sync.end);
        if is_pending {
            (sync.raised_piece, sync.at_barrier) = (Some(piece), true);
            return WorkerNext::Sleep;
        }
        self.begin_piece(sync, piece, sim, task)
    }

    fn begin_piece(&mut self, sync: &mut RunningSync, piece: SyncPiece, sim: &mut Simulation, task: u32) -> WorkerNext {
        let (reads, sectors) = (piece.reads.clone(), piece.sectors);
        let number = sync.pieces.add(piece);
        let look = sync.count_begun(sectors);
        if reads.is_empty() {
            // This piece needs no I/O (`raid10_sync_request` skips it).
            self.end_piece(sync, number);
        } else {
            self.submit_piece(sim, task, number, Op::Read, &reads, sectors);
        }
        run_again(sim, look)
    }

    fn submit_piece(
        &mut self, sim: &mut Simulation, task: u32, number: u32, op: Op, places: &[MemberSector], sectors: u64,
    ) {
        let parent = self.add_own_bio(sim, task, op, sectors as u32, tag::SYNC, number);
        for &place in places {
            self.members.slots[place.slot as usize].synced += sectors;
            self.members.submit_part(sim, task, parent, place, sectors as u32);
        }
    }

    /// Wakes the sync and the tasks that its barrier has released.
    pub fn wake_sync(&mut self, sim: &mut Simulation) {
        if let Some(sync) = &self.sync {
            sim.wake_worker(sync.task);
        }
        if let Some(barrier) = &mut self.barrier {
            barrier.woken.wake_all(sim);
        }
    }

    /// Wakes the sync if it can pass the barrier.
    pub fn wake_sync_at_barrier(&self, sim: &mut Simulation) {
        let (Some(sync), Some(barrier)) = (&self.sync, &self.barrier) else { return };
        let free =
            sync.raised_piece.as_ref().map_or(barrier.entering.is_empty(), |piece| !barrier.is_pending(piece.start));
        if sync.at_barrier && free {
            sim.wake_worker(sync.task);
        }
    }

    /// Ends a piece's reads or writes.
    pub fn end_sync_io(&mut self, number: u32) {
        let Some(mut sync) = self.sync.take() else { return };
        if sync.pieces.get(number).writes.is_empty() {
            self.end_piece(&mut sync, number);
        } else {
            sync.ready.push_back(number);
        }
        self.sync = Some(sync);
    }

    fn end_piece(&mut self, sync: &mut RunningSync, number: u32) {
        let piece = sync.pieces.remove(number);
        if let Some(barrier) = &mut self.barrier {
            barrier.lower(piece.start);
        }
        self.count_synced(sync, piece.sectors);
    }

    /// Counts rows of the stripe cache that have been synced.
    pub fn end_synced_rows(&mut self, rows: u64) {
        let Some(mut sync) = self.sync.take() else { return };
        self.count_synced(&mut sync, rows * ROW_SECTORS);
        self.sync = Some(sync);
    }

    fn count_synced(&mut self, sync: &mut RunningSync, sectors: u64) {
        sync.active -= sectors;
        self.members.report.sync_bytes += sectors * 512;
        // Pieces are done nearly in order.
        let passed = sync.position - sync.active;
        if sync.action == SyncAction::Resync {
            self.members.synced = passed;
        }
        if let Some(stripes) = self.stripes() {
            match sync.action {
                SyncAction::Resync => stripes.dirty_from = passed / ROW_SECTORS,
                SyncAction::Recover => stripes.recovered = passed / ROW_SECTORS,
                _ => {}
            }
        }
    }

    fn finish_sync(&mut self, action: SyncAction) {
        self.members.synced = u64::MAX;
        self.barrier = None;
        if let Some(stripes) = self.stripes() {
            stripes.dirty_from = u64::MAX;
            if action == SyncAction::Recover {
                stripes.rebuilding = 0;
            }
        }
        if action == SyncAction::Recover {
            self.members.slots.iter_mut().filter(|slot| slot.present).for_each(|slot| slot.readable = true);
        }
        self.may_hold = self.can_hold_bios();
    }
}

/// The sync runs again after submitting its bios; `ends` says whether its plug ends.
fn run_again(sim: &Simulation, ends: bool) -> WorkerNext {
    let plug = if ends { PlugAfter::Ends } else { PlugAfter::Stays };
    WorkerNext::Again { after: sim.host.submit_ns + sim.host.md_ns, plug, undisturbed: true }
}

#[cfg(test)]
mod tests;
