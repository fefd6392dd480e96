//! One I/O: the life of a bio from its queueing to its completion.

use crate::event::{DeviceId, Op, Rwbs, op_of};
use serde::{Deserialize, Serialize};

pub const NEVER: u64 = u64::MAX; // A time that the trace does not show

// Indexes of `behind`
pub const WRITEBACK: usize = 0; // Writes for which no program waits
pub const RESYNC: usize = 1; // I/O of md's resync, check or recovery
pub const COMMITS: usize = 2; // Flushes, and what a filesystem's journal writes

/// A user of a device: a process, and the device that its I/O was remapped from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserKey {
    pub pid: u32,
    pub process: u32,     // Index of the process's name
    pub source: DeviceId, // The null device if the I/O was not remapped
}

/// What users of a device had in flight when a bio was queued, without background I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    pub user: UserKey, // The user with the most bios in flight
    pub depth: u32,    // Its bios in flight; 0 if it is the user that queued this bio
    pub own: u32,      // Bios in flight of the user that queued this bio
}

/// One bio. Times are ns since the trace began, or [`NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Io {
    pub device: DeviceId, // The device that it was queued on
    /// The source of its remap (a logical volume, a partition, the array above a member); the null device if it was
    /// not remapped.
    pub source: DeviceId,
    pub sector: u64,   // First sector
    pub bytes: u32,    // Length in bytes
    pub rwbs: Rwbs,    // Category bits of the first event seen of it
    pub pid: u32,      // Process that queued it
    pub process: u32,  // Index of that process's name in the caller's list; 0 is unknown
    pub cpu: u16,      // The CPU that queued it
    pub error: u16,    // The kernel's error of its completion, as recorded (0: none)
    pub requeues: u16, // How often its request was requeued after dispatch
    pub depth: u32,    // Bios in flight when it was queued, without itself
    pub resyncs: bool, // Whether md's resync queued it
    pub commits: bool, // Whether it is a commit: it flushes the disk's cache, or a filesystem's journal queued it
    pub caller: u32,   // Index of the name of the process for which it commits; that of its own if none is known
    /// Bios in flight when it was queued: writeback, md's resync, and other processes' commits.
    pub behind: [u32; 3],
    pub rival: Rival,    // The other user of the device with most bios in flight when it was queued
    pub t_queue: u64,    // Queued (Q)
    pub t_get: u64,      // Got its own request (G)
    pub t_merge: u64,    // Merged into another bio's request (M, F)
    pub t_insert: u64,   // Its request entered the scheduler (I)
    pub t_dispatch: u64, // Its request was last dispatched to the driver (D)
    pub t_complete: u64, // All of it was complete (C)
}

impl Io {
    /// Its operation.
    pub fn op(&self) -> Op {
        op_of(self.rwbs, self.bytes)
    }

    /// One past its last sector.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.bytes >> 9))
    }

    /// The user that queued it.
    pub fn user(&self) -> UserKey {
        UserKey { pid: self.pid, process: self.process, source: self.source }
    }

    /// Whether it flushes the disk's cache: a flush, a write with a flush before it, or one with forced unit access.
    pub fn flushes(&self) -> bool {
        self.rwbs.has(Rwbs::FLUSH.with(Rwbs::FUA))
    }

    /// The kind of background I/O that it is, as an index of `behind`: writeback (writes for which no program waits),
    /// or md's resync, check or recovery.
    pub fn background(&self) -> Option<usize> {
        background(self.rwbs, self.bytes, self.resyncs)
    }

    /// 0 for a read and 1 for a write, and its time to completion: Q2C, or D2C if its queueing was not recorded.
    pub fn timed(&self) -> Option<(usize, u64)> {
        let side = [Op::Read, Op::Write].iter().position(|&op| op == self.op())?;
        let start = if self.t_queue == NEVER { self.t_dispatch } else { self.t_queue };
        Some((side, Io::between(start, self.t_complete)?))
    }

    /// The time between two of its events; `None` if one is missing or they are in the wrong order.
    pub fn between(from: u64, to: u64) -> Option<u64> {
        if from == NEVER || to == NEVER { None } else { to.checked_sub(from) }
    }
}

/// [`Io::background`] of an I/O with these bits and bytes.
pub fn background(rwbs: Rwbs, bytes: u32, resyncs: bool) -> Option<usize> {
    let writeback = op_of(rwbs, bytes) == Op::Write && !rwbs.has(Rwbs::SYNC);
    if resyncs { Some(RESYNC) } else { writeback.then_some(WRITEBACK) }
}
