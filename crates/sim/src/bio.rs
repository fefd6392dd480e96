//! Bios: block I/Os on their way from a task, through targets, into a disk's queue.

use crate::arena::{Arena, ArenaItem};

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
    /// The sectors are not needed any more (a trim).
    Discard,
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
    /// The flags of direct I/O.
    pub const DIRECT: Self = Self(3);

    /// Whether all of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and the others.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that both have.
    #[inline]
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// These without the others.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Who learns that a bio is done (`bi_end_io` and `bi_private`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The task of this I/O.
    Task(u32),
    /// The bio that it was split off (`bio_chain`): this one is done when all its parts are.
    Bio(u32),
    /// A target, which knows what `tag` and `number` mean.
    Target {
        target: u16,
        /// Only the target knows what it means.
        tag: u8,
        /// Only the target knows what it means.
        number: u32,
    },
}

/// One block I/O at one level of the stack.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// The target that it is for.
    pub target: u16,
    /// What it asks for.
    pub op: Op,
    pub flags: Flags,
    /// In sectors of its target.
    pub sector: u64,
    /// 0 for a flush.
    pub sectors: u32,
    /// Who learns that it is done.
    pub owner: Owner,
    /// The task that submitted it, or for which a target did.
    pub task: u32,
    /// Parts not yet done, for a bio that its target has split.
    pub remaining: u32,
    /// Its target's own data (device-mapper's per-bio data).
    pub private: u32,
    /// The next bio of the same request.
    pub next: u32,
}

impl Bio {
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    /// A bio for another target, with the same operation and flags.
    #[inline]
    pub fn clone_for(&self, target: u16, sector: u64, sectors: u32, owner: Owner) -> Self {
        Self { target, sector, sectors, owner, remaining: 0, private: 0, next: NONE, ..*self }
    }
}

impl ArenaItem for Bio {
    #[inline]
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// All bios in flight.
pub type Bios = Arena<Bio>;
