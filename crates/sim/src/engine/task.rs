//! Tasks, which submit I/Os: a job of the workload, a filesystem's journal, a replayed trace, a target's worker.

use std::collections::VecDeque;

use crate::events::Time;
use crate::task::job::JobState;
use crate::task::journal::Journal;
use crate::task::replay::ReplayState;

/// What a task does.
pub enum Role {
    Job(Box<JobState>),                  // A fio job
    Journal(Box<Journal>),               // A journalling filesystem's commits
    Replay(Box<ReplayState>),            // A recorded load
    Worker { target: u16, worker: u32 }, // A background worker of a target, by the target's own number
}

/// One entry of a plug.
#[derive(Clone, Copy, Debug)]
pub struct Plugged {
    pub target: u16, // The target that is called when the plug ends
    pub token: u32,  // The target's own number for it
}

/// A thread that submits I/Os and sleeps.
pub struct Task {
    pub role: Role,              // What it does
    pub group: usize,            // The job group that its I/Os count for
    pub work: VecDeque<u32>,     // Bios that wait to be mapped, in this order (`current->bio_list`)
    pub plug: Vec<Plugged>, // Requests held back until the system call ends, so that neighbours merge (`plug->mq_list`)
    pub callbacks: Vec<Plugged>, // Callbacks of other targets when the plug ends (`plug->cb_list`)
    pub batched: u32,       // I/Os made in this system call
    pub blocked: bool,      // Whether it sleeps in a wait list with bios left in `work`
    pub sleeping: bool,     // Whether it waits for completions
    pub flushing: bool,     // Whether it waits for its own flush
    pub busy_until: Time,   // Until this time wake-ups have no effect
    pub io_ns: Time,        // Processor time of an I/O of a job or a replay
    pub spent_until: Time,  // Until this time it spins for locks, or does more than its steps cost
    pub finished: bool,     // Whether it never runs again
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
            io_ns: 0,
            spent_until: 0,
            finished: false,
        }
    }
}
