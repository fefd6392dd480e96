//! What an array counts.

use serde::Serialize;

use super::balance::Reason;

/// What an array did.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct MdReport {
    /// Its name.
    pub name: String,
    /// Reads of each slot by the balancer's reason.
    pub slots: Vec<SlotStats>,
    /// Bytes that a resync, recovery or check has covered.
    pub sync_bytes: u64,
    /// Writes of the bitmap.
    pub bitmap_writes: u64,
}

/// What the balancer gave a slot.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlotStats {
    /// Reads for which there was no choice.
    pub only: u64,
    /// Reads that continued a run or the head's position.
    pub sequential: u64,
    /// Reads for which it had the fewest I/Os pending, or none.
    pub idlest: u64,
    /// Reads for which its head was nearest.
    pub nearest: u64,
    /// Reads for which its copy has the lowest address.
    pub lowest: u64,
    /// Writes, all copies counted.
    pub writes: u64,
}

impl SlotStats {
    /// Counts a read that the balancer gave to the slot.
    #[inline]
    pub fn count(&mut self, reason: Reason) {
        match reason {
            Reason::Only => self.only += 1,
            Reason::Sequential => self.sequential += 1,
            Reason::Idlest => self.idlest += 1,
            Reason::Nearest => self.nearest += 1,
            Reason::Lowest => self.lowest += 1,
        }
    }
}
