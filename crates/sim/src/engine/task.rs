//! Tasks: whoever submits I/Os. A job of the workload, a filesystem's journal, a replayed trace, a target's worker.

use std::collections::VecDeque;

use crate::events::Time;
use crate::task::job::Job;
use crate::task::journal::Journal;
use crate::task::replay::Replay;

/// Who a task is.
#[derive(Debug)]
pub enum Role {
    /// A fio job.
    Job(Box<Job>),
    /// A journalling filesystem's commits.
    Journal(Box<Journal>),
    /// A recorded load.
    Replay(Box<Replay>),
    /// A background worker of a target.
    Worker {
        /// The target.
        target: u16,
        /// What the target calls it.
        worker: u32,
    },
}

/// What a plug holds back.
#[derive(Clone, Copy, Debug)]
pub struct Plugged {
    /// The target that has it.
    pub target: u16,
    /// What the target calls it.
    pub token: u32,
}

/// A thread that submits I/Os and sleeps.
#[derive(Debug)]
pub struct Task {
    /// Who it is.
    pub role: Role,
    /// The job group that its I/Os count for.
    pub group: usize,
    /// Bios on their way down, to be submitted in this order (`current->bio_list`).
    pub work: VecDeque<u32>,
    /// Requests held back until the system call ends, so that neighbours merge (`plug->mq_list`).
    pub plug: Vec<Plugged>,
    /// What other targets hold back as long (`plug->cb_list`).
    pub callbacks: Vec<Plugged>,
    /// I/Os made in this system call.
    pub batched: u32,
    /// Whether it sleeps in a queue, with work.
    pub blocked: bool,
    /// Whether it waits for completions.
    pub sleeping: bool,
    /// Whether it waits for its own flush.
    pub flushing: bool,
    /// Whoever wakes it before this time wakes it in vain.
    pub busy_until: Time,
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
            callbacks: Vec::new(),
            batched: 0,
            blocked: false,
            sleeping: false,
            flushing: false,
            busy_until: 0,
            finished: false,
        }
    }
}
