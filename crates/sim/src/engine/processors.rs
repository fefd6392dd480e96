//! The time of processors: what tasks spend on them, and the cores that tasks share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Limits, Role, Simulation, Task};
use crate::events::Time;
use crate::load::{Host, IO_URING_PER_CENT};

/// Cores that serve tasks in order of arrival: with fewer cores than tasks, a task waits while all are busy.
pub struct Cores {
    free_at: BinaryHeap<Reverse<Time>>,
    busy: Time,
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

    /// The share of the time until `now` in which they were busy, 0 to 1.
    pub fn busy_share(&self, now: Time) -> f64 {
        (self.busy as f64 / (now.max(1) as f64 * self.free_at.len() as f64)).min(1.0)
    }
}

impl Task {
    /// The processor time of an I/O without the switches between tasks.
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
        self.cpu_time += if matches!(task.role, Role::Worker { .. }) { 0 } else { time };
    }

    /// A step of a task ends, which takes `time` after what it has spent: returns when the task can run again.
    pub(super) fn end_step(&mut self, task: u32, time: Time) -> Time {
        let end = self.processor_time(task) + time;
        if let Some(cores) = &mut self.cores {
            cores.occupy(self.now, end);
        }
        end
    }
}
