//! An array in an experiment.

use crate::targets::Node;
use blklab_md::{Level, defaults};
use serde::{Deserialize, Serialize};

/// An md array.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Md {
    /// Its name in results, such as `md4`.
    pub name: String,
    /// The RAID level.
    pub level: Level,
    /// Bytes of a chunk; levels 1 and linear have none.
    #[serde(default)]
    pub chunk: u64,
    /// Near copies of RAID-10's layout; other levels ignore it.
    #[serde(default)]
    pub near: u32,
    /// Far copies of RAID-10's layout, or offset copies with `offset`; other levels ignore it.
    #[serde(default)]
    pub far: u32,
    /// Whether the far copies follow in the next row of chunks.
    #[serde(default)]
    pub offset: bool,
    /// The members, by slot.
    pub members: Vec<Member>,
    /// Entries of the stripe cache of levels 4, 5 and 6: pages for each member (`stripe_cache_size`).
    #[serde(default = "stripe_cache")]
    pub stripe_cache: u32,
    /// Threads that handle rows of the stripe cache besides `raid5d` (`group_thread_cnt`, Linux 3.12).
    #[serde(default)]
    pub group_thread_cnt: u32,
    /// When rows are read, modified and written: 0 never, 1 if it reads less, 2 if it does not read more (`rmw_level`).
    #[serde(default = "rmw_level")]
    pub rmw_level: u8,
    /// Whether there is a write-intent bitmap.
    #[serde(default)]
    pub bitmap: bool,
    /// Whether it is the lockless one (`--bitmap=lockless`, Linux 6.18), which chooses its chunk itself.
    #[serde(default)]
    pub lockless: bool,
    /// Bytes for each bit of the bitmap: of the array, or with parity of each member.
    #[serde(default = "number::<{ defaults::BITMAP_CHUNK }>")]
    pub bitmap_chunk: u64,
    /// The sync action that runs with the load.
    #[serde(default)]
    pub sync: SyncAction,
    /// KiB/s for each member that a resync reaches under any load (`sync_speed_min`).
    #[serde(default = "number::<{ defaults::SYNC_SPEED_MIN }>")]
    pub sync_speed_min: u64,
    /// KiB/s for each member that a resync never exceeds (`sync_speed_max`).
    #[serde(default = "number::<{ defaults::SYNC_SPEED_MAX }>")]
    pub sync_speed_max: u64,
}

impl Md {
    /// The layout as a superblock has it: RAID-10's copies, or left-symmetric parity.
    pub fn layout(&self) -> u32 {
        const LEFT_SYMMETRIC: u32 = 2; // drivers/md/raid5.h
        if self.level == Level::Raid10 {
            self.near | self.far << 8 | u32::from(self.offset) << 16
        } else {
            LEFT_SYMMETRIC
        }
    }
}

fn stripe_cache() -> u32 {
    defaults::STRIPE_CACHE
}
fn rmw_level() -> u8 {
    1
}
fn number<const N: u64>() -> u64 {
    N
}

/// One slot of an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Member {
    /// The device or stack in this slot; `null` if the member is missing.
    pub node: Option<Node>,
    /// Whether it is read only if no other member can be read.
    pub write_mostly: bool,
    /// Whether it is being rebuilt: written, and not read.
    pub rebuilding: bool,
}

/// md's sync action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncAction {
    /// Nothing: the array is clean.
    #[default]
    Idle,
    /// Making the copies equal, after creation or a crash.
    Resync,
    /// Filling the members that are `rebuilding`.
    Recover,
    /// Comparing the copies.
    Check,
}
