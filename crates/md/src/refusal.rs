//! Why the kernel refuses a superblock (drivers/md/md.c, `super_90_load`, `super_1_load`, Linux 6.1 to 7.1).

use serde::Serialize;

use crate::{Checksum, SECTOR, Superblock, bytes, v0, v1};

/// What the kernel does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// Position or length of the bad-block list.
    BadBlockList,
    /// A wrong checksum.
    Checksum,
    /// The data begin before the superblock ends.
    DataOffset,
    /// Too few sectors for data.
    DataSize,
    /// Feature bits that no kernel knows, or that contradict the level.
    Features,
    /// More roles than a superblock can hold.
    MaxDev,
    /// A logical block size: Linux 6.18 and older refuse it, newer ones do not.
    NewerKernel,
    /// Bytes that must be zero.
    Padding,
    /// No slot, or more slots than roles.
    RaidDisks,
}

/// A reason why the kernel refuses a superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Refusal {
    /// What the kernel does not accept.
    pub reason: RefusalReason,
    /// The value, and what is expected.
    pub message: String,
}

/// The least number of sectors for data.
const LEAST_DATA: u64 = 10;

/// The longest bad-block list in sectors: a page.
pub(crate) const LONGEST_LIST: u16 = 8;

/// Whether the kernel refuses it, the reason, and the message.
type Check = (bool, RefusalReason, String);

pub(crate) fn of_version_0(superblock: &Superblock, checksum: Checksum) -> Vec<Refusal> {
    refused([check_checksum(checksum), check_disks(superblock.raid_disks, v0::MOST)])
}

/// `bytes` are those of the superblock.
pub(crate) fn of_version_1(superblock: &Superblock, checksum: Checksum, bytes: &[u8]) -> Vec<Refusal> {
    use RefusalReason::{BadBlockList, DataOffset, DataSize, Features, MaxDev, NewerKernel, Padding};
    const OR_NEWER: &str = "the superblock is damaged, or of a kernel newer than 7.1";
    let (features, max_dev) = (bytes::u32(bytes, 8), bytes::u32(bytes, 220));
    let (known, unknown) = (v1::FEATURES, features & !v1::FEATURES);
    let raid0_layout = features & v1::RAID0_LAYOUT != 0 && superblock.level != 0;
    let (has_list, list) = (features & v1::BAD_BLOCKS != 0, bytes::u16(bytes, 186));
    let (size, begin) = (superblock.data_size, superblock.data_offset);
    let end = bytes::u64(bytes, 144) + (v1::HEAD as u64 + 2 * u64::from(max_dev)).div_ceil(SECTOR);
    let block = bytes::u32(bytes, 224); // since Linux 6.19; before, it was padding
    let is_padded = bytes::u32(bytes, 12) == 0 && bytes[228..v1::HEAD].iter().all(|&byte| byte == 0);
    let is_newer = is_padded && block.is_power_of_two() && u64::from(block) >= SECTOR;
    let no_place = "bblog_offset is 0, expected the place of the bad-block list".to_owned();
    refused([
        check_checksum(checksum),
        (max_dev > v1::MOST, MaxDev, format!("max_dev is {max_dev}, expected at most {}", v1::MOST)),
        // `super_1_load` does not check this, but no member can have a slot without a role.
        check_disks(superblock.raid_disks, max_dev.min(v1::MOST) as usize),
        (unknown != 0, Features, format!("unknown feature bits {unknown:#x}, expected only {known:#x}: {OR_NEWER}")),
        (raid0_layout, Features, format!("feature raid0-layout with level {}, expected level 0", superblock.level)),
        (
            !is_newer && (block != 0 || !is_padded),
            Padding,
            format!("bytes 12 to 15 or 224 to 255 are not 0: {OR_NEWER}"),
        ),
        (is_newer, NewerKernel, format!("its logical block size is {block} bytes, expected 0 before Linux 6.19")),
        (size < LEAST_DATA, DataSize, format!("data_size is {size}, expected at least {LEAST_DATA}")),
        (
            superblock.version != "1.0" && begin < end,
            DataOffset,
            format!("data_offset is {begin}, expected at least {end}"),
        ),
        (
            has_list && list > LONGEST_LIST,
            BadBlockList,
            format!("bblog_size is {list}, expected at most {LONGEST_LIST}"),
        ),
        (has_list && bytes::i32(bytes, 188) == 0, BadBlockList, no_place),
    ])
}

fn refused<const N: usize>(checks: [Check; N]) -> Vec<Refusal> {
    checks.into_iter().filter(|check| check.0).map(|(_, reason, message)| Refusal { reason, message }).collect()
}

fn check_checksum(checksum: Checksum) -> Check {
    let message = format!("its checksum is {:08x}, expected {:08x}", checksum.stored, checksum.computed);
    (!checksum.holds(), RefusalReason::Checksum, message)
}

fn check_disks(disks: u32, most: usize) -> Check {
    (
        disks == 0 || disks as usize > most,
        RefusalReason::RaidDisks,
        format!("raid_disks is {disks}, expected 1 to {most}"),
    )
}
