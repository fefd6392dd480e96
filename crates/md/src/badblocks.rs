//! The bad-block list of one member (drivers/md/md.c, `super_1_load`; block/badblocks.c).

use serde::Serialize;

use crate::bytes;

/// A range of bad sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, crate::JsonSchema)]
pub struct SectorRange {
    /// First sector of the range, from the start of the member (data offset included).
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// A configured bad-block list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct BadBlocks {
    /// First sector of the list's area, from the start of the member.
    pub sector: u64,
    /// Length of the area in sectors.
    pub sectors: u16,
    /// Entries count in units of 2 to this power sectors.
    pub shift: u8,
    /// Whether the list has entries, according to the superblock (feature 8); otherwise the area is not read.
    pub active: bool,
    /// The entries in the order on disk, which is not sorted.
    pub entries: Vec<SectorRange>,
}

/// Parses the entries of an area: 64-bit words, `sector << 10 | length`, all ones at the end; both are shifted.
///
/// The problem is an entry beyond 2^64 sectors.
pub(crate) fn parse_entries(area: &[u8], shift: u8) -> (Vec<SectorRange>, Option<String>) {
    let mut ranges = Vec::new();
    for (at, word) in area.chunks_exact(8).enumerate() {
        let word = bytes::u64(word, 0);
        if word == u64::MAX {
            break;
        }
        let (sector, sectors) = (word >> 10, word & 0x3ff);
        let shifted = |value: u64| value.checked_mul(1_u64.checked_shl(shift.into())?);
        match (shifted(sector), shifted(sectors)) {
            (Some(sector), Some(sectors)) => ranges.push(SectorRange { sector, sectors }),
            _ => {
                return (
                    ranges,
                    Some(format!(
                        "bad-block list: entry {at} ({word:#x}, shift {shift}) is beyond the end of any disk"
                    )),
                );
            }
        }
    }
    (ranges, None)
}
