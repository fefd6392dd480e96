//! RAID-1: every member holds everything.

use super::{Mirror, Personality, Redundancy};
use crate::bio::{Bio, Op};
use crate::engine::Simulation;
use crate::targets::md::balance;
use crate::targets::md::barrier::Barrier;
use crate::targets::md::member::{MemberSlot, Members};
use crate::targets::md::spec::SyncAction;
use crate::targets::md::sync::{BLOCK, SyncPiece};
use blklab_md::map::MemberSector;

pub struct Raid1 {
    pub sectors: u64,
}

impl Personality for Raid1 {
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        if bio.op != Op::Read {
            return members.submit_to_all(sim, task, number, bio.sector);
        }
        let first_only = bio.end() > members.synced;
        let (slot, reason) =
            balance::read_balance_raid1(members.kernel, &mut members.slots, bio.sector, bio.sectors, first_only);
        members.report.slots[slot].count(reason);
        let place = MemberSector { slot: slot as u32, sector: bio.sector };
        members.submit_part(sim, task, number, place, bio.sectors);
    }

    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::Copies(self)
    }
}

impl Mirror for Raid1 {
    fn new_barrier(&self) -> Barrier {
        Barrier::new(false)
    }

    fn sync_end(&self, _action: SyncAction) -> u64 {
        self.sectors
    }

    /// raid1.c, `raid1_sync_request`.
    fn plan_piece(&self, slots: &[MemberSlot], action: SyncAction, start: u64, end: u64) -> SyncPiece {
        let places = (0..slots.len() as u32).map(|slot| MemberSector { slot, sector: start });
        let slot = |place: &MemberSector| &slots[place.slot as usize];
        let sources = || places.clone().filter(|place| slot(place).readable);
        let first = sources().find(|place| !slot(place).write_mostly).or_else(|| sources().next());
        let (reads, writes): (Vec<MemberSector>, Vec<MemberSector>) = match action {
            SyncAction::Check => (sources().collect(), Vec::new()),
            SyncAction::Resync => {
                (first.into_iter().collect(), sources().filter(|place| Some(*place) != first).collect())
            }
            _ => {
                let rebuilt = places.clone().filter(|place| slot(place).is_rebuilding());
                (first.into_iter().collect(), rebuilt.collect())
            }
        };
        // If nothing must be written, nothing must be read.
        let reads = if action != SyncAction::Check && writes.is_empty() { Vec::new() } else { reads };
        SyncPiece { start, sectors: BLOCK.min(end - start), reads, writes }
    }
}
