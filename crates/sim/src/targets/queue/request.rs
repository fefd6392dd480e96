//! Requests: what a disk gets, made of one bio or of several neighbouring ones.

use crate::arena::{Arena, ArenaItem};
use crate::bio::Op;
use crate::events::Time;

/// A request in a disk's queue or in the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub op: Op,           // The operation
    pub fua: bool,        // Whether it must be durable when it is done
    pub throttled: bool,  // Whether it counts against the writeback throttle
    pub sector: u64,      // In sectors of the disk
    pub sectors: u32,     // How much
    pub first: u32,       // The first of its bios
    pub last: u32,        // The last of its bios
    pub task: u32,        // The task that made it: CFQ is fair among tasks
    pub start: Time,      // When it got its tag; /proc/diskstats counts from then
    pub dispatched: Time, // When it was sent to the disk
}

impl Request {
    /// The sector after the last.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

impl ArenaItem for Request {
    fn link(&mut self) -> &mut u32 {
        &mut self.first
    }
}

/// All requests in flight.
pub type Requests = Arena<Request>;
