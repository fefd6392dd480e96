//! From a description to an array: layouts, capacities, members.

use super::bitmap::Bitmap;
use super::map::{Algorithm, Raid456};
use super::member::Slot;
use super::parity::Preference;
use super::stripes::Stripes;
use super::sync::Sync;
use super::{Array, Layout, MAX_COPIES, balance, map};
use crate::bio::NONE;
use crate::cell::{self, Level, Md};
use crate::kernel::Kernel;
use crate::outcome::{ArrayStats, SlotStats};
use crate::world::Built;

/// Members of an array: their slots are kept in a byte.
const MOST_MEMBERS: usize = 255;

impl Array {
    /// An array of these members, as node `node`. The error is one line.
    pub fn new(md: &Md, members: &[Option<Built>], node: u16, kernel: Kernel) -> Result<Self, String> {
        let error = |why: String| format!("{}: {why}", md.name);
        let disks = members.len() as u32;
        let smallest = members.iter().flatten().map(|m| m.sectors).min();
        let smallest = smallest.ok_or_else(|| error("has no members".into()))?;
        if members.len() > MOST_MEMBERS {
            return Err(error(format!("{} members: {MOST_MEMBERS} are the most", members.len())));
        }
        let chunk = md.chunk / 512;
        let all: Vec<u64> = members.iter().flatten().map(|m| m.sectors).collect();
        let (layout, sectors) = match md.level {
            Level::Raid1 => (Layout::Raid1, smallest),
            Level::Raid10 => {
                let map = map::Raid10::new(
                    disks,
                    md.near,
                    md.far,
                    md.offset,
                    map::FarSets::default(),
                    chunk,
                    smallest,
                )
                .map_err(|e| error(e.to_string()))?;
                if map.copies() as usize > MAX_COPIES {
                    return Err(error(format!("{} copies: {MAX_COPIES} are the most", map.copies())));
                }
                let sectors = map.capacity();
                (Layout::Raid10(map), sectors)
            }
            Level::Raid0 => {
                let map = map::Raid0::new(&all, chunk, map::ZoneLayout::default())
                    .map_err(|e| error(e.to_string()))?;
                let sectors = map.capacity();
                (Layout::Raid0(map), sectors)
            }
            Level::Linear => {
                let map = map::Linear::new(&all, chunk).map_err(|e| error(e.to_string()))?;
                let sectors = map.capacity();
                (Layout::Linear(map), sectors)
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let stripes = stripes(md, members, chunk, smallest, kernel).map_err(error)?;
                let sectors = stripes.map.capacity();
                (Layout::Raid456(Box::new(stripes)), sectors)
            }
        };
        let slots = members.iter().zip(&md.members).map(|(built, member)| Slot {
            node: built.map_or(0, |b| b.node),
            present: built.is_some(),
            readable: built.is_some() && !member.rebuilding,
            write_mostly: member.write_mostly,
            rotational: built.is_none_or(|b| b.rotational),
            optimal: built.map_or(0, |b| b.optimal),
            pending: 0,
            head: 0,
            moved: 0,
            synced: 0,
            next_seq: u64::MAX,
            seq_start: u64::MAX,
        });
        let (near, far) = if md.level == Level::Raid10 { (md.near, md.far) } else { (1, 1) };
        let stats = ArrayStats {
            name: md.name.clone(),
            slots: vec![SlotStats::default(); members.len()],
            ..ArrayStats::default()
        };
        let synced = if md.sync == cell::Sync::Resync { 0 } else { u64::MAX };
        let (mut sync, mut barrier) = (None, None);
        // `md_bitmap_read_sb`.
        if md.bitmap && (md.bitmap_chunk < 4096 || !md.bitmap_chunk.is_power_of_two()) {
            let chunk = md.bitmap_chunk;
            return Err(error(format!(
                "a bitmap chunk of {chunk} bytes: a power of two from 4096 on can be"
            )));
        }
        let redundant = !matches!(layout, Layout::Linear(_) | Layout::Raid0(_));
        if md.sync != cell::Sync::Idle && redundant {
            // RAID-10 is resynced through the array, everything else member by member.
            let end = match &layout {
                Layout::Raid10(map) if md.sync == cell::Sync::Recover => map.used(),
                Layout::Raid456(stripes) => stripes.map.used(),
                _ => sectors,
            };
            sync = Some(Box::new(Sync::new(md, end)));
            barrier = Self::barrier_for(&layout);
        }
        let bitmap = (md.bitmap && redundant).then(|| Box::new(Bitmap::new(md.bitmap_chunk / 512)));
        let mut array = Self {
            node,
            kernel,
            layout,
            near,
            far,
            passes_on: !redundant,
            slots: slots.collect(),
            sectors,
            synced,
            gated: false,
            thread: NONE,
            bitmap,
            sync,
            barrier,
            stats,
        };
        array.survives().map_err(error)?;
        array.gated = array.needs_gate();
        Ok(array)
    }

    /// The kernel has looked for partitions when the array was first opened: its first page was read, so a RAID-1's
    /// first member has moved on, and a stream from sector 0 finds the next one's head there (block/partitions/core.c,
    /// `read_balance` of raid1.c). RAID-10 has no such memory: of idle copies, it takes the first or the lowest.
    pub fn look_for_partitions(&mut self) {
        if matches!(self.layout, Layout::Raid1) {
            let page = (self.sectors.min(8)) as u32;
            let (slot, _) = balance::raid1(self.kernel, &mut self.slots, 0, page, self.synced == 0);
            self.slots[slot].head = u64::from(page);
        }
    }
}

/// The stripe cache of an array with parity.
fn stripes(
    md: &Md,
    members: &[Option<Built>],
    chunk: u64,
    smallest: u64,
    kernel: Kernel,
) -> Result<Stripes, String> {
    // Sets of members are masks of 64 bits.
    if members.len() > 64 {
        return Err(format!("{} members are too many with parity: 64 are the most", members.len()));
    }
    // `raid5_set_cache_size`.
    if !(17..=32768).contains(&md.stripe_cache) {
        return Err(format!("a stripe cache of {} entries: 17 to 32768 can be", md.stripe_cache));
    }
    let level = match md.level {
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        _ => 6,
    };
    let map = Raid456::new(level, members.len() as u32, Algorithm::default(), chunk, smallest)
        .map_err(|e| e.to_string())?;
    let mask = |slots: &mut dyn Iterator<Item = bool>| {
        (0..).zip(slots).fold(0u64, |mask, (slot, is)| mask | u64::from(is) << slot)
    };
    let missing = mask(&mut members.iter().map(Option::is_none));
    let rebuilding = mask(&mut md.members.iter().map(|m| m.rebuilding)) & !missing;
    let preference =
        if level == 6 && !kernel.raid6_modifies() { Preference::Reconstruct } else { Preference::Fewer };
    let mut stripes = Stripes::new(map, md.stripe_cache, preference, missing, rebuilding);
    if md.sync == cell::Sync::Resync {
        stripes.dirty_from = 0;
    }
    Ok(stripes)
}
