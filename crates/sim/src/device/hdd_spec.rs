//! A rotating disk in documents: in an experiment and in the library of devices.

use crate::device::shingled::ShingledSpec;
use serde::{Deserialize, Serialize};

/// A rotating disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HddSpec {
    /// Bytes of the whole disk.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub capacity: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Bytes of a track at the rim, where sector 0 is.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [512, 1_u64 << 53]})))]
    pub outer_track_bytes: u64,
    /// Bytes of a track at the hub.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [512, 1_u64 << 53]})))]
    pub inner_track_bytes: u64,
    /// Recording surfaces.
    pub heads: u32,
    /// The shortest seek, to a neighbouring track, with settling, in ns.
    pub seek_track_ns: u64,
    /// The average seek, over a third of the disk, in ns.
    pub seek_average_ns: u64,
    /// The longest seek, over the whole disk, in ns.
    pub seek_full_ns: u64,
    /// How much longer the head settles before it writes than before it reads, in ns (data sheets: the average seek of
    /// writes minus that of reads).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"default": 0})))]
    pub write_settle_ns: u64,
    /// The disk's own time for a command, before the head moves, in ns (data sheets: "command overhead").
    pub command_ns: u64,
    /// Time that a controller adds to a command before the disk has it, in ns; other commands are served meanwhile.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"always": true})))]
    pub controller_ns: u64,
    /// How the disk orders the commands in its queue.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"always": true})))]
    pub order: CommandOrder,
    /// Bytes per second between host and disk.
    pub bandwidth: u64,
    /// Bytes of the disk's memory.
    pub cache_bytes: u64,
    /// Sequential streams that read-ahead follows at the same time.
    pub read_streams: u32,
    /// Bytes that the disk reads ahead of a stream at most.
    pub read_ahead_bytes: u64,
    /// Whether writes are acknowledged from the volatile cache.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"key": "volatile_cache", "default": true})))]
    pub write_cache: bool,
    /// Writes in the cache at most that are not yet on the disk.
    pub write_cache_requests: u32,
    /// Extra time of a flush, even if there is little to write, in ns: long with shingled tracks.
    pub flush_ns: u64,
    /// Extra time to write a request from the cache, in addition to seek and rotation, in ns: shingled disks keep a
    /// journal.
    pub destage_ns: u64,
    /// Writes that the disk's media log holds: with the volatile cache off, a write goes there without a seek until it
    /// is full, and the idle disk empties it; 0: no log.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [0, 1_000_000_000]})))]
    pub media_log_writes: u32,
    /// How the disk manages shingled tracks; `null` if it has none.
    pub shingled: Option<ShingledSpec>,
}

/// How a disk orders the commands in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandOrder {
    /// The time to reach each, rotation included: native command queueing.
    #[default]
    Rotation,
    /// The seek distance: an elevator in the controller, which does not know the angle.
    Seek,
    /// The order of arrival.
    Arrival,
}
