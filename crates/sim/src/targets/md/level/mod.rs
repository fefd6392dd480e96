//! md's levels (the kernel's personalities).

#[cfg(test)]
mod tests;

use super::admission::Barrier;
use super::balance;
use super::member::{MemberSlot, Members};
use super::parity::RmwLevel;
use super::spec::{Md, SyncAction};
use super::stripes::StripeCache;
use super::sync::{BLOCK, SyncPiece};
use crate::bio::{Bio, Op};
use crate::engine::{Child, Simulation};
use crate::kernel::Kernel;
use blklab_md::Level;
use blklab_md::map::{self, ArrayMap, MemberSector, ParityAlgorithm};

/// How an array's sectors lie on its members, and which member I/Os its bios become (`struct md_personality`).
pub trait Personality {
    /// Submits a read, a write or a discard to the members. With parity, only reads that bypass the stripe cache.
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio);

    /// The redundancy that replaces lost members.
    fn redundancy(&mut self) -> Redundancy<'_> {
        Redundancy::None
    }
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

    /// Where the array's sectors are. The error is one line.
    pub fn map(&self) -> Result<ArrayMap, String> {
        let size = |child: &Option<Child>| child.map_or(self.smallest, |child| child.limits.sectors);
        let sizes: Vec<u64> = self.children.iter().map(size).collect();
        ArrayMap::new(self.level, self.md.layout(), self.chunk(), &sizes).map_err(|error| error.to_string())
    }

    /// Sectors of the chunks at whose limits bios are split; 0 if there are none.
    pub fn split_chunk(&self) -> u64 {
        match self.level {
            Level::Linear | Level::Raid1 => {
                self.children.iter().flatten().map(|child| child.limits.chunk).max().unwrap_or(0)
            }
            _ => self.chunk(),
        }
    }

    /// `queue/optimal_io_size` in sectors: a whole stripe of data (raid0.c, `blk_queue_io_opt`; raid10.c,
    /// `raid10_set_io_opt`; raid5.c, `raid5_set_io_opt`), otherwise the greatest of a member.
    pub fn io_opt(&self, map: &ArrayMap) -> u64 {
        match map {
            ArrayMap::Raid0(map) => map.chunk * u64::from(map.disks()),
            ArrayMap::Raid10(map) => map.chunk() * u64::from(map.disks()) / u64::from(map.near.max(1)),
            ArrayMap::Raid456(map) => map.chunk() * u64::from(map.data()),
            _ => self.children.iter().flatten().map(|child| child.limits.io_opt).max().unwrap_or(0),
        }
    }
}

/// Levels with a single copy of each sector, without parity: linear and RAID-0.
impl Personality for ArrayMap {
    fn map(&mut self, members: &mut Members, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) {
        for (sector, sectors) in pieces(bio, |sector| self.boundary(sector)) {
            members.submit_single_copy(sim, task, number, self.locate(sector), sectors);
        }
    }
}

/// Builds an array's level. The error is one line.
pub fn build(config: &LevelConfig) -> Result<Box<dyn Personality>, String> {
    Ok(match config.level {
        Level::Linear | Level::Raid0 => Box::new(config.map()?),
        Level::Raid1 => Box::new(Raid1 { sectors: config.smallest }),
        Level::Raid10 => Box::new(Raid10::new(config)?),
        Level::Raid4 | Level::Raid5 | Level::Raid6 => Box::new(Raid456::new(config)?),
    })
}

/// The pieces of a bio that end at boundaries, with their sectors; `boundary` is the distance to the next one.
#[inline]
fn pieces(bio: &Bio, boundary: impl Fn(u64) -> u64) -> impl Iterator<Item = (u64, u32)> {
    let (mut next, end) = (bio.sector, bio.end());
    std::iter::from_fn(move || {
        let sector = next;
        (sector < end).then(|| {
            next = end.min(sector.saturating_add(boundary(sector)));
            (sector, (next - sector) as u32)
        })
    })
}

// RAID-1: every member holds everything.

struct Raid1 {
    sectors: u64,
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

// RAID-4, 5 and 6: striping with parity, and the stripe cache.

struct Raid456 {
    stripes: StripeCache,
}

impl Raid456 {
    fn new(config: &LevelConfig) -> Result<Raid456, String> {
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
        let map =
            map::Raid456Map::new(config.level, disks, ParityAlgorithm::default(), config.chunk(), config.smallest)
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
}

// RAID-10: striped copies, near each other, far from each other, or in the next stripe.

/// Copies of a chunk that fit into the array on the stack: more than any real layout has.
const MAX_COPIES: usize = 32;
const NOWHERE: MemberSector = MemberSector { slot: 0, sector: 0 };

struct Raid10 {
    map: map::Raid10Map,
}

impl Raid10 {
    fn new(config: &LevelConfig) -> Result<Raid10, String> {
        let (md, sets) = (config.md, map::FarSets::default());
        let map =
            map::Raid10Map::new(config.disks(), md.near, md.far, md.offset, sets, config.chunk(), config.smallest)
                .map_err(|e| e.to_string())?;
        if map.copies() as usize > MAX_COPIES {
            return Err(format!("{} copies: expected at most {MAX_COPIES}", map.copies()));
        }
        Ok(Raid10 { map })
    }

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
