//! The bios of one device that are in flight, found by the sectors they cover.

use super::starts::{NONE, Starts};
use crate::event::{Event, Rwbs};
use crate::io::{Io, NEVER};
use std::collections::BTreeSet;

/// How many twins or neighbours are looked at before the search is given up.
const MAX_STEPS: usize = 64;

/// One bio in flight.
#[derive(Clone, Copy)]
pub struct Slot {
    /// What is known of it.
    pub io: Io,
    /// Sectors not yet complete.
    pub left: u64,
    /// The next younger bio on the same start sector.
    next: u32,
    /// The next older one.
    prev: u32,
    /// In the oldest of them: the youngest.
    tail: u32,
}

/// What an event needs of the bio it speaks of.
#[derive(Clone, Copy, PartialEq)]
pub enum Want {
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
    /// Whether a bio is in this state.
    #[inline]
    pub fn fits(self, io: &Io) -> bool {
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

/// Bios in flight.
#[derive(Default)]
pub struct Flight {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Start sector → oldest bio on it.
    starts: Starts,
    /// (start sector, slot) of all of them, kept from the first event that hits the middle of one.
    by_range: Option<BTreeSet<(u64, u32)>>,
    longest: u64,
    len: usize,
}

impl Flight {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bio in a slot that [`Flight::find`] named.
    #[inline]
    pub fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Takes all out, in no order.
    pub fn drain_into(&mut self, out: &mut Vec<Io>) {
        for (_, head) in self.starts.iter() {
            let mut at = head;
            while at != NONE {
                out.push(self.slots[at as usize].io);
                at = self.slots[at as usize].next;
            }
        }
        *self = Flight::default();
    }

    /// The bio that starts at a sector, if it is the only one.
    #[inline]
    pub fn alone_at(&mut self, sector: u64) -> Option<&mut Slot> {
        let head = self.starts.get(sector)?;
        let slot = self.slots.get_mut(head as usize)?;
        (slot.next == NONE).then_some(slot)
    }

    /// Takes out the bio that covers exactly an event's range, if it is the only one on its sector and whole.
    #[inline]
    pub fn take_alone(&mut self, event: &Event) -> Option<Io> {
        let index = self.starts.get(event.sector)?;
        let slot = self.slots.get(index as usize)?;
        let exact = slot.io.bytes == event.bytes && slot.left == event.sectors();
        if slot.next != NONE || !exact || is_write(slot.io.rwbs) != is_write(event.rwbs) {
            return None;
        }
        let io = slot.io;
        self.remove(index);
        Some(io)
    }

    /// The bio in flight that sector `at` of a range with `sectors` left belongs to.
    #[inline]
    pub fn find(&mut self, at: u64, sectors: u64, write: bool, want: Want) -> Option<u32> {
        if let Some(head) = self.starts.get(at) {
            let slot = &self.slots[head as usize];
            if slot.next == NONE && is_write(slot.io.rwbs) == write {
                return Some(head);
            }
            if let Some(found) = self.choose(head, sectors, write, want) {
                return Some(found);
            }
        }
        self.find_by_range(at, write, want)
    }

    /// Among twins: the oldest in the right state and of the right length, else in the right state, else any.
    fn choose(&self, head: u32, sectors: u64, write: bool, want: Want) -> Option<u32> {
        let mut best: Option<(u8, u32)> = None;
        let mut at = head;
        for _ in 0..MAX_STEPS {
            if at == NONE {
                break;
            }
            let slot = &self.slots[at as usize];
            if is_write(slot.io.rwbs) == write {
                let exact = u64::from(slot.io.bytes >> 9) == sectors;
                let rank = 2 * u8::from(want.fits(&slot.io)) + u8::from(exact);
                if rank == 3 {
                    return Some(at);
                }
                if best.is_none_or(|(r, _)| rank > r) {
                    best = Some((rank, at));
                }
            }
            at = slot.next;
        }
        best.map(|(_, found)| found)
    }

    fn find_by_range(&mut self, at: u64, write: bool, want: Want) -> Option<u32> {
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
                    return Some(slot);
                }
                second = second.or(Some(slot));
            }
        }
        second
    }

    /// Puts one in; it is the youngest on its sector.
    #[inline]
    pub fn add(&mut self, io: Io) {
        let left = u64::from(io.bytes >> 9);
        self.longest = self.longest.max(left);
        let sector = io.sector;
        let slot = Slot { io, left, next: NONE, prev: NONE, tail: NONE };
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
            self.slots[index as usize].prev = tail;
            self.slots[head as usize].tail = index;
        }
        if let Some(all) = &mut self.by_range {
            all.insert((sector, index));
        }
        self.len += 1;
    }

    /// Takes a bio out.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        let Slot { io, next, prev, tail, .. } = self.slots[index as usize];
        let sector = io.sector;
        if next != NONE {
            self.slots[next as usize].prev = prev;
        }
        if prev != NONE {
            self.slots[prev as usize].next = next;
            if next == NONE
                && let Some(head) = self.starts.get(sector)
            {
                self.slots[head as usize].tail = prev;
            }
        } else if next != NONE {
            self.slots[next as usize].tail = tail;
            self.starts.set(sector, next);
        } else {
            self.starts.remove(sector);
        }
        if let Some(all) = &mut self.by_range {
            all.remove(&(sector, index));
        }
        self.free.push(index);
        self.len -= 1;
    }
}

/// Whether it moves data to the device, or gives blocks back: what tells twins of one sector apart first.
#[inline]
pub fn is_write(rwbs: Rwbs) -> bool {
    rwbs.has(Rwbs::WRITE.with(Rwbs::DISCARD))
}
