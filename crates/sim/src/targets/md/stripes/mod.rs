//! RAID-4, 5 and 6: the stripe cache. Every write, and every read of a degraded array, goes through it.
//!
//! An entry is a row: a page of 4 KiB of each member. A bio is attached to the rows that it touches
//! (`raid5_make_request`). The array's thread (`raid5d`) plans each row's reads and writes, and completes the bios
//! when they are done. drivers/md/raid5.c, Linux 6.1.
//!
//! All writes here are synchronous (`REQ_SYNC`, as direct I/O, clones and journals are), which sets
//! `STRIPE_PREREAD_ACTIVE` at once. So streams fill whole stripes because of the plug of the writing task, and
//! because rows queue up for the thread, not because of the delayed list. In kernels 2.6 all writes that must read first
//! go through this list: it is read when the thread has nothing else to do and no row of the list before is being read
//! (`raid5_activate_delayed`, `IO_THRESHOLD`).

#[cfg(test)]
mod tests;

use super::admission::Admission;
use super::parity::{RmwLevel, Stripe};
use crate::bio::{Bio, Bios, NONE, Op};
use crate::engine::{Plugged, Simulation, WaitList};
use crate::rng::mix;
use crate::targets::md::parity::ParityMethod;
use blklab_md::map::Raid456Map;
use std::collections::VecDeque;

/// Sectors of a row on each member (`RAID5_STRIPE_SECTORS`).
pub const ROW_SECTORS: u64 = 8;

/// A row's I/O on the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowIo {
    #[default]
    Idle, // No I/O is in flight
    Reading(u64), // These members' pages are being read
    Writing(u64), // Members are being written; afterwards the cache has these pages
}

/// The state of a row in a resync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowSync {
    #[default]
    No,
    Wanted,
    Storing,
}

/// A row in the cache (`struct stripe_head`).
#[derive(Clone, Debug, Default)]
struct StripeHead {
    row: u64,
    hashed: bool, // Whether its pages belong to `row`, so that the hash table finds it
    active: bool, // Whether it is in use; otherwise it is in the list of inactive entries
    chain: u32,   // The next entry with the same hash
    older: u32,   // Neighbours in the list of inactive entries
    newer: u32,
    cached: u64,   // Members whose page is up to date
    held: u32,     // The number of plugs that hold it back
    queued: bool,  // Whether it is queued for the thread
    delayed: bool, // Whether it is in the delayed list, and whether it was and is being read (`STRIPE_PREREAD_ACTIVE`)
    reading_ahead: bool,
    io: RowIo,
    syncing: RowSync,
    reads: Vec<u32>, // Bios that read, and the members' pages that they need
    wanted: u64,
    /// Bios that wait to be written, the pages that they overwrite completely, and those that they overwrite partly.
    writes: Vec<u32>,
    whole: u64,
    part: u64,
    writing: Vec<u32>, // Bios that are being written
}

/// The stripe cache of one array.
#[derive(Default)]
pub struct StripeCache {
    pub map: Raid456Map, // The array's map
    rmw_level: RmwLevel,
    row_shift: u32, // Rows of a chunk: 2 to this power
    pub missing: u64,
    pub rebuilding: u64,
    pub recovered: u64,  // Rows below this one have been rebuilt
    pub dirty_from: u64, // From this row on parity is not valid, because a resync has not reached it
    entries: Vec<StripeHead>,
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    active: u32,
    starved: bool, // A task found no free entry: no task gets one until a quarter is free (`R5_INACTIVE_BLOCKED`)
    pub queue: VecDeque<u32>, // Rows that wait for a thread
    pub delays_writes: bool, // Whether writes that must read first wait in the delayed list
    delayed: Vec<u32>,
    reading_ahead: u32, // Rows of the list before that are being read
    /// Tasks that wait for an entry; tasks that wait until another write of the same sectors has begun.
    waiting: WaitList,
    overlapping: WaitList,
    partial: Vec<(u32, u64)>, // Bios that are attached only up to a row
    pub done: Vec<u32>,       // Bios that are done, and tasks that can continue, after a row was handled
    pub woken: WaitList,
    pub synced_rows: u64, // Rows that a resync has finished since it last looked
}

impl StripeCache {
    /// A cache of `entries`; the masks are the members that are missing and those that are being rebuilt.
    pub fn new(map: Raid456Map, entries: u32, rmw_level: RmwLevel, missing: u64, rebuilding: u64) -> Self {
        let mut stripes = Self {
            rmw_level,
            row_shift: (map.chunk() / ROW_SECTORS).ilog2(),
            missing,
            rebuilding,
            dirty_from: u64::MAX,
            map,
            ..Self::default()
        };
        stripes.add_entries(entries);
        stripes
    }

    /// The state of a row for the planner.
    fn stripe_state(&self, entry: &StripeHead) -> Stripe {
        Stripe {
            disks: self.map.disks(),
            parity: self.map.parity_slots(entry.row >> self.row_shift),
            missing: self.missing,
            rebuilding: if entry.row < self.recovered { 0 } else { self.rebuilding },
            cached: entry.cached,
            dirty: entry.row >= self.dirty_from,
            rmw_level: self.rmw_level,
        }
    }

    /// Attaches a bio to its rows, in their order: it is done if all of them are. The task's plug holds the rows back for the array `id`.
    pub fn attach(&mut self, sim: &mut Simulation, task: u32, number: u32, id: u16) -> Admission {
        let bio = sim.bios[number];
        let mut row = match self.partial.iter().position(|&(waiting, _)| waiting == number) {
            Some(place) => self.partial.swap_remove(place).1,
            None => {
                // Counted as one part, so that the bio is not done before it is attached completely.
                sim.bios[number].remaining = 1;
                self.map.stripe_of(bio.sector) << self.row_shift
            }
        };
        let last = self.map.stripe_of(bio.end() - 1);
        while row >> self.row_shift <= last {
            let stripe = row >> self.row_shift;
            let (low, high) = self.row_extent(stripe, &bio);
            row = row.max((stripe << self.row_shift) + low);
            if row > (stripe << self.row_shift) + high {
                row = (stripe + 1) << self.row_shift;
                continue;
            }
            let (whole, part) = self.page_masks(row, &bio);
            if whole | part != 0 {
                let Some(index) = self.get_active_stripe(row) else {
                    self.waiting.add(task);
                    self.partial.push((number, row));
                    return Admission::Wait;
                };
                if bio.op == Op::Write && self.overlaps(index, &bio, &sim.bios) {
                    self.overlapping.add(task);
                    self.partial.push((number, row));
                    return Admission::Wait;
                }
                self.add_stripe_bio(index, number, (whole, part), &sim.bios);
                sim.bios[number].remaining += 1;
                self.entries[index as usize].held += 1;
                sim.tasks[task as usize].callbacks.push(Plugged { target: id, token: index });
            }
            row += 1;
        }
        let remaining = &mut sim.bios[number].remaining;
        *remaining -= 1;
        if *remaining == 0 { Admission::Done } else { Admission::Taken }
    }

    /// The first and the last row of a stripe of chunks that a bio can touch.
    fn row_extent(&self, stripe: u64, bio: &Bio) -> (u64, u64) {
        let (low, high) = self.chunk_extent(stripe, bio);
        if low < high {
            return (0, (1 << self.row_shift) - 1);
        }
        let start = low * self.map.chunk();
        let first = bio.sector.max(start) - start;
        let last = (bio.end() - 1).min(start + self.map.chunk() - 1) - start;
        (first / ROW_SECTORS, last / ROW_SECTORS)
    }

    /// The first and the last chunk of the array in a stripe of chunks that a bio touches.
    fn chunk_extent(&self, stripe: u64, bio: &Bio) -> (u64, u64) {
        let (chunk, data) = (self.map.chunk(), u64::from(self.map.data()));
        let low = (bio.sector / chunk).max(stripe * data);
        let high = ((bio.end() - 1) / chunk).min(stripe * data + data - 1);
        (low, high)
    }

    /// The array's pages in a row that a bio touches: (member, first sector).
    fn touched_pages(&self, row: u64, bio: &Bio) -> impl Iterator<Item = (u32, u64)> {
        let stripe = row >> self.row_shift;
        let (low, high) = self.chunk_extent(stripe, bio);
        let (sector, end) = (bio.sector, bio.end());
        let (map, rows) = (&self.map, 1 << self.row_shift);
        (low..=high).filter_map(move |chunk| {
            let start = chunk * map.chunk() + row % rows * ROW_SECTORS;
            let index = (chunk - stripe * u64::from(map.data())) as u32;
            (start < end && sector < start + ROW_SECTORS).then(|| (map.data_slot(stripe, index), start))
        })
    }

    /// The pages of a row that a bio covers completely, and those that it covers partly, as masks.
    fn page_masks(&self, row: u64, bio: &Bio) -> (u64, u64) {
        let (mut whole, mut part) = (0, 0);
        for (slot, start) in self.touched_pages(row, bio) {
            let all = bio.sector <= start && start + ROW_SECTORS <= bio.end();
            *(if all { &mut whole } else { &mut part }) |= 1 << slot;
        }
        (whole, part)
    }

    /// Whether a bio writes sectors for which the row already has a waiting write (`stripe_bio_overlaps`).
    fn overlaps(&self, index: u32, bio: &Bio, bios: &Bios) -> bool {
        let entry = &self.entries[index as usize];
        !entry.writes.is_empty()
            && self.touched_pages(entry.row, bio).any(|(_, start)| {
                let (from, to) = (start.max(bio.sector), (start + ROW_SECTORS).min(bio.end()));
                entry.writes.iter().any(|&n| bios[n].sector < to && from < bios[n].end())
            })
    }

    fn add_stripe_bio(&mut self, index: u32, number: u32, (whole, mut part): (u64, u64), bios: &Bios) {
        let entry = &self.entries[index as usize];
        if bios[number].op == Op::Read {
            let entry = &mut self.entries[index as usize];
            entry.reads.push(number);
            entry.wanted |= whole | part;
            return;
        }
        // Several bios can overwrite a page together (`add_stripe_bio`).
        let mut together = 0;
        if part != 0 && entry.part & part != 0 {
            for (slot, start) in self.touched_pages(entry.row, &bios[number]) {
                let covered = entry.writes.iter().chain([&number]).map(|&n| covered_sectors(&bios[n], start));
                if covered.fold(0, |all, sectors| all | sectors) == 0xff {
                    together |= 1 << slot;
                }
            }
        }
        part &= !together;
        let entry = &mut self.entries[index as usize];
        entry.writes.push(number);
        entry.whole |= whole | together;
        entry.part = (entry.part | part) & !entry.whole;
    }

    /// A plug releases an entry: queues it for the thread. True if the thread must be woken.
    pub fn unplug_row(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        entry.held -= 1;
        self.queue_row(index)
    }

    /// Ends a row's I/O on the members. The caller wakes a thread.
    pub fn end_row_io(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        // Plugs hold back new bios, not the end of I/O.
        entry.queued = true;
        self.queue.push_back(index);
    }

    /// Queues an entry for the thread, unless a plug holds it back or it has I/O in flight.
    fn queue_row(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        if entry.held > 0 || entry.queued || entry.io != RowIo::Idle {
            return false;
        }
        entry.queued = true;
        self.queue.push_back(index);
        true
    }

    /// Takes the next row for a thread.
    pub fn pop_row(&mut self) -> Option<u32> {
        if self.queue.is_empty() && self.reading_ahead == 0 {
            for index in std::mem::take(&mut self.delayed) {
                let entry = &mut self.entries[index as usize];
                if std::mem::take(&mut entry.delayed) && !entry.reading_ahead {
                    entry.reading_ahead = true;
                    self.reading_ahead += 1;
                    self.queue_row(index);
                }
            }
        }
        self.queue.pop_front()
    }

    /// Whether a row's I/O belongs to a resync.
    pub fn is_syncing(&self, index: u32) -> bool {
        self.entries[index as usize].syncing != RowSync::No
    }

    /// Requests that a row is read for a resync and, if members are being rebuilt, written. False if the task must
    /// wait.
    pub fn request_row_sync(&mut self, task: u32, row: u64) -> bool {
        let Some(index) = self.get_active_stripe(row) else {
            self.waiting.add(task);
            return false;
        };
        self.entries[index as usize].syncing = RowSync::Wanted;
        self.queue_row(index);
        true
    }
}

/// The sectors of the page at `start` that a bio covers, as a mask.
fn covered_sectors(bio: &Bio, start: u64) -> u8 {
    (0..ROW_SECTORS)
        .filter(|i| (bio.sector..bio.end()).contains(&(start + i)))
        .fold(0, |mask, sector| mask | 1 << sector)
}

// One step of the array's thread for a row (`handle_stripe`): from finished I/O to the next reads or writes.

/// A row's next I/O on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    pub op: Op,                       // A read or a write
    pub slots: u64,                   // The members, as a mask
    pub sector: u64,                  // The sector on each member
    pub method: Option<ParityMethod>, // How parity was calculated, if bios are written
}

impl StripeCache {
    /// Handles an entry; returns its next I/O, if it needs any.
    pub fn handle_stripe(&mut self, index: u32, bios: &mut Bios) -> Option<MemberIo> {
        self.entries[index as usize].queued = false;
        self.end_io(index, bios);
        let issue = self.next_sync_io(index).or_else(|| self.next_bio_io(index, bios));
        let entry = &mut self.entries[index as usize];
        match issue {
            Some(MemberIo { op: Op::Read, slots, .. }) => entry.io = RowIo::Reading(slots),
            Some(_) => {}
            None if entry.held == 0 && !entry.delayed => {
                debug_assert!(entry.reads.is_empty() && entry.writes.is_empty() && entry.writing.is_empty());
                self.put_inactive(index);
                // Enough entries are free again for the tasks that wait.
                if self.starved && self.active < self.entries.len() as u32 * 3 / 4 {
                    self.starved = false;
                    self.woken.append(&mut self.waiting);
                }
            }
            None => {}
        }
        issue
    }

    /// Records the result of finished I/O.
    fn end_io(&mut self, index: u32, bios: &mut Bios) {
        let entry = &mut self.entries[index as usize];
        match std::mem::replace(&mut entry.io, RowIo::Idle) {
            RowIo::Idle => {}
            RowIo::Reading(slots) => entry.cached |= slots,
            RowIo::Writing(slots) => {
                entry.cached |= slots;
                finish_bios(&mut entry.writing, bios, &mut self.done);
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
    fn next_bio_io(&mut self, index: u32, bios: &mut Bios) -> Option<MemberIo> {
        let entry = &self.entries[index as usize];
        if entry.reads.is_empty() && entry.writes.is_empty() {
            return None;
        }
        let stripe = self.stripe_state(entry);
        let entry = &mut self.entries[index as usize];
        let sector = entry.row * ROW_SECTORS;
        // An array that has lost more members than its level tolerates is refused, so this is never `None`.
        let mut slots = stripe.plan_read(entry.wanted).unwrap_or(0);
        if slots == 0 && !entry.reads.is_empty() {
            entry.cached |= entry.wanted;
            entry.wanted = 0;
            finish_bios(&mut entry.reads, bios, &mut self.done);
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
                self.woken.append(&mut self.overlapping);
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

// Which rows are in the cache, and which one is replaced: the one inactive for longest.

impl StripeCache {
    /// Creates the entries, all inactive.
    fn add_entries(&mut self, entries: u32) {
        let empty = StripeHead { active: true, chain: NONE, older: NONE, newer: NONE, ..StripeHead::default() };
        self.entries = vec![empty; entries as usize];
        self.buckets = vec![NONE; entries.next_power_of_two() as usize * 2];
        (self.oldest, self.newest, self.active) = (NONE, NONE, entries);
        for index in 0..entries {
            self.put_inactive(index);
        }
    }

    fn bucket(&self, row: u64) -> usize {
        mix(row) as usize & (self.buckets.len() - 1)
    }

    /// Returns the entry of a row and makes it active; none if the task must wait (`raid5_get_active_stripe`).
    fn get_active_stripe(&mut self, row: u64) -> Option<u32> {
        let bucket = self.bucket(row);
        let mut index = self.buckets[bucket];
        while index != NONE && self.entries[index as usize].row != row {
            index = self.entries[index as usize].chain;
        }
        if index != NONE {
            if !self.entries[index as usize].active {
                self.take_inactive(index);
            }
            return Some(index);
        }
        if self.starved || self.oldest == NONE {
            self.starved = true;
            return None;
        }
        let index = self.oldest;
        self.take_inactive(index);
        if self.entries[index as usize].hashed {
            self.unhash(index);
        }
        let entry = &mut self.entries[index as usize];
        (entry.row, entry.hashed, entry.cached) = (row, true, 0);
        entry.chain = std::mem::replace(&mut self.buckets[bucket], index);
        Some(index)
    }

    fn unhash(&mut self, index: u32) {
        let StripeHead { row, chain, .. } = self.entries[index as usize];
        let bucket = self.bucket(row);
        let mut link = &mut self.buckets[bucket];
        while *link != index {
            let next = *link as usize;
            link = &mut self.entries[next].chain;
        }
        *link = chain;
    }

    /// Removes an entry from the list of inactive entries.
    fn take_inactive(&mut self, index: u32) {
        let StripeHead { older, newer, .. } = self.entries[index as usize];
        *(if older == NONE { &mut self.oldest } else { &mut self.entries[older as usize].newer }) = newer;
        *(if newer == NONE { &mut self.newest } else { &mut self.entries[newer as usize].older }) = older;
        self.entries[index as usize].active = true;
        self.active += 1;
    }

    /// Adds an entry to the list of inactive entries; its pages stay until another row needs them.
    fn put_inactive(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        match newest {
            NONE => self.oldest = index,
            _ => self.entries[newest as usize].newer = index,
        }
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer, entry.active) = (newest, NONE, false);
        self.active -= 1;
    }
}
