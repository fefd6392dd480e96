//! md's levels (the kernel's personalities): one file each, and their registry.

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
use super::member::{Members, Slot};
use super::spec::{Md, SyncAction};
use super::stripes::Stripes;
use super::sync::Piece;
use crate::bio::Bio;
use crate::engine::{Child, Simulation};
use crate::kernel::Kernel;

/// How an array's sectors lie on its members, and what its bios become (`struct md_personality`).
pub trait Personality: Debug {
    /// How much the array holds.
    fn sectors(&self) -> u64;

    /// `queue/optimal_io_size` in sectors.
    fn io_opt(&self) -> u64;

    /// What is gone if these members are lost, in one line.
    fn check_lost(&self, lost: &[u32]) -> Result<(), String>;

    /// Submits what becomes of a read, a write or a discard at the members. With parity, it is one that goes around
    /// the stripe cache.
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio);

    /// What makes up for members that are lost.
    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::None
    }

    /// Fails unless nothing is under way.
    #[cfg(test)]
    fn assert_idle(&self) {}
}

/// What makes up for members that are lost.
pub enum Redundancy<'a> {
    /// Nothing.
    None,
    /// Copies on other members.
    Copies(&'a dyn Mirror),
    /// Parity, and the cache in which it is reckoned.
    Parity(&'a mut Stripes),
}

/// How copies are made equal.
pub trait Mirror {
    /// What keeps others away from a sync.
    fn barrier(&self) -> Barrier;

    /// Sectors that this action goes through.
    fn sync_end(&self, action: SyncAction) -> u64;

    /// What is read and written of the piece at `start`.
    fn piece(&self, slots: &[Slot], action: SyncAction, start: u64, end: u64) -> Piece;
}

/// What a level is built from.
pub struct Plan<'a> {
    /// The array.
    pub md: &'a Md,
    /// Its level.
    pub level: Level,
    /// The members, by slot.
    pub children: &'a [Option<Child>],
    /// The smallest member's sectors.
    pub smallest: u64,
    /// The kernel generation.
    pub kernel: Kernel,
}

impl Plan<'_> {
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
        pub fn build(plan: &Plan) -> Result<Box<dyn Personality>, String> {
            match plan.level {
                $(Level::$level => $build(plan).map(|level| Box::new(level) as _),)+
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

/// Levels without redundancy have nothing to make up for a lost member.
fn need_all(lost: &[u32]) -> Result<(), String> {
    match lost.first() {
        Some(slot) => Err(format!("slot {slot} is lost, and the level has no copies")),
        None => Ok(()),
    }
}

/// Calls `each` with the pieces of a bio that end at the boundaries: `room` says how far the next one is.
#[inline]
fn for_each_piece(bio: &Bio, room: impl Fn(u64) -> u64, mut each: impl FnMut(u64, u32)) {
    let mut sector = bio.sector;
    while sector < bio.end() {
        let sectors = room(sector).min(bio.end() - sector) as u32;
        each(sector, sectors);
        sector += u64::from(sectors);
    }
}
