//! Address mapping: where an array's sectors lie on its members, exactly as the kernel has it.
//!
//! A sector is 512 bytes. Members are named by slot, and a place on a member counts from where its data
//! begins: the superblock's data offset is not in it. Nothing here allocates once a map is made.
//!
//! Mirrors (RAID-1) need no map: an array sector is the same sector of every member.

mod linear;
mod raid0;
mod raid10;
mod raid456;

pub use linear::Linear;
pub use raid0::{Raid0, ZoneLayout};
pub use raid10::{FarSets, Raid10};
pub use raid456::{Algorithm, Parity, Raid456};

/// Sectors of a page, the kernel's unit of chunks.
const PAGE_SECTORS: u64 = 8;

/// A sector of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The member.
    pub slot: u32,
    /// Its sector, from the beginning of the member's data.
    pub sector: u64,
}

/// Why an array cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Too few members for the level.
    #[error("{needed} members are needed, {disks} given")]
    TooFewMembers {
        /// What the level needs.
        needed: u32,
        /// What there is.
        disks: u32,
    },
    /// No copy, or only one.
    #[error("RAID-10 needs at least two copies, and near and far copies of at least one each")]
    TooFewCopies,
    /// More copies than members to keep them.
    #[error("{copies} copies need as many members, {disks} given")]
    TooManyCopies {
        /// Near times far.
        copies: u32,
        /// What there is.
        disks: u32,
    },
    /// The layout would put two copies on one member, or two chunks on one place.
    #[error("copies would overlap in this layout on {disks} members")]
    Overlap {
        /// What there is.
        disks: u32,
    },
    /// Chunks are multiples of pages.
    #[error("the chunk of {sectors} sectors is no multiple of 4 KiB")]
    ChunkNotPages {
        /// The chunk.
        sectors: u64,
    },
    /// Except in RAID-0, chunks are powers of two.
    #[error("the chunk of {sectors} sectors is no power of two")]
    ChunkNotPowerOfTwo {
        /// The chunk.
        sectors: u64,
    },
    /// A member holds less than a chunk of each copy.
    #[error("a member of {sectors} sectors is too small")]
    MemberTooSmall {
        /// The member.
        sectors: u64,
    },
    /// The sizes do not fit into 64 bits.
    #[error("the array is larger than 2^64 sectors")]
    TooLarge,
}

/// A chunk of whole pages.
fn pages(chunk_sectors: u64) -> Result<u64, MapError> {
    if chunk_sectors == 0 || !chunk_sectors.is_multiple_of(PAGE_SECTORS) {
        return Err(MapError::ChunkNotPages { sectors: chunk_sectors });
    }
    Ok(chunk_sectors)
}

/// The shift of a chunk that is a power of two pages.
fn shift(chunk_sectors: u64) -> Result<u32, MapError> {
    if !pages(chunk_sectors)?.is_power_of_two() {
        return Err(MapError::ChunkNotPowerOfTwo { sectors: chunk_sectors });
    }
    Ok(chunk_sectors.trailing_zeros())
}

#[cfg(test)]
mod tests;
