//! Linear: members one after the other.
//!
//! drivers/md/md-linear.c, `linear_conf` and `which_dev` (Linux 6.1): with a chunk, which mdadm calls
//! rounding and leaves at none, each member is used up to a multiple of it.

use super::{MapError, Place};

/// The map of a linear array.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Where each member ends in the array.
    ends: Box<[u64]>,
}

impl Linear {
    /// Members of these sizes; `rounding` of 0 uses them whole.
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

    /// Where a sector is, which must be below the capacity.
    #[inline]
    pub fn place(&self, sector: u64) -> Place {
        let slot = self.slot(sector);
        Place { slot: slot as u32, sector: sector - self.start(slot) }
    }

    /// Sectors from this one until a request must be split: to the member's end.
    #[inline]
    pub fn boundary(&self, sector: u64) -> u64 {
        self.ends[self.slot(sector)] - sector
    }

    /// The array sector at a place, if there is one.
    pub fn find(&self, place: Place) -> Option<u64> {
        let slot = place.slot as usize;
        let sector = self.start(slot).checked_add(place.sector)?;
        (sector < *self.ends.get(slot)?).then_some(sector)
    }

    fn slot(&self, sector: u64) -> usize {
        self.ends.partition_point(|&end| end <= sector)
    }

    fn start(&self, slot: usize) -> u64 {
        if slot == 0 { 0 } else { self.ends.get(slot - 1).copied().unwrap_or(u64::MAX) }
    }
}
