//! The bitmap's worker: writes pages to every member, between two flushes, and passes on the writes that waited.

use std::collections::BTreeSet;

use super::{Bitmap, Step};
use crate::bio::{Bio, Flags, NONE, Op, Owner};
use crate::engine::{Next, PlugAfter, Simulation};
use crate::events::Time;
use crate::targets::md::Array;

impl Array {
    /// The bitmap's worker: writes pages, and passes on the writes that waited for them.
    pub fn write_bitmap(&mut self, sim: &mut Simulation, task: u32) -> Next {
        let Some(mut bitmap) = self.bitmap.take() else { return Next::Sleep };
        let before = bitmap.due();
        let went_on = bitmap.in_flight == 0 && self.flush_bitmap(&mut bitmap, sim, task);
        let planned = bitmap.due() != before;
        self.bitmap = Some(bitmap);
        if planned {
            self.plan_bitmap_daemon(sim);
        }
        match went_on {
            true => Next::Again { after: sim.host.md_ns, plug: PlugAfter::Ends, undisturbed: false },
            // What was passed on after it had to wait is still held by the plug, which ends now.
            false => Next::Sleep,
        }
    }

    fn flush_bitmap(&mut self, bitmap: &mut Bitmap, sim: &mut Simulation, task: u32) -> bool {
        let step = match bitmap.step {
            Step::Rest => {
                let Some(step) = bitmap.choose(sim.now, self.members.are_degraded()) else { return false };
                if step == Step::After {
                    bitmap.step = step;
                    return true;
                }
                step
            }
            Step::Before => Step::Write,
            Step::Write => Step::After,
            Step::After => {
                for chunk in bitmap.setting.drain(..) {
                    if let Some(counter) = bitmap.counters.get_mut(&chunk) {
                        counter.on_disk = true;
                    }
                }
                bitmap.releasing.drain(..).for_each(|number| sim.submit(task, number));
                bitmap.step = Step::Rest;
                return true;
            }
        };
        bitmap.step = step;
        self.submit_bitmap(bitmap, sim, task);
        true
    }

    /// Submits a flush, or the pages, to every member.
    fn submit_bitmap(&mut self, bitmap: &mut Bitmap, sim: &mut Simulation, task: u32) {
        // The array's balancer knows nothing of these: they are no parts of the array's bios.
        let owner = Owner::Target { target: self.members.id, tag: 0, number: NONE };
        if bitmap.step == Step::Write {
            self.members.report.bitmap_writes += bitmap.pages.len() as u64;
        }
        for slot in self.members.slots.iter().filter(|slot| slot.present) {
            let mut submit = |op, sector, sectors| {
                bitmap.in_flight += 1;
                let number = sim.bios.add(Bio {
                    target: slot.target,
                    op,
                    flags: Flags::SYNC.with(Flags::METADATA),
                    sector,
                    sectors,
                    owner,
                    task,
                    remaining: 0,
                    private: 0,
                    next: NONE,
                });
                sim.submit(task, number);
            };
            match bitmap.step {
                Step::Write => bitmap.pages.iter().for_each(|page| submit(Op::Write, page * 8, 8)),
                _ => submit(Op::Flush, 0, 0),
            }
        }
    }

    /// A write or a flush of the bitmap is done.
    pub fn end_bitmap_io(&mut self, sim: &mut Simulation) {
        if let Some(bitmap) = &mut self.bitmap
            && bitmap.io_done()
        {
            sim.wake_worker(bitmap.task);
        }
    }

    /// A plug ends that has brought writes that wait.
    pub fn ask_for_bitmap(&mut self, sim: &mut Simulation) {
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.asked = true;
            sim.wake_worker(bitmap.task);
        }
    }

    /// Plans when the bitmap's daemon runs next.
    pub fn plan_bitmap_daemon(&self, sim: &mut Simulation) {
        if let Some(bitmap) = &self.bitmap
            && let Some(due) = bitmap.due()
        {
            sim.run_worker_at(due, bitmap.task);
        }
    }
}

impl Bitmap {
    /// What is to be written next, if anything.
    fn choose(&mut self, now: Time, keep: bool) -> Option<Step> {
        if std::mem::take(&mut self.asked) && !(self.set.is_empty() && self.held.is_empty()) {
            std::mem::swap(&mut self.set, &mut self.setting);
            std::mem::swap(&mut self.held, &mut self.releasing);
            let pages: BTreeSet<u64> = self.setting.iter().map(|&chunk| Self::page(chunk)).collect();
            // Bits cleared on the same pages are written with them.
            self.cleared.retain(|page| !pages.contains(page));
            self.pages = pages.into_iter().collect();
        } else if self.due.is_some_and(|due| due <= now) {
            self.pages = self.daemon(now, keep);
        } else {
            return None;
        }
        match self.pages.is_empty() {
            false => Some(Step::Before),
            // What was held waited for a write that is over.
            true => (!self.releasing.is_empty()).then_some(Step::After),
        }
    }

    /// One of the bitmap's bios is done. True if all are.
    pub fn io_done(&mut self) -> bool {
        self.in_flight -= 1;
        self.in_flight == 0
    }

    /// Nothing is under way, and nothing is left to be done.
    #[cfg(test)]
    pub fn assert_idle(&self) {
        assert!(self.held.is_empty() && self.releasing.is_empty() && self.set.is_empty());
        assert!(self.counters.values().all(|counter| counter.writes == 0 && counter.on_disk));
        assert_eq!((self.in_flight, self.step, self.due), (0, Step::Rest, None));
    }
}
