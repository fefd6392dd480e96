//! A rotating disk: seeks, rotation, zones, a queue ordered by the time to reach each request, and a volatile cache.
//!
//! - **Position of a sector.** Tracks shorten evenly from rim to hub, so the number of tracks before a byte follows
//!   from a quadratic equation (`Geometry::locate`). Tracks are skewed by the time that a change of track takes, so
//!   that a sequential transfer loses no more than that.
//! - **Seeks** take a + b·√d over short and a + b·d over long distances (Ruemmler and Wilkes, "An introduction to
//!   disk drive modeling", 1994), through the three times that data sheets give.
//! - **Order.** The disk serves a batch of waiting commands in the order in which it reaches them, rotation included.
//!   Commands that arrive meanwhile belong to the next batch, so none waits for ever.
//! - **Read-ahead.** While no command waits the disk reads on. Reads of cached bytes need no mechanism.
//! - **Write cache.** Writes are acknowledged from the cache, up to a number. They are written when no reads wait or
//!   the cache is full. A flush writes them all.
//! - **Media log.** Without the write cache, some disks append writes to a log on the tracks near the heads, and move
//!   them to their places when idle (HGST: "media cache"). A write waits for a part of a revolution, without a seek,
//!   until the log is full.
//! - **Shingled tracks.** A write goes to the media cache, and bands are cleaned: see `shingled`.

use crate::bio::Op;
use crate::device::command_queue::{CommandQueue, Departure, QueuedCommand};
use crate::device::geometry::{DiskPosition, Geometry};
use crate::device::hdd_spec::HddSpec;
use crate::device::shingled::{Segment, Shingled};
use crate::device::{DiskCommand, DiskEvents, DiskModel, DiskWork};
use crate::events::Time;
use std::ops::Range;

/// Time of the connection for a command, without its bytes.
const INTERFACE: Time = 50_000;
/// How long the disk must be idle before it cleans bands. An estimate: Skylight shows that cleaning begins within
/// seconds after the last command ("aggressive" cleaning).
const IDLE_BEFORE_CLEANING: Time = 1_000_000_000;

/// A stream that read-ahead follows: the bytes in the cache, and how far the host has asked.
#[derive(Clone, Copy, Debug)]
struct ReadAheadStream {
    start: u64,
    end: u64,
    asked: u64,
    used: u64,
}

/// What the heads are doing.
#[derive(Clone, Copy, Debug, Default)]
enum MechanismState {
    #[default]
    Nothing,
    Read(DiskCommand),  // Reading for a command
    Write(DiskCommand), // Writing acknowledged data, or (without a write cache) for a command
    Flush(u32),         // The end of a flush
    Clean,              // Cleaning a band
}

/// A rotating disk.
#[derive(Debug, Default)]
pub struct Hdd {
    model: HddSpec,
    geometry: Geometry,
    head: DiskPosition,
    mechanism: MechanismState,
    reads: CommandQueue,
    dirty: CommandQueue, // Acknowledged writes; without the write cache, waiting writes
    uncached_writes: std::collections::VecDeque<DiskCommand>, // Writes that wait because the cache is full
    flush: Option<u32>,
    batch: u32,
    streams: Vec<ReadAheadStream>,
    uses: u64,
    interface_until: Time, // When the connection to the host is free
    idle_since: Time,
    busy: u64,
    interface_ns: u64,
    cache_hits: u64,
    shingled: Option<Box<Shingled>>,
    media_cache_full_ns: Option<Time>, // When it was full for the first time
    logged: u32,                       // Writes in the media log
    log_end: u64,                      // The byte behind the last of them
}

impl DiskModel for Hdd {
    type Spec = HddSpec;

    fn new(model: &HddSpec) -> Self {
        let geometry = Geometry::new(model);
        Self {
            head: geometry.locate(0),
            geometry,
            reads: CommandQueue::new(model.order, model.shingled.is_some()),
            dirty: CommandQueue::new(model.order, model.shingled.is_some()),
            shingled: model.shingled.as_ref().map(|spec| Box::new(Shingled::new(spec, model.capacity))),
            model: model.clone(),
            ..Self::default()
        }
    }

    fn work(&self) -> DiskWork {
        DiskWork {
            interface_ns: self.interface_ns,
            media_ns: self.busy,
            cache_hits: self.cache_hits,
            bands_cleaned: self.shingled.as_ref().map_or(0, |shingled| shingled.bands_cleaned),
            media_cache_full_ns: self.media_cache_full_ns,
            ..DiskWork::default()
        }
    }

    fn busy_ns(&self) -> u64 {
        self.busy
    }

    fn discard(&mut self, byte: u64, bytes: u64) {
        self.shingled.iter_mut().for_each(|shingled| shingled.forget(byte, byte + bytes));
    }

    fn start(&mut self, now: Time, command: DiskCommand, events: &mut DiskEvents) {
        self.clean_after_idle(now, events);
        self.empty_log_after_idle(now);
        match command.op {
            Op::Flush => self.flush = Some(command.request),
            Op::Discard => unreachable!("queues answer discards"),
            Op::Read => {
                self.read_on_idle(now);
                if let Some(done) = self.read_from_cache(now, &command, 0..self.streams.len()) {
                    events.plan_completion(done, command.request);
                    return;
                }
                let waiting = self.queued_command(now, command);
                self.reads.push(waiting);
            }
            Op::Write if self.model.write_cache => {
                self.uncached_writes.push_back(command);
                self.fill_cache(now, events);
            }
            Op::Write => {
                let waiting = self.queued_command(now, command);
                self.dirty.push(waiting);
            }
        }
        if matches!(self.mechanism, MechanismState::Nothing) {
            self.start_next(now, events);
        }
    }

    fn timer(&mut self, now: Time, events: &mut DiskEvents) {
        match std::mem::replace(&mut self.mechanism, MechanismState::Nothing) {
            MechanismState::Read(command) => {
                let done = self.transfer_bytes(now, command.bytes);
                events.plan_completion(done, command.request);
                let stream = self.record_stream(&command);
                self.answer_from_cache(now, stream, events);
            }
            MechanismState::Write(_) if self.model.write_cache => self.fill_cache(now, events),
            MechanismState::Write(command) => events.plan_completion(now, command.request),
            MechanismState::Flush(request) => events.plan_completion(now, request),
            MechanismState::Clean | MechanismState::Nothing => {}
        }
        self.start_next(now, events);
    }
}

impl Hdd {
    fn queued_command(&mut self, now: Time, command: DiskCommand) -> QueuedCommand {
        self.uses += 1;
        // The part that read-ahead already has is not read again: reading continues behind it.
        let end = command.byte + u64::from(command.bytes);
        let ahead = self.streams.iter().find(|s| s.start <= command.byte && (command.byte..end).contains(&s.end));
        let from = if command.op == Op::Read { ahead.map_or(command.byte, |s| s.end) } else { command.byte };
        QueuedCommand {
            command,
            position: self.geometry.locate(from),
            batch: self.batch,
            arrival: self.uses,
            ready: now + self.model.controller_ns,
        }
    }

    /// Moves bytes between host and cache, one command after the other, and returns when that ends.
    fn transfer_bytes(&mut self, now: Time, bytes: u32) -> Time {
        let duration = INTERFACE + (f64::from(bytes) * 1e9 / self.model.bandwidth as f64) as Time;
        self.interface_ns += duration;
        self.interface_until = self.interface_until.max(now) + duration;
        self.interface_until
    }

    /// Whether the cache is full; it still holds the request that is being written.
    fn is_full(&self) -> bool {
        let writing = usize::from(matches!(self.mechanism, MechanismState::Write(_)));
        self.dirty.len() + writing >= self.model.write_cache_requests.max(1) as usize
    }

    /// Moves waiting writes into the cache, in their order, until it is full.
    fn fill_cache(&mut self, now: Time, events: &mut DiskEvents) {
        while !self.is_full() {
            let Some(command) = self.uncached_writes.pop_front() else { break };
            let done = self.transfer_bytes(now, command.bytes);
            events.plan_completion(done, command.request);
            // A write that continues a cached one is written with it, up to a track.
            if !self.dirty.append(command.byte, command.bytes, self.model.inner_track_bytes.min(1 << 30)) {
                // The request's number can be used again from now on.
                let waiting = self.queued_command(now, DiskCommand { request: u32::MAX, ..command });
                self.dirty.push(waiting);
            }
        }
    }

    /// Chooses the next operation and plans its end.
    fn start_next(&mut self, now: Time, events: &mut DiskEvents) {
        let flushing = self.flush.is_some();
        let full = self.is_full() || !self.model.write_cache;
        let write = !self.dirty.is_empty() && (flushing || full || self.reads.is_empty());
        let read = !self.reads.is_empty() && !flushing;
        let (mechanism, duration) = if read || write {
            let best_read = if read { self.quickest(now, true) } else { None };
            let best_write = if write { self.quickest(now, false) } else { None };
            // A write that can begin first is not put off because its head settles longer.
            let settle = self.model.write_settle_ns;
            match (best_read, best_write) {
                (Some((read_index, cost)), write) if write.is_none_or(|(_, other)| cost + settle <= other) => {
                    let waiting = self.reads.swap_remove(read_index);
                    (MechanismState::Read(waiting.command), self.move_head_over(now, &waiting, cost))
                }
                (_, Some((write_index, _))) if self.must_clean(now, write_index) => {
                    (MechanismState::Clean, self.clean_band().unwrap_or(0))
                }
                (_, Some((write_index, cost))) => {
                    let waiting = self.dirty.swap_remove(write_index);
                    let in_place = self.shingled.as_ref().is_some_and(|s| s.is_streamed(waiting.command.byte));
                    let destage = if in_place { 0 } else { self.model.destage_ns };
                    (MechanismState::Write(waiting.command), self.move_head_over(now, &waiting, cost) + destage)
                }
                _ => unreachable!("a read or a write waits"),
            }
        } else if let Some(request) = self.flush.take() {
            (MechanismState::Flush(request), self.model.flush_ns)
        } else {
            self.idle_since = now;
            return;
        };
        self.mechanism = mechanism;
        self.busy += duration;
        events.plan_timer(now + duration);
    }

    /// The command that is reached first, of the oldest batch of reads or of all writes: (index, time until its first
    /// byte).
    fn quickest(&mut self, now: Time, reads: bool) -> Option<(usize, Time)> {
        if !reads && self.is_logging() {
            // The time until a write goes to the media log, which has room at every angle: it takes the place at its own.
            let ready = now + self.model.command_ns;
            let wait = |queued: &QueuedCommand| match queued.position.byte == self.log_end {
                true => 0,
                false => ready - now + self.geometry.wait(ready as f64, &queued.position) as Time,
            };
            return self.dirty.iter().map(wait).enumerate().min_by_key(|&(_, time)| time);
        }
        let settle = if reads { 0 } else { self.model.write_settle_ns };
        let overhead = self.model.command_ns + settle;
        let from = Departure { geometry: &self.geometry, head: &self.head, now, overhead };
        let position_of = |queued: &QueuedCommand| match &self.shingled {
            Some(shingled) => self.geometry.locate(shingled.first_byte(queued.position.byte, !reads)),
            None => queued.position,
        };
        if !reads {
            return self.dirty.first(&from, None, position_of);
        }
        self.reads.first(&from, Some(self.batch), position_of).or_else(|| {
            self.batch = self.batch.wrapping_add(1);
            self.reads.first(&from, Some(self.batch), position_of)
        })
    }

    /// Moves the head over a command's bytes, and returns how long that takes.
    fn move_head_over(&mut self, now: Time, waiting: &QueuedCommand, reach: Time) -> Time {
        let end = waiting.command.byte + u64::from(waiting.command.bytes);
        let Some(shingled) = &mut self.shingled else {
            let to = self.geometry.locate(end);
            let duration = reach + self.geometry.pass_time(&waiting.position, &to);
            if waiting.command.op == Op::Write && self.is_logging() {
                (self.logged, self.log_end) = (self.logged + 1, end);
                if !self.is_logging() {
                    self.media_cache_full_ns.get_or_insert(now);
                }
            } else {
                self.head = to;
            }
            return duration;
        };
        let (byte, bytes) = (waiting.position.byte, end.saturating_sub(waiting.position.byte));
        let segments = match waiting.command.op {
            Op::Write => shingled.write(byte, bytes),
            _ => shingled.read(byte, bytes),
        };
        let mut duration = reach;
        for (index, &Segment { at, bytes }) in segments.iter().enumerate() {
            let from = self.geometry.locate(at);
            if index > 0 {
                duration += self.geometry.reach_time(now + duration, &self.head, &from);
            }
            self.head = self.geometry.locate(at + bytes);
            duration += self.geometry.pass_time(&from, &self.head);
        }
        duration
    }

    /// Whether writes go to the media log.
    fn is_logging(&self) -> bool {
        !self.model.write_cache && self.logged < self.model.media_log_writes
    }

    /// Accounts for the writes that the idle disk moved from its media log to their places, in the order of these.
    fn empty_log_after_idle(&mut self, now: Time) {
        if self.logged > 0 && matches!(self.mechanism, MechanismState::Nothing) {
            let each = self.model.seek_track_ns + self.geometry.rotation as Time / 2;
            self.logged -= ((now - self.idle_since) / each).min(self.logged.into()) as u32;
        }
    }

    /// Whether a band must be cleaned before a write, because the media cache is full.
    fn must_clean(&mut self, now: Time, write: usize) -> bool {
        let command = self.dirty[write].command;
        let full = self.shingled.as_ref().is_some_and(|s| s.must_clean(command.byte, u64::from(command.bytes)));
        if full {
            self.media_cache_full_ns.get_or_insert(now);
        }
        full
    }

    /// Cleans a band, and returns how long that takes; nothing if the media cache is empty.
    fn clean_band(&mut self) -> Option<Time> {
        let band = self.shingled.as_mut()?.clean()?;
        self.head = self.geometry.locate(band);
        self.model.shingled.as_ref().map(|spec| spec.band_clean_ns)
    }

    /// Accounts for the bands that the idle disk cleaned since its last command. It completes the last one first.
    fn clean_after_idle(&mut self, now: Time, events: &mut DiskEvents) {
        if self.shingled.is_none() || !matches!(self.mechanism, MechanismState::Nothing) {
            return;
        }
        let mut end = self.idle_since + IDLE_BEFORE_CLEANING;
        while end < now
            && let Some(duration) = self.clean_band()
        {
            (end, self.idle_since) = (end + duration, now);
            self.busy += duration;
            if end > now {
                self.mechanism = MechanismState::Clean;
                events.plan_timer(end);
            }
        }
    }

    /// If all of a read's bytes are in the cache, transfers them and returns when that ends.
    fn read_from_cache(&mut self, now: Time, command: &DiskCommand, streams: Range<usize>) -> Option<Time> {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let stream = self.streams[streams].iter_mut().find(|s| s.start <= command.byte && end <= s.end)?;
        (stream.used, stream.asked) = (self.uses, stream.asked.max(end));
        self.cache_hits += 1;
        Some(self.transfer_bytes(now, command.bytes))
    }

    /// Completes reads that waited while a stream's read-ahead read their bytes.
    fn answer_from_cache(&mut self, now: Time, stream: usize, events: &mut DiskEvents) {
        let mut from = 0;
        let ReadAheadStream { start, end, .. } = self.streams[stream];
        while let Some(index) = self.reads.find_within(from, start, end) {
            let command = self.reads.swap_remove(index).command;
            if let Some(done) = self.read_from_cache(now, &command, stream..stream + 1) {
                events.plan_completion(done, command.request);
            }
            from = index;
        }
    }

    /// Accounts for the read-ahead that the idle disk did since its last command, as far as the stream's goes.
    fn read_on_idle(&mut self, now: Time) {
        if !matches!(self.mechanism, MechanismState::Nothing) || self.idle_since >= now {
            return;
        }
        let time = now - std::mem::replace(&mut self.idle_since, now);
        let (head, most, kept) = (self.head.byte, self.model.read_ahead_bytes, self.kept_bytes());
        let Some(stream) = self.streams.iter_mut().find(|s| s.end == head) else { return };
        let furthest = (stream.asked + most).min(self.model.capacity);
        stream.end = (stream.end + self.geometry.bytes_in(&self.head, time)).min(furthest).max(stream.end);
        stream.start = stream.start.max(stream.end.saturating_sub(kept));
        self.head = self.geometry.locate(stream.end);
    }

    /// Bytes of a stream that stay in the cache: as many as lie ahead, if the stream's part of the cache can hold them.
    fn kept_bytes(&self) -> u64 {
        let part = self.model.cache_bytes / u64::from(self.model.read_streams.max(1));
        (2 * self.model.read_ahead_bytes).min(part)
    }

    /// Adds what was read to its stream, or begins one; returns its index.
    fn record_stream(&mut self, command: &DiskCommand) -> usize {
        let end = command.byte + u64::from(command.bytes);
        self.uses += 1;
        let used = self.uses;
        let kept = self.kept_bytes();
        let continued = self.streams.iter().position(|s| s.start <= command.byte && command.byte <= s.end);
        if let Some(index) = continued {
            let stream = &mut self.streams[index];
            stream.end = stream.end.max(end);
            stream.start = stream.start.max(stream.end.saturating_sub(kept));
            (stream.used, stream.asked) = (used, stream.asked.max(end));
            return index;
        }
        if self.streams.len() >= self.model.read_streams.max(1) as usize {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
            self.streams.swap_remove(oldest);
        }
        self.streams.push(ReadAheadStream { start: command.byte, end, asked: end, used });
        self.streams.len() - 1
    }
}
