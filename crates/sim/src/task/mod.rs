//! What tasks do: a fio job, a filesystem's journal, a replayed trace.

pub mod file_reader;
pub mod job;
pub mod offsets;
pub mod placement;
pub mod read_ahead;
pub mod replay;
pub mod writeback;

use crate::events::Time;

// A filesystem's journal: overwriting a file changes its time stamps, which are committed every few seconds.
//
// A commit (fs/jbd2/commit.c) writes the changed inode into the log; tasks that want to change the inode again wait
// for that. Then follow a flush and the commit block with forced unit access. The flushes matter most: a disk with a
// volatile cache writes all of it.

/// What a commit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStep {
    Idle,      // Nothing to commit
    Due(Time), // A change waits for its commit
    Metadata,  // Writing the inode into the log
    PreFlush,  // The flush before the commit block
    Commit,    // The commit block
}

/// One filesystem's journal.
pub struct Journal {
    pub interval: Time,           // Time between commits
    pub step: CommitStep,         // Its present step
    pub changed_at: Option<Time>, // When the file was first changed during the commit
    pub log: (u64, u64, u64),     // The log's position on the stack, in sectors: (first, sectors, next)
}

impl Journal {
    /// A journal in the middle of a stack of `sectors`, where mkfs.ext4 puts it.
    pub fn new(interval: Time, sectors: u64) -> Self {
        let length = (128 << 11).min(sectors / 4).max(64);
        Self { interval, step: CommitStep::Idle, changed_at: None, log: ((sectors / 2) & !7, length, 0) }
    }

    /// Allocates the next `sectors` of the log and returns the first.
    pub fn allocate_log(&mut self, sectors: u64) -> u64 {
        let (first, length, next) = self.log;
        let at = if next + sectors > length { 0 } else { next };
        self.log.2 = at + sectors;
        first + at
    }

    /// Whether writers wait because the inode is being written into the log.
    pub fn holds_writers(&self) -> bool {
        self.step == CommitStep::Metadata
    }
}
