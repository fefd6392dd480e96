//! Levels with a single copy of each sector, without parity: linear and RAID-0.

use blklab_md::map::ArrayMap;

use super::{LevelConfig, Personality, pieces};
use crate::bio::Bio;
use crate::engine::Simulation;
use crate::targets::md::member::Members;

pub struct SingleCopy {
    map: ArrayMap,
    io_opt: u64,
}

pub fn build(config: &LevelConfig) -> Result<SingleCopy, String> {
    let map = config.map()?;
    let io_opt = match &map {
        ArrayMap::Raid0(map) => map.chunk * u64::from(map.disks()), // a whole stripe (raid0.c, `blk_queue_io_opt`)
        _ => config.members_io_opt(),
    };
    Ok(SingleCopy { map, io_opt })
}

impl Personality for SingleCopy {
    fn sectors(&self) -> u64 {
        self.map.capacity()
    }

    fn io_opt(&self) -> u64 {
        self.io_opt
    }

    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for (sector, sectors) in pieces(bio, |sector| self.map.boundary(sector)) {
            members.submit_single_copy(sim, task, number, self.map.locate(sector), sectors);
        }
    }
}
