//! Superblocks 1.0, 1.1 and 1.2 (`mdp_superblock_1`): little-endian, 256 bytes and two more for each slot.

use serde::Serialize;

use crate::{Checksum, SECTOR, Uuid, bytes};

/// `MD_SB_MAGIC`.
pub(crate) const MAGIC: u32 = 0xa92b_4efc;

/// Bytes of it at most that are read: `MD_SB_BYTES`, of which roles take what is beyond 256.
pub(crate) const BYTES: usize = 4096;

const HEAD: usize = 256;

/// Slots for which there is room.
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
/// A bitmap, or the log that takes its place in the superblock.
pub(crate) const BITMAP: u32 = 1;

/// What a member is in its array.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "role", content = "slot")]
pub enum Role {
    /// In a slot.
    Active(u16),
    /// A spare (0xffff).
    Spare,
    /// Faulty (0xfffe).
    Faulty,
    /// The journal (0xfffd).
    Journal,
}

/// A change of shape that is under way.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reshape {
    /// How far it is, sectors of the array.
    pub position: u64,
    /// What the array becomes.
    pub new_level: i32,
    /// Members more, or fewer.
    pub delta_disks: i32,
    /// The layout to be.
    pub new_layout: u32,
    /// The chunk to be, sectors.
    pub new_chunk: u32,
    /// By how many sectors the data move.
    pub new_offset: i32,
}

/// A superblock 1.x.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Superblock1 {
    /// 0, 1 or 2: at the end, at the start, 4 KiB from the start.
    pub minor_version: u32,
    /// As it is stored.
    pub feature_map: u32,
    /// The same by name; an unknown bit is `bit-N`.
    pub features: Vec<String>,
    /// The array's.
    pub uuid: Uuid,
    /// The array's: usually `host:name`.
    pub name: String,
    /// Seconds since 1970.
    pub created: u64,
    /// mdadm's --level.
    pub level: i32,
    /// The personality's layout.
    pub layout: u32,
    /// Sectors that each member gives.
    pub size: u64,
    /// Sectors.
    pub chunk: u32,
    /// Slots.
    pub raid_disks: u32,
    /// Where the bitmap is, sectors from the superblock; 0 is nowhere.
    pub bitmap_offset: i32,
    /// A reshape, if there is one.
    pub reshape: Option<Reshape>,
    /// Where data begin, sectors.
    pub data_offset: u64,
    /// Sectors that can be used.
    pub data_size: u64,
    /// Where this is, sectors.
    pub super_offset: u64,
    /// Up to where a recovery of this member has come, sectors.
    pub recovery_offset: Option<u64>,
    /// The member's number, for good.
    pub dev_number: u32,
    /// Reads that were mended.
    pub corrected_reads: u32,
    /// The member's.
    pub device_uuid: Uuid,
    /// It is read only if nothing else is left.
    pub write_mostly: bool,
    /// Its errors are reported at once.
    pub failfast: bool,
    /// Power of two of the bad-block list's entries.
    pub bblog_shift: u8,
    /// Sectors of the bad-block list; 0 is none.
    pub bblog_size: u16,
    /// Where that is, sectors from the superblock.
    pub bblog_offset: i32,
    /// Seconds since 1970 when this was written.
    pub updated: u64,
    /// Writes of the superblock so far.
    pub events: u64,
    /// Where a resync goes on, sectors; `None` if the array is clean.
    pub resync_offset: Option<u64>,
    /// What this member is.
    pub role: Role,
    /// What every member is, by its number.
    pub roles: Vec<Role>,
}

/// Where one of a minor version is, bytes from the start (`super_1_load`).
pub(crate) fn offset(minor: u32, bytes: u64) -> Option<u64> {
    let sectors = bytes / SECTOR;
    match minor {
        0 => Some((sectors.checked_sub(16)? & !7) * SECTOR),
        1 => Some(0),
        _ => Some(8 * SECTOR),
    }
}

/// Reads one that is at `at` bytes; `None` if there is none. Gives what is wrong with it as well.
pub(crate) fn parse(found: &[u8], minor: u32, at: u64) -> Option<(Superblock1, Checksum, Vec<String>)> {
    if found.len() < HEAD || bytes::u32(found, 0) != MAGIC || bytes::u32(found, 4) != 1 {
        return None;
    }
    let mut problems = Vec::new();
    let super_offset = bytes::u64(found, 144);
    if super_offset != at / SECTOR {
        // A copy of another disk's superblock, or one of a partition that ends where its disk ends.
        return None;
    }
    let stated = bytes::u32(found, 220);
    let slots = stated.min(MOST).min((found.len() - HEAD) as u32 / 2);
    if slots < stated {
        problems.push(format!("max_dev is {stated}, {MOST} are the most: the superblock is not sound"));
    }
    let roles: Vec<Role> = (0..slots as usize).map(|slot| role(bytes::u16(found, HEAD + slot * 2))).collect();
    let dev_number = bytes::u32(found, 160);
    let own = roles.get(dev_number as usize).copied();
    if own.is_none() {
        problems.push(format!("dev_number is {dev_number}, and there are {slots} roles"));
    }
    let feature_map = bytes::u32(found, 8);
    let seconds = |at| bytes::u64(found, at) & 0xff_ffff_ffff; // 40 bits; above are µs
    let resync = bytes::u64(found, 208);
    let devflags = found[184];
    let superblock = Superblock1 {
        minor_version: minor,
        feature_map,
        features: features(feature_map),
        uuid: Uuid(bytes::array(found, 16)),
        name: bytes::text(&found[32..64]),
        created: seconds(64),
        level: bytes::i32(found, 72),
        layout: bytes::u32(found, 76),
        size: bytes::u64(found, 80),
        chunk: bytes::u32(found, 88),
        raid_disks: bytes::u32(found, 92),
        bitmap_offset: bytes::i32(found, 96),
        reshape: (feature_map & RESHAPE != 0).then(|| Reshape {
            new_level: bytes::i32(found, 100),
            position: bytes::u64(found, 104),
            delta_disks: bytes::i32(found, 112),
            new_layout: bytes::u32(found, 116),
            new_chunk: bytes::u32(found, 120),
            new_offset: bytes::i32(found, 124),
        }),
        data_offset: bytes::u64(found, 128),
        data_size: bytes::u64(found, 136),
        super_offset,
        recovery_offset: (feature_map & RECOVERY != 0).then(|| bytes::u64(found, 152)),
        dev_number,
        corrected_reads: bytes::u32(found, 164),
        device_uuid: Uuid(bytes::array(found, 168)),
        write_mostly: devflags & 1 != 0,
        failfast: devflags & 2 != 0,
        bblog_shift: found[185],
        bblog_size: bytes::u16(found, 186),
        bblog_offset: bytes::i32(found, 188),
        updated: seconds(192),
        events: bytes::u64(found, 200),
        resync_offset: (resync != u64::MAX).then_some(resync),
        role: own.unwrap_or(Role::Spare),
        roles,
    };
    let checksum = Checksum { stored: bytes::u32(found, 216), computed: checksum(found, slots) };
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

/// `calc_sb_1_csum`: the words of head and roles, its own left out, 64 bits wide and folded once; an odd role is added.
fn checksum(found: &[u8], slots: u32) -> u32 {
    let end = (HEAD + 2 * slots as usize).min(found.len());
    let chunks = found[..end].chunks_exact(4);
    let rest = chunks.remainder();
    let mut sum: u64 = chunks
        .enumerate()
        .filter(|(at, _)| *at != 216 / 4)
        .map(|(_, word)| u64::from(bytes::u32(word, 0)))
        .sum();
    if rest.len() == 2 {
        sum += u64::from(bytes::u16(rest, 0));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
