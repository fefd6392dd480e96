//! The write-intent bitmap: a bit is on every member's disk before its chunk is written, and is cleared lazily.
//!
//! drivers/md/md-bitmap.c, Linux 6.1: `md_bitmap_startwrite`, `md_bitmap_endwrite`, `md_bitmap_unplug` and
//! `md_bitmap_daemon_work`. The kernel's array thread writes the pages and then submits the writes that had to wait
//! (`flush_pending_writes`, raid5.c's `bitmap_list`). Here a separate task does that, and the task that made the
//! writes never waits with them. Pages are written with `REQ_PREFLUSH | REQ_FUA`; forced unit access is simulated as
//! a flush afterwards, as Linux does for SATA disks. The bitmap lies at the beginning of the member's data, not
//! before it.

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
struct ChunkCounter {
    writes: u32,   // Writes in flight
    idle: bool,    // Whether the daemon has seen it idle once
    on_disk: bool, // Whether its bit has been written
}

/// What the bitmap's task is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BitmapStep {
    #[default]
    Idle,
    PreFlush,
    Write,
    PostFlush,
}

/// An array's bitmap.
#[derive(Debug, Default)]
pub struct Bitmap {
    chunk: u64,    // Sectors of a chunk: one bit
    pub task: u32, // The worker's task
    counters: BTreeMap<u64, ChunkCounter>,
    new_chunks: Vec<u64>, // Chunks whose bits were set since the last write of the bitmap, and bios that wait for them
    held_bios: Vec<u32>,
    write_requested: bool,    // Whether the plug of a waiting bio has ended
    writing_chunks: Vec<u64>, // The same for the write in progress, and its pages
    released_bios: Vec<u32>,
    pages: Vec<u64>,
    step: BitmapStep,
    in_flight: u32,         // Bios of the bitmap in flight
    cleared: BTreeSet<u64>, // Pages with cleared bits, which the daemon writes when it runs next
    ran_at: Time,           // When the daemon ran last, and when it runs next
    due: Option<Time>,
}

impl Bitmap {
    /// An array's bitmap without set bits, if the array has one.
    pub fn for_array(md: &Md) -> Result<Option<Box<Self>>, String> {
        // `md_bitmap_read_sb`.
        let chunk = md.bitmap_chunk;
        if md.bitmap && (chunk < 4096 || !chunk.is_power_of_two()) {
            return Err(format!("bitmap_chunk {chunk}: expected a power of two, at least 4096 bytes"));
        }
        Ok(md.bitmap.then(|| Box::new(Self::new(chunk / 512))))
    }

    /// An empty bitmap with chunks of `chunk` sectors.
    fn new(chunk: u64) -> Self {
        Self { chunk, task: NONE, ..Self::default() }
    }

    fn page_of(chunk: u64) -> u64 {
        (chunk + SUPERBLOCK_BITS) / PAGE_BITS
    }

    fn chunks(&self, (first, last): (u64, u64)) -> std::ops::RangeInclusive<u64> {
        first / self.chunk..=last / self.chunk
    }

    /// Starts a write from the first to the last sector. False if the bio must wait until its bits are on disk.
    pub fn start_write(&mut self, number: u32, sectors: (u64, u64)) -> bool {
        let mut on_disk = true;
        for chunk in self.chunks(sectors) {
            let counter = self.counters.entry(chunk).or_insert_with(|| {
                self.new_chunks.push(chunk);
                ChunkCounter { writes: 0, idle: false, on_disk: false }
            });
            counter.writes += 1;
            counter.idle = false;
            on_disk &= counter.on_disk;
        }
        if !on_disk {
            self.held_bios.push(number);
        }
        on_disk
    }

    /// Ends a write. True if the daemon now has something to do and had nothing before.
    pub fn end_write(&mut self, sectors: (u64, u64), now: Time) -> bool {
        let mut idle = false;
        for chunk in self.chunks(sectors) {
            let Some(counter) = self.counters.get_mut(&chunk) else { continue };
            counter.writes -= 1;
            idle |= counter.writes == 0;
        }
        if !idle || self.due.is_some() {
            return false;
        }
        let next = self.ran_at + DAEMON_SLEEP;
        self.due = Some(if next > now { next } else { now + DAEMON_SLEEP });
        true
    }

    /// When the daemon runs next.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Looks for chunks without recent writes, and returns the pages to write now. With `keep` (an array that lacks a
    /// member) bits stay set.
    fn run_daemon(&mut self, now: Time, keep: bool) -> Vec<u64> {
        self.ran_at = now;
        let pages = std::mem::take(&mut self.cleared);
        let (cleared, mut again) = (&mut self.cleared, false);
        self.counters.retain(|&chunk, counter| {
            if counter.writes > 0 || keep {
                return true;
            }
            let stays = !std::mem::replace(&mut counter.idle, true);
            again |= stays;
            if !stays && !pages.contains(&Self::page_of(chunk)) {
                cleared.insert(Self::page_of(chunk));
            }
            stays
        });
        again |= !cleared.is_empty();
        self.due = again.then_some(now + DAEMON_SLEEP);
        pages.into_iter().collect()
    }
}
