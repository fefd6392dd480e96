//! From a description to an array: layouts, capacities, members.

use super::member::Slot;
use super::{Array, Layout, MAX_COPIES, map};
use crate::cell::{Level, Md, Sync};
use crate::kernel::Kernel;
use crate::outcome::{ArrayStats, SlotStats};
use crate::world::Built;

impl Array {
    /// An array of these members, as node `node`. The error is one line.
    pub fn new(md: &Md, members: &[Option<Built>], node: u16, kernel: Kernel) -> Result<Self, String> {
        let error = |why: String| format!("{}: {why}", md.name);
        let disks = members.len() as u32;
        let smallest = members.iter().flatten().map(|m| m.sectors).min();
        let smallest = smallest.ok_or_else(|| error("has no members".into()))?;
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
                return Err(error("parity is not built yet".into()));
            }
        };
        let slots = members.iter().zip(&md.members).map(|(built, member)| Slot {
            node: built.map_or(0, |b| b.node),
            present: built.is_some(),
            readable: built.is_some() && !member.rebuilding,
            write_mostly: member.write_mostly,
            rotational: built.is_none_or(|b| b.rotational),
            optimal: 0,
            pending: 0,
            head: 0,
            next_seq: u64::MAX,
            seq_start: u64::MAX,
        });
        let (near, far) = if md.level == Level::Raid10 { (md.near, md.far) } else { (1, 1) };
        let stats = ArrayStats {
            name: md.name.clone(),
            slots: vec![SlotStats::default(); members.len()],
            ..ArrayStats::default()
        };
        let synced = if md.sync == Sync::Resync { 0 } else { u64::MAX };
        Ok(Self { node, kernel, layout, near, far, slots: slots.collect(), sectors, synced, stats })
    }
}
