//! From events to I/Os: follows every bio of one device from its queueing to its completion.
//!
//! Events name sectors, not bios, so an event is matched to the bios whose sectors it covers:
//!
//! - a request made of merged bios is dispatched and completed as one range: every bio inside it is meant;
//! - a bio that md or the block layer split completes in pieces: it is complete when all its sectors are;
//! - several bios in flight on one start sector are told apart by direction, state and length, then by age:
//!   the oldest first. (btt keeps one per start sector and mispairs the rest.) Where such twins are alike in
//!   all of these the trace does not say which one a completion is for; first in, first out keeps the mean exact.
//! - requests without a queued bio (passthrough commands, the flushes that a flush bio causes, I/O that was
//!   under way when tracing began) have a dispatch and a completion only.

mod starts;

use crate::event::{Action, DeviceId, Event, Rwbs};
use crate::io::{Io, NEVER};
use starts::{NONE, Starts};
use std::collections::{BTreeSet, VecDeque};

/// Bios in flight that are remembered per device; beyond it the older half is given up as never completed.
const MAX_IN_FLIGHT: usize = 1 << 15;
/// How many twins or neighbours are looked at before the search is given up.
const MAX_STEPS: usize = 64;

struct Slot {
    io: Io,
    /// Sectors not yet complete.
    left: u64,
    /// The next younger bio on the same start sector.
    next: u32,
    /// In the oldest of them: the youngest.
    tail: u32,
}

/// What an event needs of the bio it speaks of.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    /// Without a request yet.
    NoRequest,
    /// Not merged and not dispatched. A request may be merged as a whole, after its bio got it.
    NotMerged,
    /// Not yet in the scheduler.
    NotInserted,
    /// Not yet dispatched.
    NotDispatched,
    /// Dispatched.
    Dispatched,
    /// Anything.
    Any,
}

impl Want {
    #[inline]
    fn fits(self, io: &Io) -> bool {
        match self {
            Want::NoRequest => io.t_get == NEVER && io.t_merge == NEVER && io.t_dispatch == NEVER,
            Want::NotMerged => io.t_merge == NEVER && io.t_dispatch == NEVER,
            Want::NotInserted => io.t_insert == NEVER && io.t_dispatch == NEVER,
            Want::NotDispatched => io.t_dispatch == NEVER,
            Want::Dispatched => io.t_dispatch != NEVER,
            Want::Any => true,
        }
    }
}

/// What is known of a bio beside its Q.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// Where it was remapped from.
    pub source: DeviceId,
    /// Index of its process's name.
    pub process: u32,
}

/// Follows the I/Os of one device.
#[derive(Default)]
pub struct Pairer {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Start sector → oldest bio in flight on it.
    starts: Starts,
    /// (start sector, slot) of all bios in flight, kept from the first event that hits the middle of one.
    by_range: Option<BTreeSet<(u64, u32)>>,
    longest: u64,
    /// Queued without data (flushes), oldest first.
    empty: VecDeque<Io>,
    /// Dispatched without a bio and without data, or passthrough; oldest first.
    commands: VecDeque<Io>,
    in_flight: usize,
    saw_dispatch: bool,
    /// Completions of what was never seen queued or dispatched.
    pub unmatched_completions: u64,
    /// Bios given up because too many were in flight.
    pub given_up: u64,
}

impl Pairer {
    /// Takes in an event of the device; I/Os that it ends are added to `done`. `origin` matters for Q only.
    #[inline]
    pub fn event(&mut self, event: &Event, origin: Origin, done: &mut Vec<Io>) {
        match event.action {
            Action::QUEUE => self.queue(event, origin, done),
            Action::GET_REQUEST => self.set(event, Want::NoRequest, |io, t| io.t_get = t),
            Action::BACK_MERGE | Action::FRONT_MERGE => {
                self.set(event, Want::NotMerged, |io, t| io.t_merge = t)
            }
            Action::INSERT => self.set(event, Want::NotInserted, |io, t| io.t_insert = t),
            Action::DISPATCH => self.dispatch(event, done),
            Action::REQUEUE => self.set(event, Want::Dispatched, |io, _| {
                io.t_dispatch = NEVER;
                io.requeues = io.requeues.saturating_add(1);
            }),
            Action::COMPLETE => self.complete(event, done),
            _ => {}
        }
    }

    /// Bios queued and not complete.
    pub fn in_flight(&self) -> usize {
        self.in_flight + self.empty.len()
    }

    /// Ends the trace: gives out what never completed, in order of queueing.
    pub fn finish(&mut self, done: &mut Vec<Io>) {
        let first = done.len();
        done.extend(self.empty.drain(..));
        done.extend(self.commands.drain(..));
        let heads: Vec<u32> = self.starts.iter().map(|(_, head)| head).collect();
        self.starts.clear();
        for head in heads {
            let mut at = head;
            while at != NONE {
                done.push(self.slots[at as usize].io);
                at = self.slots[at as usize].next;
            }
        }
        self.slots.clear();
        self.free.clear();
        self.by_range = None;
        self.in_flight = 0;
        done[first..].sort_by_key(|io| (io.t_queue.min(io.t_dispatch), io.sector));
    }

    fn queue(&mut self, event: &Event, origin: Origin, done: &mut Vec<Io>) {
        let mut io = new_io(event);
        io.source = origin.source;
        io.process = origin.process;
        io.t_queue = event.time;
        if event.sectors() == 0 {
            if self.empty.len() >= MAX_IN_FLIGHT {
                done.extend(self.empty.pop_front());
                self.given_up += 1;
            }
            self.empty.push_back(io);
        } else {
            self.add(io, done);
        }
    }

    fn dispatch(&mut self, event: &Event, done: &mut Vec<Io>) {
        self.saw_dispatch = true;
        let passthrough = event.rwbs.has(Rwbs::PASSTHROUGH);
        if event.sectors() == 0 || passthrough {
            if !passthrough && self.dispatch_flushes(event.time) {
                return;
            }
            let mut io = new_io(event);
            io.t_dispatch = event.time;
            if self.commands.len() >= MAX_STEPS {
                done.extend(self.commands.pop_front());
            }
            self.commands.push_back(io);
            return;
        }
        let time = event.time;
        let known = self.cover(event, Want::NotDispatched, |io| {
            if io.t_dispatch == NEVER {
                io.t_dispatch = time;
            }
        });
        if !known {
            let mut io = new_io(event);
            io.t_dispatch = time;
            self.add(io, done);
        }
    }

    /// The driver's one flush request serves every flush bio that waits (block/blk-flush.c).
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
        let want = if self.saw_dispatch { Want::Dispatched } else { Want::Any };
        let (end, write) = (event.end(), is_write(event.rwbs));
        let mut at = event.sector;
        while at < end {
            let Some((previous, index)) = self.find(at, end - at, write, want) else { break };
            let slot = &mut self.slots[index as usize];
            let next = end.min(slot.io.end()).max(at + 1);
            slot.left = slot.left.saturating_sub(next - at);
            at = next;
            if event.error != 0 {
                slot.io.error = event.error;
            }
            if slot.left == 0 {
                slot.io.t_complete = event.time;
                done.push(slot.io);
                self.remove(previous, index);
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

    /// Sets a moment on every bio that the event's range covers.
    #[inline]
    fn set(&mut self, event: &Event, want: Want, set: impl Fn(&mut Io, u64)) {
        let time = event.time;
        if event.sectors() > 0 {
            self.cover(event, want, |io| {
                if want.fits(io) {
                    set(io, time);
                }
            });
        }
    }

    /// Calls `act` with every bio in the event's range. False when the range's first sector belongs to no bio
    /// in flight.
    #[inline]
    fn cover(&mut self, event: &Event, want: Want, mut act: impl FnMut(&mut Io)) -> bool {
        let write = is_write(event.rwbs);
        // Nearly always one bio, of exactly this range.
        if let Some(slot) = self.alone_at(event.sector)
            && slot.io.bytes == event.bytes
            && is_write(slot.io.rwbs) == write
        {
            act(&mut slot.io);
            return true;
        }
        let end = event.end();
        let mut at = event.sector;
        while at < end {
            let Some((_, index)) = self.find(at, end - at, write, want) else { break };
            let io = &mut self.slots[index as usize].io;
            act(io);
            at = end.min(io.end()).max(at + 1);
        }
        at > event.sector
    }

    /// The bio that starts at a sector, if it is the only one.
    #[inline]
    fn alone_at(&mut self, sector: u64) -> Option<&mut Slot> {
        let head = self.starts.get(sector)?;
        let slot = self.slots.get_mut(head as usize)?;
        (slot.next == NONE).then_some(slot)
    }

    /// The bio in flight that sector `at` of a range with `sectors` left belongs to, and its elder twin.
    #[inline]
    fn find(&mut self, at: u64, sectors: u64, write: bool, want: Want) -> Option<(u32, u32)> {
        if let Some(head) = self.starts.get(at) {
            let slot = &self.slots[head as usize];
            if slot.next == NONE && is_write(slot.io.rwbs) == write {
                return Some((NONE, head));
            }
            if let Some(found) = self.choose(head, sectors, write, want) {
                return Some(found);
            }
        }
        self.find_by_range(at, write, want)
    }

    /// Among twins: the oldest in the right state and of the right length, else in the right state, else any.
    fn choose(&self, head: u32, sectors: u64, write: bool, want: Want) -> Option<(u32, u32)> {
        let mut best: Option<(u8, (u32, u32))> = None;
        let (mut previous, mut at) = (NONE, head);
        for _ in 0..MAX_STEPS {
            if at == NONE {
                break;
            }
            let slot = &self.slots[at as usize];
            if is_write(slot.io.rwbs) == write {
                let exact = u64::from(slot.io.bytes >> 9) == sectors;
                let rank = 2 * u8::from(want.fits(&slot.io)) + u8::from(exact);
                if rank == 3 {
                    return Some((previous, at));
                }
                if best.is_none_or(|(r, _)| rank > r) {
                    best = Some((rank, (previous, at)));
                }
            }
            (previous, at) = (at, slot.next);
        }
        best.map(|(_, found)| found)
    }

    fn find_by_range(&mut self, at: u64, write: bool, want: Want) -> Option<(u32, u32)> {
        if self.starts.is_empty() {
            return None;
        }
        let (slots, starts) = (&self.slots, &self.starts);
        let index = self.by_range.get_or_insert_with(|| {
            let mut all = BTreeSet::new();
            for (sector, head) in starts.iter() {
                let mut slot = head;
                while slot != NONE {
                    all.insert((sector, slot));
                    slot = slots[slot as usize].next;
                }
            }
            all
        });
        let lowest = at.saturating_sub(self.longest);
        let mut second = None;
        for &(_, slot) in index.range((lowest, 0)..(at, 0)).rev().take(MAX_STEPS) {
            let io = &slots[slot as usize].io;
            if io.end() > at && is_write(io.rwbs) == write {
                if want.fits(io) {
                    return Some((self.elder(slot), slot));
                }
                second = second.or(Some(slot));
            }
        }
        second.map(|slot| (self.elder(slot), slot))
    }

    /// The twin before `slot` in its chain.
    fn elder(&self, slot: u32) -> u32 {
        let mut previous = NONE;
        let mut at = self.starts.get(self.slots[slot as usize].io.sector).unwrap_or(NONE);
        while at != slot && at != NONE {
            previous = at;
            at = self.slots[at as usize].next;
        }
        previous
    }

    fn add(&mut self, io: Io, done: &mut Vec<Io>) {
        if self.in_flight >= MAX_IN_FLIGHT {
            self.give_up_older_half(done);
        }
        let left = u64::from(io.bytes >> 9);
        self.longest = self.longest.max(left);
        let sector = io.sector;
        let slot = Slot { io, left, next: NONE, tail: NONE };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[index as usize].tail = index;
        let head = self.starts.put_if_free(sector, index);
        if head != index {
            let tail = self.slots[head as usize].tail;
            self.slots[tail as usize].next = index;
            self.slots[head as usize].tail = index;
        }
        if let Some(all) = &mut self.by_range {
            all.insert((sector, index));
        }
        self.in_flight += 1;
    }

    /// Takes a bio out; `previous` is its elder twin.
    fn remove(&mut self, previous: u32, index: u32) {
        let (sector, next) = (self.slots[index as usize].io.sector, self.slots[index as usize].next);
        if previous == NONE {
            if next == NONE {
                self.starts.remove(sector);
            } else {
                self.slots[next as usize].tail = self.slots[index as usize].tail;
                self.starts.set(sector, next);
            }
        } else {
            self.slots[previous as usize].next = next;
            if next == NONE
                && let Some(head) = self.starts.get(sector)
            {
                self.slots[head as usize].tail = previous;
            }
        }
        if let Some(all) = &mut self.by_range {
            all.remove(&(sector, index));
        }
        self.free.push(index);
        self.in_flight -= 1;
    }

    fn give_up_older_half(&mut self, done: &mut Vec<Io>) {
        let mut all = Vec::with_capacity(self.in_flight);
        let (empty, commands) = (std::mem::take(&mut self.empty), std::mem::take(&mut self.commands));
        self.finish(&mut all);
        (self.empty, self.commands) = (empty, commands);
        let half = all.len() / 2;
        self.given_up += half as u64;
        done.extend_from_slice(&all[..half]);
        for &io in &all[half..] {
            self.add(io, done);
        }
    }
}

#[inline]
fn is_write(rwbs: Rwbs) -> bool {
    rwbs.has(Rwbs::WRITE.with(Rwbs::DISCARD))
}

fn new_io(event: &Event) -> Io {
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
        t_queue: NEVER,
        t_get: NEVER,
        t_merge: NEVER,
        t_insert: NEVER,
        t_dispatch: NEVER,
        t_complete: NEVER,
    }
}
