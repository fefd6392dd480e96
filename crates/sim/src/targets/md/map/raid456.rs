//! RAID-4, 5 and 6: striping with parity.
//!
//! drivers/md/raid5.c (Linux 6.1): `raid5_compute_sector` and back in `raid5_compute_blocknr`, the size in
//! `raid5_size`, the chunk in `setup_conf`. The algorithms' numbers are those of drivers/md/raid5.h, without
//! those for DDF and for conversions between RAID-5 and 6.

use super::{MapError, Place, shift};

/// Where parity goes; RAID-4 has it on the last member whatever is said here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Parity moves down from the last member, data begins at member 0 and goes around it (`la`).
    LeftAsymmetric,
    /// Parity moves up from member 0, data begins at member 0 and goes around it (`ra`).
    RightAsymmetric,
    /// Parity moves down from the last member, data begins behind it: mdadm's default (`ls`).
    #[default]
    LeftSymmetric,
    /// Parity moves up from member 0, data begins behind it (`rs`).
    RightSymmetric,
    /// Parity stays on the first member or two.
    ParityFirst,
    /// Parity stays on the last member or two.
    ParityLast,
}

/// The slots of a stripe's parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    /// The exclusive or of the data.
    pub p: u32,
    /// RAID-6's second one.
    pub q: Option<u32>,
}

/// The map of a RAID-4, 5 or 6.
#[derive(Clone, Debug)]
pub struct Raid456 {
    disks: u64,
    data: u64,
    shift: u32,
    algorithm: Algorithm,
    /// Sectors used of each member.
    used: u64,
    capacity: u64,
}

impl Raid456 {
    /// An array of `level` 4, 5 or 6 of `disks` members of `member_sectors` each.
    ///
    /// # Panics
    /// If it is another level.
    pub fn new(
        level: u32,
        disks: u32,
        algorithm: Algorithm,
        chunk_sectors: u64,
        member_sectors: u64,
    ) -> Result<Self, MapError> {
        assert!((4..=6).contains(&level), "level {level} has no parity");
        let (needed, parities) = if level == 6 { (4, 2) } else { (2, 1) };
        let shift = shift(chunk_sectors)?;
        if disks < needed {
            return Err(MapError::TooFewMembers { needed, disks });
        }
        let (disks, data) = (u64::from(disks), u64::from(disks) - parities);
        let used = member_sectors >> shift << shift;
        if used == 0 {
            return Err(MapError::MemberTooSmall { sectors: member_sectors });
        }
        let algorithm = if level == 4 { Algorithm::ParityLast } else { algorithm };
        let capacity = used.checked_mul(data).ok_or(MapError::TooLarge)?;
        Ok(Self { disks, data, shift, algorithm, used, capacity })
    }

    /// Sectors of the array.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sectors that the array uses of each member.
    pub fn used(&self) -> u64 {
        self.used
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

    /// Sectors of data in a whole stripe.
    pub fn stripe_sectors(&self) -> u64 {
        self.data << self.shift
    }

    /// The stripe, a row of chunks across the members, that has this array sector.
    #[inline]
    pub fn stripe(&self, sector: u64) -> u64 {
        (sector >> self.shift) / self.data
    }

    /// Where a sector is, which must be below the capacity.
    #[inline]
    pub fn place(&self, sector: u64) -> Place {
        let chunk = sector >> self.shift;
        let (stripe, index) = (chunk / self.data, chunk % self.data);
        let rest = sector & ((1 << self.shift) - 1);
        Place { slot: self.slot(stripe, index as u32), sector: (stripe << self.shift) + rest }
    }

    /// Where a stripe's parity is.
    #[inline]
    pub fn parity(&self, stripe: u64) -> Parity {
        let parities = self.disks - self.data;
        let p = match self.algorithm {
            Algorithm::LeftAsymmetric | Algorithm::LeftSymmetric => self.disks - 1 - stripe % self.disks,
            Algorithm::RightAsymmetric | Algorithm::RightSymmetric => stripe % self.disks,
            Algorithm::ParityFirst => 0,
            Algorithm::ParityLast => self.data,
        };
        Parity { p: p as u32, q: (parities == 2).then(|| wrap(p + 1, self.disks) as u32) }
    }

    /// Where a stripe's data chunk is, which must be below [`data`](Self::data).
    #[inline]
    pub fn slot(&self, stripe: u64, index: u32) -> u32 {
        let (p, index) = (u64::from(self.parity(stripe).p), u64::from(index));
        let parities = self.disks - self.data;
        let slot = match self.algorithm {
            Algorithm::LeftSymmetric | Algorithm::RightSymmetric => wrap(p + parities + index, self.disks),
            Algorithm::ParityLast => index,
            // Q on the first member and P on the last one leave the data between them.
            _ if p + parities > self.disks => index + 1,
            _ if index >= p => index + parities,
            _ => index,
        };
        slot as u32
    }

    /// Which data chunk of a stripe a slot has; none if it has parity.
    #[inline]
    pub fn index(&self, stripe: u64, slot: u32) -> Option<u32> {
        let Parity { p, q } = self.parity(stripe);
        if slot == p || Some(slot) == q {
            return None;
        }
        let (disks, parities) = (self.disks as u32, (self.disks - self.data) as u32);
        Some(match self.algorithm {
            Algorithm::LeftSymmetric | Algorithm::RightSymmetric => (slot + 2 * disks - p - parities) % disks,
            Algorithm::ParityLast => slot,
            _ if p + parities > disks => slot - 1,
            _ if slot > p => slot - parities,
            _ => slot,
        })
    }

    /// Sectors from this one until a read around the stripe cache must be split: to the chunk's end. Everything
    /// else goes through the cache, a page of a member at a time.
    #[inline]
    pub fn boundary(&self, sector: u64) -> u64 {
        let chunk = 1 << self.shift;
        chunk - (sector & (chunk - 1))
    }

    /// The array sector at a place, if there is data.
    pub fn find(&self, place: Place) -> Option<u64> {
        if u64::from(place.slot) >= self.disks || place.sector >= self.used {
            return None;
        }
        let stripe = place.sector >> self.shift;
        let index = u64::from(self.index(stripe, place.slot)?);
        Some(((stripe * self.data + index) << self.shift) + (place.sector & ((1 << self.shift) - 1)))
    }
}

/// The remainder of a number below twice the divisor.
fn wrap(number: u64, by: u64) -> u64 {
    if number >= by { number - by } else { number }
}
