//! Superblock 0.90 (`mdp_super_t`): 1,024 words in the byte order of the machine that wrote it; only little-endian
//! ones are read.

use serde::Serialize;

use crate::{Checksum, Uuid, bytes};

/// Its size in bytes.
pub(crate) const BYTES: usize = 4096;

/// The largest number of members.
pub(crate) const MOST: usize = 27;

const DISKS: usize = 128 * 4;
const THIS: usize = 992 * 4;
const DISK: usize = 32 * 4;

/// `MD_SB_CLEAN`, `MD_SB_BITMAP_PRESENT`.
const CLEAN: u32 = 1;
const BITMAP: u32 = 1 << 8;

/// Its offset in bytes: the last but one whole 64 KiB (`calc_dev_sboffset`).
pub(crate) fn offset(bytes: u64) -> Option<u64> {
    let sectors = bytes / crate::SECTOR;
    Some((sectors & !127).checked_sub(128)? * crate::SECTOR)
}

/// One member, as the superblock describes it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Descriptor {
    pub number: u32,              // Its number
    pub major: u32,               // Major number of its device when this was written
    pub minor: u32,               // Minor number of that device
    pub raid_disk: u32,           // Its slot in the array
    pub state: Vec<&'static str>, // `faulty`, `active`, `sync`, `removed`, `write-mostly`, `failfast`
}

/// A superblock 0.90.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Superblock0 {
    pub minor_version: u32,            // 90, or 91 while the array is reshaped
    pub uuid: Uuid,                    // The array's UUID
    pub created: u32,                  // Seconds since 1970
    pub level: i32,                    // mdadm's --level
    pub size: u32,                     // KiB of each member that the array uses
    pub raid_disks: u32,               // Slots
    pub nr_disks: u32,                 // Members, including spares and faulty ones
    pub md_minor: u32,                 // The minor number that the array had
    pub updated: u32,                  // Seconds since 1970 when this was written
    pub clean: bool,                   // Whether all members were in sync when the array was stopped
    pub bitmap: bool,                  // Whether there is an internal bitmap
    pub events: u64,                   // The event count
    pub counts: [u32; 4],              // Numbers of members: active, working, failed, spare
    pub layout: u32,                   // The personality's layout
    pub chunk: u32,                    // Bytes
    pub reshape_position: Option<u64>, // Position of a reshape in sectors, with `minor_version` 91
    pub resync: Option<u32>,           // Where a resync continues; `None` if the array is clean
    pub disks: Vec<Descriptor>,        // Every slot that has been used
    pub this: Descriptor,              // The member that this superblock is on
}

/// Parses a superblock 0.90; `None` if there is none.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Superblock0, Checksum)> {
    let word = |at: usize| bytes::u32(bytes, at * 4);
    if bytes.len() < BYTES || word(0) != crate::v1::MAGIC || word(1) != 0 || !matches!(word(2), 90 | 91) {
        return None;
    }
    let mut uuid = [0; 16];
    for (part, at) in [5, 13, 14, 15].into_iter().enumerate() {
        // mdadm prints the UUID's words as numbers.
        uuid[part * 4..part * 4 + 4].copy_from_slice(&word(at).to_be_bytes());
    }
    let state = word(33);
    let clean = state & CLEAN != 0;
    let disks = (0..MOST).map(|at| descriptor(&bytes[DISKS + at * DISK..])).filter(|disk| !disk.state.is_empty());
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
        events: bytes::u64(bytes, 39 * 4),
        resync: (!clean).then(|| word(43)),
        reshape_position: (word(2) == 91).then(|| bytes::u64(bytes, 44 * 4)),
        layout: word(64),
        chunk: word(65),
        disks: disks.collect(),
        this: descriptor(&bytes[THIS..]),
    };
    Some((superblock, Checksum { stored: word(38), computed: checksum(bytes) }))
}

fn descriptor(bytes: &[u8]) -> Descriptor {
    const STATES: [(u32, &str); 6] =
        [(0, "faulty"), (1, "active"), (2, "sync"), (3, "removed"), (9, "write-mostly"), (10, "failfast")];
    let state = bytes::u32(bytes, 16);
    Descriptor {
        number: bytes::u32(bytes, 0),
        major: bytes::u32(bytes, 4),
        minor: bytes::u32(bytes, 8),
        raid_disk: bytes::u32(bytes, 12),
        state: STATES.iter().filter(|(bit, _)| state >> bit & 1 != 0).map(|(_, name)| *name).collect(),
    }
}

/// `calc_sb_csum`: the sum of all words except its own, 64 bits wide and folded once.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes[..BYTES].chunks_exact(4).enumerate().filter(|(at, _)| *at != 38);
    let sum: u64 = words.map(|(_, word)| u64::from(bytes::u32(word, 0))).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
