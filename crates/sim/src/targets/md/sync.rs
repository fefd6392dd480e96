//! Resync, recovery and check: what is read and written, and how fast.
//!
//! drivers/md/md.c, Linux 6.1: `md_do_sync` for the pace, `is_mddev_idle` for whether others use the members;
//! `raid1_sync_request`, `raid10_sync_request` and raid5.c's `raid5_sync_request` for what is read and written.
//! A resync finds the copies of RAID-10 and the parity of RAID-4, 5 and 6 right, as after a crash, when nearly all are:
//! these levels read everything and write only what differs. RAID-1 writes all but the copy that it reads.
//! A bitmap does not spare a resync anything, and a member that is being rebuilt is not read before the end,
//! except by rows of the stripe cache.

use std::collections::VecDeque;

use super::map::Place;
use super::member::Slot;
use super::spec::{Md, SyncAction};
use super::stripes::ROW_SECTORS;
use super::{Array, Redundancy, tag};
use crate::bio::{NONE, Op};
use crate::engine::{Next, PlugAfter, Simulation};
use crate::events::Time;

/// `RESYNC_BLOCK_SIZE`, in sectors.
pub const BLOCK: u64 = 128;

/// How often the pace is looked at: `window` of `md_do_sync`, in sectors.
const WINDOW: u64 = 256;
/// `SYNC_MARK_STEP`.
const MARK_STEP: Time = 3_000_000_000;
/// `SYNC_MARKS`.
const MARKS: usize = 10;
/// How long it sleeps so that others who wait are let through: a tick of 250 Hz.
const TICK: Time = 4_000_000;
/// How long a sync that is too fast sleeps.
const NAP: Time = 500_000_000;

/// What is read and then written of one piece.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Where it begins: in the array, or with a recovery of RAID-10 on each member.
    pub start: u64,
    /// How much it is.
    pub sectors: u64,
    /// What is read.
    pub reads: Vec<Place>,
    /// What is written then.
    pub writes: Vec<Place>,
}

/// A sync under way.
#[derive(Debug)]
pub struct Sync {
    action: SyncAction,
    /// Its task.
    pub task: u32,
    /// KiB/s per member, from and to.
    speed: (u64, u64),
    /// The next sector, and the end.
    position: u64,
    end: u64,
    /// Sectors begun and not done (`recovery_active`).
    active: u64,
    pieces: Vec<Piece>,
    free: Vec<u32>,
    /// Pieces that have been read and are to be written.
    ready: VecDeque<u32>,
    /// A piece whose barrier is up, before what is pending has gone.
    raised: Option<Piece>,
    checked: u64,
    /// Times, and what was done then.
    marks: VecDeque<(Time, u64)>,
    /// The pace must be looked at before anything else is begun.
    look: bool,
    /// Nothing is begun until everything is done.
    draining: bool,
    nap: Time,
    /// It has slept a tick for those who wait at the barrier.
    gave_way: bool,
    /// It sleeps because of the barrier.
    at_barrier: bool,
    /// What others had moved on each member when last looked.
    others: Vec<i64>,
}

impl Sync {
    /// A sync of a cell's array that ends at a sector.
    pub fn new(md: &Md, end: u64) -> Self {
        Self {
            action: md.sync,
            task: NONE,
            speed: (md.sync_speed_min, md.sync_speed_max),
            position: 0,
            end,
            active: 0,
            pieces: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            raised: None,
            checked: 0,
            marks: VecDeque::from([(0, 0)]),
            look: false,
            draining: false,
            nap: 0,
            gave_way: false,
            at_barrier: false,
            others: vec![0; md.members.len()],
        }
    }

    /// KiB/s since the oldest mark, as `md_do_sync` reckons it.
    fn speed(&mut self, now: Time) -> u64 {
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

    /// Whether others have left the members alone since last looked.
    fn is_idle(&mut self, slots: &[Slot]) -> bool {
        let mut idle = true;
        for (last, slot) in self.others.iter_mut().zip(slots) {
            let others = slot.moved as i64 - slot.synced as i64;
            if others - *last > 64 {
                *last = others;
                idle = false;
            }
        }
        idle
    }

    /// Whether something may be begun; otherwise what to do instead.
    fn pace(&mut self, now: Time, slots: &[Slot]) -> Option<Next> {
        if self.draining && self.active > 0 {
            return Some(Next::Sleep);
        }
        self.draining = false;
        if now < self.nap {
            return Some(Next::Until(self.nap));
        }
        if !std::mem::take(&mut self.look) {
            return None;
        }
        let speed = self.speed(now);
        if speed > self.speed.1 {
            (self.nap, self.look) = (now + NAP, true);
            return Some(Next::Until(self.nap));
        }
        self.draining = speed > self.speed.0 && !self.is_idle(slots) && self.active > 0;
        self.draining.then_some(Next::Sleep)
    }

    /// Some sectors were begun. True if it is time to look at the pace.
    fn begun(&mut self, sectors: u64) -> bool {
        self.position += sectors;
        self.active += sectors;
        if self.checked + WINDOW <= self.position && self.position < self.end {
            (self.checked, self.look) = (self.position, true);
        }
        self.look
    }
}

impl Array {
    /// The sync does one step (`md_do_sync`).
    pub fn sync_step(&mut self, sim: &mut Simulation, task: u32) -> Next {
        let Some(mut sync) = self.sync.take() else { return Next::Finished };
        let next = self.step(&mut sync, sim, task);
        if next == Next::Finished {
            self.finish_sync(sync.action);
        } else {
            self.sync = Some(sync);
        }
        self.wake_sync(sim);
        if matches!(next, Next::Again { .. }) && self.stripes().is_some() {
            sim.wake_worker(self.thread);
        }
        next
    }

    fn step(&mut self, sync: &mut Sync, sim: &mut Simulation, task: u32) -> Next {
        sync.at_barrier = false;
        if let Some(number) = sync.ready.pop_front() {
            let writes = std::mem::take(&mut sync.pieces[number as usize].writes);
            let sectors = sync.pieces[number as usize].sectors;
            self.issue_piece(sim, task, number, Op::Write, &writes, sectors);
            return go_on(sim, sync.ready.is_empty());
        }
        if let Some(piece) = sync.raised.take() {
            if self.barrier.as_ref().is_some_and(|barrier| barrier.is_pending(piece.start)) {
                (sync.raised, sync.at_barrier) = (Some(piece), true);
                return Next::Sleep;
            }
            return self.begin(sync, piece, sim, task);
        }
        if sync.position >= sync.end {
            return if sync.active == 0 { Next::Finished } else { Next::Sleep };
        }
        if let Some(next) = sync.pace(sim.now, &self.members.slots) {
            return next;
        }
        if let Some(stripes) = self.stripes() {
            if !stripes.sync(task, sync.position / ROW_SECTORS) {
                return Next::Sleep;
            }
            return go_on(sim, sync.begun(ROW_SECTORS));
        }
        let barrier = self.barrier.as_mut().expect("a mirror that syncs has one");
        if barrier.is_awaited(sync.position) && !std::mem::replace(&mut sync.gave_way, true) {
            sync.nap = sim.now + TICK;
            return Next::Until(sync.nap);
        }
        if !barrier.raise(sync.position) {
            sync.at_barrier = true;
            return Next::Sleep;
        }
        sync.gave_way = false;
        let is_pending = barrier.is_pending(sync.position);
        let Redundancy::Copies(mirror) = self.level.redundancy() else {
            unreachable!("only mirrors have barriers")
        };
        let piece = mirror.piece(&self.members.slots, sync.action, sync.position, sync.end);
        if is_pending {
            (sync.raised, sync.at_barrier) = (Some(piece), true);
            return Next::Sleep;
        }
        self.begin(sync, piece, sim, task)
    }

    fn begin(&mut self, sync: &mut Sync, piece: Piece, sim: &mut Simulation, task: u32) -> Next {
        let (reads, sectors) = (piece.reads.clone(), piece.sectors);
        let number = match sync.free.pop() {
            Some(number) => {
                sync.pieces[number as usize] = piece;
                number
            }
            None => {
                sync.pieces.push(piece);
                sync.pieces.len() as u32 - 1
            }
        };
        let look = sync.begun(sectors);
        if reads.is_empty() {
            // Nothing of these members needs it (`raid10_sync_request` skips).
            self.piece_done(sync, number);
        } else {
            self.issue_piece(sim, task, number, Op::Read, &reads, sectors);
        }
        go_on(sim, look)
    }

    fn issue_piece(
        &mut self,
        sim: &mut Simulation,
        task: u32,
        number: u32,
        op: Op,
        places: &[Place],
        sectors: u64,
    ) {
        let parent = self.own_bio(sim, task, op, sectors as u32, tag::SYNC, number);
        for &place in places {
            self.members.slots[place.slot as usize].synced += sectors;
            self.members.submit(sim, task, parent, place, sectors as u32);
        }
    }

    /// Something is done that the sync may wait for; and tasks that it kept waiting go on.
    pub fn wake_sync(&mut self, sim: &mut Simulation) {
        if let Some(sync) = &self.sync {
            sim.wake_worker(sync.task);
        }
        if let Some(barrier) = &mut self.barrier {
            barrier.woken.wake_all(sim);
        }
    }

    /// Wakes the sync if what it waits for at the barrier has happened.
    pub fn wake_sync_at_barrier(&self, sim: &mut Simulation) {
        let (Some(sync), Some(barrier)) = (&self.sync, &self.barrier) else { return };
        let free = sync.raised.as_ref().map_or(barrier.is_free(), |piece| !barrier.is_pending(piece.start));
        if sync.at_barrier && free {
            sim.wake_worker(sync.task);
        }
    }

    /// A piece's reads or writes are done.
    pub fn sync_io_done(&mut self, number: u32) {
        let Some(mut sync) = self.sync.take() else { return };
        if sync.pieces[number as usize].writes.is_empty() {
            self.piece_done(&mut sync, number);
        } else {
            sync.ready.push_back(number);
        }
        self.sync = Some(sync);
    }

    fn piece_done(&mut self, sync: &mut Sync, number: u32) {
        sync.free.push(number);
        let piece = std::mem::take(&mut sync.pieces[number as usize]);
        if let Some(barrier) = &mut self.barrier {
            barrier.lower(piece.start);
        }
        self.sync_done(sync, piece.sectors);
    }

    /// Rows of the stripe cache have been synced.
    pub fn rows_synced(&mut self, rows: u64) {
        let Some(mut sync) = self.sync.take() else { return };
        self.sync_done(&mut sync, rows * ROW_SECTORS);
        self.sync = Some(sync);
    }

    fn sync_done(&mut self, sync: &mut Sync, sectors: u64) {
        sync.active -= sectors;
        self.members.report.sync_bytes += sectors * 512;
        // Pieces are done nearly in their order.
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
                stripes.rebuilt();
            }
        }
        if action == SyncAction::Recover {
            self.members.slots.iter_mut().filter(|slot| slot.present).for_each(|slot| slot.readable = true);
        }
        self.gated = self.needs_gate();
    }
}

/// The sync submits what it has made, and goes on; its plug ends if `ends`.
fn go_on(sim: &Simulation, ends: bool) -> Next {
    let plug = if ends { PlugAfter::Ends } else { PlugAfter::Stays };
    Next::Again { after: sim.host.submit_ns + sim.host.md_ns, plug, undisturbed: true }
}

#[cfg(test)]
mod tests;
