//! The run itself: events one after the other, and what tasks do when it is their turn.

use super::{Node, World};
use crate::bio::Op;
use crate::error::SimError;
use crate::events::{Event, Time};
use crate::outcome::Outcome;
use crate::task::Role;
use crate::task::job::Wish;
use crate::task::journal::Step;

impl World {
    /// Plays everything, and says what was measured; nothing if it was told to stop.
    pub fn play(mut self, stop: &dyn Fn() -> bool) -> Result<Option<Outcome>, SimError> {
        let ended = self.go(stop);
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(ended.then(|| self.outcome())),
        }
    }

    /// Plays until the jobs end, or the time is over. False if it was told to stop.
    pub(super) fn go(&mut self, stop: &dyn Fn() -> bool) -> bool {
        for task in 0..self.tasks.len() as u32 {
            self.events.at(0, Event::Task(task));
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
            if time > self.runtime && self.replays {
                self.now = self.runtime;
                break;
            }
            self.now = time;
            events = events.wrapping_add(1);
            if events & 0xffff == 0 && stop() {
                return false;
            }
            match event {
                Event::Task(task) => self.go_on(task),
                Event::Done(request) => self.complete(request),
                Event::Mechanism(node) => {
                    if let Node::Disk(queue) = &mut self.nodes[node as usize] {
                        queue.mechanism_free(time, &mut self.events);
                    }
                }
            }
            if self.gathering.ios >= self.max_ios {
                break;
            }
        }
        true
    }

    /// As [`play`](Self::play), and sees that nothing is left behind when everything has come to rest.
    #[cfg(test)]
    pub fn play_out(mut self) -> Outcome {
        self.go(&|| false);
        let end = self.now;
        assert_eq!(self.running, 0, "jobs that wait for ever");
        self.running = usize::MAX;
        self.run(&|| false);
        assert_eq!((self.bios.in_use(), self.requests.in_use()), (0, 0), "bios, requests");
        assert_eq!(self.ios.len(), self.free_ios.len());
        for node in &self.nodes {
            if let Node::Array(array) = node {
                array.assert_idle();
            }
        }
        self.now = end;
        self.outcome()
    }

    /// A task runs.
    fn go_on(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        if task.finished {
            return;
        }
        if task.blocked {
            if matches!(task.role, Role::Replay(_)) {
                return self.replay(number);
            }
            task.blocked = false;
            if !self.send_work(number) {
                return;
            }
            match self.tasks[number as usize].role {
                Role::Job(_) => self.end_submission(number),
                Role::Journal(_) | Role::Replay(_) => self.unplug(number),
                Role::Thread(_) | Role::Bitmap(_) | Role::Sync(_) => {
                    self.events.at(self.now, Event::Task(number));
                }
            }
            return;
        }
        match task.role {
            Role::Job(_) => self.job(number),
            Role::Journal(_) => self.journal(number),
            Role::Replay(_) => self.replay(number),
            Role::Thread(node) => self.thread(number, node),
            Role::Bitmap(node) => self.bitmap(number, node),
            Role::Sync(node) => self.sync(number, node),
        }
    }

    /// A job reaps what it can, and submits one I/O, or sleeps.
    #[inline]
    fn job(&mut self, number: u32) {
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
            self.gathering.count(task.group, done.op, done.bytes, done.start, now);
        }
        if holds {
            // The inode's lock is held by whoever waits for the journal, so everyone waits.
            self.held.push(number);
            return;
        }
        if now >= self.runtime {
            job.stop();
        }
        let wish = job.wish(now);
        match wish {
            Wish::Submit(op, byte, bytes) => {
                task.batched += 1;
                self.make_io(number, op, byte / 512, bytes, true);
                if op == Op::Write {
                    self.changed();
                }
                if self.send_work(number) {
                    self.end_submission(number);
                }
            }
            Wish::Flush => {
                task.flushing = true;
                self.make_io(number, Op::Flush, 0, 0, true);
                if self.send_work(number) {
                    self.unplug(number);
                }
            }
            Wish::Wait => {
                task.batched = 0;
                let more = job.completed.len() as u32 >= job.wakes_at();
                task.sleeping = !more;
                self.unplug(number);
                if more {
                    self.events.at(now + self.host.reap_ns, Event::Task(number));
                }
            }
            Wish::Until(time) => {
                task.batched = 0;
                self.unplug(number);
                self.events.at(time.min(self.runtime), Event::Task(number));
            }
            Wish::Finish => {
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
        self.events.at(self.now + cost, Event::Task(number));
    }

    /// The processor's time for one I/O.
    #[inline]
    pub(super) fn submission(&mut self) -> Time {
        let cost = self.host.submit_ns + self.host.reap_ns + self.depth * self.host.md_ns;
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
                    self.events.at(self.now + self.host.wake_ns, Event::Task(number));
                    return;
                }
                job.completed.push_back(io);
                if task.sleeping && job.completed.len() as u32 >= job.wakes_at() {
                    task.sleeping = false;
                    self.events.at(self.now + self.host.wake_ns, Event::Task(number));
                }
            }
            Role::Journal(_) => {
                self.free_ios.push(io);
                self.events.at(self.now, Event::Task(number));
            }
            Role::Replay(_) => self.replay_done(number, io),
            // Arrays' own I/O is not a task's.
            Role::Thread(_) | Role::Bitmap(_) | Role::Sync(_) => {}
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
                self.events.at(due, Event::Task(number));
            }
            Step::Due(_) | Step::Metadata => {}
            _ => journal.changed = journal.changed.or(Some(self.now)),
        }
    }

    /// The journal's next step: each begins when the one before is done.
    fn journal(&mut self, number: u32) {
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
            self.make_io(number, op, sector, bytes, false);
            if self.send_work(number) {
                self.unplug(number);
            }
        } else if let Some(since) = journal.changed.take() {
            let due = (since + journal.interval).max(now);
            journal.step = Step::Due(due);
            self.events.at(due, Event::Task(number));
        }
        if step == Step::Before {
            let held: Vec<u32> = self.held.drain(..).collect();
            for task in held {
                self.events.at(now + self.host.wake_ns, Event::Task(task));
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        let end: Time = self.now;
        let mut devices = Vec::new();
        let mut arrays = Vec::new();
        for node in &mut self.nodes {
            match node {
                Node::Disk(queue) => devices.push(queue.finish()),
                Node::Array(array) => arrays.push(std::mem::take(&mut array.stats)),
            }
        }
        let simulated_ios = self.gathering.ios + self.disk_ios;
        let (runtime_ns, groups, [read, write], series) = self.gathering.finish(end);
        let processor_ns = self.processor;
        Outcome {
            runtime_ns,
            watched_ns: end,
            read,
            write,
            groups,
            devices,
            arrays,
            series,
            processor_ns,
            simulated_ios,
        }
    }
}
