//! The bitmap's worker: flushes and writes pages to every member, and then submits the writes that waited.

use std::collections::BTreeSet;

use super::{Bitmap, BitmapStep};
use crate::bio::Op;
use crate::engine::{PlugAfter, Simulation, WorkerNext};
use crate::events::Time;
use crate::targets::md::{Array, tag};

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
        let size = if bitmap.lockless { 1 } else { 8 };
        let writes = pages.iter().map(|page| (Op::Write, page * u64::from(size), size));
        bitmap.in_flight = writes.map(|io| self.members.submit_metadata(sim, task, tag::BITMAP, io)).sum();
    }

    /// A write or a flush of the bitmap is done.
    pub fn end_bitmap_io(&mut self, sim: &mut Simulation) {
        if let Some(bitmap) = &mut self.bitmap
            && bitmap.end_bio()
        {
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
        bitmap.thread_waits = sim.sleeps(bitmap.task);
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
        self.plugged || sim.has_plug(task)
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

    /// Panics if anything is in flight or left to do.
    #[cfg(test)]
    pub fn assert_idle(&self) {
        assert!(self.held_bios.is_empty() && self.released_bios.is_empty() && self.new_chunks.is_empty());
        assert!(self.counters.values().all(|counter| counter.writes == 0 && counter.on_disk));
        assert_eq!((self.in_flight, self.step, self.due), (0, BitmapStep::Idle, None));
    }
}
