//! Which blocks are hot, and how large the working set is.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use blklab_stats::{Hotness, HotnessSummary, Merge};
use serde::{Deserialize, Serialize};

const BLOCK_SHIFT: u32 = 3; // Sectors of a block: 4 KiB, the page size

/// Accesses by block on a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HotBlocks {
    hotness: Hotness,
    first_block: Option<u64>, // See [`Chunk::first_block`]; none if several devices were merged
}

impl HotBlocks {
    /// Counts up to `blocks` distinct blocks exactly.
    pub fn exact(blocks: usize) -> HotBlocks {
        HotBlocks { hotness: Hotness::new(blocks), first_block: None }
    }
}

impl Panel for HotBlocks {
    type Profile = HotnessSummary;
    const DETAIL: bool = true;

    fn for_device(index: usize) -> HotBlocks {
        let hotness = match index {
            0..4 => Hotness::default(),
            4..16 => Hotness::new(1 << 16),
            16..128 => Hotness::new(1 << 13),
            _ => Hotness::new(1 << 10),
        };
        HotBlocks { hotness, first_block: None }
    }

    fn observe(&mut self, chunk: &Chunk) {
        self.first_block = Some(chunk.first_block);
        for row in &chunk.queued {
            let Some(side) = row.side() else { continue };
            let first = chunk.first_block + (row.sector >> BLOCK_SHIFT);
            let in_first = row.sector & ((1 << BLOCK_SHIFT) - 1);
            let blocks = (in_first + row.sectors()).div_ceil(1 << BLOCK_SHIFT) as u32;
            self.hotness.record(first, blocks, side == 1);
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> HotnessSummary {
        let mut summary = self.hotness.summary();
        match self.first_block {
            Some(first) => summary.top.iter_mut().for_each(|hot| hot.block = hot.block.wrapping_sub(first)),
            None => summary.top.clear(),
        }
        summary
    }
}

impl Merge for HotBlocks {
    fn merge(&mut self, other: &Self) {
        if self.hotness.accesses() == 0 {
            self.first_block = other.first_block;
        } else if other.hotness.accesses() > 0 && self.first_block != other.first_block {
            self.first_block = None;
        }
        self.hotness.merge(&other.hotness);
    }
}
