//! One step of the array's thread for a row (`handle_stripe`): from finished I/O to the next reads or writes.

use super::{ROW_SECTORS, RowIo, RowSync, StripeCache};
use crate::bio::{Bios, Op};
use crate::engine::WaitList;
use crate::targets::md::parity::ParityMethod;

/// A row's next I/O on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    pub op: Op,                       // A read or a write
    pub slots: u64,                   // The members, as a mask
    pub sector: u64,                  // The sector on each member
    pub method: Option<ParityMethod>, // How parity was calculated, if bios are written
}

/// The result of handling a row.
pub struct HandledRow {
    pub issue: Option<MemberIo>, // Its next I/O, if it needs any
    pub done: Vec<u32>,          // Bios that are done
    pub woken: WaitList,         // Tasks that can continue
}

impl StripeCache {
    /// Handles an entry.
    pub fn handle_stripe(&mut self, index: u32, bios: &mut Bios) -> HandledRow {
        let (mut done, mut woken) = (Vec::new(), WaitList::default());
        self.entries[index as usize].queued = false;
        self.end_io(index, bios, &mut done);
        let issue = self.next_sync_io(index).or_else(|| self.next_bio_io(index, bios, &mut done, &mut woken));
        let entry = &mut self.entries[index as usize];
        match issue {
            Some(MemberIo { op: Op::Read, slots, .. }) => entry.io = RowIo::Reading(slots),
            Some(_) => {}
            None if entry.held == 0 && !entry.delayed => {
                debug_assert!(entry.reads.is_empty() && entry.writes.is_empty() && entry.writing.is_empty());
                self.put_inactive(index);
                if self.end_starvation() {
                    woken.append(&mut self.waiting);
                }
            }
            None => {}
        }
        HandledRow { issue, done, woken }
    }

    /// Records the result of finished I/O.
    fn end_io(&mut self, index: u32, bios: &mut Bios, done: &mut Vec<u32>) {
        let entry = &mut self.entries[index as usize];
        match std::mem::replace(&mut entry.io, RowIo::Idle) {
            RowIo::Idle => {}
            RowIo::Reading(slots) => entry.cached |= slots,
            RowIo::Writing(slots) => {
                entry.cached |= slots;
                finish_bios(&mut entry.writing, bios, done);
                if entry.syncing == RowSync::Storing {
                    entry.syncing = RowSync::No;
                    self.synced_rows += 1;
                }
            }
        }
    }

    /// The next I/O of a resync: parity is assumed correct, and members being rebuilt are written
    /// (`handle_parity_checks5`, `handle_parity_checks6`).
    fn next_sync_io(&mut self, index: u32) -> Option<MemberIo> {
        let entry = &self.entries[index as usize];
        if entry.syncing != RowSync::Wanted {
            return None;
        }
        let stripe = self.stripe_state(entry);
        let all = u64::MAX >> (64 - stripe.disks);
        let (sector, readable) = (entry.row * ROW_SECTORS, all & !(stripe.missing | stripe.rebuilding));
        let entry = &mut self.entries[index as usize];
        let slots = readable & !entry.cached;
        if slots != 0 {
            return Some(MemberIo { op: Op::Read, slots, sector, method: None });
        }
        entry.cached = all;
        if stripe.rebuilding != 0 {
            (entry.syncing, entry.io) = (RowSync::Storing, RowIo::Writing(all));
            return Some(MemberIo { op: Op::Write, slots: stripe.rebuilding, sector, method: None });
        }
        entry.syncing = RowSync::No;
        self.synced_rows += 1;
        None
    }

    /// The next I/O for bios. If reads and writes wait, the pages that both lack are read first.
    fn next_bio_io(
        &mut self, index: u32, bios: &mut Bios, done: &mut Vec<u32>, woken: &mut WaitList,
    ) -> Option<MemberIo> {
        let stripe = self.stripe_state(&self.entries[index as usize]);
        let entry = &mut self.entries[index as usize];
        let sector = entry.row * ROW_SECTORS;
        // An array that has lost more members than its level tolerates is refused, so this is never `None`.
        let mut slots = stripe.plan_read(entry.wanted).unwrap_or(0);
        if slots == 0 && !entry.reads.is_empty() {
            entry.cached |= entry.wanted;
            entry.wanted = 0;
            finish_bios(&mut entry.reads, bios, done);
        }
        // While a plug holds the row, its writes wait for more bios of the plug.
        if !entry.writes.is_empty() && entry.held == 0 {
            let plan = stripe.plan_write(entry.whole, entry.part)?;
            if plan.read != 0 && self.delays_writes && !entry.reading_ahead {
                if !std::mem::replace(&mut entry.delayed, true) {
                    self.delayed.push(index);
                }
                return (slots != 0).then_some(MemberIo { op: Op::Read, slots, sector, method: None });
            }
            slots |= plan.read;
            if slots == 0 {
                entry.delayed = false;
                self.reading_ahead -= u32::from(std::mem::take(&mut entry.reading_ahead));
                std::mem::swap(&mut entry.writing, &mut entry.writes);
                let pages = entry.whole | entry.part | plan.write;
                (entry.whole, entry.part, entry.io) = (0, 0, RowIo::Writing(pages));
                woken.append(&mut self.overlapping);
                return Some(MemberIo { op: Op::Write, slots: plan.write, sector, method: Some(plan.method) });
            }
        }
        (slots != 0).then_some(MemberIo { op: Op::Read, slots, sector, method: None })
    }
}

/// Counts a row of these bios as done.
fn finish_bios(list: &mut Vec<u32>, bios: &mut Bios, done: &mut Vec<u32>) {
    for number in list.drain(..) {
        bios[number].remaining -= 1;
        if bios[number].remaining == 0 {
            done.push(number);
        }
    }
}
