//! What may keep a bio before an array maps it: the barrier of a sync, the bitmap, the stripe cache.

use super::barrier::Barrier;
use super::stripes::{Attached, Stripes};
use super::{Array, Layout, phase};
use crate::bio::{Bio, Bios, Op};
use crate::events::Time;

/// In place of an entry of the stripe cache: the bitmap holds a bio back.
pub const HELD: u32 = u32::MAX;

/// What becomes of a bio at a gated array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
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
    /// Whether bios may be kept, so that `enter` must be asked.
    pub fn needs_gate(&self) -> bool {
        self.has_parity() || self.barrier.is_some() || self.bitmap.is_some()
    }

    /// Whether there is a stripe cache.
    pub fn has_parity(&self) -> bool {
        matches!(self.layout, Layout::Raid456(_))
    }

    /// The stripe cache, if there is one.
    pub fn stripes(&mut self) -> Option<&mut Stripes> {
        match &mut self.layout {
            Layout::Raid456(stripes) => Some(stripes),
            _ => None,
        }
    }

    /// A task comes with a bio: may it be mapped? What the task's plug then holds goes to `touched`.
    pub fn enter(
        &mut self,
        task: u32,
        number: u32,
        bios: &mut Bios,
        touched: &mut Vec<(u16, u32)>,
    ) -> Entered {
        let bio = bios[number];
        if bio.op == Op::Flush {
            return Entered::Through;
        }
        if bio.phase == 0
            && let Some(barrier) = &mut self.barrier
        {
            if !barrier.enter(task, bio.sector, bio.op == Op::Write) {
                return Entered::Wait;
            }
            bios[number].phase = phase::COUNTED;
        }
        if bio.phase == 0 && bio.op == Op::Write && self.bitmap.is_some() {
            bios[number].phase = phase::COUNTED;
            let sectors = self.bitmap_sectors(&bio);
            if let Some(bitmap) = &mut self.bitmap
                && !bitmap.begin(number, sectors)
            {
                touched.push((self.node, HELD));
                return Entered::Taken;
            }
        }
        let Layout::Raid456(stripes) = &mut self.layout else { return Entered::Through };
        if bio.op == Op::Read && stripes.is_whole() {
            return Entered::Through;
        }
        match stripes.attach(task, number, bios, |entry| touched.push((self.node, entry))) {
            Attached::All => Entered::Taken,
            Attached::Done => Entered::Done,
            Attached::Wait => Entered::Wait,
        }
    }

    /// A bio that was counted is done. True if the bitmap's daemon must run, and was not to before.
    pub fn leave(&mut self, bio: &Bio, now: Time) -> bool {
        if let Some(barrier) = &mut self.barrier {
            barrier.leave(bio.sector);
        }
        let sectors = self.bitmap_sectors(bio);
        bio.op == Op::Write && self.bitmap.as_mut().is_some_and(|bitmap| bitmap.end(sectors, now))
    }

    /// The first and the last sector that a bio touches in the bitmap, which with parity stands for members'.
    fn bitmap_sectors(&self, bio: &Bio) -> (u64, u64) {
        let Layout::Raid456(stripes) = &self.layout else { return (bio.sector, bio.end() - 1) };
        let (first, last) = (stripes.map.place(bio.sector), stripes.map.place(bio.end() - 1));
        if first.slot == last.slot {
            return (first.sector, last.sector);
        }
        let chunk = stripes.map.chunk();
        (first.sector / chunk * chunk, last.sector / chunk * chunk + chunk - 1)
    }

    /// The barrier that a sync of this layout needs: the stripe cache needs none.
    pub(super) fn barrier_for(layout: &Layout) -> Option<Barrier> {
        match layout {
            Layout::Raid1 => Some(Barrier::new(false)),
            Layout::Raid10(_) => Some(Barrier::new(true)),
            _ => None,
        }
    }
}
