//! Tasks: whoever submits I/Os. A job of the workload, a filesystem's journal, a replayed trace, md's resync.

pub mod job;
pub mod journal;
pub mod offsets;
pub mod replay;

use std::collections::VecDeque;

use job::Job;
use journal::Journal;
use replay::Replay;

/// Who a task is.
#[derive(Debug)]
pub enum Role {
    /// A fio job.
    Job(Box<Job>),
    /// A journalling filesystem's commits.
    Journal(Journal),
    /// A recorded load.
    Replay(Box<Replay>),
    /// The thread of the array that is this node.
    Thread(u16),
    /// The bitmap of the array that is this node.
    Bitmap(u16),
    /// The sync of the array that is this node.
    Sync(u16),
}

/// A thread that submits I/Os and sleeps.
#[derive(Debug)]
pub struct Task {
    /// Who it is.
    pub role: Role,
    /// The job group that its I/Os count for.
    pub group: usize,
    /// Bios on their way down, to be submitted in this order.
    pub work: VecDeque<u32>,
    /// Requests held back until the system call ends, so that neighbours merge.
    pub plug: Vec<u32>,
    /// What arrays hold back as long as requests are: (node, entry of the stripe cache).
    pub touched: Vec<(u16, u32)>,
    /// I/Os made in this system call.
    pub batched: u32,
    /// Whether it sleeps in a queue, with work.
    pub blocked: bool,
    /// Whether it waits for completions.
    pub sleeping: bool,
    /// Whether it waits for its own flush.
    pub flushing: bool,
    /// No more to do.
    pub finished: bool,
}

impl Task {
    /// A task with nothing to do yet.
    pub fn new(role: Role, group: usize) -> Self {
        Self {
            role,
            group,
            work: VecDeque::new(),
            plug: Vec::new(),
            touched: Vec::new(),
            batched: 0,
            blocked: false,
            sleeping: false,
            flushing: false,
            finished: false,
        }
    }
}
