//! The write-intent bitmap: a bit is on every member's disk before its chunk is written, and is cleared lazily.
//!
//! drivers/md/md-bitmap.c, Linux 6.1: `md_bitmap_startwrite`, `md_bitmap_endwrite`, `md_bitmap_unplug` and
//! `md_bitmap_daemon_work`. The array's thread writes the pages and then passes the writes on that had to wait
//! (`flush_pending_writes`, raid5.c's `bitmap_list`); here that is a task of its own, and the task that made the
//! writes never waits with them. Pages are written with `REQ_PREFLUSH | REQ_FUA`; forced unit access is taken to
//! be a flush afterwards, as SATA disks have it in Linux. The bitmap lies at the beginning of the member's data,
//! not before it.

mod flush;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::spec::Md;
use crate::bio::NONE;
use crate::events::Time;

/// `mddev->bitmap_info.daemon_sleep`.
const DAEMON_SLEEP: Time = 5_000_000_000;
/// Bits of a page, and those that the superblock takes of the first.
const PAGE_BITS: u64 = 4096 * 8;
const SUPERBLOCK_BITS: u64 = 256 * 8;

/// A chunk whose bit is set: `bitmap_counter_t`.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// Writes under way.
    writes: u32,
    /// The daemon has found it idle once.
    idle: bool,
    /// Its bit has been written.
    on_disk: bool,
}

/// What the bitmap's task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Rest,
    Before,
    Write,
    After,
}

/// An array's bitmap.
#[derive(Debug)]
pub struct Bitmap {
    /// Sectors of a bit.
    chunk: u64,
    /// Its task.
    pub task: u32,
    counters: BTreeMap<u64, Counter>,
    /// Chunks whose bits were set since the last write, and bios that wait for them.
    set: Vec<u64>,
    held: Vec<u32>,
    /// Whether the plug of one of them has ended.
    asked: bool,
    /// The same of the write under way, and its pages.
    setting: Vec<u64>,
    releasing: Vec<u32>,
    pages: Vec<u64>,
    step: Step,
    /// Bios of the bitmap under way.
    in_flight: u32,
    /// Pages with bits cleared, which the daemon writes when it runs next.
    cleared: BTreeSet<u64>,
    /// When the daemon has run, and runs next.
    ran: Time,
    due: Option<Time>,
}

impl Bitmap {
    /// An array's bitmap, if it has one, with nothing set.
    pub fn of(md: &Md) -> Result<Option<Box<Self>>, String> {
        // `md_bitmap_read_sb`.
        let chunk = md.bitmap_chunk;
        if md.bitmap && (chunk < 4096 || !chunk.is_power_of_two()) {
            return Err(format!("a bitmap chunk of {chunk} bytes: a power of two from 4096 on can be"));
        }
        Ok(md.bitmap.then(|| Box::new(Self::new(chunk / 512))))
    }

    /// A bit for so many sectors.
    fn new(chunk: u64) -> Self {
        Self {
            chunk,
            task: NONE,
            counters: BTreeMap::new(),
            set: Vec::new(),
            held: Vec::new(),
            asked: false,
            setting: Vec::new(),
            releasing: Vec::new(),
            pages: Vec::new(),
            step: Step::Rest,
            in_flight: 0,
            cleared: BTreeSet::new(),
            ran: 0,
            due: None,
        }
    }

    fn page(chunk: u64) -> u64 {
        (chunk + SUPERBLOCK_BITS) / PAGE_BITS
    }

    fn chunks(&self, (first, last): (u64, u64)) -> std::ops::RangeInclusive<u64> {
        first / self.chunk..=last / self.chunk
    }

    /// A write from the first sector to the last begins. False if it was kept until its bits are on disk.
    pub fn begin(&mut self, number: u32, sectors: (u64, u64)) -> bool {
        let mut on_disk = true;
        for chunk in self.chunks(sectors) {
            let counter = self.counters.entry(chunk).or_insert_with(|| {
                self.set.push(chunk);
                Counter { writes: 0, idle: false, on_disk: false }
            });
            counter.writes += 1;
            counter.idle = false;
            on_disk &= counter.on_disk;
        }
        if !on_disk {
            self.held.push(number);
        }
        on_disk
    }

    /// A write is done. True if the daemon has something to do now and had not before.
    pub fn end(&mut self, sectors: (u64, u64), now: Time) -> bool {
        let mut idle = false;
        for chunk in self.chunks(sectors) {
            let Some(counter) = self.counters.get_mut(&chunk) else { continue };
            counter.writes -= 1;
            idle |= counter.writes == 0;
        }
        if !idle || self.due.is_some() {
            return false;
        }
        let next = self.ran + DAEMON_SLEEP;
        self.due = Some(if next > now { next } else { now + DAEMON_SLEEP });
        true
    }

    /// When the daemon runs next.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// The daemon looks for chunks that have not been written for a while, and says which pages to write now;
    /// an array that lacks a member keeps its bits.
    fn daemon(&mut self, now: Time, keep: bool) -> Vec<u64> {
        self.ran = now;
        let pages = std::mem::take(&mut self.cleared);
        let (cleared, mut again) = (&mut self.cleared, false);
        self.counters.retain(|&chunk, counter| {
            if counter.writes > 0 || keep {
                return true;
            }
            let stays = !std::mem::replace(&mut counter.idle, true);
            again |= stays;
            if !stays && !pages.contains(&Self::page(chunk)) {
                cleared.insert(Self::page(chunk));
            }
            stays
        });
        again |= !cleared.is_empty();
        self.due = again.then_some(now + DAEMON_SLEEP);
        pages.into_iter().collect()
    }
}
