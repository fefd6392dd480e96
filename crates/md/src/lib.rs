//! What md has on its members. Metadata: superblocks 0.90, 1.0, 1.1 and 1.2, bad-block lists, write-intent bitmaps; DDF
//! and Intel's are recognised and named. Data: the facts of each level, and the maps from an array's sectors to its
//! members' ([`map`]).
//!
//! Bytes in, values out: this crate opens and writes no file and knows no devices. Sectors are 512 bytes. Sources:
//! include/uapi/linux/raid/md_p.h (`mdp_super_t`, `mdp_superblock_1`), drivers/md/md.c (`super_90_load`,
//! `super_1_load`), drivers/md/md-bitmap.h, Linux 6.1; and the output of mdadm 4.2 for the same bytes.

#[cfg(not(feature = "schema"))]
use blklab_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

mod badblocks;
mod bitmap;
mod bytes;
mod examine;
mod level;
pub mod map;
mod refusal;
mod v0;
mod v1;

pub use badblocks::{BadBlocks, SectorRange};
pub use bitmap::Bitmap;
pub use examine::{Examined, ForeignMetadata, ReadError, Source, examine};
pub use level::{LEVELS, Level, LevelFacts, defaults};
pub use refusal::{Refusal, RefusalReason};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// 16 bytes; printed as `3156a3e6:4a433ea3:f425167f:2e6739fd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, crate::JsonSchema)]
#[schemars(with = "String")]
pub struct Uuid(pub [u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 && at % 4 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl serde::Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A superblock of either format. Sectors are 512 bytes; times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
pub struct Superblock {
    /// `0.90`, `1.0`, `1.1` or `1.2`.
    pub version: &'static str,
    /// The array's UUID, as mdadm prints it.
    pub uuid: Uuid,
    /// The array's name: usually `host:name`; with 0.90, `md` and its minor number.
    pub name: String,
    /// The RAID level as the kernel numbers it: 0, 1, 4, 5, 6 or 10; linear is -1.
    pub level: i32,
    /// The layout, a number that the personality interprets.
    pub layout: u32,
    /// Bytes of a chunk; 0 without chunks.
    pub chunk: u64,
    /// Number of slots.
    pub raid_disks: u32,
    /// Sectors of each member that the array uses.
    pub size: u64,
    /// First sector of the data, from the start of the member.
    pub data_offset: u64,
    /// Sectors of the member that can hold data; with 0.90, the same as `size`.
    pub data_size: u64,
    /// The member's UUID; `null` with 0.90, which has none.
    pub device_uuid: Option<Uuid>,
    /// What this member is in the array.
    pub role: Role,
    /// Number of the slot of an active member; `null` for other roles.
    pub slot: Option<u16>,
    /// For each slot, whether it has an active member.
    pub present: Vec<bool>,
    /// Whether the member is read only if no other member can be.
    pub write_mostly: bool,
    /// Whether it replaces the member in its slot.
    pub replacement: bool,
    /// Whether there is an internal bitmap, or a log in its place.
    pub bitmap: bool,
    /// The event count.
    pub events: u64,
    /// When the superblock was written, in seconds since 1970.
    pub updated: u64,
    /// When the array was made, in seconds since 1970.
    pub created: u64,
    /// The sector where a resync continues; `null` if the array is clean.
    pub resync_offset: Option<u64>,
    /// Sectors of this member that have been recovered; `null` without an unfinished recovery, and always with 0.90.
    pub recovery_offset: Option<u64>,
    /// Position of an unfinished reshape in sectors of the array; `null` without a reshape.
    pub reshape_position: Option<u64>,
    /// What an unfinished reshape changes; `null` without a reshape.
    pub reshape: Option<Reshape>,
    /// Whether the array has a write journal; without it, Linux does not start it for writing.
    pub journal: bool,
    /// Whether the members log partial parity.
    pub ppl: bool,
}

/// The array that an unfinished reshape makes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
pub struct Reshape {
    /// How many more slots the array has than before; negative if it shrinks. `raid_disks` is the larger number.
    pub delta_disks: i32,
    /// The new RAID level.
    pub level: i32,
    /// The new layout.
    pub layout: u32,
    /// Bytes of a new chunk.
    pub chunk: u64,
}

/// What a member is in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The member of a slot.
    Active,
    /// A spare (0xffff).
    Spare,
    /// A faulty member (0xfffe).
    Faulty,
    /// The journal (0xfffd).
    Journal,
}

/// A checksum: stored and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
pub struct Checksum {
    /// The checksum in the superblock.
    pub stored: u32,
    /// The checksum of the superblock's bytes.
    pub computed: u32,
}

impl Checksum {
    /// Whether both are equal.
    pub fn holds(&self) -> bool {
        self.stored == self.computed
    }
}

/// One member's metadata.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
pub struct Member {
    /// Offset of the superblock in bytes, from the start of the member.
    pub offset: u64,
    /// The checksum of the superblock.
    pub checksum: Checksum,
    /// The content of the superblock.
    #[serde(flatten)]
    pub superblock: Superblock,
    /// The bad-block list; `null` if none is configured, and always with 0.90.
    pub bad_blocks: Option<BadBlocks>,
    /// The internal write-intent bitmap; `null` if there is none, or it cannot be read.
    pub bitmap_superblock: Option<Bitmap>,
    /// Why the kernel refuses the superblock; empty if it accepts it.
    pub refusal_reasons: Vec<Refusal>,
    /// Other problems, one line each.
    pub problems: Vec<String>,
}
