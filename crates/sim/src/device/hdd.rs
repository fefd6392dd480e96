//! A rotating disk: seeks, rotation, zones, a queue ordered by the time to reach each request, and a volatile cache.
//!
//! - **Where a sector is.** Tracks shorten evenly from rim to hub, so the tracks that lie before a byte follow from
//!   a quadratic equation (`Geometry::place`). Tracks are skewed by the time that a change of track takes, so that
//!   a sequential transfer loses no more than that.
//! - **Seeks** take a + b·√d over short and a + b·d over long distances (Ruemmler and Wilkes, "An introduction to
//!   disk drive modeling", 1994), through the three times that data sheets give.
//! - **Order.** Of a batch of waiting commands the disk serves first what it reaches first, rotation included. Commands
//!   that come meanwhile are for the next batch, so none waits for ever.
//! - **Read-ahead.** While nothing waits the disk reads on where it is. Reads of what is in the cache need no mechanism.
//! - **Write cache.** Writes are acknowledged from the cache, up to a number, and written when no reads wait or the cache
//!   is full. A flush writes them all.

use crate::bio::Op;
use crate::device::geometry::{Geometry, Place};
use crate::device::{Command, DiskModel, Plan, Work};
use crate::events::Time;
use serde::{Deserialize, Serialize};

/// A rotating disk.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddSpec {
    /// The whole disk.
    pub capacity: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Bytes on a track at the rim, where sector 0 is.
    pub outer_track_bytes: u64,
    /// Bytes on a track at the hub.
    pub inner_track_bytes: u64,
    /// Recording surfaces.
    pub heads: u32,
    /// The shortest seek, to a neighbouring track, with settling.
    pub seek_track_ns: u64,
    /// The average seek, over a third of the disk.
    pub seek_average_ns: u64,
    /// The longest seek.
    pub seek_full_ns: u64,
    /// The disk's own work on a command, before the head moves (data sheets: "command overhead").
    pub command_ns: u64,
    /// What a controller adds to a command before the disk has it; others are served meanwhile.
    #[serde(default)]
    pub controller_ns: u64,
    /// By what it orders the commands in its queue.
    #[serde(default)]
    pub order: Order,
    /// Bytes per second between host and disk.
    pub bandwidth: u64,
    /// The disk's memory.
    pub cache_bytes: u64,
    /// How many sequential streams its read-ahead follows at a time.
    pub read_streams: u32,
    /// How far it reads ahead.
    pub read_ahead_bytes: u64,
    /// Whether writes are acknowledged from the volatile cache.
    pub write_cache: bool,
    /// How many writes it keeps unwritten at most.
    pub write_cache_requests: u32,
    /// What a flush costs, however little there is to write: much with shingled tracks.
    pub flush_ns: u64,
    /// What writing a request from the cache costs beside seek and rotation: shingled disks keep a journal.
    pub destage_ns: u64,
}

/// By what a disk orders the commands in its queue.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The time to reach each, rotation included: native command queueing.
    #[default]
    Rotation,
    /// The distance: an elevator in the controller, which does not know the angle.
    Seek,
    /// The order of arrival.
    Arrival,
}

/// What the connection needs for a command besides its bytes.
const INTERFACE: Time = 50_000;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    place: Place,
    batch: u32,
    arrival: u64,
    /// When the controller has passed it on.
    ready: Time,
}

/// A stream that read-ahead follows: the bytes in the cache, and how far the host has asked.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: u64,
    end: u64,
    asked: u64,
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
    model: HddSpec,
    geometry: Geometry,
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
    interface_ns: u64,
    cache_hits: u64,
}

impl DiskModel for Hdd {
    type Spec = HddSpec;

    fn new(model: &HddSpec) -> Self {
        let geometry = Geometry::new(model);
        Self {
            head: geometry.place(0),
            geometry,
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
            interface_ns: 0,
            cache_hits: 0,
            model: model.clone(),
        }
    }

    fn work(&self) -> Work {
        Work { interface_ns: self.interface_ns, media_ns: self.busy, cache_hits: self.cache_hits }
    }

    fn busy_ns(&self) -> u64 {
        self.busy
    }

    fn start(&mut self, now: Time, command: Command, plan: &mut Plan) {
        match command.op {
            Op::Flush => self.flush = Some(command.request),
            Op::Discard => unreachable!("queues answer discards"),
            Op::Read => {
                self.read_on_idle(now);
                if let Some(done) = self.cached(now, &command) {
                    plan.done(done, command.request);
                    return;
                }
                let waiting = self.waiting(now, command);
                self.reads.push(waiting);
            }
            Op::Write if self.model.write_cache => {
                self.refused.push_back(command);
                self.fill_cache(now, plan);
            }
            Op::Write => {
                let waiting = self.waiting(now, command);
                self.dirty.push(waiting);
            }
        }
        if self.doing == Doing::Nothing {
            self.next(now, plan);
        }
    }

    fn timer(&mut self, now: Time, plan: &mut Plan) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Read(waiting) => {
                let done = self.transfer(now, waiting.command.bytes);
                plan.done(done, waiting.command.request);
                self.remember(&waiting.command);
            }
            Doing::Write(waiting) => {
                if !self.model.write_cache {
                    plan.done(now, waiting.command.request);
                } else {
                    self.fill_cache(now, plan);
                }
            }
            Doing::Flush(request) => plan.done(now, request),
            Doing::Nothing => {}
        }
        self.next(now, plan);
    }
}

impl Hdd {
    fn waiting(&mut self, now: Time, command: Command) -> Waiting {
        self.uses += 1;
        // What was read ahead of a read's beginning need not be read again: it goes on from there.
        let end = command.byte + u64::from(command.bytes);
        let ahead =
            self.streams.iter().find(|s| s.start <= command.byte && (command.byte..end).contains(&s.end));
        let from = if command.op == Op::Read { ahead.map_or(command.byte, |s| s.end) } else { command.byte };
        Waiting {
            command,
            place: self.geometry.place(from),
            batch: self.batch,
            arrival: self.uses,
            ready: now + self.model.controller_ns,
        }
    }

    /// Moves bytes between host and cache: one command after the other.
    fn transfer(&mut self, now: Time, bytes: u32) -> Time {
        let duration = INTERFACE + (f64::from(bytes) * 1e9 / self.model.bandwidth as f64) as Time;
        self.interface_ns += duration;
        self.interface_until = self.interface_until.max(now) + duration;
        self.interface_until
    }

    /// Whether the cache takes no more; what is being written still is in it.
    fn is_full(&self) -> bool {
        let writing = usize::from(matches!(self.doing, Doing::Write(_)));
        self.dirty.len() + writing >= self.model.write_cache_requests.max(1) as usize
    }

    /// Takes the writes that wait, in their order, until the cache is full.
    fn fill_cache(&mut self, now: Time, plan: &mut Plan) {
        while !self.is_full() {
            let Some(command) = self.refused.pop_front() else { break };
            self.cache_write(now, command, plan);
        }
    }

    fn cache_write(&mut self, now: Time, command: Command, plan: &mut Plan) {
        let done = self.transfer(now, command.bytes);
        plan.done(done, command.request);
        // What continues a write that waits in the cache is written with it, up to a track.
        let continues = |w: &&mut Waiting| {
            let bytes = u64::from(w.command.bytes);
            w.command.byte + bytes == command.byte && bytes < self.model.inner_track_bytes.min(1 << 30)
        };
        if let Some(unwritten) = self.dirty.iter_mut().find(continues) {
            unwritten.command.bytes += command.bytes;
            return;
        }
        // The request's number is free for others from now on.
        let waiting = self.waiting(now, Command { request: u32::MAX, ..command });
        self.dirty.push(waiting);
    }

    /// Chooses what to do next, and plans its end.
    fn next(&mut self, now: Time, plan: &mut Plan) {
        self.answer_from_cache(now, plan);
        let flushing = self.flush.is_some();
        let full = self.is_full() || !self.model.write_cache;
        let write = !self.dirty.is_empty() && (flushing || full || self.reads.is_empty());
        let read = !self.reads.is_empty() && !flushing;
        let (doing, duration) = if read || write {
            let best_read = if read { self.best(now, true) } else { None };
            let best_write = if write { self.best(now, false) } else { None };
            match (best_read, best_write) {
                (Some((read_index, cost)), write) if write.is_none_or(|(_, other)| cost <= other) => {
                    let waiting = self.reads.swap_remove(read_index);
                    (Doing::Read(waiting), self.serve(&waiting, cost))
                }
                (_, Some((write_index, cost))) => {
                    let waiting = self.dirty.swap_remove(write_index);
                    (Doing::Write(waiting), self.serve(&waiting, cost) + self.model.destage_ns)
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
        plan.timer(now + duration);
    }

    /// The command reached first, of the oldest batch of reads or of all writes: (index, time until its first byte).
    fn best(&mut self, now: Time, reads: bool) -> Option<(usize, Time)> {
        if reads && !self.reads.iter().any(|w| w.batch != self.batch) {
            self.batch = self.batch.wrapping_add(1);
        }
        let current = self.batch;
        let list = if reads { &self.reads } else { &self.dirty };
        let candidates = list.iter().enumerate().filter(|(_, w)| !reads || w.batch != current);
        let reach = |w: &Waiting| {
            let begin =
                if w.place.byte == self.head.byte { now } else { w.ready.max(now) + self.model.command_ns };
            begin - now + self.geometry.reach(begin, &self.head, &w.place)
        };
        let (index, waiting) = match self.model.order {
            Order::Rotation => candidates.min_by_key(|(_, w)| reach(w)),
            Order::Seek => candidates.min_by(|(_, a), (_, b)| {
                let distance = |w: &Waiting| self.geometry.distance(&self.head, &w.place);
                distance(a).total_cmp(&distance(b))
            }),
            Order::Arrival => candidates.min_by_key(|(_, w)| w.arrival),
        }?;
        Some((index, reach(waiting)))
    }

    /// Moves the head over a command's bytes, and returns how long that takes.
    fn serve(&mut self, waiting: &Waiting, reach: Time) -> Time {
        let end = waiting.command.byte + u64::from(waiting.command.bytes);
        self.head = self.geometry.place(end);
        reach + self.geometry.pass(&waiting.place, &self.head)
    }

    /// A read whose bytes are in the cache is done as soon as they are transferred.
    fn cached(&mut self, now: Time, command: &Command) -> Option<Time> {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let stream = self.streams.iter_mut().find(|s| s.start <= command.byte && end <= s.end)?;
        (stream.used, stream.asked) = (self.uses, stream.asked.max(end));
        self.cache_hits += 1;
        Some(self.transfer(now, command.bytes))
    }

    /// Reads that waited while their bytes were read ahead.
    fn answer_from_cache(&mut self, now: Time, plan: &mut Plan) {
        let mut index = 0;
        while index < self.reads.len() {
            let command = self.reads[index].command;
            match self.cached(now, &command) {
                Some(done) => {
                    plan.done(done, command.request);
                    self.reads.swap_remove(index);
                }
                None => index += 1,
            }
        }
    }

    /// While nothing else was to do, the disk went on reading where it was.
    fn read_on_idle(&mut self, now: Time) {
        if self.doing == Doing::Nothing && self.idle_since < now {
            let idle = now - self.idle_since;
            self.idle_since = now;
            self.read_ahead(idle);
        }
    }

    /// Reads on from the head for a time, as far as the stream's read-ahead goes.
    fn read_ahead(&mut self, time: Time) {
        let head = self.head.byte;
        let (most, kept) = (self.model.read_ahead_bytes, self.kept());
        let Some(stream) = self.streams.iter_mut().find(|s| s.end == head) else { return };
        let furthest = (stream.asked + most).min(self.model.capacity);
        stream.end = (stream.end + self.geometry.bytes_in(&self.head, time)).min(furthest).max(stream.end);
        stream.start = stream.start.max(stream.end.saturating_sub(kept));
        self.head = self.geometry.place(stream.end);
    }

    /// How much of a stream stays in the cache: as much as lies ahead, if the stream's part of the cache holds it.
    fn kept(&self) -> u64 {
        let part = self.model.cache_bytes / u64::from(self.model.read_streams.max(1));
        (2 * self.model.read_ahead_bytes).min(part)
    }

    fn remember(&mut self, command: &Command) {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let used = self.uses;
        let kept = self.kept();
        if let Some(stream) =
            self.streams.iter_mut().find(|s| s.start <= command.byte && command.byte <= s.end)
        {
            stream.end = stream.end.max(end);
            stream.start = stream.start.max(stream.end.saturating_sub(kept));
            (stream.used, stream.asked) = (used, stream.asked.max(end));
            return;
        }
        if self.streams.len() >= self.model.read_streams.max(1) as usize {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream { start: command.byte, end, asked: end, used });
    }
}
