//! Bios: block I/Os on their way from a task, through targets, into a disk's queue.

use crate::arena::{Arena, ArenaItem};

pub use crate::arena::NONE;

/// What a bio asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    Read,    // Bytes from the disk
    Write,   // Bytes to the disk
    Flush,   // Everything acknowledged must become durable
    Discard, // The sectors are not needed any more (a trim)
}

/// What else is known of a bio: the kernel's `REQ_*` flags, and whether it has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// A task waits for it (`REQ_SYNC`).
    pub const SYNC: Self = Self(1);
    /// More like it will follow (`REQ_IDLE`): with `SYNC`, writeback throttling lets it pass.
    pub const IDLE: Self = Self(2);
    /// A filesystem's metadata (`REQ_META`).
    pub const METADATA: Self = Self(4);
    /// A read that no one has asked for yet (`REQ_RAHEAD`).
    pub const READ_AHEAD: Self = Self(8);
    /// It is done, with an error (`bi_status`).
    pub const FAILED: Self = Self(16);
    /// A write that must be durable when it is done (`REQ_FUA`).
    pub const FUA: Self = Self(32);
    /// The flags of direct I/O.
    pub const DIRECT: Self = Self(3);

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and the others.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that both have.
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// These without the others.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Who learns that a bio is done (`bi_end_io` and `bi_private`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Task(u32), // The task of this I/O
    Bio(u32),  // The bio that it was split off (`bio_chain`): this one is done when all its parts are
    /// A target, which knows what `tag` and `number` mean.
    Target {
        target: u16,
        tag: u8,     // Only the target knows what it means
        number: u32, // Only the target knows what it means
    },
}

/// One block I/O at one level of the stack.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    pub target: u16, // The target that it is for
    pub op: Op,      // What it asks for
    pub flags: Flags,
    pub sector: u64,    // In sectors of its target
    pub sectors: u32,   // 0 for a flush
    pub owner: Owner,   // Who learns that it is done
    pub task: u32,      // The task that submitted it, or for which a target did
    pub remaining: u32, // Parts not yet done, for a bio that its target has split
    pub private: u32,   // Its target's own data (device-mapper's per-bio data)
    pub next: u32,      // The next bio of the same request
}

impl Bio {
    /// The sector after the last.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    /// A bio for another target, with the same operation and flags.
    pub fn clone_for(&self, target: u16, sector: u64, sectors: u32, owner: Owner) -> Self {
        Self { target, sector, sectors, owner, remaining: 0, private: 0, next: NONE, ..*self }
    }
}

impl ArenaItem for Bio {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// All bios in flight.
pub type Bios = Arena<Bio>;
