//! The counters of an array.

use serde::Serialize;

use super::balance::BalanceReason;

/// What an array counted.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct MdReport {
    pub name: String,          // Its name
    pub slots: Vec<SlotStats>, // Reads of each slot by the balancer's reason
    pub sync_bytes: u64,       // Bytes that a resync, recovery or check has covered
    pub bitmap_writes: u64,    // Writes of the bitmap
}

/// I/Os of a slot.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlotStats {
    pub only: u64,       // Reads with no other copy to choose
    pub sequential: u64, // Reads that continued a run or started at the head's position
    pub idlest: u64,     // Reads for which it had the fewest I/Os pending, or none
    pub nearest: u64,    // Reads for which its head was nearest
    pub lowest: u64,     // Reads for which its copy has the lowest address
    pub writes: u64,     // Writes, including every copy
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
