//! The bios of one device that are in flight, found by the sectors they cover.

use crate::event::{Event, Rwbs};
use crate::io::{Io, NEVER};
use blklab_stats::Hashing;
use std::collections::{BTreeSet, HashMap};

const MAX_STEPS: usize = 64; // Twins or neighbours that are checked before a search ends
const NONE: u32 = u32::MAX; // No bio

#[derive(Clone, Copy)]
pub struct InFlightBio {
    pub io: Io,    // The bio
    pub left: u64, // Sectors not yet complete
    next: u32,     // The next younger bio with the same start sector
    prev: u32,     // The next older one
    tail: u32,     // In the oldest bio of a start sector: the youngest
}

/// The state that an event requires of its bio.
#[derive(Clone, Copy, PartialEq)]
pub enum BioState {
    NoRequest,     // Without a request yet
    NotMerged,     // Not merged and not dispatched. A complete request can be merged after its bio got it.
    NotInserted,   // Not yet in the scheduler
    NotDispatched, // Not yet dispatched
    Dispatched,
    Any, // Any state
}

impl BioState {
    /// Whether a bio is in this state.
    pub fn matches(self, io: &Io) -> bool {
        match self {
            BioState::NoRequest => io.t_get == NEVER && io.t_merge == NEVER && io.t_dispatch == NEVER,
            BioState::NotMerged => io.t_merge == NEVER && io.t_dispatch == NEVER,
            BioState::NotInserted => io.t_insert == NEVER && io.t_dispatch == NEVER,
            BioState::NotDispatched => io.t_dispatch == NEVER,
            BioState::Dispatched => io.t_dispatch != NEVER,
            BioState::Any => true,
        }
    }
}

#[derive(Default)]
pub struct BiosInFlight {
    slots: Vec<InFlightBio>,
    free: Vec<u32>,
    starts: HashMap<u64, u32, Hashing>, // Start sector → its oldest bio
    /// (start sector, slot) of all bios; kept from the first event that hits the middle of a bio.
    by_range: Option<BTreeSet<(u64, u32)>>,
    longest: u64,
}

impl BiosInFlight {
    /// The number of bios.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The bio in a slot that [`BiosInFlight::find`] returned.
    pub fn slot(&mut self, index: u32) -> &mut InFlightBio {
        &mut self.slots[index as usize]
    }

    /// Takes all bios, in no order.
    pub fn drain_into(&mut self, out: &mut Vec<Io>) {
        for &head in self.starts.values() {
            out.extend(twins(&self.slots, head).map(|(_, slot)| slot.io));
        }
        *self = BiosInFlight::default();
    }

    /// The bio that starts at a sector, if it is the only one.
    pub fn single_at(&mut self, sector: u64) -> Option<&mut InFlightBio> {
        let head = *self.starts.get(&sector)?;
        let slot = self.slots.get_mut(head as usize)?;
        (slot.next == NONE).then_some(slot)
    }

    /// Takes the bio that covers exactly an event's range, if it is the only one on its sector and not partly complete.
    pub fn take_single(&mut self, event: &Event) -> Option<Io> {
        let index = *self.starts.get(&event.sector)?;
        let slot = self.slots.get(index as usize)?;
        let exact = slot.io.bytes == event.bytes && slot.left == event.sectors();
        if slot.next != NONE || !exact || is_write(slot.io.rwbs) != is_write(event.rwbs) {
            return None;
        }
        let io = slot.io;
        self.remove(index);
        Some(io)
    }

    /// The oldest bio with exactly the event's range and direction.
    fn twin(&self, event: &Event) -> Option<(u32, &InFlightBio)> {
        let head = *self.starts.get(&event.sector)?;
        let same = |io: &Io| io.bytes == event.bytes && is_write(io.rwbs) == is_write(event.rwbs);
        twins(&self.slots, head).take(MAX_STEPS).find(|(_, slot)| same(&slot.io))
    }

    /// Whether a bio has exactly the event's range and direction.
    pub fn has_same_range(&self, event: &Event) -> bool {
        self.twin(event).is_some()
    }

    /// Takes the oldest bio with the event's range and direction, if it was queued before a time.
    pub fn take_twin(&mut self, event: &Event, before: u64) -> Option<Io> {
        let (index, slot) = self.twin(event).filter(|(_, slot)| slot.io.t_queue < before)?;
        let io = slot.io;
        self.remove(index);
        Some(io)
    }

    /// The bio in flight that owns sector `at` of a range with `sectors` left.
    pub fn find(&mut self, at: u64, sectors: u64, write: bool, want: BioState) -> Option<u32> {
        if let Some(&head) = self.starts.get(&at) {
            let slot = &self.slots[head as usize];
            if slot.next == NONE && is_write(slot.io.rwbs) == write {
                return Some(head);
            }
            if let Some(index) = self.choose_twin(head, sectors, write, want) {
                return Some(index);
            }
        }
        self.find_by_range(at, write, want)
    }

    /// Chooses among twins: the oldest in the right state and of the right length, otherwise in the right state,
    /// otherwise any.
    fn choose_twin(&self, head: u32, sectors: u64, write: bool, want: BioState) -> Option<u32> {
        let mut best: Option<(u8, u32)> = None;
        for (at, slot) in twins(&self.slots, head).take(MAX_STEPS) {
            if is_write(slot.io.rwbs) == write {
                let exact = u64::from(slot.io.bytes >> 9) == sectors;
                let rank = 2 * u8::from(want.matches(&slot.io)) + u8::from(exact);
                if rank == 3 {
                    return Some(at);
                }
                if best.is_none_or(|(r, _)| rank > r) {
                    best = Some((rank, at));
                }
            }
        }
        best.map(|(_, index)| index)
    }

    fn find_by_range(&mut self, at: u64, write: bool, want: BioState) -> Option<u32> {
        if self.starts.is_empty() {
            return None;
        }
        let (slots, starts) = (&self.slots, &self.starts);
        let index = self.by_range.get_or_insert_with(|| {
            let with_sector = |(&sector, &head): (&u64, &u32)| twins(slots, head).map(move |(slot, _)| (sector, slot));
            starts.iter().flat_map(with_sector).collect()
        });
        let lowest = at.saturating_sub(self.longest);
        let mut second = None;
        for &(_, slot) in index.range((lowest, 0)..(at, 0)).rev().take(MAX_STEPS) {
            let io = &slots[slot as usize].io;
            if io.end() > at && is_write(io.rwbs) == write {
                if want.matches(io) {
                    return Some(slot);
                }
                second = second.or(Some(slot));
            }
        }
        second
    }

    /// Adds a bio as the youngest on its sector.
    pub fn add(&mut self, io: Io) {
        let left = u64::from(io.bytes >> 9);
        self.longest = self.longest.max(left);
        let slot = InFlightBio { io, left, next: NONE, prev: NONE, tail: NONE };
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
        let sector = self.slots[index as usize].io.sector;
        self.slots[index as usize].tail = index;
        let head = *self.starts.entry(sector).or_insert(index);
        if head != index {
            let tail = self.slots[head as usize].tail;
            self.slots[tail as usize].next = index;
            self.slots[index as usize].prev = tail;
            self.slots[head as usize].tail = index;
        }
        if let Some(all) = &mut self.by_range {
            all.insert((sector, index));
        }
    }

    /// Removes a bio.
    pub fn remove(&mut self, index: u32) {
        let InFlightBio { io, next, prev, tail, .. } = self.slots[index as usize];
        let sector = io.sector;
        if next != NONE {
            self.slots[next as usize].prev = prev;
        }
        if prev != NONE {
            self.slots[prev as usize].next = next;
            if next == NONE
                && let Some(&head) = self.starts.get(&sector)
            {
                self.slots[head as usize].tail = prev;
            }
        } else if next != NONE {
            self.slots[next as usize].tail = tail;
            self.starts.insert(sector, next);
        } else {
            self.starts.remove(&sector);
        }
        if let Some(all) = &mut self.by_range {
            all.remove(&(sector, index));
        }
        self.free.push(index);
    }
}

/// The bios with one start sector, the oldest first, and their slots.
fn twins(slots: &[InFlightBio], oldest: u32) -> impl Iterator<Item = (u32, &InFlightBio)> {
    let first = slots.get(oldest as usize).map(|slot| (oldest, slot));
    std::iter::successors(first, move |(_, slot)| slots.get(slot.next as usize).map(|next| (slot.next, next)))
}

/// Whether it is a write or a discard: the first criterion that distinguishes twins on one sector.
pub fn is_write(rwbs: Rwbs) -> bool {
    rwbs.has(Rwbs::WRITE.with(Rwbs::DISCARD))
}
