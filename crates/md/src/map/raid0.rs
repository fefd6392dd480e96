//! RAID-0: striping, in zones when members are unequal.
//!
//! drivers/md/raid0.c, `create_strip_zones`, `find_zone` and `map_sector` (Linux 6.1). Members are used up to a
//! multiple of the chunk. The first zone stripes over all of them up to the end of the smallest one, the next zone
//! over the larger ones, and so on.

use super::{MapError, MemberSector, check_whole_pages};

/// Which member of a zone (except the first zone) has its first chunk.
///
/// Kernels before 3.14 count chunks from the beginning of the array, later ones from that of the zone,
/// unintentionally. 5.4 and later follow the superblock, or `raid0.default_layout` if it has no layout. mdadm 4.2
/// writes the original layout by default. The first zone is the same in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneLayout {
    /// 1, and before 3.14: by the number of the chunk in the array.
    #[default]
    Original,
    Alternate, // 2, and from 3.14 to 5.3: by the number of the chunk in the zone
}

/// A range in which the same members are striped.
#[derive(Clone, Debug)]
struct StripZone {
    start: u64, // The array sectors of the zone: first, and behind the last
    end: u64,
    member_start: u64, // Where the zone begins on its members
    slots: Box<[u32]>, // Its members
}

/// The map of a RAID-0.
#[derive(Clone, Debug)]
pub struct Raid0Map {
    zones: Box<[StripZone]>,
    pub chunk: u64, // Sectors in a chunk
    layout: ZoneLayout,
    pub capacity: u64, // Sectors of the array
}

impl Raid0Map {
    /// A map over members of these sizes.
    pub fn new(members: &[u64], chunk_sectors: u64, layout: ZoneLayout) -> Result<Self, MapError> {
        let chunk = check_whole_pages(chunk_sectors)?;
        if members.is_empty() {
            return Err(MapError::TooFewMembers { needed: 1, disks: 0 });
        }
        if let Some(&sectors) = members.iter().find(|&&sectors| sectors < chunk) {
            return Err(MapError::MemberTooSmall(sectors));
        }
        let used: Vec<u64> = members.iter().map(|&sectors| sectors - sectors % chunk).collect();
        used.iter().try_fold(0u64, |sum, &sectors| sum.checked_add(sectors)).ok_or(MapError::TooLarge)?;
        let (mut start, mut member_start) = (0, 0);
        let mut zones = Vec::new();
        while let Some(&member_end) = used.iter().filter(|&&sectors| sectors > member_start).min() {
            let slots: Box<[u32]> =
                (0..).zip(&used).filter(|&(_, &sectors)| sectors > member_start).map(|(slot, _)| slot).collect();
            let end = start + (member_end - member_start) * slots.len() as u64;
            zones.push(StripZone { start, end, member_start, slots });
            (start, member_start) = (end, member_end);
        }
        // raid0_size rounds with a mask that is meant for powers of two; other chunks lose a little more.
        let capacity = used.iter().map(|sectors| sectors & !(chunk - 1)).sum();
        Ok(Self { zones: zones.into(), chunk, layout, capacity })
    }

    /// How many members there are.
    pub fn disks(&self) -> u32 {
        self.zones[0].slots.len() as u32
    }

    /// The member sector of an array sector, which must be below the capacity.
    pub fn locate(&self, sector: u64) -> MemberSector {
        // Most arrays have one zone, and none has more zones than members.
        let mut index = 0;
        while sector >= self.zones[index].end {
            index += 1;
        }
        let zone = &self.zones[index];
        let width = zone.slots.len() as u64;
        let inside = sector - zone.start;
        let (chunk, within_chunk) = (inside / self.chunk, inside % self.chunk);
        let turn = match self.layout {
            ZoneLayout::Original => sector / self.chunk,
            ZoneLayout::Alternate => chunk,
        };
        MemberSector {
            slot: zone.slots[(turn % width) as usize],
            sector: zone.member_start + chunk / width * self.chunk + within_chunk,
        }
    }

    /// Sectors from this one to the chunk's end, where a request must be split.
    pub fn boundary(&self, sector: u64) -> u64 {
        self.chunk - sector % self.chunk
    }

    /// The array sector that a member sector holds, if any.
    pub fn array_sector(&self, place: MemberSector) -> Option<u64> {
        let zone = self.zones.iter().rev().find(|zone| zone.member_start <= place.sector)?;
        let position = zone.slots.iter().position(|&slot| slot == place.slot)? as u64;
        let width = zone.slots.len() as u64;
        let inside = place.sector - zone.member_start;
        let row = inside / self.chunk;
        // The original layout begins a row in the middle of the members.
        let first = match self.layout {
            ZoneLayout::Original => (zone.start / self.chunk + row * width) % width,
            ZoneLayout::Alternate => 0,
        };
        let turn = (position + width - first) % width;
        let sector = zone.start + (row * width + turn) * self.chunk + inside % self.chunk;
        (sector < zone.end.min(self.capacity)).then_some(sector)
    }
}
