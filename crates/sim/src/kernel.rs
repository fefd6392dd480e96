//! Differences between kernel versions, in one place. Each question names its source: a commit or a file.

use crate::error::SimError;

/// How an array passes flushes to its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayFlush {
    AtOnce,   // Each at once
    OneByOne, // Each after the one before
    Shared,   // One at a time, which serves all that wait for it
}

/// A kernel version, such as 4.19 or 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel(u32, u32);

impl Kernel {
    /// Parses "4.19", "4.19.37" or "5.10-generic"; the first known version is 2.6.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let unknown = || SimError::Kernel(text.to_owned());
        let mut numbers = text.split(['.', '-', '+', '_', ' ']);
        let mut number = || numbers.next().and_then(|n| n.parse().ok());
        let kernel = Self(number().ok_or_else(unknown)?, number().ok_or_else(unknown)?);
        (Self(2, 6)..Self(10, 0)).contains(&kernel).then_some(kernel).ok_or_else(unknown)
    }

    /// Sectors of the largest bio that an array with parity takes: of 256 rows since 6.0 (`RAID5_MAX_REQ_STRIPES`),
    /// and of a whole stripe if that is more since 7.0 (4ffe28ed0d7c).
    pub fn largest_parity_bio(self, stripe: u64) -> u64 {
        const ROWS: u64 = 256 * 8;
        match self {
            _ if self < Self(6, 0) => u64::MAX,
            _ if self < Self(7, 0) => ROWS,
            _ => ROWS.max(stripe),
        }
    }

    /// How an array flushes its members (`md_flush_request`): one flush after the other from 2.6.37 to 4.17, all at once
    /// in 4.18 to 5.1 and since 6.12 (b75197e86e6d), and in between one that serves all that waited (2bc13b83e629, 5.2).
    pub fn array_flush(self) -> ArrayFlush {
        match self {
            _ if self < Self(3, 0) || self >= Self(6, 12) => ArrayFlush::AtOnce,
            _ if self < Self(4, 18) => ArrayFlush::OneByOne,
            _ if self < Self(5, 2) => ArrayFlush::AtOnce,
            _ => ArrayFlush::Shared,
        }
    }
}

/// Declares what differs between kernels, each with its condition.
macro_rules! differences {
    ($($(#[$meaning:meta])+ $name:ident: |$kernel:ident| $condition:expr;)+) => {
        impl Kernel {
            $($(#[$meaning])+ pub fn $name(self) -> bool {
                let $kernel = self;
                $condition
            })+

            /// All that differs: kernels with the same answers give the same results.
            pub fn answers(self) -> (Vec<bool>, ArrayFlush, [u64; 2]) {
                (vec![$(self.$name()),+], self.array_flush(), [0, u64::MAX].map(|stripe| self.largest_parity_bio(stripe)))
            }
        }
    };
}

differences! {
    /// RAID-10 reads from the idlest copy on a non-rotational member ("md/raid10: read balance chooses idlest disk
    /// for SSD", 5.3); older kernels read from the nearest.
    raid10_prefers_idle: |kernel| kernel >= Kernel(5, 3);
    /// RAID-1 with a non-rotational member reads from the one with the fewest I/Os pending (3.6, drivers/md/raid1.c);
    /// older kernels read from the nearest.
    raid1_prefers_idle: |kernel| kernel >= Kernel(3, 6);
    /// RAID-1 moves a long sequential run to an idle disk correctly (6.9, `read_balance` in four steps).
    raid1_moves_long_runs: |kernel| kernel >= Kernel(6, 9);
    /// RAID-5 has workers besides its thread ("raid5: offload stripe handle to workqueue", 851c30c9badf, 3.12).
    has_stripe_workers: |kernel| kernel >= Kernel(3, 12);
    /// Writes of arrays with parity that must read first wait until the reads of those before are done, also synchronous
    /// writes (drivers/md/raid5.c, 2.6.18 to 2.6.24; before e9c7469bb4f5, 2.6.37).
    delays_parity_writes: |kernel| kernel < Kernel(3, 0);
    /// RAID-6 has read-modify-write, and arrays with parity have `rmw_level` (4.1, "md/raid6 algorithms: delta syndrome
    /// functions"); before, RAID-6 always reconstructs.
    has_rmw_level: |kernel| kernel >= Kernel(4, 1);
    /// md writes whole pages of the bitmap to disks that ask for it (8745faa95611, 6.4); before, of the last page only
    /// what is used.
    writes_whole_bitmap_pages: |kernel| kernel >= Kernel(6, 4);
    /// md has the lockless bitmap (5ab829f1971d, 6.18).
    has_lockless_bitmap: |kernel| kernel >= Kernel(6, 18);
    /// Each direct write to a block device has a plug: up to 6.4 in `blkdev_write_iter` (712c7364655f removed it), and
    /// since 6.10 in `__submit_bio` (060406c61c7c).
    plugs_device_writes: |kernel| kernel < Kernel(6, 5) || kernel >= Kernel(6, 10);
    /// Drivers split bios (8ae126660fdd, 4.3); before, filesystems asked what fits (`merge_bvec_fn`), and no bio of the page
    /// cache crosses a chunk.
    drivers_split_bios: |kernel| kernel >= Kernel(4, 3);
    /// A buffered read of more than the read-ahead window gets as much as a request can have (9491ae4aade6, 4.10).
    reads_beyond_window: |kernel| kernel >= Kernel(4, 10);
    /// io_uring exists (2b188cc1bb85, 5.1).
    has_io_uring: |kernel| kernel >= Kernel(5, 1);
    /// md takes I/O that must not wait (f51d46d0e7cb, 5.17); before, a worker of io_uring submits every I/O.
    md_takes_nowait: |kernel| kernel >= Kernel(5, 17);
    /// Writeback throttling applies to writes that md submits to members (block/blk-wbt.c, 4.10).
    throttles_writeback: |kernel| kernel >= Kernel(4, 10);
    /// Clones of RAID-1 and RAID-10 keep all flags of their bio, so that direct writes pass writeback throttling
    /// (e879a0d9cb08, 6.15 and 6.12.y; 6.1.y lacks it).
    mirrors_keep_flags: |kernel| kernel >= Kernel(6, 15) || kernel == Kernel(6, 12);
    /// A resync above its least speed has 32 I/Os at most in flight while other I/O goes on (e5797ae7033f and
    /// 03720d82d730, 6.16: `is_mddev_idle`, `sync_io_depth`).
    resync_yields: |kernel| kernel >= Kernel(6, 16);
    /// A commit of an external journal of ext4 flushes the filesystem's device after each fsync (aac45075f6d7, 6.15);
    /// before, only if blocks were allocated, so that a power failure can lose overwritten data. 6.1.192 lacks it.
    commits_flush_data: |kernel| kernel >= Kernel(6, 15);
    /// dm-writecache exists ("dm: add writecache target", 4.18).
    has_writecache: |kernel| kernel >= Kernel(4, 18);
    /// dm-writecache does not write back while writes go around it ("dm writecache: pause writeback if cache full and
    /// origin being written directly", 5.14).
    writecache_pauses: |kernel| kernel >= Kernel(5, 14);
    /// dm-delay polls for bios that are held for 50 ms at most ("dm delay: for short delays, use kthread instead of
    /// timers and wq", 6.8).
    polls_short_delays: |kernel| kernel >= Kernel(6, 8);
}

#[cfg(test)]
mod tests;
