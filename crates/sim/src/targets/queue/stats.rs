//! The statistics of a disk's queue.

use serde::Serialize;

use super::request::Request;
use crate::device::DiskWork;
use crate::events::Time;

/// The statistics of a disk, in the words of /proc/diskstats.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct DiskStats {
    /// Name of the disk.
    pub name: String,
    /// Requests completed: reads, writes.
    pub ios: [u64; 2],
    /// Bios that were merged into a waiting request: reads, writes.
    pub merges: [u64; 2],
    /// Sectors moved: reads, writes.
    pub sectors: [u64; 2],
    /// Time from tag to completion in ns, all requests added up: reads, writes.
    pub ticks_ns: [u64; 2],
    /// Flushes completed.
    pub flushes: u64,
    /// Time in which the disk flushed, in ns.
    pub flush_ns: u64,
    /// Time in which the controller worked for this disk, in ns; 0 without a controller.
    pub controller_ns: u64,
    /// Time with something in the disk, in ns.
    pub busy_ns: u64,
    /// The work of the disk's parts.
    pub work: DiskWork,
    /// How often a task slept for a tag (`nr_requests`).
    pub tag_waits: u64,
    /// How often a task slept in the writeback throttle.
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
