//! The event queue. Events of the same time come in the order in which they were planned, so a run is the same on
//! every machine.
//!
//! Nearly all events are planned less than a millisecond ahead. They are kept in a calendar: a list for every quarter
//! of a microsecond, a few events long at most, and a bit for each list that is not empty. Later events are kept in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Simulated time in nanoseconds since the start.
pub type Time = u64;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Task(u32),                         // A task runs
    Timer { target: u16, timer: u32 }, // A timer of a target is due, by the target's own number
}

impl Event {
    /// A task runs.
    #[inline(always)]
    pub fn task(task: u32) -> Self {
        Self(u64::from(task))
    }

    /// A timer of a target is due.
    #[inline(always)]
    pub fn timer(target: u16, timer: u32) -> Self {
        Self(1 << 48 | u64::from(target) << 32 | u64::from(timer))
    }

    #[inline(always)]
    pub fn kind(self) -> EventKind {
        let number = self.0 as u32;
        match self.0 >> 48 {
            0 => EventKind::Task(number),
            _ => EventKind::Timer { target: (self.0 >> 32) as u16, timer: number },
        }
    }
}

/// The width of a slot: 2 to this power, in ns.
const WIDTH: u32 = 8;
/// Slots of the calendar.
const SLOTS: usize = 4096;
/// Words of the bit mask with a bit for each slot.
const WORDS: usize = SLOTS / 64;
/// No event: the end of a list.
const NONE: u32 = u32::MAX;

/// An event in the calendar.
#[derive(Clone, Copy, Debug)]
struct CalendarEntry {
    time: Time,
    planned: u32, // The order of planning, for events of the same time
    event: Event,
    next: u32, // The next entry of the same slot, or the next free entry
}

/// The events to come.
pub struct EventQueue {
    heads: [u32; SLOTS], // The first event of each slot. A time belongs to slot `(time >> WIDTH) % SLOTS`.
    filled: [u64; WORDS], // Which slots have events
    summary: u64,        // Which words of `filled` are not zero
    free: u32,
    entries: Vec<CalendarEntry>,
    now: u64, // The present time in widths: the calendar holds events less than `SLOTS` widths ahead
    planned: u32,
    /// Later events, by time, order of planning and event; and the time of the first one.
    far: BinaryHeap<Reverse<(Time, u32, Event)>>,
    far_from: Time,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            heads: [NONE; SLOTS],
            filled: [0; WORDS],
            summary: 0,
            free: NONE,
            entries: Vec::new(),
            now: 0,
            planned: 0,
            far: BinaryHeap::new(),
            far_from: Time::MAX,
        }
    }
}

impl EventQueue {
    /// Plans an event.
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, event: Event) {
        self.planned = self.planned.wrapping_add(1);
        let width = (time >> WIDTH).max(self.now);
        if width - self.now >= SLOTS as u64 {
            return self.schedule_far(time, event);
        }
        let slot = width as usize % SLOTS;
        let head = self.heads[slot];
        if self.free == NONE {
            self.grow();
        }
        let number = self.free;
        // Written field by field: a whole entry would be built elsewhere and copied, and the copy would wait for its
        // parts.
        let entry = &mut self.entries[number as usize];
        self.free = entry.next;
        entry.time = time;
        entry.planned = self.planned;
        entry.event = event;
        entry.next = head;
        if head == NONE {
            self.heads[slot] = number;
            self.filled[slot / 64] |= 1 << (slot % 64);
            self.summary |= 1 << (slot / 64);
        } else if time < self.entries[head as usize].time {
            self.heads[slot] = number;
        } else {
            self.insert(head, number, time);
        }
    }

    /// Inserts an event behind all events of its slot that are not later.
    fn insert(&mut self, head: u32, number: u32, time: Time) {
        let mut before = head as usize;
        loop {
            let next = self.entries[before].next;
            if next == NONE || time < self.entries[next as usize].time {
                self.entries[before].next = number;
                self.entries[number as usize].next = next;
                return;
            }
            before = next as usize;
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(CalendarEntry { time: 0, planned: 0, event: Event(0), next: NONE });
    }

    #[cold]
    fn schedule_far(&mut self, time: Time, event: Event) {
        self.far.push(Reverse((time, self.planned, event)));
        self.far_from = self.far_from.min(time);
    }

    /// The first slot with events, from the present slot on, around the calendar.
    #[inline(always)]
    fn first_slot(&self) -> Option<usize> {
        let here = self.now as usize % SLOTS;
        let (word, bit) = (here / 64, here % 64);
        let later = self.filled[word] >> bit;
        if later != 0 {
            return Some(here + later.trailing_zeros() as usize);
        }
        // First the words after this one, then those before it, then this word's first bits.
        let after = self.summary & (u64::MAX - 1) << word;
        let words = if after != 0 { after } else { self.summary };
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize % WORDS;
        Some(word * 64 + self.filled[word].trailing_zeros() as usize)
    }

    /// Takes the next event.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(Time, Event)> {
        let Some(slot) = self.first_slot() else { return self.next_far() };
        let slot = slot % SLOTS;
        let number = self.heads[slot];
        let entry = &mut self.entries[number as usize];
        if entry.time >= self.far_from
            && self.far.peek().is_some_and(|far| (far.0.0, far.0.1) < (entry.time, entry.planned))
        {
            return self.next_far();
        }
        let (time, event, next) = (entry.time, entry.event, entry.next);
        entry.next = self.free;
        self.free = number;
        self.heads[slot] = next;
        if next == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
            if self.filled[slot / 64] == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        }
        self.now = time >> WIDTH;
        Some((time, event))
    }

    #[cold]
    fn next_far(&mut self) -> Option<(Time, Event)> {
        let Reverse((time, _, event)) = self.far.pop()?;
        self.far_from = self.far.peek().map_or(Time::MAX, |far| far.0.0);
        self.now = time >> WIDTH;
        Some((time, event))
    }
}

#[cfg(test)]
mod tests;
