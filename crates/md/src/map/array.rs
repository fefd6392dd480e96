//! An array of any level: how much it holds, what a member has, and which members it needs.

use super::{FarSets, LinearMap, MapError, MemberSector, ParityAlgorithm, Raid0Map, Raid10Map, Raid456Map, ZoneLayout};
use crate::Level;

/// The map of an array of any level.
#[derive(Clone, Debug)]
pub enum ArrayMap {
    /// Members one after the other.
    Linear(LinearMap),
    /// Striping.
    Raid0(Raid0Map),
    /// Mirroring: a sector of the array is the same sector of every member.
    Raid1 {
        disks: u32,   // The number of members
        sectors: u64, // Sectors of the array
    },
    /// Striped mirroring.
    Raid10(Raid10Map),
    /// Striping with parity.
    Raid456(Raid456Map),
}

impl ArrayMap {
    /// A map over members of these sizes. `layout` is the word in the superblock; levels without one ignore it.
    pub fn new(level: Level, layout: u32, chunk_sectors: u64, members: &[u64]) -> Result<Self, MapError> {
        let disks = members.len() as u32;
        let smallest = *members.iter().min().ok_or(MapError::TooFewMembers { needed: 1, disks: 0 })?;
        Ok(match level {
            Level::Linear => Self::Linear(LinearMap::new(members, 0)?),
            Level::Raid0 => Self::Raid0(Raid0Map::new(members, chunk_sectors, ZoneLayout::default())?),
            Level::Raid1 => Self::Raid1 { disks, sectors: smallest },
            Level::Raid10 => {
                let sets = match layout >> 17 {
                    0 => FarSets::Whole,
                    1 => FarSets::Divided,
                    2 => FarSets::Copies,
                    _ => return Err(MapError::UnknownLayout(layout)),
                };
                let (near, far, offset) = (layout & 0xff, layout >> 8 & 0xff, layout >> 16 & 1 == 1);
                Self::Raid10(Raid10Map::new(disks, near, far, offset, sets, chunk_sectors, smallest)?)
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let layout = if level == Level::Raid4 { 5 } else { layout };
                let algorithm = ParityAlgorithm::from_layout(layout).ok_or(MapError::UnknownLayout(layout))?;
                Self::Raid456(Raid456Map::new(level, disks, algorithm, chunk_sectors, smallest)?)
            }
        })
    }

    /// Sectors of the array.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Linear(map) => map.capacity(),
            Self::Raid0(map) => map.capacity,
            Self::Raid1 { sectors, .. } => *sectors,
            Self::Raid10(map) => map.capacity,
            Self::Raid456(map) => map.capacity,
        }
    }

    /// The member sector of an array sector, which must be below the capacity: of the first copy.
    pub fn locate(&self, sector: u64) -> MemberSector {
        match self {
            Self::Linear(map) => map.locate(sector),
            Self::Raid0(map) => map.locate(sector),
            Self::Raid1 { .. } => MemberSector { slot: 0, sector },
            Self::Raid10(map) => map.locate(sector, 0),
            Self::Raid456(map) => map.locate(sector),
        }
    }

    /// Sectors from this one to where a request must be split.
    pub fn boundary(&self, sector: u64) -> u64 {
        match self {
            Self::Linear(map) => map.boundary(sector),
            Self::Raid0(map) => map.boundary(sector),
            Self::Raid1 { .. } => u64::MAX,
            Self::Raid10(map) => map.boundary(sector),
            Self::Raid456(map) => map.boundary(sector),
        }
    }

    /// The array sector that a member sector holds, if any: parity and the rest of a member hold none.
    pub fn array_sector(&self, place: MemberSector) -> Option<u64> {
        match self {
            Self::Linear(map) => map.array_sector(place),
            Self::Raid0(map) => map.array_sector(place),
            Self::Raid1 { disks, sectors } => (place.slot < *disks && place.sector < *sectors).then_some(place.sector),
            Self::Raid10(map) => map.array_sector(place).map(|(sector, _)| sector),
            Self::Raid456(map) => map.array_sector(place),
        }
    }

    /// The first array sector of the stripe that has a member sector: its writes change the stripe's parity.
    pub fn first_of_stripe(&self, place: MemberSector) -> Option<u64> {
        let Self::Raid456(map) = self else { return None };
        let (stripe, within_chunk) = (place.sector / map.chunk(), place.sector % map.chunk());
        (place.sector < map.used).then(|| stripe * u64::from(map.data()) * map.chunk() + within_chunk)
    }

    /// Sectors from this member sector on that lie together in the array, or hold no data of it together.
    pub fn member_boundary(&self, sector: u64) -> u64 {
        match self {
            Self::Linear(_) => u64::MAX,
            Self::Raid1 { sectors, .. } => sectors.checked_sub(sector).filter(|&left| left > 0).unwrap_or(u64::MAX),
            Self::Raid0(map) => map.chunk - sector % map.chunk,
            Self::Raid10(map) => map.chunk() - sector % map.chunk(),
            Self::Raid456(map) => map.chunk() - sector % map.chunk(),
        }
    }

    /// The slots that have a copy of an array sector or a part of its stripe. The sector must be below the capacity.
    pub fn slots(&self, sector: u64) -> Vec<u32> {
        match self {
            Self::Linear(_) | Self::Raid0(_) => vec![self.locate(sector).slot],
            Self::Raid1 { disks, .. } => (0..*disks).collect(),
            Self::Raid10(map) => (0..map.copies()).map(|copy| map.locate(sector, copy).slot).collect(),
            Self::Raid456(map) => (0..map.disks()).collect(),
        }
    }

    /// An error, in one line, if the array loses data without the members of these slots.
    pub fn check_lost(&self, lost: &[u32]) -> Result<(), String> {
        match self {
            Self::Linear(_) | Self::Raid0(_) => match lost.first() {
                Some(slot) => Err(format!("slot {slot} is lost, and this level has no redundancy")),
                None => Ok(()),
            },
            Self::Raid1 { disks, .. } if lost.len() as u32 >= *disks => Err("no member has valid data".into()),
            // The pattern of slots repeats after as many chunks as there are members.
            Self::Raid10(map) => (0..(map.capacity / map.chunk()).min(u64::from(map.disks()))).try_for_each(|chunk| {
                let slots = self.slots(chunk * map.chunk());
                if slots.iter().any(|slot| !lost.contains(slot)) {
                    return Ok(());
                }
                let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
                Err(format!("slots {} are lost, and they hold all copies of some chunks", slots.join(", ")))
            }),
            Self::Raid456(map) if lost.len() as u32 > map.disks() - map.data() => {
                let (lost, parities) = (lost.len(), map.disks() - map.data());
                Err(format!("{lost} members are lost, but the level tolerates only {parities}"))
            }
            _ => Ok(()),
        }
    }
}
