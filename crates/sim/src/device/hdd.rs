//! A rotating disk: seeks, rotation, zones, a queue ordered by the time to reach each request, and a volatile cache.
//!
//! - **Where a sector is.** Tracks shorten evenly from rim to hub, so the tracks that lie before a byte follow from
//!   a quadratic equation (`Geometry::revolution`). Tracks are skewed by the time that a change of track takes, so that
//!   a sequential transfer loses no more than that.
//! - **Seeks** take a + b·√d over short and a + b·d over long distances (Ruemmler and Wilkes, "An introduction to
//!   disk drive modeling", 1994), through the three times that data sheets give.
//! - **Order.** Of a batch of waiting commands the disk serves first what it reaches first, rotation included. Commands
//!   that come meanwhile are for the next batch, so none waits for ever.
//! - **Cache.** Reads that continue a stream the disk follows find their bytes read ahead. Writes are acknowledged
//!   from the cache, up to a number, and written when no reads wait or the cache is full. A flush writes them all.

use crate::bio::Op;
use crate::cell;
use crate::device::Command;
use crate::device::geometry::{Geometry, Place};
use crate::events::{Event, Events, Time};

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    place: Place,
    batch: u32,
}

/// A stream that read-ahead follows: the bytes in the cache, and when the disk stopped at its end.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: u64,
    end: u64,
    used: u64,
}

/// What the mechanism is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Nothing,
    /// Reading for a command.
    Read(Waiting),
    /// Writing what was acknowledged, or (without a write cache) a command.
    Write(Waiting),
    /// The end of a flush.
    Flush(u32),
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.command.request == other.command.request
    }
}

/// A rotating disk.
#[derive(Debug)]
pub struct Hdd {
    model: cell::Hdd,
    geometry: Geometry,
    node: u32,
    head: Place,
    doing: Doing,
    reads: Vec<Waiting>,
    /// Acknowledged writes, or with the write cache off the waiting ones.
    dirty: Vec<Waiting>,
    /// Writes that the full cache does not take yet.
    refused: std::collections::VecDeque<Command>,
    flush: Option<u32>,
    batch: u32,
    streams: Vec<Stream>,
    uses: u64,
    /// When the connection to the host is free.
    interface_until: Time,
    idle_since: Time,
    busy: u64,
}

impl Hdd {
    /// A disk of this model at rest on its first track; `node` is what its own events carry.
    pub fn new(model: &cell::Hdd, node: u32) -> Self {
        let geometry = Geometry::new(model);
        Self {
            head: geometry.place(0),
            geometry,
            node,
            doing: Doing::Nothing,
            reads: Vec::new(),
            dirty: Vec::new(),
            refused: Default::default(),
            flush: None,
            batch: 0,
            streams: Vec::new(),
            uses: 0,
            interface_until: 0,
            idle_since: 0,
            busy: 0,
            model: model.clone(),
        }
    }

    /// Time in which the mechanism moved.
    pub fn busy_ns(&self) -> u64 {
        self.busy
    }

    /// Takes a command.
    pub fn start(&mut self, now: Time, command: Command, events: &mut Events) {
        match command.op {
            Op::Flush => self.flush = Some(command.request),
            Op::Read => {
                self.read_ahead(now);
                if let Some(done) = self.cached(now, &command) {
                    events.at(done, Event::Done(command.request));
                    return;
                }
                self.reads.push(self.waiting(command));
            }
            Op::Write if self.model.write_cache => self.cache_write(now, command, events),
            Op::Write => {
                let waiting = self.waiting(command);
                self.dirty.push(waiting);
            }
        }
        if self.doing == Doing::Nothing {
            self.next(now, events);
        }
    }

    /// The mechanism has done what it did, and goes on.
    pub fn mechanism_free(&mut self, now: Time, events: &mut Events) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Read(waiting) => {
                let done = self.transfer(now, waiting.command.bytes);
                events.at(done, Event::Done(waiting.command.request));
                self.remember(&waiting.command);
            }
            Doing::Write(waiting) => {
                if !self.model.write_cache {
                    events.at(now, Event::Done(waiting.command.request));
                } else if let Some(command) = self.refused.pop_front() {
                    self.cache_write(now, command, events);
                }
            }
            Doing::Flush(request) => events.at(now, Event::Done(request)),
            Doing::Nothing => {}
        }
        self.next(now, events);
    }

    fn waiting(&self, command: Command) -> Waiting {
        Waiting { command, place: self.geometry.place(command.byte), batch: self.batch }
    }

    /// Moves bytes between host and cache: one command after the other.
    fn transfer(&mut self, now: Time, bytes: u32) -> Time {
        let duration = self.model.command_ns + (f64::from(bytes) * 1e9 / self.model.bandwidth as f64) as Time;
        self.interface_until = self.interface_until.max(now) + duration;
        self.interface_until
    }

    fn cache_write(&mut self, now: Time, command: Command, events: &mut Events) {
        if self.dirty.len() >= self.model.write_cache_requests as usize {
            self.refused.push_back(command);
            return;
        }
        let done = self.transfer(now, command.bytes);
        events.at(done, Event::Done(command.request));
        // The request's number is free for others from now on.
        let kept = Command { request: u32::MAX, ..command };
        match self.dirty.iter_mut().find(|w| w.command.byte + u64::from(w.command.bytes) == command.byte) {
            // What continues an unwritten write is written with it, up to a track.
            Some(before) if u64::from(before.command.bytes) < self.model.inner_track_bytes => {
                before.command.bytes += command.bytes;
            }
            _ => self.dirty.push(self.waiting(kept)),
        }
    }

    /// Chooses what to do next, and plans its end.
    fn next(&mut self, now: Time, events: &mut Events) {
        let flushing = self.flush.is_some();
        let full = self.dirty.len() >= self.model.write_cache_requests as usize || !self.model.write_cache;
        let write = !self.dirty.is_empty() && (flushing || full || self.reads.is_empty());
        let read = !self.reads.is_empty() && !flushing;
        let (doing, duration) = if read || write {
            let best_read = if read { self.best(now, true) } else { None };
            let best_write = if write { self.best(now, false) } else { None };
            match (best_read, best_write) {
                (Some((read_index, cost)), write) if write.is_none_or(|(_, other)| cost <= other) => {
                    let waiting = self.reads.swap_remove(read_index);
                    (Doing::Read(waiting), self.serve(now, &waiting, cost))
                }
                (_, Some((write_index, cost))) => {
                    let waiting = self.dirty.swap_remove(write_index);
                    (Doing::Write(waiting), self.serve(now, &waiting, cost) + self.model.destage_ns)
                }
                _ => unreachable!("something waits"),
            }
        } else if let Some(request) = self.flush.take() {
            (Doing::Flush(request), self.model.flush_ns)
        } else {
            self.idle_since = now;
            return;
        };
        self.doing = doing;
        self.busy += duration;
        events.at(now + duration, Event::Mechanism(self.node));
    }

    /// The command reached first, of the oldest batch of reads or of all writes: (index, time until its first byte).
    fn best(&mut self, now: Time, reads: bool) -> Option<(usize, Time)> {
        if reads && !self.reads.iter().any(|w| w.batch != self.batch) {
            self.batch = self.batch.wrapping_add(1);
        }
        let current = self.batch;
        let list = if reads { &self.reads } else { &self.dirty };
        let costs = list.iter().enumerate().filter(|(_, w)| !reads || w.batch != current);
        costs.map(|(i, w)| (i, self.geometry.reach(now, &self.head, &w.place))).min_by_key(|&(_, cost)| cost)
    }

    /// Moves the head over a command's bytes, and returns how long that takes.
    fn serve(&mut self, _now: Time, waiting: &Waiting, reach: Time) -> Time {
        let end = waiting.command.byte + u64::from(waiting.command.bytes);
        self.head = self.geometry.place(end);
        reach + self.geometry.pass(&waiting.place, &self.head)
    }

    /// A read whose bytes are in the cache is done as soon as they are transferred.
    fn cached(&mut self, now: Time, command: &Command) -> Option<Time> {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let uses = self.uses;
        let stream = self.streams.iter_mut().find(|s| s.start <= command.byte && end <= s.end)?;
        stream.used = uses;
        Some(self.transfer(now, command.bytes))
    }

    /// While nothing else was to do, the disk went on reading where it was.
    fn read_ahead(&mut self, now: Time) {
        if self.doing != Doing::Nothing || self.idle_since >= now {
            return;
        }
        let idle = now - self.idle_since;
        self.idle_since = now;
        let head = self.head.byte;
        let most = self.model.read_ahead_bytes;
        if let Some(stream) = self.streams.iter_mut().find(|s| s.end == head) {
            let more = self.geometry.bytes_in(&self.head, idle);
            stream.end = (stream.end + more).min(self.model.capacity);
            stream.start = stream.start.max(stream.end.saturating_sub(most));
            self.head = self.geometry.place(stream.end);
        }
    }

    fn remember(&mut self, command: &Command) {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let used = self.uses;
        let most = self.model.read_ahead_bytes;
        if let Some(stream) = self.streams.iter_mut().find(|s| s.start <= command.byte && command.byte <= s.end) {
            stream.end = stream.end.max(end);
            stream.start = stream.start.max(stream.end.saturating_sub(most));
            stream.used = used;
            return;
        }
        if self.streams.len() >= self.model.read_streams.max(1) as usize {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream { start: command.byte, end, used });
    }
}
