//! Tasks, which submit I/Os: a job of the workload, a filesystem's journal, a replayed trace, a target's worker.

use super::{Limits, Simulation};
use crate::events::Time;
use crate::load::{Host, IO_URING_PER_CENT};
use crate::task::job::JobState;
use crate::task::journal::Journal;
use crate::task::replay::ReplayState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a task does.
pub enum Role {
    Job(Box<JobState>),                  // A fio job
    Journal(Box<Journal>),               // A journalling filesystem's commits
    Replay(Box<ReplayState>),            // A recorded load
    Flusher,                             // The kernel's thread that writes dirty pages
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
    pub flushing: bool,     // Whether it waits in fsync
    pub commits_next: bool, // Whether a commit follows its flush
    pub busy_until: Time,   // Until this time wake-ups have no effect
    pub io_ns: Time,        // Processor time of an I/O of one page of a job or a replay
    pub io_pages: Time,     // Pages of its last I/O
    pub spent_until: Time,  // Until this time it spins for locks, or does more than its steps cost
    pub spent: Time,        // All time that it spent so
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
            commits_next: false,
            busy_until: 0,
            io_ns: 0,
            io_pages: 0,
            spent_until: 0,
            spent: 0,
            finished: false,
        }
    }

    /// Whether it is a target's own thread.
    pub fn is_worker(&self) -> bool {
        matches!(self.role, Role::Worker { .. })
    }

    /// An entry of its plug, which can hold both: reads of members, and rows of a stripe cache.
    pub(super) fn plugged(&self, place: usize) -> Option<Plugged> {
        self.plug.get(place).or_else(|| self.callbacks.get(place - self.plug.len())).copied()
    }
}

// Lists of waiting tasks: the kernel's `wait_queue_head_t`.

/// Sleeping tasks, in order of arrival.
#[derive(Debug, Default)]
pub struct WaitList(pub VecDeque<u32>);

impl WaitList {
    /// Adds a task.
    pub fn add(&mut self, task: u32) {
        self.0.push_back(task);
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Moves all tasks of another list to the end of this list.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Wakes all tasks.
    pub fn wake_all(&mut self, sim: &mut Simulation) {
        self.wake(usize::MAX, sim);
    }

    /// Wakes at most `most` tasks, in order of arrival.
    pub fn wake(&mut self, most: usize, sim: &mut Simulation) {
        for task in self.0.drain(..most.min(self.0.len())) {
            sim.wake_up(task);
        }
    }
}

// The time of processors: what tasks spend on them, and the cores that tasks share.

/// Cores that serve tasks in order of arrival: with fewer cores than tasks, a task waits while all are busy.
pub struct Cores {
    pub free_at: BinaryHeap<Reverse<Time>>, // When each is free
    pub busy: Time,                         // Of all cores
}

impl Cores {
    /// The cores of a host; none if every task has its own.
    pub fn shared(cores: u32, tasks: usize) -> Option<Self> {
        let cores = cores as usize;
        (cores > 0 && cores < tasks).then(|| Self { free_at: vec![Reverse(0); cores].into(), busy: 0 })
    }

    /// The core that is free first is busy until `end`, at least from `now` on.
    fn occupy(&mut self, now: Time, end: Time) {
        if let Some(mut core) = self.free_at.peek_mut() {
            self.busy += end.saturating_sub(core.0.max(now));
            core.0 = end.max(core.0);
        }
    }
}

impl Task {
    /// The processor time of an I/O of one page without the switches between tasks.
    pub(super) fn io_price(&self, host: &Host, limits: &Limits) -> Time {
        let price = host.submit_ns + host.reap_ns;
        match &self.role {
            Role::Job(job) if job.spec.io_uring => price * IO_URING_PER_CENT / 100 + limits.punt_ns + limits.cpu_ns,
            _ => price + limits.cpu_ns,
        }
    }
}

impl Simulation {
    /// Wakes a sleeping job: its core switches to it, and has switched away from it before.
    pub(super) fn wake_job(&mut self, task: u32) {
        self.cpu_time += 2 * self.host.switch_ns;
        if let Some(cores) = &mut self.cores {
            let begin = cores.free_at.peek().map_or(0, |free_at| free_at.0).max(self.now);
            cores.occupy(self.now, begin + 2 * self.host.switch_ns);
        }
        self.wake_up(task);
    }

    /// When a task's processor can do more: now, or when what the task has done or waits for ends.
    pub fn processor_time(&self, task: u32) -> Time {
        let time = self.now.max(self.tasks[task as usize].spent_until);
        let core = self.cores.as_ref().and_then(|cores| cores.free_at.peek());
        core.map_or(time, |free_at| time.max(free_at.0))
    }

    /// A task, or an interrupt for it, spends processor time: by spinning for a lock, or for more bios.
    pub fn spend(&mut self, task: u32, time: Time) {
        let end = self.processor_time(task) + time;
        let task = &mut self.tasks[task as usize];
        task.spent_until = end;
        task.spent += time;
        self.cpu_time += if task.is_worker() { 0 } else { time };
    }

    /// A step of a task ends, which takes `time` after what it has spent: returns when the task can run again.
    pub(super) fn end_step(&mut self, task: u32, time: Time) -> Time {
        let end = self.processor_time(task) + time;
        self.cores.iter_mut().for_each(|cores| cores.occupy(self.now, end));
        end
    }
}
