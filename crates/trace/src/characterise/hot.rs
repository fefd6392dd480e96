//! Which blocks are hot, and how large the working set is.

use super::chunk::{Chunk, Panel};
use crate::event::Op;
use blklab_stats::{Hotness, HotnessSummary, Merge};

const BLOCK_SHIFT: u32 = 3; // Sectors of a block: 4 KiB, the page size

/// Accesses by block on a device.
#[derive(Clone, Debug, Default)]
pub struct HotBlocks(Hotness);

impl HotBlocks {
    /// Counts up to `blocks` distinct blocks exactly.
    pub fn exact(blocks: usize) -> HotBlocks {
        HotBlocks(Hotness::new(blocks))
    }

    /// The profile.
    pub fn profile(&self) -> HotnessSummary {
        self.0.summary()
    }
}

impl Panel for HotBlocks {
    fn for_device(index: usize) -> HotBlocks {
        HotBlocks(match index {
            0..4 => Hotness::default(),
            4..16 => Hotness::new(1 << 16),
            16..128 => Hotness::new(1 << 13),
            _ => Hotness::new(1 << 10),
        })
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            let write = match row.op() {
                Op::Read => false,
                Op::Write => true,
                Op::Discard | Op::Flush => continue,
            };
            let first = row.sector >> BLOCK_SHIFT;
            let in_first = row.sector & ((1 << BLOCK_SHIFT) - 1);
            let blocks = (in_first + row.sectors()).div_ceil(1 << BLOCK_SHIFT) as u32;
            self.0.record(first, blocks, write);
        }
    }
}

impl Merge for HotBlocks {
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}
