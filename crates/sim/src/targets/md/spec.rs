//! What an experiment says of an array.

use serde::{Deserialize, Serialize};

use super::level::Level;
use crate::targets::Node;

/// An md array.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Md {
    /// The name in results, such as `md4`.
    pub name: String,
    /// How members are put together.
    pub level: Level,
    /// The chunk; levels 1 and linear have none.
    #[serde(default)]
    pub chunk: u64,
    /// RAID-10's layout word's three parts; ignored elsewhere.
    #[serde(default)]
    pub near: u32,
    /// Far copies; with `offset`, the offset ones.
    #[serde(default)]
    pub far: u32,
    /// Whether the far copies are at the next chunk's place.
    #[serde(default)]
    pub offset: bool,
    /// The members, by slot.
    pub members: Vec<Member>,
    /// Stripe cache entries of levels 4, 5 and 6 (pages per member).
    #[serde(default = "stripe_cache")]
    pub stripe_cache: u32,
    /// Whether there is a write-intent bitmap.
    #[serde(default)]
    pub bitmap: bool,
    /// Bytes that one bit stands for: of the array, or with parity of each member.
    #[serde(default = "bitmap_chunk")]
    pub bitmap_chunk: u64,
    /// What runs beside the load.
    #[serde(default)]
    pub sync: SyncAction,
    /// KiB/s per member that a resync makes whatever the load (`sync_speed_min`).
    #[serde(default = "sync_min")]
    pub sync_speed_min: u64,
    /// KiB/s per member that it never exceeds (`sync_speed_max`).
    #[serde(default = "sync_max")]
    pub sync_speed_max: u64,
}

fn stripe_cache() -> u32 {
    256
}
fn bitmap_chunk() -> u64 {
    64 << 20
}
fn sync_min() -> u64 {
    1_000
}
fn sync_max() -> u64 {
    200_000
}

/// One slot of an array.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// What is in the slot; none is a missing member.
    pub node: Option<Node>,
    /// Read from it only if nothing else is left.
    #[serde(default)]
    pub write_mostly: bool,
    /// Being rebuilt: written, not read.
    #[serde(default)]
    pub rebuilding: bool,
}

/// What md does to an array beside serving it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncAction {
    /// Nothing: clean.
    #[default]
    Idle,
    /// Making the copies equal, after creation or a crash.
    Resync,
    /// Filling the members that are `rebuilding`.
    Recover,
    /// Comparing the copies.
    Check,
}
