//! The superblock of a write-intent bitmap (drivers/md/md-bitmap.h, `bitmap_super_t`).

use serde::Serialize;

use crate::{SECTOR, Uuid, bytes};

/// The lockless bitmap (drivers/md/md-llbitmap.c), whose chunks are in sectors.
const LOCKLESS: u32 = 6;

/// `bitm`, little-endian.
const MAGIC: u32 = 0x6d74_6962;

/// Bytes of it that are read.
pub(crate) const BYTES: usize = 256;

/// A bitmap's superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Bitmap {
    /// Offset of the bitmap in bytes, from the start of the member.
    pub offset: u64,
    /// 3, 4 (bits in the host's byte order are fixed), 5 (clustered) or 6 (lockless, since Linux 6.18).
    pub version: u32,
    /// The array's UUID, as mdadm prints it.
    pub uuid: Uuid,
    /// Sectors that the bitmap covers.
    pub sync_size: u64,
    /// Flags; the bits of the bitmap are not valid with 2 (stale) or 4 (write error).
    pub state: u32,
    /// Bytes for each bit; of a lockless bitmap, for each of its bytes.
    pub chunk: u64,
    /// Seconds between runs of the daemon that clears bits.
    pub daemon_sleep: u32,
}

/// Parses a bitmap superblock; `None` if there is none.
pub(crate) fn parse(bytes: &[u8], offset: u64) -> Option<Bitmap> {
    if bytes::u32(bytes, 0) != MAGIC {
        return None;
    }
    let version = bytes::u32(bytes, 4);
    Some(Bitmap {
        offset,
        version,
        uuid: Uuid(bytes::array(bytes, 8)),
        sync_size: bytes::u64(bytes, 40),
        state: bytes::u32(bytes, 48),
        chunk: u64::from(bytes::u32(bytes, 52)) * if version == LOCKLESS { SECTOR } else { 1 },
        daemon_sleep: bytes::u32(bytes, 56),
    })
}
