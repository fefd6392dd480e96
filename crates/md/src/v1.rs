//! Superblocks 1.0, 1.1 and 1.2 (`mdp_superblock_1`): little-endian, 256 bytes plus two for each slot.

use crate::{Checksum, Reshape, Role, SECTOR, Superblock, Uuid, bytes};

/// `MD_SB_MAGIC`.
pub(crate) const MAGIC: u32 = 0xa92b_4efc;

/// Bytes that are read: `MD_SB_BYTES`; roles are beyond the first 256.
pub(crate) const BYTES: usize = 4096;

pub(crate) const HEAD: usize = 256;

/// The largest number of slots.
pub(crate) const MOST: u32 = (BYTES - HEAD) as u32 / 2;

/// Bits of `feature_map` (`MD_FEATURE_*`): a bitmap, or the log that uses the same field.
pub(crate) const BITMAP: u32 = 1;
const RECOVERY: u32 = 2;
const RESHAPE: u32 = 4;
/// The bad-block list has entries.
pub(crate) const BAD_BLOCKS: u32 = 8;
const REPLACEMENT: u32 = 16;
const JOURNAL: u32 = 1 << 9;
const PPL: u32 = 1 << 10 | 1 << 11;
pub(crate) const RAID0_LAYOUT: u32 = 1 << 12;
/// `MD_FEATURE_ALL`.
pub(crate) const FEATURES: u32 = (1 << 13) - 1;

/// Of a time, the bits that are seconds; those above are microseconds.
const SECONDS: u64 = 0xff_ffff_ffff;

/// The offset in bytes of a superblock of this minor version (`super_1_load`).
pub(crate) fn offset(minor: usize, bytes: u64) -> Option<u64> {
    let sectors = bytes / SECTOR;
    match minor {
        0 => Some((sectors.checked_sub(16)? & !7) * SECTOR),
        1 => Some(0),
        _ => Some(8 * SECTOR),
    }
}

/// Parses a superblock at `at` bytes; `None` if there is none. Also returns its problems.
pub(crate) fn parse(bytes: &[u8], minor: usize, at: u64) -> Option<(Superblock, Checksum, Vec<String>)> {
    if bytes.len() < HEAD || bytes::u32(bytes, 0) != MAGIC || bytes::u32(bytes, 4) != 1 {
        return None;
    }
    let mut problems = Vec::new();
    if bytes::u64(bytes, 144) != at / SECTOR {
        // A copied superblock, or that of a partition which ends where its disk ends.
        return None;
    }
    let slots = bytes::u32(bytes, 220).min(MOST).min((bytes.len() - HEAD) as u32 / 2);
    let roles: Vec<_> = (0..slots as usize).map(|slot| parse_role(bytes::u16(bytes, HEAD + slot * 2))).collect();
    let dev_number = bytes::u32(bytes, 160);
    let (role, slot) = roles.get(dev_number as usize).copied().unwrap_or_else(|| {
        problems.push(format!("dev_number is {dev_number}, but the superblock has only {slots} roles"));
        (Role::Spare, None)
    });
    let (feature_map, raid_disks) = (bytes::u32(bytes, 8), bytes::u32(bytes, 92));
    let superblock = Superblock {
        version: ["1.0", "1.1", "1.2"][minor],
        uuid: Uuid(bytes::array(bytes, 16)),
        name: bytes::text(&bytes[32..64]),
        level: bytes::i32(bytes, 72),
        layout: bytes::u32(bytes, 76),
        chunk: u64::from(bytes::u32(bytes, 88)) * SECTOR,
        raid_disks,
        size: bytes::u64(bytes, 80),
        data_offset: bytes::u64(bytes, 128),
        data_size: bytes::u64(bytes, 136),
        device_uuid: Some(Uuid(bytes::array(bytes, 168))),
        role,
        slot,
        present: (0..raid_disks.min(slots)).map(|slot| roles.contains(&parse_role(slot as u16))).collect(),
        write_mostly: bytes[184] & 1 != 0,
        replacement: feature_map & REPLACEMENT != 0,
        bitmap: feature_map & BITMAP != 0,
        events: bytes::u64(bytes, 200),
        updated: bytes::u64(bytes, 192) & SECONDS,
        created: bytes::u64(bytes, 64) & SECONDS,
        resync_offset: Some(bytes::u64(bytes, 208)).filter(|&sector| sector != u64::MAX),
        recovery_offset: (feature_map & RECOVERY != 0).then(|| bytes::u64(bytes, 152)),
        reshape_position: (feature_map & RESHAPE != 0).then(|| bytes::u64(bytes, 104)),
        reshape: (feature_map & RESHAPE != 0).then(|| Reshape {
            delta_disks: bytes::i32(bytes, 112),
            level: bytes::i32(bytes, 100),
            layout: bytes::u32(bytes, 116),
            chunk: u64::from(bytes::u32(bytes, 120)) * SECTOR,
        }),
        journal: feature_map & JOURNAL != 0,
        ppl: feature_map & PPL != 0,
    };
    let checksum = Checksum { stored: bytes::u32(bytes, 216), computed: checksum(bytes, slots) };
    Some((superblock, checksum, problems))
}

fn parse_role(word: u16) -> (Role, Option<u16>) {
    match word {
        0xffff => (Role::Spare, None),
        0xfffe => (Role::Faulty, None),
        0xfffd => (Role::Journal, None),
        slot => (Role::Active, Some(slot)),
    }
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
