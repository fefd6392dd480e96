//! Requests: what a disk is given, made of one bio or of several that lie next to each other.

use crate::bio::{NONE, Op};
use crate::events::Time;

/// A request in a disk's queue or in the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The disk's node.
    pub node: u16,
    /// What is asked.
    pub op: Op,
    /// Whether it counts against the writeback throttle.
    pub throttled: bool,
    /// In sectors of the disk.
    pub sector: u64,
    /// How much.
    pub sectors: u32,
    /// The first of its bios.
    pub first: u32,
    /// The last of its bios.
    pub last: u32,
    /// The task that made it: CFQ is fair among tasks.
    pub task: u32,
    /// When it got its tag: what /proc/diskstats counts from.
    pub start: Time,
    /// When the disk got it.
    pub dispatched: Time,
}

impl Request {
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// All requests in flight.
#[derive(Debug)]
pub struct Requests {
    slots: Vec<Request>,
    /// The first free slot; each names the next by its `first`.
    free: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }
}

impl Requests {
    /// Stores a request and returns its number.
    #[inline]
    pub fn add(&mut self, request: Request) -> u32 {
        let number = self.free;
        if let Some(slot) = self.slots.get_mut(number as usize) {
            self.free = slot.first;
            *slot = request;
            return number;
        }
        self.slots.push(request);
        self.slots.len() as u32 - 1
    }

    /// How many are in flight.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        let free =
            std::iter::successors(self.slots.get(self.free as usize), |s| self.slots.get(s.first as usize));
        self.slots.len() - free.count()
    }

    /// How many there were at a time at most.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// Forgets a request.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.slots[number as usize].first = self.free;
        self.free = number;
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;
    #[inline]
    fn index(&self, number: u32) -> &Request {
        &self.slots[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Request {
        &mut self.slots[number as usize]
    }
}
