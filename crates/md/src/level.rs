//! md's levels (the kernel's personalities), and what is true of every array of a level.

use serde::{Deserialize, Serialize};

/// md's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Members one after the other.
    Linear,
    /// Striping.
    Raid0,
    /// Mirroring.
    Raid1,
    /// Striped mirroring, by layout.
    Raid10,
    /// Parity on the last member.
    Raid4,
    /// Rotating parity, left-symmetric.
    Raid5,
    /// Two rotating parities, left-symmetric.
    Raid6,
}

/// What is true of every array of a level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LevelFacts {
    pub level: Level,        // Its name in documents is that in sysfs
    pub number: i32,         // In superblocks (include/uapi/linux/raid/md_u.h, drivers/md/md.h: `LEVEL_LINEAR`)
    pub parities: u32,       // Chunks of parity in each stripe
    pub redundant: bool,     // Whether it tolerates the loss of a member
    pub has_chunk: bool,     // A linear array can have one as rounding, which mdadm leaves at none
    pub fewest_members: u32, // That mdadm takes (mdadm 4.2, Create.c)
}

/// The facts of all levels.
pub const LEVELS: [LevelFacts; 7] = [
    facts(Level::Linear, -1, 0, false, false, 1),
    facts(Level::Raid0, 0, 0, false, true, 1),
    facts(Level::Raid1, 1, 0, true, false, 2),
    facts(Level::Raid10, 10, 0, true, true, 2),
    facts(Level::Raid4, 4, 1, true, true, 2),
    facts(Level::Raid5, 5, 1, true, true, 2),
    facts(Level::Raid6, 6, 2, true, true, 4),
];

const fn facts(
    level: Level, number: i32, parities: u32, redundant: bool, has_chunk: bool, fewest_members: u32,
) -> LevelFacts {
    LevelFacts { level, number, parities, redundant, has_chunk, fewest_members }
}

/// The values that md and mdadm choose if none are given.
pub mod defaults {
    /// Entries of the stripe cache: pages of each member (drivers/md/raid5.c, `NR_STRIPES`).
    pub const STRIPE_CACHE: u32 = 256;
    /// Bytes of a bit of the write-intent bitmap (mdadm(8), --bitmap-chunk).
    pub const BITMAP_CHUNK: u64 = 64 << 20;
    /// KiB/s of each member that a sync reaches under any load (md(4), `speed_limit_min`).
    pub const SYNC_SPEED_MIN: u64 = 1_000;
    /// KiB/s of each member that a sync never exceeds (md(4), `speed_limit_max`).
    pub const SYNC_SPEED_MAX: u64 = 200_000;
}
