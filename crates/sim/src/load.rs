//! The load: jobs, a filesystem's journal, a replayed trace, and the processor time of I/Os.

use serde::{Deserialize, Serialize};

/// A journalling filesystem with one file: overwriting it changes its time stamps, which the journal commits.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Time between the commits of the journal while something changes, in ns: ext4's `commit=5`.
    pub commit_ns: u64,
}

/// How a filesystem writes the commits of its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// As ext3 and ext4: the changed blocks, a flush, then the commit block with forced unit access.
    Jbd2,
    /// As XFS: a flush, then one record with forced unit access.
    Xfs,
}

/// A group of equal jobs, in fio's words.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name of the group.
    pub name: String,
    /// Number of jobs in the group (`numjobs`).
    pub numjobs: u32,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Whether offsets are random; otherwise they are sequential.
    pub random: bool,
    /// Where random offsets fall (`random_distribution`).
    #[serde(default)]
    pub distribution: Distribution,
    /// Whether random offsets visit every block once before they visit one again.
    #[serde(default)]
    pub random_map: RandomMap,
    /// Sizes of reads: bytes, and the weight of this size.
    pub read_sizes: Vec<(u32, f64)>,
    /// Sizes of writes: bytes, and the weight of this size.
    pub write_sizes: Vec<(u32, f64)>,
    /// Offsets are multiples of this, in bytes (`blockalign`).
    pub align: u32,
    /// Byte of the stack at which the region of the first job begins.
    pub offset: u64,
    /// Bytes of a job's region.
    pub size: u64,
    /// Bytes by which the region of each job begins after that of the job before (`offset_increment`).
    #[serde(default)]
    pub offset_increment: u64,
    /// Bytes that each job reads and writes; it starts again at the beginning of its region if that is more
    /// (`io_size`).
    pub io_bytes: u64,
    /// I/Os in flight of each job at most (`iodepth`).
    pub iodepth: u32,
    /// I/Os submitted together (`iodepth_batch_submit`).
    pub batch_submit: u32,
    /// I/Os that must have completed before the job reaps them (`iodepth_batch_complete_min`).
    pub batch_complete_min: u32,
    /// A job whose depth was reached submits again only when at most this many are in flight (`iodepth_low`); 0: at
    /// once.
    #[serde(default)]
    pub iodepth_low: u32,
    /// A flush follows every so many writes (`fsync`); 0: never.
    #[serde(default)]
    pub fsync: u32,
    /// Whether writes have forced unit access (`sync=1` on a raw device, or over existing blocks of a file).
    #[serde(default)]
    pub fua: bool,
    /// Share of writes that a flush follows, 0 to 1, at random.
    #[serde(default)]
    pub fsync_share: f64,
    /// Pause after every `thinktime_blocks` I/Os, in ns (`thinktime`); 0: none.
    #[serde(default)]
    pub thinktime_ns: u64,
    /// I/Os between two pauses (`thinktime_blocks`).
    #[serde(default = "one_job")]
    pub thinktime_blocks: u32,
    /// I/Os per second of each job at most (`rate_iops`); 0: no limit.
    #[serde(default)]
    pub rate_iops: f64,
    /// Whether its I/O goes through the page cache (`direct=0`): sequential reads or writes.
    #[serde(default)]
    pub buffered: bool,
    /// Whether it tells the kernel that it reads in order, which doubles its read-ahead (`fadvise_hint`).
    #[serde(default)]
    pub fadvise_sequential: bool,
    /// Whether it submits with io_uring (`ioengine`), whose I/Os cost less processor time than libaio's.
    #[serde(default)]
    pub io_uring: bool,
}

fn one_job() -> u32 {
    1
}

/// Whether a job maps the blocks that it has visited, as fio does without `norandommap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RandomMap {
    /// Any block can be visited again at any time.
    #[default]
    Off,
    /// Each pass has the same order: fio seeds its generator again (backend.c, `clear_io_state`).
    Repeated,
    /// Each pass has another order: that of a `time_based` job (io_u.c, `get_next_rand_block`).
    Reshuffled,
}

/// Where random offsets fall, fio's `random_distribution`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Random,
    /// Zipf's law, scattered over the region.
    Zipf {
        /// The exponent.
        theta: f64,
    },
    /// Pareto's, scattered over the region.
    Pareto {
        /// fio's parameter of the distribution, 0 to 1.
        h: f64,
    },
    /// Gaussian about the middle of the region.
    Normal {
        /// The standard deviation, in per cent of the region.
        deviation: f64,
    },
    /// By zones of the region.
    Zoned {
        /// The zones in the order of the region: per cent of the accesses, per cent of the region.
        zones: Vec<(f64, f64)>,
    },
}

/// How a trace is replayed.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Whether I/Os are submitted at their recorded times (open loop); otherwise as fast as `iodepth` allows.
    pub timed: bool,
    /// I/Os in flight at most, if not `timed`.
    pub iodepth: u32,
    /// The recorded times are divided by this.
    #[serde(default = "unity")]
    pub speed: f64,
    /// Whether latencies are only those of I/Os for which a program waits: reads, synchronous writes, flushes. Writeback is
    /// replayed and counted, without its latency.
    #[serde(default)]
    pub waited_only: bool,
}

fn unity() -> f64 {
    1.0
}

/// Per cent of libaio's price that an I/O of io_uring costs: 2.3 of 2.9 µs at depth 128 on one machine, 1.20 of 1.43 µs
/// at depth 32 on a Ryzen 7950X.
pub const IO_URING_PER_CENT: u64 = 82;

/// Per cent of `scsi_ns` that submitting takes. The rest is the interrupt, 1 to 2 µs, and the completion, 0.3 to 0.5 µs:
/// a job's processor has them as well, since fio measured the sum, but a thread of md does not, as with `member_ns`.
pub const SCSI_SUBMIT_PER_CENT: u64 = 56;

/// Processor time of I/Os, spent by the job that issues them.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Time to prepare and submit one I/O to a device, system call included, in ns.
    pub submit_ns: u64,
    /// Time to reap one completion, in ns.
    pub reap_ns: u64,
    /// Time from a completion until a sleeping job runs, in ns.
    pub wake_ns: u64,
    /// Processor time of a switch between tasks, in ns; a job that sleeps pays two, one to sleep and one to go on.
    pub switch_ns: u64,
    /// Time that each page of 4 KiB after the first one adds to an I/O, in ns: to pin it, map it for DMA and release it.
    pub page_ns: u64,
    /// Time that a request to a SATA or SAS disk adds, in ns: the SCSI layer and its driver.
    pub scsi_ns: u64,
    /// Time that a filesystem adds to a direct write, in ns: its lock and the time stamp of the file.
    pub file_write_ns: u64,
    /// Time that each array or other target above the disks adds to an I/O, in ns.
    pub md_ns: u64,
    /// Time that each further bio of a member adds to an I/O of an array, in ns: of a copy, or of a piece.
    pub member_ns: u64,
    /// Time to handle a row of the stripe cache once, in ns.
    pub pass_ns: u64,
    /// Time to copy a page of 4 KiB into the stripe cache, in ns.
    pub copy_ns: u64,
    /// Data of which a core calculates parity in a second, in bytes: the kernel's line `xor:` at boot.
    pub xor_rate: u64,
    /// Data of which a core calculates both parities of RAID-6 in a second, in bytes: the kernel's line `raid6:` with
    /// `gen()`.
    pub syndrome_rate: u64,
    /// How long a lock is held while many cores wait for it, in ns: nearly all of it moves the lock to the next core.
    pub lock_ns: u64,
    /// The same for a counter that all cores change, in ns.
    pub atomic_ns: u64,
    /// Cores on which jobs and md's threads run; 0: each has its own.
    pub cores: u32,
}

impl Default for Host {
    /// A server of 2018 at 3.7 GHz: fio on an NVMe spends 3.4 µs of processor time on a 4 KiB read
    /// (fio's usr + sys over its IOPS).
    ///
    /// What md's locks cost differs by a factor of twelve between hosts: 0.1 µs on one die, 0.39 µs (commit 21bd9a68fef4)
    /// and 0.85 µs on two sockets, 1.2 µs on four NUMA nodes (b9b083f9044a). The other times are sums of steps: a member's bio takes 0.5 to 0.8 µs to submit and
    /// 0.3 to 0.5 µs to complete, a pass over a row 0.7 to 1.2 µs, a copied page that is in no cache 0.4 to 0.5 µs.
    /// Rates of parity are the boot lines of servers with AVX2. A switch between threads took 1.1 µs on an i7 of 2021.
    /// A page is pinned and released in 40 ns and mapped in 20 to 40 ns: no measurement judges this sum.
    ///
    /// On the same server, with the same test, a read took 3.4 µs on the NVMe and 7.7 µs on a SATA SSD, and a write to a
    /// file on the NVMe 5.9 µs (reference/fio_runs.csv, single disks). Its mirrors of both, which set nothing, took 12.6
    /// and 8.4 µs with 40 and 75 % reads.
    fn default() -> Self {
        Self {
            submit_ns: 2_200,
            reap_ns: 1_200,
            wake_ns: 3_000,
            switch_ns: 1_100,
            page_ns: 70,
            scsi_ns: 4_300,
            file_write_ns: 2_400,
            md_ns: 600,
            member_ns: 1_050,
            pass_ns: 950,
            copy_ns: 450,
            xor_rate: 24_000 << 20,
            syndrome_rate: 22_000 << 20,
            lock_ns: 400,
            atomic_ns: 75,
            cores: 32,
        }
    }
}
