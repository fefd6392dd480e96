//! Admission of bios to an array: the barrier of a sync, the bitmap or the stripe cache can hold a bio back.

use super::{Array, MAPPED, Redundancy, bio_state};
use crate::bio::{Bio, Op};
use crate::engine::Simulation;

/// The plug token for the bitmap; other tokens are entries of the stripe cache.
pub const HELD_FOR_BITMAP: u32 = u32::MAX;

/// The result of [`Array::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Pass,  // The bio is mapped
    Taken, // The array holds it
    Done,  // It is already done
    Wait,  // The task must wait and come back with the bio
}

impl Array {
    /// Whether bios can be held back, so that `admit` must be called.
    pub fn can_hold_bios(&mut self) -> bool {
        self.stripes().is_some() || self.barrier.is_some() || self.bitmap.is_some()
    }

    /// Decides what happens to a bio before it is mapped.
    pub fn admit(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Admission {
        let bio = sim.bios[number];
        if self.bitmap.as_mut().is_some_and(|bitmap| bitmap.blocks(task)) {
            return Admission::Wait;
        }
        if bio.op == Op::Flush {
            return Admission::Pass;
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
            let by_thread = self.threads.is_empty();
            if let Some(bitmap) = &mut self.bitmap
                && !bitmap.start_write(number, sectors, self.members.are_degraded(), by_thread && !bitmap.in_task(sim, task))
            {
                sim.plug_callback(task, self.members.id, HELD_FOR_BITMAP);
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
        if bio.op == Op::Read && stripes.reads_bypass_cache() {
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
