//! Linear: members one after the other.

use super::{LevelConfig, Personality, for_each_piece, refuse_lost_members};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::map;
use crate::targets::md::member::Members;

#[derive(Debug)]
pub struct Linear {
    map: map::LinearMap,
    io_opt: u64,
}

pub fn build(config: &LevelConfig) -> Result<Linear, String> {
    let map = map::LinearMap::new(&config.sizes(), config.chunk()).map_err(|e| e.to_string())?;
    Ok(Linear { map, io_opt: config.members_io_opt() })
}

impl Personality for Linear {
    fn sectors(&self) -> u64 {
        self.map.capacity()
    }

    fn io_opt(&self) -> u64 {
        self.io_opt
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
