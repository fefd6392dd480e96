//! The run itself: events one after the other, and what tasks do when it is their turn.

use super::{Next, PlugAfter, Role, Simulation, Target};
use crate::bio::{Flags, Op};
use crate::error::SimError;
use crate::events::{Event, Happening, Time};
use crate::metrics::Measured;
use crate::task::job::NextAction;
use crate::task::journal::Step;

/// Requests that a plug holds at most (block/blk-mq.c, `BLK_MAX_REQUEST_COUNT` of several queues).
const PLUG: usize = 32;

/// What is left of a run.
#[derive(Debug)]
pub struct Finished {
    /// What the jobs measured.
    pub measured: Measured,
    /// Simulated time, the ramp included.
    pub now: Time,
    /// Time that jobs have spent on their processors.
    pub processor: Time,
    /// The targets, the lowest first.
    pub targets: Vec<Box<dyn Target>>,
}

impl Simulation {
    /// Plays everything; nothing is left if it was told to stop.
    pub fn play(mut self, stop: &dyn Fn() -> bool) -> Result<Option<Finished>, SimError> {
        let ended = self.run_from_start(stop);
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(ended.then(|| self.finish())),
        }
    }

    fn finish(self) -> Finished {
        Finished {
            measured: self.metrics.finish(self.now),
            now: self.now,
            processor: self.processor,
            targets: self.targets.into_iter().flatten().collect(),
        }
    }

    /// Plays until the jobs end, or the time is over. False if it was told to stop.
    pub(super) fn run_from_start(&mut self, stop: &dyn Fn() -> bool) -> bool {
        for task in 0..self.tasks.len() as u32 {
            self.events.at(0, Event::task(task));
        }
        self.run(stop)
    }

    /// Plays on.
    fn run(&mut self, stop: &dyn Fn() -> bool) -> bool {
        let mut events = 0u32;
        while self.running > 0 {
            let Some((time, event)) = self.events.next() else {
                self.failure = self.failure.take().or(Some(SimError::Stuck));
                break;
            };
            if time > self.end.runtime && self.end.at_once {
                self.now = self.end.runtime;
                break;
            }
            self.now = time;
            events = events.wrapping_add(1);
            if events & 0xffff == 0 && stop() {
                return false;
            }
            match event.happening() {
                Happening::Task(task) => self.run_task(task),
                Happening::Timer { target, timer } => {
                    let mut callee = self.take(target);
                    callee.timer(self, timer);
                    self.put(target, callee);
                }
            }
            if self.metrics.ios >= self.end.max_ios {
                break;
            }
        }
        true
    }

    /// As [`play`](Self::play), and sees that nothing is left behind when everything has come to rest.
    #[cfg(test)]
    pub fn play_out(mut self) -> Finished {
        self.run_from_start(&|| false);
        let end = self.now;
        assert_eq!(self.running, 0, "jobs that wait for ever");
        self.running = usize::MAX;
        self.run(&|| false);
        assert_eq!(self.bios.in_use(), 0, "bios");
        assert_eq!(self.ios.len(), self.free_ios.len());
        self.targets.iter().flatten().for_each(|target| target.assert_idle());
        self.now = end;
        self.finish()
    }

    /// A task runs.
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
            task.blocked = false;
            if !self.send_work(number) {
                return;
            }
            match self.tasks[number as usize].role {
                Role::Job(_) => self.end_submission(number),
                Role::Journal(_) | Role::Replay(_) => self.unplug(number),
                Role::Worker { .. } => self.events.at(self.now, Event::task(number)),
            }
            return;
        }
        match task.role {
            Role::Job(_) => self.run_job(number),
            Role::Journal(_) => self.run_journal(number),
            Role::Replay(_) => self.run_replay(number),
            Role::Worker { target, worker } => self.run_worker(number, target, worker),
        }
    }

    /// A target's worker does one step.
    #[inline(never)]
    fn run_worker(&mut self, number: u32, target: u16, worker: u32) {
        let task = &mut self.tasks[number as usize];
        // Of what wakes it at other times than it has planned itself, only what finds it asleep counts.
        if self.now < task.busy_until {
            return;
        }
        task.sleeping = false;
        let mut callee = self.take(target);
        let next = callee.work(self, number, worker);
        self.put(target, callee);
        // If a bio must wait, the worker is called again when it goes on; this answer is void.
        if !self.send_work(number) {
            return;
        }
        match next {
            Next::Again { after, plug, undisturbed } => {
                let task = &mut self.tasks[number as usize];
                let full = task.plug.len() >= PLUG;
                let time = self.now + after;
                if undisturbed {
                    task.busy_until = time;
                }
                if plug == PlugAfter::Ends || (plug == PlugAfter::EndsIfFull && full) {
                    self.unplug(number);
                }
                self.events.at(time, Event::task(number));
            }
            Next::Sleep | Next::Until(_) => {
                self.tasks[number as usize].sleeping = true;
                self.unplug(number);
                if let Next::Until(time) = next {
                    self.events.at(time, Event::task(number));
                }
            }
            Next::Finished => {
                self.tasks[number as usize].finished = true;
                self.unplug(number);
            }
        }
    }

    /// A job reaps what it can, and submits one I/O, or sleeps.
    #[inline(always)]
    fn run_job(&mut self, number: u32) {
        let now = self.now;
        let holds = self.journal.is_some_and(|j| self.holds_writers(j));
        let task = &mut self.tasks[number as usize];
        if task.flushing {
            return;
        }
        task.sleeping = false;
        let Role::Job(job) = &mut task.role else { return };
        let reaped = job.reap();
        for _ in 0..reaped {
            let Some(io) = job.completed.pop_front() else { break };
            job.in_flight -= 1;
            let done = self.ios[io as usize];
            self.free_ios.push(io);
            self.metrics.count(task.group, done.op, done.bytes, done.start, now);
        }
        if holds {
            // The inode's lock is held by whoever waits for the journal, so everyone waits.
            self.held.add(number);
            return;
        }
        if now >= self.end.runtime {
            job.stop();
        }
        let action = job.next_action(now);
        match action {
            NextAction::Submit(op, byte, bytes) => {
                task.batched += 1;
                self.make_io(number, op, byte / 512, bytes, Flags::DIRECT);
                if op == Op::Write {
                    self.changed();
                }
                if self.send_work(number) {
                    self.end_submission(number);
                }
            }
            NextAction::Flush => {
                task.flushing = true;
                self.make_io(number, Op::Flush, 0, 0, Flags::DIRECT);
                if self.send_work(number) {
                    self.unplug(number);
                }
            }
            NextAction::Wait => {
                task.batched = 0;
                let more = job.completed.len() as u32 >= job.wakes_at();
                task.sleeping = !more;
                self.unplug(number);
                if more {
                    self.events.at(now + self.host.reap_ns, Event::task(number));
                }
            }
            NextAction::Until(time) => {
                task.batched = 0;
                self.unplug(number);
                self.events.at(time.min(self.end.runtime), Event::task(number));
            }
            NextAction::Finish => {
                task.finished = true;
                self.running -= 1;
            }
        }
    }

    /// A job has sent an I/O down: the system call ends, or takes the next one of its batch.
    #[inline]
    fn end_submission(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        let Role::Job(job) = &task.role else { return };
        if task.batched >= job.batch() {
            task.batched = 0;
            self.unplug(number);
        }
        let cost = self.submission();
        self.events.at(self.now + cost, Event::task(number));
    }

    /// The processor's time for one I/O.
    #[inline]
    pub(super) fn submission(&mut self) -> Time {
        let cost = self.host.submit_ns + self.host.reap_ns + self.top.limits.cpu_ns;
        // Caches, interrupts and neighbours make it vary; without that, jobs would fall into step for ever.
        let cost = cost / 2 + self.rng.below(cost);
        self.processor += cost;
        // Time must go on, whatever a host is said to cost.
        cost.max(1)
    }

    /// Ends the run: it cannot go on.
    pub(super) fn fail(&mut self, error: SimError) {
        self.failure = Some(error);
        self.running = 0;
    }

    /// A task's I/O is done.
    #[inline]
    pub(super) fn io_done(&mut self, io: u32) {
        let number = self.ios[io as usize].task;
        let task = &mut self.tasks[number as usize];
        match &mut task.role {
            Role::Job(job) => {
                if self.ios[io as usize].op == Op::Flush {
                    task.flushing = false;
                    self.free_ios.push(io);
                    self.events.at(self.now + self.host.wake_ns, Event::task(number));
                    return;
                }
                job.completed.push_back(io);
                if task.sleeping && job.completed.len() as u32 >= job.wakes_at() {
                    task.sleeping = false;
                    self.events.at(self.now + self.host.wake_ns, Event::task(number));
                }
            }
            Role::Journal(_) => {
                self.free_ios.push(io);
                self.events.at(self.now, Event::task(number));
            }
            Role::Replay(_) => self.end_replay_io(number, io),
            // What targets submit has an owner of its own.
            Role::Worker { .. } => unreachable!("workers own no I/O"),
        }
    }

    fn holds_writers(&self, journal: u32) -> bool {
        matches!(&self.tasks[journal as usize].role, Role::Journal(journal) if journal.holds_writers())
    }

    /// A job has changed the file: the journal has something to commit.
    fn changed(&mut self) {
        let Some(number) = self.journal else { return };
        let Role::Journal(journal) = &mut self.tasks[number as usize].role else { return };
        match journal.step {
            Step::Idle => {
                let due = self.now + journal.interval;
                journal.step = Step::Due(due);
                self.events.at(due, Event::task(number));
            }
            Step::Due(_) | Step::Metadata => {}
            _ => journal.changed = journal.changed.or(Some(self.now)),
        }
    }

    /// The journal's next step: each begins when the one before is done.
    #[inline(never)]
    fn run_journal(&mut self, number: u32) {
        let now = self.now;
        let Role::Journal(journal) = &mut self.tasks[number as usize].role else { return };
        let (step, io) = match journal.step {
            Step::Idle => return,
            Step::Due(time) if now < time => return,
            Step::Due(_) => (Step::Metadata, Some((Op::Write, 8192))),
            Step::Metadata => (Step::Before, Some((Op::Flush, 0))),
            Step::Before => (Step::Commit, Some((Op::Write, 4096))),
            Step::Commit => (Step::After, Some((Op::Flush, 0))),
            Step::After => (Step::Idle, None),
        };
        journal.step = step;
        if let Some((op, bytes)) = io {
            let sector = if op == Op::Write { journal.advance(u64::from(bytes) / 512) } else { 0 };
            self.make_io(number, op, sector, bytes, Flags::SYNC.with(Flags::METADATA));
            if self.send_work(number) {
                self.unplug(number);
            }
        } else if let Some(since) = journal.changed.take() {
            let due = (since + journal.interval).max(now);
            journal.step = Step::Due(due);
            self.events.at(due, Event::task(number));
        }
        if step == Step::Before {
            let mut held = std::mem::take(&mut self.held);
            held.wake_all(self);
            self.held = held;
        }
    }
}
