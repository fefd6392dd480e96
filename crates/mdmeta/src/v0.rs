//! Superblock 0.90 (`mdp_super_t`): 1,024 words of the machine that wrote it; little-endian ones are read.

use serde::Serialize;

use crate::{Checksum, Uuid, bytes};

/// Bytes of it.
pub(crate) const BYTES: usize = 4096;

/// Members that it has room for.
pub(crate) const MOST: usize = 27;

const DISKS: usize = 128 * 4;
const THIS: usize = 992 * 4;
const DISK: usize = 32 * 4;

/// `MD_SB_CLEAN`, `MD_SB_BITMAP_PRESENT`.
const CLEAN: u32 = 1;
const BITMAP: u32 = 1 << 8;

/// Where it is: the last whole 64 KiB but one, bytes from the start (`calc_dev_sboffset`).
pub(crate) fn offset(bytes: u64) -> Option<u64> {
    let sectors = bytes / crate::SECTOR;
    Some((sectors & !127).checked_sub(128)? * crate::SECTOR)
}

/// What one slot says of a member.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// Its device when this was written.
    pub major: u32,
    /// And minor.
    pub minor: u32,
    /// Its slot in the array.
    pub raid_disk: u32,
    /// `faulty`, `active`, `sync`, `removed`, `write-mostly`, `failfast`.
    pub state: Vec<&'static str>,
}

/// A superblock 0.90.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Superblock0 {
    /// 90, or 91 while the array is reshaped.
    pub minor_version: u32,
    /// The array's.
    pub uuid: Uuid,
    /// Seconds since 1970.
    pub created: u32,
    /// mdadm's --level.
    pub level: i32,
    /// KiB that each member gives.
    pub size: u32,
    /// Slots.
    pub raid_disks: u32,
    /// Members, spares and faulty ones included.
    pub nr_disks: u32,
    /// The minor number that the array had.
    pub md_minor: u32,
    /// Seconds since 1970 when this was written.
    pub updated: u32,
    /// Whether all members agreed when the array was stopped.
    pub clean: bool,
    /// Whether there is an internal bitmap.
    pub bitmap: bool,
    /// Writes of the superblock so far.
    pub events: u64,
    /// Members by what became of them: active, working, failed, spare.
    pub counts: [u32; 4],
    /// The personality's layout.
    pub layout: u32,
    /// Bytes.
    pub chunk: u32,
    /// Where a reshape is, sectors, with `minor_version` 91.
    pub reshape_position: Option<u64>,
    /// Where a resync goes on; `None` if the array is clean.
    pub resync: Option<u32>,
    /// Every slot that was ever used.
    pub disks: Vec<Descriptor>,
    /// The one that this is of.
    pub this: Descriptor,
}

/// Reads one; `None` if there is none.
pub(crate) fn parse(found: &[u8]) -> Option<(Superblock0, Checksum)> {
    let word = |at: usize| bytes::u32(found, at * 4);
    if found.len() < BYTES || word(0) != crate::v1::MAGIC || word(1) != 0 || !matches!(word(2), 90 | 91) {
        return None;
    }
    let mut uuid = [0; 16];
    for (part, at) in [5, 13, 14, 15].into_iter().enumerate() {
        // mdadm prints its words as numbers.
        uuid[part * 4..part * 4 + 4].copy_from_slice(&word(at).to_be_bytes());
    }
    let state = word(33);
    let clean = state & CLEAN != 0;
    let disks =
        (0..MOST).map(|at| descriptor(&found[DISKS + at * DISK..])).filter(|disk| !disk.state.is_empty());
    let superblock = Superblock0 {
        minor_version: word(2),
        uuid: Uuid(uuid),
        created: word(6),
        level: word(7) as i32,
        size: word(8),
        nr_disks: word(9),
        raid_disks: word(10),
        md_minor: word(11),
        updated: word(32),
        clean,
        bitmap: state & BITMAP != 0,
        counts: [word(34), word(35), word(36), word(37)],
        events: bytes::u64(found, 39 * 4),
        resync: (!clean).then(|| word(43)),
        reshape_position: (word(2) == 91).then(|| bytes::u64(found, 44 * 4)),
        layout: word(64),
        chunk: word(65),
        disks: disks.collect(),
        this: descriptor(&found[THIS..]),
    };
    Some((superblock, Checksum { stored: word(38), computed: checksum(found) }))
}

fn descriptor(found: &[u8]) -> Descriptor {
    const STATES: [(u32, &str); 6] =
        [(0, "faulty"), (1, "active"), (2, "sync"), (3, "removed"), (9, "write-mostly"), (10, "failfast")];
    let state = bytes::u32(found, 16);
    Descriptor {
        number: bytes::u32(found, 0),
        major: bytes::u32(found, 4),
        minor: bytes::u32(found, 8),
        raid_disk: bytes::u32(found, 12),
        state: STATES.iter().filter(|(bit, _)| state >> bit & 1 != 0).map(|(_, name)| *name).collect(),
    }
}

/// `calc_sb_csum`: the sum of all words but its own, 64 bits wide and folded once.
fn checksum(found: &[u8]) -> u32 {
    let words = found[..BYTES].chunks_exact(4).enumerate().filter(|(at, _)| *at != 38);
    let sum: u64 = words.map(|(_, word)| u64::from(bytes::u32(word, 0))).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
