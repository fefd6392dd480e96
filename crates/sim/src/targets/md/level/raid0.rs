//! RAID-0: striping.

use super::{LevelConfig, Personality, for_each_piece, refuse_lost_members};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::map;
use crate::targets::md::member::Members;

#[derive(Debug)]
pub struct Raid0 {
    map: map::Raid0Map,
}

pub fn build(config: &LevelConfig) -> Result<Raid0, String> {
    let map = map::Raid0Map::new(&config.sizes(), config.chunk(), map::ZoneLayout::default());
    Ok(Raid0 { map: map.map_err(|e| e.to_string())? })
}

impl Personality for Raid0 {
    fn sectors(&self) -> u64 {
        self.map.capacity()
    }

    /// A whole stripe (raid0.c, `blk_queue_io_opt`).
    fn io_opt(&self) -> u64 {
        self.map.chunk() * u64::from(self.map.disks())
    }

    fn check_lost(&self, lost: &[u32]) -> Result<(), String> {
        refuse_lost_members(lost)
    }

    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for_each_piece(
            bio,
            |sector| self.map.boundary(sector),
            |sector, sectors| {
                members.submit_single_copy(sim, task, number, self.map.locate(sector), sectors);
            },
        );
    }
}
