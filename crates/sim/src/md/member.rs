//! What md knows of each member.

/// A slot of an array, as `struct raid1_info` and `struct md_rdev` keep it.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The member's node.
    pub node: u16,
    /// Whether there is a member.
    pub present: bool,
    /// Whether reads may go to it: not while it is being rebuilt.
    pub readable: bool,
    /// Read only if there is nothing else.
    pub write_mostly: bool,
    /// What md sees in `queue/rotational`.
    pub rotational: bool,
    /// `queue/optimal_io_size` in sectors.
    pub optimal: u64,
    /// I/Os of any kind not yet completed (`nr_pending`).
    pub pending: u32,
    /// The end of the last I/O completed, read or write (`head_position`).
    pub head: u64,
    /// Sectors that were moved.
    pub moved: u64,
    /// Those of them that a sync began to move.
    pub synced: u64,
    /// Where a sequential reader would go on (`next_seq_sect`).
    pub next_seq: u64,
    /// Where the sequential run began (`seq_start`).
    pub seq_start: u64,
}

impl Slot {
    /// The distance from the member's head.
    #[inline]
    pub fn distance(&self, sector: u64) -> u64 {
        self.head.abs_diff(sector)
    }
}
