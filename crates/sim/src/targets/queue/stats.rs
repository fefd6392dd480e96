//! The statistics of a disk's queue.

use serde::Serialize;

use super::request::Request;
use crate::device::DiskWork;
use crate::events::Time;

/// The statistics of a disk, in the words of /proc/diskstats; indexed by read and write.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiskStats {
    pub name: String,        // The device's name
    pub ios: [u64; 2],       // Requests completed
    pub merges: [u64; 2],    // Bios that were merged into a waiting request
    pub sectors: [u64; 2],   // Sectors moved
    pub ticks_ns: [u64; 2],  // Time from tag to completion, all requests together
    pub flushes: u64,        // Flushes completed
    pub flush_ns: u64,       // Time spent flushing
    pub busy_ns: u64,        // Time in which requests were in the disk, as utilisation counts it
    pub work: DiskWork,      // The work of the disk's parts
    pub tag_waits: u64,      // Tasks that slept because all tags were taken
    pub throttle_waits: u64, // Tasks that slept in the writeback throttle
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
