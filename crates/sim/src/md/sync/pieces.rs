//! What a mirror's sync reads and writes, piece by piece.

use super::{Piece, Sync};
use crate::cell;
use crate::md::map::{Place, Raid10};
use crate::md::member::Slot;
use crate::md::{Array, Layout};

/// `RESYNC_BLOCK_SIZE`, in sectors.
const BLOCK: u64 = 128;
impl Array {
    /// What is read and written of the piece at the sync's position.
    pub(super) fn piece(&self, sync: &Sync) -> Piece {
        let start = sync.position;
        let mut piece =
            Piece { start, sectors: BLOCK.min(sync.end - start), reads: Vec::new(), writes: Vec::new() };
        let readable = |place: &Place| {
            let slot = &self.slots[place.slot as usize];
            slot.present && slot.readable
        };
        let rebuilt = |slot: &Slot| slot.present && !slot.readable;
        match &self.layout {
            Layout::Raid10(map) if sync.kind == cell::Sync::Recover => {
                piece.sectors = piece.sectors.min(map.chunk() - start % map.chunk());
                for (slot, _) in (0..).zip(&self.slots).filter(|(_, slot)| rebuilt(slot)) {
                    let place = Place { slot, sector: start };
                    let Some((sector, _)) = map.find(place) else { continue };
                    let copies = self.copies(map, sector);
                    if let Some(&from) = copies.iter().find(|copy| readable(copy)) {
                        piece.reads.push(from);
                        piece.writes.push(place);
                    }
                }
            }
            Layout::Raid10(map) => {
                piece.sectors = piece.sectors.min(map.chunk() - start % map.chunk());
                piece.reads = self.copies(map, start);
                piece.reads.retain(readable);
            }
            _ => {
                let place = |slot| Place { slot, sector: start };
                let slots = (0..self.slots.len() as u32).map(place);
                let sources = || slots.clone().filter(readable);
                let first = sources().find(|from| !self.slots[from.slot as usize].write_mostly);
                let first = first.or_else(|| sources().next());
                match sync.kind {
                    cell::Sync::Check => piece.reads = sources().collect(),
                    cell::Sync::Resync => {
                        piece.reads.extend(first);
                        piece.writes = sources().filter(|place| Some(*place) != first).collect();
                    }
                    _ => {
                        piece.reads.extend(first);
                        piece.writes =
                            slots.filter(|place| rebuilt(&self.slots[place.slot as usize])).collect();
                    }
                }
            }
        }
        // One copy is equal to itself, and without anything to write nothing need be read.
        let compared = matches!(self.layout, Layout::Raid10(_)) && piece.reads.len() > 1;
        if sync.kind != cell::Sync::Check && piece.writes.is_empty() && !compared {
            piece.reads.clear();
        }
        piece
    }

    fn copies(&self, map: &Raid10, sector: u64) -> Vec<Place> {
        let mut copies = vec![Place { slot: 0, sector: 0 }; map.copies() as usize];
        map.places(sector, &mut copies);
        copies
    }
}
