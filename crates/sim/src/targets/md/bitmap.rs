//! The write-intent bitmap: a bit is on every member's disk before its chunk is written, and is cleared lazily.
//!
//! drivers/md/md-bitmap.c, Linux 6.1: `md_bitmap_startwrite`, `md_bitmap_endwrite`, `md_bitmap_unplug` and
//! `md_bitmap_daemon_work`. A separate task writes the pages here, and then submits the writes that had to wait.
//! In the kernel the task that made the writes does that when its plug ends (`raid1_unplug`, `raid10_unplug`), so it
//! submits nothing meanwhile. Without a plug, and with parity, the array's thread does it (`flush_pending_writes`,
//! `raid5d`), and no write passes it meanwhile. Pages are written with `REQ_PREFLUSH | REQ_FUA` (`md_super_write`); one
//! flush precedes all of them. The bitmap lies at the beginning of the member's data, not before it.
//!
//! The lockless bitmap (drivers/md/md-llbitmap.c, 6.18) has a byte for each chunk. A write to a clean chunk writes its
//! block of 512 bytes; the second chunk of the block that is written marks all of them, so that the block is not
//! written again, unless the array lacks a member. Its daemon marks chunks as clean in memory only.

#[cfg(test)]
mod tests;

use super::spec::Md;
use crate::bio::{NONE, Op};
use crate::engine::{PlugAfter, Role, Simulation, WaitList, WorkerNext};
use crate::events::Time;
use crate::rng::mix;
use crate::targets::BuildContext;
use crate::targets::md::{Array, tag};
use std::collections::{BTreeMap, BTreeSet};

/// `mddev->bitmap_info.daemon_sleep`.
const DAEMON_SLEEP: Time = 5_000_000_000;
/// Bits of a page, and those that the superblock takes of the first.
const PAGE_BITS: u64 = 4096 * 8;
const SUPERBLOCK_BITS: u64 = 256 * 8;
const PAGE_SECTORS: u32 = 8;

/// The lockless bitmap: chunks whose bytes are in a block, and before which its superblock is; and blocks of a page.
mod lockless {
    pub const BLOCK: u64 = 512;
    pub const SUPERBLOCK: u64 = 1024;
    pub const PAGE_BLOCKS: u64 = 8;
    /// The smallest chunk in sectors, and how many chunks there can be (`llbitmap_create`, with mdadm's 128 KiB).
    pub const SMALLEST: u64 = 128;
    pub const MOST: u64 = 256 * 512;
    /// How often the daemon runs, and how long a page must be idle for it (`daemon_sleep`, `barrier_idle`).
    pub const DAEMON_SLEEP: u64 = 30_000_000_000;
    pub const IDLE: u64 = 5_000_000_000;
}

/// A chunk whose bit is set: `bitmap_counter_t`. Of the lockless bitmap, a block with dirty chunks.
#[derive(Debug, Default)]
struct ChunkCounter {
    writes: u32,          // Writes in flight
    idle: bool,           // Whether the daemon has seen it idle once
    on_disk: bool,        // Whether its bit has been written
    dirty: BTreeSet<u64>, // The dirty chunks of a block
    all_dirty: bool,      // Whether all are
    ended: Time,          // When its last write ended
}

/// What the bitmap's task is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BitmapStep {
    #[default]
    Idle,
    PreFlush,
    Write,
}

/// An array's bitmap.
#[derive(Debug, Default)]
pub struct Bitmap {
    chunk: u64, // Sectors of a chunk: one bit
    lockless: bool,
    pub task: u32, // The worker's task
    counters: BTreeMap<u64, ChunkCounter>,
    new_chunks: Vec<u64>, // Chunks whose bits were set since the last write of the bitmap, and bios that wait for them
    held_bios: Vec<u32>,
    write_requested: bool, // Whether the plug of a waiting bio has ended
    rows_wait: bool,       // The same with parity, before `raid5d` has seen it
    thread_waits: bool,    // Whether `raid5d` waits until its request has been served
    batch_due: bool,       // Whether `raid5d` handles a batch before it writes the bitmap again
    plugged: bool,         // Whether all writes have a plug
    writers: Vec<u32>,     // Tasks that write the bitmap themselves now, and those of them that have more to submit
    waiting: WaitList,
    writing_chunks: Vec<u64>, // The same for the write in progress, and its pages
    released_bios: Vec<u32>,
    pages: Vec<u64>,
    step: BitmapStep,
    in_flight: u32,              // Bios of the bitmap in flight
    last_page: Option<LastPage>, // The last page, if md writes only a part of it
    delay_ns: Time,              // How much longer the pages in flight take, because one of them is short
    cleared: BTreeSet<u64>,      // Pages with cleared bits, which the daemon writes when it runs next
    ran_at: Time,                // When the daemon ran last, and when it runs next
    pub due: Option<Time>,       // When the daemon runs next
    before: Option<LoadBefore>,
}

/// The last page of a bitmap, of which only the used sectors are written (`write_sb_page`).
#[derive(Clone, Copy, Debug)]
struct LastPage {
    page: u64,
    sectors: u32,
    delay_ns: Time, // How much longer members take for it, because they must read before
}

/// What the simulation wrote so far, from which follows what the same load wrote before.
#[derive(Debug, Default)]
struct LoadBefore {
    writes: u64, // Of what has a counter
    first: u64,  // Those of them that were the first of their counter
}

impl LoadBefore {
    /// Whether a bit that the simulation has not set yet is set, because its chunk was written shortly before.
    ///
    /// If `n` random writes reach `c` chunks alike, they hit `c (1 - exp(-x))` different ones, where `x` is `n / c`. This
    /// gives `x`, and so how often a chunk is written in a time.
    fn has_set(&self, counted: u64, now: Time) -> bool {
        let share = self.first as f64 / self.writes.max(1) as f64;
        let mut each = 1.0 / share;
        for _ in 0..30 {
            each = (1.0 - (-each).exp()) / share;
        }
        // The daemon clears a bit when it runs for the second time after the last write.
        let left = (DAEMON_SLEEP * 3 / 2).saturating_sub(now);
        let before = each * left as f64 / now.max(1) as f64;
        share < 1.0 && (mix(counted) as f64) < (1.0 - (-before).exp()) * u64::MAX as f64
    }
}

impl Bitmap {
    /// The bitmap without set bits of an array that syncs this many sectors, if it has one.
    pub fn for_array(
        md: &Md, sectors: u64, context: &BuildContext, short_write_ns: Time,
    ) -> Result<Option<Box<Self>>, String> {
        let kernel = context.kernel;
        let mut chunk = md.bitmap_chunk / 512;
        if md.lockless {
            if !kernel.has_lockless_bitmap() {
                return Err("bitmap: a lockless one needs Linux 6.18 or newer".into());
            }
            chunk = lockless::SMALLEST;
            while sectors.div_ceil(chunk) > lockless::MOST {
                chunk *= 2;
            }
        } else if md.bitmap && (chunk < 8 || !md.bitmap_chunk.is_power_of_two()) {
            // `md_bitmap_read_sb`.
            return Err(format!("bitmap_chunk {}: expected a power of two, at least 4096 bytes", md.bitmap_chunk));
        }
        let plugged = context.filesystem || kernel.plugs_device_writes();
        let lockless = md.lockless;
        let before = context.ran_before.then(LoadBefore::default);
        let last_page = if kernel.writes_whole_bitmap_pages() { None } else { Self::last_page(sectors, chunk) };
        let last_page = last_page.map(|(page, sectors)| LastPage { page, sectors, delay_ns: short_write_ns });
        Ok(md
            .bitmap
            .then(|| Box::new(Self { chunk, lockless, task: NONE, plugged, before, last_page, ..Self::default() })))
    }

    /// What has a counter, and is written at once: a chunk, or a block of the lockless bitmap.
    fn counted(&self, chunk: u64) -> u64 {
        if self.lockless { (chunk + lockless::SUPERBLOCK) / lockless::BLOCK } else { chunk }
    }

    fn page_of(chunk: u64) -> u64 {
        (chunk + SUPERBLOCK_BITS) / PAGE_BITS
    }

    /// The last page and its used sectors, if these are not the whole page.
    fn last_page(sectors: u64, chunk: u64) -> Option<(u64, u32)> {
        let bits = SUPERBLOCK_BITS + sectors.div_ceil(chunk.max(1));
        let used = (bits % PAGE_BITS).div_ceil(512 * 8) as u32 % PAGE_SECTORS;
        (used > 0).then_some((bits / PAGE_BITS, used))
    }

    fn chunks(&self, (first, last): (u64, u64)) -> std::ops::RangeInclusive<u64> {
        first / self.chunk..=last / self.chunk
    }

    /// Starts a write from the first to the last sector. False if the bio must wait until its bits are on disk, or until
    /// the array's thread, if that submits it (`by_thread`), has written those of others.
    pub fn start_write(
        &mut self, number: u32, sectors: (u64, u64), now: Time, degraded: bool, by_thread: bool,
    ) -> bool {
        let writes_bits = self.write_requested || !self.writing_chunks.is_empty();
        let mut on_disk = !(by_thread && writes_bits);
        for chunk in self.chunks(sectors) {
            let counted = self.counted(chunk);
            if let Some(before) = &mut self.before {
                before.writes += 1;
            }
            let counter = self.counters.entry(counted).or_insert_with(|| {
                let on_disk = self.before.as_mut().is_some_and(|before| {
                    before.first += 1;
                    before.has_set(counted, now)
                });
                if !on_disk {
                    self.new_chunks.push(counted);
                }
                let dirty = self.lockless.then_some(chunk).into_iter().collect();
                ChunkCounter { dirty, on_disk, all_dirty: on_disk, ..ChunkCounter::default() }
            });
            if self.lockless && !counter.all_dirty && counter.dirty.insert(chunk) {
                // `llbitmap_infect_dirty_bits`
                (counter.all_dirty, counter.on_disk) = (!degraded, false);
                self.new_chunks.push(counted);
            }
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
            let Some(counter) = self.counters.get_mut(&self.counted(chunk)) else { continue };
            counter.writes -= 1;
            counter.ended = now;
            idle |= counter.writes == 0;
        }
        if !idle || self.due.is_some() {
            return false;
        }
        let sleep = if self.lockless { lockless::DAEMON_SLEEP } else { DAEMON_SLEEP };
        let next = self.ran_at + sleep;
        self.due = Some(if next > now { next } else { now + sleep });
        true
    }

    /// Looks for chunks without recent writes, and returns the pages to write now. With `keep` (an array that lacks a
    /// member) bits stay set.
    fn run_daemon(&mut self, now: Time, keep: bool) -> Vec<u64> {
        self.ran_at = now;
        if self.lockless {
            self.clean_idle_pages(now, keep);
            return Vec::new();
        }
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

    /// Marks the chunks of idle pages of the lockless bitmap as clean, which is not written (`md_llbitmap_daemon_fn`).
    fn clean_idle_pages(&mut self, now: Time, keep: bool) {
        let is_busy = |counter: &ChunkCounter| counter.writes > 0 || now < counter.ended + lockless::IDLE;
        let page_of = |block: u64| block / lockless::PAGE_BLOCKS;
        let busy = self.counters.iter().filter(|(_, counter)| is_busy(counter)).map(|(&block, _)| page_of(block));
        let busy: BTreeSet<u64> = busy.collect();
        self.counters.retain(|&block, _| keep || busy.contains(&page_of(block)));
        self.due = (!busy.is_empty() && !keep).then_some(now + lockless::DAEMON_SLEEP);
    }
}

// The bitmap's worker: flushes and writes pages to every member, and then submits the writes that waited.

impl Array {
    /// Runs the bitmap's worker.
    pub fn write_bitmap(&mut self, sim: &mut Simulation, task: u32) -> WorkerNext {
        let Some(mut bitmap) = self.bitmap.take() else { return WorkerNext::Sleep };
        let before = bitmap.due;
        let submitted = bitmap.in_flight == 0 && self.flush_bitmap(&mut bitmap, sim, task);
        let planned = bitmap.due != before;
        self.bitmap = Some(bitmap);
        if planned {
            self.plan_bitmap_daemon(sim);
        }
        match submitted {
            true => WorkerNext::Again { after: sim.host.md_ns, plug: PlugAfter::Ends, undisturbed: false },
            // The worker's plug, which ends now, still holds the writes that waited.
            false => WorkerNext::Sleep,
        }
    }

    fn flush_bitmap(&mut self, bitmap: &mut Bitmap, sim: &mut Simulation, task: u32) -> bool {
        if bitmap.step == BitmapStep::Idle && !bitmap.choose_pages(sim.now, self.members.are_degraded()) {
            return false;
        }
        bitmap.step = match bitmap.step {
            // The held bios waited for a write that has already ended.
            BitmapStep::Idle if bitmap.pages.is_empty() => BitmapStep::Idle,
            BitmapStep::Idle => BitmapStep::PreFlush,
            BitmapStep::PreFlush => BitmapStep::Write,
            BitmapStep::Write => BitmapStep::Idle,
        };
        if bitmap.step != BitmapStep::Idle {
            self.submit_bitmap_io(bitmap, sim, task);
            return true;
        }
        for chunk in bitmap.writing_chunks.drain(..) {
            if let Some(counter) = bitmap.counters.get_mut(&chunk) {
                // A block of which another chunk is dirty now is written again.
                counter.on_disk = !bitmap.lockless || !bitmap.new_chunks.contains(&chunk);
            }
        }
        for number in bitmap.released_bios.drain(..) {
            let writer = sim.bios[number].task;
            bitmap.writers.retain(|&other| other != writer);
            sim.submit(task, number);
        }
        bitmap.waiting.wake_all(sim);
        if let Some(thread) = self.threads.first() {
            (bitmap.thread_waits, bitmap.batch_due) = (false, true);
            sim.wake_worker(thread.task);
        }
        true
    }

    /// Submits a flush, or the pages, to every member.
    fn submit_bitmap_io(&mut self, bitmap: &mut Bitmap, sim: &mut Simulation, task: u32) {
        let Some(pages) = (bitmap.step == BitmapStep::Write).then_some(&bitmap.pages) else {
            bitmap.in_flight = self.members.submit_metadata(sim, task, tag::BITMAP, (Op::Flush, 0, 0));
            return;
        };
        self.members.report.bitmap_writes += pages.len() as u64;
        let last = bitmap.last_page.filter(|last| pages.contains(&last.page));
        bitmap.delay_ns = last.map_or(0, |last| last.delay_ns);
        let size = if bitmap.lockless { 1 } else { PAGE_SECTORS };
        let writes = pages.iter().map(|page| {
            let sectors = last.filter(|last| last.page == *page).map_or(size, |last| last.sectors);
            (Op::Write, page * u64::from(size), sectors)
        });
        bitmap.in_flight = writes.map(|io| self.members.submit_metadata(sim, task, tag::BITMAP, io)).sum();
    }

    /// A write or a flush of the bitmap is done.
    pub fn end_bitmap_io(&mut self, sim: &mut Simulation) {
        let Some(bitmap) = &mut self.bitmap else { return };
        if bitmap.in_flight == 1 && bitmap.delay_ns > 0 {
            let delay_ns = std::mem::take(&mut bitmap.delay_ns);
            self.members.report.short_page_ns += delay_ns;
            return sim.set_timer(sim.now + delay_ns, self.members.id, 0);
        }
        if bitmap.end_bio() {
            sim.wake_worker(bitmap.task);
        }
    }

    /// The plug of writes that wait for the bitmap ends.
    pub fn request_bitmap_write(&mut self, sim: &mut Simulation) {
        let Some(bitmap) = &mut self.bitmap else { return };
        if let Some(thread) = self.threads.first() {
            bitmap.rows_wait = true;
            return sim.wake_worker(thread.task);
        }
        bitmap.write_requested = true;
        for &number in &bitmap.held_bios {
            let task = sim.bios[number].task;
            if bitmap.in_task(sim, task) && !bitmap.writers.contains(&task) {
                bitmap.writers.push(task);
            }
        }
        sim.wake_worker(bitmap.task);
    }

    /// Whether `raid5d` takes no rows now, because it writes the bitmap: before a batch, if writes wait for that.
    pub fn writes_bitmap_first(&mut self, sim: &mut Simulation) -> bool {
        let has_rows = self.stripes().is_some_and(|stripes| !stripes.queue.is_empty());
        let Some(bitmap) = &mut self.bitmap else { return false };
        if bitmap.thread_waits || !bitmap.writing_chunks.is_empty() {
            return true;
        }
        let batch_due = std::mem::take(&mut bitmap.batch_due) && has_rows;
        if batch_due || bitmap.held_bios.is_empty() || !std::mem::take(&mut bitmap.rows_wait) {
            return false;
        }
        bitmap.write_requested = true;
        // If it does not sleep, it may wait for rows that this thread must handle.
        bitmap.thread_waits = sim.tasks[bitmap.task as usize].sleeping;
        sim.wake_worker(bitmap.task);
        bitmap.thread_waits
    }

    /// Plans when the bitmap's daemon runs next.
    pub fn plan_bitmap_daemon(&self, sim: &mut Simulation) {
        if let Some(bitmap) = &self.bitmap
            && let Some(due) = bitmap.due
        {
            sim.run_worker_at(due, bitmap.task);
        }
    }
}

impl Bitmap {
    /// Chooses the pages to write next. False if there is nothing to write, and no bio waits.
    fn choose_pages(&mut self, now: Time, keep: bool) -> bool {
        if std::mem::take(&mut self.write_requested) && !(self.new_chunks.is_empty() && self.held_bios.is_empty()) {
            std::mem::swap(&mut self.new_chunks, &mut self.writing_chunks);
            std::mem::swap(&mut self.held_bios, &mut self.released_bios);
            // A counter is written with its page, or as its block of the lockless bitmap.
            let place = |&counted: &u64| if self.lockless { counted } else { Self::page_of(counted) };
            let pages: BTreeSet<u64> = self.writing_chunks.iter().map(place).collect();
            // Cleared bits on the same pages are written with them.
            self.cleared.retain(|page| !pages.contains(page));
            self.pages = pages.into_iter().collect();
        } else if self.due.is_some_and(|due| due <= now) {
            self.pages = self.run_daemon(now, keep);
        } else {
            return false;
        }
        !(self.pages.is_empty() && self.released_bios.is_empty())
    }

    /// Whether a task of a mirror writes the bits of its writes itself when its plug ends.
    pub fn in_task(&self, sim: &Simulation, task: u32) -> bool {
        // System calls have a plug if they have more than two I/Os (`AIO_PLUG_THRESHOLD`).
        self.plugged || matches!(&sim.tasks[task as usize].role, Role::Job(job) if job.batch > 2)
    }

    /// Whether a task must wait, because it writes the bitmap.
    pub fn blocks(&mut self, task: u32) -> bool {
        let blocks = self.writers.contains(&task);
        if blocks {
            self.waiting.add(task);
        }
        blocks
    }

    /// One of the bitmap's bios is done. True if all are.
    pub fn end_bio(&mut self) -> bool {
        self.in_flight -= 1;
        self.in_flight == 0
    }
}
