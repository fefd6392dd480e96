//! RAID-10: every chunk in several copies on different members.
//!
//! drivers/md/raid10.c (Linux 6.1): the layout word and far sets in `setup_geo`, the size and the distance of far
//! copies in `raid10_size` and `calc_sectors`, the mapping in `__raid10_find_phys`, its inverse in
//! `raid10_find_virt`, splitting in `raid10_make_request`.
//!
//! Near copies of a chunk are neighbours, in a row of chunks across the members. The row is then repeated for
//! the far copies, shifted by the near ones: further down the members or, with `offset`, in the next row.

use super::{MapError, MemberSector, chunk_shift};

/// Among which members the far copies are shifted; bit 17 and higher of the layout word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FarSets {
    /// All members: the only kind that mdadm creates.
    #[default]
    Whole,
    Divided, // Sets of (members / far copies) members: the kernel's first, mistaken kind of sets
    Copies,  // Sets of near × far copies
}

/// A slot for each far copy and member.
type SlotTable = Box<[u32]>;

/// The map of a RAID-10.
#[derive(Clone, Debug)]
pub struct Raid10Map {
    disks: u64,
    pub near: u32, // Near copies
    pub far: u32,  // Far copies
    rows: u64,     // Rows from one row of data to the next: the far copies between them, with `offset`
    stride: u64,   // From a copy to its next far copy, in sectors
    shift: u32,
    pub capacity: u64, // Sectors of the array
    pub used: u64,     // Sectors that the array uses of each member
    offset: bool,
    shifted: SlotTable, // The slots of the other far copies, by the slot of the first far copy: `far` × `disks`
    unshifted: SlotTable, // The inverse of `shifted`
}

impl Raid10Map {
    /// `near` × `far` copies on `disks` members of `member_sectors` each, as the superblock's size says.
    pub fn new(
        disks: u32, near: u32, far: u32, offset: bool, sets: FarSets, chunk_sectors: u64, member_sectors: u64,
    ) -> Result<Self, MapError> {
        let shift = chunk_shift(chunk_sectors)?;
        // The layout word has eight bits for each.
        if near == 0 || far == 0 || near.saturating_mul(far) < 2 {
            return Err(MapError::TooFewCopies);
        }
        let copies = near.saturating_mul(far);
        if near > 255 || far > 255 || copies > disks {
            return Err(MapError::TooManyCopies { copies, disks });
        }
        let set = match sets {
            FarSets::Whole => disks,
            FarSets::Divided => disks / far,
            FarSets::Copies => copies,
        };
        let (shifted, unshifted) = shift_tables(disks, near, far, set).ok_or(MapError::Overlap(disks))?;
        // A chunk whose near copies wrap around continues in the next row, where the offset copies are.
        if offset && !disks.is_multiple_of(near) {
            return Err(MapError::Overlap(disks));
        }
        let wide = u64::from(disks);
        // raid10_size and calc_sectors: first the array's whole chunks, then what they need on a member.
        let rows = (member_sectors >> shift) / u64::from(far);
        let chunks = rows.checked_mul(wide).ok_or(MapError::TooLarge)? / u64::from(near);
        let used = chunks.checked_mul(u64::from(copies)).ok_or(MapError::TooLarge)?.div_ceil(wide);
        if rows == 0 {
            return Err(MapError::MemberTooSmall(member_sectors));
        }
        let stride = if offset { 1 } else { used / u64::from(far) } << shift;
        let capacity = chunks.checked_mul(chunk_sectors).ok_or(MapError::TooLarge)?;
        Ok(Self {
            disks: wide,
            near,
            far,
            rows: if offset { u64::from(far) } else { 1 },
            stride,
            shift,
            capacity,
            used: used << shift,
            offset,
            shifted,
            unshifted,
        })
    }

    /// How many members there are.
    pub fn disks(&self) -> u32 {
        self.disks as u32
    }

    /// Copies of each sector.
    pub fn copies(&self) -> u32 {
        self.near * self.far
    }

    /// Sectors in a chunk.
    pub fn chunk(&self) -> u64 {
        1 << self.shift
    }

    /// The member sector of a copy of an array sector, which must be below the capacity. Copies are in the kernel's
    /// order: the far copies of the first near copy, then those of the second one.
    pub fn locate(&self, sector: u64, copy: u32) -> MemberSector {
        let (near, far) = if self.far == 1 { (copy, 0) } else { (copy / self.far, copy % self.far) };
        let chunk = (sector >> self.shift) * u64::from(self.near) + u64::from(near);
        let (row, first) = (chunk / self.disks, chunk % self.disks);
        let within_chunk = sector & ((1 << self.shift) - 1);
        MemberSector {
            slot: self.shifted[(u64::from(far) * self.disks + first) as usize],
            sector: ((row * self.rows) << self.shift) + within_chunk + u64::from(far) * self.stride,
        }
    }

    /// Fills in the member sectors of all copies of an array sector.
    pub fn locate_copies(&self, sector: u64, places: &mut [MemberSector]) {
        for (copy, place) in (0..self.copies()).zip(places) {
            *place = self.locate(sector, copy);
        }
    }

    /// Sectors from this one to the chunk's end, where a request must be split; no limit if every member has every
    /// chunk.
    pub fn boundary(&self, sector: u64) -> u64 {
        if u64::from(self.near) == self.disks {
            return u64::MAX;
        }
        let chunk = 1 << self.shift;
        chunk - (sector & (chunk - 1))
    }

    /// The array sector that a member sector holds and the number of the copy, if any.
    pub fn array_sector(&self, place: MemberSector) -> Option<(u64, u32)> {
        if u64::from(place.slot) >= self.disks || place.sector >= self.used {
            return None;
        }
        let row = place.sector >> self.shift;
        let (row, far) = if self.offset {
            (row / self.rows, row % self.rows)
        } else {
            let section = self.stride >> self.shift;
            (row % section, row / section)
        };
        let first = self.unshifted.get((far * self.disks + u64::from(place.slot)) as usize)?;
        let chunk = row * self.disks + u64::from(*first);
        let (chunk, near) = (chunk / u64::from(self.near), chunk % u64::from(self.near));
        let sector = (chunk << self.shift) + (place.sector & ((1 << self.shift) - 1));
        (sector < self.capacity).then_some((sector, near as u32 * self.far + far as u32))
    }
}

/// The tables `shifted` and `unshifted`; none if copies would overlap.
fn shift_tables(disks: u32, near: u32, far: u32, set: u32) -> Option<(SlotTable, SlotTable)> {
    if set == 0 {
        return None;
    }
    // Members that fill no whole set join the last set.
    let leftover = disks % set;
    let last = (disks / set - 1) * set;
    let next = |slot: u32| {
        let moved = slot + near;
        if leftover > 0 && moved > last {
            (moved - last) % (set + leftover) + last
        } else {
            moved % set + slot / set * set
        }
    };
    let wide = disks as usize;
    let mut shifted: Vec<u32> = (0..disks).collect();
    let mut unshifted = shifted.clone();
    for far in 1..far as usize {
        let mut back = vec![u32::MAX; wide];
        for first in 0..wide {
            let slot = next(shifted[(far - 1) * wide + first]);
            if slot >= disks || std::mem::replace(&mut back[slot as usize], first as u32) != u32::MAX {
                return None;
            }
            shifted.push(slot);
        }
        unshifted.extend(back);
    }
    let mut seen = vec![false; wide];
    for first in 0..wide {
        seen.fill(false);
        for near in 0..near as usize {
            for far in 0..far as usize {
                let slot = shifted[far * wide + (first + near) % wide];
                if std::mem::replace(&mut seen[slot as usize], true) {
                    return None;
                }
            }
        }
    }
    Some((shifted.into(), unshifted.into()))
}
