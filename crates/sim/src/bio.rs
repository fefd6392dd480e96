//! Block I/Os on their way down: from a task, through arrays, into a disk's queue.

use crate::arena::{Arena, Linked};

pub use crate::arena::NONE;

/// What a bio asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Bytes from the disk.
    Read,
    /// Bytes to the disk.
    Write,
    /// Everything acknowledged must become durable.
    Flush,
}

/// One block I/O at one level of the stack.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// The node it is for.
    pub node: u16,
    /// The member's slot in its parent's array.
    pub slot: u8,
    /// What it asks for.
    pub op: Op,
    /// Whether writeback throttling lets it pass (`REQ_SYNC | REQ_IDLE`, as direct writes have).
    pub direct: bool,
    /// What an array has to do when it is done: 0 is nothing, else one of `md::phase`.
    pub phase: u8,
    /// In sectors of its node.
    pub sector: u64,
    /// 0 for a flush.
    pub sectors: u32,
    /// The bio that this is a part of, or `NONE`: then `io` says whose it is.
    pub parent: u32,
    /// The task's own I/O, for a bio at the top.
    pub io: u32,
    /// Parts not yet done, for a bio that an array has split.
    pub parts: u32,
    /// The next bio of the same request.
    pub next: u32,
}

impl Bio {
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

impl Linked for Bio {
    #[inline]
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// All bios in flight.
pub type Bios = Arena<Bio>;
