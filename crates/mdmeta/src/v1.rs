//! Superblocks 1.0, 1.1 and 1.2 (`mdp_superblock_1`): little-endian, 256 bytes plus two for each slot.

use serde::Serialize;

use crate::{Checksum, SECTOR, Uuid, bytes};

/// `MD_SB_MAGIC`.
pub(crate) const MAGIC: u32 = 0xa92b_4efc;

/// Bytes that are read: `MD_SB_BYTES`; roles are beyond the first 256.
pub(crate) const BYTES: usize = 4096;

const HEAD: usize = 256;

/// The largest number of slots.
const MOST: u32 = (BYTES - HEAD) as u32 / 2;

/// Features by bit (`MD_FEATURE_*`).
const FEATURES: [&str; 13] = [
    "bitmap",
    "recovery-offset",
    "reshape",
    "bad-blocks",
    "replacement",
    "reshape-backwards",
    "new-offset",
    "recovery-bitmap",
    "cluster",
    "journal",
    "ppl",
    "multiple-ppls",
    "raid0-layout",
];

/// Feature 8: the bad-block list has entries.
pub(crate) const BAD_BLOCKS: u32 = 8;
const RECOVERY: u32 = 2;
const RESHAPE: u32 = 4;
/// A bitmap, or the log that uses the same field of the superblock.
pub(crate) const BITMAP: u32 = 1;

/// What a member is in its array.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "role", content = "slot")]
pub enum Role {
    Active(u16), // The member of a slot
    Spare,       // A spare (0xffff)
    Faulty,      // Faulty (0xfffe)
    Journal,     // The journal (0xfffd)
}

/// A running reshape.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reshape {
    pub position: u64,    // Its position in sectors of the array
    pub new_level: i32,   // The new level
    pub delta_disks: i32, // The number of members added, or removed if negative
    pub new_layout: u32,  // The new layout
    pub new_chunk: u32,   // The new chunk in sectors
    pub new_offset: i32,  // The number of sectors by which the data move
}

/// A superblock 1.x.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Superblock1 {
    pub minor_version: u32, // 0, 1 or 2: the superblock is at the end, at the start, or 4 KiB from the start
    pub feature_map: u32,   // The feature bits
    pub features: Vec<String>, // The features by name; an unknown bit is `bit-N`
    pub uuid: Uuid,         // The array's UUID
    pub name: String,       // The array's name: usually `host:name`
    pub created: u64,       // Seconds since 1970
    pub level: i32,         // mdadm's --level
    pub layout: u32,        // The personality's layout
    pub size: u64,          // Sectors of each member that the array uses
    pub chunk: u32,         // The chunk in sectors
    pub raid_disks: u32,    // Slots
    pub bitmap_offset: i32, // Position of the bitmap in sectors from the superblock; 0: none
    pub reshape: Option<Reshape>, // A reshape, if there is one
    pub data_offset: u64,   // The first sector of data
    pub data_size: u64,     // Sectors that can be used
    pub super_offset: u64,  // The sector of this superblock
    pub recovery_offset: Option<u64>, // The sector up to which this member has been recovered
    pub dev_number: u32,    // The member's number, which never changes
    pub corrected_reads: u32, // Corrected read errors
    pub device_uuid: Uuid,  // The member's UUID
    pub write_mostly: bool, // Whether it is read only if no other member can be
    pub failfast: bool,     // Whether I/O to it fails fast
    pub bblog_shift: u8,    // The power of two that scales the bad-block list's entries
    pub bblog_size: u16,    // Sectors of the bad-block list; 0: none
    pub bblog_offset: i32,  // Its position in sectors from the superblock
    pub updated: u64,       // Seconds since 1970 when this was written
    pub events: u64,        // The event count
    pub resync_offset: Option<u64>, // The sector where a resync continues; `None` if the array is clean
    pub role: Role,         // The role of this member
    pub roles: Vec<Role>,   // The roles of all members, by number
}

/// The offset in bytes of a superblock of this minor version (`super_1_load`).
pub(crate) fn offset(minor: u32, bytes: u64) -> Option<u64> {
    let sectors = bytes / SECTOR;
    match minor {
        0 => Some((sectors.checked_sub(16)? & !7) * SECTOR),
        1 => Some(0),
        _ => Some(8 * SECTOR),
    }
}

/// Parses a superblock at `at` bytes; `None` if there is none. Also returns its problems.
pub(crate) fn parse(bytes: &[u8], minor: u32, at: u64) -> Option<(Superblock1, Checksum, Vec<String>)> {
    if bytes.len() < HEAD || bytes::u32(bytes, 0) != MAGIC || bytes::u32(bytes, 4) != 1 {
        return None;
    }
    let mut problems = Vec::new();
    let super_offset = bytes::u64(bytes, 144);
    if super_offset != at / SECTOR {
        // A copied superblock, or that of a partition which ends where its disk ends.
        return None;
    }
    let stated = bytes::u32(bytes, 220);
    let slots = stated.min(MOST).min((bytes.len() - HEAD) as u32 / 2);
    if slots < stated {
        problems.push(format!("max_dev is {stated}, expected at most {MOST}: the superblock is damaged"));
    }
    let roles: Vec<Role> = (0..slots as usize).map(|slot| role(bytes::u16(bytes, HEAD + slot * 2))).collect();
    let dev_number = bytes::u32(bytes, 160);
    let own_role = roles.get(dev_number as usize).copied();
    if own_role.is_none() {
        problems.push(format!("dev_number is {dev_number}, but the superblock has only {slots} roles"));
    }
    let feature_map = bytes::u32(bytes, 8);
    let seconds = |at| bytes::u64(bytes, at) & 0xff_ffff_ffff; // 40 bits; above are µs
    let resync = bytes::u64(bytes, 208);
    let devflags = bytes[184];
    let superblock = Superblock1 {
        minor_version: minor,
        feature_map,
        features: features(feature_map),
        uuid: Uuid(bytes::array(bytes, 16)),
        name: bytes::text(&bytes[32..64]),
        created: seconds(64),
        level: bytes::i32(bytes, 72),
        layout: bytes::u32(bytes, 76),
        size: bytes::u64(bytes, 80),
        chunk: bytes::u32(bytes, 88),
        raid_disks: bytes::u32(bytes, 92),
        bitmap_offset: bytes::i32(bytes, 96),
        reshape: (feature_map & RESHAPE != 0).then(|| Reshape {
            new_level: bytes::i32(bytes, 100),
            position: bytes::u64(bytes, 104),
            delta_disks: bytes::i32(bytes, 112),
            new_layout: bytes::u32(bytes, 116),
            new_chunk: bytes::u32(bytes, 120),
            new_offset: bytes::i32(bytes, 124),
        }),
        data_offset: bytes::u64(bytes, 128),
        data_size: bytes::u64(bytes, 136),
        super_offset,
        recovery_offset: (feature_map & RECOVERY != 0).then(|| bytes::u64(bytes, 152)),
        dev_number,
        corrected_reads: bytes::u32(bytes, 164),
        device_uuid: Uuid(bytes::array(bytes, 168)),
        write_mostly: devflags & 1 != 0,
        failfast: devflags & 2 != 0,
        bblog_shift: bytes[185],
        bblog_size: bytes::u16(bytes, 186),
        bblog_offset: bytes::i32(bytes, 188),
        updated: seconds(192),
        events: bytes::u64(bytes, 200),
        resync_offset: (resync != u64::MAX).then_some(resync),
        role: own_role.unwrap_or(Role::Spare),
        roles,
    };
    let checksum = Checksum { stored: bytes::u32(bytes, 216), computed: checksum(bytes, slots) };
    Some((superblock, checksum, problems))
}

fn role(word: u16) -> Role {
    match word {
        0xffff => Role::Spare,
        0xfffe => Role::Faulty,
        0xfffd => Role::Journal,
        slot => Role::Active(slot),
    }
}

fn features(map: u32) -> Vec<String> {
    (0..32)
        .filter(|bit| map >> bit & 1 != 0)
        .map(|bit| FEATURES.get(bit).map_or_else(|| format!("bit-{bit}"), ToString::to_string))
        .collect()
}

/// `calc_sb_1_csum`: the words of head and roles without its own, 64 bits wide and folded once; an odd role is added.
fn checksum(bytes: &[u8], slots: u32) -> u32 {
    let end = (HEAD + 2 * slots as usize).min(bytes.len());
    let chunks = bytes[..end].chunks_exact(4);
    let odd_role = chunks.remainder();
    let mut sum: u64 =
        chunks.enumerate().filter(|(at, _)| *at != 216 / 4).map(|(_, word)| u64::from(bytes::u32(word, 0))).sum();
    if odd_role.len() == 2 {
        sum += u64::from(bytes::u16(odd_role, 0));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
