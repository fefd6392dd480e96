//! The event loop, and what each kind of task does when it runs.

use super::{Cores, PlugAfter, Role, Simulation, Target, Task, TaskIo, WorkerNext};
use crate::bio::{Flags, Op};
use crate::error::SimError;
use crate::events::{Event, EventKind, Time};
use crate::metrics::JobMetrics;
use crate::task::job::NextAction;

/// Requests that a plug holds at most (block/blk-mq.c, `BLK_MAX_REQUEST_COUNT` of several queues).
pub(super) const PLUG: usize = 32;

/// The state at the end of a run.
pub struct FinishedRun {
    pub measured: JobMetrics,          // What the jobs measured
    pub now: Time,                     // Simulated time, the ramp included
    pub cpu_time: Time,                // Time that jobs have spent on their processors
    pub cores_busy: Option<f64>,       // Share of the time that the cores were busy, if tasks shared them
    pub targets: Vec<Box<dyn Target>>, // The targets, the lowest first
}

impl Simulation {
    /// Plays the whole run; `None` if `stop` ended it.
    pub fn play(mut self, stop: &dyn Fn() -> bool) -> Result<Option<FinishedRun>, SimError> {
        let ended = self.run_from_start(stop);
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(ended.then(|| self.finish())),
        }
    }

    pub(super) fn finish(self) -> FinishedRun {
        let busy_share = |cores: Cores| cores.busy as f64 / (self.now.max(1) as f64 * cores.free_at.len() as f64);
        FinishedRun {
            measured: self.metrics.finish(self.now),
            now: self.now,
            cpu_time: self.cpu_time,
            cores_busy: self.cores.map(|cores| busy_share(cores).min(1.0)),
            targets: self.targets.into_iter().flatten().collect(),
        }
    }

    /// Plays until the jobs end or the time is over. False if `stop` ended it.
    pub(super) fn run_from_start(&mut self, stop: &dyn Fn() -> bool) -> bool {
        for task in 0..self.tasks.len() as u32 {
            self.events.schedule(0, Event::task(task));
        }
        self.run(stop)
    }

    /// Plays events from the present state on.
    pub(super) fn run(&mut self, stop: &dyn Fn() -> bool) -> bool {
        let mut events = 0u32;
        while self.running > 0 {
            let Some((time, event)) = self.events.next() else {
                self.failure = self.failure.take().or(Some(SimError::Stuck));
                break;
            };
            if time > self.stop_condition.runtime && self.stop_condition.at_once {
                self.now = self.stop_condition.runtime;
                break;
            }
            self.now = time;
            events = events.wrapping_add(1);
            if events & 0xffff == 0 && stop() {
                return false;
            }
            match event.kind() {
                EventKind::Task(task) => self.run_task(task),
                EventKind::Timer { target, timer } => {
                    let mut callee = self.take_target(target);
                    callee.timer(self, timer);
                    self.put_target(target, callee);
                }
            }
            if self.metrics.ios >= self.stop_condition.max_ios {
                break;
            }
        }
        true
    }

    #[inline(always)]
    fn run_task(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        if task.finished {
            return;
        }
        if task.blocked {
            if matches!(task.role, Role::Replay(_)) {
                return self.run_replay(number);
            }
            if let Role::Journal(journal) = &mut task.role
                && journal.take_timer(self.now)
            {
                return; // Nothing has become free
            }
            task.blocked = false;
            if !self.send_queued_bios(number) {
                return;
            }
            match self.tasks[number as usize].role {
                Role::Job(_) => self.end_submission(number),
                Role::Journal(_) | Role::Replay(_) => self.unplug(number),
                Role::Flusher => self.end_flusher_step(number),
                Role::Worker { .. } => self.events.schedule(self.now, Event::task(number)),
            }
            return;
        }
        match task.role {
            Role::Job(_) => self.run_job(number),
            Role::Journal(_) => self.run_journal(number),
            Role::Replay(_) => self.run_replay(number),
            Role::Flusher => self.run_flusher(number),
            Role::Worker { target, worker } => self.run_worker(number, target, worker),
        }
    }

    /// A target's worker does one step.
    #[inline(never)]
    fn run_worker(&mut self, number: u32, target: u16, worker: u32) {
        let task = &mut self.tasks[number as usize];
        // Wake-ups at times that it has not planned itself count only if it sleeps.
        if self.now < task.busy_until {
            return;
        }
        task.sleeping = false;
        let mut callee = self.take_target(target);
        let next = callee.work(self, number, worker);
        self.put_target(target, callee);
        // If a bio must wait, the worker runs again when the bio can continue; `next` does not apply then.
        if !self.send_queued_bios(number) {
            return;
        }
        match next {
            WorkerNext::Again { after, plug, undisturbed } => {
                let task = &mut self.tasks[number as usize];
                let full = task.plug.len() >= PLUG;
                let time = self.end_step(number, after);
                if undisturbed {
                    self.tasks[number as usize].busy_until = time;
                }
                if plug == PlugAfter::Ends || (plug == PlugAfter::EndsIfFull && full) {
                    self.unplug(number);
                }
                self.events.schedule(time, Event::task(number));
            }
            WorkerNext::Sleep | WorkerNext::Until(_) => {
                self.tasks[number as usize].sleeping = true;
                self.unplug(number);
                if let WorkerNext::Until(time) = next {
                    self.events.schedule(time, Event::task(number));
                }
            }
            WorkerNext::Finished => {
                self.tasks[number as usize].finished = true;
                self.unplug(number);
            }
        }
    }

    /// A job reaps completions, and submits one I/O or sleeps.
    #[inline(always)]
    fn run_job(&mut self, number: u32) {
        let now = self.now;
        let holds = |role: &Role| matches!(role, Role::Journal(journal) if journal.holds_writers());
        let journal_holds = self.journal.is_some_and(|journal| holds(&self.tasks[journal as usize].role));
        let task = &mut self.tasks[number as usize];
        if task.flushing {
            return;
        }
        task.sleeping = false;
        let Role::Job(job) = &mut task.role else { return };
        if job.spec.buffered && !self.continue_call(number) {
            return;
        }
        let task = &mut self.tasks[number as usize];
        let Role::Job(job) = &mut task.role else { return };
        let reaped = job.reap();
        for _ in 0..reaped {
            let Some(io) = job.completed.pop_front() else { break };
            job.in_flight -= 1;
            let done = self.ios.remove(io);
            self.metrics.record_io(task.group, done.op, done.bytes, done.start, now);
        }
        if journal_holds {
            // The task that waits for the journal holds the inode's lock, so every task waits.
            self.journal_waiters.add(number);
            return self.unplug(number);
        }
        if now >= self.stop_condition.runtime {
            job.stop();
        }
        let action = job.next_action(now);
        match action {
            NextAction::Submit(_, byte, bytes) if job.spec.buffered => {
                job.begin_call(byte, bytes, now);
                self.continue_call(number);
            }
            NextAction::Submit(op, byte, bytes) => {
                task.batched += 1;
                let flags = job.flags();
                self.submit_direct(number, (op, byte, bytes), flags);
            }
            NextAction::Flush => {
                task.flushing = true;
                self.begin_sync(number);
            }
            NextAction::Wait => {
                task.batched = 0;
                let more = job.completed.len() as u32 >= job.wake_threshold();
                task.sleeping = !more;
                self.unplug(number);
                if more {
                    self.events.schedule(now + self.host.reap_ns, Event::task(number));
                }
            }
            NextAction::Until(time) => {
                task.batched = 0;
                self.unplug(number);
                self.events.schedule(time.min(self.stop_condition.runtime), Event::task(number));
            }
            NextAction::Finish => {
                task.finished = true;
                self.running -= 1;
                // Its last I/O can be done while its plug still holds back a row that others use.
                self.unplug(number);
            }
        }
    }

    /// A job submits a direct I/O: operation, byte, bytes.
    #[inline(always)]
    fn submit_direct(&mut self, number: u32, (op, byte, bytes): (Op, u64, u32), flags: Flags) {
        self.make_io(number, op, byte / 512, bytes, flags);
        if op == Op::Write {
            self.mark_file_changed();
            if self.journal.is_some() {
                self.spend(number, self.host.file_write_ns);
            }
        }
        if self.send_queued_bios(number) {
            self.end_submission(number);
        }
    }

    /// A job has submitted an I/O: ends the system call, or submits the next I/O of its batch.
    pub(super) fn end_submission(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        let Role::Job(job) = &task.role else { return };
        // Each window has its own plug (`read_pages`).
        if task.batched >= job.batch || job.reader.is_some() {
            task.batched = 0;
            self.unplug(number);
        }
        let end = self.charge_submission_cost(number);
        self.events.schedule(end, Event::task(number));
    }

    /// Draws and counts the processor time of one I/O; returns when the task can run again.
    pub(super) fn charge_submission_cost(&mut self, task: u32) -> Time {
        let Task { io_ns, io_pages, .. } = self.tasks[task as usize];
        self.charge(task, io_ns + io_pages.saturating_sub(1) * self.host.page_ns)
    }

    /// Counts processor time of about `cost`; returns when the task can run again.
    pub(super) fn charge(&mut self, task: u32, cost: Time) -> Time {
        // Caches, interrupts and other processes make it vary; without that, jobs would stay in lockstep for ever.
        let cost = cost / 2 + self.rng.below(cost);
        self.cpu_time += cost;
        // Time must advance even if the host's costs are 0.
        self.end_step(task, cost.max(1))
    }

    /// Ends the run with an error.
    pub(super) fn fail_run(&mut self, error: SimError) {
        self.failure = Some(error);
        self.running = 0;
    }

    /// A task's I/O is done.
    pub(super) fn complete_io(&mut self, io: u32) {
        let TaskIo { task: number, op, start, .. } = *self.ios.get(io);
        let task = &mut self.tasks[number as usize];
        match &mut task.role {
            Role::Job(job) => {
                if op == Op::Flush {
                    self.ios.remove(io);
                    return self.end_flush(number, start);
                }
                if let Some(reader) = &mut job.reader {
                    let is_awaited = reader.end_bio(io);
                    self.ios.remove(io);
                    if is_awaited && std::mem::take(&mut task.sleeping) {
                        self.wake_job(number);
                    }
                    return;
                }
                job.completed.push_back(io);
                if task.sleeping && job.completed.len() as u32 >= job.wake_threshold() {
                    task.sleeping = false;
                    self.wake_job(number);
                }
            }
            Role::Journal(journal) => {
                journal.in_flight = false;
                self.ios.remove(io);
                self.events.schedule(self.now, Event::task(number));
            }
            Role::Replay(_) => self.end_replay_io(number, io),
            Role::Flusher => self.end_flusher_io(io),
            // Bios of workers are owned by their targets.
            Role::Worker { .. } => unreachable!("workers own no I/O"),
        }
    }
}
