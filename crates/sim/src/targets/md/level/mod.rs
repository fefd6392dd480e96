//! md's levels (the kernel's personalities), one file each.

mod raid1;
mod raid10;
mod raid456;
mod single_copy;
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
    /// How much the array holds.
    fn sectors(&self) -> u64;

    /// `queue/optimal_io_size` in sectors.
    fn io_opt(&self) -> u64;

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

    /// The greatest `io_opt` of a member.
    fn members_io_opt(&self) -> u64 {
        self.children.iter().flatten().map(|child| child.limits.io_opt).max().unwrap_or(0)
    }
}

/// Builds an array's level. The error is one line.
pub fn build(config: &LevelConfig) -> Result<Box<dyn Personality>, String> {
    Ok(match config.level {
        Level::Linear | Level::Raid0 => Box::new(single_copy::build(config)?),
        Level::Raid1 => Box::new(raid1::build(config)?),
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
