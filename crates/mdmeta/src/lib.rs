//! md's metadata on disk: superblocks 0.90, 1.0, 1.1 and 1.2, bad-block lists, write-intent bitmaps;
//! DDF and Intel's are recognised and named.
//!
//! Bytes in, values out: nothing here opens, writes, or knows a device. Sectors are 512 bytes. Sources:
//! include/uapi/linux/raid/md_p.h (`mdp_super_t`, `mdp_superblock_1`), drivers/md/md.c (`super_90_load`,
//! `super_1_load`), drivers/md/md-bitmap.h, Linux 6.1; and what mdadm 4.2 said of the same bytes.

mod badblocks;
mod bitmap;
mod bytes;
mod examine;
mod foreign;
mod source;
mod uuid;
mod v0;
mod v1;

pub use badblocks::{BadBlocks, Range};
pub use bitmap::Bitmap;
pub use examine::{Examined, examine};
pub use foreign::Foreign;
pub use source::{Error, Region, Source};
pub use uuid::Uuid;
pub use v0::{Descriptor, Superblock0};
pub use v1::{Reshape, Role, Superblock1};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// Which superblock it is.
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

/// A checksum as it is stored, and as the bytes have it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Checksum {
    /// What the superblock says.
    pub stored: u32,
    /// What its bytes sum up to.
    pub computed: u32,
}

impl Checksum {
    /// Whether they are the same.
    pub fn holds(&self) -> bool {
        self.stored == self.computed
    }
}

/// One member's metadata.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    /// Where the superblock begins, bytes from the start of the member.
    pub offset: u64,
    /// Its checksum.
    pub checksum: Checksum,
    /// What it says.
    pub superblock: Superblock,
    /// The list of bad blocks; `None` if none is configured, or the format has none.
    pub bad_blocks: Option<BadBlocks>,
    /// The internal write-intent bitmap, if there is one.
    pub bitmap: Option<Bitmap>,
    /// What is wrong with it, a line each.
    pub problems: Vec<String>,
}
