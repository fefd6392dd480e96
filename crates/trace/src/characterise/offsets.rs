//! Where on the device I/Os went while the trace ran: a grid over time and offset, coarsened as the trace grows.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use super::density::DensityRow;
use blklab_stats::{Merge, Timeline, checked};
use serde::{Deserialize, Serialize};

const SIDE: usize = 256; // Rows and columns of the grid; powers of two
const FIRST_SHIFT: u32 = 7; // A row has 2 to this power sectors at first: 64 KiB

/// Reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cell([u32; 2]);

impl Merge for Cell {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
    }
}

/// The cells of a slice of time; none until it has an I/O. Row `n` of the device is cell `n` modulo their number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Column(Vec<Cell>);

impl Merge for Column {
    fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else {
            self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
        }
    }
}

/// The density of I/Os on a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Offsets {
    columns: Timeline<Column>,
    rows: u64,
    shift: u32,               // A row has 2 to this power sectors
    used: Option<(u64, u64)>, // The lowest and the highest row with an I/O; fewer than `rows` apart
}

checked!(Offsets, Offsets::is_valid);

/// Where on a device reads and writes begin, over time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct OffsetsProfile {
    /// Width of a slice of time, in ns.
    pub width_ns: u64,
    /// Ranges of sectors in ascending order, without gaps, at most 256. An I/O counts where it begins.
    pub rows: Vec<DensityRow>,
}

impl Default for Offsets {
    fn default() -> Self {
        Offsets::new(SIDE)
    }
}

impl Offsets {
    fn new(side: usize) -> Offsets {
        Offsets { columns: Timeline::new(side), rows: side as u64, shift: FIRST_SHIFT, used: None }
    }

    fn is_valid(&self) -> bool {
        let columns = || self.columns.iter().map(|(_, column)| column.0.len() as u64);
        self.rows.is_power_of_two()
            && self.rows <= SIDE as u64
            && self.shift < u64::BITS
            && self
                .used
                .is_none_or(|(low, high)| low <= high && high - low < self.rows && high <= u64::MAX >> self.shift)
            && columns().all(|rows| rows == 0 || rows == self.rows)
    }

    /// The cell of a time and sector.
    fn cell(&mut self, time: u64, sector: u64) -> &mut Cell {
        let row = sector >> self.shift;
        if self.used.is_none_or(|(low, high)| row < low || row > high) {
            self.extend(row, row, self.shift);
        }
        let index = (sector >> self.shift & (self.rows - 1)) as usize;
        let column = self.columns.at(time);
        if column.0.is_empty() {
            column.0.resize(self.rows as usize, Cell::default());
        }
        &mut column.0[index]
    }

    /// Extends the grid to the rows `low..=high` of 2 to the power `shift` sectors.
    fn extend(&mut self, low: u64, high: u64, shift: u32) {
        let (by, coarser) = (shift.saturating_sub(self.shift), self.shift.saturating_sub(shift));
        let (low, high) = (low >> coarser, high >> coarser);
        let mine = self.used.map_or((low, high), |(low, high)| (low >> by, high >> by));
        let (low, high) = (low.min(mine.0), high.max(mine.1));
        let further = (0..64).find(|by| (high >> by) - (low >> by) < self.rows).unwrap_or(63);
        self.coarsen(by + further);
        self.used = Some((low >> further, high >> further));
    }

    /// Merges 2 to the power `by` rows into one.
    fn coarsen(&mut self, by: u32) {
        if by == 0 {
            return;
        }
        let (low, high) = self.used.unwrap_or((1, 0));
        for column in self.columns.values_mut().filter(|column| !column.0.is_empty()) {
            let fine = std::mem::replace(&mut column.0, vec![Cell::default(); self.rows as usize]);
            for row in low..=high {
                let index = |row: u64| (row & (self.rows - 1)) as usize;
                column.0[index(row >> by)].merge(&fine[index(row)]);
            }
        }
        self.shift += by;
    }
}

impl Panel for Offsets {
    type Profile = OffsetsProfile;
    const DETAIL: bool = true;

    fn for_device(index: usize) -> Offsets {
        Offsets::new(match index {
            0..16 => SIDE,
            16..128 => SIDE / 4,
            _ => SIDE / 16,
        })
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            let Some(side) = row.side() else { continue };
            let count = &mut self.cell(row.time, row.sector).0[side];
            *count = count.saturating_add(1);
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> OffsetsProfile {
        let (low, high) = self.used.unwrap_or((1, 0));
        let rows = (low..=high).map(|row| {
            let index = (row & (self.rows - 1)) as usize;
            let cells = self.columns.iter().map(|(_, column)| column.0.get(index).map_or([0; 2], |cell| cell.0));
            let counts: Vec<[u64; 2]> = cells.map(|counts| counts.map(u64::from)).collect();
            DensityRow::new(row << self.shift, (row + 1).saturating_mul(1 << self.shift), &counts)
        });
        OffsetsProfile { width_ns: self.columns.width_ns(), rows: rows.collect() }
    }
}

impl Merge for Offsets {
    fn merge(&mut self, other: &Self) {
        let Some((low, high)) = other.used else { return };
        self.extend(low, high, other.shift);
        // The two can have different numbers of rows.
        let by = self.shift - other.shift;
        let place = |row: u64, rows: u64| (row & (rows - 1)) as usize;
        self.columns.merge(&other.columns.map(|theirs| {
            let mut column = Column::default();
            if !theirs.0.is_empty() {
                column.0.resize(self.rows as usize, Cell::default());
                for row in low..=high {
                    column.0[place(row >> by, self.rows)].merge(&theirs.0[place(row, other.rows)]);
                }
            }
            column
        }));
    }
}

#[cfg(test)]
mod tests;
