//! Requests: what a disk gets, made of one bio or of several neighbouring ones.

use crate::arena::{Arena, ArenaItem};
use crate::bio::Op;
use crate::events::Time;

/// A request in a disk's queue or in the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The operation.
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
    /// When it got its tag; /proc/diskstats counts from then.
    pub start: Time,
    /// When it was sent to the disk.
    pub dispatched: Time,
}

impl Request {
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

impl ArenaItem for Request {
    #[inline]
    fn link(&mut self) -> &mut u32 {
        &mut self.first
    }
}

/// All requests in flight.
pub type Requests = Arena<Request>;
