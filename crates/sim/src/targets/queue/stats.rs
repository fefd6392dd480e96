//! The statistics of a disk's queue.

use serde::Serialize;

use super::request::Request;
use crate::device::DiskWork;
use crate::events::Time;

/// The statistics of a disk, in the words of /proc/diskstats; indexed by read and write.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskStats {
    /// The device's name.
    pub name: String,
    /// Requests completed.
    pub ios: [u64; 2],
    /// Bios that were merged into a waiting request.
    pub merges: [u64; 2],
    /// Sectors moved.
    pub sectors: [u64; 2],
    /// Time from tag to completion, all requests together.
    pub ticks_ns: [u64; 2],
    /// Flushes completed.
    pub flushes: u64,
    /// Time spent flushing.
    pub flush_ns: u64,
    /// Time in which requests were in the disk, as utilisation counts it.
    pub busy_ns: u64,
    /// The work of the disk's parts.
    pub work: DiskWork,
    /// Tasks that slept because all tags were taken.
    pub tag_waits: u64,
    /// Tasks that slept in the writeback throttle.
    pub throttle_waits: u64,
}

impl DiskStats {
    /// Empty statistics.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Counts a completed request.
    #[inline]
    pub fn count(&mut self, now: Time, request: &Request) {
        let index = request.op as usize;
        self.ios[index] += 1;
        self.sectors[index] += u64::from(request.sectors);
        self.ticks_ns[index] += now - request.start;
    }
}
