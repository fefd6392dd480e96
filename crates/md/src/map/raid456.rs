//! RAID-4, 5 and 6: striping with parity.
//!
//! drivers/md/raid5.c (Linux 6.1): `raid5_compute_sector` and its inverse `raid5_compute_blocknr`, the size in
//! `raid5_size`, the chunk in `setup_conf`. The algorithms are those of drivers/md/raid5.h, without those for DDF and
//! for conversions between RAID-5 and 6.

use super::{MapError, MemberSector, chunk_shift};
use crate::Level;

/// Where parity lies; RAID-4 always has it on the last member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParityAlgorithm {
    LeftAsymmetric,  // Parity moves down from the last member; data begins at member 0 and skips parity (`la`)
    RightAsymmetric, // Parity moves up from member 0; data begins at member 0 and skips parity (`ra`)
    /// Parity moves down from the last member; data begins behind it: mdadm's default (`ls`).
    #[default]
    LeftSymmetric,
    RightSymmetric, // Parity moves up from member 0; data begins behind it (`rs`)
    ParityFirst,    // Parity stays on the first member, or the first two
    ParityLast,     // Parity stays on the last member, or the last two
}

impl ParityAlgorithm {
    /// The algorithm of a layout word (drivers/md/raid5.h, `ALGORITHM_*`); none if it is not known here.
    pub fn from_layout(layout: u32) -> Option<Self> {
        Some(match layout {
            0 => Self::LeftAsymmetric,
            1 => Self::RightAsymmetric,
            2 => Self::LeftSymmetric,
            3 => Self::RightSymmetric,
            4 => Self::ParityFirst,
            5 => Self::ParityLast,
            _ => return None,
        })
    }
}

/// The slots of a stripe's parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParitySlots {
    pub p: u32,         // The exclusive or of the data
    pub q: Option<u32>, // RAID-6's second parity
}

/// The map of a RAID-4, 5 or 6.
#[derive(Clone, Debug, Default)]
pub struct Raid456Map {
    disks: u64,
    data: u64,
    shift: u32,
    algorithm: ParityAlgorithm,
    pub used: u64,     // Sectors that the array uses of each member
    pub capacity: u64, // Sectors of the array
}

impl Raid456Map {
    /// A map for `disks` members of `member_sectors` each. Level 4 ignores the algorithm; level 6 has two parities.
    pub fn new(
        level: Level, disks: u32, algorithm: ParityAlgorithm, chunk_sectors: u64, member_sectors: u64,
    ) -> Result<Self, MapError> {
        let (needed, parities) = if level == Level::Raid6 { (4, 2) } else { (2, 1) };
        let shift = chunk_shift(chunk_sectors)?;
        if disks < needed {
            return Err(MapError::TooFewMembers { needed, disks });
        }
        let (disks, data) = (u64::from(disks), u64::from(disks) - parities);
        let used = member_sectors >> shift << shift;
        if used == 0 {
            return Err(MapError::MemberTooSmall(member_sectors));
        }
        let algorithm = if level == Level::Raid4 { ParityAlgorithm::ParityLast } else { algorithm };
        let capacity = used.checked_mul(data).ok_or(MapError::TooLarge)?;
        Ok(Self { disks, data, shift, algorithm, used, capacity })
    }

    /// How many members there are.
    pub fn disks(&self) -> u32 {
        self.disks as u32
    }

    /// How many of a stripe's chunks are data.
    pub fn data(&self) -> u32 {
        self.data as u32
    }

    /// Sectors in a chunk.
    pub fn chunk(&self) -> u64 {
        1 << self.shift
    }

    /// The number of the stripe (a row of chunks across the members) that has this array sector.
    pub fn stripe_of(&self, sector: u64) -> u64 {
        (sector >> self.shift) / self.data
    }

    /// The member sector of an array sector, which must be below the capacity.
    pub fn locate(&self, sector: u64) -> MemberSector {
        let chunk = sector >> self.shift;
        let (stripe, index) = (chunk / self.data, chunk % self.data);
        let within_chunk = sector & ((1 << self.shift) - 1);
        MemberSector { slot: self.data_slot(stripe, index as u32), sector: (stripe << self.shift) + within_chunk }
    }

    /// The slots of a stripe's parity.
    pub fn parity_slots(&self, stripe: u64) -> ParitySlots {
        let parities = self.disks - self.data;
        let p = match self.algorithm {
            ParityAlgorithm::LeftAsymmetric | ParityAlgorithm::LeftSymmetric => self.disks - 1 - stripe % self.disks,
            ParityAlgorithm::RightAsymmetric | ParityAlgorithm::RightSymmetric => stripe % self.disks,
            ParityAlgorithm::ParityFirst => 0,
            ParityAlgorithm::ParityLast => self.data,
        };
        ParitySlots { p: p as u32, q: (parities == 2).then(|| wrap_once(p + 1, self.disks) as u32) }
    }

    /// The slot of a stripe's data chunk, whose index must be below [`data`](Self::data).
    pub fn data_slot(&self, stripe: u64, index: u32) -> u32 {
        let (p, index) = (u64::from(self.parity_slots(stripe).p), u64::from(index));
        let parities = self.disks - self.data;
        let slot = match self.algorithm {
            ParityAlgorithm::LeftSymmetric | ParityAlgorithm::RightSymmetric => {
                wrap_once(p + parities + index, self.disks)
            }
            ParityAlgorithm::ParityLast => index,
            // Q on the first member and P on the last one leave the data between them.
            _ if p + parities > self.disks => index + 1,
            _ if index >= p => index + parities,
            _ => index,
        };
        slot as u32
    }

    /// The index of the data chunk that a slot has in a stripe; none if it has parity.
    pub fn data_index(&self, stripe: u64, slot: u32) -> Option<u32> {
        let ParitySlots { p, q } = self.parity_slots(stripe);
        if slot == p || Some(slot) == q {
            return None;
        }
        let (disks, parities) = (self.disks as u32, (self.disks - self.data) as u32);
        Some(match self.algorithm {
            ParityAlgorithm::LeftSymmetric | ParityAlgorithm::RightSymmetric => {
                (slot + 2 * disks - p - parities) % disks
            }
            ParityAlgorithm::ParityLast => slot,
            _ if p + parities > disks => slot - 1,
            _ if slot > p => slot - parities,
            _ => slot,
        })
    }

    /// Sectors from this one to the chunk's end, where a read that bypasses the stripe cache must be split. All other
    /// I/O goes through the cache, one page of a member at a time.
    pub fn boundary(&self, sector: u64) -> u64 {
        let chunk = 1 << self.shift;
        chunk - (sector & (chunk - 1))
    }

    /// The array sector that a member sector holds, if it is data.
    pub fn array_sector(&self, place: MemberSector) -> Option<u64> {
        if u64::from(place.slot) >= self.disks || place.sector >= self.used {
            return None;
        }
        let stripe = place.sector >> self.shift;
        let index = u64::from(self.data_index(stripe, place.slot)?);
        Some(((stripe * self.data + index) << self.shift) + (place.sector & ((1 << self.shift) - 1)))
    }
}

/// The remainder of a number below twice the divisor.
fn wrap_once(number: u64, by: u64) -> u64 {
    if number >= by { number - by } else { number }
}
