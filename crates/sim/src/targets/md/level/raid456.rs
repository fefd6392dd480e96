//! RAID-4, 5 and 6: striping with parity, and the stripe cache.

use super::{Level, LevelConfig, Personality, Redundancy, pieces};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::member::Members;
use crate::targets::md::parity::RmwLevel;
use crate::targets::md::spec::SyncAction;
use crate::targets::md::stripes::StripeCache;
use blklab_md::map::{self, ParityAlgorithm};

pub struct Raid456 {
    stripes: StripeCache,
}

pub fn build(config: &LevelConfig) -> Result<Raid456, String> {
    let (md, disks) = (config.md, config.disks());
    // Sets of members are 64-bit masks.
    if disks > 64 {
        return Err(format!("{disks} members: expected at most 64 with parity"));
    }
    // `raid5_set_cache_size`.
    if !(17..=32768).contains(&md.stripe_cache) {
        return Err(format!("stripe_cache {}: expected 17 to 32768 entries", md.stripe_cache));
    }
    if md.group_thread_cnt > 0 && !config.kernel.has_stripe_workers() {
        return Err("group_thread_cnt: expected Linux 3.12 or newer".into());
    }
    let map = map::Raid456Map::new(config.level, disks, ParityAlgorithm::default(), config.chunk(), config.smallest)
        .map_err(|e| e.to_string())?;
    let mask = |slots: &mut dyn Iterator<Item = bool>| {
        (0..).zip(slots).fold(0u64, |mask, (slot, is)| mask | u64::from(is) << slot)
    };
    let missing = mask(&mut config.children.iter().map(Option::is_none));
    let rebuilding = mask(&mut md.members.iter().map(|m| m.rebuilding)) & !missing;
    if md.rmw_level != 1 && !config.kernel.has_rmw_level() {
        return Err("rmw_level: expected Linux 4.1 or newer".into());
    }
    let rmw_level = match md.rmw_level {
        1 if config.level != Level::Raid6 || config.kernel.has_rmw_level() => RmwLevel::Fewer,
        0 | 1 => RmwLevel::Reconstruct,
        2 => RmwLevel::Modify,
        other => return Err(format!("rmw_level {other}: expected 0, 1 or 2")),
    };
    let mut stripes = StripeCache::new(map, md.stripe_cache, rmw_level, missing, rebuilding);
    stripes.delays_writes = config.kernel.delays_parity_writes();
    if md.sync == SyncAction::Resync {
        stripes.dirty_from = 0;
    }
    Ok(Raid456 { stripes })
}

impl Personality for Raid456 {
    /// Maps reads that need no parity (`chunk_aligned_read`).
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        let map = &self.stripes.map;
        for (sector, sectors) in pieces(bio, |sector| map.boundary(sector)) {
            members.submit_single_copy(sim, task, number, map.locate(sector), sectors);
        }
    }

    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::Parity(&mut self.stripes)
    }

    #[cfg(test)]
    fn assert_idle(&self) {
        self.stripes.assert_idle();
    }
}
