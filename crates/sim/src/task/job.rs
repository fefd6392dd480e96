//! A fio job: keeps a number of I/Os in flight, submitting and reaping in batches as libaio does.

use std::collections::VecDeque;

use crate::bio::{Flags, Op};
use crate::events::Time;
use crate::load;
use crate::rng::{Rng, mix};
use crate::task::file_reader::FileReader;
use crate::task::offsets::{Offsets, Passes, Sizes};

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextAction {
    Submit(Op, u64, u32), // Submit an I/O: operation, byte, bytes
    Flush,                // Flush, and wait for it
    Wait,                 // Wait for completions
    Until(Time),          // Wait until a time
    Finish,               // The job has ended
}

/// A running write(2) into the page cache.
#[derive(Clone, Copy, Debug)]
pub struct WriteCall {
    pub byte: u64, // Of the stack
    pub bytes: u32,
    pub start: Time,
    pub step: WriteStep,
}

/// What a write into the page cache does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStep {
    Copy,   // Copy the data into the cache
    Dirty,  // Make the pages dirty
    Return, // Return as soon as few pages are dirty
}

#[derive(Debug, Default)]
pub struct JobState {
    pub spec: load::Job,
    pub reader: Option<FileReader>,    // The file that it reads through the page cache
    pub write_call: Option<WriteCall>, // Its running write into the page cache
    pub offset: u64,                   // Where its region begins, in bytes of the stack
    blocks: u64,
    cursor: [u64; 2], // The next sequential read and write: each direction has its own position, as in fio
    bytes_left: u64,
    offsets: Offsets,
    passes: Option<Passes>,
    sizes: [Sizes; 2],
    rng: Rng,
    pub in_flight: u32,           // I/Os submitted and not yet reaped
    pub completed: VecDeque<u32>, // Completed I/Os to be reaped
    draining: bool, // Whether it only reaps until `iodepth_low` are in flight, because the depth was reached
    pub batch: u32, // How many I/Os can be submitted in one system call
    since_flush: u32,
    flush_due: bool,
    since_think: u32,
    think_due: bool,
    resume: Time,
    next_by_rate: f64,
    quiescing: bool, // Whether it reaps everything because it will sleep until its rate allows the next I/O
}

impl JobState {
    /// The `index`th of a group's jobs.
    pub fn new(spec: &load::Job, index: u32, seed: u64) -> Self {
        let align = u64::from(spec.align.max(512));
        let blocks = (spec.size / align).max(1);
        let mut rng = Rng::new(mix(seed ^ mix(u64::from(index) + 1)));
        let offset = spec.offset + u64::from(index) * spec.offset_increment;
        Self {
            offset,
            blocks,
            bytes_left: spec.io_bytes,
            offsets: Offsets::new(&spec.distribution, blocks, offset, u64::from(index)),
            passes: Passes::new(spec.random_map, blocks, &mut rng),
            sizes: [Sizes::new(&spec.read_sizes), Sizes::new(&spec.write_sizes)],
            rng,
            batch: spec.batch_submit.clamp(1, spec.iodepth.max(1)),
            spec: spec.clone(),
            ..Self::default()
        }
    }

    /// Begins a read or write through the page cache at a byte of the stack.
    pub fn begin_call(&mut self, byte: u64, bytes: u32, now: Time) {
        if let Some(reader) = &mut self.reader {
            reader.begin_call(byte - self.offset, bytes, now);
        } else {
            self.write_call = Some(WriteCall { byte, bytes, start: now, step: WriteStep::Copy });
        }
    }

    /// The flags of its I/Os.
    pub fn flags(&self) -> Flags {
        if self.spec.fua { Flags::DIRECT.with(Flags::FUA) } else { Flags::DIRECT }
    }

    /// The number of completions that wakes the job.
    pub fn wake_threshold(&self) -> u32 {
        if self.quiescing {
            return 1;
        }
        self.spec.batch_complete_min.max(1).min(self.in_flight.max(1))
    }

    /// Starts reaping; returns how many completions it reaps now: as many as it waited for, or all that a drain needs.
    pub fn reap(&mut self) -> u32 {
        let completions = self.completed.len() as u32;
        let full = self.in_flight >= self.spec.iodepth || self.bytes_left == 0;
        if !full && !self.draining && !self.think_due && !self.quiescing {
            return 0;
        }
        let low = if self.spec.iodepth_low == 0 { self.spec.iodepth } else { self.spec.iodepth_low };
        let reaped = self.wake_threshold();
        if completions < reaped {
            return 0;
        }
        self.draining = self.in_flight - reaped > low;
        reaped
    }

    /// Ends the job at the end of the runtime: it submits no more; as in fio, I/Os in flight still count.
    pub fn stop(&mut self) {
        (self.bytes_left, self.flush_due) = (0, false);
    }

    /// What the job does next, given the time.
    pub fn next_action(&mut self, now: Time) -> NextAction {
        if self.flush_due {
            // With a depth of one the write is first completed; otherwise fio does not wait for I/Os in flight.
            if self.in_flight >= self.spec.iodepth {
                return NextAction::Wait;
            }
            self.flush_due = false;
            return NextAction::Flush;
        }
        if self.bytes_left == 0 {
            return if self.in_flight == 0 { NextAction::Finish } else { NextAction::Wait };
        }
        // fio's pause begins when no I/O is in flight (`handle_thinktime`: `io_u_quiesce`).
        if self.in_flight >= self.spec.iodepth || self.draining || (self.think_due && self.in_flight > 0) {
            return NextAction::Wait;
        }
        if std::mem::take(&mut self.think_due) {
            self.resume = now + self.spec.thinktime_ns;
        }
        if self.resume > now {
            return NextAction::Until(self.resume);
        }
        if self.spec.rate_iops > 0.0 {
            // Before it sleeps, fio reaps everything (io_u.c, `rate_ddir`: `io_u_quiesce`).
            self.quiescing = self.next_by_rate > now as f64 && self.in_flight > 0;
            if self.quiescing {
                return NextAction::Wait;
            }
            if self.next_by_rate > now as f64 {
                return NextAction::Until(self.next_by_rate.ceil() as Time);
            }
            self.next_by_rate = self.next_by_rate.max(now as f64 - 1e8) + 1e9 / self.spec.rate_iops;
        }
        self.make_io()
    }

    fn make_io(&mut self) -> NextAction {
        let share = self.spec.read_share;
        let read = share >= 1.0 || (share > 0.0 && self.rng.unit() < share);
        let align = u64::from(self.spec.align.max(512));
        let wanted = self.sizes[usize::from(!read)].next(&mut self.rng);
        let region_bytes = self.blocks * align;
        let bytes = u64::from(wanted).min(self.bytes_left).min(region_bytes).max(512);
        let byte = if self.spec.random {
            let block = match &mut self.passes {
                Some(passes) => passes.next(self.blocks, &mut self.rng),
                None => self.offsets.next(self.blocks, &mut self.rng),
            };
            (block * align).min(region_bytes - bytes)
        } else {
            let cursor = &mut self.cursor[usize::from(!read)];
            if *cursor + bytes > region_bytes {
                *cursor = 0;
            }
            *cursor += bytes;
            *cursor - bytes
        };
        self.bytes_left -= bytes.min(self.bytes_left);
        self.in_flight += 1;
        if !read {
            self.since_flush += 1;
            let interval = self.spec.fsync;
            let by_chance = self.spec.fsync_share > 0.0 && self.rng.unit() < self.spec.fsync_share;
            if (interval > 0 && self.since_flush >= interval) || by_chance {
                (self.since_flush, self.flush_due) = (0, true);
            }
        }
        self.since_think += 1;
        if self.spec.thinktime_ns > 0 && self.since_think >= self.spec.thinktime_blocks.max(1) {
            (self.since_think, self.think_due) = (0, true);
        }
        let op = if read { Op::Read } else { Op::Write };
        NextAction::Submit(op, self.offset + byte, bytes as u32)
    }
}
