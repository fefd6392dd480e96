//! Superblock 0.90 (`mdp_super_t`): 1,024 words in the byte order of the machine that wrote it; only little-endian
//! ones are read.

use crate::{Checksum, Reshape, Role, Superblock, Uuid, bytes};

/// Its size in bytes.
pub(crate) const BYTES: usize = 4096;

/// The largest number of members.
pub(crate) const MOST: usize = 27;

/// Words of a descriptor, and the words where those of all members and of this member begin.
const DISK: usize = 32;
const DISKS: usize = 128;
const THIS: usize = 992;

/// `MD_SB_CLEAN`, `MD_SB_BITMAP_PRESENT`.
const CLEAN: u32 = 1;
const BITMAP: u32 = 1 << 8;

/// `MD_DISK_FAULTY`, `MD_DISK_SYNC`, `MD_DISK_WRITEMOSTLY`.
const FAULTY: u32 = 1;
const SYNC: u32 = 1 << 2;
const WRITE_MOSTLY: u32 = 1 << 9;

/// Its offset in bytes: the last but one whole 64 KiB (`calc_dev_sboffset`).
pub(crate) fn offset(bytes: u64) -> Option<u64> {
    let sectors = bytes / crate::SECTOR;
    Some((sectors & !127).checked_sub(128)? * crate::SECTOR)
}

/// Parses a superblock 0.90; `None` if there is none.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Superblock, Checksum)> {
    let word = |at: usize| bytes::u32(bytes, at * 4);
    if bytes.len() < BYTES || word(0) != crate::v1::MAGIC || word(1) != 0 || !matches!(word(2), 90 | 91) {
        return None;
    }
    let mut uuid = [0; 16];
    for (part, at) in [5, 13, 14, 15].into_iter().enumerate() {
        // mdadm prints the UUID's words as numbers.
        uuid[part * 4..part * 4 + 4].copy_from_slice(&word(at).to_be_bytes());
    }
    // A descriptor: number, major, minor, slot, state.
    let (slot, own) = (word(THIS + 3), word(THIS + 4));
    let in_sync = (0..MOST).map(|at| DISKS + at * DISK).filter(|at| word(at + 4) & SYNC != 0).map(|at| word(at + 3));
    let slots: Vec<u32> = in_sync.collect();
    let (role, slot) = match u16::try_from(slot) {
        _ if own & FAULTY != 0 => (Role::Faulty, None),
        Ok(slot) if own & SYNC != 0 => (Role::Active, Some(slot)),
        _ => (Role::Spare, None),
    };
    let (state, raid_disks, size) = (word(33), word(10), 2 * u64::from(word(8)));
    let superblock = Superblock {
        version: "0.90",
        uuid: Uuid(uuid),
        name: format!("md{}", word(11)),
        level: word(7) as i32,
        layout: word(64),
        chunk: word(65).into(),
        raid_disks,
        size,
        data_offset: 0,
        data_size: size,
        device_uuid: None,
        role,
        slot,
        present: (0..raid_disks.min(MOST as u32)).map(|slot| slots.contains(&slot)).collect(),
        write_mostly: own & WRITE_MOSTLY != 0,
        replacement: false,
        bitmap: state & BITMAP != 0,
        events: bytes::u64(bytes, 39 * 4),
        updated: word(32).into(),
        created: word(6).into(),
        resync_offset: (state & CLEAN == 0).then(|| 2 * u64::from(word(43))),
        recovery_offset: None,
        reshape_position: (word(2) == 91).then(|| bytes::u64(bytes, 44 * 4)),
        reshape: (word(2) == 91).then(|| Reshape {
            delta_disks: word(47) as i32,
            level: word(46) as i32,
            layout: word(48),
            chunk: word(49).into(),
        }),
        journal: false,
        ppl: false,
    };
    Some((superblock, Checksum { stored: word(38), computed: checksum(bytes) }))
}

/// `calc_sb_csum`: the sum of all words except its own, 64 bits wide and folded once.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes[..BYTES].chunks_exact(4).enumerate().filter(|(at, _)| *at != 38);
    let sum: u64 = words.map(|(_, word)| u64::from(bytes::u32(word, 0))).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
