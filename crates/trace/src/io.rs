//! One I/O: the life of a bio from its queueing to its completion.

use crate::event::{DeviceId, Op, Rwbs, op_of};
use serde::{Deserialize, Serialize};

pub const NEVER: u64 = u64::MAX; // A time that the trace does not show

/// One bio. Times are ns since the trace began, or [`NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Io {
    pub device: DeviceId, // The device that it was queued on
    /// The source of its remap (a logical volume, a partition, the array above a member); the null device if it was
    /// not remapped.
    pub source: DeviceId,
    pub sector: u64,      // First sector
    pub bytes: u32,       // Length in bytes
    pub rwbs: Rwbs,       // Category bits of the first event seen of it
    pub pid: u32,         // Process that queued it
    pub process: u32,     // Index of that process's name in the caller's list; 0 is unknown
    pub cpu: u16,         // The CPU that queued it
    pub error: u16,       // The kernel's error of its completion, as recorded (0: none)
    pub requeues: u16,    // How often its request was requeued after dispatch
    pub depth: u32,       // Bios in flight when it was queued, without itself
    pub resyncs: bool,    // Whether md's resync queued it
    pub behind: [u32; 2], // Bios of each kind of background I/O that were in flight when it was queued
    pub t_queue: u64,     // Queued (Q)
    pub t_get: u64,       // Got its own request (G)
    pub t_merge: u64,     // Merged into another bio's request (M, F)
    pub t_insert: u64,    // Its request entered the scheduler (I)
    pub t_dispatch: u64,  // Its request was last dispatched to the driver (D)
    pub t_complete: u64,  // All of it was complete (C)
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
    if resyncs { Some(1) } else { writeback.then_some(0) }
}
