//! What may keep a bio before an array maps it: the barrier of a sync, the bitmap, the stripe cache.

use super::stripes::Attached;
use super::{Array, Redundancy, state};
use crate::bio::{Bio, Op};
use crate::engine::Simulation;

/// What a plug holds for the bitmap, in place of an entry of the stripe cache.
pub const HELD_FOR_BITMAP: u32 = u32::MAX;

/// What becomes of a bio at an array that may keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is mapped like any other.
    Through,
    /// The array has it.
    Taken,
    /// The array had it, and it is done.
    Done,
    /// The task must wait, with the bio.
    Wait,
}

impl Array {
    /// Whether bios may be kept, so that `admit` must be asked.
    pub fn needs_gate(&mut self) -> bool {
        self.stripes().is_some() || self.barrier.is_some() || self.bitmap.is_some()
    }

    /// A task comes with a bio: may it be mapped?
    pub fn admit(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Admission {
        let bio = sim.bios[number];
        if bio.op == Op::Flush {
            return Admission::Through;
        }
        let is_new = bio.private & state::COUNTED == 0;
        if is_new && let Some(barrier) = &mut self.barrier {
            if !barrier.enter(task, bio.sector, bio.op != Op::Read) {
                return Admission::Wait;
            }
            sim.bios[number].private |= state::COUNTED;
        }
        if is_new && bio.op == Op::Write && self.bitmap.is_some() {
            sim.bios[number].private |= state::COUNTED;
            let sectors = self.bitmap_sectors(&bio);
            if let Some(bitmap) = &mut self.bitmap
                && !bitmap.begin(number, sectors)
            {
                sim.plug_callback(task, self.members.id, HELD_FOR_BITMAP);
                return Admission::Taken;
            }
        }
        let id = self.members.id;
        let Some(stripes) = self.stripes() else { return Admission::Through };
        if bio.op == Op::Discard {
            // raid5.c discards only where it is told that all members read zeros afterwards.
            sim.bios[number].flags = bio.flags.with(crate::bio::Flags::FAILED);
            return Admission::Done;
        }
        if bio.op == Op::Read && stripes.is_whole() {
            return Admission::Through;
        }
        match stripes.attach(sim, task, number, id) {
            Attached::All => Admission::Taken,
            Attached::Done => Admission::Done,
            Attached::Wait => Admission::Wait,
        }
    }

    /// A bio that was counted is done.
    pub fn leave(&mut self, sim: &mut Simulation, bio: &Bio) {
        if let Some(barrier) = &mut self.barrier {
            barrier.leave(bio.sector);
        }
        let sectors = self.bitmap_sectors(bio);
        if bio.op == Op::Write && self.bitmap.as_mut().is_some_and(|bitmap| bitmap.end(sectors, sim.now)) {
            self.plan_bitmap_daemon(sim);
        }
        self.wake_sync_at_barrier(sim);
    }

    /// The first and the last sector that a bio touches in the bitmap, which with parity stands for members'.
    fn bitmap_sectors(&mut self, bio: &Bio) -> (u64, u64) {
        let Redundancy::Parity(stripes) = self.level.redundancy() else {
            return (bio.sector, bio.end() - 1);
        };
        let (first, last) = (stripes.map.place(bio.sector), stripes.map.place(bio.end() - 1));
        if first.slot == last.slot {
            return (first.sector, last.sector);
        }
        let chunk = stripes.map.chunk();
        (first.sector / chunk * chunk, last.sector / chunk * chunk + chunk - 1)
    }
}
