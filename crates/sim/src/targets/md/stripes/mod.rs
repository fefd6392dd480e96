//! RAID-4, 5 and 6: the stripe cache, through which goes every write, and every read of a degraded array.
//!
//! An entry is a row: a page of 4 KiB of each member. A bio is attached to the rows that it touches
//! (`raid5_make_request`); the array's thread (`raid5d`) plans each row's reads and writes, and completes the bios
//! when they are done. drivers/md/raid5.c, Linux 6.1.
//!
//! All writes here are synchronous (`REQ_SYNC`, as direct I/O, clones and journals are), which sets
//! `STRIPE_PREREAD_ACTIVE` at once: what lets a stream fill its stripes is the plug of the task that writes, and
//! the rows that queue up before the thread, not the delayed list.

mod cache;
mod handle;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::map::Raid456;
use super::parity::{Preference, Stripe};
use crate::bio::{Bio, Bios, Op};
use crate::engine::{Simulation, WaitList};
pub use handle::Issue;

/// Sectors of a row on each member (`RAID5_STRIPE_SECTORS`).
pub const ROW_SECTORS: u64 = 8;

/// What a row's I/O on the members is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None is under way.
    Idle,
    /// Reading these members' pages.
    Reading(u64),
    /// Writing: afterwards the cache has these pages.
    Writing(u64),
}

/// What a resync wants of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncing {
    No,
    Wanted,
    Storing,
}

/// A row in the cache (`struct stripe_head`).
#[derive(Clone, Debug)]
struct Entry {
    row: u64,
    /// Whether its pages belong to `row`, so that it is found there.
    hashed: bool,
    /// Whether somebody uses it; otherwise it is in the list of the inactive.
    active: bool,
    /// The next one of the same hash.
    chain: u32,
    /// Neighbours in the list of the inactive.
    older: u32,
    newer: u32,
    /// Members whose page is up to date.
    cached: u64,
    /// Plugs that hold it back.
    held: u32,
    /// Whether it waits for the thread.
    queued: bool,
    state: State,
    syncing: Syncing,
    /// Bios that read, and the members' pages that they want.
    reads: Vec<u32>,
    wanted: u64,
    /// Bios to be written, and the pages that they overwrite, and overwrite in part.
    writes: Vec<u32>,
    whole: u64,
    part: u64,
    /// Bios that are being written.
    writing: Vec<u32>,
}

/// What became of a bio that came to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// It is attached to all its rows.
    All,
    /// So it is, and all of them are done already.
    Done,
    /// The task must wait, with the bio.
    Wait,
}

/// The stripe cache of one array.
#[derive(Debug)]
pub struct Stripes {
    /// Where everything is.
    pub map: Raid456,
    preference: Preference,
    /// Rows of a chunk.
    rows: u64,
    missing: u64,
    rebuilding: u64,
    /// Rows below this one have been rebuilt.
    pub recovered: u64,
    /// From this row on a resync has not made parity right.
    pub dirty_from: u64,
    entries: Vec<Entry>,
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    active: u32,
    /// A task found no entry: nobody gets one until a quarter is free (`R5_INACTIVE_BLOCKED`).
    starved: bool,
    queue: VecDeque<u32>,
    /// Tasks that wait for an entry, or until another write of the same sectors has begun.
    waiting: WaitList,
    overlapping: WaitList,
    /// Bios that are attached up to a row.
    partial: Vec<(u32, u64)>,
    /// Rows that a resync has got done since it last looked.
    pub synced_rows: u64,
}

impl Stripes {
    /// A cache of so many entries; the masks say which members are missing, and which are being rebuilt.
    pub fn new(map: Raid456, entries: u32, preference: Preference, missing: u64, rebuilding: u64) -> Self {
        let mut stripes = Self {
            preference,
            rows: map.chunk() / ROW_SECTORS,
            missing,
            rebuilding,
            recovered: 0,
            dirty_from: u64::MAX,
            entries: Vec::new(),
            buckets: Vec::new(),
            oldest: 0,
            newest: 0,
            active: 0,
            starved: false,
            queue: VecDeque::new(),
            waiting: WaitList::default(),
            overlapping: WaitList::default(),
            partial: Vec::new(),
            synced_rows: 0,
            map,
        };
        stripes.fill(entries);
        stripes
    }

    /// Whether reads go around the cache: only if nothing is lost (`raid5_make_request` on `degraded`).
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.missing | self.rebuilding == 0
    }

    /// A recovery is complete.
    pub fn rebuilt(&mut self) {
        self.rebuilding = 0;
    }

    /// A row as the planner sees it.
    fn stripe(&self, entry: &Entry) -> Stripe {
        Stripe {
            disks: self.map.disks(),
            parity: self.map.parity(entry.row / self.rows),
            missing: self.missing,
            rebuilding: if entry.row < self.recovered { 0 } else { self.rebuilding },
            cached: entry.cached,
            dirty: entry.row >= self.dirty_from,
            preference: self.preference,
        }
    }

    /// Attaches a bio to its rows, in their order; the task's plug holds them for the array `id`.
    pub fn attach(&mut self, sim: &mut Simulation, task: u32, number: u32, id: u16) -> Attached {
        let bio = sim.bios[number];
        let mut row = match self.partial.iter().position(|&(waiting, _)| waiting == number) {
            Some(place) => self.partial.swap_remove(place).1,
            None => {
                // Its own part, so that it is not done before all of it is attached.
                sim.bios[number].remaining = 1;
                self.map.stripe(bio.sector) * self.rows
            }
        };
        let last = self.map.stripe(bio.end() - 1);
        while row / self.rows <= last {
            let (low, high) = self.extent(row / self.rows, &bio);
            let within = row % self.rows;
            if within < low {
                row += low - within;
                continue;
            }
            if within > high {
                row += self.rows - within;
                continue;
            }
            let (whole, part) = self.pages(row, &bio);
            if whole | part != 0 {
                let Some(index) = self.get(row) else {
                    self.waiting.add(task);
                    self.partial.push((number, row));
                    return Attached::Wait;
                };
                if bio.op == Op::Write && self.overlaps(index, &bio, &sim.bios) {
                    self.overlapping.add(task);
                    self.partial.push((number, row));
                    return Attached::Wait;
                }
                self.add(index, number, (whole, part), &sim.bios);
                sim.bios[number].remaining += 1;
                self.entries[index as usize].held += 1;
                sim.plug_callback(task, id, index);
            }
            row += 1;
        }
        let remaining = &mut sim.bios[number].remaining;
        *remaining -= 1;
        if *remaining == 0 { Attached::Done } else { Attached::All }
    }

    /// The first and the last row that a bio may touch in a stripe of chunks.
    fn extent(&self, stripe: u64, bio: &Bio) -> (u64, u64) {
        let (low, high) = self.chunks(stripe, bio);
        if low < high {
            return (0, self.rows - 1);
        }
        let start = low * self.map.chunk();
        let first = bio.sector.max(start) - start;
        let last = (bio.end() - 1).min(start + self.map.chunk() - 1) - start;
        (first / ROW_SECTORS, last / ROW_SECTORS)
    }

    /// The first and the last chunk of the array that a bio touches in a stripe of chunks.
    fn chunks(&self, stripe: u64, bio: &Bio) -> (u64, u64) {
        let (chunk, data) = (self.map.chunk(), u64::from(self.map.data()));
        let low = (bio.sector / chunk).max(stripe * data);
        let high = ((bio.end() - 1) / chunk).min(stripe * data + data - 1);
        (low, high)
    }

    /// The array's pages in a row that a bio touches: (member, first sector).
    fn touched(&self, row: u64, bio: &Bio) -> impl Iterator<Item = (u32, u64)> {
        let stripe = row / self.rows;
        let (low, high) = self.chunks(stripe, bio);
        let (sector, end) = (bio.sector, bio.end());
        let (map, rows) = (&self.map, self.rows);
        (low..=high).filter_map(move |chunk| {
            let start = chunk * map.chunk() + row % rows * ROW_SECTORS;
            let index = (chunk - stripe * u64::from(map.data())) as u32;
            (start < end && sector < start + ROW_SECTORS).then(|| (map.slot(stripe, index), start))
        })
    }

    /// The pages of a row that a bio has whole, and those that it has in part.
    fn pages(&self, row: u64, bio: &Bio) -> (u64, u64) {
        let (mut whole, mut part) = (0, 0);
        for (slot, start) in self.touched(row, bio) {
            let all = bio.sector <= start && start + ROW_SECTORS <= bio.end();
            *(if all { &mut whole } else { &mut part }) |= 1 << slot;
        }
        (whole, part)
    }

    /// Whether a row has sectors to be written that this bio writes too (`stripe_bio_overlaps`).
    fn overlaps(&self, index: u32, bio: &Bio, bios: &Bios) -> bool {
        let entry = &self.entries[index as usize];
        !entry.writes.is_empty()
            && self.touched(entry.row, bio).any(|(_, start)| {
                let (from, to) = (start.max(bio.sector), (start + ROW_SECTORS).min(bio.end()));
                entry.writes.iter().any(|&n| bios[n].sector < to && from < bios[n].end())
            })
    }

    fn add(&mut self, index: u32, number: u32, (whole, mut part): (u64, u64), bios: &Bios) {
        let entry = &self.entries[index as usize];
        if bios[number].op == Op::Read {
            let entry = &mut self.entries[index as usize];
            entry.reads.push(number);
            entry.wanted |= whole | part;
            return;
        }
        // Several bios may overwrite a page together (`add_stripe_bio`).
        let mut together = 0;
        if part != 0 && entry.part & part != 0 {
            for (slot, start) in self.touched(entry.row, &bios[number]) {
                let covered = entry.writes.iter().chain([&number]).map(|&n| covers(&bios[n], start));
                if covered.fold(0, |all, one| all | one) == 0xff {
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

    /// A plug lets go of an entry: the thread may have it. True if it must be woken.
    pub fn release(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        entry.held -= 1;
        self.offer(index)
    }

    /// A row's I/O on the members is done. True if the thread must be woken.
    pub fn io_done(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        // The plugs wait for the row's bios to come together, not for its I/O.
        entry.queued = true;
        self.queue.push_back(index);
        true
    }

    /// Puts an entry before the thread, unless something holds it back.
    fn offer(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        if entry.held > 0 || entry.queued || entry.state != State::Idle {
            return false;
        }
        entry.queued = true;
        self.queue.push_back(index);
        true
    }

    /// Takes the row that the thread handles next.
    pub fn pop(&mut self) -> Option<u32> {
        self.queue.pop_front()
    }

    /// Whether a row's I/O is a resync's.
    pub fn is_syncing(&self, index: u32) -> bool {
        self.entries[index as usize].syncing != Syncing::No
    }

    /// A resync wants a row read and, if members are being rebuilt, written. False if the task must wait.
    pub fn sync(&mut self, task: u32, row: u64) -> bool {
        let Some(index) = self.get(row) else {
            self.waiting.add(task);
            return false;
        };
        self.entries[index as usize].syncing = Syncing::Wanted;
        self.offer(index);
        true
    }
}

/// Which sectors of the page at `start` a bio has.
fn covers(bio: &Bio, start: u64) -> u8 {
    (0..ROW_SECTORS)
        .filter(|i| (bio.sector..bio.end()).contains(&(start + i)))
        .fold(0, |mask, sector| mask | 1 << sector)
}
