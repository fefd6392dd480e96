//! What the array's thread does with a row when it is its turn (`handle_stripe`): one step, from what is done to
//! the reads or writes that come next.

use super::{ROW_SECTORS, State, Stripes, Syncing};
use crate::bio::{Bios, Op};
use crate::engine::WaitList;

/// A row's next I/O on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Reading or writing.
    pub op: Op,
    /// Which members.
    pub slots: u64,
    /// Where on each.
    pub sector: u64,
}

/// What has become of a row.
#[derive(Debug)]
pub struct Handled {
    /// Its next I/O, if it needs any.
    pub issue: Option<Issue>,
    /// Bios that are done.
    pub done: Vec<u32>,
    /// Tasks that may go on.
    pub woken: WaitList,
}

impl Stripes {
    /// Handles an entry.
    pub fn handle(&mut self, index: u32, bios: &mut Bios) -> Handled {
        let (mut done, mut woken) = (Vec::new(), WaitList::default());
        self.entries[index as usize].queued = false;
        self.take_note(index, bios, &mut done);
        let issue = self.sync_row(index).or_else(|| self.serve(index, bios, &mut done, &mut woken));
        let entry = &mut self.entries[index as usize];
        match issue {
            Some(Issue { op: Op::Read, slots, .. }) => entry.state = State::Reading(slots),
            Some(_) => {}
            None if entry.held == 0 => {
                debug_assert!(entry.reads.is_empty() && entry.writes.is_empty() && entry.writing.is_empty());
                self.put(index);
                if self.recovered_from_starving() {
                    woken.append(&mut self.waiting);
                }
            }
            None => {}
        }
        Handled { issue, done, woken }
    }

    /// What the I/O that is done has brought.
    fn take_note(&mut self, index: u32, bios: &mut Bios, done: &mut Vec<u32>) {
        let entry = &mut self.entries[index as usize];
        match std::mem::replace(&mut entry.state, State::Idle) {
            State::Idle => {}
            State::Reading(slots) => entry.cached |= slots,
            State::Writing(slots) => {
                entry.cached |= slots;
                finish(&mut entry.writing, bios, done);
                if entry.syncing == Syncing::Storing {
                    entry.syncing = Syncing::No;
                    self.synced_rows += 1;
                }
            }
        }
    }

    /// Reading for a resync: parity is found right, and what is being rebuilt is written
    /// (`handle_parity_checks5`, `handle_parity_checks6`).
    fn sync_row(&mut self, index: u32) -> Option<Issue> {
        let entry = &self.entries[index as usize];
        if entry.syncing != Syncing::Wanted {
            return None;
        }
        let stripe = self.stripe(entry);
        let all = u64::MAX >> (64 - stripe.disks);
        let (sector, readable) = (entry.row * ROW_SECTORS, all & !(stripe.missing | stripe.rebuilding));
        let entry = &mut self.entries[index as usize];
        let slots = readable & !entry.cached;
        if slots != 0 {
            return Some(Issue { op: Op::Read, slots, sector });
        }
        entry.cached = all;
        if stripe.rebuilding != 0 {
            (entry.syncing, entry.state) = (Syncing::Storing, State::Writing(all));
            return Some(Issue { op: Op::Write, slots: stripe.rebuilding, sector });
        }
        entry.syncing = Syncing::No;
        self.synced_rows += 1;
        None
    }

    /// Reads and writes of bios. Where both wait, what both lack is read first.
    fn serve(
        &mut self,
        index: u32,
        bios: &mut Bios,
        done: &mut Vec<u32>,
        woken: &mut WaitList,
    ) -> Option<Issue> {
        let stripe = self.stripe(&self.entries[index as usize]);
        let entry = &mut self.entries[index as usize];
        let sector = entry.row * ROW_SECTORS;
        // An array that has lost more than its level survives is refused, so there is always a way.
        let mut slots = stripe.read(entry.wanted).unwrap_or(0);
        if slots == 0 && !entry.reads.is_empty() {
            entry.cached |= entry.wanted;
            entry.wanted = 0;
            finish(&mut entry.reads, bios, done);
        }
        // What comes while a plug holds the row waits for what else the plug brings.
        if !entry.writes.is_empty() && entry.held == 0 {
            let plan = stripe.write(entry.whole, entry.part)?;
            slots |= plan.read;
            if slots == 0 {
                std::mem::swap(&mut entry.writing, &mut entry.writes);
                let pages = entry.whole | entry.part | plan.write;
                (entry.whole, entry.part, entry.state) = (0, 0, State::Writing(pages));
                woken.append(&mut self.overlapping);
                return Some(Issue { op: Op::Write, slots: plan.write, sector });
            }
        }
        (slots != 0).then_some(Issue { op: Op::Read, slots, sector })
    }
}

/// A row is done with these bios.
fn finish(list: &mut Vec<u32>, bios: &mut Bios, done: &mut Vec<u32>) {
    for number in list.drain(..) {
        bios[number].remaining -= 1;
        if bios[number].remaining == 0 {
            done.push(number);
        }
    }
}
