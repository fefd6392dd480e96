//! One I/O: the life of a bio from its queueing to its completion.

use crate::event::{DeviceId, Op, Rwbs, op_of};

/// A time that was not seen.
pub const NEVER: u64 = u64::MAX;

/// What was learnt of one bio. Times are ns since the trace began, [`NEVER`] where the trace shows none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// The device it was queued on.
    pub device: DeviceId,
    /// Where it came from through a remap (a logical volume, a partition, the array above a member);
    /// the null device when it came from above directly.
    pub source: DeviceId,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Category bits of the first event seen of it.
    pub rwbs: Rwbs,
    /// Process that queued it.
    pub pid: u32,
    /// Index of that process's name with whoever follows the I/Os; 0 is nobody's.
    pub process: u32,
    /// CPU it was queued on.
    pub cpu: u16,
    /// Kernel's error of its completion, as recorded (0: fine).
    pub error: u16,
    /// How often its request was put back after dispatch.
    pub requeues: u16,
    /// Queued (Q).
    pub t_queue: u64,
    /// Got a request of its own (G).
    pub t_get: u64,
    /// Merged into another's request (M, F).
    pub t_merge: u64,
    /// Its request entered the scheduler (I).
    pub t_insert: u64,
    /// Its request was dispatched to the driver (D), the last time.
    pub t_dispatch: u64,
    /// All of it was complete (C).
    pub t_complete: u64,
}

impl Io {
    /// What it asked for.
    #[inline]
    pub fn op(&self) -> Op {
        op_of(self.rwbs, self.bytes)
    }

    /// One past its last sector.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.bytes >> 9))
    }

    /// Time between two moments of its life; `None` when one was not seen or they are in the wrong order.
    #[inline]
    pub fn between(from: u64, to: u64) -> Option<u64> {
        if from == NEVER || to == NEVER { None } else { to.checked_sub(from) }
    }
}
