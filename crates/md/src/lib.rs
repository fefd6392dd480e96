//! What md has on its members. Metadata: superblocks 0.90, 1.0, 1.1 and 1.2, bad-block lists, write-intent bitmaps; DDF
//! and Intel's are recognised and named. Data: the facts of each level, and the maps from an array's sectors to its
//! members' ([`map`]).
//!
//! Bytes in, values out: this crate opens and writes no file and knows no devices. Sectors are 512 bytes. Sources:
//! include/uapi/linux/raid/md_p.h (`mdp_super_t`, `mdp_superblock_1`), drivers/md/md.c (`super_90_load`,
//! `super_1_load`), drivers/md/md-bitmap.h, Linux 6.1; and the output of mdadm 4.2 for the same bytes.

mod badblocks;
mod bitmap;
mod bytes;
mod examine;
mod level;
pub mod map;
mod refusal;
mod source;
mod uuid;
mod v0;
mod v1;

pub use badblocks::{BadBlocks, SectorRange};
pub use bitmap::Bitmap;
pub use examine::{Examined, ForeignMetadata, examine};
pub use level::{LEVELS, Level, LevelFacts, defaults};
pub use refusal::{Refusal, RefusalReason};
pub use source::{ReadError, Source};
pub use uuid::Uuid;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// A superblock of either format. Sectors are 512 bytes; times are seconds since 1970.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Superblock {
    pub version: &'static str,         // `0.90`, `1.0`, `1.1` or `1.2`
    pub uuid: Uuid,                    // The array's UUID
    pub name: String,                  // The array's name: usually `host:name`; with 0.90, `md` and its minor number
    pub level: i32,                    // mdadm's --level
    pub layout: u32,                   // The personality's layout
    pub chunk: u64,                    // Bytes
    pub raid_disks: u32,               // Slots
    pub size: u64,                     // Sectors of each member that the array uses
    pub data_offset: u64,              // The first sector of data
    pub data_size: u64,                // Sectors that can be used
    pub device_uuid: Option<Uuid>,     // The member's UUID; 0.90 has none
    pub role: Role,                    // What this member is in the array
    pub present: Vec<bool>,            // For each slot, whether it has an active member
    pub write_mostly: bool,            // Whether it is read only if no other member can be
    pub replacement: bool,             // Whether it replaces the member in its slot
    pub bitmap: bool,                  // Whether there is an internal bitmap, or a log in its place
    pub events: u64,                   // The event count
    pub updated: u64,                  // When this was written
    pub resync_offset: Option<u64>,    // The sector where a resync continues; `None` if the array is clean
    pub recovery_offset: Option<u64>,  // The sector up to which this member has been recovered
    pub reshape_position: Option<u64>, // Position of a reshape in sectors of the array
}

/// What a member is in its array.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase", tag = "role", content = "slot")]
pub enum Role {
    Active(u16), // The member of a slot
    Spare,       // A spare (0xffff)
    Faulty,      // Faulty (0xfffe)
    Journal,     // The journal (0xfffd)
}

/// A checksum: stored and computed.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Checksum {
    pub stored: u32,   // The checksum in the superblock
    pub computed: u32, // The checksum of its bytes
}

impl Checksum {
    /// Whether both are equal.
    pub fn holds(&self) -> bool {
        self.stored == self.computed
    }
}

/// One member's metadata.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    pub offset: u64,                   // Offset of the superblock in bytes, from the start of the member
    pub checksum: Checksum,            // Its checksum
    pub superblock: Superblock,        // Its content
    pub bad_blocks: Option<BadBlocks>, // The list of bad blocks; `None` if none is configured, or the format has none
    pub bitmap: Option<Bitmap>,        // The internal write-intent bitmap, if there is one
    pub refusal_reasons: Vec<Refusal>, // Why the kernel refuses the superblock; empty if it accepts it
    pub problems: Vec<String>,         // Other problems, one line each
}
