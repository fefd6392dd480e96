//! A filesystem's journal: overwriting a file changes its time stamps, and every few seconds that is committed.
//!
//! A commit (fs/jbd2/commit.c) writes the changed inode into the log, during which whoever wants to change the inode
//! again waits; then a flush, the commit block, and another flush where the disk knows no forced unit access. The
//! flushes are what matters: a disk with a volatile cache writes all of it, and serves nothing meanwhile.

use crate::events::Time;

/// What a commit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to commit.
    Idle,
    /// A change waits for its commit.
    Due(Time),
    /// Writing the inode into the log.
    Metadata,
    /// The flush before the commit block.
    Before,
    /// The commit block.
    Commit,
    /// The flush after it.
    After,
}

/// One filesystem's journal.
#[derive(Debug)]
pub struct Journal {
    /// Time between commits.
    pub interval: Time,
    /// Where it is.
    pub step: Step,
    /// Something changed during the commit, at this time.
    pub changed: Option<Time>,
    /// The log's place on the stack, in sectors: (first, sectors, next).
    pub log: (u64, u64, u64),
}

impl Journal {
    /// A journal in the middle of a stack of `sectors`, where mkfs.ext4 puts it.
    pub fn new(interval: Time, sectors: u64) -> Self {
        let length = (128 << 11).min(sectors / 4).max(64);
        Self { interval, step: Step::Idle, changed: None, log: ((sectors / 2) & !7, length, 0) }
    }

    /// The place of the next `sectors` of the log.
    pub fn advance(&mut self, sectors: u64) -> u64 {
        let (first, length, next) = self.log;
        let at = if next + sectors > length { 0 } else { next };
        self.log.2 = at + sectors;
        first + at
    }

    /// Whether writers wait because the inode is being written into the log.
    pub fn holds_writers(&self) -> bool {
        self.step == Step::Metadata
    }
}
