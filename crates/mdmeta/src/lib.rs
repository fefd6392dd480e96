//! md's metadata on disk: superblocks 0.90, 1.0, 1.1 and 1.2, bad-block lists, write-intent bitmaps;
//! DDF and Intel's are recognised and named.
//!
//! Bytes in, values out: this crate opens and writes no file and knows no devices. Sectors are 512 bytes. Sources:
//! include/uapi/linux/raid/md_p.h (`mdp_super_t`, `mdp_superblock_1`), drivers/md/md.c (`super_90_load`,
//! `super_1_load`), drivers/md/md-bitmap.h, Linux 6.1; and the output of mdadm 4.2 for the same bytes.

mod badblocks;
mod bitmap;
mod bytes;
mod examine;
mod foreign;
mod source;
mod uuid;
mod v0;
mod v1;

pub use badblocks::{BadBlocks, SectorRange};
pub use bitmap::Bitmap;
pub use examine::{Examined, examine};
pub use foreign::ForeignMetadata;
pub use source::{ReadError, Region, Source};
pub use uuid::Uuid;
pub use v0::{Descriptor, Superblock0};
pub use v1::{Reshape, Role, Superblock1};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// A superblock of either format.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "format", rename_all = "lowercase")]
pub enum Superblock {
    /// 0.90.
    #[serde(rename = "0.90")]
    V0(Superblock0),
    /// 1.0, 1.1 or 1.2.
    #[serde(rename = "1")]
    V1(Box<Superblock1>),
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
    pub problems: Vec<String>,         // Problems, one line each
}
