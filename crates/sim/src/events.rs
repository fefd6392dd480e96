//! What happens when: the event queue. Events of the same time come in the order in which they were planned,
//! so a run is the same on every machine.
//!
//! Nearly all events are planned less than a millisecond ahead, so they lie in a calendar: a list for every half
//! microsecond, a few events long at most, and a bit that says which lists have any. The rest waits in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulated time in nanoseconds since the start.
pub type Time = u64;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task goes on.
    Task(u32),
    /// A disk has finished with a request.
    Done(u32),
    /// A disk's mechanism is free for the next thing to do.
    Mechanism(u32),
}

/// A slot of the calendar is two to this power of ns.
const WIDTH: u32 = 9;
/// Slots of the calendar.
const SLOTS: usize = 2048;
/// No event: the end of a list.
const NONE: u32 = u32::MAX;

/// An event in the calendar.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Time, order of planning, and what happens: events come in the order of their keys.
    key: u128,
    /// The next one of the same slot, or the next free one.
    next: u32,
}

/// The events to come.
#[derive(Debug)]
pub struct Events {
    /// The first event of each slot; a slot is every time that is so many widths from the start, modulo all slots.
    heads: [u32; SLOTS],
    /// Which slots have events.
    filled: [u64; SLOTS / 64],
    /// Which words of `filled` are not zero.
    summary: u64,
    entries: Vec<Entry>,
    free: u32,
    /// The width that time has come to: the calendar holds what is less than all slots ahead of it.
    now: u64,
    /// What is further away.
    far: BinaryHeap<Reverse<u128>>,
    planned: u32,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            heads: [NONE; SLOTS],
            filled: [0; SLOTS / 64],
            summary: 0,
            entries: Vec::new(),
            free: NONE,
            now: 0,
            far: BinaryHeap::new(),
            planned: 0,
        }
    }
}

impl Events {
    /// Plans an event.
    #[inline]
    pub fn at(&mut self, time: Time, event: Event) {
        let code = match event {
            Event::Task(n) => n,
            Event::Done(n) => 1 << 30 | n,
            Event::Mechanism(n) => 2 << 30 | n,
        };
        self.planned = self.planned.wrapping_add(1);
        let key = u128::from(time) << 64 | u128::from(self.planned) << 32 | u128::from(code);
        let width = (time >> WIDTH).max(self.now);
        if width - self.now >= SLOTS as u64 {
            self.far.push(Reverse(key));
            return;
        }
        let slot = width as usize % SLOTS;
        let number = self.entry(key);
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
        // Behind whatever of the slot comes earlier: nearly always there is nothing else.
        let mut before = NONE;
        let mut next = self.heads[slot];
        while next != NONE && self.entries[next as usize].key < key {
            before = next;
            next = self.entries[next as usize].next;
        }
        self.entries[number as usize].next = next;
        if before == NONE {
            self.heads[slot] = number;
        } else {
            self.entries[before as usize].next = number;
        }
    }

    #[inline]
    fn entry(&mut self, key: u128) -> u32 {
        let number = self.free;
        if let Some(entry) = self.entries.get_mut(number as usize) {
            self.free = entry.next;
            entry.key = key;
            return number;
        }
        self.entries.push(Entry { key, next: NONE });
        self.entries.len() as u32 - 1
    }

    /// The first slot with events, from the present one on, round the calendar.
    #[inline]
    fn first(&self) -> Option<usize> {
        let here = self.now as usize % SLOTS;
        let (word, bit) = (here / 64, here % 64);
        let rest = self.filled[word] >> bit;
        if rest != 0 {
            return Some(here + rest.trailing_zeros() as usize);
        }
        if self.summary == 0 {
            return None;
        }
        // The words after this one, then those before it, then this one's first bits.
        const WORDS: usize = SLOTS / 64;
        let after = self.summary.checked_shr(word as u32 + 1).unwrap_or(0);
        let word = if after != 0 {
            word + 1 + after.trailing_zeros() as usize
        } else {
            self.summary.trailing_zeros() as usize
        };
        debug_assert!(word < WORDS);
        Some(word * 64 + self.filled[word % WORDS].trailing_zeros() as usize)
    }

    /// Takes the next event.
    #[inline]
    pub fn next(&mut self) -> Option<(Time, Event)> {
        let near = self.first().map(|slot| (slot, self.entries[self.heads[slot] as usize].key));
        let key = match (near, self.far.peek()) {
            (Some((slot, key)), far) if far.is_none_or(|far| key < far.0) => {
                self.take(slot);
                key
            }
            _ => self.far.pop()?.0,
        };
        let (time, code) = ((key >> 64) as u64, key as u32);
        self.now = time >> WIDTH;
        let n = code & ((1 << 30) - 1);
        let event = match code >> 30 {
            0 => Event::Task(n),
            1 => Event::Done(n),
            _ => Event::Mechanism(n),
        };
        Some((time, event))
    }

    /// Takes the first event of a slot out.
    #[inline]
    fn take(&mut self, slot: usize) {
        let number = self.heads[slot];
        let entry = &mut self.entries[number as usize];
        let next = std::mem::replace(&mut entry.next, self.free);
        self.free = number;
        self.heads[slot] = next;
        if next == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
            if self.filled[slot / 64] == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_as_planned(
            steps in prop::collection::vec((0u32..24, any::<u64>(), prop::bool::weighted(0.6)), 1..400),
        ) {
            let mut events = Events::default();
            let mut known: Vec<(Time, u32)> = Vec::new();
            let mut now = 0;
            for (number, (bits, noise, plan)) in (0u32..).zip(steps) {
                if plan {
                    // Far and near alike, many at the same time.
                    let time = now + (noise & ((1 << bits) - 1));
                    events.at(time, Event::Done(number));
                    known.push((time, number));
                } else {
                    known.sort_unstable();
                    let expected = (!known.is_empty()).then(|| known.remove(0));
                    let found = events.next();
                    prop_assert_eq!(found, expected.map(|(time, n)| (time, Event::Done(n))));
                    now = found.map_or(now, |(time, _)| time);
                }
            }
            known.sort_unstable();
            for (time, number) in known {
                prop_assert_eq!(events.next(), Some((time, Event::Done(number))));
            }
            prop_assert_eq!(events.next(), None);
        }
    }
}
