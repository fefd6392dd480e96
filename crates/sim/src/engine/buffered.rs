//! Jobs that use the page cache.

use super::event_loop::PLUG;
use super::{Role, Simulation, Task};
use crate::bio::{Flags, Op};
use crate::events::{Event, Time};
use crate::task::file_reader::{BIO_PAGES, ReadStep};
use crate::task::job::{WriteCall, WriteStep};
use crate::task::read_ahead::{PAGE, Window};
use crate::task::writeback::EXPIRE;

impl Simulation {
    /// Continues a job's read(2) or write(2). True if the call has returned, or none runs.
    pub(super) fn continue_call(&mut self, number: u32) -> bool {
        let Role::Job(job) = &self.tasks[number as usize].role else { return true };
        if job.write_call.is_some() { self.continue_write(number) } else { self.continue_read(number) }
    }

    fn continue_read(&mut self, number: u32) -> bool {
        let task = &mut self.tasks[number as usize];
        let Role::Job(job) = &mut task.role else { return true };
        let Some(reader) = &mut job.reader else { return true };
        if !reader.is_in_call() {
            return true;
        }
        match reader.next_step() {
            ReadStep::Request(window) => self.request_pages(number, window),
            ReadStep::Sleep => task.sleeping = true,
            ReadStep::Copy(bytes) => {
                reader.copy(bytes);
                let pages = bytes.div_ceil(PAGE) as Time;
                let cost = self.host.reap_ns + pages * self.host.copy_ns;
                let end = self.charge(number, cost);
                self.events.schedule(end, Event::task(number));
            }
            ReadStep::Return { bytes, start } => {
                job.in_flight -= 1;
                self.metrics.record_io(task.group, Op::Read, bytes, start, self.now);
                return true;
            }
        }
        false
    }

    fn continue_write(&mut self, number: u32) -> bool {
        let now = self.now;
        let task = &mut self.tasks[number as usize];
        let Role::Job(job) = &mut task.role else { return true };
        let (Some(call), Some(writeback)) = (&mut job.write_call, &mut self.writeback) else { return true };
        let WriteCall { byte, bytes, start, step } = *call;
        match step {
            WriteStep::Copy => {
                call.step = WriteStep::Dirty;
                let pages = Time::from(bytes.div_ceil(PAGE as u32));
                let cost = self.host.reap_ns + pages * (self.host.copy_ns + self.host.page_ns);
                let end = self.charge(number, cost);
                self.events.schedule(end, Event::task(number));
                false
            }
            WriteStep::Dirty => {
                call.step = WriteStep::Return;
                let flusher = writeback.task;
                if writeback.add(number, byte, byte + u64::from(bytes), now) {
                    self.events.schedule(now + EXPIRE, Event::task(flusher));
                }
                if writeback.is_over_background() {
                    self.wake_worker(flusher);
                }
                self.mark_file_changed();
                self.continue_write(number)
            }
            WriteStep::Return if writeback.is_over_limit() => {
                self.writers.add(number);
                false
            }
            WriteStep::Return => {
                job.write_call = None;
                job.in_flight -= 1;
                self.metrics.record_io(task.group, Op::Write, bytes, start, now);
                true
            }
        }
    }

    /// The flusher submits its next write, or sleeps.
    pub(super) fn run_flusher(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        // Pages that become old wake it only if it sleeps.
        if self.now < task.busy_until {
            return;
        }
        task.sleeping = false;
        let write = self.writeback.as_mut().and_then(|writeback| writeback.next_write(self.now));
        let Some((begin, end)) = write else {
            self.tasks[number as usize].sleeping = true;
            return self.unplug(number);
        };
        self.make_io(number, Op::Write, begin / 512, (end - begin) as u32, Flags::default());
        if self.send_queued_bios(number) {
            self.end_flusher_step(number);
        }
    }

    /// The flusher has submitted a write.
    pub(super) fn end_flusher_step(&mut self, number: u32) {
        if self.tasks[number as usize].plug.len() >= PLUG {
            self.unplug(number);
        }
        let Task { io_ns, io_pages, .. } = self.tasks[number as usize];
        let end = self.end_step(number, io_ns.max(1) + io_pages * self.host.page_ns);
        self.tasks[number as usize].busy_until = end;
        self.events.schedule(end, Event::task(number));
    }

    /// A write of the flusher is done: jobs that wait can go on.
    pub(super) fn end_flusher_io(&mut self, io: u32) {
        let bytes = self.ios.remove(io).bytes;
        let Some(writeback) = &mut self.writeback else { return };
        writeback.end_write(bytes);
        if !writeback.is_over_limit() {
            let mut writers = std::mem::take(&mut self.writers);
            writers.wake_all(self);
            self.writers = writers;
        }
    }

    /// Submits the reads of a window.
    fn request_pages(&mut self, number: u32, window: Window) {
        let Role::Job(job) = &self.tasks[number as usize].role else { return };
        let Some(reader) = &job.reader else { return };
        let boundary = reader.boundary;
        let (offset, size) = (job.offset, job.spec.size);
        let end = window.start + window.pages;
        let mut page = window.start;
        while page < end {
            let sector = (offset + page * PAGE) / 512;
            let mut next = end.min(page + BIO_PAGES);
            if boundary > 0 {
                let room = (boundary - sector % boundary) * 512 / PAGE;
                next = next.min(page + room.max(1));
            }
            let bytes = (next * PAGE).min(size) - page * PAGE;
            let io = self.make_io(number, Op::Read, sector, bytes as u32, Flags::READ_AHEAD);
            let Role::Job(job) = &mut self.tasks[number as usize].role else { return };
            if let Some(reader) = &mut job.reader {
                reader.add_bio(io, page, next);
            }
            page = next;
        }
        self.tasks[number as usize].io_pages = window.pages;
        if self.send_queued_bios(number) {
            self.end_submission(number);
        }
    }
}
