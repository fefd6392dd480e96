//! Tasks, which submit I/Os: a job of the workload, a filesystem's journal, a replayed trace, a target's worker.

use std::collections::VecDeque;

use crate::events::Time;
use crate::task::job::JobState;
use crate::task::journal::Journal;
use crate::task::replay::ReplayState;

/// What a task does.
#[derive(Debug)]
pub enum Role {
    /// A fio job.
    Job(Box<JobState>),
    /// A journalling filesystem's commits.
    Journal(Box<Journal>),
    /// A recorded load.
    Replay(Box<ReplayState>),
    /// A background worker of a target.
    Worker {
        target: u16,
        /// The target's own number for it.
        worker: u32,
    },
}

/// One entry of a plug.
#[derive(Clone, Copy, Debug)]
pub struct Plugged {
    /// The target that is called when the plug ends.
    pub target: u16,
    /// The target's own number for it.
    pub token: u32,
}

/// A thread that submits I/Os and sleeps.
#[derive(Debug)]
pub struct Task {
    /// What it does.
    pub role: Role,
    /// The job group that its I/Os count for.
    pub group: usize,
    /// Bios that wait to be mapped, in this order (`current->bio_list`).
    pub work: VecDeque<u32>,
    /// Requests held back until the system call ends, so that neighbours merge (`plug->mq_list`).
    pub plug: Vec<Plugged>,
    /// Callbacks of other targets when the plug ends (`plug->cb_list`).
    pub callbacks: Vec<Plugged>,
    /// I/Os made in this system call.
    pub batched: u32,
    /// Whether it sleeps in a wait list with bios left in `work`.
    pub blocked: bool,
    /// Whether it waits for completions.
    pub sleeping: bool,
    /// Whether it waits for its own flush.
    pub flushing: bool,
    /// Until this time wake-ups have no effect.
    pub busy_until: Time,
    /// Whether it never runs again.
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
