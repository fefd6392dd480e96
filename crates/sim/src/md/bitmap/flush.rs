//! The bitmap's task: writes pages to every member, between two flushes, and passes on the writes that waited.

use super::{Bitmap, Step};
use crate::bio::{Bio, Bios, NONE, Op};
use crate::events::Time;
use crate::md::{Array, phase};
use std::collections::{BTreeSet, VecDeque};

impl Array {
    /// The bitmap's task goes on: what it has to submit goes to `out`. False if there is nothing to do.
    pub fn bitmap_step(&mut self, now: Time, bios: &mut Bios, out: &mut VecDeque<u32>) -> bool {
        let Some(mut bitmap) = self.bitmap.take() else { return false };
        let went_on = bitmap.in_flight == 0 && self.flush_bitmap(&mut bitmap, now, bios, out);
        self.bitmap = Some(bitmap);
        went_on
    }

    fn flush_bitmap(
        &mut self,
        bitmap: &mut Bitmap,
        now: Time,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) -> bool {
        let step = match bitmap.step {
            Step::Rest => {
                let keep = self.slots.iter().any(|slot| !slot.present || !slot.readable);
                let Some(step) = bitmap.choose(now, keep) else { return false };
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
                out.extend(bitmap.releasing.drain(..));
                bitmap.step = Step::Rest;
                return true;
            }
        };
        bitmap.step = step;
        let pages = std::mem::take(&mut bitmap.pages);
        if step == Step::Write {
            self.stats.bitmap_writes += pages.len() as u64;
        }
        for slot in (0..self.slots.len()).filter(|&slot| self.slots[slot].present) {
            let mut submit = |op, sector, sectors| {
                bitmap.in_flight += 1;
                out.push_back(bios.add(Bio {
                    node: self.slots[slot].node,
                    slot: slot as u8,
                    op,
                    direct: false,
                    phase: phase::BITMAP,
                    sector,
                    sectors,
                    // The array's balancer knows nothing of these: it is no part of the array's bios.
                    parent: NONE,
                    io: u32::from(self.node),
                    parts: 0,
                    next: NONE,
                }));
            };
            match step {
                Step::Write => pages.iter().for_each(|page| submit(Op::Write, page * 8, 8)),
                _ => submit(Op::Flush, 0, 0),
            }
        }
        bitmap.pages = pages;
        true
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

    /// A plug ends that has brought writes that wait.
    pub fn ask(&mut self) {
        self.asked = true;
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
