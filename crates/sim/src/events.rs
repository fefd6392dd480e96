//! What happens when: the event queue. Events of the same time come in the order in which they were planned,
//! so a run is the same on every machine.

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

/// The events to come.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<u128>>,
    planned: u32,
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
        self.heap.push(Reverse(key));
    }

    /// Takes the next event.
    #[inline]
    pub fn next(&mut self) -> Option<(Time, Event)> {
        let Reverse(key) = self.heap.pop()?;
        let (time, code) = ((key >> 64) as u64, key as u32);
        let n = code & ((1 << 30) - 1);
        let event = match code >> 30 {
            0 => Event::Task(n),
            1 => Event::Done(n),
            _ => Event::Mechanism(n),
        };
        Some((time, event))
    }
}
