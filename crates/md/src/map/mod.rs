//! Address mapping: where an array's sectors lie on its members, exactly as in the kernel.
//!
//! A sector is 512 bytes. Members are named by slot, and member sectors count from the beginning of the member's
//! data, without the superblock's data offset. After construction nothing here allocates.
//!
//! Mirrors (RAID-1) need no map: an array sector is the same sector of every member.

mod array;
mod raid0;
mod raid10;
mod raid456;

pub use array::ArrayMap;
pub use raid0::{Raid0Map, ZoneLayout};
pub use raid10::{FarSets, Raid10Map};
pub use raid456::{ParityAlgorithm, ParitySlots, Raid456Map};

/// Sectors of a page, the kernel's unit of chunks.
const PAGE_SECTORS: u64 = 8;

/// A sector of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberSector {
    pub slot: u32,   // The member
    pub sector: u64, // The sector from the beginning of the member's data
}

/// Why a layout is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Too few members for the level.
    #[error("too few members: {disks}, expected at least {needed}")]
    TooFewMembers { needed: u32, disks: u32 },
    /// Fewer than two copies.
    #[error("RAID-10 needs at least two copies, and near and far copies of at least one each")]
    TooFewCopies,
    /// More copies (near copies times far copies) than members.
    #[error("{copies} copies on {disks} members: expected at most one copy for each member")]
    TooManyCopies { copies: u32, disks: u32 },
    /// The layout would put two copies on one of this many members, or two chunks on one member sector.
    #[error("copies would overlap in this layout on {0} members")]
    Overlap(u32),
    /// A chunk, in sectors, that is not a multiple of the page size.
    #[error("a chunk of {0} sectors: expected a multiple of 4 KiB")]
    ChunkNotPages(u64),
    /// A chunk, in sectors, that is not a power of two; only RAID-0 allows that.
    #[error("a chunk of {0} sectors: expected a power of two")]
    ChunkNotPowerOfTwo(u64),
    /// A member, in sectors, that is smaller than a chunk of each copy.
    #[error("a member of {0} sectors: smaller than a chunk")]
    MemberTooSmall(u64),
    /// A layout word of the superblock that is not known here.
    #[error("unknown layout {0:#x}")]
    UnknownLayout(u32),
    /// The sizes do not fit into 64 bits.
    #[error("the array is larger than 2^64 sectors")]
    TooLarge,
}

/// Returns the chunk if it is a multiple of the page size.
fn check_whole_pages(chunk_sectors: u64) -> Result<u64, MapError> {
    if chunk_sectors == 0 || !chunk_sectors.is_multiple_of(PAGE_SECTORS) {
        return Err(MapError::ChunkNotPages(chunk_sectors));
    }
    Ok(chunk_sectors)
}

/// The shift of a chunk that is a power of two.
fn chunk_shift(chunk_sectors: u64) -> Result<u32, MapError> {
    if !check_whole_pages(chunk_sectors)?.is_power_of_two() {
        return Err(MapError::ChunkNotPowerOfTwo(chunk_sectors));
    }
    Ok(chunk_sectors.trailing_zeros())
}

// Linear: members one after the other.
//
// drivers/md/md-linear.c, `linear_conf` and `which_dev` (Linux 6.1): with a chunk, which mdadm calls
// rounding and leaves at none, each member is used up to a multiple of it.

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
                return Err(MapError::MemberTooSmall(sectors));
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

#[cfg(test)]
mod tests;
