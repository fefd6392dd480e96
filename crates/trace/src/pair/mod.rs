//! From events to I/Os: follows every bio of one device from its queueing to its completion.
//!
//! Events name sectors, not bios, so an event is matched to the bios whose sectors it covers:
//!
//! - a request made of merged bios is dispatched and completed as one range: the event applies to every bio in it;
//! - a bio that md or the block layer split completes in pieces: it is complete when all its sectors are;
//! - several bios in flight on one start sector are distinguished by direction, state and length, then by age: the
//!   oldest first. (btt keeps one for each start sector and pairs the others wrongly.) If such twins are alike in all
//!   of these, the trace does not show which one a completion belongs to; first in, first out keeps the mean exact.
//! - requests without a queued bio (passthrough commands, the flushes that a flush bio causes, I/O that was in flight
//!   when tracing began) have only a dispatch and a completion.

mod flight;

use crate::event::{Action, DeviceId, Event, Rwbs};
use crate::io::{Io, NEVER, Rival};
use flight::{BioState, BiosInFlight, is_write};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The largest number of bios in flight for each device; beyond it the older half is given up as never completed.
const MAX_IN_FLIGHT: usize = 1 << 15;
const MAX_STEPS: usize = 64; // Flushes and commands that are checked before a search ends

/// The origin of a bio, which its Q does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct BioOrigin {
    pub source: DeviceId, // The device that it was remapped from
    pub process: u32,     // Index of its process's name
    pub resyncs: bool,    // Whether md's resync queued it
    pub commits: bool,    // Whether it is a commit
    pub caller: u32,      // Index of the name of the process for which it commits
    pub behind: [u32; 3], // Bios in flight: writeback, md's resync, other processes' commits
    pub rival: Rival,     // The other user with most bios in flight
}

/// Follows the I/Os of one device.
#[derive(Default, Serialize, Deserialize)]
pub struct Pairer {
    #[serde(skip)]
    bios: BiosInFlight,
    #[serde(skip)]
    empty: VecDeque<Io>, // Queued bios without data (flushes), oldest first
    #[serde(skip)]
    commands: VecDeque<Io>, // Dispatched without a bio and without data, or passthrough; oldest first
    #[serde(skip)]
    saw_dispatch: bool,
    /// A bio in flight for longer than this, in ns, has lost its completion when a bio with the same range follows.
    pub stale_after: Option<u64>,
    pub unmatched_completions: u64, // Completions without a Q or D in the trace
    pub given_up: u64,              // Bios given up because too many were in flight
}

impl Pairer {
    /// Adds an event of the device; appends the I/Os that it ends to `done`. `origin` matters only for Q. Returns
    /// whether the event dispatched a request that was not with the driver before.
    pub fn add_event(&mut self, event: &Event, origin: BioOrigin, done: &mut Vec<Io>) -> bool {
        match event.action {
            Action::QUEUE => self.queue(event, origin, done),
            Action::GET_REQUEST => self.set_time(event, BioState::NoRequest, |io, t| io.t_get = t),
            Action::BACK_MERGE | Action::FRONT_MERGE => {
                self.set_time(event, BioState::NotMerged, |io, t| io.t_merge = t)
            }
            Action::INSERT => self.set_time(event, BioState::NotInserted, |io, t| io.t_insert = t),
            Action::DISPATCH => return self.dispatch(event, done),
            Action::REQUEUE => self.set_time(event, BioState::Dispatched, |io, _| {
                io.t_dispatch = NEVER;
                io.requeues = io.requeues.saturating_add(1);
            }),
            Action::COMPLETE => self.complete(event, done),
            _ => {}
        }
        false
    }

    /// Whether a bio in flight has exactly the event's range and direction.
    pub fn has_same_range(&self, event: &Event) -> bool {
        self.bios.has_same_range(event)
    }

    /// Bios queued and not complete.
    pub fn in_flight(&self) -> usize {
        self.bios.len() + self.empty.len()
    }

    /// Ends the trace: appends the I/Os that never completed, in order of queueing.
    pub fn finish(&mut self, done: &mut Vec<Io>) {
        let first = done.len();
        done.extend(self.empty.drain(..));
        done.extend(self.commands.drain(..));
        self.bios.drain_into(done);
        done[first..].sort_by_key(|io| (io.t_queue.min(io.t_dispatch), io.sector));
    }

    fn queue(&mut self, event: &Event, origin: BioOrigin, done: &mut Vec<Io>) {
        let mut io = new_io(event);
        io.source = origin.source;
        io.process = origin.process;
        (io.resyncs, io.commits, io.caller) = (origin.resyncs, origin.commits, origin.caller);
        (io.behind, io.rival) = (origin.behind, origin.rival);
        io.depth = self.in_flight() as u32;
        io.t_queue = event.time;
        if event.sectors() == 0 {
            if self.empty.len() >= MAX_IN_FLIGHT {
                done.extend(self.empty.pop_front());
                self.given_up += 1;
            }
            self.empty.push_back(io);
        } else {
            if let Some(limit) = self.stale_after {
                done.extend(self.bios.take_twin(event, event.time.saturating_sub(limit)));
            }
            self.add(io, done);
        }
    }

    fn dispatch(&mut self, event: &Event, done: &mut Vec<Io>) -> bool {
        self.saw_dispatch = true;
        let passthrough = event.rwbs.has(Rwbs::PASSTHROUGH);
        if event.sectors() == 0 || passthrough {
            if !passthrough && self.dispatch_flushes(event.time) {
                return true;
            }
            let mut io = new_io(event);
            io.t_dispatch = event.time;
            if self.commands.len() >= MAX_STEPS {
                done.extend(self.commands.pop_front());
            }
            self.commands.push_back(io);
            return true;
        }
        let time = event.time;
        let mut is_new = false;
        let known = self.for_each_bio(event, BioState::NotDispatched, |io| {
            if io.t_dispatch == NEVER {
                io.t_dispatch = time;
                is_new = true;
            }
        });
        if !known {
            let mut io = new_io(event);
            io.t_dispatch = time;
            self.add(io, done);
        }
        is_new || !known
    }

    /// The driver's flush request serves every waiting flush bio (block/blk-flush.c).
    fn dispatch_flushes(&mut self, time: u64) -> bool {
        let mut any = false;
        for io in self.empty.iter_mut().rev().take_while(|io| io.t_dispatch == NEVER) {
            io.t_dispatch = time;
            any = true;
        }
        any
    }

    fn complete(&mut self, event: &Event, done: &mut Vec<Io>) {
        let passthrough = event.rwbs.has(Rwbs::PASSTHROUGH);
        if event.sectors() == 0 || passthrough {
            return self.complete_empty(event, passthrough, done);
        }
        // Nearly always one bio with exactly this range.
        if let Some(mut io) = self.bios.take_single(event) {
            io.t_complete = event.time;
            io.error = event.error;
            done.push(io);
            return;
        }
        let want = if self.saw_dispatch { BioState::Dispatched } else { BioState::Any };
        let (end, write) = (event.end(), is_write(event.rwbs));
        let mut at = event.sector;
        while at < end {
            let Some(index) = self.bios.find(at, end - at, write, want) else { break };
            let slot = self.bios.slot(index);
            let next = end.min(slot.io.end()).max(at + 1);
            slot.left = slot.left.saturating_sub(next - at);
            at = next;
            if event.error != 0 {
                slot.io.error = event.error;
            }
            if slot.left == 0 {
                slot.io.t_complete = event.time;
                done.push(slot.io);
                self.bios.remove(index);
            }
        }
        self.unmatched_completions += u64::from(at == event.sector);
    }

    /// Completions without data: of flush bios, of the driver's flush requests, of passthrough commands; and
    /// the second completion of a FUA write, which ends nothing.
    fn complete_empty(&mut self, event: &Event, passthrough: bool, done: &mut Vec<Io>) {
        let write = event.rwbs.has(Rwbs::WRITE);
        let alike = |io: &Io| {
            io.rwbs.has(Rwbs::WRITE) == write
                && io.rwbs.has(Rwbs::FLUSH) == event.rwbs.has(Rwbs::FLUSH)
                && io.rwbs.has(Rwbs::PASSTHROUGH) == passthrough
        };
        let same = |io: &Io| alike(io) && io.sector == event.sector && io.bytes == event.bytes;
        let near = |list: &VecDeque<Io>| {
            let near = || list.iter().take(MAX_STEPS);
            near().position(same).or_else(|| near().position(alike))
        };
        let mut end = |mut io: Io| {
            io.t_complete = event.time;
            io.error = event.error;
            done.push(io);
        };
        // The driver's flush request ends every flush bio that was dispatched with it.
        let driver_flush = !write && !passthrough && event.rwbs.has(Rwbs::FLUSH);
        if driver_flush && self.empty.front().is_some_and(|io| io.t_dispatch != NEVER) {
            while self.empty.front().is_some_and(|io| io.t_dispatch != NEVER) {
                self.empty.pop_front().into_iter().for_each(&mut end);
            }
        } else if let Some(at) = near(&self.commands) {
            self.commands.remove(at).into_iter().for_each(&mut end);
        } else if let Some(at) = near(&self.empty) {
            self.empty.remove(at).into_iter().for_each(&mut end);
        }
    }

    /// Sets a time in every bio that the event's range covers.
    fn set_time(&mut self, event: &Event, want: BioState, set: impl Fn(&mut Io, u64)) {
        let time = event.time;
        if event.sectors() > 0 {
            self.for_each_bio(event, want, |io| {
                if want.matches(io) {
                    set(io, time);
                }
            });
        }
    }

    /// Calls `act` with every bio in the event's range. False if the range's first sector belongs to no bio in flight.
    fn for_each_bio(&mut self, event: &Event, want: BioState, mut act: impl FnMut(&mut Io)) -> bool {
        let write = is_write(event.rwbs);
        // Nearly always one bio with exactly this range.
        if let Some(slot) = self.bios.single_at(event.sector)
            && slot.io.bytes == event.bytes
            && is_write(slot.io.rwbs) == write
        {
            act(&mut slot.io);
            return true;
        }
        let end = event.end();
        let mut at = event.sector;
        while at < end {
            let Some(index) = self.bios.find(at, end - at, write, want) else { break };
            let io = &mut self.bios.slot(index).io;
            act(io);
            at = end.min(io.end()).max(at + 1);
        }
        at > event.sector
    }

    fn add(&mut self, io: Io, done: &mut Vec<Io>) {
        if self.bios.len() >= MAX_IN_FLIGHT {
            self.give_up_older_half(done);
        }
        self.bios.add(io);
    }

    fn give_up_older_half(&mut self, done: &mut Vec<Io>) {
        let mut all = Vec::with_capacity(self.bios.len());
        self.bios.drain_into(&mut all);
        all.sort_by_key(|io| (io.t_queue.min(io.t_dispatch), io.sector));
        let half = all.len() / 2;
        self.given_up += half as u64;
        done.extend_from_slice(&all[..half]);
        for &io in &all[half..] {
            self.bios.add(io);
        }
    }
}

/// A bio of which only an event is known.
pub fn new_io(event: &Event) -> Io {
    Io {
        device: event.device,
        source: DeviceId(0),
        sector: event.sector,
        bytes: event.bytes,
        rwbs: event.rwbs,
        pid: event.pid,
        process: 0,
        cpu: event.cpu,
        error: 0,
        requeues: 0,
        depth: 0,
        resyncs: false,
        commits: false,
        caller: 0,
        behind: [0; 3],
        rival: Rival::default(),
        t_queue: NEVER,
        t_get: NEVER,
        t_merge: NEVER,
        t_insert: NEVER,
        t_dispatch: NEVER,
        t_complete: NEVER,
    }
}

#[cfg(test)]
mod tests;
