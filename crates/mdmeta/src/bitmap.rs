//! The superblock of a write-intent bitmap (drivers/md/md-bitmap.h, `bitmap_super_t`).

use serde::Serialize;

use crate::{Uuid, bytes};

/// `bitm`, little-endian.
const MAGIC: u32 = 0x6d74_6962;

/// Bytes that are read of it.
pub(crate) const BYTES: usize = 256;

/// A bitmap's superblock.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bitmap {
    /// Where it begins, bytes from the start of the member.
    pub offset: u64,
    /// 3, 4 (host-endian bits fixed) or 5 (clustered).
    pub version: u32,
    /// The array's.
    pub uuid: Uuid,
    /// The array's events when it was written.
    pub events: u64,
    /// Events up to which all its bits were cleared: a member of older ones cannot be re-added.
    pub events_cleared: u64,
    /// Sectors that it covers.
    pub sync_size: u64,
    /// Whether its bits are to be distrusted: 2 stale, 4 written with an error.
    pub state: u32,
    /// Bytes that a bit stands for.
    pub chunk: u32,
    /// Seconds between two cleanings.
    pub daemon_sleep: u32,
    /// Writes behind at most.
    pub write_behind: u32,
}

/// Reads one; `None` if there is none.
pub(crate) fn parse(found: &[u8], offset: u64) -> Option<Bitmap> {
    if bytes::u32(found, 0) != MAGIC {
        return None;
    }
    Some(Bitmap {
        offset,
        version: bytes::u32(found, 4),
        uuid: Uuid(bytes::array(found, 8)),
        events: bytes::u64(found, 24),
        events_cleared: bytes::u64(found, 32),
        sync_size: bytes::u64(found, 40),
        state: bytes::u32(found, 48),
        chunk: bytes::u32(found, 52),
        daemon_sleep: bytes::u32(found, 56),
        write_behind: bytes::u32(found, 60),
    })
}
