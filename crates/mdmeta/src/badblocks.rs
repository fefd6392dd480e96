//! The bad-block list of one member (drivers/md/md.c, `super_1_load`; block/badblocks.c).

use serde::Serialize;

use crate::bytes;

/// Sectors that cannot be trusted.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Range {
    /// The first sector, of the member: its data offset is included.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
}

/// A list that is configured.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadBlocks {
    /// Where it begins, sectors from the start of the member.
    pub sector: u64,
    /// How long its area is, sectors.
    pub sectors: u16,
    /// By which power of two its entries are scaled.
    pub shift: u8,
    /// Whether the superblock says that there are entries (feature 8); else the area is not looked at.
    pub active: bool,
    /// The entries in the order of the disk, which is none.
    pub entries: Vec<Range>,
}

impl BadBlocks {
    /// How many entries the area has room for.
    pub fn room(&self) -> usize {
        usize::from(self.sectors) * 64
    }
}

/// The entries of an area: 64-bit words, `sector << 10 | length`, all ones at the end; both are shifted.
///
/// A problem is told by its words: an entry beyond 2^64 sectors.
pub(crate) fn entries(area: &[u8], shift: u8) -> (Vec<Range>, Option<String>) {
    let mut found = Vec::new();
    for (at, word) in area.chunks_exact(8).enumerate() {
        let word = bytes::u64(word, 0);
        if word == u64::MAX {
            break;
        }
        let (sector, sectors) = (word >> 10, word & 0x3ff);
        let shifted = |value: u64| value.checked_mul(1_u64.checked_shl(shift.into())?);
        match (shifted(sector), shifted(sectors)) {
            (Some(sector), Some(sectors)) => found.push(Range { sector, sectors }),
            _ => {
                return (
                    found,
                    Some(format!("bad-block list: entry {at} ({word:#x}, shift {shift}) is beyond any disk")),
                );
            }
        }
    }
    (found, None)
}
