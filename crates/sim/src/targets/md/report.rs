//! What an array counted, for the results of an experiment.

use crate::targets::locks::LockUse;
use serde::Serialize;

/// What an array counted.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct MdReport {
    /// Its name.
    pub name: String,
    /// I/Os of each slot.
    pub slots: Vec<SlotStats>,
    /// Bytes of the array that a resync or check has covered; with parity, and in a recovery, bytes of each member.
    pub sync_bytes: u64,
    /// Pages of the bitmap that were written, each to every member.
    pub bitmap_writes: u64,
    /// How much longer all writes of the bitmap took because its last page is written in part, in ns: up to Linux 6.3.
    pub short_page_ns: u64,
    /// Its locks and shared counters that were taken.
    pub locks: Vec<LockUse>,
    /// How long the busiest of the threads that handle rows of the stripe cache was busy, in ns, with the time for which
    /// it waited for locks.
    pub thread_ns: u64,
}

/// I/Os of a slot.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct SlotStats {
    /// Reads without another copy to choose.
    pub only: u64,
    /// Reads that continue a run, or the head's position.
    pub sequential: u64,
    /// Reads for which it had the fewest I/Os pending, or none.
    pub idlest: u64,
    /// Reads for which its head was nearest.
    pub nearest: u64,
    /// Reads for which its copy has the lowest address.
    pub lowest: u64,
    /// Writes, every copy included.
    pub writes: u64,
}

impl SlotStats {
    /// Counts a read that the balancer gave to the slot.
    #[inline]
    pub fn count(&mut self, reason: BalanceReason) {
        match reason {
            BalanceReason::Only => self.only += 1,
            BalanceReason::Sequential => self.sequential += 1,
            BalanceReason::Idlest => self.idlest += 1,
            BalanceReason::Nearest => self.nearest += 1,
            BalanceReason::Lowest => self.lowest += 1,
        }
    }
}

/// Why a copy was chosen; counted for `--explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BalanceReason {
    Only,       // There was no other copy, or a resync did not allow others
    Sequential, // It continues the member's last read, or starts at its head
    Idlest,     // Fewest I/Os pending
    Nearest,    // Nearest to the member's head
    Lowest,     // Lowest address: far and offset layouts
}
