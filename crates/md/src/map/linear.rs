//! Linear: members one after the other.
//!
//! drivers/md/md-linear.c, `linear_conf` and `which_dev` (Linux 6.1): with a chunk, which mdadm calls
//! rounding and leaves at none, each member is used up to a multiple of it.

use super::{MapError, MemberSector};

/// The map of a linear array.
#[derive(Clone, Debug)]
pub struct LinearMap {
    ends: Box<[u64]>, // Where each member ends in the array
}

impl LinearMap {
    /// A map over members of these sizes; with a `rounding` of 0 they are used completely.
    pub fn new(members: &[u64], rounding: u64) -> Result<Self, MapError> {
        if members.is_empty() {
            return Err(MapError::TooFewMembers { needed: 1, disks: 0 });
        }
        let mut end = 0u64;
        let mut ends = Vec::with_capacity(members.len());
        for &sectors in members {
            let used = if rounding > 0 { sectors - sectors % rounding } else { sectors };
            if used == 0 {
                return Err(MapError::MemberTooSmall { sectors });
            }
            end = end.checked_add(used).ok_or(MapError::TooLarge)?;
            ends.push(end);
        }
        Ok(Self { ends: ends.into() })
    }

    /// Sectors of the array.
    pub fn capacity(&self) -> u64 {
        self.ends[self.ends.len() - 1]
    }

    /// How many members there are.
    pub fn disks(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The member sector of an array sector, which must be below the capacity.
    pub fn locate(&self, sector: u64) -> MemberSector {
        let slot = self.slot_of(sector);
        MemberSector { slot: slot as u32, sector: sector - self.slot_start(slot) }
    }

    /// Sectors from this one to the member's end, where a request must be split.
    pub fn boundary(&self, sector: u64) -> u64 {
        self.ends[self.slot_of(sector)] - sector
    }

    /// The array sector that a member sector holds, if any.
    pub fn array_sector(&self, place: MemberSector) -> Option<u64> {
        let slot = place.slot as usize;
        let sector = self.slot_start(slot).checked_add(place.sector)?;
        (sector < *self.ends.get(slot)?).then_some(sector)
    }

    fn slot_of(&self, sector: u64) -> usize {
        self.ends.partition_point(|&end| end <= sector)
    }

    fn slot_start(&self, slot: usize) -> u64 {
        if slot == 0 { 0 } else { self.ends.get(slot - 1).copied().unwrap_or(u64::MAX) }
    }
}
