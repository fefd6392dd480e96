//! md's levels (the kernel's personalities), one file each.

mod raid1;
mod raid10;
mod raid456;
#[cfg(test)]
mod tests;

use blklab_md::Level;
use blklab_md::map::ArrayMap;

use super::barrier::Barrier;
use super::member::{MemberSlot, Members};
use super::spec::{Md, SyncAction};
use super::stripes::StripeCache;
use super::sync::SyncPiece;
use crate::bio::Bio;
use crate::engine::{Child, Simulation};
use crate::kernel::Kernel;

/// How an array's sectors lie on its members, and which member I/Os its bios become (`struct md_personality`).
pub trait Personality {
    /// Submits a read, a write or a discard to the members. With parity, only reads that bypass the stripe cache.
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio);

    /// The redundancy that replaces lost members.
    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::None
    }

    /// Panics if anything is in flight.
    #[cfg(test)]
    fn assert_idle(&self) {}
}

/// The redundancy that replaces lost members.
pub enum Redundancy<'a> {
    None,                        // Nothing
    Copies(&'a dyn Mirror),      // Copies on other members
    Parity(&'a mut StripeCache), // Parity, with the stripe cache that calculates it
}

/// How a sync makes copies equal.
pub trait Mirror {
    /// The barrier between a sync and other bios.
    fn new_barrier(&self) -> Barrier;

    /// The end of the sync in sectors.
    fn sync_end(&self, action: SyncAction) -> u64;

    /// The reads and writes of the piece at `start`.
    fn plan_piece(&self, slots: &[MemberSlot], action: SyncAction, start: u64, end: u64) -> SyncPiece;
}

/// The parameters of a level.
pub struct LevelConfig<'a> {
    pub md: &'a Md, // The array
    pub level: Level,
    pub children: &'a [Option<Child>], // The members, by slot
    pub smallest: u64,                 // The smallest member's sectors
    pub kernel: Kernel,                // The kernel generation
}

impl LevelConfig<'_> {
    fn disks(&self) -> u32 {
        self.children.len() as u32
    }

    fn chunk(&self) -> u64 {
        self.md.chunk / 512
    }

    /// Where the array's sectors are. The error is one line.
    pub fn map(&self) -> Result<ArrayMap, String> {
        let size = |child: &Option<Child>| child.map_or(self.smallest, |child| child.limits.sectors);
        let sizes: Vec<u64> = self.children.iter().map(size).collect();
        ArrayMap::new(self.level, self.md.layout(), self.chunk(), &sizes).map_err(|error| error.to_string())
    }

    /// `queue/optimal_io_size` in sectors: a whole stripe of data (raid0.c, `blk_queue_io_opt`; raid10.c,
    /// `raid10_set_io_opt`; raid5.c, `raid5_set_io_opt`), otherwise the greatest of a member.
    pub fn io_opt(&self, map: &ArrayMap) -> u64 {
        match map {
            ArrayMap::Raid0(map) => map.chunk * u64::from(map.disks()),
            ArrayMap::Raid10(map) => map.chunk() * u64::from(map.disks()) / u64::from(map.near.max(1)),
            ArrayMap::Raid456(map) => map.chunk() * u64::from(map.data()),
            _ => self.children.iter().flatten().map(|child| child.limits.io_opt).max().unwrap_or(0),
        }
    }
}

/// Levels with a single copy of each sector, without parity: linear and RAID-0.
impl Personality for ArrayMap {
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for (sector, sectors) in pieces(bio, |sector| self.boundary(sector)) {
            members.submit_single_copy(sim, task, number, self.locate(sector), sectors);
        }
    }
}

/// Builds an array's level. The error is one line.
pub fn build(config: &LevelConfig) -> Result<Box<dyn Personality>, String> {
    Ok(match config.level {
        Level::Linear | Level::Raid0 => Box::new(config.map()?),
        Level::Raid1 => Box::new(raid1::Raid1 { sectors: config.smallest }),
        Level::Raid10 => Box::new(raid10::build(config)?),
        Level::Raid4 | Level::Raid5 | Level::Raid6 => Box::new(raid456::build(config)?),
    })
}

/// The pieces of a bio that end at boundaries, with their sectors; `boundary` is the distance to the next one.
#[inline]
fn pieces(bio: &Bio, boundary: impl Fn(u64) -> u64) -> impl Iterator<Item = (u64, u32)> {
    let (mut next, end) = (bio.sector, bio.end());
    std::iter::from_fn(move || {
        let sector = next;
        (sector < end).then(|| {
            next = end.min(sector.saturating_add(boundary(sector)));
            (sector, (next - sector) as u32)
        })
    })
}
