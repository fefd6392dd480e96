//! A trace as the load: each I/O at its recorded time, or as fast as the queue depth allows.
//!
//! As fio does with `read_iolog`, one thread submits all I/Os in order. An I/O that finds no tag waits, and later
//! ones wait behind it; the waiting is part of the latency.

use std::fmt;

use crate::bio::Op;
use crate::error::SimError;
use crate::events::Time;
use crate::load;

/// One recorded I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    pub time_ns: u64, // When it was queued, in ns on any clock; the first I/O's time is the start
    pub op: Op,       // The operation
    pub sector: u64,  // Its first sector on the stack
    pub bytes: u32,   // Its size; 0 for a flush
    pub waited: bool, // Whether a program waits for it: it is no writeback
}

/// Recorded I/Os in the order in which they were queued, read one by one as the simulation advances.
pub type ReplayIos = Box<dyn Iterator<Item = ReplayIo>>;

pub struct ReplayState {
    ios: ReplayIos,
    pub timed: bool,       // Whether I/Os are submitted at their recorded times
    pub waited_only: bool, // Whether only I/Os count for latencies for which a program waits
    iodepth: u32,
    speed: f64,
    sectors: u64,                   // The size of the stack
    first: Option<u64>,             // The recorded time of the first I/O
    next: Option<(Time, ReplayIo)>, // The next I/O, and when it is due: at once in the closed loop
    pub planned: Option<Time>,      // When the task is planned to run for the next I/O
    pub in_flight: u32,             // I/Os submitted and not done
}

impl ReplayState {
    /// A replay on a stack of `sectors`.
    pub fn new(spec: &load::Replay, ios: ReplayIos, sectors: u64) -> Result<Self, SimError> {
        if !(spec.speed > 0.0 && spec.speed.is_finite()) {
            return Err(SimError::Replay(format!("speed {}: expected a number above 0", spec.speed)));
        }
        if spec.iodepth == 0 && !spec.timed {
            return Err(SimError::Replay("iodepth must be at least 1".into()));
        }
        let mut replay = Self {
            ios,
            timed: spec.timed,
            waited_only: spec.waited_only,
            iodepth: spec.iodepth,
            speed: spec.speed,
            sectors,
            first: None,
            next: None,
            planned: None,
            in_flight: 0,
        };
        replay.pull_next()?;
        Ok(replay)
    }

    /// When the next I/O is due, if there is one.
    pub fn due(&self) -> Option<Time> {
        self.next.map(|(time, _)| time)
    }

    /// Whether all I/Os have been submitted and completed.
    pub fn is_finished(&self) -> bool {
        self.next.is_none() && self.in_flight == 0
    }

    /// Takes the next I/O, if it can be submitted now.
    pub fn take_due(&mut self, now: Time) -> Result<Option<ReplayIo>, SimError> {
        let Some((due, io)) = self.next else { return Ok(None) };
        let early = if self.timed { due > now } else { self.in_flight >= self.iodepth };
        if early {
            return Ok(None);
        }
        self.in_flight += 1;
        self.pull_next()?;
        Ok(Some(io))
    }

    fn pull_next(&mut self) -> Result<(), SimError> {
        self.next = None;
        let Some(io) = self.ios.next() else { return Ok(()) };
        let sectors = u64::from(io.bytes / 512);
        if io.op != Op::Flush && io.sector.checked_add(sectors).is_none_or(|end| end > self.sectors) {
            let op = if io.op == Op::Read { "read" } else { "write" };
            return Err(SimError::Replay(format!(
                "the {op} of {} bytes at {}.{:09} s, sector {}, ends beyond the stack, which has {} sectors: use a larger stack or another part of the trace",
                io.bytes,
                io.time_ns / 1_000_000_000,
                io.time_ns % 1_000_000_000,
                io.sector,
                self.sectors
            )));
        }
        let first = *self.first.get_or_insert(io.time_ns);
        // An I/O that was recorded out of order is late, and is submitted at once.
        let since = io.time_ns.saturating_sub(first);
        let due = if self.speed == 1.0 { since } else { (since as f64 / self.speed).round() as Time };
        self.next = Some((due, io));
        Ok(())
    }
}

impl fmt::Debug for ReplayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayState").field("next", &self.next).field("in_flight", &self.in_flight).finish()
    }
}
