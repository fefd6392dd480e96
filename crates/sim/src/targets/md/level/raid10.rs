//! RAID-10: striped copies, near each other, far from each other, or in the next stripe.

use super::{LevelConfig, Mirror, Personality, Redundancy, pieces};
use crate::bio::{Bio, Op};
use crate::engine::Simulation;
use crate::targets::md::balance;
use crate::targets::md::barrier::Barrier;
use crate::targets::md::member::{MemberSlot, Members};
use crate::targets::md::spec::SyncAction;
use crate::targets::md::sync::{BLOCK, SyncPiece};
use blklab_md::map::{self, MemberSector};

/// Copies of a chunk that fit into the array on the stack: more than any real layout has.
const MAX_COPIES: usize = 32;
const NOWHERE: MemberSector = MemberSector { slot: 0, sector: 0 };

pub struct Raid10 {
    map: map::Raid10Map,
}

pub fn build(config: &LevelConfig) -> Result<Raid10, String> {
    let (md, sets) = (config.md, map::FarSets::default());
    let map = map::Raid10Map::new(config.disks(), md.near, md.far, md.offset, sets, config.chunk(), config.smallest)
        .map_err(|e| e.to_string())?;
    if map.copies() as usize > MAX_COPIES {
        return Err(format!("{} copies: expected at most {MAX_COPIES}", map.copies()));
    }
    Ok(Raid10 { map })
}

impl Raid10 {
    fn map_piece(
        &self, members: &mut Members, sim: &mut Simulation, (task, number): (u32, u32), op: Op,
        (sector, sectors): (u64, u32),
    ) {
        let map = &self.map;
        // Clearing the larger array would cost more than everything else here.
        let (mut few_copies, mut many_copies);
        let copies: &mut [MemberSector] = if map.copies() > 4 {
            many_copies = [NOWHERE; MAX_COPIES];
            &mut many_copies
        } else {
            few_copies = [NOWHERE; 4];
            &mut few_copies
        };
        map.locate_copies(sector, copies);
        let copies = &copies[..map.copies() as usize];
        if op == Op::Read {
            let first_only = sector + u64::from(sectors) > members.synced;
            let (chosen, reason) =
                balance::read_balance_raid10(members.kernel, &members.slots, copies, map.near, map.far, first_only);
            members.report.slots[copies[chosen].slot as usize].count(reason);
            members.submit_part(sim, task, number, copies[chosen], sectors);
            return;
        }
        for &place in copies {
            members.submit_write(sim, task, number, place, sectors);
        }
    }

    fn copies(&self, sector: u64) -> Vec<MemberSector> {
        let mut copies = vec![NOWHERE; self.map.copies() as usize];
        self.map.locate_copies(sector, &mut copies);
        copies
    }
}

impl Personality for Raid10 {
    #[inline]
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for piece in pieces(bio, |sector| self.map.boundary(sector)) {
            self.map_piece(members, sim, (task, number), bio.op, piece);
        }
    }

    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::Copies(self)
    }
}

impl Mirror for Raid10 {
    fn new_barrier(&self) -> Barrier {
        Barrier::new(true)
    }

    /// A resync goes through the array, a recovery through each member.
    fn sync_end(&self, action: SyncAction) -> u64 {
        if action == SyncAction::Recover { self.map.used } else { self.map.capacity }
    }

    /// raid10.c, `raid10_sync_request`.
    fn plan_piece(&self, slots: &[MemberSlot], action: SyncAction, start: u64, end: u64) -> SyncPiece {
        let sectors = BLOCK.min(end - start).min(self.map.chunk() - start % self.map.chunk());
        let has_data = |place: &MemberSector| slots[place.slot as usize].readable;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        if action == SyncAction::Recover {
            for (slot, _) in (0..).zip(slots).filter(|(_, slot)| slot.is_rebuilding()) {
                let place = MemberSector { slot, sector: start };
                let Some((sector, _)) = self.map.array_sector(place) else { continue };
                if let Some(from) = self.copies(sector).into_iter().find(has_data) {
                    reads.push(from);
                    writes.push(place);
                }
            }
        } else {
            reads = self.copies(start);
            reads.retain(has_data);
        }
        // One copy needs no comparison, and if nothing must be written nothing must be read.
        if action != SyncAction::Check && writes.is_empty() && reads.len() <= 1 {
            reads.clear();
        }
        SyncPiece { start, sectors, reads, writes }
    }
}
