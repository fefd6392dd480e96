//! Which bio in flight starts at a sector: a small open-addressed table for the most frequent loop.

pub const NONE: u32 = u32::MAX; // No bio

#[derive(Clone, Copy)]
struct StartCell {
    sector: u64,
    slot: u32,
}

const FREE: StartCell = StartCell { sector: 0, slot: NONE };

/// Start sector → slot of the oldest bio on it. Linear probing, at most half full, freed by shifting back.
pub struct StartTable {
    cells: Vec<StartCell>,
    used: usize,
    shift: u32, // 64 minus the bits of an index
}

impl Default for StartTable {
    fn default() -> Self {
        StartTable { cells: vec![FREE; 64], used: 0, shift: 64 - 6 }
    }
}

impl StartTable {
    /// Multiplies by 2^64/φ: the table is bounded, so no keyed hash is needed against hostile sectors.
    fn home(&self, sector: u64) -> usize {
        (sector.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The index of the sector's cell, or of the free cell for it.
    fn at(&self, sector: u64) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = self.home(sector) & mask;
        while self.cells[at].slot != NONE && self.cells[at].sector != sector {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slot that starts at `sector`.
    pub fn get(&self, sector: u64) -> Option<u32> {
        let slot = self.cells[self.at(sector)].slot;
        (slot != NONE).then_some(slot)
    }

    /// Sets the slot of a sector that has none; returns the sector's slot.
    pub fn put_if_free(&mut self, sector: u64, slot: u32) -> u32 {
        let at = self.at(sector);
        if self.cells[at].slot == NONE {
            self.set(sector, slot);
            return slot;
        }
        self.cells[at].slot
    }

    /// Sets the slot of a sector.
    pub fn set(&mut self, sector: u64, slot: u32) {
        let at = self.at(sector);
        if self.cells[at].slot == NONE {
            self.used += 1;
        }
        self.cells[at] = StartCell { sector, slot };
        if self.used * 2 > self.cells.len() {
            self.grow();
        }
    }

    /// Takes a sector out.
    pub fn remove(&mut self, sector: u64) {
        let mask = self.cells.len() - 1;
        let mut hole = self.at(sector);
        if self.cells[hole].slot == NONE {
            return;
        }
        self.used -= 1;
        let mut next = (hole + 1) & mask;
        while self.cells[next].slot != NONE {
            let home = self.home(self.cells[next].sector) & mask;
            // It can move back if its home does not lie between the hole and it.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.cells[hole] = FREE;
    }

    /// True when no bio is in flight.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Every (sector, slot), in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.cells.iter().filter(|c| c.slot != NONE).map(|c| (c.sector, c.slot))
    }

    #[cold]
    fn grow(&mut self) {
        self.shift -= 1;
        let larger = vec![FREE; self.cells.len() * 2];
        for cell in std::mem::replace(&mut self.cells, larger) {
            if cell.slot != NONE {
                let at = self.at(cell.sector);
                self.cells[at] = cell;
            }
        }
    }
}

#[cfg(test)]
mod tests;
