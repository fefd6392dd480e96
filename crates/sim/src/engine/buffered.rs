//! Jobs that use the page cache.

use super::{Role, Simulation};
use crate::bio::{Flags, Op};
use crate::events::{Event, Time};
use crate::task::file_reader::{BIO_PAGES, ReadStep};
use crate::task::read_ahead::{PAGE, Window};

impl Simulation {
    /// Continues a job's read(2). True if the call has returned, or none runs.
    pub(super) fn continue_read(&mut self, number: u32) -> bool {
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
