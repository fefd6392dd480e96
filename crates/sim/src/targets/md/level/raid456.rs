//! RAID-4, 5 and 6: striping with parity, and the stripe cache.

use super::{Level, Personality, Plan, Redundancy, for_each_piece};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::map::{self, Algorithm};
use crate::targets::md::member::Members;
use crate::targets::md::parity::Preference;
use crate::targets::md::spec::SyncAction;
use crate::targets::md::stripes::Stripes;

#[derive(Debug)]
pub struct Raid456 {
    stripes: Stripes,
}

pub fn build(plan: &Plan) -> Result<Raid456, String> {
    let (md, disks) = (plan.md, plan.disks());
    // Sets of members are masks of 64 bits.
    if disks > 64 {
        return Err(format!("{disks} members are too many with parity: 64 are the most"));
    }
    // `raid5_set_cache_size`.
    if !(17..=32768).contains(&md.stripe_cache) {
        return Err(format!("a stripe cache of {} entries: 17 to 32768 can be", md.stripe_cache));
    }
    let level = match plan.level {
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        _ => 6,
    };
    let map = map::Raid456::new(level, disks, Algorithm::default(), plan.chunk(), plan.smallest)
        .map_err(|e| e.to_string())?;
    let mask = |slots: &mut dyn Iterator<Item = bool>| {
        (0..).zip(slots).fold(0u64, |mask, (slot, is)| mask | u64::from(is) << slot)
    };
    let missing = mask(&mut plan.children.iter().map(Option::is_none));
    let rebuilding = mask(&mut md.members.iter().map(|m| m.rebuilding)) & !missing;
    let reconstructs = level == 6 && !plan.kernel.raid6_modifies();
    let preference = if reconstructs { Preference::Reconstruct } else { Preference::Fewer };
    let mut stripes = Stripes::new(map, md.stripe_cache, preference, missing, rebuilding);
    if md.sync == SyncAction::Resync {
        stripes.dirty_from = 0;
    }
    Ok(Raid456 { stripes })
}

impl Personality for Raid456 {
    fn sectors(&self) -> u64 {
        self.stripes.map.capacity()
    }

    /// A whole stripe of data (raid5.c, `raid5_set_io_opt`).
    fn io_opt(&self) -> u64 {
        self.stripes.map.chunk() * u64::from(self.stripes.map.data())
    }

    fn check_lost(&self, lost: &[u32]) -> Result<(), String> {
        let (lost, parities) = (lost.len() as u32, self.stripes.map.disks() - self.stripes.map.data());
        if lost > parities {
            return Err(format!("{lost} members are lost, {parities} can be"));
        }
        Ok(())
    }

    /// Reads that need no parity (`chunk_aligned_read`).
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        let map = &self.stripes.map;
        for_each_piece(
            bio,
            |sector| map.boundary(sector),
            |sector, sectors| {
                members.submit_only(sim, task, number, map.place(sector), sectors);
            },
        );
    }

    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::Parity(&mut self.stripes)
    }

    #[cfg(test)]
    fn assert_idle(&self) {
        self.stripes.assert_idle();
    }
}
