//! The superblock of a write-intent bitmap (drivers/md/md-bitmap.h, `bitmap_super_t`).

use serde::Serialize;

use crate::{Uuid, bytes};

/// `bitm`, little-endian.
const MAGIC: u32 = 0x6d74_6962;

/// Bytes of it that are read.
pub(crate) const BYTES: usize = 256;

/// A bitmap's superblock.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bitmap {
    pub offset: u64,       // Its offset in bytes, from the start of the member
    pub version: u32,      // 3, 4 (host-endian bits fixed) or 5 (clustered)
    pub uuid: Uuid,        // The array's UUID
    pub sync_size: u64,    // Sectors that it covers
    pub state: u32,        // Flags; its bits are not valid with 2 (stale) or 4 (write error)
    pub chunk: u32,        // Bytes of one bit
    pub daemon_sleep: u32, // Seconds between runs of the daemon that clears bits
}

/// Parses a bitmap superblock; `None` if there is none.
pub(crate) fn parse(bytes: &[u8], offset: u64) -> Option<Bitmap> {
    if bytes::u32(bytes, 0) != MAGIC {
        return None;
    }
    Some(Bitmap {
        offset,
        version: bytes::u32(bytes, 4),
        uuid: Uuid(bytes::array(bytes, 8)),
        sync_size: bytes::u64(bytes, 40),
        state: bytes::u32(bytes, 48),
        chunk: bytes::u32(bytes, 52),
        daemon_sleep: bytes::u32(bytes, 56),
    })
}
