//! Resync, recovery and check: what is read and written, and how fast.
//!
//! drivers/md/md.c, Linux 6.1: `md_do_sync` for the pace, `is_mddev_idle` for whether others use the members;
//! `raid1_sync_request`, `raid10_sync_request` and raid5.c's `raid5_sync_request` for what is read and written.
//! A resync finds the copies of RAID-10 and the parity of RAID-4, 5 and 6 right, as after a crash, when nearly all are:
//! these levels read everything and write only what differs. RAID-1 writes all but the copy that it reads.
//! A bitmap does not spare a resync anything, and a member that is being rebuilt is not read before the end,
//! except by rows of the stripe cache.

mod pieces;

use super::map::Place;
use super::member::Slot;
use super::{Array, Layout, phase};
use crate::bio::{Bio, Bios, NONE, Op};
use crate::cell;
use crate::events::Time;
use std::collections::VecDeque;

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
    start: u64,
    sectors: u64,
    reads: Vec<Place>,
    writes: Vec<Place>,
}

/// What a sync does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Submit bios that have been made, and go on; the plug ends if `true`.
    Submit(bool),
    /// Wait until something is done.
    Sleep,
    /// Sleep so long.
    Until(Time),
    /// It is complete.
    Finished,
}

/// A sync under way.
#[derive(Debug)]
pub struct Sync {
    kind: cell::Sync,
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
    /// The task has planned to go on at this time: whatever wakes it earlier is void.
    pub busy_until: Time,
}

impl Sync {
    /// A sync of a cell's array that ends at a sector.
    pub fn new(md: &cell::Md, end: u64) -> Self {
        Self {
            kind: md.sync,
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
            busy_until: 0,
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
    fn pace(&mut self, now: Time, slots: &[Slot]) -> Option<Step> {
        if self.draining && self.active > 0 {
            return Some(Step::Sleep);
        }
        self.draining = false;
        if now < self.nap {
            return Some(Step::Until(self.nap));
        }
        if !std::mem::take(&mut self.look) {
            return None;
        }
        let speed = self.speed(now);
        if speed > self.speed.1 {
            (self.nap, self.look) = (now + NAP, true);
            return Some(Step::Until(self.nap));
        }
        self.draining = speed > self.speed.0 && !self.is_idle(slots) && self.active > 0;
        self.draining.then_some(Step::Sleep)
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
    /// The sync's next step.
    pub fn sync_step(&mut self, now: Time, bios: &mut Bios, out: &mut VecDeque<u32>) -> Step {
        let Some(mut sync) = self.sync.take() else { return Step::Finished };
        let step = self.step(&mut sync, now, bios, out);
        if step == Step::Finished {
            self.finish_sync(sync.kind);
        } else {
            self.sync = Some(sync);
        }
        step
    }

    fn step(&mut self, sync: &mut Sync, now: Time, bios: &mut Bios, out: &mut VecDeque<u32>) -> Step {
        sync.at_barrier = false;
        if let Some(number) = sync.ready.pop_front() {
            let writes = std::mem::take(&mut sync.pieces[number as usize].writes);
            let sectors = sync.pieces[number as usize].sectors;
            self.issue_sync(number, Op::Write, &writes, sectors, bios, out);
            return Step::Submit(sync.ready.is_empty());
        }
        if let Some(piece) = sync.raised.take() {
            if self.barrier.as_ref().is_some_and(|barrier| barrier.is_pending(piece.start)) {
                (sync.raised, sync.at_barrier) = (Some(piece), true);
                return Step::Sleep;
            }
            return self.begin(sync, piece, bios, out);
        }
        if sync.position >= sync.end {
            return if sync.active == 0 { Step::Finished } else { Step::Sleep };
        }
        if let Some(step) = sync.pace(now, &self.slots) {
            return step;
        }
        if let Layout::Raid456(stripes) = &mut self.layout {
            if !stripes.sync(sync.task, sync.position / super::stripes::ROW_SECTORS) {
                return Step::Sleep;
            }
            return Step::Submit(sync.begun(super::stripes::ROW_SECTORS));
        }
        let barrier = self.barrier.as_mut().expect("a mirror that syncs has one");
        if barrier.is_awaited(sync.position) && !std::mem::replace(&mut sync.gave_way, true) {
            sync.nap = now + TICK;
            return Step::Until(sync.nap);
        }
        if !barrier.raise(sync.position) {
            sync.at_barrier = true;
            return Step::Sleep;
        }
        sync.gave_way = false;
        let is_pending = barrier.is_pending(sync.position);
        let piece = self.piece(sync);
        if is_pending {
            (sync.raised, sync.at_barrier) = (Some(piece), true);
            return Step::Sleep;
        }
        self.begin(sync, piece, bios, out)
    }

    fn begin(&mut self, sync: &mut Sync, piece: Piece, bios: &mut Bios, out: &mut VecDeque<u32>) -> Step {
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
            self.issue_sync(number, Op::Read, &reads, sectors, bios, out);
        }
        Step::Submit(look)
    }

    fn issue_sync(
        &mut self,
        number: u32,
        op: Op,
        places: &[Place],
        sectors: u64,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) {
        let whole = Bio {
            node: self.node,
            slot: 0,
            op,
            direct: false,
            phase: phase::SYNC,
            sector: 0,
            sectors: sectors as u32,
            parent: NONE,
            io: number,
            parts: 0,
            next: NONE,
        };
        let parent = bios.add(whole);
        for &place in places {
            self.slots[place.slot as usize].synced += sectors;
            self.child(parent, &whole, place, whole.sectors, bios, out);
        }
    }

    /// The sync's task, if what it waits for at the barrier has happened.
    pub fn sync_to_wake(&self) -> Option<u32> {
        let (sync, barrier) = (self.sync.as_ref()?, self.barrier.as_ref()?);
        let free = sync.raised.as_ref().map_or(barrier.is_free(), |piece| !barrier.is_pending(piece.start));
        (sync.at_barrier && free).then_some(sync.task)
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
        self.sync_done(&mut sync, rows * super::stripes::ROW_SECTORS);
        self.sync = Some(sync);
    }

    fn sync_done(&mut self, sync: &mut Sync, sectors: u64) {
        sync.active -= sectors;
        self.stats.sync_bytes += sectors * 512;
        // Pieces are done nearly in their order.
        let passed = sync.position - sync.active;
        if sync.kind == cell::Sync::Resync {
            self.synced = passed;
        }
        if let Layout::Raid456(stripes) = &mut self.layout {
            match sync.kind {
                cell::Sync::Resync => stripes.dirty_from = passed / super::stripes::ROW_SECTORS,
                cell::Sync::Recover => stripes.recovered = passed / super::stripes::ROW_SECTORS,
                _ => {}
            }
        }
    }

    fn finish_sync(&mut self, kind: cell::Sync) {
        self.synced = u64::MAX;
        self.barrier = None;
        if let Layout::Raid456(stripes) = &mut self.layout {
            stripes.dirty_from = u64::MAX;
            if kind == cell::Sync::Recover {
                stripes.rebuilt();
            }
        }
        if kind == cell::Sync::Recover {
            self.slots.iter_mut().filter(|slot| slot.present).for_each(|slot| slot.readable = true);
        }
        self.gated = self.needs_gate();
    }
}

#[cfg(test)]
mod tests;
