//! Requests: what a disk is given, made of one bio or of several that lie next to each other.

use crate::bio::Op;
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
#[derive(Debug, Default)]
pub struct Requests {
    slots: Vec<Request>,
    free: Vec<u32>,
}

impl Requests {
    /// Stores a request and returns its number.
    #[inline]
    pub fn add(&mut self, request: Request) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = request;
            return number;
        }
        self.slots.push(request);
        self.slots.len() as u32 - 1
    }

    /// How many are in flight.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Forgets a request.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.free.push(number);
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
