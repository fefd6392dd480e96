//! md's levels (the kernel's personalities), one file each, and their registry.

mod linear;
mod raid0;
mod raid1;
mod raid10;
mod raid456;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::barrier::Barrier;
use super::member::{MemberSlot, Members};
use super::spec::{Md, SyncAction};
use super::stripes::StripeCache;
use super::sync::SyncPiece;
use crate::bio::Bio;
use crate::engine::{Child, Simulation};
use crate::kernel::Kernel;

/// How an array's sectors lie on its members, and which member I/Os its bios become (`struct md_personality`).
pub trait Personality: Debug {
    /// How much the array holds.
    fn sectors(&self) -> u64;

    /// `queue/optimal_io_size` in sectors.
    fn io_opt(&self) -> u64;

    /// An error, in one line, if the array loses data without these members.
    fn check_lost(&self, lost: &[u32]) -> Result<(), String>;

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

    /// The members' sectors.
    fn sizes(&self) -> Vec<u64> {
        self.children.iter().flatten().map(|child| child.limits.sectors).collect()
    }

    /// The greatest `io_opt` of a member.
    fn members_io_opt(&self) -> u64 {
        self.children.iter().flatten().map(|child| child.limits.io_opt).max().unwrap_or(0)
    }
}

/// The registry of levels: the name (in documents in lower case), and what builds one.
macro_rules! levels {
    ($($(#[$doc:meta])* $level:ident: $build:path;)+) => {
        /// md's levels.
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Level {
            $($(#[$doc])* $level,)+
        }

        /// Builds an array's level. The error is one line.
        pub fn build(config: &LevelConfig) -> Result<Box<dyn Personality>, String> {
            match config.level {
                $(Level::$level => $build(config).map(|level| Box::new(level) as _),)+
            }
        }
    };
}

levels! {
    /// Members one after the other.
    Linear: linear::build;
    /// Striping.
    Raid0: raid0::build;
    /// Mirroring.
    Raid1: raid1::build;
    /// Striped mirroring, by layout.
    Raid10: raid10::build;
    /// Parity on the last member.
    Raid4: raid456::build;
    /// Rotating parity, left-symmetric.
    Raid5: raid456::build;
    /// Two rotating parities, left-symmetric.
    Raid6: raid456::build;
}

/// Refuses lost members: the level has no redundancy.
fn refuse_lost_members(lost: &[u32]) -> Result<(), String> {
    match lost.first() {
        Some(slot) => Err(format!("slot {slot} is lost, and this level has no redundancy")),
        None => Ok(()),
    }
}

/// Calls `each` with the pieces of a bio that end at boundaries; `boundary` is the distance to the next one.
#[inline]
fn for_each_piece(bio: &Bio, boundary: impl Fn(u64) -> u64, mut each: impl FnMut(u64, u32)) {
    let mut sector = bio.sector;
    while sector < bio.end() {
        let sectors = boundary(sector).min(bio.end() - sector) as u32;
        each(sector, sectors);
        sector += u64::from(sectors);
    }
}
