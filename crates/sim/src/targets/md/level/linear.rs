//! Linear: members one after the other.

use super::{Personality, Plan, for_each_piece, need_all};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::map;
use crate::targets::md::member::Members;

#[derive(Debug)]
pub struct Linear {
    map: map::Linear,
    io_opt: u64,
}

pub fn build(plan: &Plan) -> Result<Linear, String> {
    let map = map::Linear::new(&plan.sizes(), plan.chunk()).map_err(|e| e.to_string())?;
    Ok(Linear { map, io_opt: plan.members_io_opt() })
}

impl Personality for Linear {
    fn sectors(&self) -> u64 {
        self.map.capacity()
    }

    fn io_opt(&self) -> u64 {
        self.io_opt
    }

    fn check_lost(&self, lost: &[u32]) -> Result<(), String> {
        need_all(lost)
    }

    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for_each_piece(
            bio,
            |sector| self.map.boundary(sector),
            |sector, sectors| {
                members.submit_only(sim, task, number, self.map.place(sector), sectors);
            },
        );
    }
}
