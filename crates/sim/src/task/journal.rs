//! A filesystem's journal: overwriting a file changes its time stamps, which are committed every few seconds.
//!
//! A commit of ext4 (fs/jbd2/commit.c) writes the changed inode into the log; tasks that want to change the inode again
//! wait for that. Then follow a flush and the commit block with forced unit access. The flushes matter most: a disk
//! with a volatile cache writes all of it. A commit of XFS is a flush and one record (fs/xfs/xfs_log.c,
//! `xlog_write_iclog`).
//!
//! With [`Syncing`], a flush of a job (fsync) waits for the commit of its changes, and begins it. One commit runs at a
//! time: what changes meanwhile is in the next one, which all jobs that wait share.

use crate::bio::{Flags, Op};
use crate::events::Time;
use crate::kernel::Kernel;
use crate::load::Log;

/// What a commit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStep {
    Idle,      // Nothing to commit
    Due(Time), // A change waits for its commit
    Metadata,  // Writing the inode into the log
    DataFlush, // The flush of the stack, if the journal is elsewhere
    PreFlush,  // The flush before the commit block
    Commit,    // The commit block, or XFS's record
}

/// A job that waits in fsync for a commit.
#[derive(Clone, Copy, Debug)]
pub struct Syncer {
    pub task: u32,
    pub start: Time,         // When it called fsync
    pub flushes_after: bool, // Whether it flushes the stack afterwards, because the commit had done so already
}

/// An I/O of the journal: operation, first sector, bytes, flags.
pub type JournalIo = (Op, u64, u32, Flags);

/// How fsync commits.
pub struct Syncing {
    log: Log,
    record_bytes: u32,            // Bytes of a record of XFS
    pub flushes_data_first: bool, // Whether fsync flushes the stack before it looks at the journal
    data_flush: bool,             // Whether each commit flushes the stack
    data_flush_after_sync: bool,  // Whether a commit does so that an fsync waits for
    needs_data_flush: bool,       // Whether the next commit must do so
    pub committing: Vec<Syncer>,  // Jobs that wait for the running commit, or for one that is due
    pub next: Vec<Syncer>,        // Jobs that wait for the commit after it
}

impl Syncing {
    /// The rules of a filesystem on a stack with chunks of so many sectors, 0 for none; `is_external`: its journal is on
    /// another device.
    pub fn new(log: Log, chunk: u64, is_external: bool, kernel: Kernel) -> Self {
        let is_xfs = log == Log::Xfs;
        Self {
            log,
            record_bytes: if is_external { RECORD } else { record_bytes(chunk) },
            // fs/xfs/xfs_file.c, `xfs_file_fsync`; fs/xfs/xfs_log.c, `xlog_write_iclog`.
            flushes_data_first: is_xfs && is_external,
            data_flush: is_xfs && is_external,
            // fs/jbd2/journal.c, `jbd2_trans_will_send_data_barrier`.
            data_flush_after_sync: is_external && kernel.commits_flush_data(),
            needs_data_flush: false,
            committing: Vec::new(),
            next: Vec::new(),
        }
    }
}

/// Bytes of a record of XFS with one inode.
const RECORD: u32 = 4096;

/// Bytes of a record on a stack: mkfs.xfs gives the log the stripe unit of the data, or 32 KiB if that is above 256 KiB.
fn record_bytes(chunk: u64) -> u32 {
    match chunk * 512 {
        0 => RECORD,
        bytes @ ..=0x4_0000 => bytes as u32,
        _ => 32 << 10,
    }
}

/// One filesystem's journal.
pub struct Journal {
    pub interval: Time,           // Time between commits
    pub step: CommitStep,         // Its present step
    pub changed_at: Option<Time>, // When the file was first changed during the commit
    log: (u64, u64, u64),         // The log's position on its device, in sectors: (first, sectors, next)
    pub device: Option<u16>,      // The target with the log, if it is not the stack
    pub syncing: Option<Syncing>, // How fsync commits; none: it does not
    pub timer: Option<Time>,      // The time of its event for a commit that is due
    pub in_flight: bool,          // Whether its I/O is in flight
}

impl Journal {
    /// A journal in the middle of a stack of `sectors`, where mkfs.ext4 puts it.
    pub fn new(interval: Time, sectors: u64) -> Self {
        let length = (128 << 11).min(sectors / 4).max(64);
        Self {
            interval,
            step: CommitStep::Idle,
            changed_at: None,
            log: ((sectors / 2) & !7, length, 0),
            device: None,
            syncing: None,
            timer: None,
            in_flight: false,
        }
    }

    /// Moves the log to a device of `sectors`, which it fills.
    pub fn move_to(&mut self, target: u16, sectors: u64) {
        self.device = Some(target);
        self.log = (0, sectors, 0);
    }

    /// Allocates the next `sectors` of the log and returns the first.
    fn allocate_log(&mut self, sectors: u64) -> u64 {
        let (first, length, next) = self.log;
        let at = if next + sectors > length { 0 } else { next };
        self.log.2 = at + sectors;
        first + at
    }

    /// Whether writers wait because the inode is being written into the log.
    pub fn holds_writers(&self) -> bool {
        self.step == CommitStep::Metadata
    }

    /// Whether an event at this time lets it do its next step; otherwise the time of an event that it needs.
    pub fn wake(&mut self, now: Time) -> Result<(), Option<Time>> {
        self.take_timer(now);
        match self.step {
            _ if self.in_flight => Err(None),
            CommitStep::Idle => Err(None),
            CommitStep::Due(time) if now < time => Err(self.set_timer(time)),
            _ => Ok(()),
        }
    }

    /// Whether an event at this time is that of its timer, which is then over.
    pub fn take_timer(&mut self, now: Time) -> bool {
        self.timer.take_if(|time| *time == now).is_some()
    }

    /// A commit is due: returns the time of an event that it needs. An earlier event looks again.
    pub fn set_due(&mut self, time: Time) -> Option<Time> {
        self.step = CommitStep::Due(time);
        self.set_timer(time)
    }

    fn set_timer(&mut self, time: Time) -> Option<Time> {
        if self.timer.is_some() {
            return None;
        }
        self.timer = Some(time);
        self.timer
    }

    /// Goes to the next step, and returns its I/O; none if the commit is done.
    pub fn advance(&mut self) -> Option<JournalIo> {
        use CommitStep::{Commit, DataFlush, Due, Idle, Metadata, PreFlush};
        let is_xfs = self.syncing.as_ref().is_some_and(|syncing| syncing.log == Log::Xfs);
        self.step = match self.step {
            Due(_) if !is_xfs => Metadata,
            Due(_) | Metadata => self.take_data_flush().unwrap_or(PreFlush),
            DataFlush => PreFlush,
            PreFlush => Commit,
            Commit | Idle => Idle,
        };
        let flags = Flags::SYNC.with(Flags::METADATA);
        let (bytes, flags) = match self.step {
            Idle | Due(_) => return None,
            DataFlush | PreFlush => return Some((Op::Flush, 0, 0, flags)),
            Metadata => (8192, flags),
            Commit => (self.commit_bytes(), flags.with(Flags::FUA)),
        };
        Some((Op::Write, self.allocate_log(u64::from(bytes) / 512), bytes, flags))
    }

    /// Bytes of the commit block, or of XFS's record.
    fn commit_bytes(&self) -> u32 {
        match &self.syncing {
            Some(Syncing { log: Log::Xfs, record_bytes, .. }) => *record_bytes,
            _ => 4096,
        }
    }

    /// The step of a commit that flushes the stack by itself.
    fn take_data_flush(&mut self) -> Option<CommitStep> {
        let syncing = self.syncing.as_mut()?;
        let is_asked = std::mem::take(&mut syncing.needs_data_flush);
        (is_asked || syncing.data_flush).then_some(CommitStep::DataFlush)
    }

    /// A job waits in fsync for the commit of the last change. Returns what it does now.
    pub fn sync(&mut self, syncer: Syncer) -> SyncAction {
        let Some(syncing) = &mut self.syncing else { return SyncAction::Flush };
        syncing.needs_data_flush |= syncing.data_flush_after_sync && self.step != CommitStep::Idle;
        match self.step {
            CommitStep::Idle if syncing.flushes_data_first => SyncAction::Done,
            CommitStep::Idle => SyncAction::Flush,
            CommitStep::Due(_) => {
                syncing.committing.push(syncer);
                SyncAction::Commit
            }
            _ if self.changed_at.is_some() => {
                syncing.next.push(syncer);
                SyncAction::Wait
            }
            step => {
                let is_flushed = matches!(step, CommitStep::PreFlush | CommitStep::Commit);
                let flushes_after = is_flushed && !syncing.flushes_data_first;
                syncing.committing.push(Syncer { flushes_after, ..syncer });
                SyncAction::Wait
            }
        }
    }

    /// A commit is done: returns the jobs that waited for it, and whether others wait for the next one.
    pub fn take_syncers(&mut self) -> (Vec<Syncer>, bool) {
        let Some(syncing) = &mut self.syncing else { return (Vec::new(), false) };
        let next = std::mem::take(&mut syncing.next);
        let is_awaited = !next.is_empty();
        (std::mem::replace(&mut syncing.committing, next), is_awaited)
    }
}

/// What fsync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncAction {
    Flush,  // It flushes the stack: nothing has changed
    Done,   // It returns
    Commit, // It begins a commit, and waits for it
    Wait,   // It waits for the commit that runs, or for the next one
}
